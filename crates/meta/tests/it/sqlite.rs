//! The SQLite engine beside other engines on the same file, on bad files, and on a full disk.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use weft_env::Env;
use weft_meta::Access;
use weft_meta::conformance::{self, get, increment, remove, scan, set, when};
use weft_meta::engines::{OpenError, SqliteKv};
use weft_meta::keys::SharedPrefix;
use weft_meta::kv::{Batch, Kv, KvError};

const SHARED: &[SharedPrefix] = &[
    SharedPrefix { prefix: b"segment/", fresh_ids: true },
    SharedPrefix { prefix: b"on-node/", fresh_ids: true },
    SharedPrefix { prefix: b"node/", fresh_ids: false },
];

fn volume(folder: &Path) -> PathBuf {
    let path = folder.join("volume");
    SqliteKv::create(&path).unwrap();
    path
}

fn open(path: &Path, access: Access) -> SqliteKv {
    SqliteKv::open(path, access, SHARED, None, &Env::system()).unwrap()
}

fn refusal(path: &Path) -> OpenError {
    SqliteKv::open(path, Access::Shared, SHARED, None, &Env::system()).err().expect("it must be refused")
}

fn is_conflict(result: Result<(), KvError>) -> bool {
    matches!(result, Err(KvError::Conflict))
}

#[test]
fn a_store_is_made_once_and_refused_with_a_sentence_where_it_is_none() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a b?#%41 volume");
    let missing = refusal(&path);
    assert!(matches!(missing, OpenError::Missing(_)), "{missing}");
    assert!(missing.to_string().ends_with("; make one with `weft format`, or correct the address"), "{missing}");

    SqliteKv::create(&path).unwrap();
    open(&path, Access::Owner).commit(set(b"k", b"v")).unwrap();
    assert!(matches!(SqliteKv::create(&path), Err(OpenError::Exists(_))));
    let nowhere = folder.path().join("no/such/place");
    assert!(matches!(SqliteKv::create(&nowhere), Err(OpenError::NoFolder(_))));
    assert_eq!(get(&open(&path, Access::Shared), b"k").as_deref(), Some(&b"v"[..]), "a refused create changes nothing");
    let names: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), 4, "the store, its owner file, its reserve, its empty intent log: {names:?}");

    let log = folder.path().join("other-wal");
    std::fs::write(&log, b"left behind").unwrap();
    let taken = SqliteKv::create(&folder.path().join("other")).unwrap_err().to_string();
    assert!(
        taken.contains("other-wal belongs to the store that was at"),
        "a foreign log would be replayed into the new store: {taken}"
    );
}

#[test]
fn other_files_are_refused_and_left_as_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let foreign = folder.path().join("foreign");
    rusqlite::Connection::open(&foreign)
        .unwrap()
        .execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE t (x)")
        .unwrap();
    for (name, bytes) in [("empty", &b""[..]), ("text", &[b'x'; 5000]), ("short", b"SQLite format 3\0")] {
        std::fs::write(folder.path().join(name), bytes).unwrap();
    }
    for name in ["foreign", "empty", "text", "short"] {
        let path = folder.path().join(name);
        let before = std::fs::read(&path).unwrap();
        let error = refusal(&path);
        assert!(matches!(error, OpenError::NotOurs(_)), "{name}: {error}");
        assert!(matches!(SqliteKv::create(&path), Err(OpenError::Exists(_))), "{name}");
        assert_eq!(std::fs::read(&path).unwrap(), before, "{name}");
    }
    assert!(matches!(refusal(folder.path()), OpenError::NotOurs(_)), "a folder is no store");

    let newer = volume(folder.path());
    rusqlite::Connection::open(&newer).unwrap().execute_batch("PRAGMA user_version = 9").unwrap();
    let error = refusal(&newer);
    assert!(matches!(error, OpenError::Newer { found: 9, .. }), "{error}");
    assert!(error.to_string().contains("has metadata format 9, and this program knows 8"), "{error}");
}

#[test]
fn one_owner_and_any_number_beside_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = volume(folder.path());
    let owner = SqliteKv::open(&path, Access::Owner, SHARED, Some(Path::new("/mnt/x")), &Env::system()).unwrap();
    let second =
        SqliteKv::open(&path, Access::Owner, SHARED, None, &Env::system()).err().expect("a second owner").to_string();
    assert!(second.contains("(mounted at /mnt/x); use that mount, or end it with `weft umount /mnt/x`"), "{second}");
    let (_one, _two) = (open(&path, Access::Shared), open(&path, Access::Shared));
    drop(owner);
    open(&path, Access::Owner);
}

#[test]
fn what_others_write_is_durable_and_seen_and_only_shared_keys_are_theirs() {
    let folder = tempfile::tempdir().unwrap();
    let path = volume(folder.path());
    let (owner, care) = (open(&path, Access::Owner), open(&path, Access::Shared));
    let before = owner.snapshot().unwrap();
    assert_eq!(before.get(b"node/1").unwrap(), None);
    care.commit(set(b"node/1", b"up")).unwrap();
    assert_eq!(get(&owner, b"node/1").as_deref(), Some(&b"up"[..]));
    assert_eq!(before.get(b"node/1").unwrap(), None, "a snapshot stands still for others' commits too");
    drop(before);
    let refused = care.commit(set(b"inode/1", b"mine")).unwrap_err().to_string();
    assert!(refused.contains("only the volume's owner may change the key inode/1"), "{refused}");

    owner.commit(set(b"inode/1", b"a")).unwrap();
    owner.flush().unwrap();
    care.commit(when(set(b"node/2", b"up"), b"inode/1", Some(b"a"))).unwrap();
    assert!(is_conflict(care.commit(when(set(b"node/2", b"down"), b"inode/1", Some(b"b")))));
}

#[test]
fn a_segment_that_others_changed_is_a_conflict_for_the_owner_and_the_reverse() {
    let folder = tempfile::tempdir().unwrap();
    let path = volume(folder.path());
    let (owner, care) = (open(&path, Access::Owner), open(&path, Access::Shared));
    owner.commit(when(set(b"segment/1", b"generation 1"), b"segment/1", None)).unwrap();
    owner.flush().unwrap();
    care.commit(when(set(b"segment/1", b"generation 2"), b"segment/1", Some(b"generation 1"))).unwrap();

    let mut late = when(set(b"segment/1", b"dead"), b"segment/1", Some(b"generation 1"));
    late.writes.push((b"inode/1".to_vec(), Some(b"truncated".to_vec())));
    assert!(is_conflict(owner.commit(late.clone())));
    assert_eq!(get(&owner, b"inode/1"), None, "nothing of it is applied");
    late.checks[0].1 = Some(b"generation 2".to_vec());
    owner.commit(late).unwrap();
    assert_eq!(get(&care, b"inode/1").as_deref(), Some(&b"truncated"[..]), "written through: visible without a flush");
    assert!(is_conflict(care.commit(when(set(b"segment/1", b"generation 3"), b"segment/1", Some(b"generation 2")))));
}

/// A batch that is written through may change owner-only keys that are pending, cached, or both; all views agree on it.
#[test]
fn a_batch_written_through_is_whole_above_pending_and_cached_keys() {
    let folder = tempfile::tempdir().unwrap();
    let path = volume(folder.path());
    let owner = &open(&path, Access::Owner);
    let both = |mark: u32| {
        let mut batch = set(b"inode/1", &mark.to_be_bytes());
        batch.writes.push((b"node/1".to_vec(), Some(mark.to_be_bytes().to_vec())));
        batch
    };
    owner.commit(both(0)).unwrap();
    let over = &AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for mark in 1..300 {
                // The same value again by way of the memtable, so that it is pending when the next batch is written through.
                let old = get(owner, b"inode/1").unwrap();
                owner.commit(when(set(b"inode/1", &old), b"inode/1", Some(&old))).unwrap();
                owner.commit(both(mark)).unwrap();
                assert_eq!(get(owner, b"inode/1"), Some(mark.to_be_bytes().to_vec()), "read your writes");
            }
            over.store(true, Ordering::Release);
        });
        for _ in 0..2 {
            scope.spawn(move || {
                while !over.load(Ordering::Acquire) {
                    let snapshot = owner.snapshot().unwrap();
                    let (node, inode) = (snapshot.get(b"node/1").unwrap(), snapshot.get(b"inode/1").unwrap());
                    assert_eq!(inode, node, "half a batch was seen");
                }
            });
        }
    });
}

/// The rule of `sqlite.rs`, under fire: an owner's two threads and two processes' worth of care change the same counters,
/// while the owner makes segments write-behind; all ends exact.
#[test]
fn owner_and_others_lose_no_update() {
    const EACH: u64 = 60;
    let folder = tempfile::tempdir().unwrap();
    let path = volume(folder.path());
    let owner = &open(&path, Access::Owner);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            let path = &path;
            scope.spawn(move || {
                let care = open(path, Access::Shared);
                (0..EACH).for_each(|_| increment(&care, b"node/counter"));
            });
            scope.spawn(move || (0..EACH).for_each(|_| increment(owner, b"node/counter")));
        }
        scope.spawn(move || {
            for number in 0..EACH * 10 {
                let segment = format!("segment/{number:05}").into_bytes();
                let mut batch = when(set(&segment, b"generation 1"), &segment, None);
                batch.writes.push((format!("on-node/1/{number:05}").into_bytes(), Some(vec![])));
                owner.commit(batch).unwrap();
                increment(owner, b"segments made");
            }
        });
    });
    let number = |key| u64::from_be_bytes(get(owner, key).unwrap().try_into().unwrap());
    assert_eq!(number(b"node/counter"), 4 * EACH);
    assert_eq!(number(b"segments made"), EACH * 10);
    owner.flush().unwrap();
    let care = open(&path, Access::Shared);
    assert_eq!(scan(&care, b"segment/", b"segment0").len() as u64, EACH * 10);
}

#[test]
fn an_id_given_out_twice_stops_the_engine_and_overwrites_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = volume(folder.path());
    let (owner, care) = (open(&path, Access::Owner), open(&path, Access::Shared));
    // What another process would write: the rows of a store that has just this key.
    let elsewhere = tempfile::tempdir().unwrap();
    let with_key = volume(elsewhere.path());
    open(&with_key, Access::Owner).commit(set(b"segment/1", b"another's")).unwrap();
    // While it writes, the owner's stays pending.
    let other = rusqlite::Connection::open(&path).unwrap();
    other.execute("ATTACH ?1 AS elsewhere", [with_key.to_str().unwrap()]).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    owner.commit(when(set(b"segment/1", b"the owner's"), b"segment/1", None)).unwrap();
    other.execute_batch("INSERT OR REPLACE INTO main.kv SELECT * FROM elsewhere.kv; COMMIT").unwrap();
    let failed = owner.flush().unwrap_err().to_string();
    assert!(failed.contains("two processes made the key segment/1"), "{failed}");
    assert!(matches!(owner.commit(set(b"inode/1", b"x")), Err(KvError::Failed { .. })), "it takes no more writes");
    assert!(matches!(owner.commit(set(b"node/1", b"x")), Err(KvError::Failed { .. })));
    assert!(owner.flush().is_err());
    assert!(owner.snapshot().unwrap().get(b"inode/1").is_ok(), "reads go on");
    drop(owner);
    assert_eq!(get(&care, b"segment/1").as_deref(), Some(&b"another's"[..]));
}

/// Random batches over cached, pending, flushed and written-through keys, on an engine with many snapshots of several ages:
/// each keeps saying what it said first.
#[test]
fn old_snapshots_stand_still_whatever_is_written() {
    let seed = conformance::seed();
    println!("seed {seed}");
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let folder = tempfile::tempdir().unwrap();
    let owner = open(&volume(folder.path()), Access::Owner);
    let keys: Vec<Vec<u8>> = (0..4)
        .flat_map(|number| [format!("inode/{number}"), format!("node/{number}")])
        .map(String::into_bytes)
        .collect();
    let mut snapshots = std::collections::VecDeque::new();
    let mut now = std::collections::BTreeMap::<Vec<u8>, Vec<u8>>::new();
    for round in 0..600_u32 {
        let mut batch = Batch::default();
        for _ in 0..random.random_range(1..4) {
            // Mostly the owner's own keys: the others are slow.
            let key = &keys[random.random_range(0..keys.len() / 2) * 2 + usize::from(random.random_ratio(1, 12))];
            let value = random.random_ratio(2, 3).then(|| round.to_be_bytes().to_vec());
            match &value {
                Some(value) => now.insert(key.clone(), value.clone()),
                None => now.remove(key),
            };
            batch.writes.push((key.clone(), value));
        }
        owner.commit(batch).unwrap();
        if random.random_ratio(1, 6) {
            owner.flush().unwrap();
        }
        snapshots.push_back((owner.snapshot().unwrap(), now.clone()));
        if snapshots.len() > 12 {
            snapshots.pop_front();
        }
        let (snapshot, then) = &snapshots[random.random_range(0..snapshots.len())];
        let key = &keys[random.random_range(0..keys.len())];
        assert_eq!(snapshot.get(key).unwrap().as_ref(), then.get(key), "round {round}");
        if random.random_ratio(1, 4) {
            let found: Vec<_> = then.clone().into_iter().collect();
            assert_eq!(snapshot.scan(b"", b"\xff", usize::MAX).unwrap(), found, "round {round}");
        }
    }
}

/// A small file system in memory, unmounted when dropped.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn new(options: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mount = Command::new("mount").args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(folder.path()).status();
        assert!(mount.unwrap().success(), "this test mounts a tmpfs: it needs root");
        Self(folder)
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        Command::new("umount").arg("--lazy").arg(self.0.path()).status().unwrap();
    }
}

#[test]
fn a_full_disk_is_said_loses_nothing_and_recovers() {
    let disk = SmallDisk::new("size=4m");
    let ballast = disk.0.path().join("ballast");
    std::fs::write(&ballast, vec![1; 2 << 20]).unwrap();
    let path = volume(disk.0.path());
    let key = |number: u32| format!("inode/{number:06}").into_bytes();
    let (mut accepted, mut refused) = (0, 0);
    {
        let owner = open(&path, Access::Owner);
        while refused < 3 {
            match owner.commit(set(&key(accepted), &[7; 4000])) {
                Ok(()) => {
                    accepted += 1;
                    if accepted % 64 == 0
                        && let Err(error) = owner.flush()
                    {
                        assert!(matches!(error, KvError::Full { .. }), "{error}");
                    }
                }
                Err(KvError::Full { .. }) => refused += 1,
                Err(error) => panic!("{error}"),
            }
            assert!(accepted < 2000, "8 MB do not fit");
        }
        let error = owner.commit(set(b"inode/more", b"")).unwrap_err();
        assert!(error.to_string().contains("has no space left; free some on its disk and try again"), "{error}");
        assert!(matches!(owner.commit(set(b"node/1", b"through")), Err(KvError::Full { .. })));
        assert_eq!(scan(&owner, b"inode/", b"inode0").len(), accepted as usize, "reads go on");
        assert_eq!(get(&owner, b"node/1"), None);

        std::fs::remove_file(&ballast).unwrap();
        owner.flush().expect("there is space again");
        owner.commit(set(b"node/1", b"through")).unwrap();
        owner.commit(remove(&key(0))).unwrap();
    }
    let owner = open(&path, Access::Owner);
    assert_eq!(
        scan(&owner, b"inode/", b"inode0").len() as u32,
        accepted - 1,
        "all that was accepted, less one removed"
    );
}

/// Back-pressure: more commits than may be pending, nobody flushes; all arrive.
#[test]
fn commits_beyond_the_bound_wait_for_the_disk() {
    let folder = tempfile::tempdir().unwrap();
    let path = volume(folder.path());
    {
        let owner = open(&path, Access::Owner);
        for number in 0..1500_u32 {
            owner.commit(set(&number.to_be_bytes(), &[1; 64 << 10])).unwrap();
        }
    }
    assert_eq!(scan(&open(&path, Access::Shared), b"", b"\xff").len(), 1500);
}

/// Writes until there is no room, on the store's disk.
fn fill(disk: &SmallDisk, name: &str) {
    let mut ballast = std::fs::File::create(disk.0.path().join(name)).unwrap();
    for bytes in [1 << 20, 4096] {
        while std::io::Write::write_all(&mut ballast, &vec![1; bytes]).is_ok() {}
    }
}

#[test]
fn finding_29_deletions_have_room_when_nothing_else_has() {
    const KEYS: u32 = 6000;
    let disk = SmallDisk::new("size=64m");
    let path = volume(disk.0.path());
    let key = |number: u32| format!("inode/{number:06}").into_bytes();
    let owner = open(&path, Access::Owner);
    for number in 0..KEYS {
        owner.commit(set(&key(number), &[7; 1000])).unwrap();
    }
    owner.flush().unwrap();
    // The log of what came before is in the file when the next commit is durable.
    owner.commit(set(b"inode", b"")).and_then(|()| owner.flush()).unwrap();
    fill(&disk, "ballast");
    // What is let in before it is known that the disk is full is written with the reserve.
    let refused = (0..100_000).find_map(|number| {
        let committed = owner.commit(set(&key(KEYS + number), &[7; 1000])).and_then(|()| owner.flush());
        committed.err().map(|error| (number, error))
    });
    let (accepted, error) = refused.expect("the disk is full");
    assert!(matches!(error, KvError::Full { .. }), "{error}");
    fill(&disk, "more ballast");
    assert!(matches!(owner.commit(set(b"node/1", b"up")), Err(KvError::Full { .. })));
    for number in 0..KEYS / 2 {
        owner.commit_freeing(remove(&key(number))).expect("a deletion has room");
        if number % 100 == 0 {
            owner.flush().expect("a deletion is durable");
        }
    }
    owner.flush().expect("a deletion is durable");
    drop(owner);

    // A full disk is no reason not to open a store for deletions, nor is one that was full when it was closed.
    fill(&disk, "yet more ballast");
    let owner = open(&path, Access::Owner);
    assert_eq!(scan(&owner, b"inode/", b"inode0").len() as u32, KEYS / 2 + accepted);
    owner.commit_freeing(remove(&key(KEYS / 2))).expect("a deletion has room");
    owner.flush().expect("a deletion is durable");

    // What the store gives back to its disk makes room for others in the end.
    let mut number = KEYS / 2 + 1;
    while let Err(error) = owner.commit(set(b"node/1", b"up")) {
        assert!(matches!(error, KvError::Full { .. }), "{error}");
        assert!(number < KEYS, "6 MB are gone, and there is still no room");
        owner.commit_freeing(remove(&key(number))).unwrap();
        owner.flush().unwrap();
        number += 1;
    }
    assert_eq!(owner.verify(&mut |_| {}).unwrap(), [""; 0]);
}
