//! A few histories in every test run; `weft-sim run` has the many.

use super::{Length, Outcome, run, run_with};
use std::ops::Range;
use weft_env::planted::Planted;

#[test]
fn one_seed_gives_one_history() {
    for (seeds, is_brief) in [(0..4, false), (0..20, true)] {
        let length = Length::whole(is_brief);
        for seed in seeds {
            let (one, other) = (run(seed, &length, false), run(seed, &length, true));
            assert_eq!((one.digest, one.steps), (other.digest, other.steps), "seed {seed}, brief: {is_brief}");
        }
    }
}

/// Each seed by name: `weft-sim replay SEED` shows what happens.
fn lived(seed: u64, is_brief: bool) -> Outcome {
    let outcome = run(seed, &Length::whole(is_brief), false);
    assert!(outcome.complaints.is_empty(), "seed {seed}, brief: {is_brief}: {:?}", outcome.complaints);
    outcome
}

fn is_kept(seeds: Range<u64>, is_brief: bool) {
    let (mut operations, mut fsyncs, mut faults) = (0, 0, 0);
    for seed in seeds {
        let outcome = lived(seed, is_brief);
        operations += outcome.operations;
        fsyncs += outcome.fsyncs;
        faults += outcome.faults;
    }
    assert!(operations > 2_000 && fsyncs > 200 && faults > 100, "{operations} operations, {fsyncs}, {faults}");
}

// In parts, which run side by side.

#[test]
fn what_is_promised_is_kept_by_seeds_to_15() {
    is_kept(0..15, false);
}

#[test]
fn what_is_promised_is_kept_by_seeds_to_30() {
    is_kept(15..30, false);
}

#[test]
fn what_is_promised_is_kept_by_seeds_to_45() {
    is_kept(30..45, false);
}

#[test]
fn what_is_promised_is_kept_by_brief_histories() {
    is_kept(0..400, true);
}

/// What a run of many brief histories has found: `weft-sim replay SEED --brief`.
#[test]
fn what_brief_histories_found_is_whole() {
    for seed in [22_782, 33_534, 37_037, 38_841, 91_324, 114_386] {
        lived(seed, true);
    }
}

/// A bug shows by a seed where it is planted, and nothing shows where it is not. These take many seeds: after a change of the workload
/// `weft-sim canaries` says which.
#[test]
fn what_many_seeds_found_is_whole() {
    for (bug, seed) in PLANTED_LATE {
        let broken = run_with(bug, seed, &Length::whole(false));
        assert!(!broken.complaints.is_empty(), "{bug:?} does not show by seed {seed} any more");
        lived(seed, false);
    }
}

const PLANTED_LATE: [(Planted, u64); 6] = [
    (Planted::LateWriter, 50),
    (Planted::NameUsedTwice, 194),
    (Planted::RepairLowersRedundancy, 93),
    (Planted::CommitsOutOfOrder, 15),
    (Planted::CollectorTrustsSilence, 8),
    (Planted::NodeLeavesEarly, 35),
];

/// With about three times the seeds that each takes.
const PLANTED_SOON: [(Planted, u64); 11] = [
    (Planted::EarlyFsync, 5),
    (Planted::UnflushedFsync, 5),
    (Planted::RenameBeforeBytes, 11),
    (Planted::JournalNotReplayed, 5),
    (Planted::JournalDroppedEarly, 5),
    (Planted::MetadataBeforeShards, 5),
    (Planted::GenerationsMixed, 5),
    (Planted::OrphanInOneLook, 24),
    (Planted::RetryAppliedTwice, 16),
    (Planted::CacheNotRevalidated, 5),
    (Planted::CounterDrifting, 5),
];

/// A bug that is not found is a hole in the checker. Those that take more seeds are in `weft-sim canaries`.
#[test]
fn planted_bugs_are_found() {
    for (bug, seeds_max) in PLANTED_SOON {
        let is_found = (0..seeds_max).any(|seed| !run_with(bug, seed, &Length::whole(false)).complaints.is_empty());
        assert!(is_found, "{bug:?} is not found by {seeds_max} seeds");
    }
}
