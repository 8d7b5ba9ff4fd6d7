//! The conformance suite of metadata engines: what every [`Kv`] must do. A test calls [`all`] with a way to open its engine.
//!
//! Each check panics with what it saw.

use crate::deltas::{Delta, Directory};
use crate::kv::{Batch, Kv, KvError, Link, Pair, Question, RangeCheck, Wanted, WantedRange};
use crate::store::values::Usage;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use weft_env::{Rng, SeededRng};
use weft_format::records::{Attributes, Kind, Timestamp};
use weft_format::{Ino, PolicyId};

/// A store under test.
pub trait Subject {
    /// Opens the store as it was left, or a new one the first time.
    fn open(&self) -> Arc<dyn Kv>;
    /// Does it keep what was flushed when it is dropped and opened again?
    fn keeps(&self) -> bool;
    /// Does it look at the ranges of a batch when it commits it?
    fn checks_ranges(&self) -> bool;
}

/// What it looks at, and the look.
type Check<S> = (&'static str, fn(&S));

/// Runs the whole suite; `fresh` answers a new, empty store each time.
pub fn all<S: Subject>(fresh: impl Fn() -> S) {
    let checks: [Check<S>; 15] = [
        ("reads", reads),
        ("scans", scans),
        ("answers together", answers_together),
        ("empty and large", empty_and_large),
        ("conditions", conditions),
        ("snapshots stand still", snapshots_stand_still),
        ("snapshots are whole", snapshots_are_whole),
        ("flush keeps", flush_keeps),
        ("counters are exact", counters_are_exact),
        ("deltas", deltas),
        ("directories", directories),
        ("less than nothing", less_than_nothing),
        ("deltas are exact", deltas_are_exact),
        ("concurrent flushes", concurrent_flushes),
        ("serializable", serializable),
    ];
    for (name, check) in checks {
        println!("conformance: {name}");
        check(&fresh());
    }
}

/// The seed of tests that draw: always the same, or `WEFT_SEED`.
pub fn seed() -> u64 {
    std::env::var("WEFT_SEED").map_or(1, |seed| seed.parse().expect("WEFT_SEED is a number"))
}

/// A batch that sets `key`.
pub fn set(key: &[u8], value: &[u8]) -> Batch {
    Batch { writes: vec![(key.to_vec(), Some(value.to_vec()))], ..Batch::default() }
}

/// A batch that removes `key`.
pub fn remove(key: &[u8]) -> Batch {
    Batch { writes: vec![(key.to_vec(), None)], ..Batch::default() }
}

/// The same batch, if `key` still has this value.
pub fn when(mut batch: Batch, key: &[u8], value: Option<&[u8]>) -> Batch {
    batch.checks.push((key.to_vec(), value.map(<[u8]>::to_vec)));
    batch
}

/// The value of `key` now.
pub fn get(kv: &dyn Kv, key: &[u8]) -> Option<Vec<u8>> {
    kv.snapshot().unwrap().get(key).unwrap()
}

/// All keys from `start` to `end` now.
pub fn scan(kv: &dyn Kv, start: &[u8], end: &[u8]) -> Vec<Pair> {
    kv.snapshot().unwrap().scan(start, end, usize::MAX).unwrap()
}

/// Adds one to the number in `key`, trying until nobody came in between.
pub fn increment(kv: &dyn Kv, key: &[u8]) {
    loop {
        let old = get(kv, key);
        let number = old.as_deref().map_or(0, |bytes| u64::from_be_bytes(bytes.try_into().unwrap()));
        match kv.commit(when(set(key, &(number + 1).to_be_bytes()), key, old.as_deref())) {
            Ok(()) => return,
            Err(KvError::Conflict) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

fn number(kv: &dyn Kv, key: &[u8]) -> u64 {
    u64::from_be_bytes(get(kv, key).expect("the counter").try_into().unwrap())
}

/// With changes in all places that an engine may have: flushed, and on top of that not flushed.
fn layered(kv: &dyn Kv) {
    for (key, value) in [("a", "1"), ("b", "1"), ("c", "1"), ("e", "1")] {
        kv.commit(set(key.as_bytes(), value.as_bytes())).unwrap();
    }
    kv.flush().unwrap();
    kv.commit(set(b"b", b"2")).unwrap();
    kv.commit(remove(b"c")).unwrap();
    kv.commit(set(b"d", b"2")).unwrap();
    kv.commit(remove(b"never was")).unwrap();
}

fn reads(subject: &impl Subject) {
    let kv = subject.open();
    assert_eq!(get(&*kv, b"a"), None, "an empty store has nothing");
    layered(&*kv);
    for _ in 0..2 {
        let values = ["a", "b", "c", "d", "e", "f"].map(|key| get(&*kv, key.as_bytes()));
        let values = values.each_ref().map(|value| value.as_deref().map(|bytes| str::from_utf8(bytes).unwrap()));
        assert_eq!(values, [Some("1"), Some("2"), None, Some("2"), Some("1"), None]);
        let keys = ["f", "b", "c", "a", "never was", "b", "d"].map(|key| key.as_bytes().to_vec());
        let snapshot = kv.snapshot().unwrap();
        for keys in [&keys[..], &[]] {
            let one_by_one: Vec<_> = keys.iter().map(|key| get(&*kv, key)).collect();
            assert_eq!(snapshot.get_many(keys).unwrap(), one_by_one, "in the order of the keys, some twice");
            assert_eq!(snapshot.get_many(keys).unwrap(), one_by_one, "the same again");
        }
        drop(snapshot);
        kv.flush().unwrap();
    }
    kv.commit(Batch::default()).unwrap();
    kv.commit(Batch { writes: vec![(b"a".to_vec(), Some(b"x".to_vec())), (b"a".to_vec(), None)], ..Batch::default() })
        .unwrap();
    assert_eq!(get(&*kv, b"a"), None, "the last write of a key in a batch counts");
}

fn scans(subject: &impl Subject) {
    let kv = subject.open();
    layered(&*kv);
    let pair = |key: &str, value: &str| (key.as_bytes().to_vec(), value.as_bytes().to_vec());
    let pairs = [pair("a", "1"), pair("b", "2"), pair("d", "2"), pair("e", "1")];
    for _ in 0..2 {
        assert_eq!(scan(&*kv, b"", b"\xff"), pairs, "ascending, without what was removed");
        assert_eq!(scan(&*kv, b"a", b"e"), pairs[..3], "the start belongs to it, the end does not");
        assert_eq!(scan(&*kv, b"a\0", b"d\0"), pairs[1..3]);
        assert_eq!(scan(&*kv, b"c", b"d"), []);
        assert_eq!(scan(&*kv, b"e", b"a"), [], "an empty range is no error");
        assert_eq!(scan(&*kv, b"a", b"a"), []);
        let snapshot = kv.snapshot().unwrap();
        for limit in 0..=5 {
            assert_eq!(snapshot.scan(b"", b"\xff", limit).unwrap(), pairs[..limit.min(4)], "at most {limit}");
        }
        drop(snapshot);
        kv.flush().unwrap();
    }
    kv.commit(set(b"\xff\xff", b"")).unwrap();
    kv.commit(set(b"\0", b"")).unwrap();
    let keys: Vec<Vec<u8>> = scan(&*kv, b"", b"\xff\xff\xff").into_iter().map(|(key, _)| key).collect();
    assert_eq!(keys, [&b"\0"[..], b"a", b"b", b"d", b"e", b"\xff\xff"], "bytes are not signed");
}

/// What is asked together is what the same questions answer one by one.
fn answers_together(subject: &impl Subject) {
    let kv = subject.open();
    let pairs: [(&[u8], Option<&[u8]>); 6] = [
        (b"a", Some(b"xk1")),
        (b"b", Some(b"xno")),
        (b"c", Some(b"x")),
        (b"d", Some(b"xk2")),
        (b"Lk1", Some(b"1")),
        (b"Lk2", Some(b"2")),
    ];
    let writes = pairs.map(|(key, value)| (key.to_vec(), value.map(<[u8]>::to_vec))).to_vec();
    kv.commit(Batch { writes, ..Batch::default() }).unwrap();
    let link = Link { table: b'L', at: 1..3 };
    let wanted = |key: &[u8], is_linked: bool| Wanted { key: key.to_vec(), link: is_linked.then(|| link.clone()) };
    for is_filed in [false, true] {
        if is_filed {
            kv.flush().unwrap();
        }
        let keys = vec![wanted(b"a", true), wanted(b"b", false), wanted(b"c", true), wanted(b"none", true)];
        let range = WantedRange { range: b"a".to_vec()..b"z".to_vec(), limit: 3, link: link.clone() };
        for range in [None, Some(range)] {
            let question = Question { keys: keys.clone(), range: range.clone() };
            let mut answer = kv.snapshot().unwrap().fetch(question).unwrap();
            answer.slots.sort();
            let slot = |key: &[u8], value: Option<&[u8]>| (key.to_vec(), value.map(<[u8]>::to_vec));
            let slots = [
                slot(b"Lk1", Some(b"1")),
                slot(b"a", Some(b"xk1")),
                slot(b"b", Some(b"xno")),
                slot(b"c", Some(b"x")),
                slot(b"none", None),
            ];
            assert_eq!(answer.slots, slots, "a value that is too short names nothing");
            let joined: Vec<(Pair, Option<Vec<u8>>)> = match range {
                None => Vec::new(),
                Some(_) => vec![
                    ((b"a".to_vec(), b"xk1".to_vec()), Some(b"1".to_vec())),
                    ((b"b".to_vec(), b"xno".to_vec()), None),
                    ((b"c".to_vec(), b"x".to_vec()), None),
                ],
            };
            assert_eq!(answer.pairs, joined);
        }
    }
}

fn empty_and_large(subject: &impl Subject) {
    let large: Vec<u8> = (0..64 << 10).map(|index: u32| (index.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let long_key = vec![7; 1000];
    {
        let kv = subject.open();
        kv.commit(set(b"", b"empty key")).unwrap();
        kv.commit(set(b"empty value", b"")).unwrap();
        kv.commit(set(b"large", &large)).unwrap();
        kv.commit(set(&long_key, b"long key")).unwrap();
        for _ in 0..2 {
            assert_eq!(get(&*kv, b"").as_deref(), Some(&b"empty key"[..]));
            assert_eq!(get(&*kv, b"empty value"), Some(vec![]), "an empty value is a value");
            assert_eq!(get(&*kv, b"large"), Some(large.clone()));
            assert_eq!(get(&*kv, &long_key).as_deref(), Some(&b"long key"[..]));
            kv.flush().unwrap();
        }
        kv.commit(when(set(b"empty value", b"1"), b"empty value", Some(b""))).unwrap();
        kv.flush().unwrap();
    }
    if subject.keeps() {
        let kv = subject.open();
        assert_eq!(get(&*kv, b"").as_deref(), Some(&b"empty key"[..]));
        assert_eq!(get(&*kv, b"large"), Some(large));
    }
}

fn conditions(subject: &impl Subject) {
    let kv = subject.open();
    layered(&*kv);
    let conflict = |batch: Batch| assert!(matches!(kv.commit(batch.clone()), Err(KvError::Conflict)), "{batch:?}");
    for round in 0..2 {
        let mark = [round];
        conflict(when(set(b"z", b""), b"a", None));
        conflict(when(set(b"z", b""), b"a", Some(b"2")));
        conflict(when(set(b"z", b""), b"a", Some(b"")));
        conflict(when(set(b"z", b""), b"c", Some(b"1")));
        conflict(when(set(b"z", b""), b"f", Some(b"")));
        conflict(when(when(set(b"z", b""), b"a", Some(b"1")), b"b", Some(b"1")));
        assert_eq!(get(&*kv, b"z"), None, "nothing of a refused batch is applied");
        kv.commit(when(when(set(b"y", &mark), b"a", Some(b"1")), b"c", None)).unwrap();
        assert_eq!(get(&*kv, b"y").as_deref(), Some(&mark[..]));
        kv.flush().unwrap();
    }
}

fn snapshots_stand_still(subject: &impl Subject) {
    let kv = subject.open();
    layered(&*kv);
    let old = kv.snapshot().unwrap();
    let also_old = kv.snapshot().unwrap();
    let before = old.scan(b"", b"\xff", usize::MAX).unwrap();
    assert_eq!(old.get(b"new").unwrap(), None, "with its second answer it has a moment for good");
    for round in 0..3 {
        kv.commit(set(b"a", &[round])).unwrap();
        kv.commit(set(b"new", &[round])).unwrap();
        kv.commit(remove(b"e")).unwrap();
        kv.flush().unwrap();
        assert_eq!(old.scan(b"", b"\xff", usize::MAX).unwrap(), before);
        assert_eq!(old.get(b"new").unwrap(), None);
        assert_eq!(old.get(b"e").unwrap().as_deref(), Some(&b"1"[..]));
        // In a snapshot taken now the cache of the engine, if it has one, learns the new values.
        assert_eq!(get(&*kv, b"a"), Some(vec![round]));
        assert_eq!(get(&*kv, b"e"), None);
    }
    // This one reads for the first time: its moment is that of the call, or this one.
    let now = also_old.scan(b"", b"\xff", usize::MAX).unwrap();
    assert!(now == before || now == scan(&*kv, b"", b"\xff"), "{now:?}");
    assert!(also_old.get(b"none").unwrap().is_none());
    kv.commit(set(b"a", b"last")).unwrap();
    kv.flush().unwrap();
    assert_eq!(also_old.scan(b"", b"\xff", usize::MAX).unwrap(), now);
}

/// A writer keeps two distant keys equal in every batch; no snapshot may see them differ, whatever the engine is doing.
fn snapshots_are_whole(subject: &impl Subject) {
    const BATCHES: u32 = 500;
    let kv = subject.open();
    let kv = &*kv;
    let over = AtomicBool::new(false);
    let both = |mark: u32| {
        let mut batch = set(b"a", &mark.to_be_bytes());
        batch.writes.push((b"z".to_vec(), Some(mark.to_be_bytes().to_vec())));
        batch
    };
    kv.commit(both(0)).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for mark in 1..=BATCHES {
                kv.commit(both(mark)).unwrap();
                if mark % 8 == 0 {
                    kv.flush().unwrap();
                }
            }
            over.store(true, Ordering::Release);
        });
        for reader in 0..3 {
            let over = &over;
            scope.spawn(move || {
                let mut last = vec![];
                while !over.load(Ordering::Acquire) {
                    let snapshot = kv.snapshot().unwrap();
                    let a = snapshot.get(b"a").unwrap().expect("a");
                    let z = match reader {
                        0 => snapshot.scan(b"b", b"zz", 1).map(|mut pairs| pairs.pop().expect("z").1),
                        _ => snapshot.get(b"z").map(|value| value.expect("z")),
                    };
                    let z = match z {
                        Err(KvError::Conflict) => continue,
                        z => z.unwrap(),
                    };
                    assert_eq!(a, z, "half a batch was seen");
                    assert!(a >= last, "time went backwards");
                    last = a;
                }
            });
        }
    });
}

fn flush_keeps(subject: &impl Subject) {
    if !subject.keeps() {
        return;
    }
    let before = {
        let kv = subject.open();
        layered(&*kv);
        kv.flush().unwrap();
        scan(&*kv, b"", b"\xff")
    };
    let kv = subject.open();
    assert_eq!(scan(&*kv, b"", b"\xff"), before);
    kv.commit(when(set(b"b", b"3"), b"b", Some(b"2"))).unwrap();
    drop(kv);
    assert_eq!(get(&*subject.open(), b"b").as_deref(), Some(&b"3"[..]), "closing flushes");
}

fn counters_are_exact(subject: &impl Subject) {
    const THREADS: u64 = 4;
    const EACH: u64 = 100;
    let kv = subject.open();
    let kv = &*kv;
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || {
                for round in 0..EACH {
                    increment(kv, b"counter");
                    if (round + thread) % 16 == 0 {
                        kv.flush().unwrap();
                    }
                }
            });
        }
    });
    assert_eq!(number(kv, b"counter"), THREADS * EACH);
}

/// So many inodes more than what is there.
fn inodes(key: &[u8], inodes: i64) -> Batch {
    Batch { deltas: vec![(key.to_vec(), Delta::Usage { inodes, live_bytes: 0 })], ..Batch::default() }
}

fn usage(kv: &dyn Kv, key: &[u8]) -> u64 {
    Usage::decode(&get(kv, key).expect("the usage")).unwrap().inodes
}

fn deltas(subject: &impl Subject) {
    {
        let kv = subject.open();
        let kv = &*kv;
        let refused = when(inodes(b"u", 1), b"u", Some(b"there"));
        assert!(matches!(kv.commit(refused), Err(KvError::Conflict)), "checks come first");
        assert!(
            matches!(kv.commit(inodes(b"u", 1)), Err(KvError::Damaged { .. })),
            "what is to be merged with is missing"
        );
        kv.commit(set(b"u", &Usage { inodes: 5, live_bytes: 0 }.encode())).unwrap();
        let old = kv.snapshot().unwrap();
        assert_eq!((old.get(b"none").unwrap(), old.get(b"also none").unwrap()), (None, None));
        for round in 0..3 {
            kv.commit(inodes(b"u", 2)).unwrap();
            kv.flush().unwrap();
            kv.commit(inodes(b"u", -1)).unwrap();
            assert_eq!(usage(kv, b"u"), 6 + round);
        }
        assert_eq!(Usage::decode(&old.get(b"u").unwrap().expect("the usage")).unwrap().inodes, 5);
        drop(old);
        let refused = when(Batch { writes: set(b"z", b"").writes, ..inodes(b"u", 1) }, b"a", Some(b"not there"));
        assert!(matches!(kv.commit(refused), Err(KvError::Conflict)));
        assert_eq!((usage(kv, b"u"), get(kv, b"z")), (8, None), "nothing of a refused batch is applied");
        kv.commit(Batch { writes: set(b"z", b"").writes, ..inodes(b"u", 1) }).unwrap();
        assert_eq!((usage(kv, b"u"), get(kv, b"z")), (9, Some(vec![])));
        kv.flush().unwrap();
    }
    if subject.keeps() {
        assert_eq!(usage(&*subject.open(), b"u"), 9);
    }
}

/// Names may come and go while a directory's attributes are set; but not the attributes, and not the directory.
fn directories(subject: &impl Subject) {
    let kv = subject.open();
    let key = b"d".to_vec();
    let at = |seconds| Timestamp { seconds, nanoseconds: 0 };
    let made = Attributes {
        ino: Ino(5),
        kind: Kind::Directory,
        mode: 0o755,
        uid: 0,
        gid: 0,
        nlink: 2,
        size: 0,
        allocated_bytes: 0,
        rdev: 0,
        atime: at(1),
        mtime: at(1),
        ctime: at(1),
        btime: at(1),
        policy: PolicyId(0),
        parent: Ino::ROOT,
    };
    let now = || Attributes::decode(&get(&*kv, &key).expect("the directory")).unwrap();
    let set_mode = |before: Attributes, mode| Batch {
        directories: vec![Directory { key: key.clone(), value: before.encode().to_vec() }],
        deltas: vec![(key.clone(), Delta::Attributes { before, after: Attributes { mode, ctime: at(9), ..before } })],
        ..Batch::default()
    };
    kv.commit(set(&key, &made.encode())).unwrap();
    let names = Delta::Names { changed: at(5), subdirectories: 1 };
    kv.commit(Batch { deltas: vec![(key.clone(), names)], ..Batch::default() }).unwrap();
    kv.commit(set_mode(made, 0o700)).unwrap();
    assert_eq!((now().mode, now().nlink, now().mtime), (0o700, 3, at(5)));
    kv.commit(set(&key, &Attributes { uid: 7, ..now() }.encode())).unwrap();
    let late = kv.commit(set_mode(Attributes { mode: 0o700, ..made }, 0o711));
    assert!(matches!(late, Err(KvError::Conflict)), "its owner changed meanwhile: {late:?}");
    assert_eq!((now().mode, now().uid), (0o700, 7));
    kv.commit(remove(&key)).unwrap();
    let late = kv.commit(set_mode(made, 0o711));
    assert!(matches!(late, Err(KvError::Conflict)), "it is gone: {late:?}");

    // A subdirectory came and went while the directory was removed, and an engine saw one of both before.
    kv.commit(set(&key, &made.encode())).unwrap();
    let removed = Attributes { nlink: 0, ..made };
    let removal = Delta::Attributes { before: made, after: removed };
    kv.commit(Batch { deltas: vec![(key.clone(), removal)], ..Batch::default() }).unwrap();
    let gone = Delta::Names { changed: at(9), subdirectories: -1 };
    kv.commit(Batch { deltas: vec![(key.clone(), gone)], ..Batch::default() }).unwrap();
    assert_eq!((now().nlink, now().mtime), (0, at(9)));
}

/// Less than nothing is damage: the commit reports it, or the next read.
fn less_than_nothing(subject: &impl Subject) {
    let kv = subject.open();
    kv.commit(set(b"u", &Usage { inodes: 5, live_bytes: 0 }.encode())).unwrap();
    if kv.commit(inodes(b"u", -9)).is_ok() {
        assert!(
            matches!(kv.snapshot().unwrap().get(b"u"), Err(KvError::Damaged { .. })),
            "it counts less than nothing"
        );
    } else {
        assert_eq!(usage(&*kv, b"u"), 5);
    }
}

/// None of them waits for another, and none is lost.
fn deltas_are_exact(subject: &impl Subject) {
    const THREADS: u64 = 4;
    const EACH: u64 = 200;
    let kv = subject.open();
    let kv = &*kv;
    kv.commit(set(b"u", &Usage::default().encode())).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || {
                for round in 0..EACH {
                    kv.commit(inodes(b"u", 1)).unwrap();
                    if (round + thread) % 16 == 0 {
                        kv.flush().unwrap();
                    }
                }
            });
        }
    });
    assert_eq!(usage(kv, b"u"), THREADS * EACH);
}

fn concurrent_flushes(subject: &impl Subject) {
    const THREADS: u8 = 8;
    const EACH: u8 = 20;
    {
        let kv = subject.open();
        let kv = &*kv;
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                scope.spawn(move || {
                    for round in 0..EACH {
                        kv.commit(when(set(&[thread, round], b"x"), &[thread, round], None)).unwrap();
                        kv.flush().unwrap();
                    }
                });
            }
        });
        assert_eq!(scan(kv, b"", b"\xff").len(), usize::from(THREADS) * usize::from(EACH));
    }
    if subject.keeps() {
        assert_eq!(scan(&*subject.open(), b"", b"\xff").len(), usize::from(THREADS) * usize::from(EACH));
    }
}

/// A transaction that was committed: what it read of which key (the number of the transaction that wrote it; 0: nobody), and what it wrote.
struct Committed {
    number: u64,
    reads: BTreeMap<usize, u64>,
    writes: BTreeSet<usize>,
}

/// Keys of a round: some in each of two domains. At its beginning none is there.
const POOL: usize = 6;

fn pool_key(index: usize) -> Vec<u8> {
    let domain = (index / POOL * 2 + index % 2) as u64;
    [&[2][..], &domain.to_be_bytes(), &[(index % POOL) as u8]].concat()
}

/// Transactions of threads that read some keys and ranges, and write some of what they read, have an order in which each read what the ones
/// before it had left (Adya's graph of dependencies has no circle). In each round the threads read the same few keys, and commit at the
/// same time.
fn serializable(subject: &impl Subject) {
    const THREADS: usize = 4;
    const ROUNDS: usize = 100;
    let kv = subject.open();
    let kv = &*kv;
    let checks_ranges = subject.checks_ranges();
    let barrier = Barrier::new(THREADS);
    let committed: Vec<Committed> = std::thread::scope(|scope| {
        let threads = (0..THREADS).map(|thread| {
            let barrier = &barrier;
            scope.spawn(move || {
                let rng = SeededRng::new(seed() * THREADS as u64 + thread as u64);
                let rounds = (0..ROUNDS * 2).filter_map(|round| {
                    let (batch, mut transaction) = loop {
                        match decide(kv, &rng, round / 2, checks_ranges) {
                            Err(KvError::Conflict) => {}
                            decided => break decided.unwrap(),
                        }
                    };
                    transaction.number = (thread * ROUNDS * 2 + round + 1) as u64;
                    barrier.wait();
                    commit_numbered(kv, batch, &transaction).then_some(transaction)
                });
                rounds.collect::<Vec<_>>()
            })
        });
        let threads: Vec<_> = threads.collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("a thread")).collect()
    });
    assert!(committed.len() > ROUNDS, "{} were committed", committed.len());
    assert_order(&committed);
}

/// What a transaction reads, and will write.
fn decide(kv: &dyn Kv, rng: &SeededRng, round: usize, checks_ranges: bool) -> Result<(Batch, Committed), KvError> {
    let below = |bound: usize| (rng.next_u64() % bound as u64) as usize;
    let version =
        |value: Option<&[u8]>| value.map_or(0, |value| u64::from_be_bytes(value.try_into().expect("a number")));
    let mut batch = Batch::default();
    let mut reads = BTreeMap::new();
    let snapshot = kv.snapshot().unwrap();
    let pool = round * POOL..(round + 1) * POOL;
    for _ in 0..2 + below(2) {
        let index = pool.start + below(POOL);
        let value = snapshot.get(&pool_key(index))?;
        if reads.insert(index, version(value.as_deref())).is_none() {
            batch.checks.push((pool_key(index), value));
        }
    }
    let written = below(reads.len());
    let writes = reads.keys().copied().skip(written).take(1).collect();
    if checks_ranges && below(2) == 0 {
        let domain = pool_key(pool.start + below(2))[..9].to_vec();
        let end = [&domain[..], &[u8::MAX]].concat();
        let limit = 1 + below(POOL);
        let found = snapshot.scan(&domain, &end, limit)?;
        let seen_to = if found.len() == limit { found.last().map(|(key, _)| key.clone()) } else { None };
        for index in pool {
            let key = pool_key(index);
            if key.starts_with(&domain) && seen_to.as_ref().is_none_or(|last| key <= *last) {
                let value = found.iter().find(|(found, _)| *found == key).map(|(_, value)| value.as_slice());
                reads.insert(index, version(value));
            }
        }
        batch.ranges.push(RangeCheck { range: domain..end, limit, found });
    }
    Ok((batch, Committed { number: 0, reads, writes }))
}

/// Writes the transaction's number to what it writes; false: it met another.
fn commit_numbered(kv: &dyn Kv, batch: Batch, transaction: &Committed) -> bool {
    let value = transaction.number.to_be_bytes().to_vec();
    let writes = transaction.writes.iter().map(|index| (pool_key(*index), Some(value.clone()))).collect();
    match kv.commit(Batch { writes, ..batch }) {
        Ok(()) => true,
        Err(KvError::Conflict) => false,
        Err(error) => panic!("{error}"),
    }
}

/// Each transaction read what it wrote, so the versions of a key are a chain, and everything that depends on another is known.
fn assert_order(committed: &[Committed]) {
    let mut next_of: BTreeMap<(usize, u64), u64> = BTreeMap::new();
    for transaction in committed {
        for index in &transaction.writes {
            let before = next_of.insert((*index, transaction.reads[index]), transaction.number);
            assert_eq!(before, None, "key {index} was written twice over one version: an update is lost");
        }
    }
    let mut before: BTreeMap<u64, BTreeSet<u64>> = BTreeMap::new();
    for transaction in committed {
        for (index, version) in &transaction.reads {
            if *version != 0 {
                before.entry(transaction.number).or_default().insert(*version);
            }
            if let Some(next) = next_of.get(&(*index, *version)).filter(|next| **next != transaction.number) {
                before.entry(*next).or_default().insert(transaction.number);
            }
        }
    }
    let mut left: BTreeSet<u64> = committed.iter().map(|transaction| transaction.number).collect();
    while !left.is_empty() {
        let is_first = |number: &u64| before.get(number).is_none_or(|before| before.is_disjoint(&left));
        let first: Vec<u64> = left.iter().copied().filter(is_first).collect();
        assert!(!first.is_empty(), "no order of these transactions explains what they read: {left:?}");
        left.retain(|number| !first.contains(number));
    }
}
