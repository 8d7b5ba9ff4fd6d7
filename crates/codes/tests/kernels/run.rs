//! The executors against the reference: any program, any length, any alignment; and refusals.

use crate::stripe::run_on;
use proptest::prelude::*;
use weft_codes::{Compiled, Executor, Matrix, Offer, Offers, Op, Program, RunError, SymbolId, Wanted, gf, reference};

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

/// Each column and a multiple of it, or two by two on the diagonal: what steps take together.
fn coupled() -> impl Strategy<Value = Matrix> {
    let multiples = (matrix(), any::<[u8; 15]>()).prop_map(|(matrix, factors)| {
        let multiple = |row, column| gf::mul(matrix.at(row, column), factors[column]);
        matrix.beside(&Matrix::from_fn(matrix.rows(), matrix.columns(), multiple))
    });
    let pairs = (2usize..20, any::<u64>()).prop_map(|(size, seed)| {
        let element = |row: usize, column: usize| (seed >> ((row * 7 + column * 5) % 57)) as u8;
        Matrix::from_fn(size, size, |row, column| if row / 2 == column / 2 { element(row, column) } else { 0 })
    });
    prop_oneof![multiples, pairs]
}

/// Groups of operations, each one operation over and over with all symbols one higher, that read inputs and whatever
/// was written before; the last group writes the outputs.
fn program_with_runs() -> impl Strategy<Value = Program> {
    let group = (1usize..10, 1usize..8, 0usize..12, any::<u64>());
    (10usize..30, prop::collection::vec(group, 1..8)).prop_map(|(input_count, groups)| {
        let written_count = |group: &(usize, usize, usize, u64)| group.0 * group.1;
        let output_count = groups.last().map_or(0, written_count);
        let temporary_count = groups.iter().map(written_count).sum::<usize>() - output_count;
        let mut ops = Vec::new();
        let mut next_temporary = input_count + output_count;
        for (index, &(repeat_count, target_count, source_count, choice)) in groups.iter().enumerate() {
            let first_target = if index + 1 == groups.len() { input_count } else { next_temporary };
            let mut mixed = choice;
            let mut pick = |below: usize| {
                mixed = mixed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (mixed >> 33) as usize % below
            };
            let temporaries = (input_count + output_count, next_temporary - input_count - output_count);
            let sources: Vec<SymbolId> = (0..source_count)
                .map(|_| {
                    let (first, count) =
                        if temporaries.1 >= repeat_count && pick(2) == 1 { temporaries } else { (0, input_count) };
                    first + pick(count - repeat_count + 1)
                })
                .collect();
            let coefficients = Matrix::from_fn(target_count, source_count, |_, _| pick(256) as u8);
            for repeat in 0..repeat_count {
                let from: Vec<SymbolId> = sources.iter().map(|source| source + repeat).collect();
                let to = |target: usize| first_target + target * repeat_count + repeat;
                match (target_count, &from[..]) {
                    (1, &[from]) => ops.push(Op::Copy { from, to: to(0) }),
                    (1, _) => ops.push(Op::Xor { from, to: to(0) }),
                    _ => {
                        let to = (0..target_count).map(to).collect();
                        ops.push(Op::Dot { from, to, coefficients: coefficients.clone() });
                    }
                }
            }
            if index + 1 < groups.len() {
                next_temporary += repeat_count * target_count;
            }
        }
        Program { input_count, output_count, temporary_count, ops }
    })
}

fn one_operation(matrix: &Matrix) -> Program {
    let (input_count, output_count) = (matrix.columns(), matrix.rows());
    let (from, to) = ((0..input_count).collect(), (input_count..input_count + output_count).collect());
    let ops = vec![Op::Dot { from, to, coefficients: matrix.clone() }];
    Program { input_count, output_count, temporary_count: 0, ops }
}

fn symbols(count: usize, symbol_bytes: usize, seed: u8) -> Vec<Vec<u8>> {
    let byte = |symbol: usize, at: usize| (symbol * 101 + at * 37 + (at >> 7) * 11 + usize::from(seed)) as u8;
    (0..count).map(|symbol| (0..symbol_bytes).map(|at| byte(symbol, at)).collect()).collect()
}

proptest! {
    #[test]
    fn all_kernels_agree_with_the_reference(
        matrix in prop_oneof![matrix(), coupled()],
        symbol_bytes in 0usize..1400,
        seed in any::<u8>(),
    ) {
        // As one operation, which no pass has taken apart.
        let program = one_operation(&matrix);
        prop_assert_eq!(program.to_matrix().expect("a valid program"), matrix.clone());
        let inputs = symbols(matrix.columns(), symbol_bytes, seed);
        let right = reference::run(&program, &inputs);
        for executor in Executor::all() {
            prop_assert_eq!(&run_on(&executor, &program, &inputs), &right, "{}", executor.name());
        }
    }

    /// Symbols lie one after the other but for a gap now and then, as cells of several symbols do.
    #[test]
    fn runs_and_temporaries_agree_with_the_reference(
        program in program_with_runs(),
        symbol_bytes in prop_oneof![0usize..200, Just(256), Just(512), 0usize..2500],
        start in 0usize..3,
        symbols_per_cell in 1usize..20,
    ) {
        prop_assert_eq!(program.verify(), Ok(()));
        let inputs = symbols(program.input_count, symbol_bytes, 5);
        let right = reference::run(&program, &inputs);
        let (input_count, output_count) = (program.input_count, program.output_count);
        let compiled = Compiled::new(program).expect("a valid program");
        let cell_bytes = symbols_per_cell * symbol_bytes + 1;
        let start_of = |symbol: usize| {
            start + symbol / symbols_per_cell * cell_bytes + symbol % symbols_per_cell * symbol_bytes
        };
        for executor in Executor::all() {
            let mut memory = vec![0x5a; start_of(input_count + output_count) + 1];
            for (symbol, input) in inputs.iter().enumerate() {
                memory[start_of(symbol)..start_of(symbol) + symbol_bytes].copy_from_slice(input);
            }
            let (given, mut rest) = memory.split_at_mut(start_of(input_count));
            let views: Vec<&[u8]> =
                (0..input_count).map(|symbol| &given[start_of(symbol)..start_of(symbol) + symbol_bytes]).collect();
            let mut buffers: Vec<&mut [u8]> = Vec::new();
            for symbol in input_count..input_count + output_count {
                let (buffer, after) = rest.split_at_mut(symbol_bytes);
                buffers.push(buffer);
                rest = &mut after[start_of(symbol + 1) - start_of(symbol) - symbol_bytes..];
            }
            // Twice, since the second run finds the scratch of the first.
            for _ in 0..2 {
                buffers.iter_mut().for_each(|buffer| buffer.fill(0x5a));
                executor.run(&compiled, &views, &mut buffers).expect("symbols are equally long");
                prop_assert!(buffers == right, "{}", executor.name());
            }
            let gaps = (1..input_count + output_count).filter(|symbol| symbol % symbols_per_cell == 0);
            for gap in gaps.map(|symbol| start_of(symbol) - 1) {
                prop_assert_eq!(memory[gap], 0x5a, "{}", executor.name());
            }
        }
    }

    #[test]
    fn pieces_of_several_symbols_are_as_good_as_symbols(
        program in program_with_runs(),
        // One after the other, so that nothing may be left of how symbols lay before.
        lies in prop::collection::vec((prop_oneof![0usize..200, Just(256), 0usize..2500], 1usize..20), 1..4),
    ) {
        let compiled = Compiled::new(program.clone()).expect("a valid program");
        for (symbol_bytes, symbols_per_piece) in lies {
            let inputs = symbols(program.input_count, symbol_bytes, 9);
            let right = reference::run(&program, &inputs).concat();
            let piece_bytes = (symbols_per_piece * symbol_bytes).max(1);
            let joined: Vec<Vec<u8>> = inputs.chunks(symbols_per_piece).map(<[_]>::concat).collect();
            let pieces: Vec<&[u8]> = joined.iter().map(Vec::as_slice).collect();
            for executor in Executor::all() {
                let mut outputs = vec![0x5a; right.len()];
                let mut buffers: Vec<&mut [u8]> = outputs.chunks_mut(piece_bytes).collect();
                let ran = executor.run_pieces(&compiled, symbol_bytes, &pieces, &mut buffers);
                prop_assert_eq!(ran, Ok(()), "{}", executor.name());
                prop_assert!(outputs == right, "{}", executor.name());
            }
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

/// Symbols shorter than a vector, and broken ones, go through vector kernels too, which touch nothing beside them.
#[test]
fn every_short_length() {
    let encode = |spec: &str| weft_codes::parse(spec).expect(spec).encode().clone();
    let pairs =
        Matrix::from_fn(6, 6, |row, column| if row / 2 == column / 2 { (row * 7 + column + 2) as u8 } else { 0 });
    let sums = (1..=9).map(|sources| one_operation(&Matrix::from_fn(1, sources, |_, _| 1)));
    let dense = (1..=8).map(|targets| one_operation(&Matrix::from_fn(targets, 5, |r, c| (r * 29 + c * 3 + 2) as u8)));
    // A recurrence, networks, coupled planes, slanted sums, and many sums.
    let mojette = weft_codes::parse("mojette:3+2,l=9").expect("a code");
    let offer = Offer { combines: false, request_price: 0, symbol_price: 1 };
    let have = Offers((0..5).map(|shard| (shard > 1).then_some(offer)).collect());
    let lost = mojette.plan(&Wanted::Shards(vec![0, 1]), &have).expect("two may be lost").program;
    let whole = ["rs:16+16", "clay:4+2", "mojette:3+2,l=4", "basic:3+3,d=4"].map(encode);
    for program in sums.chain(dense).chain([one_operation(&pairs), lost]).chain(whole) {
        let compiled = Compiled::new(program.clone()).expect("a valid program");
        for symbol_bytes in 1..=200 {
            let inputs = symbols(program.input_count, symbol_bytes, 3);
            let right = reference::run(&program, &inputs);
            let views: Vec<&[u8]> = inputs.iter().map(Vec::as_slice).collect();
            for executor in Executor::all() {
                let mut outputs = vec![vec![0x5a; symbol_bytes + 2]; program.output_count];
                let mut buffers: Vec<&mut [u8]> =
                    outputs.iter_mut().map(|output| &mut output[1..=symbol_bytes]).collect();
                executor.run(&compiled, &views, &mut buffers).expect("symbols are equally long");
                for (output, right) in outputs.iter().zip(&right) {
                    let what = format!("{symbol_bytes} bytes on {}", executor.name());
                    assert!(output[1..=symbol_bytes] == right[..], "{what}");
                    assert_eq!([output[0], output[symbol_bytes + 1]], [0x5a; 2], "{what}");
                }
            }
        }
    }
}

#[test]
fn wide_codes_and_long_symbols() {
    for (spec, symbol_bytes) in [("rs:100+100", 1025), ("rs:3+253", 777), ("rs:255+1", 300), ("rs:8+8", 70_001)] {
        let program = weft_codes::parse(spec).expect(spec).encode().clone();
        is_run_rightly(spec, &program, symbol_bytes);
    }
}

fn is_run_rightly(what: &str, program: &Program, symbol_bytes: usize) {
    let inputs = symbols(program.input_count, symbol_bytes, 9);
    let right = reference::run(program, &inputs);
    for executor in Executor::all() {
        assert!(run_on(&executor, program, &inputs) == right, "{what} on {}", executor.name());
    }
}

/// Rebuilding of many shards, in a row and spread out, by transforms and by the matrix.
#[test]
fn wide_codes_decode() {
    for (spec, symbol_bytes) in [("rs:50+50", 600), ("rs:100+100", 513), ("rs:64+64", 64), ("rs:16+16", 1000)] {
        let code = weft_codes::parse(spec).expect(spec);
        let (n, m) = (code.shape().n, code.shape().tolerance);
        for (first, step) in [(0, 1), (n / 3, 1), (0, 2), (1, 37)] {
            let mut lost: Vec<usize> = (0..m).map(|index| (first + step * index) % n).collect();
            lost.sort_unstable();
            lost.dedup();
            let offer = Offer { combines: false, request_price: 0, symbol_price: 1 };
            let have = Offers((0..n).map(|shard| (!lost.contains(&shard)).then_some(offer)).collect());
            let plan = code.plan(&Wanted::Shards(lost), &have).expect("no more than it tolerates");
            is_run_rightly(&format!("{spec}, lost from {first} by {step}"), &plan.program, symbol_bytes);
        }
    }
}

/// Long symbols are stored past the caches where they are aligned.
#[test]
fn symbols_of_a_mebibyte() {
    let program = weft_codes::parse("rs:3+2").expect("a code").encode().clone();
    let symbol_bytes = (1 << 20) + 77;
    let inputs = symbols(3, symbol_bytes, 1);
    let right = reference::run(&program, &inputs);
    let inputs: Vec<&[u8]> = inputs.iter().map(Vec::as_slice).collect();
    let compiled = Compiled::new(program).expect("a valid program");
    for (executor, shift) in Executor::all().iter().flat_map(|executor| [(executor, 0), (executor, 1)]) {
        let mut memory = vec![vec![0; symbol_bytes + 65]; 2];
        let mut outputs: Vec<&mut [u8]> = memory
            .iter_mut()
            .map(|output| {
                let start = output.as_ptr().align_offset(64) + shift;
                &mut output[start..start + symbol_bytes]
            })
            .collect();
        executor.run(&compiled, &inputs, &mut outputs).expect("symbols are equally long");
        assert!(outputs == right, "{}, {shift} bytes past a line", executor.name());
    }
}

/// Each operation reads what the one before wrote: no run, though ids go up by one.
#[test]
fn a_running_sum_is_no_run() {
    let count = 20;
    let sum = |at: usize| Op::Xor { from: vec![at, count + at - 1], to: count + at };
    let ops = [Op::Copy { from: 0, to: count }].into_iter().chain((1..count).map(sum)).collect();
    let program = Program { input_count: count, output_count: count, temporary_count: 0, ops };
    let inputs = symbols(count, 512, 2);
    let right = reference::run(&program, &inputs);
    let compiled = Compiled::new(program).expect("a valid program");
    for executor in Executor::all() {
        let input = inputs.concat();
        let mut output = vec![0; input.len()];
        let given: Vec<&[u8]> = input.chunks(512).collect();
        let mut buffers: Vec<&mut [u8]> = output.chunks_mut(512).collect();
        executor.run(&compiled, &given, &mut buffers).expect("symbols are equally long");
        assert!(buffers == right, "{}", executor.name());
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
    let refused_pieces = |symbol_bytes, inputs: &[&[u8]], output_bytes| {
        let mut output = vec![0x5a; output_bytes];
        let error = weft_codes::executor()
            .run_pieces(&compiled, symbol_bytes, inputs, &mut [&mut output])
            .expect_err("not to be run");
        assert!(output.iter().all(|&byte| byte == 0x5a), "{error}");
        error
    };
    assert_eq!(refused_pieces(5, &[&data[..5]], 10), RunError::InputCount { expected: 2, given: 1 });
    assert_eq!(refused_pieces(5, &[data], 15), RunError::OutputCount { expected: 2, given: 3 });
    assert_eq!(refused_pieces(4, &[data], 8), RunError::InputPiece { input: 0, symbol_bytes: 4, given: 10 });
    assert_eq!(refused_pieces(0, &[data], 8), RunError::InputPiece { input: 0, symbol_bytes: 0, given: 10 });
    assert_eq!(refused_pieces(5, &[data], 9), RunError::OutputPiece { output: 0, symbol_bytes: 5, given: 9 });
    assert_eq!(
        refused(&[data, &[]], &[10, 10]).to_string(),
        "input 1 has 0 bytes but the first has 10; treat a short symbol as lost"
    );
}
