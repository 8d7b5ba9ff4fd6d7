use super::*;
use weft_format::{Generation, SegmentId, ShardIndex};

fn key(created_ms: u64, generation: u32, index: u16) -> ShardKey {
    let segment = SegmentId::new(created_ms, 7);
    ShardKey { segment, generation: Generation(generation), index: ShardIndex(index) }
}

#[test]
fn both_ages_must_be_past_the_grace_time() {
    let node = NodeId(1);
    let is_old = |key: ShardKey, modified_ms, grace_ms, now_ms| {
        let (fate, may_be_a_repairs) = (Fate::Over, false);
        let candidate = Candidate::Shard { node, key, is_named: false, fate, may_be_a_repairs };
        let by = Evidence::alone(youngest_ms(key, modified_ms), now_ms, grace_ms);
        matches!(may_remove(candidate, by), Verdict::Remove(_))
    };
    let old = key(100, 0, 0);
    assert!(is_old(old, 300, 50, 350));
    assert!(!is_old(old, 300, 50, 349), "stored too lately: a repair of an old segment");
    assert!(!is_old(key(500, 0, 0), 0, 50, 549), "the segment is too young");
    assert!(is_old(old, 350, 0, 350), "no grace asked");
    assert!(!is_old(old, u64::MAX, 1, u64::MAX), "a clock gone mad");
    assert!(!is_old(old, 10_000, 0, 9_999), "stored in the future: the clock jumped back");
}
