use super::*;
use weft_format::geometry::Geometry;
use weft_format::records::ShardLocation;
use weft_format::shard::Digest;
use weft_format::{Generation, SegmentId, ShardIndex};

fn key(created_ms: u64, generation: u32, index: u16) -> ShardKey {
    let segment = SegmentId::new(created_ms, 7);
    ShardKey { segment, generation: Generation(generation), index: ShardIndex(index) }
}

#[test]
fn both_ages_must_be_past_the_grace_time() {
    let old = key(100, 0, 0);
    assert!(is_old(old, 300, 50, 350));
    assert!(!is_old(old, 300, 50, 349), "stored too lately: a repair of an old segment");
    assert!(!is_old(key(500, 0, 0), 0, 50, 549), "the segment is too young");
    assert!(is_old(old, 350, 0, 350), "no grace asked");
    assert!(!is_old(old, u64::MAX, 1, u64::MAX), "a clock gone mad");
    assert!(!is_old(old, 10_000, 0, 9_999), "stored in the future: the clock jumped back");
}

#[test]
fn named_means_this_generation_of_this_shard_at_this_node() {
    let location = |node| {
        Some(ShardLocation { node: NodeId(node), generation: Generation(2), digest: Digest([0; 32]), origin: None })
    };
    let record = SegmentRecord {
        code: "replica:3".into(),
        geometry: Geometry::new(10, 1, 1, 1, 4096).expect("a geometry"),
        generation: Generation(2),
        shards: vec![location(1), None, location(3)],
    };
    assert!(is_named(Some(&record), NodeId(1), key(0, 2, 0)));
    assert!(!is_named(Some(&record), NodeId(2), key(0, 2, 0)), "another node");
    assert!(!is_named(Some(&record), NodeId(1), key(0, 1, 0)), "an older generation");
    assert!(!is_named(Some(&record), NodeId(1), key(0, 2, 1)), "a shard given up");
    assert!(!is_named(Some(&record), NodeId(1), key(0, 2, 9)), "no such shard");
    assert!(!is_named(None, NodeId(1), key(0, 2, 0)));
}
