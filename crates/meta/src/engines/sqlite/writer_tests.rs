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

/// Whoever waits for a flush, for a batch written through, for room or for a held key, and whoever comes later.
#[test]
fn finding_33_a_panic_of_the_writer_answers_everybody() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("volume");
    super::super::file::create(&path).unwrap();
    let shared_keys = &[crate::kv::SharedPrefix { prefix: b"node/", fresh_ids: false }];
    let store = crate::descriptor::Descriptor::open(&path).unwrap();
    let engine = &Engine::new(path, crate::Access::Owner, shared_keys, store, false);
    let batch = |key: &[u8]| Batch { checks: vec![], writes: vec![(key.to_vec(), Some(vec![1]))] };
    engine.commit(batch(b"inode/1")).expect("there is room");
    engine.state.lock().held.insert(b"inode/2".to_vec());
    std::thread::scope(|scope| {
        let flush = scope.spawn(|| engine.flush());
        let through = scope.spawn(|| engine.commit(batch(b"node/1")));
        let held = scope.spawn(|| engine.commit(batch(b"inode/2")));
        let waits = || engine.state.lock().wanted > 0 && !engine.state.lock().through.is_empty();
        while !waits() {
            std::thread::yield_now();
        }
        let writer = scope.spawn(|| {
            supervise(engine, || {
                // It has them in hand.
                engine.hold();
                panic!("on purpose");
            });
        });
        assert!(writer.join().is_err());
        for waiting in [flush, through, held] {
            let error = waiting.join().unwrap().expect_err("nothing was written").to_string();
            assert!(error.contains("its writer panicked; start weft again"), "{error}");
        }
    });
    assert!(engine.flush().is_err());
    assert!(engine.commit(batch(b"node/2")).is_err());
    assert!(engine.commit(batch(b"inode/3")).is_err());
}
