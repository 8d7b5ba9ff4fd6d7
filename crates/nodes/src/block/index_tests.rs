use super::*;
use weft_format::{Generation, SegmentId, ShardIndex};

fn key(number: u128) -> ShardKey {
    ShardKey { segment: SegmentId(number), generation: Generation(0), index: ShardIndex(0) }
}

fn part(number: u128, put: u64, part: u32, parts: u32) -> Entry {
    Entry::Part(Part { key: key(number), part, parts, bytes: 7, modified_ms: 1, put })
}

#[test]
fn a_shard_is_there_when_all_its_parts_are() {
    let mut index = Index::new(4);
    index.apply(2, part(1, 5, 1, 2));
    assert_eq!(index.find(key(1)), None);
    index.apply(0, part(1, 5, 0, 2));
    assert_eq!(index.find(key(1)).map(|shard| shard.slots), Some(vec![0, 2]), "in the order of its bytes");
    assert_eq!((index.free_count(), index.keys_after(None, 9)), (2, (vec![key(1)], false)));
    index.apply(2, Entry::Free);
    assert_eq!((index.find(key(1)), index.free_count()), (None, 3));
    assert_eq!(index.next_put(), 6, "numbers go on after the largest seen");
}

#[test]
fn what_was_cut_off_is_free_and_comes_to_nothing() {
    let mut index = Index::new(3);
    index.apply(0, part(1, 8, 0, 2));
    index.apply(1, part(2, 9, 0, 1));
    index.drop_incomplete();
    assert_eq!((index.free_count(), index.find(key(1)), index.find(key(2)).is_some()), (2, None, true));
    assert_eq!(index.next_put(), 10);
}

#[test]
fn parts_that_contradict_one_another_are_damage() {
    let mut index = Index::new(5);
    index.apply(0, part(1, 8, 0, 2));
    index.apply(1, part(1, 8, 0, 2));
    index.apply(2, part(2, 8, 1, 2));
    index.apply(3, part(3, 9, 2, 2));
    assert_eq!(index.damaged().collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(index.free_count(), 1);
}

#[test]
fn free_slots_are_taken_once_and_come_back() {
    let mut index = Index::new(4);
    index.apply(1, part(1, 1, 0, 1));
    assert_eq!(index.take(4), None);
    let taken = index.take(2).expect("three are free");
    assert_eq!((taken.as_slice(), index.free_count()), (&[0, 2][..], 1));
    index.give_back(&taken);
    index.give_back(&taken);
    assert_eq!(index.free_count(), 3);
    assert_eq!(index.take(3), Some(vec![3, 0, 2]), "the search goes on where it was");
    index.apply(1, Entry::Free);
    index.hold(1);
    assert_eq!(index.take(1), None, "a held slot is not free");
    index.give_back(&[1]);
    assert_eq!(index.take(1), Some(vec![1]));
}
