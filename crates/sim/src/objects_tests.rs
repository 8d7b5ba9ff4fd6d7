use super::*;
use crate::effort::is_long;
use weft_env::planted::{Planted, with_planted};

/// A short run; `weft-sim objects` has the long ones.
#[test]
fn objects_survive_members_that_come_and_go_and_clients_that_stop() {
    let (mut operations, mut answered) = (0, 0);
    for seed in 0..if is_long() { 5 } else { 3 } {
        let outcome = run(seed, false);
        if seed == 0 {
            let again = run(seed, false);
            assert_eq!((outcome.steps, outcome.digest), (again.steps, again.digest), "a seed gives one history");
        }
        assert!(outcome.complaints.is_empty(), "seed {seed}: {:?}", outcome.complaints);
        operations += outcome.operations;
        answered += outcome.answered;
    }
    assert!(operations > 50 && answered > operations / 2, "{answered} of {operations} were answered");
}

/// A bug that is not found is a hole in the checker: `weft-sim canaries --objects` looks for seeds that show them.
#[test]
fn planted_bugs_are_found() {
    const FOUND: [(Planted, u64); 6] = [
        (Planted::VersionByClock, 2),
        (Planted::PutToldEarly, 2),
        (Planted::MembersCounted, 20),
        (Planted::GiveUpForgotten, 16),
        (Planted::RemovalForgotten, 1),
        (Planted::OlderGoneEarly, 2),
    ];
    // A history takes seconds: a short run plants each second bug.
    for (bug, seed) in FOUND.into_iter().step_by(if is_long() { 1 } else { 2 }) {
        let complaints = with_planted(bug, || run(seed, false)).complaints;
        assert!(!complaints.is_empty(), "{bug:?} does not show by seed {seed} any more");
    }
}
