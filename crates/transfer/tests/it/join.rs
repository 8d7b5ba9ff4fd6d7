//! Segments that become one: their data shards stay, and the whole is read, repaired and recoded as any segment.

use crate::house::{House, bytes, every, key, ranges, segment, subsets};
use std::collections::BTreeSet;
use std::sync::Arc;
use weft_format::records::SegmentRecord;
use weft_format::shard::object_bytes;
use weft_format::{NodeId, SegmentId, ShardIndex};
use weft_nodes::wrappers::{Fault, Operation};
use weft_nodes::{Node, NodeErrorKind};
use weft_transfer::error::RecodeError;
use weft_transfer::{Recoded, ShardHealth};

const PART_BYTES: usize = 300_001;

/// What is joined, and its data.
struct Joined {
    house: House,
    parts: Vec<(SegmentId, SegmentRecord)>,
    data: Vec<u8>,
    whole: SegmentId,
    recoded: Recoded,
}

/// Segments of a house, until some of them can be joined.
async fn group_of(house: &House, from: &str, code: &str) -> (Vec<(SegmentId, SegmentRecord)>, Vec<u8>) {
    let mut joiner = house.transfer.joiner();
    let mut written: Vec<(SegmentId, SegmentRecord, Vec<u8>)> = Vec::new();
    for number in 0..200 {
        let data = bytes(PART_BYTES, number);
        let record = house.write(segment(number), from, &data).await;
        written.push((segment(number), (*record).clone(), data));
        let settled = joiner.offer(segment(number), (*record).clone(), code);
        if let Some(group) = settled.into_iter().find(|group| group.len() > 1) {
            let of = |id: &SegmentId| written.iter().find(|(segment, ..)| segment == id).expect("it was offered");
            let parts = group.iter().map(|id| (*id, of(id).1.clone())).collect();
            return (parts, group.iter().flat_map(|id| of(id).2.clone()).collect());
        }
    }
    panic!("no segments of {from} for {code} among 200");
}

async fn joined(node_count: usize, from: &str, code: &str) -> Joined {
    let house = House::new(node_count);
    let (parts, data) = group_of(&house, from, code).await;
    let whole = segment(1000);
    let recoded = house.transfer.join(whole, &parts, code).await.expect("joined");
    Joined { house, parts, data, whole, recoded }
}

impl Joined {
    async fn assert_sound(&self, record: &SegmentRecord) {
        let health = self.house.transfer.verify(self.whole, record).await;
        assert_eq!(health.shards, vec![ShardHealth::Sound; record.shards.len()], "{}", record.code);
        let lengths = self.house.transfer.census(self.whole, record).await;
        assert_eq!(lengths.shards, health.shards);
        let nodes: BTreeSet<NodeId> = record.nodes().collect();
        assert_eq!(nodes.len(), record.shards.len(), "two shards in one domain");
    }

    async fn assert_reads(&self, record: &SegmentRecord) {
        let record = Arc::new(record.clone());
        let part = PART_BYTES as u64;
        let over_parts = [part - 1..part + 1, part - 70_000..2 * part - 5, part..2 * part];
        for range in ranges(self.data.len() as u64).into_iter().chain(over_parts) {
            self.house.read_same(self.whole, &record, range, &self.data).await;
        }
    }
}

#[tokio::test]
async fn copies_become_data_shards_and_only_parities_move() {
    let Joined { house, parts, data, whole, recoded } = &joined(9, "replica:3", "rs:4+2").await;
    let record = &recoded.record;
    let shard_bytes = object_bytes(record.geometry.payload_bytes());
    assert_eq!((record.geometry.data_bytes, record.geometry.part_count), (4 * PART_BYTES as u64, 4));
    assert_eq!((recoded.reused_count, recoded.written_count, recoded.bytes_written), (4, 2, 2 * shard_bytes));
    let four = 4 * shard_bytes;
    assert!(recoded.bytes_read <= four && recoded.bytes_read > four * 99 / 100, "{recoded:?}");
    // Each by itself: its data read, and six shards of a quarter written.
    let quarter = object_bytes((PART_BYTES as u64).div_ceil(4));
    let plain = 4 * (PART_BYTES as u64 + 6 * quarter);
    assert_eq!(recoded.bytes_saved, plain - recoded.bytes_read - recoded.bytes_written);
    assert_eq!(recoded.bytes_verified, 6 * shard_bytes);
    for (part, (id, of_part)) in parts.iter().enumerate() {
        let lent = key(*whole, record, part);
        assert_eq!(lent.segment, *id);
        assert!(of_part.has_at(*id, record.shards[part].as_ref().expect("placed").node, lent));
    }
    let all = &joined(9, "replica:3", "rs:4+2").await;
    all.assert_sound(&all.recoded.record).await;
    all.assert_reads(&all.recoded.record).await;
    for lost in subsets(6, 2) {
        house.lose(record, &lost);
        house.read_same(*whole, &Arc::new(record.clone()), 0..data.len() as u64, data).await;
        let across = PART_BYTES as u64 - 9_000..PART_BYTES as u64 + 9_000;
        house.read_same(*whole, &Arc::new(record.clone()), across, data).await;
    }
}

#[tokio::test]
async fn two_narrow_segments_become_a_wide_one_and_two_of_these_one_again() {
    for (from, code, lost) in [("rs:2+1", "rs:4+2", 2), ("raid5:3", "raid6:8", 2), ("rs:2+2", "lrc:4+2+2", 2)] {
        let all = joined(12, from, code).await;
        let record = &all.recoded.record;
        all.assert_sound(record).await;
        all.assert_reads(record).await;
        for lost in subsets(record.shards.len(), lost) {
            all.house.lose(record, &lost);
            all.house.read_same(all.whole, &Arc::new(record.clone()), 0..all.data.len() as u64, &all.data).await;
        }
    }
    // What was joined is joined again.
    let house = House::new(20);
    let (mut wholes, mut data) = (Vec::new(), Vec::new());
    for round in 0..40 {
        let mut joiner = house.transfer.joiner();
        let (mut written, mut of_round) = (Vec::new(), Vec::new());
        for number in 0..40 {
            let id = segment(100 * round + number);
            let bytes = bytes(PART_BYTES, 100 * round + number);
            let record = (*house.write(id, "replica:2", &bytes).await).clone();
            written.push((id, record.clone(), bytes));
            if let Some(group) = joiner.offer(id, record, "rs:2+1").into_iter().find(|group| group.len() > 1) {
                of_round = group;
                break;
            }
        }
        let of = |id: &SegmentId| written.iter().find(|(segment, ..)| segment == id).expect("written");
        let parts: Vec<_> = of_round.iter().map(|id| (*id, of(id).1.clone())).collect();
        let whole = segment(10_000 + round);
        let record = house.transfer.join(whole, &parts, "rs:2+1").await.expect("joined").record;
        wholes.push((whole, record));
        data.push(of_round.iter().flat_map(|id| of(id).2.clone()).collect::<Vec<u8>>());
        let mut joiner = house.transfer.joiner();
        let offered = wholes.iter().flat_map(|(id, record)| joiner.offer(*id, record.clone(), "rs:4+2"));
        let Some(pair) = offered.into_iter().find(|group| group.len() > 1) else { continue };
        let at = |id: &SegmentId| wholes.iter().position(|(segment, _)| segment == id).expect("joined");
        let parts: Vec<_> = pair.iter().map(|id| wholes[at(id)].clone()).collect();
        let recoded = house.transfer.join(segment(20_000), &parts, "rs:4+2").await.expect("joined again");
        assert_eq!((recoded.record.geometry.part_count, recoded.written_count), (4, 2));
        let all: Vec<u8> = pair.iter().flat_map(|id| data[at(id)].clone()).collect();
        for lost in subsets(6, 2) {
            house.lose(&recoded.record, &lost);
            house.read_same(segment(20_000), &Arc::new(recoded.record.clone()), 0..all.len() as u64, &all).await;
        }
        return;
    }
    panic!("no two of 40 could be joined again");
}

#[tokio::test]
async fn repaired_moved_and_recoded_it_gets_shards_of_its_own() {
    let all = joined(12, "replica:3", "rs:4+2").await;
    let (house, whole) = (&all.house, all.whole);
    let mut record = all.recoded.record.clone();
    // One that is lost bears the whole's name when it is back, as one that moved.
    let lost = house.node_of(&record, 1);
    lost.memory.remove(key(whole, &record, 1)).await.expect("removed");
    let rebuilt = house.transfer.rebuild(whole, &record, &[ShardIndex(1), ShardIndex(5)]).await.expect("rebuilt");
    record = rebuilt.record;
    record = house.transfer.relocate(whole, &record, ShardIndex(2), None).await.expect("moved").record;
    let own = |record: &SegmentRecord| (0..6).filter(|index| key(whole, record, *index).segment == whole).count();
    assert_eq!(own(&record), 4, "two data shards, two parities");
    all.assert_sound(&record).await;
    all.assert_reads(&record).await;
    // More parities: the data stays, whatever its name. Copies: all is written anew.
    let wider = house.transfer.recode(whole, &record, "rs:4+3", None).await.expect("recoded");
    assert_eq!(own(&wider.record), 4);
    assert!(wider.reused_count >= 4 && wider.bytes_saved > 0, "{wider:?}");
    all.assert_sound(&wider.record).await;
    let copies = house.transfer.recode(whole, &wider.record, "replica:3", None).await.expect("recoded");
    assert_eq!((copies.record.geometry.part_count, copies.reused_count, copies.bytes_saved), (1, 0, 0));
    all.assert_sound(&copies.record).await;
    all.assert_reads(&copies.record).await;
    // Removing the whole removes what it named, whatever the name.
    let before = house.shards().await.len();
    let removal = house.transfer.remove(whole, &record).await;
    assert_eq!((removal.gone, removal.unknown.len()), (6, 0));
    assert_eq!(house.shards().await.len(), before - 6);
}

#[tokio::test]
async fn where_a_node_combines_a_lost_shard_that_was_lent_is_rebuilt_so() {
    let house = House::that_combines(12);
    let (parts, data) = group_of(&house, "rs:2+2", "lrc:4+2+2").await;
    let record = house.transfer.join(segment(1000), &parts, "lrc:4+2+2").await.expect("joined").record;
    let rebuilt = house.transfer.rebuild(segment(1000), &record, &[ShardIndex(0)]).await.expect("rebuilt");
    house.read_same(segment(1000), &Arc::new(rebuilt.record), 0..data.len() as u64, &data).await;
}

#[tokio::test]
async fn what_cannot_be_joined_soundly_is_not_and_leaves_nothing() {
    let house = House::new(6);
    let (parts, _) = group_of(&house, "replica:3", "rs:4+2").await;
    let before = house.shards().await;
    let whole = segment(1000);
    let unfit = |outcome: Result<Recoded, RecodeError>| matches!(outcome, Err(RecodeError::Unfit { .. }));
    assert!(unfit(house.transfer.join(whole, &parts[..3], "rs:4+2").await), "one too few");
    assert!(unfit(house.transfer.join(whole, &[], "rs:4+2").await));
    assert!(unfit(house.transfer.join(whole, &parts, "rs:6+3").await), "another count");
    let mut shorter = parts.clone();
    shorter[1].1.geometry.data_bytes -= 1;
    assert!(unfit(house.transfer.join(whole, &shorter, "rs:4+2").await), "unlike lengths");
    // No room for a parity beside the four.
    house.nodes.iter().for_each(|node| {
        node.fault.set_script(every(Operation::Put, Fault::Fail(NodeErrorKind::Full)));
    });
    assert!(matches!(house.transfer.join(whole, &parts, "rs:4+2").await, Err(RecodeError::Short { .. })));
    house.heal();
    assert_eq!(house.shards().await, before);
    house.fleet.refresh_space().await;
    // The other copies are of no help: they could be, but a repair comes first.
    let rotten = house.transfer.join(whole, &parts, "rs:4+2").await.expect("joined").record;
    let lent = key(whole, &rotten, 0);
    house.node_of(&rotten, 0).memory.remove(lent).await.expect("removed");
    assert!(matches!(house.transfer.join(segment(1001), &parts, "rs:4+2").await, Err(RecodeError::Unsound { .. })));
}

#[tokio::test]
async fn what_was_joined_is_taken_apart_again_and_what_is_missing_is_computed() {
    for (from, code) in [("replica:3", "rs:4+2"), ("rs:2+2", "lrc:4+2+2")] {
        let Joined { house, parts, data, recoded, .. } = &joined(12, from, code).await;
        let shard_bytes = object_bytes(recoded.record.geometry.payload_bytes());
        for (number, (former, record)) in parts.iter().enumerate() {
            let (new, again) = (segment(2000 + number as u64), segment(3000 + number as u64));
            let right = &data[number * PART_BYTES..][..PART_BYTES];
            let whole = house.transfer.unjoin(new, *former, record).await.expect("taken apart");
            let shard_count = record.shards.len() as u64;
            assert_eq!((whole.bytes_read, whole.bytes_written, whole.reused_count), (0, 0, shard_count), "{from}");
            assert_eq!(whole.bytes_saved, PART_BYTES as u64 + shard_count * shard_bytes);
            house.read_same(new, &Arc::new(whole.record.clone()), 0..PART_BYTES as u64, right).await;
            let names = |segment, record: &SegmentRecord| -> Vec<_> {
                record.located(segment).map(|(_, name, location)| (name, location.node)).collect()
            };
            assert_eq!(names(new, &whole.record), names(*former, record), "each under its name, where it was");
            // One is lost: it is made anew, under the new name.
            house.node_of(record, 1).memory.remove(key(*former, record, 1)).await.expect("removed");
            let mended = house.transfer.unjoin(again, *former, record).await.expect("mended");
            assert_eq!((mended.written_count, mended.bytes_written), (1, shard_bytes), "{from}");
            assert_eq!(key(again, &mended.record, 1).segment, again);
            house.read_same(again, &Arc::new(mended.record), 0..PART_BYTES as u64, right).await;
        }
    }
    // Where too little is left it says so, and leaves nothing behind.
    let Joined { house, parts, .. } = &joined(9, "rs:2+1", "rs:4+2").await;
    let (former, record) = &parts[0];
    house.lose(record, &[0, 1]);
    let refused = house.transfer.unjoin(segment(2000), *former, record).await;
    assert!(matches!(refused, Err(RecodeError::Former { .. })), "{refused:?}");
}
