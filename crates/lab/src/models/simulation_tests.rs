use super::*;
use crate::models::availability::FatalShares;
use crate::models::markov::Chain;
use rand::SeedableRng;

/// Failures and repairs so frequent that stripes are lost by the hundred.
fn accelerated(stripes: usize) -> Volume {
    Volume {
        nodes: 60,
        nodes_per_rack: 1,
        stripes,
        spread: Spread::Racks,
        node_failures: 1.0,
        rack_failures: 0.0,
        share_lost_with_rack: 0.0,
        detection: 0.0,
        repair: Repair::Exponential(0.05),
        warm_up: 1.0,
        years: 400.0,
    }
}

#[test]
fn a_simulation_of_the_model_is_the_model() {
    for spec in ["replica:3", "rs:4+2", "lrc:4+2+1", "msbasic:4"] {
        let code = weft_codes::parse(spec).unwrap();
        let shares: Vec<f64> =
            FatalShares::of(&*code, 1 << 30, 1).unwrap().shares().iter().map(|share| share.value).collect();
        // A node that is rebuilt when another stripe's shards are lost: each missing shard comes back by itself.
        let chain = Chain::of_stripe(code.shape().n, 1.0, &shares, |missing| missing as f64 / 0.05);
        let volume = accelerated(200);
        let expected = volume.years * volume.stripes as f64 / chain.mean_time_to_loss();
        let outcome = simulate(&volume, &*code, &mut ChaCha8Rng::seed_from_u64(7)).unwrap();
        // Stripes share nodes, so losses come in heaps: four times the spread of independent ones.
        let spread = 4.0 * expected.sqrt() + 0.1 * expected;
        assert!(
            (outcome.losses as f64 - expected).abs() < spread,
            "{spec}: {} losses, the model expects {expected:.0}",
            outcome.losses
        );
    }
}

#[test]
fn one_seed_gives_one_history() {
    let code = weft_codes::parse("rs:4+2").unwrap();
    let run = |seed| simulate(&accelerated(50), &*code, &mut ChaCha8Rng::seed_from_u64(seed)).unwrap();
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

#[test]
fn racks_that_fail_whole_cost_only_stripes_that_have_several_shards_in_one() {
    let code = weft_codes::parse("rs:4+2").unwrap();
    let volume = Volume {
        nodes_per_rack: 6,
        node_failures: 0.0,
        rack_failures: 0.1,
        share_lost_with_rack: 1.0,
        repair: Repair::Takes(0.001),
        ..accelerated(1000)
    };
    let outcome = simulate(&volume, &*code, &mut ChaCha8Rng::seed_from_u64(3)).unwrap();
    assert!(outcome.failures > 1000, "{outcome:?}");
    assert_eq!(outcome.losses, 0);
    let anywhere = Volume { spread: Spread::Nodes, ..volume };
    assert!(simulate(&anywhere, &*code, &mut ChaCha8Rng::seed_from_u64(3)).unwrap().losses > 0);
}

#[test]
fn what_cannot_be_simulated_is_refused() {
    let mut random = ChaCha8Rng::seed_from_u64(1);
    let wide = weft_codes::parse("rs:100+100").unwrap();
    assert!(simulate(&accelerated(1), &*wide, &mut random).unwrap_err().contains("200 shards"));
    let code = weft_codes::parse("rs:10+4").unwrap();
    let few = Volume { nodes_per_rack: 6, ..accelerated(1) };
    assert!(simulate(&few, &*code, &mut random).unwrap_err().contains("there are 10"));
}
