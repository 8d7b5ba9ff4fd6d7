//! A store read by a user who may not write it: this test becomes another user, and so it needs root.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use weft_env::Env;
use weft_meta::Access;
use weft_meta::conformance::{get, set};
use weft_meta::engines::{OpenError, SqliteKv};
use weft_meta::keys::SharedPrefix;
use weft_meta::kv::{Kv, KvError};

const STORE: &str = "WEFT_META_READING_STORE";
const SHARED: &[SharedPrefix] = &[SharedPrefix { prefix: b"node/", fresh_ids: false }];
/// As `nobody` mostly is; it need not have a name.
const OTHER: u32 = 65534;

fn open(path: &Path, access: Access) -> Result<SqliteKv, OpenError> {
    SqliteKv::open(path, access, SHARED, None, &Env::system())
}

fn allow(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

/// A store that everybody may read, in a folder where everybody may make files, and this program beside it, for others to run.
fn store(folder: &Path) -> PathBuf {
    allow(folder, 0o777);
    std::fs::copy(std::env::current_exe().unwrap(), folder.join("program")).unwrap();
    let path = folder.join("volume");
    SqliteKv::create(&path).unwrap();
    allow(&path, 0o644);
    open(&path, Access::Owner).unwrap().commit(set(b"inode/1", b"a")).unwrap();
    path
}

/// What the other user reads, and that writing is refused.
fn read_as_other(path: &Path) -> Output {
    Command::new(path.with_file_name("program"))
        .args(["--ignored", "--exact", "reading::child", "--nocapture"])
        .env(STORE, path)
        .current_dir("/")
        .uid(OTHER)
        .gid(OTHER)
        .output()
        .expect("this test becomes another user: it needs root")
}

fn answer(path: &Path) -> String {
    let output = read_as_other(path);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    said.lines().find_map(|line| line.strip_prefix("read ")).expect("an answer").to_owned()
}

#[test]
#[ignore = "the other user of the tests"]
fn child() {
    let path = PathBuf::from(std::env::var_os(STORE).expect("the store"));
    assert!(matches!(open(&path, Access::Owner), Err(OpenError::Denied(_))), "it is not to be owned");
    let kv = match open(&path, Access::Shared) {
        Ok(kv) => kv,
        Err(error) => return eprintln!("read {error}"),
    };
    eprintln!("read {}", String::from_utf8(get(&kv, b"inode/1").expect("a value")).unwrap());
    assert_eq!(kv.verify(&mut |_| {}).unwrap(), [""; 0]);
    let error = kv.commit(set(b"node/1", b"up")).expect_err("it may not be written");
    assert!(error.to_string().ends_with("it cannot be written by this user; run this as its owner"), "{error}");
    assert!(matches!(error, KvError::Failed { .. }));
}

fn names(folder: &Path) -> Vec<String> {
    let name = |entry: std::io::Result<std::fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
    let mut names: Vec<String> = std::fs::read_dir(folder).unwrap().map(name).collect();
    names.sort();
    names
}

#[test]
fn finding_23_a_store_that_nobody_has_open_is_read_by_whoever_may_and_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = store(folder.path());
    let before = names(folder.path());
    assert_eq!(answer(&path), "a");
    assert_eq!(names(folder.path()), before, "a log of that user's would keep the owner out");
    open(&path, Access::Owner).unwrap().commit(set(b"inode/1", b"b")).unwrap();
    assert_eq!(answer(&path), "b");
    allow(folder.path(), 0o755);
    assert_eq!(answer(&path), "b");
}

#[test]
fn finding_23_a_store_is_read_beside_its_owner() {
    let folder = tempfile::tempdir().unwrap();
    let path = store(folder.path());
    let owner = open(&path, Access::Owner).unwrap();
    for value in [b"c", b"d"] {
        owner.commit(set(b"inode/1", value)).unwrap();
        owner.flush().unwrap();
        assert_eq!(answer(&path).as_bytes(), value);
    }
    // And by others at the same time.
    let readers: Vec<_> = (0..3).map(|_| open(&path, Access::Shared).unwrap()).collect();
    assert!(readers.iter().all(|reader| get(reader, b"inode/1").as_deref() == Some(b"d")));
    assert_eq!(answer(&path), "d");
}

#[test]
fn finding_23_a_log_without_its_index_is_for_whoever_may_write() {
    let folder = tempfile::tempdir().unwrap();
    let path = store(folder.path());
    let owner = open(&path, Access::Owner).unwrap();
    owner.commit(set(b"inode/1", b"c")).unwrap();
    owner.flush().unwrap();
    // As a machine leaves it that has failed: the index is in memory only on some.
    let copy = folder.path().join("copy");
    for suffix in ["", "-wal"] {
        let name = |path: &Path| PathBuf::from(format!("{}{suffix}", path.display()));
        std::fs::copy(name(&path), name(&copy)).unwrap();
    }
    let said = answer(&copy);
    assert!(said.ends_with("have its owner run `weft status` once"), "{said}");
}
