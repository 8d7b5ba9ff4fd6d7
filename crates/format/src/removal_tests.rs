use super::*;
use crate::geometry::Geometry;
use crate::ids::ShardIndex;
use crate::records::{Origin, ShardLocation};
use crate::shard::Digest;

const NODE: NodeId = NodeId(1);
const SEGMENT: SegmentId = SegmentId(7);
const KEEP_MS: u64 = 3 * GRACE_MS;

fn shard(number: u32) -> ShardKey {
    ShardKey { segment: SEGMENT, generation: Generation(number), index: ShardIndex(0) }
}

fn file(is_room_short: bool) -> Candidate {
    Candidate::File { deleted_ms: 5, ino: Ino(9), keep_ms: KEEP_MS, is_room_short }
}

fn generation(keep_ms: u64, is_going: bool) -> Candidate {
    Candidate::Generation { segment: SEGMENT, generation: Generation(1), keep_ms, is_going }
}

fn unnamed(fate: Fate) -> Candidate {
    Candidate::Shard { node: NODE, key: shard(1), is_named: false, fate, may_be_a_repairs: false }
}

fn object(why: Needless) -> Candidate {
    Candidate::Object { node: NODE, key: shard(1), why, keep_ms: KEEP_MS }
}

#[test]
fn an_object_s_version_goes_only_where_it_was_seen_needless_for_long_enough() {
    for why in [Needless::GivenUp, Needless::Superseded, Needless::Copy, Needless::Replaced] {
        assert_eq!(may_remove(object(why), Evidence::Beside { seen_ms: KEEP_MS - 1 }), Verdict::Wait);
        assert!(matches!(may_remove(object(why), Evidence::Beside { seen_ms: KEEP_MS }), Verdict::Remove(_)));
        for by in [Evidence::Owner { seen_ms: u64::MAX }, Evidence::Word, Evidence::Author] {
            assert_eq!(may_remove(object(why), by), Verdict::Keep, "{by:?}");
        }
    }
    assert_eq!(may_remove(object(Needless::No), Evidence::Beside { seen_ms: u64::MAX }), Verdict::Keep);
}

const INODE: Candidate = Candidate::Inode { ino: Ino(9), is_in_use: false };
const DEAD: Candidate = Candidate::Segment { segment: SEGMENT, live_bytes: 0 };

/// From how many milliseconds on it may go, by evidence that is made of them; `None`: never.
fn grace(candidate: Candidate, by: impl Fn(u64) -> Evidence) -> Option<u64> {
    let goes = |ms| matches!(may_remove(candidate, by(ms)), Verdict::Remove(_) | Verdict::Mark(_));
    let known = [0, 1, 77, OWNER_GRACE_MS, GRACE_MS, KEEP_MS, RESTORABLE_MS];
    for ms in known {
        if goes(ms) {
            assert!(ms == 0 || !goes(ms - 1), "{candidate:?}");
            return Some(ms);
        }
    }
    assert!(!goes(u64::MAX), "{candidate:?}");
    None
}

/// The table, cell by cell: by the owner, beside others, alone with a grace of 77 ms, by somebody's word, by the author.
#[test]
fn the_table_of_grace_times() {
    let never = None;
    let cells = |candidate| {
        [
            grace(candidate, |seen_ms| Evidence::Owner { seen_ms }),
            grace(candidate, |seen_ms| Evidence::Beside { seen_ms }),
            grace(candidate, |age_ms| Evidence::Alone { age_ms: Some(age_ms), grace_ms: 77 }),
            grace(candidate, |_| Evidence::Word),
            grace(candidate, |_| Evidence::Author),
        ]
    };
    assert_eq!(cells(file(false)), [Some(KEEP_MS), never, never, Some(0), never]);
    assert_eq!(cells(file(true)), [Some(0), never, never, Some(0), never]);
    assert_eq!(cells(INODE), [Some(0), never, never, never, never]);
    assert_eq!(cells(DEAD), [Some(OWNER_GRACE_MS), Some(GRACE_MS), Some(77), never, never]);
    assert_eq!(cells(generation(KEEP_MS, false)), [never, Some(KEEP_MS), Some(KEEP_MS), never, never]);
    assert_eq!(cells(generation(0, false)), [never, Some(GRACE_MS), Some(77), never, never]);
    assert_eq!(cells(generation(KEEP_MS, true)), [never, Some(0), Some(0), never, never], "what was begun is ended");
    assert_eq!(cells(unnamed(Fate::Over)), [never, Some(GRACE_MS), Some(77), never, Some(0)]);
    assert_eq!(cells(unnamed(Fate::Open)), [never, never, never, never, Some(0)], "its author alone gives it up");
    assert_eq!(cells(unnamed(Fate::Unknown)), [never, never, never, never, Some(0)]);
}

#[test]
fn what_is_needed_goes_by_nobodys_evidence() {
    let needed = [
        Candidate::Inode { ino: Ino(9), is_in_use: true },
        Candidate::Segment { segment: SEGMENT, live_bytes: 1 },
        Candidate::Shard { node: NODE, key: shard(1), is_named: true, fate: Fate::Over, may_be_a_repairs: false },
    ];
    let all = [
        Evidence::Owner { seen_ms: u64::MAX },
        Evidence::Beside { seen_ms: u64::MAX },
        Evidence::Alone { age_ms: Some(u64::MAX), grace_ms: 0 },
        Evidence::Word,
        Evidence::Author,
    ];
    for (candidate, by) in needed.into_iter().flat_map(|candidate| all.map(|by| (candidate, by))) {
        assert_eq!(may_remove(candidate, by), Verdict::Keep, "{candidate:?} {by:?}");
    }
}

#[test]
fn what_can_be_restored_is_marked_first_and_what_nobody_knows_is_told_apart() {
    let late = Evidence::Beside { seen_ms: u64::MAX };
    assert_eq!(may_remove(generation(0, false), late), Verdict::Mark(Expired(generation(0, false).item())));
    assert_eq!(may_remove(generation(0, true), late), Verdict::Remove(Removable(generation(0, true).item())));
    assert_eq!(may_remove(file(false), Evidence::Word), Verdict::Mark(Expired(file(false).item())));
    assert_eq!(may_remove(unnamed(Fate::Unknown), late), Verdict::Unknown);
    assert_eq!(may_remove(unnamed(Fate::Open), late), Verdict::Wait);
    let of_a_repair =
        Candidate::Shard { node: NODE, key: shard(1), is_named: false, fate: Fate::Over, may_be_a_repairs: true };
    assert_eq!(may_remove(of_a_repair, late), Verdict::Wait);
}

#[test]
fn a_time_to_come_is_no_age() {
    let dead_since = |since_ms| may_remove(DEAD, Evidence::alone(since_ms, 1000, 0));
    assert!(matches!(dead_since(1000), Verdict::Remove(_)));
    assert_eq!(dead_since(1001), Verdict::Wait);
    let begun = may_remove(generation(0, true), Evidence::alone(1001, 1000, 0));
    assert!(matches!(begun, Verdict::Remove(_)), "what was begun is brought to its end");
}

fn record(shards: &[(u128, ShardKey)]) -> SegmentRecord {
    let shards = shards.iter().map(|(node, key)| {
        let origin = (key.segment != SEGMENT).then_some(Origin { segment: key.segment, index: key.index });
        Some(ShardLocation { node: NodeId(*node), generation: key.generation, digest: Digest([0; 32]), origin })
    });
    SegmentRecord {
        code: "replica:1".into(),
        geometry: Geometry::new(10, 1, 1, 1, 4096).expect("a geometry"),
        generation: Generation(1),
        shards: shards.collect(),
    }
}

#[test]
fn with_a_segment_go_the_shards_that_are_its_own_and_with_a_generation_those_that_are_not_named_now() {
    let named = |shards: Result<Vec<Removable>, ()>| -> Vec<Item> {
        shards.expect("they are known").into_iter().map(|shard| shard.item()).collect()
    };
    let own = |key: ShardKey| Ok(key.segment);
    let key = ShardKey { index: ShardIndex(0), ..shard(1) };
    let of_segment = record(&[(1, key)]);
    let Verdict::Remove(dead) = may_remove(DEAD, Evidence::Owner { seen_ms: u64::MAX }) else { panic!("it is dead") };
    assert_eq!(named(dead.shards(&of_segment, None, own)), [Item::Shard(NODE, key)]);
    assert_eq!(named(dead.shards(&of_segment, None, |_| Ok(SegmentId(8)))), [], "another one has taken it over");
    // Taken over from another segment.
    let alias = ShardKey { segment: SegmentId(3), ..key };
    let merged = record(&[(1, alias)]);
    assert_eq!(named(dead.shards(&merged, None, |_| Ok(SEGMENT))), [Item::Shard(NODE, alias)]);
    assert_eq!(named(dead.shards(&merged, None, own)), [], "it is that one's again");
    let Verdict::Remove(going) = may_remove(generation(0, true), Evidence::Beside { seen_ms: 0 }) else {
        panic!("it is going")
    };
    assert_eq!(named(going.shards(&of_segment, Some(&of_segment), own)), []);
    let elsewhere = record(&[(2, key)]);
    assert_eq!(named(going.shards(&of_segment, Some(&elsewhere), own)), [Item::Shard(NODE, key)]);
    assert!(dead.shards(&of_segment, None, |_| Err(())).is_err());
}
