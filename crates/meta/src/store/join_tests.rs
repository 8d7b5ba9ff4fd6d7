use super::*;
use crate::store::fixture::{assert_clean, at, extent, kind_of, make, segment_id, segment_record, volume, write};
use crate::types::Extent;
use weft_format::records::{Kind, LeaseRecord};
use weft_format::{Ino, SegmentId};

const PART: u64 = 1000;

/// A file for each of so many segments, numbered from 1.
fn filled(count: u128) -> (Store, Vec<Ino>) {
    let (store, _) = volume();
    let file = |number: u128| {
        let ino = make(&store, Ino::ROOT, &format!("f{number}"), Kind::File);
        write(&store, ino, 0, PART, number);
        ino
    };
    let files = (1..=count).map(file).collect();
    (store, files)
}

fn parts(numbers: &[u128]) -> Vec<(SegmentId, SegmentRecord)> {
    numbers.iter().map(|number| (segment_id(*number), segment_record(PART))).collect()
}

fn whole(number: u128, part_count: u64) -> (SegmentId, SegmentRecord) {
    (segment_id(number), segment_record(PART * part_count))
}

/// Of a file's extent into the part of a whole.
fn step(ino: Ino, from: Extent, whole: u128, part: u64) -> ExtentMove {
    let to = Extent { segment: segment_id(whole), segment_offset: part * PART + from.segment_offset, ..from };
    ExtentMove { ino, from, to }
}

fn steps(files: &[Ino], whole: u128) -> Vec<ExtentMove> {
    let of = |(part, ino): (usize, &Ino)| {
        let from = extent(0, PART, segment_id(part as u128 + 1), 0);
        step(*ino, from, whole, part as u64)
    };
    files.iter().enumerate().map(of).collect()
}

#[test]
fn files_refer_to_the_whole_and_the_parts_are_dead() {
    let (store, files) = filled(2);
    store.join_segments(&parts(&[1, 2]), &whole(10, 2), &steps(&files, 10), None, at(5)).unwrap();
    assert_eq!(store.extents(files[1], 0..PART).unwrap(), [extent(0, PART, segment_id(10), PART)]);
    assert_eq!(store.live_bytes(segment_id(10)).unwrap(), 2 * PART);
    assert!(store.has_few_users(segment_id(10), 2).unwrap() && !store.has_few_users(segment_id(10), 1).unwrap());
    let trash = store.trash(u64::MAX, None, 10).unwrap();
    assert_eq!(trash, [(5000, segment_id(1)), (5000, segment_id(2))]);
    let into = |number| store.joined_into(segment_id(number)).unwrap();
    assert_eq!([into(1), into(2), into(10)], [Some(segment_id(10)), Some(segment_id(10)), None]);
    assert_clean(&store);
    // The parts are forgotten before the whole, which still names shards of theirs.
    store.drop_segment(segment_id(1), &segment_record(PART), None).unwrap();
    assert_eq!(store.joined_into(segment_id(1)).unwrap(), Some(segment_id(10)));
    assert_clean(&store);
    for ino in &files {
        store.truncate(*ino, 0, at(6), at(6), None).unwrap();
    }
    store.drop_segment(segment_id(10), &whole(10, 2).1, None).unwrap();
    let into = |number| store.joined_into(segment_id(number)).unwrap();
    assert_eq!([into(1), into(2)], [None, None]);
    assert_clean(&store);
}

#[test]
fn what_was_joined_before_is_in_the_wider_whole() {
    let (store, files) = filled(4);
    let [front, back] = [&files[..2], &files[2..]];
    store.join_segments(&parts(&[1, 2]), &whole(10, 2), &steps(front, 10), None, at(5)).unwrap();
    let of_back: Vec<ExtentMove> = (back.iter().zip(0u64..))
        .map(|(ino, part)| step(*ino, extent(0, PART, segment_id(u128::from(part) + 3), 0), 20, part))
        .collect();
    store.join_segments(&parts(&[3, 4]), &whole(20, 2), &of_back, None, at(5)).unwrap();
    let moves: Vec<ExtentMove> = files
        .iter()
        .flat_map(|ino| store.extents(*ino, 0..PART).unwrap().into_iter().map(move |from| (*ino, from)))
        .map(|(ino, from)| {
            let before = if from.segment == segment_id(10) { 0 } else { 2 * PART };
            let to = Extent { segment: segment_id(30), segment_offset: before + from.segment_offset, ..from };
            ExtentMove { ino, from, to }
        })
        .collect();
    store.join_segments(&[whole(10, 2), whole(20, 2)], &whole(30, 4), &moves, None, at(6)).unwrap();
    for number in [1, 2, 3, 4, 10, 20] {
        assert_eq!(store.joined_into(segment_id(number)).unwrap(), Some(segment_id(30)), "{number}");
    }
    // One in between is forgotten, and nothing of the others with it.
    store.drop_segment(segment_id(10), &whole(10, 2).1, None).unwrap();
    assert_eq!(store.joined_into(segment_id(1)).unwrap(), Some(segment_id(30)));
    assert_clean(&store);
}

#[test]
fn what_changed_meanwhile_is_not_joined_and_nothing_is_applied() {
    let (store, files) = filled(2);
    let moves = steps(&files, 10);
    let tried = |parts: &[(SegmentId, SegmentRecord)], moves: &[ExtentMove], fence: Option<&Fence>| {
        kind_of(&store.join_segments(parts, &whole(10, 2), moves, fence, at(5)).unwrap_err())
    };
    let mut other = parts(&[1, 2]);
    other[1].1.shards[0] = None;
    assert_eq!(tried(&other, &moves, None), "SegmentChanged", "repaired");
    assert_eq!(tried(&parts(&[1, 2]), &moves[..1], None), "SegmentChanged", "an extent that nobody moves");
    assert_eq!(tried(&parts(&[1, 2]), &vec![moves[0]; JOIN_MOVES_MAX + 1], None), "Invalid");
    let lease = LeaseRecord { term: 4, holder: "other".into(), beat: 0, ttl_ms: 1 };
    assert!(store.replace_lease("care", None, &lease).unwrap());
    let fence = Fence { name: "care".into(), term: 3 };
    assert_eq!(tried(&parts(&[1, 2]), &moves, Some(&fence)), "Fenced");
    assert_eq!(store.extents(files[0], 0..PART).unwrap(), [extent(0, PART, segment_id(1), 0)]);
    assert_eq!(store.segment(segment_id(10)).unwrap(), None);
    // Overwritten in part, the rest is joined; deleted, it is not.
    write(&store, files[0], 0, 300, 7);
    store.join_segments(&parts(&[1, 2]), &whole(10, 2), &moves, None, at(5)).unwrap();
    assert_eq!(store.live_bytes(segment_id(10)).unwrap(), 2 * PART - 300);
    assert_clean(&store);
    let (store, files) = filled(2);
    store.truncate(files[1], 0, at(4), at(4), None).unwrap();
    let gone = store.join_segments(&parts(&[1, 2]), &whole(10, 2), &steps(&files, 10), None, at(5));
    assert_eq!(kind_of(&gone.unwrap_err()), "SegmentChanged");
    assert_clean(&store);
}

#[test]
fn a_note_of_one_side_is_mended_and_one_of_a_segment_that_is_gone_too() {
    let (store, files) = filled(2);
    store.join_segments(&parts(&[1, 2]), &whole(10, 2), &steps(&files, 10), None, at(5)).unwrap();
    let change = |key: Key<'_>, value: Option<Vec<u8>>| {
        store.transact(|txn| {
            match &value {
                Some(value) => txn.put(key, value.clone()),
                None => txn.remove(key),
            }
            Ok(())
        })
    };
    change(Key::Parts(segment_id(10), segment_id(1)), None).unwrap();
    change(Key::Parts(segment_id(10), segment_id(9)), Some(values::mark())).unwrap();
    change(Key::Joined(segment_id(8)), Some(values::segment_id(segment_id(99)))).unwrap();
    let report = crate::fsck::repair(&store, at(6)).unwrap();
    assert_eq!((report.findings.len(), report.is_clean()), (3, true), "{:?}", report.findings);
    assert_clean(&store);
    assert_eq!(store.joined_into(segment_id(1)).unwrap(), Some(segment_id(10)));
}
