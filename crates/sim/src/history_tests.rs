//! A few histories in every test run; `weft-sim run` has the many.

use super::{FAULTS_MAX, Length, Outcome, run, run_with};
use std::ops::Range;
use weft_env::planted::Planted;

#[test]
fn one_seed_gives_one_history() {
    let length = Length::of(FAULTS_MAX);
    for seed in 0..4 {
        let (one, other) = (run(seed, &length, false), run(seed, &length, true));
        assert_eq!((one.digest, one.steps), (other.digest, other.steps), "seed {seed}");
    }
}

/// Each seed by name: `weft-sim replay SEED` shows what happens.
fn lived(seed: u64) -> Outcome {
    let outcome = run(seed, &Length::of(FAULTS_MAX), false);
    assert!(outcome.complaints.is_empty(), "seed {seed}: {:?}", outcome.complaints);
    outcome
}

fn is_kept(seeds: Range<u64>) {
    let (mut operations, mut fsyncs, mut faults) = (0, 0, 0);
    for seed in seeds {
        let outcome = lived(seed);
        operations += outcome.operations;
        fsyncs += outcome.fsyncs;
        faults += outcome.faults;
    }
    assert!(operations > 2_000 && fsyncs > 200 && faults > 100, "{operations} operations, {fsyncs}, {faults}");
}

// In parts, which run side by side.

#[test]
fn what_is_promised_is_kept_by_seeds_to_15() {
    is_kept(0..15);
}

#[test]
fn what_is_promised_is_kept_by_seeds_to_30() {
    is_kept(15..30);
}

#[test]
fn what_is_promised_is_kept_by_seeds_to_45() {
    is_kept(30..45);
}

/// A bug shows by a seed where it is planted, and nothing shows where it is not. These take many seeds: after a change of the workload
/// `weft-sim canaries` says which.
#[test]
fn what_many_seeds_found_is_whole() {
    for (bug, seed) in PLANTED_LATE {
        let broken = run_with(bug, seed, &Length::of(FAULTS_MAX));
        assert!(!broken.complaints.is_empty(), "{bug:?} does not show by seed {seed} any more");
        lived(seed);
    }
}

const PLANTED_LATE: [(Planted, u64); 7] = [
    (Planted::EndlessCalls, 63),
    (Planted::JournalDroppedEarly, 48),
    (Planted::CollectorTrustsSilence, 91),
    (Planted::LateWriter, 23),
    (Planted::GenerationsMixed, 70),
    (Planted::RepairLowersRedundancy, 29),
    (Planted::CommitsOutOfOrder, 39),
];

/// With about three times the seeds that each takes.
const PLANTED_SOON: [(Planted, u64); 9] = [
    (Planted::EarlyFsync, 5),
    (Planted::UnflushedFsync, 10),
    (Planted::RenameBeforeBytes, 5),
    (Planted::JournalNotReplayed, 5),
    (Planted::MetadataBeforeShards, 5),
    (Planted::OrphanInOneLook, 25),
    (Planted::RetryAppliedTwice, 16),
    (Planted::CacheNotRevalidated, 5),
    (Planted::CounterDrifting, 5),
];

/// A bug that is not found is a hole in the checker. Those that take more seeds are in `weft-sim canaries`.
#[test]
fn planted_bugs_are_found() {
    for (bug, seeds_max) in PLANTED_SOON {
        let is_found = (0..seeds_max).any(|seed| !run_with(bug, seed, &Length::of(FAULTS_MAX)).complaints.is_empty());
        assert!(is_found, "{bug:?} is not found by {seeds_max} seeds");
    }
}
