use std::collections::BTreeSet;

use weft_format::records::{Kind, SegmentRecord, Succession, SumsRecord};
use weft_format::{Ino, NodeId, SegmentId};

use crate::fsck;
use crate::keys::Key;
use crate::kv::{Batch, Kv as _};
use crate::store::Store;
use crate::store::fixture::{
    Random, assert_clean, at, dead, extent, file_commit, make, node_id, node_record, segment_id, segment_record, trash,
    volume, write,
};
use crate::types::{Summed, SurveyedSegment};

/// What sums must be, counted from the records.
fn counted(store: &Store) -> SumsRecord {
    let mut sums = SumsRecord::default();
    store.segments(None, usize::MAX).unwrap().iter().for_each(|(_, record)| sums.add(record));
    sums
}

/// The segments that are dead or marked, or on one of these nodes.
fn exceptional(store: &Store, nodes: &[u128]) -> Vec<SurveyedSegment> {
    let mut all = store.survey_segments(None, usize::MAX).unwrap();
    all.retain(|segment| {
        segment.live_bytes == 0
            || segment.damage.is_some()
            || segment.record.nodes().any(|node| nodes.iter().any(|number| node_id(*number) == node))
    });
    all
}

fn on(nodes: &[u128]) -> BTreeSet<NodeId> {
    nodes.iter().copied().map(node_id).collect()
}

/// All sums, and segments that are to be looked at, but for those on nodes.
fn summed(store: &Store) -> Summed {
    store.summed(&on(&[]), None).unwrap().expect("few")
}

/// A segment's record with another code, or with shards elsewhere.
fn changed(record: &SegmentRecord, chance: u64) -> SegmentRecord {
    let mut new = record.clone();
    match chance % 3 {
        0 => new.code = if new.code == "rs:4+2" { "rs:3+3".into() } else { "rs:4+2".into() },
        1 => new.shards[0].as_mut().expect("placed").node = node_id(7),
        _ => new.shards[1].as_mut().expect("placed").node = new.shards[0].as_ref().expect("placed").node,
    }
    new
}

/// One operation of any kind that makes, replaces, marks or drops segments, or that kills some.
fn operate(store: &Store, files: &[Ino], made: &mut u128, numbers: &mut Random) {
    let file = *numbers.pick(files);
    match numbers.below(8) {
        0..3 => {
            *made += 1;
            write(store, file, numbers.below(40) * 50, 10 + numbers.below(90), *made);
        }
        // A large commit: several transactions. It is repeated, as after an error, and one of its segments is of no file.
        3 => {
            let first = *made + 1;
            *made += 60;
            let segments: Vec<_> = (first..=*made).map(|number| (segment_id(number), segment_record(10))).collect();
            let extents =
                segments[1..].iter().zip(0..).map(|((segment, _), place)| extent(place * 10, 10, *segment, 0));
            let commit = file_commit(&store.attributes(file).unwrap(), extents.collect());
            for _ in 0..2 {
                let committed = store.commit_files(&segments, std::slice::from_ref(&commit), at(5));
                committed.unwrap();
            }
        }
        4 => {
            let segment = segment_id(1 + u128::from(numbers.below(1 + *made as u64)));
            if let Some(record) = store.segment(segment).unwrap() {
                let new = changed(&record, numbers.next());
                store.replace_segment(segment, &record, &new, &Succession::default(), None).unwrap();
            }
        }
        5 => store.mark_damaged(segment_id(1 + u128::from(numbers.below(1 + *made as u64)))).unwrap(),
        6 => drop(store.truncate(file, numbers.below(500), at(6), at(6), None).unwrap()),
        _ => {
            for (_, segment) in trash(store).into_iter().take(3) {
                let record = store.segment(segment).unwrap().expect("it is not dropped yet");
                store.drop_segment(dead(segment), &record, None).unwrap();
                store.drop_segment(dead(segment), &record, None).unwrap();
            }
        }
    }
}

#[test]
fn sums_are_those_of_all_segments_whatever_was_done() {
    for seed in 0..12 {
        let mut numbers = Random(seed);
        let (store, _) = volume();
        store.add_node(node_id(7), &node_record(7)).unwrap();
        let files: Vec<Ino> = (0..3).map(|number| make(&store, Ino::ROOT, &format!("f{number}"), Kind::File)).collect();
        let mut made = 0;
        for _ in 0..60 {
            operate(&store, &files, &mut made, &mut numbers);
            let nodes = [numbers.below(9).into()];
            let all = summed(&store);
            assert_eq!((&store.sums().unwrap(), &all.sums), (&counted(&store), &all.sums), "seed {seed}");
            assert_eq!(all.apart, exceptional(&store, &[]), "seed {seed}");
            let limit = numbers.below(20) as usize;
            let listed = node_id(numbers.below(9).into());
            if let Some(some) = store.summed(&on(&nodes), Some((listed, limit))).unwrap() {
                assert_eq!((&some.sums, &some.apart), (&all.sums, &exceptional(&store, &nodes)), "seed {seed}");
                let is_other = |segment: &SegmentId| some.apart.iter().all(|apart| apart.segment != *segment);
                let mut others = store.segments_on_node(listed, None, usize::MAX).unwrap();
                others.retain(is_other);
                others.truncate(limit);
                assert_eq!(some.listed, others, "seed {seed}");
            } else {
                assert!(exceptional(&store, &nodes).len() > 1024, "seed {seed}");
            }
        }
        assert_clean(&store);
    }
}

#[test]
fn too_many_segments_are_not_read_one_by_one() {
    let (store, _) = volume();
    let file = make(&store, Ino::ROOT, "file", Kind::File);
    for number in 1..=1025_u32 {
        write(&store, file, u64::from(number) * 100, 50, u128::from(number));
    }
    // All are on the first node.
    assert!(store.summed(&on(&[9]), None).unwrap().is_some());
    assert!(store.summed(&on(&[1]), None).unwrap().is_none());
    let listed = store.summed(&on(&[9]), Some((node_id(1), 1025))).unwrap().expect("few").listed;
    assert_eq!(listed, (1..=1025).map(segment_id).collect::<Vec<_>>(), "more than one page of keys");
}

#[test]
fn wrong_and_missing_sums_are_found_and_mended() {
    let (store, kv) = volume();
    let file = make(&store, Ino::ROOT, "file", Kind::File);
    write(&store, file, 0, 100, 1);
    write(&store, file, 200, 100, 2);
    let record = segment_record(100);
    store.replace_segment(segment_id(1), &record, &changed(&record, 0), &Succession::default(), None).unwrap();
    let right = store.sums().unwrap();
    let mut other = SumsRecord::default();
    other.add(&record);
    // As many segments and bytes, and one of them on another node.
    let mut elsewhere = other.clone();
    elsewhere.add(&changed(&record, 1));
    for (key, value) in [
        (Key::Sums, None),
        (Key::SumChanges, None),
        (Key::Sums, Some(other.encode())),
        (Key::Sums, Some(elsewhere.encode())),
        (Key::Sums, Some(vec![9])),
    ] {
        let is_unreadable = value == Some(vec![9]);
        kv.commit(Batch { writes: vec![(key.encode(), value)], ..Batch::default() }).unwrap();
        let found = fsck::check(&store, &mut |_| {}).unwrap();
        assert!(!found.is_clean(), "{key}");
        if is_unreadable {
            assert!(store.sums().is_err());
            return;
        }
        assert!(fsck::repair(&store, at(9), &mut |_| {}).unwrap().is_clean(), "{key}");
        assert_clean(&store);
        assert_eq!(store.sums().unwrap(), right, "{key}");
    }
}

#[test]
fn a_wrong_sum_is_said_by_its_code() {
    let (store, kv) = volume();
    let file = make(&store, Ino::ROOT, "file", Kind::File);
    write(&store, file, 0, 100, 1);
    kv.commit(Batch { writes: vec![(Key::Sums.encode(), Some(SumsRecord::default().encode()))], ..Batch::default() })
        .unwrap();
    let found: Vec<String> =
        fsck::check(&store, &mut |_| {}).unwrap().findings.iter().map(|(found, _)| found.to_string()).collect();
    assert_eq!(
        found,
        ["there are 1 segments of rs:4+2 with 100 bytes of data, and the sums over all segments say otherwise"]
    );
}

/// Who makes segments does not wait for who replaces some.
#[test]
fn the_owner_and_care_write_different_sums() {
    let (store, kv) = volume();
    let file = make(&store, Ino::ROOT, "file", Kind::File);
    write(&store, file, 0, 100, 1);
    let value = |key: Key<'_>| kv.snapshot().unwrap().get(&key.encode()).unwrap();
    let (sums, changes) = (value(Key::Sums), value(Key::SumChanges));
    let record = segment_record(100);
    store.replace_segment(segment_id(1), &record, &changed(&record, 0), &Succession::default(), None).unwrap();
    assert!(value(Key::Sums) == sums && value(Key::SumChanges) != changes);
    let changes = value(Key::SumChanges);
    write(&store, file, 0, 100, 2);
    assert!(value(Key::Sums) != sums && value(Key::SumChanges) == changes);
    let sums = value(Key::Sums);
    let gone = store.segment(segment_id(1)).unwrap().expect("dead");
    store.drop_segment(dead(segment_id(1)), &gone, None).unwrap();
    assert!(value(Key::Sums) == sums && value(Key::SumChanges) != changes);
}
