//! How many pages of the metadata file a flush writes, for which an fsync of few bytes waits. Counted in the log, which has a frame for
//! each page of each transaction.

use std::path::Path;
use weft_format::records::{Kind, PolicyRecord, Timestamp, VolumeRecord};
use weft_format::{Ino, PolicyId, VolumeId};
use weft_meta::engines::SqliteKv;
use weft_meta::keys::SHARED;
use weft_meta::{Access, FileCommit, JournalPage, NewInode, Store};

const PAGE_BYTES: u64 = 4096;
/// The header of a frame, and the header of the log.
const FRAME_BYTES: u64 = 24 + PAGE_BYTES;
const LOG_HEAD_BYTES: u64 = 32;
/// Flushes of each kind. All of them fit into the log before a checkpoint may restart it.
const FLUSHES: u64 = 200;

fn at(seconds: i64) -> Timestamp {
    Timestamp { seconds, nanoseconds: 0 }
}

/// The commit of an fsync of one page of a file.
fn fsync(store: &Store, ino: Ino, page: u64, number: u64) {
    let bytes = vec![number as u8; PAGE_BYTES as usize];
    let commit = FileCommit {
        ino,
        extents: Vec::new(),
        size: 64 << 20,
        mtime: at(number as i64),
        ctime: at(number as i64),
        mode: None,
        journal: vec![JournalPage { page, ranges: vec![(0, bytes)] }],
        journal_under: Vec::new(),
    };
    store.commit_files(&[], &[commit], at(number as i64)).unwrap();
    store.flush().unwrap();
}

/// Frames in the log.
fn frames(path: &Path) -> u64 {
    let log = path.with_file_name("volume-wal").metadata().unwrap().len();
    (log - LOG_HEAD_BYTES) / FRAME_BYTES
}

/// Pages that a flush writes for one page of the file: a new one after the others, a new one between them, an existing one.
fn pages_of_a_flush() -> [f64; 3] {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("volume");
    SqliteKv::create(&path).unwrap();
    let kv = std::sync::Arc::new(SqliteKv::open(&path, Access::Owner, SHARED, None).unwrap());
    let volume = VolumeRecord { volume: VolumeId(7), created_ms: 0, default_policy: PolicyId(0) };
    let store = Store::format(kv, &volume, &PolicyRecord::of("rs:4+2", None), at(1)).unwrap();
    let new = NewInode { kind: Kind::File, mode: 0o644, uid: 0, gid: 0, rdev: 0, symlink_target: Vec::new() };
    // A volume with some files, so that inodes and journal do not share pages.
    let inos: Vec<Ino> =
        (0..500).map(|n| store.create(Ino::ROOT, format!("file {n}").as_bytes(), &new, at(1)).unwrap().ino).collect();
    let ino = inos[250];
    store.flush().unwrap();
    let mut number = 0;
    let mut count = |pages: &mut dyn Iterator<Item = u64>| {
        let before = frames(&path);
        let flushes = pages.map(|page| {
            number += 1;
            fsync(&store, ino, page, number);
        });
        let flushes = flushes.count();
        (frames(&path) - before) as f64 / flushes as f64
    };
    let after = count(&mut (0..FLUSHES).map(|page| 10 * page));
    // In a mixed order, each once: 77 and the number of pages have no common factor.
    let between = count(&mut (0..FLUSHES).map(|number| 10 * (77 * number % FLUSHES) + 5));
    let again = count(&mut (0..FLUSHES).map(|number| 10 * (77 * number % FLUSHES) + 5));
    [after, between, again]
}

#[test]
fn a_small_fsync_writes_few_pages() {
    let [after, between, again] = pages_of_a_flush();
    println!("pages of a flush: after {after}, between {between}, again {again}");
    // The number of commits, the inode, the journal's row in its leaf and in a page of its own.
    assert!(again <= 4.0, "{again}");
    // A new row takes a page from the file, which its first page and its map of pages note, and the row after it links to it.
    assert!(after <= 7.5, "{after}");
    // That row has a page of its own, too, with the link at its end.
    assert!(between <= 9.0, "{between}");
}
