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

/// What such a segment is kept as.
fn kept(part_count: u64) -> RetiredRecord {
    RetiredRecord::whole(segment_record(PART * part_count), 5000, 60_000)
}

fn parts(numbers: &[u128]) -> Vec<(SegmentId, RetiredRecord)> {
    numbers.iter().map(|number| (segment_id(*number), kept(1))).collect()
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

fn joined_into(store: &Store, number: u128) -> Option<SegmentId> {
    store.borrowers(segment_id(number)).unwrap().map(|borrowers| borrowers.whole.0)
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
    let into = |number| joined_into(&store, number);
    assert_eq!([into(1), into(2), into(10)], [Some(segment_id(10)), Some(segment_id(10)), None]);
    assert_eq!(store.parts_of(segment_id(10)).unwrap(), [(segment_id(1), Some(0)), (segment_id(2), Some(PART))]);
    assert_eq!([1, 2].map(|number| store.retired_of(segment_id(number)).unwrap()), [[kept(1)], [kept(1)]]);
    assert_clean(&store);
    // The parts are forgotten before the whole, which still names shards of theirs.
    store.drop_segment(segment_id(1), &segment_record(PART), None).unwrap();
    assert_eq!(joined_into(&store, 1), Some(segment_id(10)));
    assert_clean(&store);
    for ino in &files {
        store.truncate(*ino, 0, at(6), at(6), None).unwrap();
    }
    store.drop_segment(segment_id(10), &whole(10, 2).1, None).unwrap();
    let into = |number| joined_into(&store, number);
    assert_eq!([into(1), into(2)], [None, None]);
    assert_clean(&store);
}

/// Four parts, of which each two were joined, and then these.
fn joined_twice() -> (Store, Vec<Ino>) {
    let (store, files) = filled(4);
    let [front, back] = [&files[..2], &files[2..]];
    store.join_segments(&parts(&[1, 2]), &whole(10, 2), &steps(front, 10), None, at(5)).unwrap();
    let of_back: Vec<ExtentMove> = (back.iter().zip(0u64..))
        .map(|(ino, part)| step(*ino, extent(0, PART, segment_id(u128::from(part) + 3), 0), 20, part))
        .collect();
    store.join_segments(&parts(&[3, 4]), &whole(20, 2), &of_back, None, at(5)).unwrap();
    let to_whole = |ino: &Ino| {
        let from = store.extents(*ino, 0..PART).unwrap()[0];
        let before = if from.segment == segment_id(10) { 0 } else { 2 * PART };
        let to = Extent { segment: segment_id(30), segment_offset: before + from.segment_offset, ..from };
        ExtentMove { ino: *ino, from, to }
    };
    let moves: Vec<ExtentMove> = files.iter().map(to_whole).collect();
    let halves = [(segment_id(10), kept(2)), (segment_id(20), kept(2))];
    store.join_segments(&halves, &whole(30, 4), &moves, None, at(6)).unwrap();
    (store, files)
}

#[test]
fn what_was_joined_before_is_in_the_wider_whole() {
    let (store, _) = joined_twice();
    for number in [1, 2, 3, 4, 10, 20] {
        assert_eq!(joined_into(&store, number), Some(segment_id(30)), "{number}");
    }
    let places = [(1, 0), (2, 1), (3, 2), (4, 3), (10, 0), (20, 2)];
    assert_eq!(store.parts_of(segment_id(30)).unwrap(), places.map(|(of, part)| (segment_id(of), Some(part * PART))));
    // Any of them may need shards of any other: the whole by what it is, the parts by what is kept of them.
    let parts = places.map(|(of, _)| (segment_id(of), vec![kept(if of < 10 { 1 } else { 2 }).record]));
    let borrowers = Borrowers { whole: (segment_id(30), vec![whole(30, 4).1]), parts: parts.into() };
    assert_eq!(store.borrowers(segment_id(1)).unwrap(), Some(borrowers.clone()));
    assert_eq!(store.borrowers(segment_id(20)).unwrap(), Some(borrowers));
    assert_eq!(store.borrowers(segment_id(30)).unwrap(), None);
    // One in between is forgotten, and nothing of the others with it.
    store.drop_segment(segment_id(10), &whole(10, 2).1, None).unwrap();
    assert_eq!(joined_into(&store, 1), Some(segment_id(30)));
    assert_clean(&store);
}

/// Part `part` of a whole, with the bytes of so many, becomes segment `number` again.
fn unjoined(number: u128, former: u128, part: u64, part_count: u64) -> Unjoined {
    let offset = part * PART;
    Unjoined { offset, former: (segment_id(former), kept(part_count)), segment: whole(number, part_count) }
}

/// All extents of files in a whole, as moves to the parts that have their data.
fn steps_back(store: &Store, files: &[Ino], whole: u128, parts: &[Unjoined]) -> Vec<ExtentMove> {
    let of = |ino: Ino| store.extents(ino, 0..PART).unwrap().into_iter().map(move |from| (ino, from));
    let back = |(ino, from): (Ino, Extent)| {
        let is_its =
            |part: &&Unjoined| from.segment == segment_id(whole) && part.range().contains(&from.segment_offset);
        let part = parts.iter().find(is_its)?;
        let to = Extent { segment: part.segment.0, segment_offset: from.segment_offset - part.offset, ..from };
        Some(ExtentMove { ino, from, to })
    };
    files.iter().copied().flat_map(of).filter_map(back).collect()
}

#[test]
fn what_was_joined_becomes_segments_again_under_new_ids() {
    let (store, files) = filled(2);
    store.join_segments(&parts(&[1, 2]), &whole(10, 2), &steps(&files, 10), None, at(5)).unwrap();
    // One of them was overwritten in the middle meanwhile.
    write(&store, files[1], 300, 200, 7);
    let back = [unjoined(21, 1, 0, 1), unjoined(22, 2, 1, 1)];
    let moves = steps_back(&store, &files, 10, &back);
    assert_eq!(moves.len(), 3);
    let tried =
        |whole: &(SegmentId, SegmentRecord), parts: &[Unjoined], moves: &[ExtentMove], fence: Option<&Fence>| {
            kind_of(&store.unjoin_segment(whole, parts, moves, fence, at(6)).unwrap_err())
        };
    let mut other = whole(10, 2);
    other.1.shards[0] = None;
    assert_eq!(tried(&other, &back, &moves, None), "SegmentChanged", "repaired");
    assert_eq!(tried(&whole(10, 2), &back, &moves[..2], None), "SegmentChanged", "an extent that nobody moves");
    assert_eq!(tried(&whole(10, 2), &back, &vec![moves[0]; JOIN_MOVES_MAX + 1], None), "Invalid");
    let going = RetiredRecord { is_going: true, ..kept(1) };
    let mut late = back.clone();
    late[0].former.1 = going.clone();
    assert_eq!(tried(&whole(10, 2), &late, &moves, None), "SegmentChanged", "not what is kept");
    store.replace_retired(segment_id(1), &kept(1), Some(&going), None).unwrap();
    assert_eq!(tried(&whole(10, 2), &back, &moves, None), "SegmentChanged", "being removed");
    assert_eq!(tried(&whole(10, 2), &late, &moves, None), "SegmentChanged", "being removed, and known to be");
    store.replace_retired(segment_id(1), &going, Some(&kept(1)), None).unwrap();
    let lease = LeaseRecord { term: 4, holder: "other".into(), beat: 0, ttl_ms: 1 };
    assert!(store.replace_lease("care", None, &lease).unwrap());
    let fence = Fence { name: "care".into(), term: 3 };
    assert_eq!(tried(&whole(10, 2), &back, &moves, Some(&fence)), "Fenced");
    assert_eq!(store.live_bytes(segment_id(10)).unwrap(), 2 * PART - 200, "nothing was done");
    assert_clean(&store);

    store.unjoin_segment(&whole(10, 2), &back, &moves, None, at(6)).unwrap();
    assert_eq!(store.extents(files[0], 0..PART).unwrap(), [extent(0, PART, segment_id(21), 0)]);
    let (head, tail) = (extent(0, 300, segment_id(22), 0), extent(500, 500, segment_id(22), 500));
    let found = store.extents(files[1], 0..PART).unwrap();
    assert_eq!((found.len(), found[0], found[2]), (3, head, tail));
    assert_eq!([10, 21, 22].map(|number| store.live_bytes(segment_id(number)).unwrap()), [0, PART, PART - 200]);
    assert_eq!([1, 2].map(|number| store.retired_of(segment_id(number)).unwrap()), [[], []]);
    let into = |number| joined_into(&store, number);
    assert_eq!([into(1), into(2)], [Some(segment_id(21)), Some(segment_id(22))]);
    assert_clean(&store);
    // What is dead goes, and its notes stay with those who need them.
    for (segment, record) in [whole(1, 1), whole(2, 1), whole(10, 2)] {
        store.drop_segment(segment, &record, None).unwrap();
    }
    assert_eq!([into(1), into(2)], [Some(segment_id(21)), Some(segment_id(22))]);
    assert_clean(&store);
}

#[test]
fn what_no_file_refers_to_any_more_stays_retired_and_notes_of_inner_parts_go_along() {
    let (store, files) = joined_twice();
    for ino in &files[..2] {
        store.truncate(*ino, 0, at(7), at(7), None).unwrap();
    }
    let second = [unjoined(50, 20, 2, 2)];
    store.unjoin_segment(&whole(30, 4), &second, &steps_back(&store, &files, 30, &second), None, at(8)).unwrap();
    let into = |number| joined_into(&store, number);
    assert_eq!([3, 4, 20].map(into), [Some(segment_id(50)); 3]);
    assert_eq!([1, 2, 10].map(into), [Some(segment_id(30)); 3]);
    let places = [(3, 0), (4, 1), (20, 0)];
    assert_eq!(store.parts_of(segment_id(50)).unwrap(), places.map(|(of, part)| (segment_id(of), Some(part * PART))));
    assert_eq!([10, 20].map(|number| store.retired_of(segment_id(number)).unwrap().len()), [1, 0]);
    assert_clean(&store);
    // And further back, to what is kept of before.
    let both = [unjoined(61, 3, 0, 1), unjoined(62, 4, 1, 1)];
    store.unjoin_segment(&whole(50, 2), &both, &steps_back(&store, &files, 50, &both), None, at(9)).unwrap();
    assert_eq!([3, 4, 20].map(into), [Some(segment_id(61)), Some(segment_id(62)), Some(segment_id(61))]);
    assert_clean(&store);
}

#[test]
fn what_was_joined_by_a_program_that_did_not_note_where_is_not_taken_apart() {
    let (store, files) = filled(2);
    store.join_segments(&parts(&[1, 2]), &whole(10, 2), &steps(&files, 10), None, at(5)).unwrap();
    let note = Joined { whole: segment_id(10), offset: None };
    let write_note = |txn: &mut Txn<'_>| {
        txn.put(Key::Joined(segment_id(2)), note.encode());
        Ok(())
    };
    store.transact(write_note).unwrap();
    assert_eq!(store.parts_of(segment_id(10)).unwrap()[1], (segment_id(2), None));
    assert_clean(&store);
    let back = [unjoined(21, 1, 0, 1), unjoined(22, 2, 1, 1)];
    let moves = steps_back(&store, &files, 10, &back);
    let refused = store.unjoin_segment(&whole(10, 2), &back, &moves, None, at(6)).unwrap_err();
    assert_eq!(kind_of(&refused), "SegmentChanged");
}

#[test]
fn what_has_too_many_notes_of_before_is_not_joined() {
    for (note_count, is_joined) in [(NOTES_MAX - 1, false), (NOTES_MAX - 2, true)] {
        let (store, files) = filled(2);
        let note_all = |txn: &mut Txn<'_>| {
            for number in (100..).take(note_count) {
                txn.note(segment_id(number), Joined { whole: segment_id(1), offset: Some(0) });
            }
            Ok(())
        };
        store.transact(note_all).unwrap();
        let joined = store.join_segments(&parts(&[1, 2]), &whole(10, 2), &steps(&files, 10), None, at(5));
        assert_eq!(
            joined.map_err(|error| kind_of(&error)),
            if is_joined { Ok(()) } else { Err("SegmentChanged".into()) }
        );
        let (with_notes, of_whole) = if is_joined { (10, note_count + 2) } else { (1, note_count) };
        assert_eq!(store.parts_of(segment_id(with_notes)).unwrap().len(), of_whole);
        assert_clean(&store);
    }
}

#[test]
fn what_changed_meanwhile_is_not_joined_and_nothing_is_applied() {
    let (store, files) = filled(2);
    let moves = steps(&files, 10);
    let tried = |parts: &[(SegmentId, RetiredRecord)], moves: &[ExtentMove], fence: Option<&Fence>| {
        kind_of(&store.join_segments(parts, &whole(10, 2), moves, fence, at(5)).unwrap_err())
    };
    let mut other = parts(&[1, 2]);
    other[1].1.record.shards[0] = None;
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
    let elsewhere = Joined { whole: segment_id(99), offset: None };
    change(Key::Joined(segment_id(8)), Some(elsewhere.encode())).unwrap();
    let report = crate::fsck::repair(&store, at(6)).unwrap();
    assert_eq!((report.findings.len(), report.is_clean()), (3, true), "{:?}", report.findings);
    assert_clean(&store);
    assert_eq!(joined_into(&store, 1), Some(segment_id(10)));
}
