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
    let on = |nodes: &[u128]| nodes.iter().map(|node| (NodeId(*node), 1)).collect();
    let here = SegmentSum { on_node: on(&[1, 2]), ..whole.clone() };
    assert_eq!(SegmentSum::of(&short), here, "a shard that is missing is to be stored, and is on no node");
    assert_eq!((whole.segment_count, whole.data_bytes, whole.doubled_count), (1, 10_000, 0));
    assert_eq!(whole.on_node, on(&[1, 2, 3]));
    let doubled = SegmentSum::of(&segment("rs:2+1", &[1, 2, 1], 10_000));
    assert_eq!(doubled, SegmentSum { doubled_count: 1, ..here });
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
        for node in (0..4).map(NodeId) {
            let of_node: i64 = forwards.by_code().filter_map(|(_, sum)| sum.on_node.get(&node)).sum();
            let has = |record: &&SegmentRecord| record.nodes().any(|own| own == node);
            prop_assert_eq!(of_node, added.iter().chain(&other).filter(has).count() as i64);
        }

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
    let one = Message::decode(&sums.encode()[..]).expect("it is one");
    let is_damaged =
        |message: Message| matches!(SumsRecord::decode(&message.encode_to_vec()), Err(RecordError::Damaged { .. }));
    let with = |change: &dyn Fn(&mut Message)| {
        let mut message = one.clone();
        change(&mut message);
        message
    };
    assert_eq!(SumsRecord::decode(&with(&|_| {}).encode_to_vec()), Ok(sums.clone()));
    let nothing = SumMessage { code: "rs:3+1".into(), on_node: vec![0; 3], ..SumMessage::default() };
    for (what, changed) in [
        ("one code comes twice", with(&|message| message.sums.extend_from_within(..))),
        ("a sum is nothing", with(&|message| message.sums.push(nothing.clone()))),
        ("it is no code", with(&|message| message.sums[0].code.clear())),
        ("a node's id is cut", with(&|message| message.nodes.truncate(40))),
        ("a node more", with(&|message| message.nodes.extend([9; 16]))),
        ("a number more", with(&|message| message.sums[0].on_node.push(1))),
        ("a number less", with(&|message| message.sums[0].on_node.truncate(2))),
        ("nothing is on a node", with(&|message| message.sums[0].on_node[1] = 0)),
        ("one node comes twice", with(&|message| message.nodes.copy_within(..16, 16))),
        ("nodes are out of order", with(&|message| message.nodes.rotate_left(16))),
    ] {
        assert!(is_damaged(changed), "{what}");
    }
    for version in [1, 3] {
        let other = Message { version, ..one.clone() }.encode_to_vec();
        assert_eq!(
            SumsRecord::decode(&other),
            Err(RecordError::UnknownVersion { what: "sums", version, newest: 2 }),
            "one of version 1 has no nodes"
        );
    }
    let most = SumsRecord::decode(&with(&|message| message.sums[0].segment_count = i64::MAX).encode_to_vec());
    assert_eq!(most.expect("it is one").plus(&sums), None, "it counts more than there can be");
    let most = SumsRecord::decode(&with(&|message| message.sums[0].on_node[2] = i64::MAX).encode_to_vec());
    assert_eq!(most.expect("it is one").plus(&sums), None, "more segments than there can be are on a node");
}

/// Each commit writes what it changes, and an engine may write all sums.
#[test]
fn sums_of_wide_codes_on_many_nodes_are_short() {
    let nodes: Vec<u128> = (0..200).map(|node| node << 64 | 7).collect();
    let mut sums = SumsRecord::default();
    for code in ["rs:100+100", "rs:4+2", "replica:3"] {
        (0..100_000).step_by(7919).for_each(|bytes| sums.add(&segment(code, &nodes, bytes + 1)));
    }
    assert!(sums.encode().len() < 4096, "{}", sums.encode().len());
    let mut one = SumsRecord::default();
    one.add(&segment("rs:4+2", &nodes[..6], 1 << 20));
    assert!(one.encode().len() < 140, "{}", one.encode().len());
}
