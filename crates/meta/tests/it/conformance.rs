//! All engines against the conformance suite, and against a plain ordered map.

use proptest::prelude::*;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use weft_env::Env;
use weft_meta::conformance::{self, Subject, get, scan};
use weft_meta::engines::{MemoryKv, SqliteKv};
use weft_meta::keys::SharedPrefix;
use weft_meta::kv::{Batch, Kv, KvError};
use weft_meta::{Access, MetaUrl, servers};

struct Memory;

impl Subject for Memory {
    fn open(&self) -> Arc<dyn Kv> {
        Arc::new(MemoryKv::new())
    }

    fn keeps(&self) -> bool {
        false
    }

    fn checks_ranges(&self) -> bool {
        true
    }
}

struct Sqlite {
    folder: tempfile::TempDir,
    access: Access,
    shared_keys: &'static [SharedPrefix],
}

impl Sqlite {
    fn new(access: Access, shared_keys: &'static [SharedPrefix]) -> Self {
        Self { folder: tempfile::tempdir().unwrap(), access, shared_keys }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("volume")
    }
}

impl Subject for Sqlite {
    fn open(&self) -> Arc<dyn Kv> {
        if !self.path().exists() {
            SqliteKv::create(&self.path()).unwrap();
        }
        Arc::new(SqliteKv::open(&self.path(), self.access, self.shared_keys, None, &Env::system()).unwrap())
    }

    fn keeps(&self) -> bool {
        true
    }

    fn checks_ranges(&self) -> bool {
        false
    }
}

/// A place on a server.
#[cfg(feature = "shared")]
struct Served {
    url: MetaUrl,
    access: Access,
}

#[cfg(feature = "shared")]
impl Served {
    /// A new one; `url_of` gives the address of one with this name.
    fn new(url_of: impl Fn(&str) -> String, access: Access) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("s{}", COUNT.fetch_add(1, Ordering::Relaxed));
        let url = MetaUrl::parse(url_of(&name).as_ref()).unwrap();
        url.create().unwrap();
        Self { url, access }
    }
}

#[cfg(feature = "shared")]
impl Subject for Served {
    fn open(&self) -> Arc<dyn Kv> {
        self.url.open(self.access, None, &Env::system()).unwrap()
    }

    fn keeps(&self) -> bool {
        true
    }

    fn checks_ranges(&self) -> bool {
        self.access != Access::Owner
    }
}

/// Every key; with it all batches are written through.
const EVERYTHING: &[SharedPrefix] = &[SharedPrefix { prefix: b"", fresh_ids: false }];
/// Two of the keys that the suite pairs with others, and the counter.
const SOME: &[SharedPrefix] =
    &[SharedPrefix { prefix: b"a", fresh_ids: false }, SharedPrefix { prefix: b"counter", fresh_ids: false }];

#[test]
fn memory() {
    conformance::all(|| Memory);
}

#[test]
#[cfg(feature = "shared")]
fn postgres() {
    let server = servers::Postgres::start();
    conformance::all(|| Served::new(|name| server.url(name), Access::Owner));
    conformance::all(|| Served::new(|name| server.url(name), Access::Shared));
}

#[test]
#[cfg(feature = "shared")]
fn etcd() {
    // Three on two processors take twice as long as one, and other tests kill them.
    let cluster = servers::Etcd::start(if crate::effort::is_long() { 3 } else { 1 });
    conformance::all(|| Served::new(|name| cluster.url(name), Access::Owner));
    conformance::all(|| Served::new(|name| cluster.url(name), Access::Shared));
}

#[test]
fn sqlite_of_an_owner() {
    conformance::all(|| Sqlite::new(Access::Owner, &[]));
}

#[test]
fn sqlite_of_an_owner_with_some_keys_shared() {
    conformance::all(|| Sqlite::new(Access::Owner, SOME));
}

#[test]
fn sqlite_beside_an_owner() {
    conformance::all(|| Sqlite::new(Access::Shared, EVERYTHING));
}

/// What a sequence of operations does, on few keys so that they meet.
#[derive(Clone, Debug)]
enum Operation {
    Commit {
        checks: Vec<(u8, Option<u8>)>,
        writes: Vec<(u8, Option<u8>)>,
    },
    /// The checks are made to hold.
    CommitTrue {
        checked: Vec<u8>,
        writes: Vec<(u8, Option<u8>)>,
    },
    Get(u8),
    Scan {
        start: u8,
        end: u8,
        limit: usize,
    },
    Flush,
    Reopen,
}

fn operation() -> impl Strategy<Value = Operation> {
    let writes = || prop::collection::vec((0..12u8, prop::option::of(0..4u8)), 0..4);
    prop_oneof![
        2 => (prop::collection::vec((0..12u8, prop::option::of(0..4u8)), 0..3), writes())
            .prop_map(|(checks, writes)| Operation::Commit { checks, writes }),
        6 => (prop::collection::vec(0..12u8, 0..3), writes())
            .prop_map(|(checked, writes)| Operation::CommitTrue { checked, writes }),
        4 => (0..12u8).prop_map(Operation::Get),
        3 => (0..13u8, 0..13u8, 0..14usize).prop_map(|(start, end, limit)| Operation::Scan { start, end, limit }),
        2 => Just(Operation::Flush),
        1 => Just(Operation::Reopen),
    ]
}

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn agrees(subject: &impl Subject, operations: &[Operation]) {
    let bytes = |pairs: &[(u8, Option<u8>)]| -> Vec<_> {
        pairs.iter().map(|(key, value)| (vec![*key], value.map(|value| vec![value]))).collect()
    };
    let mut model = Model::new();
    let mut kv = Some(subject.open());
    for operation in operations {
        let engine = &**kv.as_ref().unwrap();
        match operation {
            Operation::Commit { checks, writes } => {
                agree_on_commit(
                    engine,
                    &mut model,
                    Batch { checks: bytes(checks), writes: bytes(writes), ..Batch::default() },
                );
            }
            Operation::CommitTrue { checked, writes } => {
                let checks = checked.iter().map(|key| (vec![*key], model.get(&vec![*key]).cloned())).collect();
                agree_on_commit(engine, &mut model, Batch { checks, writes: bytes(writes), ..Batch::default() });
            }
            Operation::Get(key) => assert_eq!(get(engine, &[*key]), model.get(&vec![*key]).cloned()),
            Operation::Scan { start, end, limit } => {
                let found = engine.snapshot().unwrap().scan(&[*start], &[*end], *limit).unwrap();
                let expected: Vec<_> = model
                    .iter()
                    .filter(|(key, _)| (vec![*start]..vec![*end]).contains(*key))
                    .take(*limit)
                    .map(|(key, value)| (key.clone(), value.clone()))
                    .collect();
                assert_eq!(found, expected);
            }
            Operation::Flush => engine.flush().unwrap(),
            Operation::Reopen if subject.keeps() => {
                drop(kv.take());
                kv = Some(subject.open());
            }
            Operation::Reopen => {}
        }
    }
    assert_eq!(scan(&**kv.as_ref().unwrap(), b"", b"\xff"), model.into_iter().collect::<Vec<_>>());
}

fn agree_on_commit(kv: &dyn Kv, model: &mut Model, batch: Batch) {
    let holds = batch.checks.iter().all(|(key, expected)| model.get(key) == expected.as_ref());
    match kv.commit(batch.clone()) {
        Ok(()) => assert!(holds, "{batch:?} on {model:?}"),
        Err(KvError::Conflict) => assert!(!holds, "{batch:?} on {model:?}"),
        Err(error) => panic!("{error}"),
    }
    if holds {
        for (key, value) in batch.writes {
            match value {
                Some(value) => model.insert(key, value),
                None => model.remove(&key),
            };
        }
    }
}

/// Keys 3 to 5 are written through.
const MIXED: &[SharedPrefix] = &[
    SharedPrefix { prefix: &[3], fresh_ids: false },
    SharedPrefix { prefix: &[4], fresh_ids: false },
    SharedPrefix { prefix: &[5], fresh_ids: false },
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn memory_is_an_ordered_map(operations in prop::collection::vec(operation(), 0..60)) {
        agrees(&Memory, &operations);
    }

    #[test]
    fn sqlite_is_an_ordered_map(operations in prop::collection::vec(operation(), 0..60)) {
        agrees(&Sqlite::new(Access::Owner, MIXED), &operations);
    }
}
