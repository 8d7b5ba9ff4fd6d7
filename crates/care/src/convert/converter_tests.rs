use super::*;

#[test]
fn who_was_refused_asks_again_after_a_while() {
    assert!(is_to_be_asked(None, 0));
    let at_ms = 1_000_000;
    for (later_ms, is_asked) in [(0, false), (ASK_AGAIN_MS - 1, false), (ASK_AGAIN_MS, true)] {
        assert_eq!(is_to_be_asked(Some(at_ms), at_ms + later_ms), is_asked, "{later_ms}");
    }
}
