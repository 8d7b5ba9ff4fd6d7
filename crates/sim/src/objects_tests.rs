use super::*;
use weft_env::planted::{Planted, with_planted};

/// A short run; `weft-sim objects` has the long ones.
#[test]
fn objects_survive_members_that_come_and_go_and_clients_that_stop() {
    let (mut operations, mut answered) = (0, 0);
    for seed in 0..4 {
        let outcome = run(seed, false);
        assert!(outcome.complaints.is_empty(), "seed {seed}: {:?}", outcome.complaints);
        operations += outcome.operations;
        answered += outcome.answered;
    }
    assert!(operations > 100 && answered > operations / 2, "{answered} of {operations} were answered");
}

#[test]
fn a_seed_gives_one_history() {
    let (one, other) = (run(3, false), run(3, false));
    assert_eq!((one.steps, one.digest), (other.steps, other.digest));
}

/// A bug that is not found is a hole in the checker: `weft-sim canaries --objects` looks for seeds that show them.
#[test]
fn planted_bugs_are_found() {
    const FOUND: [(Planted, u64); 6] = [
        (Planted::VersionByClock, 1),
        (Planted::PutToldEarly, 0),
        (Planted::MembersCounted, 41),
        (Planted::GiveUpForgotten, 0),
        (Planted::RemovalForgotten, 3),
        (Planted::OlderGoneEarly, 0),
    ];
    for (bug, seed) in FOUND {
        let complaints = with_planted(bug, || run(seed, false)).complaints;
        assert!(!complaints.is_empty(), "{bug:?} does not show by seed {seed} any more");
    }
}
