use super::*;
use std::time::Duration;

fn pending(bytes: usize, since: Instant) -> State {
    let mut state = State { committed: 1, waiting_since: Some(since), ..State::default() };
    state.memtable.put(b"key"[..].into(), Some(vec![0; bytes].into()));
    state
}

#[test]
fn nothing_to_do_is_later() {
    assert_eq!(due(&State::default()), Due::Later);
}

#[test]
fn pending_changes_wait_until_they_are_old_or_many_or_wanted() {
    let since = Instant::now();
    assert_eq!(due(&pending(1, since)), Due::At(since + WRITE_AFTER));
    assert_eq!(due(&pending(WRITE_FROM_BYTES, since)), Due::Now);
    assert_eq!(due(&State { wanted: 1, ..pending(1, since) }), Due::Now);
    assert_eq!(due(&State { through: vec![(0, Batch::default())], ..State::default() }), Due::Now);
}

#[test]
fn a_failure_is_tried_again_after_a_while_or_when_wanted_and_a_stopped_engine_is_left_alone() {
    let since = Instant::now();
    let failed = |bytes| State { failure: Some(Failure::Full), ..pending(bytes, since) };
    assert_eq!(due(&failed(WRITE_FROM_BYTES)), Due::At(since + Duration::from_secs(1)));
    assert_eq!(due(&State { wanted: 1, ..failed(1) }), Due::Now);
    assert_eq!(due(&State { stopped: Some("why".into()), wanted: 1, ..failed(1) }), Due::Later);
}
