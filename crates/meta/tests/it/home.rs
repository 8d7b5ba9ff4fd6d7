//! A store is written only where it was left and as it was left: not as a copy, not under another name, not without its log.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use weft_env::Env;
use weft_meta::Access;
use weft_meta::conformance::{get, set};
use weft_meta::engines::{OpenError, SqliteKv};
use weft_meta::keys::SharedPrefix;
use weft_meta::kv::{Kv, KvError};

const STORE: &str = "WEFT_META_HOME_STORE";
const SHARED: &[SharedPrefix] = &[SharedPrefix { prefix: b"node/", fresh_ids: false }];
/// More than one page of the log each.
const KEYS: u32 = 40;

fn key(number: u32) -> Vec<u8> {
    format!("inode/{number:06}").into_bytes()
}

fn open(path: &Path, access: Access) -> Result<SqliteKv, OpenError> {
    SqliteKv::open(path, access, SHARED, None, &Env::system())
}

#[test]
#[ignore = "the owner that the others kill"]
fn child() {
    let path = std::env::var_os(STORE).expect("the store");
    let kv = open(Path::new(&path), Access::Owner).unwrap();
    for number in 0..KEYS {
        kv.commit(set(&key(number), &[7; 3000])).unwrap();
        kv.flush().unwrap();
    }
    eprintln!("all is durable");
    // One key, again and again: the file has it ten times a second only.
    for number in 0_u64.. {
        kv.commit(set(b"inode/last", &number.to_be_bytes())).unwrap();
        kv.flush().unwrap();
    }
}

/// An owner of the store, after its commits.
fn owner(path: &Path) -> Child {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "home::child", "--nocapture"])
        .env(STORE, path)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let line = BufReader::new(child.stderr.take().unwrap()).lines().next().expect("it lives").unwrap();
    assert_eq!(line, "all is durable");
    child
}

/// A store whose owner was killed after its commits, all of which the file had.
fn killed(folder: &Path) -> PathBuf {
    let path = folder.join("volume");
    SqliteKv::create(&path).unwrap();
    let mut child = owner(&path);
    // Others wait for that.
    drop(open(&path, Access::Shared).unwrap());
    child.kill().unwrap();
    child.wait().unwrap();
    path
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// It may be read; the sentence of whoever wants to write.
fn refusal(path: &Path) -> String {
    let owner = open(path, Access::Owner).err().expect("it may not be owned");
    let beside = open(path, Access::Shared).expect("it may be read");
    beside.snapshot().unwrap().get(b"node/1").expect("it may be read");
    let error = beside.commit(set(b"node/1", b"up")).expect_err("it may not be written");
    assert!(matches!(error, KvError::Displaced { .. }), "{error}");
    assert_eq!(owner.to_string(), error.to_string());
    assert!(beside.verify(&mut |_| {}).unwrap().contains(&error.to_string()), "a check says so");
    error.to_string()
}

#[test]
fn finding_05_a_killed_store_is_opened_with_all_that_was_durable() {
    let folder = tempfile::tempdir().unwrap();
    let path = killed(folder.path());
    let kv = open(&path, Access::Owner).unwrap();
    assert!((0..KEYS).all(|number| get(&kv, &key(number)).is_some()));
    assert_eq!(kv.verify(&mut |_| {}).unwrap(), [""; 0]);
}

#[test]
fn finding_05_a_store_without_its_log_is_no_empty_volume() {
    let folder = tempfile::tempdir().unwrap();
    let path = killed(folder.path());
    std::fs::remove_file(beside(&path, "-wal")).unwrap();
    let said = refusal(&path);
    assert!(said.contains("volume-wal is missing or cut") && said.contains("bring the log back"), "{said}");
}

#[test]
fn finding_05_a_store_with_half_its_log_is_not_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = killed(folder.path());
    let log = std::fs::OpenOptions::new().write(true).open(beside(&path, "-wal")).unwrap();
    log.set_len(log.metadata().unwrap().len() / 2).unwrap();
    let said = refusal(&path);
    assert!(said.contains("volume-wal is missing or cut"), "{said}");
}

/// Looking at it, and being refused, takes nothing away.
#[test]
fn finding_05_a_log_that_is_brought_back_brings_everything_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = killed(folder.path());
    let (log, kept) = (beside(&path, "-wal"), folder.path().join("kept"));
    std::fs::rename(&log, &kept).unwrap();
    let store = std::fs::read(&path).unwrap();
    refusal(&path);
    let bytes = std::fs::read(&kept).unwrap();
    for length in [bytes.len() / 4, bytes.len() / 2] {
        std::fs::write(&log, &bytes[..length]).unwrap();
        refusal(&path);
    }
    assert!(std::fs::read(&path).unwrap() == store, "the store is as it was");
    std::fs::rename(&kept, &log).unwrap();
    let kv = open(&path, Access::Owner).unwrap();
    assert!((0..KEYS).all(|number| get(&kv, &key(number)).is_some()));
    assert_eq!(kv.verify(&mut |_| {}).unwrap(), [""; 0]);
}

/// A store whose owner was killed when the file did not have all that was flushed; and the value of its last flush, or one after it.
fn killed_behind(folder: &Path) -> (PathBuf, u64) {
    let kept = folder.join("kept");
    std::fs::create_dir(&kept).unwrap();
    loop {
        let path = folder.join("volume");
        SqliteKv::create(&path).unwrap();
        let mut child = owner(&path);
        std::thread::sleep(std::time::Duration::from_millis(30));
        child.kill().unwrap();
        child.wait().unwrap();
        let names = ["", "-wal", "-shm", "-owner", "-intents"];
        for suffix in names {
            std::fs::copy(beside(&path, suffix), beside(&kept.join("volume"), suffix)).unwrap();
        }
        let number =
            |kv: SqliteKv| get(&kv, b"inode/last").map_or(0, |value| u64::from_be_bytes(value.try_into().unwrap()));
        // What the file says alone, and what it says with its log.
        let alone = kept.join("alone");
        std::fs::remove_file(beside(&kept.join("volume"), "-intents")).unwrap();
        SqliteKv::restore(&kept.join("volume"), &alone, &weft_env::SystemClock).unwrap();
        let with_log = kept.join("with log");
        SqliteKv::restore(&path, &with_log, &weft_env::SystemClock).unwrap();
        let [filed, flushed] = [alone, with_log].map(|path| number(open(&path, Access::Owner).unwrap()));
        // Of the last record the witness may not know: nobody was told of it.
        if filed + 1 < flushed {
            return (path, flushed);
        }
        println!("killed right after the file had everything: once more");
        std::fs::remove_dir_all(folder).unwrap();
        std::fs::create_dir_all(&kept).unwrap();
    }
}

#[test]
fn what_was_flushed_is_there_after_a_kill_for_the_first_who_opens() {
    for access in [Access::Owner, Access::ShortLived, Access::Shared] {
        let folder = tempfile::tempdir().unwrap();
        let (path, flushed) = killed_behind(folder.path());
        for _ in 0..2 {
            let kv = open(&path, access).unwrap();
            assert_eq!(get(&kv, b"inode/last").as_deref(), Some(&flushed.to_be_bytes()[..]), "{access:?}");
            assert_eq!(kv.verify(&mut |_| {}).unwrap(), [""; 0], "{access:?}");
        }
    }
}

/// A stopped owner keeps nobody from reading what the file has, and nothing is taken for a whole copy that is none.
#[test]
fn what_a_stopped_owner_flushed_is_awaited_for_a_while() {
    use rustix::process::{Pid, Signal, kill_process};
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("volume");
    SqliteKv::create(&path).unwrap();
    let mut child = owner(&path);
    let signal = |signal| kill_process(Pid::from_child(&child), signal).unwrap();
    let number =
        |kv: &SqliteKv| get(kv, b"inode/last").map_or(0, |value| u64::from_be_bytes(value.try_into().unwrap()));
    signal(Signal::STOP);
    let looking = open(&path, Access::Shared).unwrap();
    let before = number(&looking);
    let backup = folder.path().join("backup");
    if let Err(error) = SqliteKv::back_up(&path, &backup, &weft_env::SystemClock) {
        assert!(error.to_string().contains("continue or end the owner"), "{error}");
    }
    signal(Signal::CONT);
    let later = number(&open(&path, Access::Shared).unwrap());
    assert!(later >= before, "{later} follows {before}");
    assert!(number(&looking) >= later);
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_store_without_its_intent_log_or_with_half_of_it_is_not_written() {
    let folder = tempfile::tempdir().unwrap();
    let (path, flushed) = killed_behind(folder.path());
    let (log, kept) = (beside(&path, "-intents"), folder.path().join("kept log"));
    std::fs::rename(&log, &kept).unwrap();
    let said = refusal(&path);
    assert!(said.contains("volume-intents is missing or cut") && said.contains("bring the log back"), "{said}");
    std::fs::copy(&kept, &log).unwrap();
    std::fs::OpenOptions::new().write(true).open(&log).unwrap().set_len(5000).unwrap();
    let said = refusal(&path);
    assert!(said.contains("volume-intents is missing or cut"), "{said}");
    std::fs::rename(&kept, &log).unwrap();
    let kv = open(&path, Access::Owner).unwrap();
    assert_eq!(get(&kv, b"inode/last").as_deref(), Some(&flushed.to_be_bytes()[..]));
}

#[test]
fn finding_05_a_copy_of_a_store_in_use_is_not_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = killed(folder.path());
    let elsewhere = folder.path().join("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    let copy = elsewhere.join("volume");
    std::fs::copy(&path, &copy).unwrap();
    let said = refusal(&copy);
    assert!(said.contains("volume-owner is missing: it is a copy"), "{said}");
    for suffix in ["", "-wal", "-owner"] {
        std::fs::copy(beside(&path, suffix), beside(&copy, suffix)).unwrap();
    }
    let said = refusal(&copy);
    assert!(said.contains("volume-owner is of another file: it is a copy"), "{said}");
    // The original is what it was.
    std::fs::copy(beside(&path, "-owner"), folder.path().join("kept")).unwrap();
    std::fs::remove_file(beside(&path, "-owner")).unwrap();
    let said = refusal(&path);
    assert!(said.contains("volume-owner is missing"), "{said}");
    std::fs::copy(folder.path().join("kept"), beside(&path, "-owner")).unwrap();
    drop(open(&path, Access::Owner).unwrap());
}

/// Closed by its owner, or by the last who changed it beside one.
#[test]
fn finding_05_a_store_that_was_closed_may_be_moved_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("volume");
    SqliteKv::create(&path).unwrap();
    open(&path, Access::Owner).unwrap().commit(set(b"inode/1", b"a")).unwrap();
    let moved = folder.path().join("moved");
    std::fs::copy(&path, &moved).unwrap();
    open(&moved, Access::Shared).unwrap().commit(set(b"node/1", b"up")).unwrap();
    let again = folder.path().join("again");
    std::fs::copy(&moved, &again).unwrap();
    let kv = open(&again, Access::Owner).unwrap();
    assert_eq!(get(&kv, b"inode/1").as_deref(), Some(&b"a"[..]));
    assert_eq!(get(&kv, b"node/1").as_deref(), Some(&b"up"[..]));
    // An older one in its place, that is, in its very inode.
    kv.commit(set(b"inode/2", b"b")).unwrap();
    drop(kv);
    std::fs::copy(&path, &again).unwrap();
    let said = refusal(&again);
    assert!(said.contains("an older copy took its place"), "{said}");
}

/// A process that ends while some thread still holds the store drops nothing.
#[test]
fn finding_05_a_store_that_is_closed_and_not_dropped_may_be_moved_until_it_is_written_again() {
    let folder = tempfile::tempdir().unwrap();
    let [path, moved, again] = ["volume", "moved", "again"].map(|name| folder.path().join(name));
    SqliteKv::create(&path).unwrap();
    let kv = open(&path, Access::Owner).unwrap();
    kv.commit(set(b"inode/1", b"a")).unwrap();
    kv.close().unwrap();
    std::fs::copy(&path, &moved).unwrap();
    assert_eq!(get(&open(&moved, Access::Owner).unwrap(), b"inode/1").as_deref(), Some(&b"a"[..]));
    kv.commit(set(b"inode/1", b"b")).unwrap();
    kv.flush().unwrap();
    std::fs::copy(&path, &again).unwrap();
    assert!(refusal(&again).contains("again-owner is missing"));
}

#[test]
fn finding_05_a_copy_made_on_purpose_is_whole_whoever_writes_meanwhile() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("volume");
    SqliteKv::create(&path).unwrap();
    let mut child = owner(&path);
    let copy = folder.path().join("copy");
    let backup = folder.path().join("backup");
    SqliteKv::back_up(&path, &backup, &weft_env::SystemClock).unwrap();
    SqliteKv::restore(&backup, &copy, &weft_env::SystemClock).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    let kv = open(&copy, Access::Owner).unwrap();
    assert!((0..KEYS).all(|number| get(&kv, &key(number)).is_some()));
    assert_eq!(kv.verify(&mut |_| {}).unwrap(), [""; 0]);
}

/// What a container does with one file of its host.
#[test]
fn finding_05_a_bind_mount_of_the_file_is_no_second_door() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("volume");
    SqliteKv::create(&path).unwrap();
    let mut child = owner(&path);
    let inside = tempfile::tempdir().unwrap();
    let bound = inside.path().join("volume");
    std::fs::write(&bound, "").unwrap();
    let mounted = Command::new("mount").arg("--bind").args([&path, &bound]).status().unwrap();
    assert!(mounted.success(), "this test mounts a file: it needs root");
    let while_owned = open(&bound, Access::Owner).err();
    child.kill().unwrap();
    child.wait().unwrap();
    let afterwards = open(&bound, Access::Owner).err();
    assert!(Command::new("umount").arg(&bound).status().unwrap().success());
    assert!(matches!(while_owned, Some(OpenError::Owner(_))), "{while_owned:?}");
    let said = afterwards.expect("its log is elsewhere").to_string();
    assert!(said.contains("volume-owner is missing: it is a copy, or another name of the file"), "{said}");
    drop(open(&path, Access::Owner).unwrap());
}
