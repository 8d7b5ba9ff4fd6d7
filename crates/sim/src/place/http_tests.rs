//! A few histories over HTTP in every test run; `weft-sim run --http` has the many.

use crate::effort::is_long;
use crate::history::{Outcome, run};
use crate::length::Length;
use weft_env::planted::{Planted, with_planted};

fn lived(seed: u64, is_brief: bool) -> Outcome {
    run(seed, &Length::whole(is_brief).over_http(), false)
}

#[test]
fn one_seed_gives_one_history() {
    for (seeds, is_brief) in [(19..20, false), (0..3, true)] {
        for seed in seeds {
            let (one, other) = (lived(seed, is_brief), lived(seed, is_brief));
            assert_eq!((one.digest, one.steps), (other.digest, other.steps), "seed {seed}, brief: {is_brief}");
        }
    }
}

#[test]
fn what_is_promised_is_kept() {
    let (whole, brief) = if is_long() { (2..8, 0..60) } else { (26..29, 0..20) };
    for (seeds, is_brief) in [(whole, false), (brief, true)] {
        for seed in seeds {
            let outcome = lived(seed, is_brief);
            assert!(outcome.complaints.is_empty(), "seed {seed}, brief: {is_brief}: {:?}", outcome.complaints);
        }
    }
}

/// `weft-sim canaries --http` says which seeds show them, and whether by a brief history.
const PLANTED: [(Planted, u64, bool); 3] =
    [(Planted::PutAnsweredEarly, 0, true), (Planted::AnswerUnproved, 19, true), (Planted::AnyNodeAnswers, 178, true)];

#[test]
fn planted_bugs_are_found() {
    for (bug, seed, is_brief) in PLANTED {
        let broken = with_planted(bug, || lived(seed, is_brief));
        assert!(!broken.complaints.is_empty(), "{bug:?} does not show by seed {seed} any more");
        assert!(lived(seed, is_brief).complaints.is_empty(), "seed {seed} fails without it");
    }
}
