use super::*;
use crate::geometry::Geometry;
use crate::records::ShardLocation;
use crate::shard::Digest;
use crate::{Generation, NodeId};
use proptest::prelude::*;

fn segment(code: &str, nodes: &[u128], data_bytes: u64) -> SegmentRecord {
    let shard = |node: &u128| {
        Some(ShardLocation { node: NodeId(*node), generation: Generation(0), digest: Digest([0; 32]), origin: None })
    };
    SegmentRecord {
        code: code.into(),
        geometry: Geometry::new(data_bytes, 2, 1, 1, 4096).expect("it is one"),
        generation: Generation(0),
        shards: nodes.iter().map(shard).collect(),
    }
}

#[test]
fn a_segment_counts_by_what_its_code_stores() {
    let whole = SegmentSum::of(&segment("rs:2+1", &[1, 2, 3], 10_000));
    let mut short = segment("rs:2+1", &[1, 2, 3], 10_000);
    short.shards[2] = None;
    assert_eq!(SegmentSum::of(&short), whole, "a shard that is missing is to be stored");
    assert_eq!((whole.segment_count, whole.data_bytes, whole.doubled_count), (1, 10_000, 0));
    let doubled = SegmentSum::of(&segment("rs:2+1", &[1, 2, 1], 10_000));
    assert_eq!(doubled, SegmentSum { doubled_count: 1, ..whole });
}

/// Some records, some of which are equal.
fn records() -> impl Strategy<Value = Vec<SegmentRecord>> {
    let code = prop_oneof![Just("rs:2+1"), Just("rs:2+2"), Just("xor:2+1")];
    let record = (code, prop::collection::vec(0..4_u128, 3), 1..5_u64)
        .prop_map(|(code, nodes, kib)| segment(code, &nodes, kib << 10));
    prop::collection::vec(record, 0..20)
}

proptest! {
    #[test]
    fn sums_add_up_in_any_order(added in records(), other in records()) {
        let mut forwards = SumsRecord::default();
        added.iter().chain(&other).for_each(|record| forwards.add(record));
        let [mut one, mut two] = [SumsRecord::default(), SumsRecord::default()];
        other.iter().rev().for_each(|record| one.add(record));
        added.iter().rev().for_each(|record| two.add(record));
        prop_assert_eq!(one.plus(&two), Some(forwards.clone()));
        prop_assert_eq!(two.plus(&one), Some(forwards.clone()));
        let of_segments: i64 = forwards.by_code().map(|(_, sum)| sum.segment_count).sum();
        prop_assert_eq!(of_segments, (added.len() + other.len()) as i64);

        // What is taken away again leaves what there was, and in the end nothing.
        let mut changes = SumsRecord::default();
        added.iter().for_each(|record| changes.subtract(record));
        prop_assert_eq!(SumsRecord::decode(&changes.encode()), Ok(changes.clone()));
        prop_assert_eq!(forwards.plus(&changes), Some(one.clone()));
        other.iter().for_each(|record| one.subtract(record));
        prop_assert!(one.is_empty());
    }
}

#[test]
fn what_is_no_sum_is_refused() {
    let mut sums = SumsRecord::default();
    sums.add(&segment("rs:2+1", &[1, 2, 3], 10));
    let one = sums.encode();
    // The first field is the version, two bytes.
    let twice = [&one[..], &one[2..]].concat();
    assert!(matches!(SumsRecord::decode(&twice), Err(RecordError::Damaged { .. })), "one code comes twice");
    let nothing =
        Message { version: VERSION, sums: vec![SumMessage { code: "rs:2+1".into(), ..SumMessage::default() }] };
    assert!(matches!(SumsRecord::decode(&nothing.encode_to_vec()), Err(RecordError::Damaged { .. })));
    let nameless = Message { version: VERSION, sums: vec![SumMessage { segment_count: 1, ..SumMessage::default() }] };
    assert!(matches!(SumsRecord::decode(&nameless.encode_to_vec()), Err(RecordError::Damaged { .. })));
    let newer = Message { version: 2, sums: Vec::new() };
    assert!(matches!(SumsRecord::decode(&newer.encode_to_vec()), Err(RecordError::UnknownVersion { version: 2, .. })));
    let most = Message {
        version: VERSION,
        sums: vec![SumMessage { code: "rs:2+1".into(), segment_count: i64::MAX, ..SumMessage::default() }],
    };
    let most = SumsRecord::decode(&most.encode_to_vec()).expect("it is one");
    assert_eq!(most.plus(&sums), None, "it counts more than there can be");
}
