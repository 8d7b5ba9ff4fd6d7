use super::*;
use crate::engines::sqlite::SqliteKv;
use crate::keys::SHARED;
use crate::kv::{Batch, Kv};
use crate::types::Access;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use weft_env::Env;

fn open(path: &Path, access: Access) -> SqliteKv {
    SqliteKv::open(path, access, SHARED, None, &Env::system()).expect("opened")
}

/// An empty store in a folder of its own, owned.
fn store() -> (TempDir, SqliteKv) {
    let folder = tempfile::tempdir().expect("a folder");
    SqliteKv::create(&path(&folder)).expect("made");
    let kv = open(&path(&folder), Access::Owner);
    (folder, kv)
}

fn path(folder: &TempDir) -> PathBuf {
    folder.path().join("meta.db")
}

/// Keys of the inode table, which is the owner's.
fn key(number: u8) -> Vec<u8> {
    vec![2, number]
}

fn set(kv: &dyn Kv, key: Vec<u8>, value: Option<&[u8]>) {
    let writes = vec![(key, value.map(<[u8]>::to_vec))];
    kv.commit(Batch { writes, ..Batch::default() }).expect("committed");
}

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

fn apply(map: &mut Map, changes: &Changes) {
    for (key, value) in &changes.slots {
        match value {
            Some(value) => map.insert(key.clone(), value.clone()),
            None => map.remove(key),
        };
    }
}

fn all(kv: &dyn Kv) -> Map {
    kv.snapshot().expect("a view").scan(&[], &[u8::MAX], usize::MAX).expect("read").into_iter().collect()
}

#[test]
fn pages_and_the_changes_since_are_the_store() {
    let (_folder, kv) = store();
    (0..50).for_each(|number| set(&kv, key(number), Some(&[number; 100])));
    kv.settle().expect("settled");
    let after = kv.last().expect("read");
    // While it is read page by page it changes, before and behind the page.
    let (mut map, mut start, mut pages) = (Map::new(), Some(Vec::new()), 0u8);
    while let Some(from) = start {
        let page = kv.page(&from, 1000).expect("a page");
        map.extend(page.pairs);
        start = page.next;
        set(&kv, key(pages), None);
        set(&kv, key(49 - pages), Some(b"new"));
        set(&kv, key(100 + pages), Some(b"further"));
        kv.settle().expect("settled");
        pages += 1;
    }
    assert!(pages > 3);
    let changes = kv.changes_after(after, 1000).expect("read").expect("all are known");
    assert_eq!(changes.upto, kv.last().expect("read"));
    apply(&mut map, &changes);
    assert_eq!(map, all(&kv));
    assert_eq!(kv.changes_after(after, 3).expect("read"), None, "too many");
}

#[test]
fn the_changes_of_every_process_are_told_and_those_of_a_log_that_was_left() {
    let (folder, kv) = store();
    set(&kv, key(1), Some(b"the owner's"));
    kv.flush().expect("flushed");
    let other = open(&path(&folder), Access::Shared);
    // Of the table of jobs.
    set(&other, vec![38, 1], Some(b"another's"));
    drop(other);
    kv.settle().expect("settled");
    let told = |kv: &SqliteKv, after| -> Vec<Vec<u8>> {
        let changes = kv.changes_after(after, 1000).expect("read").expect("all are known");
        changes.slots.into_iter().map(|(key, _)| key).collect()
    };
    assert_eq!(told(&kv, 0), [key(1), vec![38, 1]]);
    let lineage = kv.lineage().expect("read");
    let last = kv.last().expect("read");
    // Flushed to the log only, and the process ends at once.
    set(&kv, key(2), Some(b"in the log"));
    kv.flush().expect("flushed");
    let copy = folder.path().join("killed");
    std::fs::create_dir(&copy).expect("made");
    for suffix in ["", "-wal", "-intents", "-owner"] {
        let file = format!("meta.db{suffix}");
        std::fs::copy(folder.path().join(&file), copy.join(&file)).ok();
    }
    drop(kv);
    let restored = copy.join("restored.db");
    SqliteKv::restore(&copy.join("meta.db"), &restored, &weft_env::SystemClock).expect("restored");
    let kv = open(&restored, Access::Owner);
    assert!(all(&kv).contains_key(&key(2)));
    assert_ne!(kv.lineage().expect("read"), lineage, "a copy counts for itself");
    assert_eq!(kv.changes_after(last - 1, 1000).expect("read"), None, "what was before is another store's");
}

#[test]
fn what_is_forgotten_is_not_asked_for() {
    let (folder, kv) = store();
    set(&kv, key(1), Some(b"one"));
    kv.settle().expect("settled");
    let first = kv.last().expect("read");
    set(&kv, key(2), Some(b"two"));
    kv.settle().expect("settled");
    kv.forget(first).expect("forgotten");
    assert_eq!(kv.changes_after(0, 1000).expect("read"), None);
    let left = kv.changes_after(first, 1000).expect("read").expect("known");
    assert_eq!(left.slots, [(key(2), Some(b"two".to_vec()))]);
    kv.forget(0).expect("nothing to do");
    assert!(kv.changes_after(first, 1000).expect("read").is_some());
    // It is known to the next process, too.
    drop(kv);
    let kv = open(&path(&folder), Access::Owner);
    assert_eq!(kv.changes_after(0, 1000).expect("read"), None);
    assert!(kv.changes_after(first, 1000).expect("read").is_some());
}

#[test]
fn a_damaged_list_is_no_list() {
    let (folder, kv) = store();
    set(&kv, key(1), Some(b"one"));
    drop(kv);
    let connection = Connection::open(path(&folder)).expect("opened");
    connection.execute("UPDATE changes SET keys = zeroblob(length(keys)) WHERE number > 0", []).expect("changed");
    drop(connection);
    let kv = open(&path(&folder), Access::Owner);
    let error = kv.changes_after(0, 1000).expect_err("damaged").to_string();
    assert!(error.contains("list of changes"), "{error}");
}
