//! How much a flush writes, for which an fsync of few bytes waits: one record of the intent log, or, while others have the store open,
//! pages of the metadata file. These are counted in SQLite's log, which has a frame for each page of each transaction.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use weft_env::Env;
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
        known_mtime: None,
    };
    store.commit_files(&[], &[commit], at(number as i64)).unwrap();
    store.flush().unwrap();
}

/// Frames in the log.
fn frames(path: &Path) -> u64 {
    let log = path.with_file_name("volume-wal").metadata().unwrap().len();
    (log - LOG_HEAD_BYTES) / FRAME_BYTES
}

/// The records of the intent log as FORMAT.md has them: number and bytes on the disk. In a half that is used again, what follows the
/// last record is left from before: numbers have no gaps, so that it is told by them.
fn records(path: &Path) -> Vec<(u64, u64)> {
    const HALF_BYTES: usize = 8 << 20;
    let log = std::fs::read(path.with_file_name("volume-intents")).unwrap();
    let mut records = Vec::new();
    for half in log[4096..].chunks(HALF_BYTES) {
        let (mut at, mut last) = (0, None);
        while at + 28 <= half.len() {
            let number = u64::from_le_bytes(half[at + 8..at + 16].try_into().unwrap());
            let length = u32::from_le_bytes(half[at + 24..at + 28].try_into().unwrap()) as usize;
            if number == 0 || last.is_some_and(|last| number != last + 1) {
                break;
            }
            last = Some(number);
            let bytes = (28 + length).next_multiple_of(512);
            records.push((number, bytes as u64));
            at += bytes;
        }
    }
    records.sort_unstable();
    records
}

struct Volume {
    path: PathBuf,
    store: Store,
    ino: Ino,
    number: Cell<u64>,
    _folder: tempfile::TempDir,
}

impl Volume {
    /// With some files, so that inodes and journal do not share pages.
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("volume");
        SqliteKv::create(&path).unwrap();
        let kv = std::sync::Arc::new(SqliteKv::open(&path, Access::Owner, SHARED, None, &Env::system()).unwrap());
        let volume = VolumeRecord { volume: VolumeId(7), created_ms: 0, default_policy: PolicyId(0) };
        let store = Store::format(kv, &volume, &PolicyRecord::of("rs:4+2", None), at(1), &Env::system()).unwrap();
        let new = NewInode { kind: Kind::File, mode: 0o644, uid: 0, gid: 0, rdev: 0, symlink_target: Vec::new() };
        let inos: Vec<Ino> = (0..500)
            .map(|n| store.create(Ino::ROOT, format!("file {n}").as_bytes(), &new, at(1)).unwrap().ino)
            .collect();
        store.flush().unwrap();
        Self { path, store, ino: inos[250], number: Cell::new(0), _folder: folder }
    }

    /// Flushes of these pages of one file, each by itself; how many.
    fn fsyncs(&self, pages: impl Iterator<Item = u64>) -> u64 {
        let fsyncs = pages.map(|page| {
            self.number.set(self.number.get() + 1);
            fsync(&self.store, self.ino, page, self.number.get());
        });
        fsyncs.count() as u64
    }
}

/// In a mixed order, each once: 77 and the number of pages have no common factor.
fn mixed() -> impl Iterator<Item = u64> {
    (0..FLUSHES).map(|number| 10 * (77 * number % FLUSHES) + 5)
}

#[test]
fn a_small_fsync_is_one_small_record() {
    let volume = Volume::new();
    let before = records(&volume.path).last().map_or(0, |(number, _)| *number);
    let flushes = volume.fsyncs(mixed());
    let records = records(&volume.path);
    println!("{flushes} flushes, the last records: {:?}", &records[records.len() - 3..]);
    assert_eq!(records.last().map(|(number, _)| *number), Some(before + flushes));
    // The page, its inode and their keys, filled up to whole sectors.
    let is_small = |(number, bytes): &(u64, u64)| *number <= before || *bytes <= PAGE_BYTES + 512;
    assert!(records.iter().all(is_small), "{records:?}");
}

#[test]
fn a_small_fsync_writes_few_pages_while_others_look_on() {
    let volume = Volume::new();
    let _beside = SqliteKv::open(&volume.path, Access::Shared, SHARED, None, &Env::system()).unwrap();
    let count = |pages: &mut dyn Iterator<Item = u64>| {
        let before = frames(&volume.path);
        let flushes = volume.fsyncs(pages);
        (frames(&volume.path) - before) as f64 / flushes as f64
    };
    let after = count(&mut (0..FLUSHES).map(|page| 10 * page));
    let between = count(&mut mixed());
    let again = count(&mut mixed());
    println!("pages of a flush: after {after}, between {between}, again {again}");
    // The number of commits, the list of what they changed, the inode, the journal's row in its leaf and in a page of its own. Of some
    // flushes the list takes another page.
    assert!(again <= 5.1, "{again}");
    // A new row takes a page from the file, which its first page and its map of pages note, and the row after it links to it.
    assert!(after <= 8.6, "{after}");
    // That row has a page of its own, too, with the link at its end.
    assert!(between <= 10.1, "{between}");
}
