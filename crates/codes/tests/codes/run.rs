//! The executors against the reference: any program, any length, any alignment; and refusals.

use crate::stripe::run_on;
use proptest::prelude::*;
use weft_codes::{Compiled, Executor, Matrix, Program, RunError, reference};

/// Rows that are random, all ones, a single one, or zero: every kind of step.
fn matrix() -> impl Strategy<Value = Matrix> {
    (1usize..20, 1usize..15).prop_flat_map(|(rows, columns)| {
        let row = prop_oneof![
            4 => prop::collection::vec(any::<u8>(), columns),
            1 => Just(vec![1; columns]),
            1 => (0..columns).prop_map(move |one| (0..columns).map(|column| u8::from(column == one)).collect()),
            1 => Just(vec![0; columns]),
        ];
        prop::collection::vec(row, rows)
            .prop_map(move |rows| Matrix::from_rows(columns, &rows).expect("rows of equal length"))
    })
}

fn symbols(count: usize, symbol_bytes: usize, seed: u8) -> Vec<Vec<u8>> {
    let byte = |symbol: usize, at: usize| (symbol * 101 + at * 37 + (at >> 7) * 11 + usize::from(seed)) as u8;
    (0..count).map(|symbol| (0..symbol_bytes).map(|at| byte(symbol, at)).collect()).collect()
}

proptest! {
    #[test]
    fn all_kernels_agree_with_the_reference(matrix in matrix(), symbol_bytes in 0usize..1400, seed in any::<u8>()) {
        let program = Program::from_matrix(&matrix);
        prop_assert_eq!(program.to_matrix().expect("a valid program"), matrix.clone());
        let inputs = symbols(matrix.columns(), symbol_bytes, seed);
        let right = reference::run(&program, &inputs);
        for executor in Executor::all() {
            prop_assert_eq!(&run_on(&executor, &program, &inputs), &right, "{}", executor.name());
        }
    }

    #[test]
    fn alignment_does_not_matter(starts in prop::collection::vec(0usize..64, 6), symbol_bytes in 0usize..700) {
        let program = weft_codes::parse("rs:4+2").expect("a code").encode().clone();
        let aligned = symbols(4, symbol_bytes, 3);
        let right = reference::run(&program, &aligned);
        let compiled = Compiled::new(program).expect("a valid program");
        let shifted: Vec<Vec<u8>> =
            aligned.iter().zip(&starts).map(|(symbol, &start)| [&vec![0; start][..], symbol].concat()).collect();
        let inputs: Vec<&[u8]> = shifted.iter().zip(&starts).map(|(symbol, &start)| &symbol[start..]).collect();
        for executor in Executor::all() {
            // A byte on either side of each output shows whether anything is written outside.
            let mut outputs: Vec<Vec<u8>> = starts[4..].iter().map(|start| vec![0x5a; start + symbol_bytes + 2]).collect();
            let mut buffers: Vec<&mut [u8]> = outputs
                .iter_mut()
                .zip(&starts[4..])
                .map(|(output, &start)| &mut output[start + 1..start + 1 + symbol_bytes])
                .collect();
            executor.run(&compiled, &inputs, &mut buffers).expect("symbols are equally long");
            for ((output, &start), right) in outputs.iter().zip(&starts[4..]).zip(&right) {
                prop_assert_eq!(&output[start + 1..start + 1 + symbol_bytes], &right[..], "{}", executor.name());
                prop_assert!(output[..=start].iter().all(|&byte| byte == 0x5a), "{}", executor.name());
                prop_assert_eq!(output[start + 1 + symbol_bytes], 0x5a, "{}", executor.name());
            }
        }
    }
}

#[test]
fn wide_codes_and_long_symbols() {
    for (spec, symbol_bytes) in [("rs:100+100", 1025), ("rs:3+253", 777), ("rs:255+1", 300), ("rs:8+8", 70_001)] {
        let program = weft_codes::parse(spec).expect(spec).encode().clone();
        let inputs = symbols(program.input_count, symbol_bytes, 9);
        let right = reference::run(&program, &inputs);
        for executor in Executor::all() {
            assert!(run_on(&executor, &program, &inputs) == right, "{spec} on {}", executor.name());
        }
    }
}

#[test]
fn the_fastest_kernels_pass_the_self_test() {
    let all = Executor::all();
    assert_eq!(Executor::new().name(), all[0].name());
    assert_eq!(all[all.len() - 1].name(), "portable");
}

#[test]
fn wrong_counts_and_lengths_are_refused_and_nothing_is_written() {
    let compiled = Compiled::new(weft_codes::parse("rs:2+2").expect("a code").encode().clone()).expect("valid");
    let data = &[7u8; 10][..];
    let refused = |inputs: &[&[u8]], lengths: &[usize]| {
        let mut outputs: Vec<Vec<u8>> = lengths.iter().map(|&length| vec![0x5a; length]).collect();
        let mut buffers: Vec<&mut [u8]> = outputs.iter_mut().map(Vec::as_mut_slice).collect();
        let error = weft_codes::executor().run(&compiled, inputs, &mut buffers).expect_err("not to be run");
        assert!(outputs.iter().flatten().all(|&byte| byte == 0x5a), "{error}");
        error
    };
    assert_eq!(refused(&[data], &[10, 10]), RunError::InputCount { expected: 2, given: 1 });
    assert_eq!(refused(&[data; 2], &[10]), RunError::OutputCount { expected: 2, given: 1 });
    assert_eq!(refused(&[data, &data[1..]], &[10, 10]), RunError::InputLength { input: 1, expected: 10, given: 9 });
    assert_eq!(refused(&[data; 2], &[10, 11]), RunError::OutputLength { output: 1, expected: 10, given: 11 });
    assert_eq!(
        refused(&[data, &[]], &[10, 10]).to_string(),
        "input 1 has 0 bytes but the first has 10; treat a short symbol as lost"
    );
}
