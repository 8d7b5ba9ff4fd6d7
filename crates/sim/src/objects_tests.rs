use super::*;
use crate::effort::is_long;
use weft_env::planted::{Planted, with_planted};

/// A short run; `weft-sim objects` has the long ones.
#[test]
fn objects_survive_members_that_come_and_go_and_clients_that_stop() {
    let (mut operations, mut answered) = (0, 0);
    for seed in if is_long() { 0..7 } else { 5..6 } {
        let outcome = run(seed, false);
        assert!(outcome.complaints.is_empty(), "seed {seed}: {:?}", outcome.complaints);
        operations += outcome.operations;
        answered += outcome.answered;
    }
    assert!(operations > 50 && answered > operations / 2, "{answered} of {operations} were answered");
}

#[test]
fn one_seed_gives_one_history() {
    let [one, other] = [false, true].map(|is_told| run(5, is_told));
    assert_eq!((one.steps, one.digest), (other.steps, other.digest));
    assert!(one.complaints.is_empty(), "{:?}", one.complaints);
}

/// A bug that is not found is a hole in the checker: `weft-sim canaries --objects` looks for seeds that show them.
#[test]
fn planted_bugs_are_found() {
    const FOUND: [(Planted, u64); 8] = [
        (Planted::RemovalForgotten, 4),
        (Planted::VersionByClock, 4),
        (Planted::PutToldEarly, 27),
        (Planted::TwoAtOneMember, 39),
        (Planted::MembersCounted, 15),
        (Planted::CopiesOfEachOther, 66),
        (Planted::GiveUpForgotten, 0),
        (Planted::OlderGoneEarly, 27),
    ];
    // A history takes seconds: a short run plants each fifth bug.
    for (bug, seed) in FOUND.into_iter().step_by(if is_long() { 1 } else { 5 }) {
        let complaints = with_planted(bug, || run(seed, false)).complaints;
        assert!(!complaints.is_empty(), "{bug:?} does not show by seed {seed} any more");
    }
}
