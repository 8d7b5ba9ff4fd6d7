//! A few histories in every test run; `weft-sim run` has the many.

use super::{FAULTS_MAX, Length, run, run_with};
use weft_env::planted::Planted;

#[test]
fn one_seed_gives_one_history() {
    for seed in 0..4 {
        let (one, other) = (run(seed, &Length::of(FAULTS_MAX), false), run(seed, &Length::of(FAULTS_MAX), true));
        assert_eq!((one.digest, one.steps), (other.digest, other.steps), "seed {seed}");
    }
}

/// Each seed by name: `weft-sim replay SEED` shows what happens.
#[test]
fn what_is_promised_is_kept() {
    let (mut operations, mut fsyncs, mut faults) = (0, 0, 0);
    for seed in 0..60 {
        let outcome = run(seed, &Length::of(FAULTS_MAX), false);
        assert!(outcome.complaints.is_empty(), "seed {seed}: {:?}", outcome.complaints);
        operations += outcome.operations;
        fsyncs += outcome.fsyncs;
        faults += outcome.faults;
    }
    assert!(operations > 5_000 && fsyncs > 500 && faults > 500, "{operations} operations, {fsyncs}, {faults}");
}

/// A bug that is not found is a hole in the checker.
#[test]
fn planted_bugs_are_found() {
    for (bug, seeds_max) in [
        (Planted::EarlyFsync, 10),
        (Planted::UnflushedFsync, 10),
        (Planted::RenameBeforeBytes, 30),
        (Planted::JournalNotReplayed, 10),
        (Planted::CommitsOutOfOrder, 150),
    ] {
        let is_found = (0..seeds_max).any(|seed| !run_with(bug, seed, &Length::of(FAULTS_MAX)).complaints.is_empty());
        assert!(is_found, "{bug:?} is not found by {seeds_max} seeds");
    }
}
