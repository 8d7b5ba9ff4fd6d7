use super::*;
use crate::effort::is_long;
use weft_env::planted::{Planted, with_planted};

/// A short run; `weft-sim many --care` has the long ones.
#[test]
fn several_mounts_with_care_are_one_volume() {
    let mut operations = 0;
    for seed in if is_long() { 0..8 } else { 3..6 } {
        let outcome = run(seed, &whole(false), false);
        assert!(outcome.complaints.is_empty(), "seed {seed}: {:?}", outcome.complaints);
        operations += outcome.operations;
    }
    assert!(operations > 500, "{operations} operations");
}

/// The same with daemons.
#[test]
fn several_mounts_with_care_and_daemons_are_one_volume() {
    for seed in if is_long() { 0..20 } else { 3..6 } {
        let outcome = run(seed, &whole(true), false);
        assert!(outcome.complaints.is_empty(), "seed {seed}: {:?}", outcome.complaints);
    }
}

#[test]
fn one_seed_gives_one_history() {
    let [one, other] = [false, true].map(|is_told| run(2, &whole(false), is_told));
    assert_eq!((one.digest, one.steps), (other.digest, other.steps));
}

/// A bug shows by a seed where it is planted, and in a long run nothing shows where it is not.
#[test]
fn planted_bugs_of_several_mounts_are_found() {
    for (bug, seed) in PLANTED {
        let broken = with_planted(bug, || run(seed, &whole(false), false));
        assert!(!broken.complaints.is_empty(), "{bug:?} does not show by seed {seed} any more");
        if is_long() {
            let sound = run(seed, &whole(false), false);
            assert!(sound.complaints.is_empty(), "seed {seed}: {:?}", sound.complaints);
        }
    }
}

const PLANTED: [(Planted, u64); 9] = [
    (Planted::FeedBelieved, 3),
    (Planted::CacheNotRevalidated, 1),
    (Planted::CounterDrifting, 1),
    (Planted::EarlyFsync, 6),
    (Planted::FullTakenForAway, 5),
    (Planted::MetadataBeforeShards, 0),
    (Planted::RetryAppliedTwice, 2),
    (Planted::OrphanInOneLook, 10),
    (Planted::NodeLeavesEarly, 7),
];
