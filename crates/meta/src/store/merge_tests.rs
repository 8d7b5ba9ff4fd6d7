use super::*;
use crate::store::fixture::{
    assert_clean, at, dead, expired, extent, going, kind_of, make, segment_id, segment_record, trash, volume, write,
};
use crate::types::Extent;
use weft_format::records::{Kind, LeaseRecord, Origin, RetainedRecord, Succession};
use weft_format::{Generation, Ino, SegmentId, ShardIndex};

const SOURCE: u64 = 1000;

/// A file for each of so many segments, numbered from 1.
fn filled(count: u128) -> (Store, Vec<Ino>) {
    let (store, _) = volume();
    let file = |number: u128| {
        let ino = make(&store, Ino::ROOT, &format!("f{number}"), Kind::File);
        write(&store, ino, 0, SOURCE, number);
        ino
    };
    let files = (1..=count).map(file).collect();
    (store, files)
}

fn sources(numbers: &[u128]) -> Vec<(SegmentId, SegmentRecord)> {
    numbers.iter().map(|number| (segment_id(*number), segment_record(SOURCE))).collect()
}

/// A segment of so many sources' data, whose first shards are those of the segments `owners`, under their names.
fn merged(number: u128, source_count: u64, owners: &[u128]) -> (SegmentId, SegmentRecord) {
    let mut record = segment_record(SOURCE * source_count);
    for (shard, owner) in record.shards.iter_mut().zip(owners) {
        let location = shard.as_mut().expect("placed");
        location.origin = Some(Origin { segment: segment_id(*owner), index: ShardIndex(0) });
    }
    (segment_id(number), record)
}

/// The first shard of a segment.
fn shard(number: u128) -> ShardKey {
    let location = segment_record(SOURCE).shards[0].clone().expect("placed");
    ShardKey { segment: segment_id(number), generation: location.generation, index: ShardIndex(0) }
}

/// Of a file's extent into the source's place in the merged segment.
fn step(ino: Ino, from: Extent, merged: u128, source: u64) -> ExtentMove {
    let to = Extent { segment: segment_id(merged), segment_offset: source * SOURCE + from.segment_offset, ..from };
    ExtentMove { ino, from, to }
}

fn steps(files: &[Ino], merged: u128) -> Vec<ExtentMove> {
    let of = |(source, ino): (usize, &Ino)| {
        let from = extent(0, SOURCE, segment_id(source as u128 + 1), 0);
        step(*ino, from, merged, source as u64)
    };
    files.iter().enumerate().map(of).collect()
}

/// Whose the first shard of a segment is, if not its own.
fn owner(store: &Store, number: u128) -> Option<SegmentId> {
    let aliases = store.aliases(segment_id(number)).unwrap();
    assert!(aliases.len() < 2 && aliases.iter().all(|(key, _)| *key == shard(number)));
    aliases.first().map(|(_, owner)| *owner)
}

#[test]
fn files_refer_to_the_merged_segment_and_the_sources_are_dead() {
    let (store, files) = filled(2);
    let record = merged(10, 2, &[1, 2]);
    store.merge_segments(&sources(&[1, 2]), &record, &steps(&files, 10), None, at(5)).unwrap();
    assert_eq!(store.extents(files[1], 0..SOURCE).unwrap(), [extent(0, SOURCE, segment_id(10), SOURCE)]);
    assert_eq!(store.live_bytes(segment_id(10)).unwrap(), 2 * SOURCE);
    assert!(store.has_few_users(segment_id(10), 2).unwrap() && !store.has_few_users(segment_id(10), 1).unwrap());
    let trash = trash(&store);
    assert_eq!(trash, [(5000, segment_id(1)), (5000, segment_id(2))]);
    assert_eq!([1, 2, 10].map(|number| owner(&store, number)), [Some(segment_id(10)), Some(segment_id(10)), None]);
    assert_clean(&store);
    // The sources are forgotten before the merged segment, which still owns shards of theirs.
    store.drop_segment(dead(segment_id(1)), &segment_record(SOURCE), None).unwrap();
    assert_eq!(owner(&store, 1), Some(segment_id(10)));
    assert_clean(&store);
    for ino in &files {
        store.truncate(*ino, 0, at(6), at(6), None).unwrap();
    }
    store.drop_segment(dead(segment_id(10)), &record.1, None).unwrap();
    assert_eq!([1, 2].map(|number| owner(&store, number)), [None, None]);
    assert_clean(&store);
}

#[test]
fn what_was_merged_before_is_taken_over_by_the_wider_segment_as_far_as_it_names_it() {
    let (store, files) = filled(2);
    store.merge_segments(&sources(&[1, 2]), &merged(10, 2, &[1, 2]), &steps(&files, 10), None, at(5)).unwrap();
    let third = make(&store, Ino::ROOT, "third", Kind::File);
    write(&store, third, 0, 2 * SOURCE, 3);
    let again = [merged(10, 2, &[1, 2]), (segment_id(3), segment_record(2 * SOURCE))];
    let mut moves: Vec<ExtentMove> = (files.iter().zip(0u64..))
        .map(|(ino, source)| step(*ino, extent(0, SOURCE, segment_id(10), source * SOURCE), 20, 0))
        .collect();
    moves.push(step(third, extent(0, 2 * SOURCE, segment_id(3), 0), 20, 2));
    store.merge_segments(&again, &merged(20, 4, &[1, 3]), &moves, None, at(6)).unwrap();
    let owners = [1, 2, 3].map(|number| owner(&store, number));
    assert_eq!(owners, [Some(segment_id(20)), Some(segment_id(10)), Some(segment_id(20))]);
    assert_clean(&store);
    // The one in between goes, with what is its own.
    store.drop_segment(dead(segment_id(10)), &merged(10, 2, &[1, 2]).1, None).unwrap();
    let owners = [1, 2, 3].map(|number| owner(&store, number));
    assert_eq!(owners, [Some(segment_id(20)), None, Some(segment_id(20))]);
    assert_clean(&store);
}

#[test]
fn an_alias_goes_with_the_last_record_that_names_the_shard() {
    let (store, files) = filled(2);
    let (id, record) = merged(10, 2, &[1, 2]);
    store.merge_segments(&sources(&[1, 2]), &(id, record.clone()), &steps(&files, 10), None, at(5)).unwrap();
    // The first shard is rebuilt elsewhere, and the previous place kept for a while.
    let mut rebuilt = SegmentRecord { generation: Generation(record.generation.0 + 1), ..record.clone() };
    let location = rebuilt.shards[0].as_mut().expect("placed");
    (location.generation, location.origin) = (Generation(77), None);
    let retained = RetainedRecord::of(&record, &rebuilt, 0, 0).expect("one shard");
    let succession = Succession { retained: Some(retained.clone()), restored: None };
    store.replace_segment(id, &record, &rebuilt, &succession, None).unwrap();
    assert_eq!([1, 2].map(|number| owner(&store, number)), [Some(id), Some(id)], "it is kept");
    assert_clean(&store);
    // Taken back, and moved again: nothing is kept this time.
    let again = SegmentRecord { generation: Generation(rebuilt.generation.0 + 1), ..record.clone() };
    let taken_back = Succession { retained: None, restored: Some(retained.clone()) };
    store.replace_segment(id, &rebuilt, &again, &taken_back, None).unwrap();
    assert_eq!(owner(&store, 1), Some(id));
    let last = SegmentRecord { generation: Generation(again.generation.0 + 1), ..rebuilt.clone() };
    store.replace_segment(id, &again, &last, &succession, None).unwrap();
    let marked = store.mark_going(expired(id, &retained), &retained, None).unwrap();
    assert_eq!(owner(&store, 1), Some(id));
    store.drop_generation(going(id, &retained), &marked, None).unwrap();
    assert_eq!([1, 2].map(|number| owner(&store, number)), [None, Some(id)]);
    assert_clean(&store);
}

#[test]
fn what_changed_meanwhile_is_not_merged_and_nothing_is_applied() {
    let (store, files) = filled(2);
    let moves = steps(&files, 10);
    let record = merged(10, 2, &[1, 2]);
    let tried = |sources: &[(SegmentId, SegmentRecord)], moves: &[ExtentMove], fence: Option<&Fence>| {
        kind_of(&store.merge_segments(sources, &record, moves, fence, at(5)).unwrap_err())
    };
    let mut other = sources(&[1, 2]);
    other[1].1.shards[0] = None;
    assert_eq!(tried(&other, &moves, None), "SegmentChanged", "repaired");
    assert_eq!(tried(&sources(&[1, 2]), &moves[..1], None), "SegmentChanged", "an extent that nobody moves");
    assert_eq!(tried(&sources(&[1, 2]), &vec![moves[0]; MERGE_MOVES_MAX + 1], None), "Invalid");
    let lease = LeaseRecord { term: 4, holder: "other".into(), beat: 0, ttl_ms: 1 };
    assert!(store.replace_lease("care", None, &lease).unwrap());
    let fence = Fence { name: "care".into(), term: 3 };
    assert_eq!(tried(&sources(&[1, 2]), &moves, Some(&fence)), "Fenced");
    assert_eq!(store.extents(files[0], 0..SOURCE).unwrap(), [extent(0, SOURCE, segment_id(1), 0)]);
    assert_eq!(store.segment(segment_id(10)).unwrap(), None);
    // Overwritten in part, the rest is merged; deleted, it is not.
    write(&store, files[0], 0, 300, 7);
    store.merge_segments(&sources(&[1, 2]), &record, &moves, None, at(5)).unwrap();
    assert_eq!(store.live_bytes(segment_id(10)).unwrap(), 2 * SOURCE - 300);
    assert_clean(&store);
    let (store, files) = filled(2);
    store.truncate(files[1], 0, at(4), at(4), None).unwrap();
    let gone = store.merge_segments(&sources(&[1, 2]), &record, &steps(&files, 10), None, at(5));
    assert_eq!(kind_of(&gone.unwrap_err()), "SegmentChanged");
    assert_clean(&store);
}

#[test]
fn an_alias_that_is_missing_is_made_again_and_one_of_nothing_goes() {
    let (store, files) = filled(2);
    store.merge_segments(&sources(&[1, 2]), &merged(10, 2, &[1, 2]), &steps(&files, 10), None, at(5)).unwrap();
    let change = |shard: ShardKey, owner: Option<u128>| {
        store.transact(|txn| {
            match owner {
                Some(owner) => txn.put(Key::Alias(shard), values::segment(segment_id(owner))),
                None => txn.remove(Key::Alias(shard)),
            }
            Ok(())
        })
    };
    change(shard(1), None).unwrap();
    change(shard(9), Some(10)).unwrap();
    change(shard(8), Some(99)).unwrap();
    let report = crate::fsck::repair(&store, at(6), &mut |_| {}).unwrap();
    assert_eq!((report.findings.len(), report.is_clean()), (3, true), "{:?}", report.findings);
    assert_clean(&store);
    assert_eq!(owner(&store, 1), Some(segment_id(10)));
}
