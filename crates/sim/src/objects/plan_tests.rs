use super::*;
use rand::{RngCore, SeedableRng};

#[test]
fn each_plan_has_something_to_choose_and_changes_before_it_reads_only() {
    let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(1);
    let plans: Vec<Plan> = (0..300).map(|_| Plan::of(|end| rng.next_u64() % end)).collect();
    for plan in &plans {
        assert!(plan.troubles.iter().any(|(_, weight)| *weight > 0), "{plan:?}");
        assert!((1..=plan.turns).contains(&plan.changes) && plan.turns <= TURNS_MAX, "{plan:?}");
        assert!((1..=super::super::NAMES.len()).contains(&plan.names), "{plan:?}");
    }
    let lacks = |turn| plans.iter().any(|plan| plan.happens.contains(&(turn, 0)));
    assert!(lacks(Turn::StrikeMember) && lacks(Turn::Ambush) && lacks(Turn::Rest) && !lacks(Turn::Operation));
}
