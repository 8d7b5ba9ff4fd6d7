//! Some histories in every test run; `weft-sim behind` has the many.

use super::*;
use weft_env::planted::{Planted, with_planted};

#[test]
fn one_seed_gives_one_history() {
    for seed in 0..20 {
        let (one, other) = (run(seed, false), run(seed, true));
        assert_eq!((one.digest, one.steps), (other.digest, other.steps), "seed {seed}");
    }
}

/// Each seed by name: `weft-sim replay SEED --behind` shows what happens.
#[test]
fn what_is_promised_is_kept() {
    let (mut commits, mut conflicts, mut looks, mut flushes, mut deaths) = (0, 0, 0, 0, 0);
    for seed in 0..200 {
        let outcome = run(seed, false);
        assert!(outcome.complaints.is_empty(), "seed {seed}: {:?}", outcome.complaints);
        commits += outcome.commits;
        conflicts += outcome.conflicts;
        looks += outcome.looks;
        flushes += outcome.flushes;
        deaths += outcome.deaths;
    }
    let counts = format!("{commits} commits, {conflicts} conflicts, {looks} looks, {flushes} flushes, {deaths} deaths");
    assert!(commits > 2_000 && conflicts > 80 && looks > 2_000 && flushes > 300 && deaths > 200, "{counts}");
}

/// A bug that is not found is a hole in the checker. With about three times the seeds that each takes.
#[test]
fn planted_bugs_are_found() {
    for (bug, seeds_max) in [
        (Planted::ViewNotPinned, 690),
        (Planted::CheckedOnce, 10),
        (Planted::KeysNotHeld, 25),
        (Planted::FiledEarly, 45),
    ] {
        let found = (0..seeds_max).find(|seed| !with_planted(bug, || run(*seed, false)).complaints.is_empty());
        println!("{bug:?}: seed {found:?}");
        assert!(found.is_some(), "{bug:?} is not found by {seeds_max} seeds");
    }
}
