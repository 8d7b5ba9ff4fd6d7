//! Files that two stores change by every way that there is, against a model of bytes.

use super::super::fixture::*;
use super::*;
use crate::engines::MemoryKv;
use crate::types::FileCommit;
use proptest::prelude::*;
use std::sync::Arc;
use weft_env::Env;
use weft_format::records::{Attributes, Kind};

/// A volume, and two stores that change it.
fn two() -> (Arc<MemoryKv>, [Store; 2], Ino) {
    let kv = Arc::new(MemoryKv::new());
    let store = format_in(kv.clone());
    let ino = make(&store, Ino::ROOT, "file", Kind::File);
    let member = || Store::open(Arc::new(kv.join()), &Env::system()).unwrap().as_member().unwrap();
    let stores = [member(), member()];
    (kv, stores, ino)
}

fn shared(attributes: &Attributes, extents: Vec<Extent>, journal: Vec<JournalPage>, size: u64) -> FileCommit {
    FileCommit { extents, journal, size, known_mtime: Some(attributes.mtime), ..file_commit(attributes, Vec::new()) }
}

#[derive(Clone, Debug)]
enum Step {
    Journal {
        offset: u64,
        bytes: Vec<u8>,
    },
    Segment {
        offset: u64,
        bytes: Vec<u8>,
    },
    Append {
        bytes: Vec<u8>,
        in_segment: bool,
    },
    Truncate {
        size: u64,
    },
    /// Reads the journal; it is moved after this number of other steps.
    Move {
        later: usize,
    },
}

fn steps() -> impl Strategy<Value = Vec<(usize, Step)>> {
    let (offset, bytes) = (0..20_000u64, || prop::collection::vec(1..=255u8, 1..6000));
    let step = prop_oneof![
        3 => (offset.clone(), bytes()).prop_map(|(offset, bytes)| Step::Journal { offset, bytes }),
        2 => (offset.clone(), bytes()).prop_map(|(offset, bytes)| Step::Segment { offset, bytes }),
        2 => (bytes(), any::<bool>()).prop_map(|(bytes, in_segment)| Step::Append { bytes, in_segment }),
        1 => offset.prop_map(|size| Step::Truncate { size }),
        2 => (0..4usize).prop_map(|later| Step::Move { later }),
    ];
    prop::collection::vec((0..2usize, step), 1..25)
}

/// The bytes of all segments, by their number.
type Data = Vec<Vec<u8>>;

fn new_segment(data: &mut Data, bytes: Vec<u8>) -> (SegmentId, SegmentRecord) {
    data.push(bytes);
    (segment_id(data.len() as u128), segment_record(data.last().unwrap().len() as u64))
}

fn content(store: &Store, ino: Ino, data: &Data) -> Vec<u8> {
    let found = store.file_data(ino, 0..u64::MAX).unwrap();
    let mut content = vec![0; found.size as usize];
    for extent in found.extents {
        let segment = (1..=data.len()).find(|number| segment_id(*number as u128) == extent.segment).unwrap();
        let within = extent.segment_offset as usize..(extent.segment_offset + extent.length) as usize;
        content[extent.file_offset as usize..extent.end() as usize].copy_from_slice(&data[segment - 1][within]);
    }
    for (start, bytes) in found.journaled {
        content[start as usize..start as usize + bytes.len()].copy_from_slice(&bytes);
    }
    content
}

fn write(model: &mut Vec<u8>, offset: u64, bytes: &[u8]) {
    let (start, end) = (offset as usize, offset as usize + bytes.len());
    model.resize(model.len().max(end), 0);
    model[start..end].copy_from_slice(bytes);
}

struct Moving {
    due: usize,
    pages: Vec<CopiedPage>,
    segment: (SegmentId, SegmentRecord),
}

fn read_journal(store: &Store, data: &mut Data, due: usize) -> Option<Moving> {
    let (mut bytes, mut pages) = (Vec::new(), Vec::new());
    for (ino, page) in store.journal(None, 100).unwrap() {
        pages.push(CopiedPage { ino, page: page.clone(), segment_offset: bytes.len() as u64 });
        page.ranges.iter().for_each(|(_, range)| bytes.extend_from_slice(range));
    }
    (!pages.is_empty()).then(|| Moving { due, pages, segment: new_segment(data, bytes) })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    #[test]
    fn bytes_of_two_stores_are_laid_over_each_other_in_the_order_of_commits(steps in steps()) {
        let (_kv, stores, ino) = two();
        let (mut model, mut data, mut moving) = (Vec::new(), Data::new(), Vec::<Moving>::new());
        for (number, (by, step)) in steps.into_iter().enumerate() {
            let store = &stores[by];
            let attributes = store.attributes(ino).unwrap();
            match step {
                Step::Journal { offset, bytes } => {
                    let commit = shared(&attributes, Vec::new(), pages_of(offset, &bytes), offset + bytes.len() as u64);
                    store.commit_files(&[], &[commit], at(3)).unwrap();
                    write(&mut model, offset, &bytes);
                }
                Step::Segment { offset, bytes } => {
                    let (segment, record) = new_segment(&mut data, bytes.clone());
                    let extent = extent(offset, bytes.len() as u64, segment, 0);
                    let commit = shared(&attributes, vec![extent], Vec::new(), offset + bytes.len() as u64);
                    store.commit_files(&[(segment, record)], &[commit], at(3)).unwrap();
                    write(&mut model, offset, &bytes);
                }
                Step::Append { bytes, in_segment } => {
                    let (segment, record) = new_segment(&mut data, bytes.clone());
                    let appended = if in_segment { Appended::Segment(segment, &record) } else { Appended::Bytes(&bytes) };
                    let start = store.append(ino, appended, at(3)).unwrap();
                    prop_assert_eq!(start, model.len() as u64);
                    model.extend_from_slice(&bytes);
                }
                Step::Truncate { size } => {
                    store.truncate(ino, size, at(3), at(3), None).unwrap();
                    model.resize(size as usize, 0);
                }
                Step::Move { later } => moving.extend(read_journal(store, &mut data, number + later)),
            }
            for Moving { pages, segment: (segment, record), .. } in moving.extract_if(.., |moving| moving.due <= number) {
                stores[1 - by].move_journal(&pages, segment, &record, at(4)).unwrap();
            }
            prop_assert!(content(&stores[0], ino, &data) == model, "after step {number}");
        }
        assert_clean(&stores[1]);
    }
}

#[test]
fn a_moved_journal_is_empty_and_its_segment_lives() {
    let (_kv, [one, other], ino) = two();
    let commit = shared(&one.attributes(ino).unwrap(), Vec::new(), pages_of(10, &[7; 5000]), 5010);
    one.commit_files(&[], &[commit], at(3)).unwrap();
    let mut data = Data::new();
    let Moving { pages, segment: (segment, record), .. } = read_journal(&other, &mut data, 0).unwrap();
    assert_eq!(other.move_journal(&pages, segment, &record, at(4)).unwrap(), 5000);
    assert_eq!(other.journal(None, 10).unwrap(), []);
    assert_eq!(
        one.extents(ino, 0..u64::MAX).unwrap(),
        [extent(10, 4086, segment, 0), extent(4096, 914, segment, 4086)]
    );
    // Again, by one who was late: its segment is dead at once.
    let late = segment_id(99);
    assert_eq!(one.move_journal(&pages, late, &record, at(5)).unwrap(), 0);
    assert!(
        one.unreferenced(None, 10).unwrap().iter().any(|queued| format!("{queued:?}").contains(&format!("{late:?}")))
    );
    assert_clean(&one);
}
