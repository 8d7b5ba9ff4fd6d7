use super::*;
use crate::matrix::Matrix;
use crate::program::{Op, SymbolId};
use proptest::prelude::*;

/// Valid programs of all kinds of operations; few symbols, so that they share and repeat sources.
fn programs() -> impl Strategy<Value = Program> {
    let op =
        (0..3, prop::collection::vec(any::<prop::sample::Index>(), 1..5), 1usize..3, prop::collection::vec(0u8..3, 8));
    (1usize..5, 1usize..4, prop::collection::vec(op, 1..8)).prop_map(|(input_count, output_count, drawn)| {
        // Symbols are written in the order of these slots; the last ones are the outputs.
        let slots: usize = drawn.iter().map(|(_, _, targets, _)| targets).sum();
        let output_count = output_count.min(slots);
        let symbol = |slot: usize| match (slot + output_count).checked_sub(slots) {
            Some(output) => input_count + output,
            None => input_count + output_count + slot,
        };
        let mut readable: Vec<SymbolId> = (0..input_count).collect();
        let mut ops = Vec::new();
        let mut slot = 0;
        for (kind, sources, target_count, elements) in drawn {
            let from: Vec<SymbolId> = sources.iter().map(|index| *index.get(&readable)).collect();
            let to: Vec<SymbolId> = (slot..slot + target_count).map(symbol).collect();
            slot += target_count;
            match kind {
                0 => ops.extend(to.iter().map(|&to| Op::Copy { from: from[0], to })),
                1 => ops.extend(to.iter().map(|&to| Op::Xor { from: from.clone(), to })),
                _ => {
                    let element = |row: usize, column: usize| elements[(row * 4 + column) % 8];
                    let coefficients = Matrix::from_fn(to.len(), from.len(), element);
                    ops.push(Op::Dot { from, to: to.clone(), coefficients });
                }
            }
            readable.extend(to);
        }
        Program { input_count, output_count, temporary_count: slots - output_count, ops }
    })
}

fn leaves_the_meaning(pass: fn(Program) -> Program, program: Program) {
    let before = program.to_matrix().expect("generated programs are valid");
    let text = program.to_string();
    let passed = pass(program);
    assert_eq!(passed.to_matrix().as_ref(), Ok(&before), "{text}became\n{passed}");
}

proptest! {
    #[test]
    fn drop_dead_leaves_the_meaning(program in programs()) {
        leaves_the_meaning(drop_dead, program);
    }

    #[test]
    fn fuse_leaves_the_meaning(program in programs()) {
        leaves_the_meaning(fuse, program);
    }

    #[test]
    fn simplify_leaves_the_meaning(program in programs()) {
        leaves_the_meaning(simplify, program);
    }

    #[test]
    fn all_together_leave_the_meaning(program in programs()) {
        leaves_the_meaning(optimise, program);
    }
}

fn row(coefficients: &[u8], to: SymbolId) -> Op {
    let from = (0..coefficients.len()).collect();
    let coefficients = Matrix::from_fn(1, coefficients.len(), |_, column| coefficients[column]);
    Op::Dot { from, to: vec![to], coefficients }
}

#[test]
fn rows_over_the_same_symbols_become_one_operation() {
    let ops = vec![row(&[1, 1, 1], 3), row(&[1, 2, 4], 4)];
    let program = Program { input_count: 3, output_count: 2, temporary_count: 0, ops };
    assert_eq!(
        optimise(program).to_string(),
        "3 inputs, 2 outputs, 0 temporaries\no0, o1 = [1 1 1; 1 2 4] * (i0, i1, i2)\n"
    );
}

#[test]
fn what_no_output_needs_is_dropped() {
    let wide = Op::Dot { from: vec![0], to: vec![1, 2], coefficients: Matrix::from_fn(2, 1, |row, _| row as u8 + 2) };
    let ops = vec![wide, Op::Xor { from: vec![0, 2], to: 3 }];
    let program = Program { input_count: 1, output_count: 1, temporary_count: 2, ops };
    assert_eq!(optimise(program).to_string(), "1 inputs, 1 outputs, 0 temporaries\no0 = [2] * (i0)\n");
}

#[test]
fn ones_become_sums_and_copies() {
    let ops = vec![row(&[1, 1], 2), row(&[1], 3)];
    let program = Program { input_count: 2, output_count: 2, temporary_count: 0, ops };
    assert_eq!(optimise(program).to_string(), "2 inputs, 2 outputs, 0 temporaries\no0 = i0 + i1\no1 = i0\n");
}
