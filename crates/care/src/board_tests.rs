use super::*;
use crate::catalogue::memory::MemoryCatalogue;
use weft_env::{Clock, SystemClock};

#[test]
fn what_is_shown_is_what_is_and_counters_only_rise() {
    let (board, now) = (Board::default(), SystemClock.now());
    let catalogue = MemoryCatalogue::default();
    let progress = |bytes: u64| Progress {
        phase: "reading".into(),
        segments_done: 1,
        segments_total: 4,
        bytes_done: bytes,
        bytes_total: 400,
        bytes_read: bytes,
        bytes_verified: bytes,
        worked_ms: 1_000,
        ..Progress::default()
    };
    let verified = |board: &Board| -> u64 {
        let text = board.text(&catalogue, now).expect("text");
        let line =
            text.lines().find_map(|line| line.strip_prefix("weft_care_verified_bytes_total ")).expect("a counter");
        line.parse().expect("a number")
    };
    let doubted = [Verdict::GivenUp, Verdict::Suspected, Verdict::GivenUp];
    board.show(Some(("scrub", progress(100))), false, doubted.into_iter(), &Roster::default());
    let text = board.text(&catalogue, now).expect("text");
    for line in [
        "weft_care_bytes_done{task=\"scrub\",phase=\"reading\"} 100",
        "weft_care_bytes{task=\"scrub\",phase=\"reading\"} 400",
        "weft_care_bytes_per_second{task=\"scrub\",phase=\"reading\"} 100",
        "weft_care_left_seconds{task=\"scrub\",phase=\"reading\"} 3",
        "weft_nodes_doubted{verdict=\"given-up\"} 2",
        "weft_segments{margin=\"lost\"} 0",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} is not in:\n{text}");
    }
    assert_eq!(verified(&board), 100);
    board.ended(&progress(400));
    assert_eq!(verified(&board), 400);
    board.show(Some(("scrub", progress(50))), false, [].into_iter(), &Roster::default());
    assert_eq!(verified(&board), 450);
}
