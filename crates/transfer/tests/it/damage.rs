//! Damaged, cut, swapped and outdated shards are never served.

use crate::house::{House, VOLUME, bytes, every, key, segment};
use bytes::Bytes;
use std::ops::Range;
use std::sync::Arc;
use weft_format::shard::{HEADER_BYTES, ShardIdentity, verify_object};
use weft_format::{Generation, ShardIndex};
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
    assert!(matches!(&health.shards[2], ShardHealth::Damaged(damage) if damage.how.contains("not the bytes")));
}

/// Flips a bit in frame `frame` of a shard.
async fn spoil(house: &House, record: &weft_format::records::SegmentRecord, index: usize, frame: usize) {
    let mut spoiled = object(house, record, 0, index).await.to_vec();
    spoiled[HEADER_BYTES + frame * 4104 + 100] ^= 0x10;
    replace(house, record, 0, index, spoiled.into()).await;
}

#[tokio::test]
async fn finding_09_damage_in_different_stripes_is_read_and_rebuilt() {
    for code in ["rs:4+2", "lrc:4+2+2", "clay:4+2", "replica:3", "xor:5", "rs:4+2"] {
        let house = House::new(10);
        let length = 4 << 20;
        let data = bytes(length, 11);
        let Ok(receipt) = house.try_write(segment(0), code, &data).await else { continue };
        let record = Arc::new(receipt.record);
        let payload_bytes = record.geometry.payload_bytes();
        // Every shard is damaged, no two of them in one stripe.
        let cell = record.geometry.stripe(0).cell.end;
        assert!(record.shards.len() as u64 * cell <= payload_bytes, "{code} has too few stripes for this test");
        for index in 0..record.shards.len() {
            spoil(&house, &record, index, index * cell as usize / 4096).await;
        }
        for range in [0..length as u64, 100..700_000, 1_000_000..3_000_000, 3_000_000..length as u64] {
            house.read_same(segment(0), &record, range, &data).await;
        }
        let health = house.transfer.verify(segment(0), &record).await;
        for (index, shard) in health.shards.iter().enumerate() {
            let frame = index as u64 * cell / 4096;
            let ShardHealth::Damaged(damage) = shard else { panic!("{code}: shard {index} is {shard:?}") };
            let run = frame..frame + 1;
            assert_eq!(damage.frames, Some(vec![run]), "{code}: shard {index}");
        }
        let lost: Vec<ShardIndex> = (0..record.shards.len() as u16).map(ShardIndex).collect();
        let rebuilt = house.transfer.rebuild(segment(0), &record, &lost).await.unwrap();
        let health = house.transfer.verify(segment(0), &rebuilt.record).await;
        assert!(health.shards.iter().all(|shard| *shard == ShardHealth::Sound), "{code}: {health:?}");
        house.read_same(segment(0), &Arc::new(rebuilt.record), 0..length as u64, &data).await;
    }
}

#[tokio::test]
async fn finding_09_only_what_no_stripe_gives_is_lost() {
    let house = House::new(6);
    let data = bytes(4 << 20, 12);
    let record = house.write(segment(0), "rs:4+2", &data).await;
    // The second frame of three shards, two of them data.
    for index in [1, 2, 5] {
        spoil(&house, &record, index, 1).await;
    }
    let error = house.read(segment(0), &record, 0..4 << 20).await.unwrap_err();
    assert!(matches!(error, weft_transfer::ReadError::Unrecoverable { .. }), "{error}");
    let cell = record.geometry.symbol_bytes as usize;
    for sound in [0..cell, cell..cell + 4096, cell + 8192..2 * cell, 2 * cell + 8192..4 << 20] {
        house.read_same(segment(0), &record, sound.start as u64..sound.end as u64, &data).await;
    }
    for lost in [cell + 4096..cell + 8192, 2 * cell + 5000..2 * cell + 5001] {
        house.read(segment(0), &record, lost.start as u64..lost.end as u64).await.unwrap_err();
    }
    let lost = [ShardIndex(1)];
    let error = house.transfer.rebuild(segment(0), &record, &lost).await.unwrap_err();
    assert!(matches!(error, weft_transfer::RebuildError::Read(_)), "{error}");
}

/// These gets of the nodes of these shards fail, counted from one.
fn fail_gets(
    house: &House,
    record: &weft_format::records::SegmentRecord,
    shards: Range<usize>,
    failing: &'static [usize],
) {
    for index in shards {
        let mut calls = 0;
        let script = move |call: &weft_nodes::wrappers::fault::Call| {
            let is_get = call.operation == Operation::Get;
            calls += usize::from(is_get);
            if is_get && failing.contains(&calls) { Fault::Fail(weft_nodes::NodeErrorKind::Io) } else { Fault::None }
        };
        house.node_of(record, index).fault.set_script(Box::new(script));
    }
}

/// One read that failed once condemned a sound shard.
#[tokio::test]
async fn an_error_that_passes_is_no_damage() {
    let house = House::new(6);
    let record = house.write(segment(0), "rs:4+2", &bytes(2 << 20, 14)).await;
    fail_gets(&house, &record, 0..6, &[1]);
    let health = house.transfer.verify(segment(0), &record).await;
    assert!(health.shards.iter().all(|shard| *shard == ShardHealth::Sound), "{health:?}");
    // What is found out by then counts as usual.
    spoil(&house, &record, 2, 1).await;
    fail_gets(&house, &record, 2..3, &[1]);
    let health = house.transfer.verify(segment(0), &record).await;
    let ShardHealth::Damaged(damage) = &health.shards[2] else { panic!("{health:?}") };
    let run = 1..2;
    assert_eq!(damage.frames, Some(vec![run]));
}

#[tokio::test]
async fn finding_09_a_bad_place_of_a_disk_takes_its_frames_only() {
    let house = House::new(6);
    let data = bytes(2 << 20, 13);
    let record = house.write(segment(0), "rs:4+2", &data).await;
    // Reads of the whole shard fail, as those that come upon a bad place do, and those of all frames do not: it is the header.
    fail_gets(&house, &record, 0..4, &[1, 3]);
    let health = house.transfer.verify(segment(0), &record).await;
    let of_header =
        |shard: &ShardHealth| matches!(shard, ShardHealth::Damaged(damage) if damage.frames == Some(vec![]));
    let damaged = health.shards.iter().filter(|shard| of_header(shard)).count();
    assert_eq!(damaged, 4, "what can be read in parts only is not well: {health:?}");
    for index in 0..4 {
        let script = |call: &weft_nodes::wrappers::fault::Call| match call.operation {
            Operation::Get if call.number.is_multiple_of(2) => Fault::Fail(weft_nodes::NodeErrorKind::Io),
            _ => Fault::None,
        };
        house.node_of(&record, index).fault.set_script(Box::new(script));
    }
    house.read_same(segment(0), &record, 0..2 << 20, &data).await;
}
