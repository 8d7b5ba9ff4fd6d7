use super::*;
use weft_codes::families::ldpc::{Decoder, named_or_given, profile};

fn is_near(value: f64, expected: f64) -> bool {
    (value / expected - 1.0).abs() < 0.005
}

/// Recounted from the graph and from equation 2, independently of this project.
#[test]
fn the_failures_of_the_cern_paper_at_its_node_availability() {
    let failure = |shares: FatalShares| shares.failure(0.95).0;
    assert!(is_near(failure(FatalShares::of_mds(14, 6)), 1.96e-6));
    assert!(is_near(failure(FatalShares::of_mds(21, 7)), 4.41e-6));
    let graph = named_or_given("cube-8-6").unwrap();
    let peeled = FatalShares::of_graph(&profile(&graph, Decoder::Peeling).unwrap());
    assert!(is_near(failure(peeled.clone()), 2.24e-4), "{:?}", peeled.failure(0.95));
    // WeftFS eliminates what peeling leaves.
    let cube = weft_codes::parse("ldpc:cube-8-6").unwrap();
    let cube = FatalShares::of(&*cube, 1 << 30, 1).unwrap();
    assert!(is_near(failure(cube.clone()), 2.118e-4), "{:?}", cube.failure(0.95));
    assert_eq!(cube.shares()[3], Share { value: 0.0, standard_error: 0.0 });
    assert!((cube.shares()[4].value - 34.0 / 1001.0).abs() < 1e-12);
}

#[test]
fn a_code_by_its_patterns_is_the_formula_where_it_is_mds() {
    let code = weft_codes::parse("rs:8+6").unwrap();
    let counted = FatalShares::of(&*code, 1 << 30, 1).unwrap();
    assert_eq!(counted, FatalShares::of_mds(14, 6));
}

/// A slow, obvious reference: every pattern of losses, one by one.
#[test]
fn failures_are_the_sum_over_all_patterns() {
    for spec in ["rs:4+2", "lrc:4+2+1", "msbasic:4", "embr:n=4,k=2", "replica:3"] {
        let code = weft_codes::parse(spec).unwrap();
        let erasures = Erasures::new(&*code).unwrap();
        let n = code.shape().n;
        let shares = FatalShares::of(&*code, 1 << 30, 1).unwrap();
        for availability in [0.0, 0.5, 0.9, 1.0] {
            let chance = |pattern: u32| {
                let lost: Vec<usize> = (0..n).filter(|shard| pattern >> shard & 1 == 1).collect();
                let chance: f64 =
                    (0..n).map(|shard| if lost.contains(&shard) { 1.0 - availability } else { availability }).product();
                if erasures.decodes(&lost) { 0.0 } else { chance }
            };
            let expected: f64 = (0..1u32 << n).map(chance).sum();
            let (failure, error) = shares.failure(availability);
            assert!(
                (failure - expected).abs() < 1e-12 && error == 0.0,
                "{spec}, {availability}: {failure}, {expected}"
            );
        }
    }
}

#[test]
fn a_distribution_adds_up_to_one() {
    for (n, chance) in [(1, 0.3), (14, 0.05), (200, 0.5), (1000, 1e-6), (5, 0.0), (5, 1.0)] {
        let sum: f64 = binomial_distribution(n, chance).iter().sum();
        assert!((sum - 1.0).abs() < 1e-9, "{n}, {chance}: {sum}");
    }
}

#[test]
fn copies_are_a_code() {
    for copies in 1..5 {
        let (failure, _) = FatalShares::of_mds(copies, copies - 1).failure(0.9);
        assert!((failure - failure_of_copies(copies, 0.9)).abs() < 1e-15);
    }
}

#[test]
fn a_graph_by_its_counts_is_the_graph_by_its_patterns() {
    let graph = named_or_given("cube-8-6").unwrap();
    let counted = FatalShares::of_graph(&profile(&graph, Decoder::Elimination).unwrap());
    let code = weft_codes::parse("ldpc:cube-8-6").unwrap();
    assert_eq!(FatalShares::of(&*code, 1 << 30, 1).unwrap(), counted);
}
