use super::*;
use crate::families::rs_vandermonde::isal_vandermonde;
use crate::gf;
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
    fn share_leaves_the_meaning(program in programs()) {
        leaves_the_meaning(share, program);
    }

    #[test]
    fn unshare_leaves_the_meaning(program in programs()) {
        leaves_the_meaning(unshare, program);
    }

    #[test]
    fn inline_leaves_the_meaning(program in programs()) {
        leaves_the_meaning(inline, program);
    }

    #[test]
    fn schedule_leaves_the_meaning(program in programs()) {
        leaves_the_meaning(schedule, program);
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
fn what_sums_have_in_common_is_computed_once() {
    let sum = |from: &[SymbolId], to| Op::Xor { from: from.to_vec(), to };
    let ops = vec![sum(&[0, 1, 2, 3], 5), sum(&[0, 1, 2], 6), sum(&[1, 2, 4], 7)];
    let program = Program { input_count: 5, output_count: 3, temporary_count: 0, ops };
    assert_eq!((program.xor_count(), program.access_count()), (7, 13));
    let shared = share(program);
    assert_eq!(
        shared.to_string(),
        "5 inputs, 3 outputs, 2 temporaries\n\
         t0 = i1 + i2\nt1 = i0 + t0\no0 = i3 + t1\no1 = t1\no2 = i4 + t0\n"
    );
    assert_eq!((shared.xor_count(), shared.access_count()), (4, 14));
}

/// Direct, and as compressed by Uezato's XorRePair: encoding and a decoding of ISA-L's 10+4 in bits.
#[test]
fn sums_are_shared_as_well_as_in_the_literature() {
    let bits = |matrix: &Matrix| {
        Matrix::from_fn(8 * matrix.rows(), 8 * matrix.columns(), |row, column| {
            gf::mul(matrix.at(row / 8, column / 8), 1 << (column % 8)) >> (row % 8) & 1
        })
    };
    let ones = |matrix: &Matrix| -> usize {
        (0..matrix.rows()).flat_map(|row| matrix.row(row)).map(|&bit| usize::from(bit)).sum()
    };
    let coding = isal_vandermonde(10, 4);
    let generator = Matrix::identity(10).stack(&coding);
    let left: Vec<usize> = (0..14).filter(|shard| ![2, 4, 5, 6].contains(shard)).collect();
    let inverse = generator.select_rows(&left).inverse().expect("10+4 is MDS");
    let decoding = inverse.select_rows(&[2, 4, 5, 6]);
    for (matrix, direct, published) in [(coding, 755, 385), (decoding, 1368, 511)] {
        let matrix = bits(&matrix);
        assert_eq!(ones(&matrix) - matrix.rows(), direct);
        let program = Program::from_matrix(&matrix);
        let (xors, accesses) = (program.xor_count(), program.access_count());
        println!("{direct} direct, {published} published, {xors} ours with {accesses} accesses");
        assert!(xors * 100 <= published * 107, "{xors}");
        assert_eq!(program.to_matrix(), Ok(matrix));
    }
}

#[test]
fn inputs_that_nothing_reads_are_dropped() {
    let ops = vec![Op::Xor { from: vec![1, 3], to: 5 }, Op::Xor { from: vec![3, 5], to: 4 }];
    let (program, kept) = drop_unread(Program { input_count: 4, output_count: 1, temporary_count: 1, ops });
    assert_eq!(kept, [1, 3]);
    assert_eq!(program.to_string(), "2 inputs, 1 outputs, 1 temporaries\nt0 = i0 + i1\no0 = i1 + t0\n");
}

#[test]
fn chains_of_sums_become_one() {
    let ops = vec![
        Op::Xor { from: vec![0, 1], to: 5 },
        Op::Xor { from: vec![5, 2], to: 6 },
        Op::Xor { from: vec![6, 0], to: 3 },
        Op::Copy { from: 1, to: 4 },
    ];
    let program = Program { input_count: 3, output_count: 2, temporary_count: 2, ops };
    assert_eq!(
        schedule(drop_dead(inline(program))).to_string(),
        "3 inputs, 2 outputs, 0 temporaries\no0 = i1 + i2\no1 = i1\n"
    );
}

#[test]
fn unshare_keeps_what_is_dearer_to_load_than_to_store() {
    let sum = |from: &[SymbolId], to| Op::Xor { from: from.to_vec(), to };
    // A pair that two sums read is loaded again, a pair that four read is stored.
    let shared = |reader_count: usize| {
        let readers = (0..reader_count).map(|reader| sum(&[2 + reader, 6 + reader_count], 6 + reader));
        let ops = [sum(&[0, 1], 6 + reader_count)].into_iter().chain(readers).collect();
        Program { input_count: 6, output_count: reader_count, temporary_count: 1, ops }
    };
    assert_eq!(unshare(shared(2)).ops, [sum(&[0, 1, 2], 6), sum(&[0, 1, 3], 7)]);
    assert_eq!(unshare(shared(4)), shared(4));
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
