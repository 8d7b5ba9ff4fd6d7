//! The mapping itself is held against a model in `data_tests.rs`.

use super::super::fixture::*;
use super::*;
use weft_format::Ino;

fn file() -> (Store, Ino, FileCommit) {
    let (store, _) = volume();
    let ino = make(&store, Ino::ROOT, "file", Kind::File);
    let commit = file_commit(&store.attributes(ino).unwrap(), vec![extent(0, 100, segment_id(1), 0)]);
    (store, ino, commit)
}

fn committed(store: &Store, commit: FileCommit) -> Result<(), String> {
    store.commit_files(&[(segment_id(1), segment_record(100))], &[commit], at(3)).map_err(|error| kind_of(&error))
}

#[test]
fn a_commit_sets_what_it_says() {
    let (store, ino, mut commit) = file();
    commit.size = 5000;
    commit.mtime = at(8);
    commit.ctime = at(9);
    commit.mode = Some(0o755);
    committed(&store, commit).unwrap();
    let attributes = store.attributes(ino).unwrap();
    assert_eq!((attributes.size, attributes.allocated_bytes, attributes.mode), (5000, 100, 0o755));
    assert_eq!((attributes.mtime, attributes.ctime), (at(8), at(9)));
    assert_clean(&store);
}

#[test]
fn a_small_file_costs_three_writes_and_its_segment_ten() {
    let (store, kv) = volume();
    let inos: Vec<Ino> = (0..10).map(|i| make(&store, Ino::ROOT, &format!("{i}"), Kind::File)).collect();
    let commits: Vec<_> = inos
        .iter()
        .enumerate()
        .map(|(i, ino)| {
            let attributes = store.attributes(*ino).unwrap();
            file_commit(&attributes, vec![extent(0, 10, segment_id(1), i as u64 * 10)])
        })
        .collect();
    store.commit_files(&[(segment_id(1), segment_record(100))], &commits, at(3)).unwrap();
    // The segment: record, six nodes, live bytes, sums, usage. A file: inode, extent, used-by.
    assert_eq!(*kv.last.lock(), (10 + 2, 10 + 3 * 10));
}

#[test]
fn extents_that_cannot_be_are_refused() {
    let (store, ino, good) = file();
    let with = |extents| FileCommit { extents, size: 1000, ..good.clone() };
    let s = segment_id(1);
    for bad in [
        vec![extent(0, 0, s, 0)],
        vec![extent(0, 101, s, 0)],
        vec![extent(0, 50, s, 51)],
        vec![extent(0, 50, s, u64::MAX)],
        vec![extent(50, 10, s, 0), extent(0, 10, s, 10)],
        vec![extent(0, 10, s, 0), extent(9, 10, s, 10)],
    ] {
        assert_eq!(committed(&store, with(bad)).unwrap_err(), "Invalid");
    }
    for far in [MAX_FILE_BYTES, u64::MAX] {
        assert_eq!(committed(&store, with(vec![extent(far, 10, s, 0)])).unwrap_err(), "TooLarge");
    }
    assert_eq!(committed(&store, FileCommit { size: 1 << 63, ..good.clone() }).unwrap_err(), "TooLarge");
    let elsewhere = with(vec![extent(0, 10, segment_id(77), 0)]);
    assert_eq!(committed(&store, elsewhere).unwrap_err(), "SegmentChanged");
    for ranges in [
        vec![(0, vec![])],
        vec![(4095, vec![1, 2])],
        vec![(5, vec![1]), (0, vec![1])],
        vec![(0, vec![1; 5]), (5, vec![1])],
    ] {
        let journal = vec![JournalPage { page: 0, ranges }];
        assert_eq!(committed(&store, FileCommit { journal, ..good.clone() }).unwrap_err(), "Invalid");
    }
    let root = FileCommit { ino: Ino::ROOT, ..good.clone() };
    assert_eq!(committed(&store, root).unwrap_err(), "IsDirectory");
    assert_eq!(store.segments(None, 10).unwrap(), []);
    assert_eq!(store.extents(ino, 0..u64::MAX).unwrap(), []);
    assert_clean(&store);
}

#[test]
fn a_file_that_is_gone_is_skipped_and_its_segment_is_dead() {
    let (store, ino, commit) = file();
    store.unlink(Ino::ROOT, b"file", at(2)).unwrap();
    // Still open: written to.
    committed(&store, commit.clone()).unwrap();
    assert_eq!(store.live_bytes(segment_id(1)).unwrap(), 100);
    assert_eq!(store.reclaim(&[unused(ino)], at(4)).unwrap(), 1);
    let commit = FileCommit { extents: vec![extent(0, 100, segment_id(2), 0)], ..commit };
    store.commit_files(&[(segment_id(2), segment_record(100))], &[commit], at(5)).unwrap();
    assert_eq!(trash(&store), [(4000, segment_id(1)), (5000, segment_id(2))]);
    assert!(store.segment(segment_id(2)).unwrap().is_some());
    assert_clean(&store);
}

#[test]
fn what_is_beyond_the_size_is_cut_off() {
    let (store, ino, mut commit) = file();
    commit.size = 40;
    commit.journal = vec![JournalPage { page: 0, ranges: vec![(30, vec![1; 20]), (60, vec![1; 5])] }];
    committed(&store, commit.clone()).unwrap();
    assert_eq!(store.extents(ino, 0..u64::MAX).unwrap(), [extent(0, 40, segment_id(1), 0)]);
    assert_eq!(store.journal(None, 10).unwrap()[0].1.ranges, [(30, vec![1; 10])]);
    assert_clean(&store);
    // A commit may shrink a little.
    let shrink = FileCommit { size: 10, extents: Vec::new(), journal: Vec::new(), ..commit };
    store.commit_files(&[], &[shrink], at(6)).unwrap();
    assert_eq!(store.extents(ino, 0..u64::MAX).unwrap(), [extent(0, 10, segment_id(1), 0)]);
    assert_eq!(store.journal(None, 10).unwrap(), []);
    assert_clean(&store);
}

#[test]
fn a_journal_page_replaces_what_was_there() {
    let (store, ino, mut commit) = file();
    commit.extents.clear();
    commit.size = 8192;
    let page = |page, start, byte| JournalPage { page, ranges: vec![(start, vec![byte; 3])] };
    commit.journal = vec![page(0, 0, 1), page(1, 0, 1)];
    store.commit_files(&[], &[commit.clone()], at(3)).unwrap();
    commit.journal = vec![page(1, 9, 2)];
    store.commit_files(&[], &[commit], at(3)).unwrap();
    assert_eq!(store.journal(None, 10).unwrap(), [(ino, page(0, 0, 1)), (ino, page(1, 9, 2))]);
    assert_clean(&store);
}

#[test]
fn finding_01_extents_take_from_the_journal_what_they_cover_and_no_more() {
    let (store, ino, mut commit) = file();
    let extents = std::mem::take(&mut commit.extents);
    commit.size = 8192;
    commit.journal = vec![JournalPage { page: 0, ranges: vec![(90, vec![1; 20])] }];
    commit.journal.push(JournalPage { page: 1, ranges: vec![(0, vec![2; 4])] });
    store.commit_files(&[], &[commit.clone()], at(3)).unwrap();
    // The extent covers bytes 0 to 100.
    let landed = FileCommit { extents, journal: Vec::new(), journal_under: vec![0, 1, 7], ..commit };
    committed(&store, landed).unwrap();
    let rest = |page, start, bytes: Vec<u8>| (ino, JournalPage { page, ranges: vec![(start, bytes)] });
    assert_eq!(store.journal(None, 10).unwrap(), [rest(0, 100, vec![1; 10]), rest(1, 0, vec![2; 4])]);
    assert_clean(&store);
}

#[test]
fn moves_are_of_the_same_bytes_of_the_file() {
    let (store, ino, commit) = file();
    committed(&store, commit).unwrap();
    let from = extent(0, 100, segment_id(1), 0);
    for to in [extent(1, 100, segment_id(2), 0), extent(0, 99, segment_id(2), 0)] {
        let moved = store.move_extents(&[ExtentMove { ino, from, to }], &[(segment_id(2), segment_record(100))], at(4));
        assert_eq!(kind_of(&moved.unwrap_err()), "Invalid");
    }
    // Of another segment than it lies in: nothing moves, and the copy is dead.
    let (from, to) = (extent(0, 100, segment_id(9), 0), extent(0, 100, segment_id(2), 0));
    let moved = store.move_extents(&[ExtentMove { ino, from, to }], &[(segment_id(2), segment_record(100))], at(4));
    assert_eq!(moved.unwrap(), 0);
    assert_eq!(trash(&store), [(4000, segment_id(2))]);
    assert_clean(&store);
}
