//! File data against a model that has every byte.

use std::collections::BTreeMap;

use super::super::fixture::*;
use super::*;
use crate::keys;
use crate::store::values;
use crate::types::{ExtentMove, FileCommit};
use weft_format::SegmentId;

/// Which byte of which segment each byte of a file is; `None`: a hole.
type Bytes = Vec<Option<(SegmentId, u64)>>;

fn bytes_of(store: &Store, ino: Ino) -> Bytes {
    let mut bytes = vec![None; store.attributes(ino).unwrap().size as usize];
    let mut previous_end = 0;
    for extent in store.extents(ino, 0..u64::MAX).unwrap() {
        assert!(extent.file_offset >= previous_end, "extents are ascending and apart");
        previous_end = extent.end();
        for i in 0..extent.length {
            bytes[(extent.file_offset + i) as usize] = Some((extent.segment, extent.segment_offset + i));
        }
    }
    bytes
}

fn journal_of(store: &Store, ino: Ino) -> BTreeMap<u64, u8> {
    let mut bytes = BTreeMap::new();
    for (found, page) in store.journal(None, usize::MAX).unwrap() {
        for (start, range) in page.ranges.iter().filter(|_| found == ino) {
            let base = page.page * PAGE_BYTES + u64::from(*start);
            bytes.extend(range.iter().enumerate().map(|(i, byte)| (base + i as u64, *byte)));
        }
    }
    bytes
}

#[track_caller]
fn assert_same(store: &Store, files: &BTreeMap<Ino, (Bytes, BTreeMap<u64, u8>)>, context: &str) {
    let mut live: BTreeMap<SegmentId, u64> = BTreeMap::new();
    for (ino, (bytes, journal)) in files {
        assert_eq!(bytes_of(store, *ino), *bytes, "file {ino}, {context}");
        assert_eq!(journal_of(store, *ino), *journal, "journal of {ino}, {context}");
        let attributes = store.attributes(*ino).unwrap();
        let allocated = bytes.iter().flatten().count() as u64;
        assert_eq!(attributes.allocated_bytes, allocated, "file {ino}, {context}");
        let size = attributes.size;
        for range in [0..u64::MAX, size / 3..size / 2, size / 2..size + 1] {
            let data = store.file_data(*ino, range.clone()).unwrap();
            assert_eq!((data.size, data.extents), (size, store.extents(*ino, range.clone()).unwrap()), "{context}");
            let found = data.journaled.into_iter().flat_map(|(start, bytes)| (start..).zip(bytes));
            let expected = journal.range(range.start..range.end.min(size)).map(|(at, byte)| (*at, *byte));
            assert!(found.eq(expected), "the journal of {ino} in {range:?}, {context}");
        }
        for (segment, _) in bytes.iter().flatten() {
            *live.entry(*segment).or_default() += 1;
        }
    }
    let stored: BTreeMap<_, _> = store.segments_by_live(None, usize::MAX).unwrap().into_iter().collect();
    assert_eq!(stored, live, "{context}");
    let dead = trash(store);
    let segments = store.segments(None, usize::MAX).unwrap();
    assert_eq!(dead.len() + live.len(), segments.len(), "{context}");
    for segment in live.keys() {
        let users: Vec<Ino> = files
            .iter()
            .filter(|(_, (bytes, _))| bytes.iter().flatten().any(|(used, _)| used == segment))
            .map(|(ino, _)| *ino)
            .collect();
        assert_eq!(store.files_of_segment(*segment).unwrap(), users, "{context}");
    }
    assert_eq!(store.statistics().unwrap().live_bytes, live.values().sum::<u64>(), "{context}");
}

fn run_against_model(seed: u64, operations: u32) {
    const MAX_BYTES: u64 = 40_000;
    let (store, _) = volume();
    let mut random = Random(seed);
    let inos: Vec<Ino> = (0..3).map(|i| make(&store, Ino::ROOT, &format!("file-{i}"), Kind::File)).collect();
    let mut files: BTreeMap<_, _> = inos.iter().map(|ino| (*ino, (Bytes::new(), BTreeMap::new()))).collect();
    for step in 0..operations {
        let context = format!("seed {seed}, step {step}");
        let now = at(i64::from(step) + 10);
        let ino = *random.pick(&inos);
        match random.below(8) {
            0..=2 => {
                // One segment with pieces of several files.
                let segment = segment_id(u128::from(step) + 1);
                let mut filled = 0;
                let mut commits = Vec::new();
                for ino in inos.iter().take(1 + random.below(3) as usize) {
                    let (bytes, journal) = files.get_mut(ino).unwrap();
                    let mut extents = Vec::new();
                    let mut offset = random.below(MAX_BYTES / 2);
                    for _ in 0..1 + random.below(4) {
                        let length = 1 + random.below(3000);
                        extents.push(extent(offset, length, segment, filled));
                        filled += length;
                        offset += length + random.below(2) * random.below(3000);
                    }
                    let end = extents.last().unwrap().end() as usize;
                    bytes.resize(bytes.len().max(end), None);
                    for extent in &extents {
                        for i in 0..extent.length {
                            bytes[(extent.file_offset + i) as usize] = Some((segment, extent.segment_offset + i));
                        }
                    }
                    // The extents take from the page that the first one begins in what they cover, and no more.
                    let first_page = extents[0].file_offset / PAGE_BYTES;
                    let is_covered =
                        |offset: u64| extents.iter().any(|extent| (extent.file_offset..extent.end()).contains(&offset));
                    journal.retain(|offset, _| offset / PAGE_BYTES != first_page || !is_covered(*offset));
                    commits.push(FileCommit {
                        ino: *ino,
                        size: bytes.len() as u64,
                        extents,
                        mtime: now,
                        ctime: now,
                        mode: None,
                        journal: Vec::new(),
                        journal_under: vec![first_page],
                        known_mtime: None,
                    });
                }
                store.commit_files(&[(segment, segment_record(filled))], &commits, now).unwrap();
            }
            3 => {
                let (bytes, journal) = files.get_mut(&ino).unwrap();
                let page = random.below(6);
                let start = random.below(2000);
                let content = vec![step as u8; 1 + random.below(1000) as usize];
                let second = vec![step as u8; 1 + random.below(500) as usize];
                let base = page * PAGE_BYTES;
                let ends = base + 3500 + second.len() as u64;
                bytes.resize(bytes.len().max(ends as usize), None);
                journal.retain(|offset, _| offset / PAGE_BYTES != page);
                for (start, content) in [(start, &content), (3500, &second)] {
                    journal.extend(content.iter().enumerate().map(|(i, byte)| (base + start + i as u64, *byte)));
                }
                let ranges = vec![(start as u16, content), (3500, second)];
                let mut commit = file_commit(&store.attributes(ino).unwrap(), Vec::new());
                commit.size = bytes.len() as u64;
                commit.journal = vec![JournalPage { page, ranges }];
                store.commit_files(&[], &[commit], now).unwrap();
            }
            4 => {
                let size = random.below(MAX_BYTES);
                let (bytes, journal) = files.get_mut(&ino).unwrap();
                bytes.resize(size as usize, None);
                journal.retain(|offset, _| *offset < size);
                let attributes = store.truncate(ino, size, now, now, Some(0o600)).unwrap();
                assert_eq!((attributes.size, attributes.mtime, attributes.mode), (size, now, 0o600));
            }
            5 => {
                let start = random.below(MAX_BYTES);
                let range = start..start + random.below(10_000);
                let (bytes, journal) = files.get_mut(&ino).unwrap();
                for (_, byte) in bytes.iter_mut().enumerate().filter(|(i, _)| range.contains(&(*i as u64))) {
                    *byte = None;
                }
                journal.retain(|offset, _| !range.contains(offset));
                store.punch(ino, range, now, now).unwrap();
            }
            6 => {
                // Compaction of one segment, of which something may have been overwritten since it was read.
                let (bytes, _) = &files[&ino];
                let Some((old, _)) = bytes.iter().flatten().next().copied() else { continue };
                let new = segment_id(1_000_000 + u128::from(step));
                let mut filled = 0;
                let mut moves = Vec::new();
                for user in store.files_of_segment(old).unwrap() {
                    for from in store.extents(user, 0..u64::MAX).unwrap() {
                        if from.segment == old {
                            let to = Extent { segment: new, segment_offset: filled, ..from };
                            filled += from.length;
                            moves.push(ExtentMove { ino: user, from, to });
                        }
                    }
                }
                let start = random.below(MAX_BYTES);
                let changed = start..start + 1 + random.below(4000);
                let over = (random.below(2) == 0).then(|| segment_id(2_000_000 + u128::from(step)));
                let (bytes, journal) = files.get_mut(&ino).unwrap();
                match over {
                    Some(over) => {
                        let length = changed.end - changed.start;
                        write(&store, ino, changed.start, length, 2_000_000 + u128::from(step));
                        bytes.resize(bytes.len().max(changed.end as usize), None);
                        for offset in changed.clone() {
                            bytes[offset as usize] = Some((over, offset - changed.start));
                        }
                    }
                    None => {
                        store.punch(ino, changed.clone(), now, now).unwrap();
                        for (_, byte) in bytes.iter_mut().enumerate().filter(|(i, _)| changed.contains(&(*i as u64))) {
                            *byte = None;
                        }
                        journal.retain(|offset, _| !changed.contains(offset));
                    }
                }
                let mut moved = 0;
                for step in &moves {
                    let (bytes, _) = files.get_mut(&step.ino).unwrap();
                    for i in 0..step.from.length {
                        let byte = &mut bytes[(step.from.file_offset + i) as usize];
                        if *byte == Some((old, step.from.segment_offset + i)) {
                            *byte = Some((new, step.to.segment_offset + i));
                            moved += 1;
                        }
                    }
                }
                let got = store.move_extents(&moves, &[(new, segment_record(filled))], now).unwrap();
                assert_eq!(got, moved, "{context}");
            }
            _ => {
                let start = random.below(MAX_BYTES);
                let range = start..start + random.below(5000);
                let expected: Vec<Extent> =
                    store.extents(ino, 0..u64::MAX).unwrap().iter().filter_map(|extent| clip(extent, &range)).collect();
                assert_eq!(store.extents(ino, range).unwrap(), expected, "{context}");
            }
        }
        if step % 8 == 0 {
            assert_same(&store, &files, &context);
            assert_clean(&store);
        }
    }
    assert_same(&store, &files, &format!("seed {seed}, at the end"));
    for ino in &inos {
        store.truncate(*ino, 0, at(1), at(1), None).unwrap();
    }
    assert_eq!(store.statistics().unwrap().live_bytes, 0);
    assert_eq!(store.segments_by_live(None, 10).unwrap(), []);
    assert_clean(&store);
}

#[test]
fn agrees_with_the_model_of_bytes() {
    for seed in 1..=10 {
        run_against_model(seed, 160);
    }
}

/// A file of many extents, each of `length` bytes with a hole of as many after it, in one segment.
fn scattered(store: &Store, count: u64, length: u64) -> Ino {
    let ino = make(store, Ino::ROOT, "scattered", Kind::File);
    let segment = segment_id(1);
    let extents = (0..count).map(|i| extent(2 * i * length, length, segment, i * length)).collect();
    let commit = file_commit(&store.attributes(ino).unwrap(), extents);
    store.commit_files(&[(segment, segment_record(count * length))], &[commit], at(3)).unwrap();
    ino
}

#[test]
fn large_jobs_go_in_steps_and_every_step_is_consistent() {
    type Job = fn(&Store, Ino) -> Result<(), MetaError>;
    let overwrite: Job = |store, ino| {
        let segment = segment_id(2);
        let commit = file_commit(&store.attributes(ino)?, vec![extent(100, 40_000, segment, 0)]);
        store.commit_files(&[(segment, segment_record(40_000))], &[commit], at(4))
    };
    let truncate: Job = |store, ino| store.truncate(ino, 1005, at(4), at(4), None).map(drop);
    let punch: Job = |store, ino| store.punch(ino, 5..39_995, at(4), at(4));
    let reclaim: Job = |store, ino| {
        if store.attributes(ino).is_ok_and(|attributes| attributes.nlink > 0) {
            store.unlink(Ino::ROOT, b"scattered", at(4))?;
        }
        while store.reclaim(&[unused(ino)], at(4))? == 0 {}
        Ok(())
    };
    let compact: Job = |store, ino| {
        let (old, new) = (segment_id(1), segment_id(2));
        let extents = store.extents(ino, 0..u64::MAX)?;
        let moves: Vec<_> = extents
            .iter()
            .filter(|extent| extent.segment == old)
            .map(|from| ExtentMove { ino, from: *from, to: Extent { segment: new, ..*from } })
            .collect();
        store.move_extents(&moves, &[(new, segment_record(40_000))], at(4)).map(drop)
    };
    for (name, job) in
        [("overwrite", overwrite), ("truncate", truncate), ("punch", punch), ("reclaim", reclaim), ("compact", compact)]
    {
        let mut crashes = 0;
        loop {
            let (store, kv) = volume();
            let ino = scattered(&store, 2000, 10);
            let before = bytes_of(&store, ino);
            kv.allow_commits(crashes);
            let done = job(&store, ino);
            kv.allow_commits(i64::MAX);
            assert_clean(&store);
            if name != "reclaim" {
                // Every byte is as before, or cut, or new.
                for (i, byte) in bytes_of(&store, ino).into_iter().enumerate() {
                    let is_new = byte.is_some_and(|(segment, _)| segment == segment_id(2));
                    assert!(byte.is_none() || is_new || byte == before[i], "{name}: byte {i}");
                }
            }
            if done.is_ok() {
                assert!(crashes >= 3, "{name} took {crashes} transactions");
                break;
            }
            // After an error it can be done again as it is.
            job(&store, ino).unwrap();
            assert_clean(&store);
            crashes += 1;
        }
    }
}

#[test]
fn large_commits_go_in_steps() {
    let (store, _) = volume();
    let inos: Vec<Ino> = (0..500).map(|i| make(&store, Ino::ROOT, &format!("{i}"), Kind::File)).collect();
    let segments: Vec<_> = (1..=100).map(|number| (segment_id(number), segment_record(500 * 10))).collect();
    let files: Vec<FileCommit> = inos
        .iter()
        .enumerate()
        .map(|(i, ino)| {
            // Segments 91 to 100 stay unused.
            let extents =
                (0..4).map(|j| extent(j * 20, 10, segment_id(1 + (i as u128 + u128::from(j)) % 90), i as u64 * 10));
            let mut commit = file_commit(&store.attributes(*ino).unwrap(), extents.collect());
            commit.journal = (0..4).map(|page| JournalPage { page, ranges: vec![(0, vec![7; 70])] }).collect();
            commit.size = 3 * PAGE_BYTES + 70;
            commit
        })
        .collect();
    store.commit_files(&segments, &files, at(5)).unwrap();
    assert_clean(&store);
    assert_eq!(store.statistics().unwrap().live_bytes, 500 * 40);
    assert_eq!(trash(&store).len(), 10);
    assert_eq!(store.journal(None, usize::MAX).unwrap().len(), 2000);
    let page = store.journal(Some((inos[3], 1)), 2).unwrap();
    assert_eq!(page.iter().map(|(ino, page)| (*ino, page.page)).collect::<Vec<_>>(), [(inos[3], 2), (inos[3], 3)]);
}

/// A new segment that is overwritten by the very commit that brings it, and used again later in it.
#[test]
fn a_new_segment_does_not_die_halfway() {
    let (store, _) = volume();
    let inos: Vec<Ino> = (0..400).map(|i| make(&store, Ino::ROOT, &format!("{i}"), Kind::File)).collect();
    let commit =
        |ino: Ino, number| file_commit(&store.attributes(ino).unwrap(), vec![extent(0, 10, segment_id(number), 0)]);
    let mut files = vec![commit(inos[0], 1), commit(inos[0], 2)];
    files.extend(inos[1..].iter().map(|ino| commit(*ino, 3)));
    files.push(commit(inos[1], 1));
    let segments: Vec<_> = (1..=3).map(|number| (segment_id(number), segment_record(10))).collect();
    store.commit_files(&segments, &files, at(5)).unwrap();
    assert_eq!(trash(&store), []);
    assert_eq!(store.live_bytes(segment_id(1)).unwrap(), 10);
    assert_clean(&store);
}

#[test]
fn truncate_and_punch_take_files_only() {
    let (store, _) = volume();
    let link = make(&store, Ino::ROOT, "link", Kind::Symlink);
    assert_eq!(kind_of(&store.truncate(Ino::ROOT, 0, at(1), at(1), None).unwrap_err()), "IsDirectory");
    assert_eq!(kind_of(&store.truncate(link, 0, at(1), at(1), None).unwrap_err()), "Invalid");
    assert_eq!(kind_of(&store.truncate(Ino(999), 0, at(1), at(1), None).unwrap_err()), "NotFound");
    assert_eq!(kind_of(&store.punch(Ino::ROOT, 0..1, at(1), at(1)).unwrap_err()), "IsDirectory");
    let file = make(&store, Ino::ROOT, "file", Kind::File);
    assert_eq!(kind_of(&store.truncate(file, 1 << 63, at(1), at(1), None).unwrap_err()), "TooLarge");
    store.truncate(file, MAX_FILE_BYTES, at(1), at(1), None).unwrap();
    store.truncate(file, 0, at(1), at(1), None).unwrap();
    assert_clean(&store);
}

#[test]
fn extents_end_after_their_last_byte() {
    // The key's number is the end: the covering extent is the first key above an offset.
    let (store, kv) = volume();
    let file = make(&store, Ino::ROOT, "file", Kind::File);
    write(&store, file, 100, 50, 1);
    let key = Key::Extent(file, 150).encode();
    assert!(crate::kv::Kv::snapshot(&*kv).unwrap().get(&key).unwrap().is_some(), "{}", keys::printable(&key));
    assert_eq!(store.extents(file, 149..150).unwrap(), [extent(149, 1, segment_id(1), 49)]);
    assert_eq!(store.extents(file, 150..1000).unwrap(), []);
    assert_eq!(store.extents(file, 0..100).unwrap(), []);
    write(&store, file, 200, 50, 2);
    let [first, second] = [extent(100, 50, segment_id(1), 0), extent(200, 50, segment_id(2), 0)];
    assert_eq!(store.extents_from(file, 0, 1).unwrap(), [first]);
    assert_eq!(store.extents_from(file, 149, 10).unwrap(), [first, second]);
    assert_eq!(store.extents_from(file, 150, 10).unwrap(), [second]);
    assert_eq!(store.extents_from(file, 250, 10).unwrap(), []);
}

#[test]
fn extents_that_overlap_are_damage_and_nothing_is_read_by_them() {
    let (store, kv) = volume();
    let file = make(&store, Ino::ROOT, "file", Kind::File);
    write(&store, file, 0, 100, 1);
    let (key, value) = values::extent(file, &extent(50, 100, segment_id(1), 0));
    let writes = vec![(key.encode(), Some(value))];
    crate::kv::Kv::commit(&*kv, crate::kv::Batch { writes, ..Default::default() }).unwrap();
    let refused = store.extents(file, 0..1000).unwrap_err().to_string();
    assert!(refused.contains("overlaps"), "{refused}");
    assert_eq!(kind_of(&store.file_data(file, 0..1000).unwrap_err()), "Damaged");
}
