use super::super::fixture::*;
use super::*;
use weft_format::records::{Kind, NodeRecord, NodeState};
use weft_format::{Generation, ShardIndex};

/// After a look that found nothing.
fn clear_damage(store: &Store, segment: SegmentId) {
    let noted = store.damage(segment).unwrap();
    assert!(store.replace_damage(segment, noted.as_ref(), None).unwrap());
}

/// A look takes its time, and may be of a process that was stopped: what others have noted since it began, it has not seen.
#[test]
fn a_look_replaces_the_note_that_was_there_before_it_and_no_other() {
    let (store, _) = volume();
    let file = make(&store, Ino::ROOT, "file", Kind::File);
    write(&store, file, 0, 1000, 1);
    let segment = segment_id(1);
    let damaged = |index: u16| {
        let (record, index) = (segment_record(1000), ShardIndex(index));
        let location = record.shards[index.as_usize()].clone().unwrap();
        let (node, key) = (location.node, location.key(segment, index));
        DamagedShard { index, node, key, complaint: "a checksum is wrong".into(), frames: None }
    };
    store.note_damage(segment, &[damaged(0)]).unwrap();
    let before = store.damage(segment).unwrap();
    store.note_damage(segment, &[damaged(1)]).unwrap();
    let later = store.damage(segment).unwrap();
    for after in [None, before.as_ref()] {
        assert!(!store.replace_damage(segment, before.as_ref(), after).unwrap());
        assert!(!store.replace_damage(segment, None, after).unwrap());
        assert_eq!(store.damage(segment).unwrap(), later);
    }
    assert!(store.replace_damage(segment, later.as_ref(), before.as_ref()).unwrap());
    assert_eq!(store.damage(segment).unwrap(), before);
    clear_damage(&store, segment);
    assert_eq!(store.damage(segment).unwrap(), None);
}

#[test]
fn a_segments_life() {
    let (store, _) = volume();
    let file = make(&store, Ino::ROOT, "file", Kind::File);
    write(&store, file, 0, 1000, 1);
    let segment = segment_id(1);
    let record = segment_record(1000);
    assert_eq!(store.segment(segment).unwrap(), Some(record.clone()));
    assert_eq!((store.live_bytes(segment).unwrap(), store.files_of_segment(segment).unwrap()), (1000, vec![file]));
    assert_eq!(store.segments_on_node(node_id(3), None, 10).unwrap(), [segment]);
    assert_eq!(kind_of(&store.drop_segment(dead(segment), &record, None).unwrap_err()), "SegmentChanged");

    // Overwritten: dead, in the trash, still known.
    write(&store, file, 0, 1000, 2);
    assert_eq!((store.live_bytes(segment).unwrap(), store.files_of_segment(segment).unwrap()), (0, vec![]));
    assert_eq!(trash(&store), [(3000, segment)]);
    assert_eq!(store.unreferenced(Some(Item::Segment(segment)), 10).unwrap(), []);
    assert_eq!(store.unreferenced(None, 0).unwrap(), []);
    assert!(store.segment(segment).unwrap().is_some());
    assert_clean(&store);

    // A dead one is never used again.
    let commit = file_commit(&store.attributes(file).unwrap(), vec![extent(0, 10, segment, 0)]);
    let again = store.commit_files(&[], std::slice::from_ref(&commit), at(4));
    assert_eq!(kind_of(&again.unwrap_err()), "SegmentChanged");
    let again = store.commit_files(&[(segment, record.clone())], &[commit], at(4));
    assert_eq!(kind_of(&again.unwrap_err()), "SegmentChanged");

    assert_eq!(kind_of(&store.drop_segment(dead(segment), &segment_record(5), None).unwrap_err()), "SegmentChanged");
    store.drop_segment(dead(segment), &record, None).unwrap();
    store.drop_segment(dead(segment), &record, None).unwrap();
    assert_eq!(store.segment(segment).unwrap(), None);
    assert_eq!(trash(&store), []);
    assert_eq!(store.segments_on_node(node_id(3), None, 10).unwrap(), [segment_id(2)]);
    assert_clean(&store);
}

#[test]
fn the_mark_of_a_dead_segment_that_misses_a_shard_can_be_taken_away() {
    let (store, _) = volume();
    let file = make(&store, Ino::ROOT, "file", Kind::File);
    write(&store, file, 0, 1000, 1);
    let (segment, whole) = (segment_id(1), segment_record(1000));
    let mut short = whole.clone();
    short.generation = Generation(2);
    short.shards[1] = None;
    store.replace_segment(segment, &whole, &short, &Succession::default(), None).unwrap();
    clear_damage(&store, segment);
    assert_eq!(store.damaged(None, 10).unwrap(), [segment]);
    store.unlink(Ino::ROOT, b"file", at(2)).unwrap();
    assert_eq!(store.reclaim(&[unused(file)], at(3)).unwrap(), 1);
    assert_eq!(store.live_bytes(segment).unwrap(), 0);
    clear_damage(&store, segment);
    assert_eq!(store.damaged(None, 10).unwrap(), []);
    assert_clean(&store);
}

#[test]
fn replacing_keeps_the_indices() {
    let (store, _) = volume();
    let file = make(&store, Ino::ROOT, "file", Kind::File);
    write(&store, file, 0, 1000, 1);
    store.add_node(node_id(7), &node_record(7)).unwrap();
    let (segment, old) = (segment_id(1), segment_record(1000));
    let mut new = old.clone();
    new.generation = Generation(2);
    new.shards[0].as_mut().unwrap().node = node_id(7);
    new.shards[1] = None;
    store.replace_segment(segment, &old, &new, &Succession::default(), None).unwrap();
    assert_eq!(
        kind_of(&store.replace_segment(segment, &old, &new, &Succession::default(), None).unwrap_err()),
        "SegmentChanged"
    );
    assert_eq!(
        kind_of(&store.replace_segment(segment_id(9), &old, &new, &Succession::default(), None).unwrap_err()),
        "SegmentChanged"
    );
    assert_eq!(store.segment(segment).unwrap(), Some(new.clone()));
    let on = |number| store.segments_on_node(node_id(number), None, 10).unwrap().len();
    assert_eq!([on(1), on(2), on(3), on(7)], [0, 0, 1, 1]);
    assert_eq!(store.damaged(None, 10).unwrap(), [segment]);
    clear_damage(&store, segment);
    assert_eq!(store.damaged(None, 10).unwrap(), [segment], "a shard is still missing");
    assert_clean(&store);
    // Complete again: the mark stays until somebody has looked.
    store.replace_segment(segment, &new, &old, &Succession::default(), None).unwrap();
    assert_eq!(store.damaged(None, 10).unwrap(), [segment]);
    clear_damage(&store, segment);
    clear_damage(&store, segment);
    assert_eq!(store.damaged(None, 10).unwrap(), []);
    assert_clean(&store);
}

#[test]
fn a_previous_generation_is_retained_until_somebody_restores_it_or_forgets_it() {
    let (store, kv) = volume();
    let file = make(&store, Ino::ROOT, "file", Kind::File);
    write(&store, file, 0, 1000, 1);
    kv.shared_only();
    let (segment, old) = (segment_id(1), segment_record(1000));
    let mut new = old.clone();
    new.generation = Generation(old.generation.0 + 1);
    new.shards.iter_mut().flatten().for_each(|shard| shard.generation = new.generation);
    let retained = RetainedRecord::of(&old, &new, 7, 60).unwrap();
    let succession = Succession { retained: Some(retained.clone()), restored: None };
    store.replace_segment(segment, &old, &new, &succession, None).unwrap();
    assert_eq!(store.retained_of(segment).unwrap(), std::slice::from_ref(&retained));
    let queued = Queued::Generation { segment, retained: retained.clone() };
    assert_eq!(store.unreferenced(None, 10).unwrap(), std::slice::from_ref(&queued));
    assert_eq!(store.unreferenced(Some(queued.item()), 10).unwrap(), []);
    assert_eq!(store.retained_of(segment_id(2)).unwrap(), []);
    assert_clean(&store);
    // Taken again, while the one that took its place is kept.
    let again = SegmentRecord { generation: Generation(new.generation.0 + 1), ..old.clone() };
    let other = RetainedRecord::of(&new, &again, 8, 60).unwrap();
    let back = Succession { retained: Some(other.clone()), restored: Some(retained.clone()) };
    store.replace_segment(segment, &new, &again, &back, None).unwrap();
    assert_eq!(store.retained_of(segment).unwrap(), std::slice::from_ref(&other));
    // Being removed, it is not taken again.
    let fence = Fence { name: "care".into(), term: 3 };
    let marked = |retained, fence| store.mark_going(expired(segment, retained), retained, fence);
    assert_eq!(kind_of(&marked(&retained, None).unwrap_err()), "SegmentChanged", "not kept any more");
    assert_eq!(kind_of(&marked(&other, Some(&fence)).unwrap_err()), "Fenced");
    let marked = marked(&other, None).unwrap();
    assert_eq!(marked, RetainedRecord { is_going: true, ..other.clone() });
    let third = SegmentRecord { generation: Generation(again.generation.0 + 1), ..new.clone() };
    for restored in [&other, &marked, &retained] {
        let late = Succession { retained: None, restored: Some(restored.clone()) };
        let refused = store.replace_segment(segment, &again, &third, &late, None);
        assert_eq!(kind_of(&refused.unwrap_err()), "SegmentChanged", "it is being removed, or gone");
    }
    assert_eq!(store.segment(segment).unwrap(), Some(again.clone()));
    // Forgotten.
    let dropped = |retained, fence| store.drop_generation(going(segment, &other), retained, fence);
    assert_eq!(kind_of(&dropped(&other, None).unwrap_err()), "SegmentChanged", "it is marked");
    assert_eq!(kind_of(&dropped(&marked, Some(&fence)).unwrap_err()), "Fenced");
    assert_eq!(kind_of(&store.drop_generation(dead(segment), &marked, None).unwrap_err()), "Invalid");
    assert_eq!(kind_of(&store.drop_segment(going(segment, &other), &again, None).unwrap_err()), "Invalid");
    dropped(&marked, None).unwrap();
    assert_eq!(store.unreferenced(None, 10).unwrap(), []);
    assert_clean(&store);
}

#[test]
fn marks_of_damage() {
    let (store, _) = volume();
    let file = make(&store, Ino::ROOT, "file", Kind::File);
    for number in 1..=3_u32 {
        write(&store, file, u64::from(number) * 100, 50, u128::from(number));
        store.mark_damaged(segment_id(u128::from(number))).unwrap();
    }
    store.mark_damaged(segment_id(99)).unwrap();
    assert_eq!(store.damaged(None, 10).unwrap(), [segment_id(1), segment_id(2), segment_id(3)]);
    assert_eq!(store.damaged(Some(segment_id(1)), 1).unwrap(), [segment_id(2)]);
    let mut short = segment_record(10);
    short.shards[5] = None;
    let commit = file_commit(&store.attributes(file).unwrap(), vec![extent(900, 10, segment_id(4), 0)]);
    store.commit_files(&[(segment_id(4), short)], &[commit], at(1)).unwrap();
    assert_eq!(store.damaged(Some(segment_id(3)), 10).unwrap(), [segment_id(4)]);
    assert_clean(&store);
}

#[test]
fn listings_go_page_by_page() {
    let (store, _) = volume();
    let file = make(&store, Ino::ROOT, "file", Kind::File);
    for number in 1..=5_u32 {
        write(&store, file, u64::from(number) * 100, 10 + u64::from(number), u128::from(number));
    }
    let ids = |segments: Vec<(SegmentId, SegmentRecord)>| segments.into_iter().map(|(id, _)| id).collect::<Vec<_>>();
    assert_eq!(ids(store.segments(None, 2).unwrap()), [segment_id(1), segment_id(2)]);
    assert_eq!(ids(store.segments(Some(segment_id(4)), 2).unwrap()), [segment_id(5)]);
    assert_eq!(store.segments_by_live(Some(segment_id(3)), 9).unwrap(), [(segment_id(4), 14), (segment_id(5), 15)]);
    assert_eq!(store.segments_on_node(node_id(1), Some(segment_id(4)), 9).unwrap(), [segment_id(5)]);
    assert_eq!(store.segments_on_node(node_id(9), None, 9).unwrap(), []);
}

/// More segments than are read at once, some dead, some marked: page by page, it is what is answered of each.
#[test]
fn a_survey_has_what_is_asked_of_each_segment() {
    let (store, _) = volume();
    let file = make(&store, Ino::ROOT, "file", Kind::File);
    let segments = READ_PAIRS as u32 + 100;
    for number in 1..=segments {
        // Every fifth write covers the one before.
        let place = if number % 5 == 0 { number - 1 } else { number };
        write(&store, file, u64::from(place) * 100, 10 + u64::from(number % 7), u128::from(number));
        if number % 11 == 0 {
            store.mark_damaged(segment_id(u128::from(number))).unwrap();
        }
    }
    let each = |(segment, record): (SegmentId, SegmentRecord)| SurveyedSegment {
        segment,
        record,
        live_bytes: store.live_bytes(segment).unwrap(),
        damage: store.damage(segment).unwrap(),
    };
    let expected: Vec<_> = store.segments(None, usize::MAX).unwrap().into_iter().map(each).collect();
    assert!(expected.len() == segments as usize && expected.iter().any(|found| found.live_bytes == 0));
    for limit in [1, 7, 512, READ_PAIRS, READ_PAIRS + 1, usize::MAX] {
        let mut found = Vec::new();
        loop {
            let page = store.survey_segments(found.last().map(|last: &SurveyedSegment| last.segment), limit).unwrap();
            if page.is_empty() {
                break;
            }
            assert!(page.len() <= limit);
            found.extend(page);
        }
        assert_eq!(found, expected, "pages of {limit}");
    }
}

#[test]
fn jobs_keep_their_state() {
    let (store, _) = volume();
    assert_eq!(store.job("scrub").unwrap(), None);
    store.set_job("scrub", Some(b"half")).unwrap();
    assert_eq!(store.job("scrub").unwrap(), Some(b"half".to_vec()));
    assert_eq!(store.job("scru").unwrap(), None);
    assert_eq!(kind_of(&store.set_job("big", Some(&vec![0; 65537])).unwrap_err()), "Invalid");
    assert!(!store.replace_job("scrub", None, b"lost").unwrap(), "another has noted something");
    assert!(store.replace_job("scrub", Some(b"half"), b"more").unwrap());
    assert_eq!(store.job("scrub").unwrap().unwrap(), b"more");
    store.set_job("scrub", None).unwrap();
    store.set_job("scrub", None).unwrap();
    assert_eq!(store.job("scrub").unwrap(), None);
    assert_clean(&store);
}

/// What care does beside an owner: an engine that would refuse it every table of the owner's.
#[test]
fn care_writes_shared_tables_only() {
    let (store, kv) = volume();
    let file = make(&store, Ino::ROOT, "file", Kind::File);
    write(&store, file, 0, 1000, 1);
    write(&store, file, 0, 1000, 2);
    kv.shared_only();
    let (segment, old) = (segment_id(1), segment_record(1000));
    let mut new = old.clone();
    new.shards[2] = None;
    store.replace_segment(segment, &old, &new, &Succession::default(), None).unwrap();
    store.mark_damaged(segment).unwrap();
    clear_damage(&store, segment);
    store.drop_segment(dead(segment), &new, None).unwrap();
    store.set_job("x", Some(b"y")).unwrap();
    store.add_node(node_id(8), &node_record(8)).unwrap();
    let leaving = NodeRecord { state: NodeState::Draining, ..node_record(9) };
    store.update_node(node_id(8), &node_record(8), &leaving).unwrap();
    assert!(store.remove_node(node_id(8), true).unwrap());
    assert_clean(&store);
}
