//! Anything at all given to what the crate offers to others: an answer or a refusal, never a panic, and no answer that is
//! wrong. (Spec strings: `specs.rs`.)

use crate::plans::is_sound;
use proptest::prelude::*;
use std::ops::ControlFlow;
use weft_codes::families::ldpc::{self, Graph, Search};
use weft_codes::families::{Problem, families};
use weft_codes::{
    Code, Compiled, Erasures, Executor, Matrix, Offer, Offers, Op, PlanError, Program, SymbolId, Wanted, analysis,
    linear, reference,
};

/// Mostly below a few, now and then far beyond.
fn number() -> impl Strategy<Value = usize> {
    prop_oneof![8 => 0usize..6, 3 => 0usize..40, 1 => any::<usize>(), 1 => Just(usize::MAX)]
}

fn matrix() -> impl Strategy<Value = Matrix> {
    (0usize..4, 0usize..4, any::<u64>()).prop_map(|(rows, columns, seed)| {
        Matrix::from_fn(rows, columns, |row, column| (seed >> (row * 16 + column * 4)) as u8)
    })
}

fn operation() -> impl Strategy<Value = Op> {
    let symbols = || prop::collection::vec(number(), 0..4);
    prop_oneof![
        (number(), number()).prop_map(|(from, to)| Op::Copy { from, to }),
        (symbols(), number()).prop_map(|(from, to)| Op::Xor { from, to }),
        (symbols(), symbols(), matrix()).prop_map(|(from, to, coefficients)| Op::Dot { from, to, coefficients }),
    ]
}

/// Hardly ever valid.
fn any_program() -> impl Strategy<Value = Program> {
    (number(), number(), number(), prop::collection::vec(operation(), 0..6)).prop_map(
        |(input_count, output_count, temporary_count, ops)| Program { input_count, output_count, temporary_count, ops },
    )
}

/// Valid: every symbol but the inputs is written in turn, from any before it; operations of nothing among them.
fn valid_program() -> impl Strategy<Value = Program> {
    let drawn = (0usize..4, prop::collection::vec(any::<prop::sample::Index>(), 0..5), any::<u64>());
    (0usize..4, prop::collection::vec(drawn, 0..8)).prop_map(|(input_count, drawn)| {
        let mut next = input_count;
        let mut ops = Vec::new();
        for (target_count, sources, seed) in drawn {
            let from: Vec<SymbolId> =
                if next == 0 { Vec::new() } else { sources.iter().map(|s| s.index(next)).collect() };
            let to: Vec<SymbolId> = (next..next + target_count).collect();
            next += target_count;
            ops.push(match (&from[..], &to[..]) {
                (&[from], &[to]) => Op::Copy { from, to },
                (_, &[to]) if seed & 1 == 0 => Op::Xor { from, to },
                _ => {
                    let element = |row: usize, column: usize| (seed >> ((row * 5 + column) * 3 % 60)) as u8;
                    let coefficients = Matrix::from_fn(to.len(), from.len(), element);
                    Op::Dot { from, to, coefficients }
                }
            });
        }
        Program { input_count, output_count: next - input_count, temporary_count: 0, ops }
    })
}

fn any_offers() -> impl Strategy<Value = Vec<Option<Offer>>> {
    let price = || prop_oneof![6 => 0u64..6, 1 => any::<u64>(), 1 => Just(u64::MAX)];
    let offer = (any::<bool>(), price(), price()).prop_map(|(combines, request_price, symbol_price)| Offer {
        combines,
        request_price,
        symbol_price,
    });
    prop::collection::vec(prop::option::weighted(0.85, offer), 32)
}

/// What may be wanted of a code: sometimes what it has not, sometimes one thing twice.
fn wanted_of(code: &dyn Code, of_shards: bool, drawn: &[(usize, bool)]) -> Wanted {
    let count = if of_shards { code.shape().n } else { code.shape().native_count };
    let indices = drawn.iter().map(|&(index, is_there)| if is_there { index % count } else { index }).collect();
    if of_shards { Wanted::Shards(indices) } else { Wanted::Natives(indices) }
}

/// The examples of the families, but smaller where these have hundreds of symbols.
fn specs() -> Vec<&'static str> {
    let smaller = |spec| match spec {
        "mojette:4+2" => "mojette:4+2,l=3",
        "lrc-uniform:24+2+2" => "lrc-uniform:8+2+2",
        other => other,
    };
    families().iter().map(|family| smaller(family.example)).collect()
}

proptest! {
    #[test]
    fn any_program_is_run_or_refused(program in prop_oneof![any_program(), valid_program()]) {
        let verified = program.verify();
        let (input_count, output_count) = (program.input_count, program.output_count);
        match Compiled::new(program.clone()) {
            Err(error) => {
                prop_assert!(!error.to_string().contains('\n'));
                prop_assert_eq!(verified, Err(error));
            }
            Ok(compiled) if input_count.max(output_count) < 100 => {
                prop_assert_eq!(verified, Ok(()));
                let inputs: Vec<Vec<u8>> = (0..input_count).map(|input| vec![input as u8 + 3; 70]).collect();
                let views: Vec<&[u8]> = inputs.iter().map(Vec::as_slice).collect();
                for executor in Executor::all() {
                    let mut outputs = vec![vec![0x5a; 70]; output_count];
                    let mut buffers: Vec<&mut [u8]> = outputs.iter_mut().map(Vec::as_mut_slice).collect();
                    prop_assert_eq!(executor.run(&compiled, &views, &mut buffers), Ok(()), "{}", executor.name());
                    if input_count > 0 {
                        prop_assert_eq!(&outputs, &reference::run(&program, &inputs), "{}\n{}", executor.name(), program);
                    }
                }
            }
            Ok(_) => {}
        }
    }

    #[test]
    fn any_buffers_are_filled_or_refused(
        input_lengths in prop::collection::vec(0usize..4, 0..5),
        output_lengths in prop::collection::vec(0usize..4, 0..4),
        symbol_bytes in prop_oneof![4 => 0usize..4, 1 => any::<usize>()],
    ) {
        let compiled = Compiled::new(weft_codes::parse("rs:3+2").expect("a code").encode().clone()).expect("valid");
        let memory = [7; 4];
        let inputs: Vec<&[u8]> = input_lengths.iter().map(|&length| &memory[..length]).collect();
        let fits = input_lengths.len() == 3 && output_lengths.len() == 2
            && input_lengths.iter().chain(&output_lengths).all(|&length| length == input_lengths[0]);
        let pieces_fit = |lengths: &[usize], count: usize| match symbol_bytes {
            // Pieces of nothing are as many symbols of nothing as there are.
            0 => lengths.iter().all(|&length| length == 0),
            _ => lengths.iter().all(|length| length % symbol_bytes == 0)
                && lengths.iter().sum::<usize>() / symbol_bytes == count,
        };
        for executor in Executor::all() {
            let filled = |run: &dyn Fn(&mut [&mut [u8]]) -> bool| {
                let mut outputs: Vec<Vec<u8>> = output_lengths.iter().map(|&length| vec![0x5a; length]).collect();
                let is_done = run(&mut outputs.iter_mut().map(Vec::as_mut_slice).collect::<Vec<_>>());
                (is_done, outputs.iter().flatten().all(|&byte| byte == 0x5a))
            };
            let (is_done, is_untouched) = filled(&|outputs| executor.run(&compiled, &inputs, outputs).is_ok());
            prop_assert!(is_done == fits && (is_done || is_untouched), "{}", executor.name());
            let (is_done, is_untouched) =
                filled(&|outputs| executor.run_pieces(&compiled, symbol_bytes, &inputs, outputs).is_ok());
            let fits = pieces_fit(&input_lengths, 3) && pieces_fit(&output_lengths, 2);
            prop_assert!((symbol_bytes == 0 || is_done == fits) && (is_done || is_untouched), "{}", executor.name());
        }
    }

    #[test]
    fn any_question_is_answered_soundly_or_refused(
        spec in prop::sample::select(specs()),
        of_shards in any::<bool>(),
        drawn in prop::collection::vec((number(), prop::bool::weighted(0.95)), 0..6),
        offers in any_offers(),
        offer_count in prop::option::weighted(0.05, 0usize..32),
    ) {
        let code = weft_codes::parse(spec).expect(spec);
        let shape = code.shape();
        let have = Offers(offers.into_iter().take(offer_count.unwrap_or(shape.n)).collect());
        let wanted = wanted_of(&*code, of_shards, &drawn);
        let generator = linear::generator(&*code).expect(spec);
        let engine = linear::plan(&*code, &generator, &wanted, &have);
        match code.plan(&wanted, &have) {
            Ok(plan) => {
                prop_assert!(engine.is_ok(), "{spec}: {wanted}");
                is_sound(&*code, &wanted, &have, &plan);
            }
            Err(error @ PlanError::OfferCount { .. }) => {
                prop_assert!(have.0.len() != shape.n);
                prop_assert_eq!(engine, Err(error));
            }
            Err(error) => {
                prop_assert!(!error.to_string().contains('\n'));
                prop_assert_eq!(engine, Err(error));
            }
        }
    }

    #[test]
    fn any_losses_are_judged(
        spec in prop::sample::select(specs()),
        lost_count in number(),
        effort in prop_oneof![Just(0), Just(1 << 20), Just(1 << 24)],
        shard in number(),
    ) {
        let code = weft_codes::parse(spec).expect(spec);
        let survival = analysis::survival(&Erasures::new(&*code).expect(spec), lost_count, effort, 1);
        prop_assert!(survival.decodable <= survival.tried && survival.tried <= survival.patterns);
        prop_assert!((0.0..=1.0).contains(&survival.share()));
        let is_there = shard < code.shape().n;
        for combine in [false, true] {
            prop_assert_eq!(analysis::repair(&*code, &[shard], combine).is_ok(), is_there);
        }
        prop_assert_eq!(analysis::locality(&*code, shard).is_ok(), is_there);
    }

    #[test]
    fn any_graph_is_made_or_refused(
        text in prop_oneof![
            ".{0,60}",
            "([0-9]{1,2}\\+[0-9])?(\n([0-9 #x]{0,6}))*",
            "[0-9]{1,4}\\+[0-9]{1,3}:[0-9a-g,]{0,40}",
        ],
        data_count in number(),
        checks in prop::collection::vec(prop::collection::vec(number(), 0..4), 0..4),
        masks in prop::collection::vec(any::<u64>(), 0..4),
    ) {
        for made in [Graph::from_file(&text), Graph::from_spec(&text), Graph::new(data_count, checks),
            Graph::from_masks(data_count, &masks), ldpc::named_or_given(&text)] {
            match made {
                Ok(graph) => prop_assert_eq!(Graph::from_spec(&graph.to_spec()), Ok(graph)),
                Err(Problem::Impossible(sentence)) => prop_assert!(!sentence.is_empty() && !sentence.contains('\n')),
                Err(Problem::Syntax) => {}
            }
        }
    }

    #[test]
    fn any_search_ends(
        data_count in number(),
        check_count in number(),
        seed in any::<u64>(),
        iterations in 0u64..20,
        by_peeling in any::<bool>(),
    ) {
        let decoder = if by_peeling { ldpc::Decoder::Peeling } else { ldpc::Decoder::Elimination };
        // The largest would take long.
        let is_small = |count: usize| !(9..=64).contains(&count);
        prop_assume!(is_small(data_count) && is_small(check_count));
        let task = Search { data_count, check_count, decoder, goal: ldpc::Goal::MostLosses, seed, iterations };
        if let Ok(found) = ldpc::search(&task, |_, _| ControlFlow::Continue(())) {
            prop_assert_eq!((found.graph.data_count(), found.graph.block_count()), (data_count, data_count + check_count));
        }
    }
}
