use super::*;

/// A short run; `weft-sim objects` has the long ones.
#[test]
fn objects_survive_members_that_come_and_go_and_clients_that_stop() {
    let (mut operations, mut answered) = (0, 0);
    for seed in 0..8 {
        let outcome = run(seed, false);
        assert!(outcome.complaints.is_empty(), "seed {seed}: {:?}", outcome.complaints);
        operations += outcome.operations;
        answered += outcome.answered;
    }
    assert!(operations > 200 && answered > operations / 2, "{answered} of {operations} were answered");
}

#[test]
fn a_seed_gives_one_history() {
    let (one, other) = (run(3, false), run(3, false));
    assert_eq!((one.steps, one.digest), (other.steps, other.digest));
}
