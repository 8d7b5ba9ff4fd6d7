//! Rebuilding what was lost.

use crate::house::{House, bytes, every, key, segment, subsets};
use std::collections::BTreeSet;
use std::sync::Arc;
use weft_format::shard::{Digest, object_bytes};
use weft_format::{Generation, ShardIndex};
use weft_nodes::wrappers::{Fault, Operation};
use weft_nodes::{Node, NodeErrorKind};
use weft_transfer::{ReadError, RebuildError, ShardHealth, SuspectKind};

fn indices(shards: &[usize]) -> Vec<ShardIndex> {
    shards.iter().map(|shard| ShardIndex(*shard as u16)).collect()
}

async fn every_rebuild(code: &str, n: usize, tolerance: usize) {
    let house = House::new(n + 2);
    for (i, length) in [1, 5_000, (1 << 20) + 1, 9 << 20].into_iter().enumerate() {
        let (segment, data) = (segment(i as u64), bytes(length, 3));
        let before = house.write(segment, code, &data).await;
        for lost in subsets(n, tolerance).into_iter().filter(|lost| !lost.is_empty()) {
            let rebuilt = house.transfer.rebuild(segment, &before, &indices(&lost)).await.unwrap();
            assert!(rebuilt.also_lost.is_empty() && rebuilt.not_stored.0.is_empty());
            assert_eq!(rebuilt.record.generation, Generation(2));
            let record = Arc::new(rebuilt.record);
            let nodes: BTreeSet<_> = record.shards.iter().flatten().map(|shard| shard.node).collect();
            assert_eq!(nodes.len(), n, "each on a node of its own");
            for index in 0..n {
                let (old, new) = (before.shards[index].as_ref().unwrap(), record.shards[index].as_ref().unwrap());
                assert_eq!(old.digest, new.digest, "the same bytes");
                assert_eq!(new.generation == Generation::FIRST, !lost.contains(&index), "a name of its own");
            }
            let health = house.transfer.verify(segment, &record).await;
            assert!(health.shards.iter().all(|shard| *shard == ShardHealth::Sound), "{code} {length} {lost:?}");
            house.read_same(segment, &record, 0..length as u64, &data).await;
            // The old ones were not touched.
            assert!(house.transfer.census(segment, &before).await.shards.iter().all(|s| *s == ShardHealth::Sound));
            // Make room for the next pattern.
            for (index, node) in &rebuilt.placed {
                house.node(*node).memory.remove(key(segment, &record, index.as_usize())).await.unwrap();
            }
        }
    }
}

#[tokio::test]
async fn reed_solomon_4_2() {
    every_rebuild("rs:4+2", 6, 2).await;
}

#[tokio::test]
async fn raid5_of_4() {
    every_rebuild("raid5:4", 4, 1).await;
}

#[tokio::test]
async fn replica_of_3() {
    every_rebuild("replica:3", 3, 2).await;
}

#[tokio::test]
async fn every_family_rebuilds_each_shard_without_reading_more_than_the_plan() {
    for family in weft_codes::families() {
        let code = weft_codes::parse(family.example).unwrap();
        let shape = code.shape();
        let house = House::new(shape.n);
        let data = bytes(700_001, 4);
        let record = house.write(segment(0), family.example, &data).await;
        for lost in 0..shape.n {
            let rebuilt = house.transfer.rebuild(segment(0), &record, &indices(&[lost])).await.unwrap();
            let at_most = object_bytes(record.geometry.payload_bytes()) * (shape.n as u64 - 1);
            assert!(rebuilt.bytes_read <= at_most, "{} shard {lost}: {}", family.example, rebuilt.bytes_read);
            let (index, node) = rebuilt.placed[0];
            house.node(node).memory.remove(key(segment(0), &rebuilt.record, index.as_usize())).await.unwrap();
        }
    }
}

#[tokio::test]
async fn one_shard_of_rs_4_2_is_rebuilt_from_four() {
    let house = House::new(7);
    let data = bytes(9 << 20, 5);
    let record = house.write(segment(0), "rs:4+2", &data).await;
    let rebuilt = house.transfer.rebuild(segment(0), &record, &indices(&[1])).await.unwrap();
    let payload_and_checks = object_bytes(record.geometry.payload_bytes()) - 256;
    assert_eq!(rebuilt.bytes_read, 4 * payload_and_checks);
    assert_eq!(rebuilt.bytes_written, payload_and_checks + 256);
}

#[tokio::test]
async fn a_corrupt_survivor_is_passed_over_and_reported() {
    let house = House::new(8);
    let data = bytes(9 << 20, 6);
    let record = house.write(segment(0), "rs:4+2", &data).await;
    // A flip far inside, so that it is met in the middle of the work.
    let survivor = house.node_of(&record, 2);
    let key2 = key(segment(0), &record, 2);
    let mut object = survivor.memory.get(key2, 0..u64::MAX).await.unwrap().to_vec();
    let middle = object.len() * 2 / 3;
    object[middle] ^= 0x10;
    survivor.memory.remove(key2).await.unwrap();
    survivor.memory.put(key2, &[object.into()]).await.unwrap();
    let rebuilt = house.transfer.rebuild(segment(0), &record, &indices(&[0])).await.unwrap();
    assert_eq!(rebuilt.also_lost.len(), 1);
    assert_eq!((rebuilt.also_lost[0].index, rebuilt.also_lost[0].kind), (ShardIndex(2), SuspectKind::Checksum));
    assert_eq!(rebuilt.record.shards[0].as_ref().unwrap().digest, record.shards[0].as_ref().unwrap().digest);
    // And then the other one.
    let again = house.transfer.rebuild(segment(0), &rebuilt.record, &indices(&[2])).await.unwrap();
    assert_eq!(again.record.generation, Generation(3));
    let health = house.transfer.verify(segment(0), &again.record).await;
    assert!(health.shards.iter().all(|shard| *shard == ShardHealth::Sound));
    house.read_same(segment(0), &Arc::new(again.record), 0..9 << 20, &data).await;
}

#[tokio::test]
async fn what_does_not_match_the_record_is_not_stored() {
    let house = House::new(7);
    let record = house.write(segment(0), "rs:4+2", &bytes(100_000, 7)).await;
    let mut wrong = (*record).clone();
    wrong.shards[3].as_mut().unwrap().digest = Digest([9; 32]);
    let shards_before = house.shards().await;
    let error = house.transfer.rebuild(segment(0), &wrong, &indices(&[3])).await.unwrap_err();
    assert!(matches!(error, RebuildError::Mismatch { index: ShardIndex(3), .. }), "{error}");
    assert_eq!(house.shards().await, shards_before);
}

#[tokio::test]
async fn a_shard_that_was_never_stored_is_rebuilt_and_bracketed() {
    for code in ["rs:4+2", "raid5:4", "replica:3", "raid6:6"] {
        let n = weft_codes::parse(code).unwrap().shape().n;
        let house = House::new(n + 1);
        let data = bytes(1 << 20, 8);
        let record = house.write(segment(0), code, &data).await;
        for index in 0..n {
            let mut short = (*record).clone();
            short.shards[index] = None;
            let rebuilt = house.transfer.rebuild(segment(0), &short, &indices(&[index])).await.unwrap();
            assert_eq!(
                rebuilt.record.shards[index].as_ref().unwrap().digest,
                record.shards[index].as_ref().unwrap().digest
            );
            let (index, node) = rebuilt.placed[0];
            house.node(node).memory.remove(key(segment(0), &rebuilt.record, index.as_usize())).await.unwrap();
        }
    }
}

#[tokio::test]
async fn with_no_node_to_spare_a_damaged_shard_is_rebuilt_on_its_own_node() {
    let house = House::new(6);
    let record = house.write(segment(0), "rs:4+2", &bytes(100_000, 9)).await;
    let rebuilt = house.transfer.rebuild(segment(0), &record, &indices(&[4])).await.unwrap();
    assert_eq!(rebuilt.placed, [(ShardIndex(4), house.node_of(&record, 4).id)]);
}

#[tokio::test]
async fn nodes_that_fail_to_take_a_shard_are_passed_over() {
    let house = House::new(9);
    let record = house.write(segment(0), "rs:4+2", &bytes(100_000, 10)).await;
    let used: BTreeSet<_> = record.shards.iter().flatten().map(|shard| shard.node).collect();
    let spare: Vec<_> = house.nodes.iter().filter(|node| !used.contains(&node.id)).collect();
    for node in &spare[..2] {
        node.fault.set_script(every(Operation::Put, Fault::Fail(NodeErrorKind::Io)));
    }
    house.node_of(&record, 0).fault.set_script(every(Operation::Put, Fault::Fail(NodeErrorKind::Unavailable)));
    let rebuilt = house.transfer.rebuild(segment(0), &record, &indices(&[0])).await.unwrap();
    assert_eq!(rebuilt.placed, [(ShardIndex(0), spare[2].id)]);
    spare[2].fault.set_script(every(Operation::Put, Fault::Fail(NodeErrorKind::Full)));
    let error = house.transfer.rebuild(segment(0), &record, &indices(&[0])).await.unwrap_err();
    assert!(matches!(error, RebuildError::Put { .. } | RebuildError::Placement { .. }), "{error}");
}

#[tokio::test]
async fn a_shard_that_finds_no_place_keeps_its_node_to_itself() {
    let house = House::new(4);
    let record = house.write(segment(0), "rs:2+2", &bytes(100_000, 12)).await;
    for (with_room, without) in (0..4).flat_map(|at| (0..4).map(move |other| (at, other))).filter(|(a, b)| a != b) {
        house.heal();
        let full = house.node_of(&record, without);
        full.fault.set_script(every(Operation::Put, Fault::Fail(NodeErrorKind::Io)));
        let rebuilt = house.transfer.rebuild(segment(0), &record, &indices(&[with_room, without])).await.unwrap();
        assert_eq!(rebuilt.placed, [(ShardIndex(with_room as u16), house.node_of(&record, with_room).id)]);
        let nodes: BTreeSet<_> = rebuilt.record.nodes().collect();
        assert_eq!(nodes.len(), 4, "{with_room} and {without}: {:?}", rebuilt.record.shards);
        let key = key(segment(0), &rebuilt.record, with_room);
        house.node_of(&record, with_room).memory.remove(key).await.unwrap();
    }
}

#[tokio::test]
async fn too_few_survivors_are_an_error_and_shards_that_do_not_exist_too() {
    let house = House::new(6);
    let record = house.write(segment(0), "rs:4+2", &bytes(100_000, 11)).await;
    // Shard 0, too: where it is sound after all it is used.
    house.lose(&record, &[0, 1, 2]);
    let error = house.transfer.rebuild(segment(0), &record, &indices(&[0])).await.unwrap_err();
    assert!(matches!(error, RebuildError::Read(ReadError::Unrecoverable { .. })), "{error}");
    let error = house.transfer.rebuild(segment(0), &record, &indices(&[6])).await.unwrap_err();
    assert_eq!(error.to_string(), format!("segment {} has shards 0 to 5, not 6: ask for one of those", segment(0)));
}

#[tokio::test]
async fn a_sound_shard_is_brought_elsewhere_for_one_read_and_a_bad_one_is_rebuilt() {
    let house = House::new(8);
    let data = bytes(3_000_000, 11);
    let record = house.write(segment(0), "rs:4+2", &data).await;
    let index = ShardIndex(1);
    let before = house.bytes_read();
    let moved = house.transfer.relocate(segment(0), &record, index, None).await.unwrap();
    assert_eq!(moved.bytes_read, moved.bytes_written);
    assert_eq!(house.bytes_read() - before, moved.bytes_written);
    let (from, to) = (record.shards[1].as_ref().unwrap(), moved.record.shards[1].as_ref().unwrap());
    assert!(from.node != to.node && from.digest == to.digest && from.generation < to.generation);
    let places = [from.node, to.node];
    let moved_record = Arc::new(moved.record);
    house.read_same(segment(0), &moved_record, 0..3_000_000, &data).await;
    assert_eq!(house.transfer.verify(segment(0), &moved_record).await.shards[1], ShardHealth::Sound);
    let last =
        house.nodes.iter().map(|node| node.id).find(|id| !places.contains(id) && !record.nodes().any(|n| n == *id));
    let elsewhere = house.transfer.relocate(segment(0), &moved_record, index, last).await.unwrap();
    assert_eq!(elsewhere.placed, [(index, last.unwrap())]);
    let taken = record.shards[0].as_ref().map(|location| location.node);
    assert!(house.transfer.relocate(segment(0), &moved_record, index, taken).await.is_err(), "no other will do");

    // A copy under an earlier name, as often as there is one. Of what was stored first there is none.
    let last = last.unwrap();
    let earlier = house.transfer.copy_before(segment(0), &moved_record, index, last).await.unwrap().unwrap();
    let (earlier, later) = (earlier.record.shards[1].as_ref().unwrap(), moved_record.shards[1].as_ref().unwrap());
    assert_eq!((earlier.node, earlier.digest), (last, later.digest));
    assert!(earlier.generation > Generation::FIRST && earlier.generation < later.generation);
    assert_eq!(house.transfer.copy_before(segment(0), &record, index, last).await.unwrap(), None);
    house.node_of(&moved_record, 1).fault.set_script(every(Operation::Get, Fault::Short { bytes: 7 }));
    assert_eq!(house.transfer.copy_before(segment(0), &moved_record, index, last).await.unwrap(), None);
    house.heal();

    // Rot, silence, and a shard that is not there: from the others.
    for fault in [Fault::FlipBit { bit: 99_999 }, Fault::Short { bytes: 7 }, Fault::Fail(NodeErrorKind::NotFound)] {
        house.node_of(&record, 1).fault.set_script(every(Operation::Get, fault));
        let rebuilt = house.transfer.relocate(segment(0), &record, index, None).await.unwrap();
        assert!(rebuilt.bytes_read > 3 * rebuilt.bytes_written, "{fault:?}");
        assert_eq!(rebuilt.record.shards[1].as_ref().unwrap().digest, from.digest);
        house.heal();
        // The names of this try are not used again.
        for (node, key) in house.shards().await.into_iter().filter(|(_, key)| key.generation > from.generation) {
            house.node(node).memory.remove(key).await.unwrap();
        }
    }
}
