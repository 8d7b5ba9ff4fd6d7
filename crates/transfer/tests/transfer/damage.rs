//! Damaged, cut, swapped and outdated shards are never served.

use crate::house::{House, VOLUME, bytes, every, key, segment};
use bytes::Bytes;
use std::sync::Arc;
use weft_format::Generation;
use weft_format::shard::{HEADER_BYTES, ShardIdentity, verify_object};
use weft_nodes::Node;
use weft_nodes::wrappers::{Fault, Operation};
use weft_transfer::{ShardHealth, SuspectKind};

/// Puts other bytes under the name of a shard, behind everybody's back.
async fn replace(house: &House, record: &weft_format::records::SegmentRecord, i: u64, index: usize, object: Bytes) {
    let memory = &house.node_of(record, index).memory;
    let key = key(segment(i), record, index);
    memory.remove(key).await.unwrap();
    memory.put(key, &[object]).await.unwrap();
}

async fn object(house: &House, record: &weft_format::records::SegmentRecord, i: u64, index: usize) -> Bytes {
    let memory = &house.node_of(record, index).memory;
    memory.get(key(segment(i), record, index), 0..u64::MAX).await.unwrap()
}

#[tokio::test]
async fn every_flipped_bit_of_a_shard_is_noticed() {
    let house = House::new(6);
    let data = bytes(100, 5);
    let record = house.write(segment(0), "rs:4+2", &data).await;
    let object_bits = object(&house, &record, 0, 0).await.len() * 8;
    let node = house.node_of(&record, 0);
    for bit in 0..object_bits {
        node.fault.set_script(every(Operation::Get, Fault::FlipBit { bit }));
        let health = house.transfer.verify(segment(0), &record).await;
        assert!(matches!(health.shards[0], ShardHealth::Damaged(_)), "bit {bit}");
        assert!(health.shards[1..].iter().all(|shard| *shard == ShardHealth::Sound));
    }
    for bit in 0..object_bits - HEADER_BYTES * 8 {
        node.fault.set_script(every(Operation::Get, Fault::FlipBit { bit }));
        let report = house.read_same(segment(0), &record, 0..100, &data).await;
        assert_eq!(report.suspects.len(), 1);
        assert_eq!(report.suspects[0].kind, SuspectKind::Checksum);
    }
}

#[tokio::test]
async fn short_and_long_shards_are_erasures() {
    let house = House::new(6);
    let data = bytes(1 << 20, 6);
    let record = house.write(segment(0), "rs:4+2", &data).await;
    let whole = object(&house, &record, 0, 2).await;
    for length in [0, 1, HEADER_BYTES, whole.len() / 2, whole.len() - 1] {
        replace(&house, &record, 0, 2, whole.slice(..length)).await;
        let report = house.read_same(segment(0), &record, 0..1 << 20, &data).await;
        assert_eq!(report.suspects.len(), 1, "cut to {length}");
        assert_eq!(report.suspects[0].kind, SuspectKind::Length);
        for health in
            [house.transfer.verify(segment(0), &record).await, house.transfer.census(segment(0), &record).await]
        {
            assert!(matches!(health.shards[2], ShardHealth::Damaged(_)), "cut to {length}");
        }
    }
    let long = [&whole[..], &[0; 10]].concat();
    replace(&house, &record, 0, 2, long.into()).await;
    for health in [house.transfer.verify(segment(0), &record).await, house.transfer.census(segment(0), &record).await] {
        assert!(matches!(health.shards[2], ShardHealth::Damaged(_)));
    }
}

#[tokio::test]
async fn swapped_shards_are_both_noticed() {
    let house = House::new(6);
    let data = bytes(1 << 20, 7);
    let record = house.write(segment(0), "rs:4+2", &data).await;
    let (first, second) = (object(&house, &record, 0, 0).await, object(&house, &record, 0, 3).await);
    replace(&house, &record, 0, 0, second).await;
    replace(&house, &record, 0, 3, first).await;
    let report = house.read_same(segment(0), &record, 0..1 << 20, &data).await;
    assert_eq!(report.suspects.len(), 2);
    let health = house.transfer.verify(segment(0), &record).await;
    let damaged = |index: usize| matches!(health.shards[index], ShardHealth::Damaged(_));
    assert_eq!((0..6).filter(|index| damaged(*index)).collect::<Vec<_>>(), [0, 3]);
}

#[tokio::test]
async fn a_shard_of_another_segment_or_generation_is_not_served() {
    let house = House::new(6);
    let (data, other_data) = (bytes(300_000, 8), bytes(300_000, 9));
    let record = house.write(segment(0), "rs:4+2", &data).await;
    let other = house.write(segment(1), "rs:4+2", &other_data).await;
    let stranger = object(&house, &other, 1, 1).await;
    replace(&house, &record, 0, 1, stranger).await;
    let report = house.read_same(segment(0), &record, 0..300_000, &data).await;
    assert_eq!(report.suspects.len(), 1);

    // A record that names generation 2 of shard 4, and a node on which the bytes of generation 1 were restored as that.
    let old = object(&house, &record, 0, 4).await;
    let mut newer = (*record).clone();
    newer.generation = Generation(2);
    newer.shards[4].as_mut().unwrap().generation = Generation(2);
    newer.shards[1] = None;
    house.node_of(&newer, 4).memory.put(key(segment(0), &newer, 4), &[old]).await.unwrap();
    let newer = Arc::new(newer);
    let report = house.read_same(segment(0), &newer, 0..300_000, &data).await;
    assert_eq!(report.suspects.len(), 1, "4 was asked for 1's sake, and refused");
    assert_eq!(report.suspects[0].index.0, 4);
}

#[tokio::test]
async fn a_well_formed_shard_with_other_content_fails_its_digest() {
    let house = House::new(6);
    let record = house.write(segment(0), "rs:4+2", &bytes(5000, 1)).await;
    let elsewhere = House::new(6);
    let forged_record = elsewhere.write(segment(0), "rs:4+2", &bytes(5000, 2)).await;
    let forged = object(&elsewhere, &forged_record, 0, 2).await;
    let identity = ShardIdentity { volume: VOLUME, key: key(segment(0), &record, 2) };
    assert!(verify_object(&identity, &forged).is_ok(), "nothing but the digest tells");
    replace(&house, &record, 0, 2, forged).await;
    let health = house.transfer.verify(segment(0), &record).await;
    assert!(matches!(&health.shards[2], ShardHealth::Damaged(detail) if detail.contains("not the bytes")));
}
