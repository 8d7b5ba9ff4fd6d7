use super::*;
use crate::engines::SqliteKv;
use crate::kv::Kv;
use std::time::Duration;
use weft_env::Env;

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
    assert_eq!(due(&pending(WRITE_FROM_BYTES as usize, since)), Due::Now);
    assert_eq!(due(&State { wanted: 1, ..pending(1, since) }), Due::Now);
    assert_eq!(due(&State { through: vec![(0, Batch::default())], ..State::default() }), Due::Now);
}

#[test]
fn a_failure_is_tried_again_after_a_while_or_when_wanted_and_a_stopped_engine_is_left_alone() {
    let since = Instant::now();
    let failed = |bytes| State { failure: Some(Failure::Full), ..pending(bytes, since) };
    assert_eq!(due(&failed(WRITE_FROM_BYTES as usize)), Due::At(since + Duration::from_secs(1)));
    assert_eq!(due(&State { wanted: 1, ..failed(1) }), Due::Now);
    assert_eq!(due(&State { stopped: Some("why".into()), wanted: 1, ..failed(1) }), Due::Later);
}

/// Whoever waits for a flush, for a batch written through, for room or for a held key, and whoever comes later.
#[test]
fn finding_33_a_panic_of_the_writer_answers_everybody() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("volume");
    super::super::making::create(&path).unwrap();
    let shared_keys = &[crate::keys::SharedPrefix { prefix: b"node/", fresh_ids: false }];
    let store = crate::descriptor::Descriptor::open(&path).unwrap();
    let engine = &Engine::new(path, crate::Access::Owner, shared_keys, store, false, &weft_env::Env::system());
    let batch = |key: &[u8]| Batch { writes: vec![(key.to_vec(), Some(vec![1]))], ..Batch::default() };
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

const NODES: &[crate::keys::SharedPrefix] = &[crate::keys::SharedPrefix { prefix: b"node/", fresh_ids: false }];

fn set(key: &[u8]) -> Batch {
    Batch { writes: vec![(key.to_vec(), Some(vec![1]))], ..Batch::default() }
}

fn open(path: &std::path::Path, access: Access) -> Result<SqliteKv, super::super::OpenError> {
    SqliteKv::open(path, access, NODES, None, &Env::system())
}

/// Of `path`, all that is flushed is in the one file, or the one file is not taken for all of it.
fn assert_not_taken_for_whole(path: &std::path::Path, key: &[u8]) {
    let copy = path.with_file_name("copy");
    std::fs::copy(path, &copy).unwrap();
    if let Ok(copy) = open(&copy, Access::Owner) {
        assert!(crate::conformance::get(&copy, key).is_some(), "the copy lacks what was flushed");
    }
}

#[test]
fn what_is_flushed_after_a_close_during_a_transaction_is_missed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("volume");
    SqliteKv::create(&path).unwrap();
    let store = open(&path, Access::Owner).unwrap();
    let engine = &store.engine;
    std::thread::scope(|scope| {
        let turn = engine.writer.lock();
        let writing = Turn { engine, writer: turn.as_ref().unwrap() };
        store.commit(set(b"inode/1")).unwrap();
        let pending = writing.transact_pending().unwrap();
        // As `close` does, whose first step waits for a transaction like this one.
        let closing = scope.spawn(|| store.mark_closed().unwrap());
        std::thread::sleep(Duration::from_millis(300));
        engine.publish(pending);
        drop(turn);
        drop(engine.pass_on());
        closing.join().unwrap();
    });
    // Until the writer looks there is time enough.
    store.commit(set(b"inode/2")).unwrap();
    store.flush().unwrap();
    assert_not_taken_for_whole(&path, b"inode/2");
}

#[test]
fn who_leaves_while_an_owner_comes_does_not_mark_the_store_as_closed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("volume");
    SqliteKv::create(&path).unwrap();
    let mut beside = open(&path, Access::Shared).unwrap();
    beside.commit(set(b"node/1")).unwrap();
    let owner = {
        let engine = beside.engine.clone();
        let writer = engine.writer.lock();
        let turn = Turn { engine: &engine, writer: writer.as_ref().unwrap() };
        assert!(turn.leaves_last());
        let owner = open(&path, Access::Owner).unwrap();
        turn.leave().unwrap();
        owner
    };
    beside._presence = None;
    owner.commit(set(b"inode/1")).unwrap();
    owner.flush().unwrap();
    assert_not_taken_for_whole(&path, b"inode/1");
}
