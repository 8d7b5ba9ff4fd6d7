use super::*;
use crate::catalogue::memory::MemoryCatalogue;
use weft_format::geometry::Geometry;
use weft_format::records::ShardLocation;
use weft_format::shard::Digest;
use weft_format::{Generation, SegmentId, ShardIndex};

fn key(created_ms: u64, generation: u32, index: u16) -> ShardKey {
    let segment = SegmentId::new(created_ms, 7);
    ShardKey { segment, generation: Generation(generation), index: ShardIndex(index) }
}

#[test]
fn every_age_must_be_past_the_grace_time() {
    let old = key(100, 0, 0);
    assert!(is_ripe(old, 200, 300, 50, 350));
    assert!(!is_ripe(old, 200, 300, 50, 349), "seen too lately");
    assert!(!is_ripe(old, 400, 300, 50, 449), "stored too lately: a repair of an old segment");
    assert!(!is_ripe(key(500, 0, 0), 0, 0, 50, 549), "the segment is too young");
    assert!(is_ripe(old, 0, 350, 0, 350), "no grace asked");
    assert!(!is_ripe(old, u64::MAX, 0, 1, u64::MAX), "a clock gone mad");
    assert!(!is_ripe(old, 10_000, 0, 0, 9_999), "stored in the future: the clock jumped back");
}

#[test]
fn named_means_this_generation_of_this_shard_at_this_node() {
    let location =
        |node| Some(ShardLocation { node: NodeId(node), generation: Generation(2), digest: Digest([0; 32]) });
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

#[test]
fn first_sights_outlive_the_run_in_notes_of_bounded_size() {
    let catalogue = MemoryCatalogue::default();
    let node = NodeId(1);
    let many: FirstSeen = (0..1234u64).map(|i| (key(i, u32::MAX, u16::MAX), u64::MAX - i)).collect();
    store(&catalogue, node, &many).expect("stored");
    assert_eq!(load(&catalogue, node), Ok(many));
    for number in 0..3 {
        let bytes = catalogue.job(&note_name(node, number)).expect("read").expect("a note");
        assert!(bytes.len() < 64 << 10, "{}", bytes.len());
    }
    let few: FirstSeen = [(key(1, 0, 0), 5)].into();
    store(&catalogue, node, &few).expect("stored");
    assert_eq!(load(&catalogue, node), Ok(few));
    assert_eq!(load(&catalogue, NodeId(2)), Ok(FirstSeen::new()));
}

#[test]
fn golden_note() {
    let catalogue = MemoryCatalogue::default();
    store(&catalogue, NodeId(1), &[(key(1, 2, 3), 5)].into()).expect("stored");
    let bytes = catalogue.job(&note_name(NodeId(1), 0)).expect("read").expect("a note");
    let golden = r#"{"version":1,"first_seen_ms":[["00000000000100000000000000000007.2.3",5]]}"#;
    assert_eq!(String::from_utf8_lossy(&bytes), golden);
}

#[test]
fn a_note_that_cannot_be_used_means_seen_for_the_first_time() {
    let catalogue = MemoryCatalogue::default();
    for bytes in [&b"\xff"[..], b"{}", br#"{"version":2,"first_seen_ms":[]}"#] {
        catalogue.set_job(&note_name(NodeId(1), 0), Some(bytes)).expect("set");
        assert_eq!(load(&catalogue, NodeId(1)), Ok(FirstSeen::new()));
    }
}
