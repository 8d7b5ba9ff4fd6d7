use super::*;
use crate::conformance::{self, get, remove, scan, set, when};
use crate::deltas::Delta;
use crate::engines::MemoryKv;
use crate::keys::SHARED;
use std::collections::VecDeque;
use weft_env::Spawner;

/// A server in memory whose answers can be lost.
#[derive(Default)]
struct Server {
    kv: MemoryKv,
    /// What becomes of the next commits; those after them are done.
    faults: Mutex<VecDeque<Fault>>,
    /// Commits that were tried.
    tried: Mutex<Vec<Batch>>,
    session_is_over: Mutex<bool>,
    /// The most writes that it takes in a commit, besides the mark; 0: any number.
    writes_max: u64,
}

#[derive(Clone, Copy, PartialEq)]
enum Fault {
    /// Not done.
    Refused,
    /// Done, and the answer is lost.
    AnswerLost,
    /// There is no room for it.
    Full,
}

fn failed() -> KvError {
    KvError::Failed { store: "server".into(), detail: "it does not answer".into() }
}

impl Kv for Server {
    fn snapshot(&self) -> Result<Box<dyn Snapshot + '_>, KvError> {
        self.kv.snapshot()
    }

    fn commit(&self, batch: Batch) -> Result<(), KvError> {
        if *self.session_is_over.lock() {
            return Err(KvError::Displaced { sentence: "its session is over".into() });
        }
        self.tried.lock().push(batch.clone());
        if self.writes_max > 0 && batch.writes.len() as u64 > self.writes_max + 1 {
            return Err(failed());
        }
        match self.faults.lock().pop_front() {
            None => self.kv.commit(batch),
            Some(Fault::Refused) => Err(failed()),
            Some(Fault::Full) => Err(KvError::Full { store: "server".into() }),
            Some(Fault::AnswerLost) => self.kv.commit(batch).and(Err(failed())),
        }
    }

    fn share_of_commit(&self, _key: &[u8], _value: Option<&[u8]>) -> u64 {
        WHOLE_COMMIT.checked_div(self.writes_max).unwrap_or_default()
    }

    fn flush(&self) -> Result<(), KvError> {
        Ok(())
    }

    fn sessions(&self) -> Option<&dyn Sessions> {
        Some(self)
    }
}

impl Sessions for Server {
    fn own(&self) -> Result<i64, KvError> {
        Ok(1)
    }

    fn members(&self) -> Result<std::collections::BTreeSet<i64>, KvError> {
        Ok([1].into())
    }

    fn make_sure(&self) -> Result<(), KvError> {
        if *self.session_is_over.lock() {
            return Err(KvError::Displaced { sentence: "its session is over".into() });
        }
        Ok(())
    }
}

/// Threads that do nothing.
struct Idle;

impl Spawner for Idle {
    fn thread(&self, _name: &str, _body: Box<dyn FnOnce() + Send>) -> std::io::Result<Thread> {
        Ok(Thread::new(|| Ok(())))
    }

    fn task(&self, _work: weft_env::Work) {}
}

/// Nothing is filed but by a flush.
fn behind() -> (Arc<Server>, Behind) {
    let server = Arc::new(Server::default());
    let kv = over(&server);
    (server, kv)
}

fn over(server: &Arc<Server>) -> Behind {
    let env = Env { spawner: Arc::new(Idle), ..Env::system() };
    Behind::new(server.clone(), "server".into(), SHARED, &env).unwrap()
}

/// A key of the owner, and one of a segment, which others may change.
const OWN: &[u8] = &[2, 7];
const SEGMENT: &[u8] = &[32, 7];

struct Subject {
    server: Arc<MemoryKv>,
    shared_keys: &'static [SharedPrefix],
}

impl conformance::Subject for Subject {
    fn open(&self) -> Arc<dyn Kv> {
        let server: Arc<dyn Kv> = Arc::new(self.server.join());
        Arc::new(Behind::new(server, "memory".into(), self.shared_keys, &Env::system()).unwrap())
    }

    fn keeps(&self) -> bool {
        true
    }

    fn checks_ranges(&self) -> bool {
        !self.shared_keys.is_empty()
    }
}

#[test]
fn it_conforms() {
    const EVERYTHING: &[SharedPrefix] = &[SharedPrefix { prefix: b"", fresh_ids: false }];
    for shared_keys in [&[], EVERYTHING] {
        conformance::all(|| Subject { server: Arc::default(), shared_keys });
    }
}

#[test]
fn commits_wait_for_a_flush_and_then_come_together() {
    let (server, kv) = behind();
    kv.commit(set(OWN, b"1")).unwrap();
    kv.commit(when(set(OWN, b"2"), OWN, Some(b"1"))).unwrap();
    assert!(matches!(kv.commit(when(remove(OWN), OWN, Some(b"1"))), Err(KvError::Conflict)));
    assert_eq!((get(&kv, OWN), get(&server.kv, OWN)), (Some(b"2".to_vec()), None));
    kv.flush().unwrap();
    assert_eq!(get(&server.kv, OWN), Some(b"2".to_vec()));
    kv.flush().unwrap();
    assert_eq!(server.tried.lock().len(), 1, "a flush with nothing to do asks nothing of the server");
}

/// Whatever the server has at any moment is what the first batches gave.
#[test]
fn the_server_has_a_prefix() {
    let (server, kv) = behind();
    for number in 0..40u8 {
        let mut batch = set(&[2, number % 5], &[number]);
        batch.writes.push((vec![2, 100], Some(vec![number])));
        kv.commit(batch).unwrap();
        if number % 7 == 6 {
            kv.flush().unwrap();
        }
        let Some(last) = get(&server.kv, &[2, 100]).map(|value| value[0]) else { continue };
        for place in 0..5u8 {
            let expected = (0..=last).rev().find(|number| number % 5 == place).map(|number| vec![number]);
            assert_eq!(get(&server.kv, &[2, place]), expected, "of {place} after {last}");
        }
    }
}

#[test]
fn what_cannot_be_filed_waits_and_is_told() {
    let (server, kv) = behind();
    kv.commit(set(OWN, b"1")).unwrap();
    server.faults.lock().push_back(Fault::Refused);
    assert!(matches!(kv.flush(), Err(KvError::Failed { .. })));
    assert_eq!((get(&kv, OWN), get(&server.kv, OWN)), (Some(b"1".to_vec()), None));
    kv.commit(set(OWN, b"2")).unwrap();
    kv.flush().unwrap();
    assert_eq!(get(&server.kv, OWN), Some(b"2".to_vec()));
}

/// A server takes so much in a commit and no more. What would be more is filed before; so it is while the server is away, and after.
#[test]
fn no_commit_is_larger_than_the_server_takes() {
    let server = Arc::new(Server { writes_max: 10, ..Server::default() });
    let kv = over(&server);
    let own = |number: u8| [OWN, &[number]].concat();
    let commit = |number| kv.commit(set(&own(number), b"there"));
    (0..10).for_each(|number| commit(number).unwrap());
    assert!(server.tried.lock().is_empty());
    commit(10).unwrap();
    assert_eq!(server.tried.lock().len(), 1);
    (11..20).for_each(|number| commit(number).unwrap());
    // What it does not answer to stays as it was sent, and as much again has room beside it.
    server.faults.lock().extend([Fault::Refused, Fault::Refused, Fault::AnswerLost]);
    (20..30).for_each(|number| commit(number).unwrap());
    commit(30).unwrap_err();
    commit(30).unwrap_err();
    (30..35).for_each(|number| commit(number).unwrap());
    let all: Vec<_> = (100..111).map(|number| (own(number), Some(b"too many".to_vec()))).collect();
    let too_large = kv.commit(Batch { writes: all, ..Batch::default() }).unwrap_err();
    assert!(too_large.to_string().contains("in parts"), "{too_large}");
    kv.flush().unwrap();
    assert!((0..35).all(|number| get(&server.kv, &own(number)).is_some()));
    assert_eq!(get(&kv, &own(100)), None);
}

/// Whether a commit was done is asked by a commit, whose answer may be lost as well. The owner has its place all the same.
#[test]
fn two_answers_that_are_lost_displace_nobody() {
    let (server, kv) = behind();
    server.kv.commit(set(SEGMENT, b"there")).unwrap();
    for first in [Fault::Refused, Fault::AnswerLost] {
        server.faults.lock().extend([first, Fault::AnswerLost]);
        let before = get(&server.kv, OWN);
        kv.commit(when(set(OWN, b"made"), SEGMENT, Some(b"there"))).unwrap_err();
        // What was done has moved the mark, which is an answer.
        assert_eq!(kv.flush().is_err(), first == Fault::Refused);
        kv.flush().unwrap();
        let expected = if first == Fault::Refused { before } else { Some(b"made".to_vec()) };
        assert_eq!((get(&kv, OWN), get(&server.kv, OWN)), (expected.clone(), expected));
    }
}

/// The commit was done though nobody heard of it. Since then a worker has changed what it made: the second attempt must not undo that.
#[test]
fn a_commit_whose_answer_was_lost_is_not_done_twice() {
    let (server, kv) = behind();
    kv.commit(when(set(SEGMENT, b"made"), SEGMENT, None)).unwrap();
    server.faults.lock().push_back(Fault::AnswerLost);
    kv.flush().unwrap_err();
    server.kv.commit(set(SEGMENT, b"repaired")).unwrap();
    kv.commit(set(OWN, b"1")).unwrap();
    kv.flush().unwrap();
    assert_eq!(get(&kv, SEGMENT), Some(b"repaired".to_vec()));
    assert_eq!(get(&kv, OWN), Some(b"1".to_vec()));
    // A copy of it that comes at last is refused.
    let late = server.tried.lock()[0].clone();
    assert!(matches!(server.kv.commit(late), Err(KvError::Conflict)));
}

#[test]
fn without_room_only_what_frees_some_is_taken() {
    let (server, kv) = behind();
    kv.commit(set(OWN, b"1")).unwrap();
    server.faults.lock().push_back(Fault::Full);
    assert!(matches!(kv.flush(), Err(KvError::Full { .. })));
    assert!(matches!(kv.commit(set(OWN, b"2")), Err(KvError::Full { .. })));
    kv.commit_freeing(remove(OWN)).unwrap();
    kv.flush().unwrap();
    kv.commit(set(OWN, b"3")).unwrap();
    assert_eq!(get(&kv, OWN), Some(b"3".to_vec()));
}

/// What was not filed never happened, and is not shown for what is.
#[test]
fn whose_place_was_taken_drops_what_waits() {
    let (server, kv) = behind();
    kv.commit(set(OWN, b"1")).unwrap();
    kv.flush().unwrap();
    kv.commit(set(OWN, b"2")).unwrap();
    *server.session_is_over.lock() = true;
    server.kv.commit(set(OWN, b"another's")).unwrap();
    assert_eq!(get(&kv, OWN), Some(b"another's".to_vec()), "it asks before it answers from memory");
    assert!(matches!(kv.flush(), Err(KvError::Displaced { .. })));
    assert!(matches!(kv.commit(set(OWN, b"3")), Err(KvError::Displaced { .. })));
    assert_eq!(get(&kv, OWN), Some(b"another's".to_vec()));
}

/// Its session was not missed, but another owner was here.
#[test]
fn nothing_is_written_over_another_owner() {
    let (server, first) = behind();
    first.commit(set(OWN, b"1")).unwrap();
    first.flush().unwrap();
    let second = over(&server);
    second.commit(set(OWN, b"2")).unwrap();
    second.flush().unwrap();
    first.commit(set(OWN, b"3")).unwrap();
    assert!(matches!(first.flush(), Err(KvError::Displaced { .. })));
    assert_eq!(get(&server.kv, OWN), Some(b"2".to_vec()));
}

/// A batch that depends on what others do comes after what was committed before it, and is decided by what the server has.
#[test]
fn what_depends_on_others_is_written_through() {
    let (server, kv) = behind();
    kv.commit(when(set(SEGMENT, b"made"), SEGMENT, None)).unwrap();
    let batch = when(set(OWN, b"1"), SEGMENT, Some(b"made"));
    kv.commit(batch.clone()).unwrap();
    assert_eq!(get(&server.kv, OWN), Some(b"1".to_vec()));
    server.kv.commit(set(SEGMENT, b"repaired")).unwrap();
    assert!(matches!(kv.commit(batch), Err(KvError::Conflict)));
    let delta =
        Batch { deltas: vec![(SEGMENT.to_vec(), Delta::Usage { inodes: 1, live_bytes: 1 })], ..Batch::default() };
    assert!(matches!(kv.commit(delta), Err(KvError::Damaged { .. })), "the server looks at it");
}

/// An id that this process drew, and another used: nothing is written over its record.
#[test]
fn a_record_with_an_id_of_this_process_stops_it() {
    let (server, kv) = behind();
    kv.commit(when(set(SEGMENT, b"made"), SEGMENT, None)).unwrap();
    server.kv.commit(set(SEGMENT, b"another's")).unwrap();
    assert!(matches!(kv.flush(), Err(KvError::Damaged { .. })));
    assert_eq!(get(&kv, SEGMENT), Some(b"another's".to_vec()));
}

/// A view does not see what is filed after it was taken: it answers of its moment, or not at all.
#[test]
fn a_view_keeps_to_its_moment() {
    let (_server, kv) = behind();
    for key in [b"a", b"b", b"c"] {
        kv.commit(set(key, b"old")).unwrap();
    }
    kv.flush().unwrap();
    let (asked_once, not_asked) = (kv.snapshot().unwrap(), kv.snapshot().unwrap());
    assert_eq!(asked_once.get(b"a").unwrap(), Some(b"old".to_vec()));
    let mut batch = set(b"b", b"new");
    batch.writes.push((b"d".to_vec(), Some(b"new".to_vec())));
    kv.commit(batch).unwrap();
    kv.flush().unwrap();
    for view in [&asked_once, &not_asked] {
        assert_eq!(view.get(b"c").unwrap(), Some(b"old".to_vec()), "it has not changed");
        for key in [b"b", b"d"] {
            let seen = view.get(key);
            let is_of_its_moment = matches!(&seen, Ok(value) if value.as_deref() == (key == b"b").then_some(b"old"));
            assert!(is_of_its_moment || matches!(seen, Err(KvError::Conflict)), "{seen:?}");
        }
        let pairs = view.scan(b"a", b"z", 10);
        assert!(
            matches!(&pairs, Ok(pairs) if pairs.len() == 3) || matches!(pairs, Err(KvError::Conflict)),
            "{pairs:?}"
        );
        assert_eq!(view.scan(b"a", b"z", 1).unwrap().len(), 1, "the first pair is what it was");
    }
    drop((asked_once, not_asked));
    assert_eq!(scan(&kv, b"a", b"z").len(), 4);
}

#[test]
fn what_waits_is_filed_when_it_is_dropped() {
    let (server, kv) = behind();
    kv.commit(set(OWN, b"1")).unwrap();
    drop(kv);
    assert_eq!(get(&server.kv, OWN), Some(b"1".to_vec()));
}

/// By its thread, without a flush.
#[test]
fn what_waits_is_filed_in_time() {
    let server = Arc::new(Server::default());
    let kv = Behind::new(server.clone(), "server".into(), SHARED, &Env::system()).unwrap();
    kv.commit(set(OWN, b"1")).unwrap();
    while get(&server.kv, OWN).is_none() {
        std::thread::yield_now();
    }
    // Also after a failure.
    server.faults.lock().push_back(Fault::Refused);
    kv.commit(set(OWN, b"2")).unwrap();
    while get(&server.kv, OWN) != Some(b"2".to_vec()) {
        std::thread::yield_now();
    }
}
