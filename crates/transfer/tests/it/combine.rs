//! Rebuilding over nodes that combine: what they send is what the theory says, and what they say is not believed blindly.

use crate::house::{House, bytes, every, key, segment};
use std::sync::Arc;
use weft_format::ShardIndex;
use weft_nodes::wrappers::{Fault, Operation};
use weft_nodes::{Node, NodeErrorKind};
use weft_transfer::{RebuildError, Rebuilt, ShardHealth, SuspectKind};

const LENGTH: usize = 5_000_000;

async fn rebuild(house: &House, record: &Arc<weft_format::records::SegmentRecord>, lost: usize) -> Rebuilt {
    let lost = ShardIndex(lost as u16);
    let rebuilt = house.transfer.rebuild(segment(0), record, &[lost]).await.unwrap();
    let digest = |record: &weft_format::records::SegmentRecord| record.shards[lost.as_usize()].as_ref().unwrap().digest;
    assert_eq!(digest(&rebuilt.record), digest(record), "the same bytes");
    let (index, node) = rebuilt.placed[0];
    house.node(node).memory.remove(key(segment(0), &rebuilt.record, index.as_usize())).await.unwrap();
    rebuilt
}

/// Symbols that helpers send for a lost shard (Rashmi, Shah, Kumar 2011; Hou et al. 2016): `d`, each `1/alpha` of a shard.
#[tokio::test]
async fn regenerating_codes_send_one_symbol_a_helper() {
    for (code, helpers) in [("msr:4+4,d=7", 7), ("msr:4+3,d=6", 6), ("mbr:4+4,d=5", 5), ("mbr:3+4,d=4", 4)] {
        let shape = weft_codes::parse(code).unwrap().shape().clone();
        let house = House::that_combines(shape.n + 1);
        let record = house.write(segment(0), code, &bytes(LENGTH, 4)).await;
        let payload_bytes = record.geometry.payload_bytes();
        for lost in 0..shape.n {
            let rebuilt = rebuild(&house, &record, lost).await;
            assert_eq!(rebuilt.bytes_read, helpers * payload_bytes / shape.alpha as u64, "{code} shard {lost}");
            assert!(rebuilt.bytes_read_by_nodes >= rebuilt.bytes_read && rebuilt.also_lost.is_empty());
        }
    }
}

#[tokio::test]
async fn every_family_sends_no_more_than_its_plan_takes_and_no_more_than_without() {
    for family in weft_codes::families() {
        let shape = weft_codes::parse(family.example).unwrap().shape().clone();
        let (plain, combining) = (House::new(shape.n), House::that_combines(shape.n));
        let data = bytes(700_001, 4);
        let record = plain.write(segment(0), family.example, &data).await;
        assert_eq!(combining.write(segment(0), family.example, &data).await, record);
        for lost in 0..shape.n {
            let (plainly, combined) = (rebuild(&plain, &record, lost).await, rebuild(&combining, &record, lost).await);
            let (before, now) = (plainly.bytes_read, combined.bytes_read);
            assert!(now <= before, "{} shard {lost}: {now} where plainly {before}", family.example);
        }
    }
}

#[tokio::test]
async fn two_lost_shards_are_rebuilt_by_combinations_too() {
    let house = House::that_combines(10);
    let record = house.write(segment(0), "msr:4+4,d=6", &bytes(LENGTH, 4)).await;
    let rebuilt = house.transfer.rebuild(segment(0), &record, &[ShardIndex(1), ShardIndex(6)]).await.unwrap();
    let digests = |record: &weft_format::records::SegmentRecord| {
        record.shards.iter().flatten().map(|shard| shard.digest).collect::<Vec<_>>()
    };
    assert_eq!(digests(&rebuilt.record), digests(&record));
}

#[tokio::test]
async fn a_node_that_lies_is_seen_and_named_and_nothing_of_it_is_stored() {
    for fault in [Fault::FlipBit { bit: 77_777 }, Fault::FlipBit { bit: 0 }] {
        let house = House::that_combines(9);
        let record = house.write(segment(0), "msr:4+4,d=7", &bytes(LENGTH, 4)).await;
        house.node_of(&record, 2).fault.set_script(every(Operation::Combine, fault));
        let rebuilt = rebuild(&house, &record, 7).await;
        assert_eq!(rebuilt.also_lost.len(), 1);
        assert_eq!((rebuilt.also_lost[0].index, rebuilt.also_lost[0].kind), (ShardIndex(2), SuspectKind::Combination));
        assert!(!rebuilt.also_lost[0].kind.is_loss(), "its shard is well");
    }
}

/// It was asked again for every segment, and each cost a rebuild in vain and a comparison with all helpers' frames.
#[tokio::test]
async fn a_node_that_was_found_out_is_only_read_for_a_while() {
    let house = House::that_combines(9);
    let record = house.write(segment(0), "msr:4+4,d=7", &bytes(LENGTH, 4)).await;
    house.node_of(&record, 2).fault.set_script(every(Operation::Combine, Fault::FlipBit { bit: 0 }));
    assert_eq!(rebuild(&house, &record, 7).await.also_lost.len(), 1);
    for lost in [7, 5] {
        let rebuilt = rebuild(&house, &record, lost).await;
        assert_eq!(rebuilt.also_lost, [], "shard {lost}");
        // A plan of the other helpers' combinations, or of plain frames: never both.
        assert!(rebuilt.bytes_read <= 4 * record.shard_bytes(), "shard {lost}: {} bytes", rebuilt.bytes_read);
    }
}

#[tokio::test]
async fn a_node_that_does_not_combine_after_all_is_read_or_done_without() {
    let house = House::that_combines(9);
    let record = house.write(segment(0), "msr:4+4,d=7", &bytes(LENGTH, 4)).await;
    for (fault, suspects) in [
        (Fault::Fail(NodeErrorKind::Unsupported), 0),
        (Fault::Fail(NodeErrorKind::Io), 0),
        (Fault::Fail(NodeErrorKind::Busy), 0),
        (Fault::Short { bytes: 1 }, 0),
        (Fault::Fail(NodeErrorKind::Unavailable), 1),
        (Fault::Fail(NodeErrorKind::NotFound), 1),
    ] {
        house.node_of(&record, 2).fault.set_script(every(Operation::Combine, fault));
        let rebuilt = rebuild(&house, &record, 7).await;
        assert_eq!(rebuilt.also_lost.len(), suspects, "{fault:?}");
        house.heal();
        house.transfer.fleet().refresh_space().await;
    }
}

#[tokio::test]
async fn damage_at_a_helper_is_reported_by_the_helper() {
    let house = House::that_combines(9);
    let record = house.write(segment(0), "mbr:4+4,d=5", &bytes(LENGTH, 4)).await;
    let (helper, name) = (house.node_of(&record, 1), key(segment(0), &record, 1));
    let mut object = helper.memory.get(name, 0..u64::MAX).await.unwrap().to_vec();
    for at in (300..object.len()).step_by(4104) {
        object[at] ^= 1;
    }
    helper.memory.remove(name).await.unwrap();
    helper.memory.put(name, &[object.into()]).await.unwrap();
    let rebuilt = rebuild(&house, &record, 0).await;
    assert_eq!((rebuilt.also_lost[0].index, rebuilt.also_lost[0].kind), (ShardIndex(1), SuspectKind::Checksum));
    let health = house.transfer.verify(segment(0), &record).await;
    assert!(matches!(health.shards[1], ShardHealth::Damaged(_)));
}

#[tokio::test]
async fn without_a_digest_to_compare_with_nothing_is_combined() {
    let house = House::that_combines(9);
    let record = house.write(segment(0), "msr:4+4,d=7", &bytes(100_000, 4)).await;
    for node in &house.nodes {
        node.fault.set_script(every(Operation::Combine, Fault::FlipBit { bit: 5 }));
    }
    let mut unknown = (*record).clone();
    unknown.shards[7] = None;
    let rebuilt = house.transfer.rebuild(segment(0), &unknown, &[ShardIndex(7)]).await.unwrap();
    let digest = |record: &weft_format::records::SegmentRecord| record.shards[7].as_ref().unwrap().digest;
    assert_eq!(digest(&rebuilt.record), digest(&record));
    let mut wrong = (*record).clone();
    wrong.shards[3].as_mut().unwrap().digest = weft_format::shard::Digest([9; 32]);
    let error = house.transfer.rebuild(segment(0), &wrong, &[ShardIndex(3)]).await.unwrap_err();
    assert!(matches!(error, RebuildError::Mismatch { index: ShardIndex(3), .. }), "{error}");
}
