//! LDPC codes against what is known of their graphs.

use crate::golden::{bytes, list, number};
use crate::plans::{is_sound, question};
use crate::stripe::{Stripe, run};
use proptest::prelude::*;
use serde_json::Value;
use weft_codes::families::ldpc::{self, Decoder, Goal, Graph, Search};
use weft_codes::{Offer, Offers, PlanError, Wanted, linear, reference};

fn plank() -> Value {
    serde_json::from_str(include_str!("../golden/plank_ldpc.json")).expect("golden/plank_ldpc.json is JSON")
}

fn cern() -> Value {
    serde_json::from_str(include_str!("../golden/cern_ldpc.json")).expect("golden/cern_ldpc.json is JSON")
}

fn numbers(value: &Value) -> Vec<usize> {
    list(value).iter().map(number).collect()
}

fn masks(value: &Value) -> Vec<u64> {
    list(value).iter().map(|mask| number(mask) as u64).collect()
}

fn named(name: &str) -> Graph {
    ldpc::named_or_given(name).expect(name)
}

fn near(one: f64, other: f64) -> bool {
    (one - other).abs() < 1e-8
}

#[test]
fn published_graphs_and_their_bytes() {
    for case in list(&plank()["graphs"]) {
        let n = number(&case["n"]);
        let graph = named(&format!("plank-{n}"));
        assert_eq!(graph.checks(), list(&case["check_edges"]).iter().map(numbers).collect::<Vec<_>>());
        for (data, edges) in list(&case["left_edges"]).iter().enumerate() {
            let checks = (0..n).filter(|&check| graph.checks()[check].contains(&data)).collect::<Vec<_>>();
            assert_eq!(checks, numbers(edges), "plank-{n}, data block {data}");
        }
        let code = weft_codes::parse(&format!("ldpc:plank-{n}")).expect("a published graph");
        let data = (0..n).map(|i| (0..8).map(|b| (31 * i + 7 * b + 1) as u8).collect()).collect();
        let checks: Vec<Vec<u8>> = list(&case["vector"]["checks_hex"]).iter().map(bytes).collect();
        assert_eq!(Stripe::encode(&*code, data).stored.split_off(n), checks, "plank-{n}");
    }
}

/// Losses the published graphs and the cube survive, whichever the decoder.
#[test]
fn tolerances() {
    for (spec, tolerance) in [
        ("ldpc:plank-5", 3),
        ("ldpc:plank-10", 3),
        ("ldpc:plank-20", 4),
        ("ldpc:plank-50", 4),
        ("ldpc:plank-100", 5),
        ("ldpc:cube-8-6", 3),
    ] {
        assert_eq!(weft_codes::parse(spec).expect(spec).shape().tolerance, tolerance, "{spec}");
    }
    for case in list(&plank()["graphs"]) {
        let fatal = ldpc::smallest_fatal_loss(&named(&format!("plank-{}", case["n"])), u64::MAX);
        assert_eq!((fatal.at_least, fatal.is_exact), (number(&case["smallest_fatal_loss"]), true));
    }
}

#[test]
fn blocks_needed_by_each_order() {
    for case in list(&plank()["graphs"]) {
        let graph = named(&format!("plank-{}", case["n"]));
        for test in list(&case["order_tests"]) {
            let order = numbers(&test["order"]);
            assert_eq!(ldpc::blocks_needed(&graph, Decoder::Peeling, &order), number(&test["peel"]));
            assert_eq!(ldpc::blocks_needed(&graph, Decoder::Elimination, &order), number(&test["ml"]));
        }
    }
}

#[test]
fn exact_overheads() {
    for case in &list(&plank()["graphs"])[..2] {
        let n = number(&case["n"]);
        let graph = named(&format!("plank-{n}"));
        for (decoder, place, mean) in [(Decoder::Peeling, 1, "peel_float"), (Decoder::Elimination, 2, "ml_float")] {
            let profile = ldpc::profile(&graph, decoder).expect("a small graph");
            assert!(near(profile.mean_blocks(), case["exact"][mean].as_f64().expect("a mean")), "plank-{n}");
            for (size, &undecodable) in profile.undecodable.iter().enumerate().skip(n) {
                let counts = numbers(&case["exact"]["decodable_by_size"][size.to_string()]);
                assert_eq!(undecodable as usize, counts[0] - counts[place], "plank-{n}, {size} blocks");
            }
        }
    }
    assert!(near(ldpc::profile(&named("plank-5"), Decoder::Peeling).expect("small").mean_blocks(), 155.0 / 28.0));
}

#[test]
fn the_cube() {
    let (cern, graph) = (cern(), named("cube-8-6"));
    let best = &cern["best_8_6"];
    assert_eq!(graph, Graph::from_masks(8, &masks(&best["checks"])).expect("a graph"));
    for (decoder, name, mean) in [(Decoder::Peeling, "peel", "avg_downloads"), (Decoder::Elimination, "ml", "ml_avg")] {
        let profile = ldpc::profile(&graph, decoder).expect("a small graph");
        assert!(near(profile.mean_blocks(), best[mean].as_f64().expect("a mean")));
        assert_eq!(profile.losses_survived(), 3);
        assert_eq!(profile.undecodable[10], 34);
        for (size, sets) in best[format!("undecodable_subsets_by_size_{name}")].as_object().expect("counts") {
            assert_eq!(profile.undecodable[size.parse::<usize>().expect("a size")] as usize, number(sets));
        }
        for (availability, failure) in best[format!("failure_rate_{name}")].as_object().expect("rates") {
            let survives = profile.availability(availability.parse().expect("a probability"));
            assert!((1.0 - survives - failure.as_f64().expect("a rate")).abs() < 1e-12);
        }
    }
}

#[test]
fn all_best_known_small_graphs() {
    let cern = cern();
    for class in list(&cern["all_44_classes_8_6"]) {
        let graph = Graph::from_masks(8, &masks(&class["checks"])).expect("a graph");
        let profile = ldpc::profile(&graph, Decoder::Peeling).expect("a small graph");
        assert!((profile.mean_blocks() / 8.0 - class["f"].as_f64().expect("a factor")).abs() < 1e-9);
        assert_eq!(profile.losses_survived(), 3);
        assert_eq!(ldpc::smallest_fatal_loss(&graph, u64::MAX).at_least, 4);
    }
    for entry in list(&cern["rate_half"]).iter().filter(|entry| number(&entry["n"]) <= 10) {
        let graph = Graph::from_masks(number(&entry["n"]), &masks(&entry["checks"])).expect("a graph");
        let is_by_elimination = entry["objective"].as_str().expect("words").contains("(ML)");
        let decoder = if is_by_elimination { Decoder::Elimination } else { Decoder::Peeling };
        let profile = ldpc::profile(&graph, decoder).expect("a small graph");
        assert!(near(profile.mean_blocks(), entry["avg_downloads"].as_f64().expect("a mean")), "{entry}");
        assert_eq!(profile.losses_survived(), number(&entry["any_losses_tolerated"]), "{entry}");
    }
}

/// Five standard errors: chance alone fails once in a million.
fn sampled_mean_is(name: &str, decoder: Decoder, samples: usize, mean: f64) {
    let seed = 2004;
    let sampled = ldpc::sampled_blocks_needed(&named(name), decoder, samples, seed);
    assert!((sampled.mean - mean).abs() < 5.0 * sampled.standard_error, "{name}: {sampled:?}, not {mean}; seed {seed}");
}

#[test]
fn sampled_overheads() {
    for case in list(&plank()["graphs"]).iter().skip(2) {
        let name = format!("plank-{}", case["n"]);
        for (decoder, entry) in [(Decoder::Peeling, "monte_carlo_peel"), (Decoder::Elimination, "monte_carlo_ml")] {
            sampled_mean_is(&name, decoder, 4_000, case[entry]["mean"].as_f64().expect("a mean"));
        }
    }
    sampled_mean_is("cube-8-6", Decoder::Peeling, 20_000, 8.809_190_809);
}

/// The paper's example of a walk that peels: what follows from these blocks, and that data block 0 does not by peeling.
#[test]
fn the_papers_example() {
    let example = &plank()["graphs"][0]["paper_example"];
    let have = numbers(&example["have"]);
    let order: Vec<usize> = have.iter().copied().chain((0..10).filter(|block| !have.contains(block))).collect();
    assert!(ldpc::blocks_needed(&named("plank-5"), Decoder::Peeling, &order) > have.len());
}

#[test]
fn search_finds_the_best_known_graphs() {
    let task = |data_count, check_count, iterations| Search {
        data_count,
        check_count,
        decoder: Decoder::Peeling,
        goal: Goal::MostLosses,
        seed: 1,
        iterations,
    };
    let go_on = |_, _: &ldpc::Found| std::ops::ControlFlow::Continue(());
    for (n, m, iterations, mean) in [
        (2, 2, 100, 2.166_666_667),
        (3, 3, 500, 3.2),
        (4, 4, 3_000, 4.382_142_857),
        (5, 5, 10_000, 155.0 / 28.0),
        (6, 6, 30_000, 6.722_943_723),
        (8, 6, 60_000, 8.809_190_809),
    ] {
        let task = task(n, m, iterations);
        let found = ldpc::search(&task, go_on).expect("small");
        eprintln!("{found:?}");
        assert!((found.mean_blocks - mean).abs() < 1e-6, "{n}+{m}: {found:?}");
        assert_eq!(ldpc::search(&task, go_on).expect("small"), found, "equal seeds find equal graphs");
    }
}

/// Threads that take walks in any order find what one search finds.
#[test]
fn a_search_is_the_best_of_its_walks_in_any_order() {
    let go_on = |_, _: &ldpc::Found| std::ops::ControlFlow::Continue(());
    for (goal, iterations) in [(Goal::MostLosses, 1_000), (Goal::LeastOverhead, 1_201), (Goal::MostLosses, 1)] {
        let task =
            Search { data_count: 5, check_count: 4, decoder: Decoder::Peeling, goal, seed: u64::MAX, iterations };
        let found = ldpc::search(&task, go_on).expect("small");
        let mut walks: Vec<ldpc::Found> =
            (0..task.walk_count()).rev().map(|index| ldpc::walk(&task, index, go_on).expect("small")).collect();
        let best = walks.swap_remove(0);
        let best = walks.into_iter().fold(best, |best, other| if task.is_better(&other, &best) { other } else { best });
        assert_eq!(best, found);
        let mut looked_at = Vec::new();
        for index in 0..task.walk_count() {
            let watch = |iteration, _: &ldpc::Found| {
                looked_at.push(iteration);
                std::ops::ControlFlow::Continue(())
            };
            ldpc::walk(&task, index, watch).expect("small");
        }
        assert!(looked_at.into_iter().eq(1..=iterations), "each graph is of one walk");
    }
}

#[test]
fn search_can_be_watched_and_stopped() {
    let task = Search {
        data_count: 5,
        check_count: 4,
        decoder: Decoder::Elimination,
        goal: Goal::LeastOverhead,
        seed: 7,
        iterations: 1_000,
    };
    let mut seen = 0;
    let stopped = ldpc::search(&task, |iteration, best| {
        assert!(best.iteration <= iteration);
        seen = iteration;
        if iteration == 10 { std::ops::ControlFlow::Break(()) } else { std::ops::ControlFlow::Continue(()) }
    });
    assert!(stopped.expect("small").iteration <= 10 && seen == 10);
    let too_large = ldpc::search(&Search { data_count: 40, ..task }, |_, _| std::ops::ControlFlow::Continue(()));
    assert!(too_large.is_err());
}

#[test]
fn graph_files_and_specs() {
    let file = "# a comment\n3+2\n\n0 1  # first\n 2 1 \n";
    let graph = Graph::from_file(file).expect("a graph");
    assert_eq!(graph.to_spec(), "3+2:3,6");
    assert_eq!(Graph::from_spec("3+2:3,6").expect("a graph"), graph);
    let code = weft_codes::parse("ldpc:3+2:03,6").expect("a code");
    assert_eq!((code.spec(), code.shape().tolerance), ("ldpc:3+2:3,6", 1));
    let wide = named("plank-100");
    assert_eq!(Graph::from_spec(&wide.to_spec()).expect("a graph"), wide);
    for (file, problem) in [
        ("", "the file has no line with data+checks, as in 8+6"),
        ("8\n", "line 1 is not a count of data blocks and checks, as in 8+6"),
        ("2+1\n0 x\n", "line 2 is not a list of data blocks, as in 0 2 4"),
        ("2+2\n0 1\n", "2 checks are announced, but 1 given"),
        ("2+1\n0 2\n", "check 0 sums data block 2, but the last is 1"),
        ("2+1\n0 1 0\n", "check 0 sums data block 0 twice"),
        ("2+1\n0\n", "data block 1 is in no check, so its loss is final"),
    ] {
        let found = Graph::from_file(file).expect_err("not a graph");
        assert_eq!(found, weft_codes::families::Problem::Impossible(problem.to_owned()));
    }
    for (spec, end) in [
        ("ldpc:8+6", "write e.g. ldpc:plank-5"),
        ("ldpc:2+1:g", "write e.g. ldpc:plank-5"),
        ("ldpc:2+1:0", "check 0 sums no data block; choose e.g. ldpc:plank-5"),
        ("ldpc:2+1:ffffffffffffffffffffffff", "check 0 sums data block 2, but the last is 1; choose e.g. ldpc:plank-5"),
        ("ldpc:1024+1:1", "a graph has at most 1024 blocks, not 1025; choose e.g. ldpc:plank-5"),
    ] {
        let error = weft_codes::parse(spec).err().expect(spec).to_string();
        assert!(error.ends_with(end), "{error}");
    }
}

/// A lost data block is repaired from the cheapest check's other blocks.
#[test]
fn repair_reads_one_check() {
    for (name, reads) in [("plank-5", 3), ("cube-8-6", 4), ("plank-100", 11)] {
        let (graph, code) = (named(name), weft_codes::parse(&format!("ldpc:{name}")).expect(name));
        let shape = code.shape();
        for lost in 0..shape.k {
            let offer = Offer { combines: false, request_price: 1, symbol_price: 2 };
            let have = Offers((0..shape.n).map(|shard| (shard != lost).then_some(offer)).collect());
            let plan = code.plan(&Wanted::Shards(vec![lost]), &have).expect("one is lost");
            let smallest = graph.checks().iter().filter(|check| check.contains(&lost)).map(Vec::len).min();
            assert!(Some(plan.reads.len()) <= smallest, "{name}, {lost}");
            assert!(plan.reads.len() <= reads, "{name}, {lost}: {}", plan.reads.len());
            assert_eq!(plan.price, 3 * plan.reads.len() as u64);
        }
    }
}

/// Random losses of the wide graphs: decodable exactly when the rank says so, and to the right bytes.
#[test]
fn wide_graphs_lose_at_random() {
    for (name, losses) in [("plank-20", 18), ("plank-50", 46), ("plank-100", 95)] {
        let code = weft_codes::parse(&format!("ldpc:{name}")).expect(name);
        let shape = code.shape();
        let stripe = Stripe::made_up(&*code, 9);
        let generator = linear::generator(&*code).expect("valid");
        let mut decoded = 0;
        for round in 0..12usize {
            let lost_count = losses * (round + 1) / 12;
            let mut order: Vec<usize> = (0..shape.n).collect();
            order.sort_by_key(|shard| ((shard + 1) * (2 * round + 7919) * 7907) % 10_007);
            let lost = &order[..lost_count];
            let offer = Offer { combines: false, request_price: 0, symbol_price: 1 };
            let have = Offers((0..shape.n).map(|shard| (!lost.contains(&shard)).then_some(offer)).collect());
            let is_decodable = generator.select_rows(&order[lost_count..]).rank() == shape.k;
            match code.plan(&Wanted::Natives((0..shape.k).collect()), &have) {
                Ok(plan) => {
                    assert_eq!(run(&plan.program, &stripe.fetch(1, &plan)), stripe.natives);
                    assert_eq!(plan.price, shape.k as u64);
                    decoded += 1;
                }
                Err(PlanError::Unrecoverable { .. }) => assert!(!is_decodable, "{name} without {lost:?}"),
                Err(error) => panic!("{error}"),
            }
        }
        assert!((6..=12).contains(&decoded), "{name}: {decoded}");
    }
}

proptest! {
    /// Small graphs: any question at any prices is answered by the cheapest reads there are.
    #[test]
    fn plans_are_the_cheapest((spec, wanted, have) in question(&[
        "ldpc:plank-5", "ldpc:4+4:7,d,b,e", "ldpc:6+3:f,33,3c", "ldpc:3+4:3,5,6,4", "ldpc:1+2:1,1",
    ])) {
        let code = weft_codes::parse(spec).expect(spec);
        let generator = linear::generator(&*code).expect(spec);
        let cheapest = reference::cheapest_price(code.shape(), &generator, &wanted, &have);
        match code.plan(&wanted, &have) {
            Ok(plan) => {
                is_sound(&*code, &wanted, &have, &plan);
                prop_assert_eq!(Some(plan.price), cheapest);
            }
            Err(PlanError::Unrecoverable { .. }) => prop_assert_eq!(cheapest, None),
            Err(error) => prop_assert!(false, "{}", error),
        }
    }

    /// Wide graphs: sound, and never dearer than the generic engine finds.
    #[test]
    fn wide_plans_are_sound((spec, wanted, have) in question(&["ldpc:plank-10", "ldpc:plank-20"])) {
        let code = weft_codes::parse(spec).expect(spec);
        let generator = linear::generator(&*code).expect(spec);
        let generic = linear::plan(&*code, &generator, &wanted, &have);
        match code.plan(&wanted, &have) {
            Ok(plan) => {
                is_sound(&*code, &wanted, &have, &plan);
                prop_assert!(plan.price <= generic.expect("decodable").price);
            }
            Err(error) => prop_assert_eq!(Err(error), generic),
        }
    }
}
