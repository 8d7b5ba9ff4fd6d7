//! Segments that become one: their data shards are kept, and the merged segment is read, repaired and recoded as any other.

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

const SOURCE_BYTES: usize = 300_001;

/// What is merged, and its data.
struct Merged {
    house: House,
    sources: Vec<(SegmentId, SegmentRecord)>,
    data: Vec<u8>,
    merged: SegmentId,
    recoded: Recoded,
}

/// Segments of a house, until some of them can be merged.
async fn group_of(house: &House, from: &str, code: &str) -> (Vec<(SegmentId, SegmentRecord)>, Vec<u8>) {
    group_of_length(house, from, code, SOURCE_BYTES).await
}

async fn group_of_length(
    house: &House,
    from: &str,
    code: &str,
    source_bytes: usize,
) -> (Vec<(SegmentId, SegmentRecord)>, Vec<u8>) {
    let mut candidates = house.transfer.merge_candidates();
    let mut written: Vec<(SegmentId, SegmentRecord, Vec<u8>)> = Vec::new();
    for number in 0..200 {
        let data = bytes(source_bytes, number);
        let record = house.write(segment(number), from, &data).await;
        written.push((segment(number), (*record).clone(), data));
        let settled = candidates.offer(segment(number), (*record).clone(), code);
        if let Some(group) = settled.into_iter().find(|group| group.len() > 1) {
            let of = |id: &SegmentId| written.iter().find(|(segment, ..)| segment == id).expect("it was offered");
            let sources = group.iter().map(|id| (*id, of(id).1.clone())).collect();
            return (sources, group.iter().flat_map(|id| of(id).2.clone()).collect());
        }
    }
    panic!("no segments of {from} for {code} among 200");
}

async fn merge_some(node_count: usize, from: &str, code: &str) -> Merged {
    let house = House::new(node_count);
    let (sources, data) = group_of(&house, from, code).await;
    let merged = segment(1000);
    let recoded = house.transfer.merge(merged, &sources, code).await.expect("merged");
    Merged { house, sources, data, merged, recoded }
}

impl Merged {
    async fn assert_sound(&self, record: &SegmentRecord) {
        let health = self.house.transfer.verify(self.merged, record).await;
        assert_eq!(health.shards, vec![ShardHealth::Sound; record.shards.len()], "{}", record.code);
        let lengths = self.house.transfer.census(self.merged, record).await;
        assert_eq!(lengths.shards, health.shards);
        let nodes: BTreeSet<NodeId> = record.nodes().collect();
        assert_eq!(nodes.len(), record.shards.len(), "two shards in one domain");
    }

    async fn assert_reads(&self, record: &SegmentRecord) {
        let record = Arc::new(record.clone());
        let part = (self.data.len() / self.sources.len()) as u64;
        let over_sources = [part - 1..part + 1, part - 70_000..2 * part - 5, part..2 * part];
        for range in ranges(self.data.len() as u64).into_iter().chain(over_sources) {
            self.house.read_same(self.merged, &record, range, &self.data).await;
        }
    }
}

#[tokio::test]
async fn copies_become_data_shards_and_only_parities_move() {
    let Merged { house, sources, data, merged, recoded } = &merge_some(9, "replica:3", "rs:4+2").await;
    let record = &recoded.record;
    let shard_bytes = object_bytes(record.geometry.payload_bytes());
    assert_eq!((record.geometry.data_bytes, record.geometry.source_count), (4 * SOURCE_BYTES as u64, 4));
    assert_eq!((recoded.reused_count, recoded.written_count, recoded.bytes_written), (4, 2, 2 * shard_bytes));
    let four = 4 * shard_bytes;
    assert!(recoded.bytes_read <= four && recoded.bytes_read > four * 99 / 100, "{recoded:?}");
    // Each by itself: its data read, and six shards of a quarter written.
    let quarter = object_bytes((SOURCE_BYTES as u64).div_ceil(4));
    let plain = 4 * (SOURCE_BYTES as u64 + 6 * quarter);
    assert_eq!(recoded.bytes_saved, plain - recoded.bytes_read - recoded.bytes_written);
    assert_eq!(recoded.bytes_verified, 6 * shard_bytes);
    for (part, (id, of_part)) in sources.iter().enumerate() {
        let aliased = key(*merged, record, part);
        assert_eq!(aliased.segment, *id);
        assert!(of_part.has_at(*id, record.shards[part].as_ref().expect("placed").node, aliased));
    }
    let all = &merge_some(9, "replica:3", "rs:4+2").await;
    all.assert_sound(&all.recoded.record).await;
    all.assert_reads(&all.recoded.record).await;
    for lost in subsets(6, 2) {
        house.lose(record, &lost);
        house.read_same(*merged, &Arc::new(record.clone()), 0..data.len() as u64, data).await;
        let across = SOURCE_BYTES as u64 - 9_000..SOURCE_BYTES as u64 + 9_000;
        house.read_same(*merged, &Arc::new(record.clone()), across, data).await;
    }
}

#[tokio::test]
async fn a_unit_keeps_as_many_of_the_shards_as_it_may_hold() {
    let house = House::in_pairs(6, 2);
    let (sources, data) = group_of(&house, "replica:3", "rs:4+2").await;
    let merged = segment(1000);
    let recoded = house.transfer.merge(merged, &sources, "rs:4+2").await.expect("merged");
    assert_eq!((recoded.reused_count, recoded.written_count), (4, 2));
    let record = Arc::new(recoded.record);
    let nodes: BTreeSet<NodeId> = record.nodes().collect();
    assert_eq!(nodes.len(), 6, "each on a node of its own, and so two in each unit");
    // A unit is lost.
    for unit in house.nodes.chunks(2) {
        let of_unit = |index: &usize| unit.iter().any(|node| node.id == house.node_of(&record, *index).id);
        house.lose(&record, &(0..6).filter(of_unit).collect::<Vec<_>>());
        house.read_same(merged, &record, 0..data.len() as u64, &data).await;
        house.heal();
    }
    // Three units with one shard each have no place for the data of four.
    let house = House::in_pairs(6, 1);
    let mut candidates = house.transfer.merge_candidates();
    for number in 0..20 {
        let record = house.write(segment(number), "replica:3", &bytes(SOURCE_BYTES, number)).await;
        assert!(candidates.offer(segment(number), (*record).clone(), "rs:4+2").is_empty());
    }
}

/// Bytes that each node was sent so far.
fn received(house: &House) -> Vec<u64> {
    house.nodes.iter().map(|node| node.record.counts().bytes_written).collect()
}

/// As [`SOURCE_BYTES`], and a whole number of symbols of every code below.
const EVEN_BYTES: usize = 300_000;

#[tokio::test]
async fn of_codes_of_several_symbols_a_cell_only_parities_are_written_too() {
    for (code, k, n) in
        [("msbasic:4", 4, 8), ("basic:4+4,d=6", 4, 8), ("clay:4+2", 4, 6), ("msr:3+3,d=5", 3, 6), ("crs:4+2", 4, 6)]
    {
        let house = House::new(14);
        let (sources, data) = group_of_length(&house, "replica:3", code, EVEN_BYTES).await;
        assert_eq!(sources.len(), k, "{code}");
        let before = received(&house);
        let merged = segment(1000);
        let recoded = house.transfer.merge(merged, &sources, code).await.expect("merged");
        let record = &recoded.record;
        let shard_bytes = object_bytes(EVEN_BYTES as u64);
        assert_eq!((recoded.reused_count, recoded.written_count), (k as u64, (n - k) as u64), "{code}");
        assert_eq!(recoded.bytes_written, (n - k) as u64 * shard_bytes, "{code}");
        assert!(recoded.bytes_read <= k as u64 * shard_bytes, "{code}: {recoded:?}");
        // By the nodes' own count: each of those with a parity was sent one, and no other anything.
        let parities: BTreeSet<NodeId> = (k..n).map(|index| house.node_of(record, index).id).collect();
        for ((node, before), after) in house.nodes.iter().zip(before).zip(received(&house)) {
            let expected = if parities.contains(&node.id) { shard_bytes } else { 0 };
            assert_eq!(after - before, expected, "{code}: node {}", node.id);
        }
        let tolerance = weft_codes::parse(code).expect("a code").shape().tolerance;
        let all = Merged { house, sources, data, merged, recoded: recoded.clone() };
        all.assert_sound(record).await;
        for lost in [vec![], (0..tolerance).collect(), (k - 1..k - 1 + tolerance).collect::<Vec<usize>>()] {
            all.house.lose(record, &lost);
            let shared = Arc::new(record.clone());
            for range in [0..all.data.len() as u64, 2 * EVEN_BYTES as u64 - 9_000..2 * EVEN_BYTES as u64 + 9_000] {
                all.house.read_same(merged, &shared, range, &all.data).await;
            }
        }
        all.house.heal();
        // A lost copy is rebuilt as a shard of the code's own.
        let lost = all.house.node_of(record, 1);
        lost.memory.remove(key(merged, record, 1)).await.expect("removed");
        let rebuilt = all.house.transfer.rebuild(merged, record, &[ShardIndex(1)]).await.expect("rebuilt").record;
        assert_eq!(key(merged, &rebuilt, 1).segment, merged);
        all.assert_sound(&rebuilt).await;
        // And back: all is written, since no copy is a quarter.
        let copies = all.house.transfer.recode(merged, &rebuilt, "replica:3", None).await.expect("recoded");
        assert_eq!(copies.reused_count, 0);
        all.house.read_same(merged, &Arc::new(copies.record), 0..all.data.len() as u64, &all.data).await;
    }
}

#[tokio::test]
async fn where_symbols_do_not_divide_a_copy_or_cells_hold_more_than_data_nothing_is_kept() {
    let house = House::new(14);
    for (length, code) in [(SOURCE_BYTES, "clay:4+2"), (EVEN_BYTES, "mojette:4+2"), (EVEN_BYTES, "embr:n=6,k=4")] {
        let mut candidates = house.transfer.merge_candidates();
        let data = bytes(length, 5);
        let id = segment(length as u64 + code.len() as u64);
        let record = house.write(id, "replica:3", &data).await;
        assert_eq!(candidates.offer(id, (*record).clone(), code), [vec![id]], "{code}: it waits for no other");
        let recoded = house.transfer.recode(id, &record, code, None).await.expect("recoded");
        assert_eq!((recoded.reused_count, recoded.bytes_saved), (0, 0), "{code}");
        house.read_same(id, &Arc::new(recoded.record), 0..length as u64, &data).await;
    }
}

#[tokio::test]
async fn two_narrow_segments_become_a_wide_one_and_two_of_these_one_again() {
    for (from, code, lost) in [("rs:2+1", "rs:4+2", 2), ("raid5:3", "raid6:8", 2), ("rs:2+2", "lrc:4+2+2", 2)] {
        let all = merge_some(12, from, code).await;
        let record = &all.recoded.record;
        all.assert_sound(record).await;
        all.assert_reads(record).await;
        for lost in subsets(record.shards.len(), lost) {
            all.house.lose(record, &lost);
            all.house.read_same(all.merged, &Arc::new(record.clone()), 0..all.data.len() as u64, &all.data).await;
        }
    }
    // What was merged is merged again.
    let house = House::new(20);
    let (mut pairs, mut data) = (Vec::new(), Vec::new());
    for round in 0..40 {
        let mut candidates = house.transfer.merge_candidates();
        let (mut written, mut of_round) = (Vec::new(), Vec::new());
        for number in 0..40 {
            let id = segment(100 * round + number);
            let bytes = bytes(SOURCE_BYTES, 100 * round + number);
            let record = (*house.write(id, "replica:2", &bytes).await).clone();
            written.push((id, record.clone(), bytes));
            if let Some(group) = candidates.offer(id, record, "rs:2+1").into_iter().find(|group| group.len() > 1) {
                of_round = group;
                break;
            }
        }
        let of = |id: &SegmentId| written.iter().find(|(segment, ..)| segment == id).expect("written");
        let sources: Vec<_> = of_round.iter().map(|id| (*id, of(id).1.clone())).collect();
        let merged = segment(10_000 + round);
        let record = house.transfer.merge(merged, &sources, "rs:2+1").await.expect("merged").record;
        pairs.push((merged, record));
        data.push(of_round.iter().flat_map(|id| of(id).2.clone()).collect::<Vec<u8>>());
        let mut candidates = house.transfer.merge_candidates();
        let offered = pairs.iter().flat_map(|(id, record)| candidates.offer(*id, record.clone(), "rs:4+2"));
        let Some(pair) = offered.into_iter().find(|group| group.len() > 1) else { continue };
        let at = |id: &SegmentId| pairs.iter().position(|(segment, _)| segment == id).expect("merged");
        let sources: Vec<_> = pair.iter().map(|id| pairs[at(id)].clone()).collect();
        let recoded = house.transfer.merge(segment(20_000), &sources, "rs:4+2").await.expect("merged again");
        assert_eq!((recoded.record.geometry.source_count, recoded.written_count), (4, 2));
        let all: Vec<u8> = pair.iter().flat_map(|id| data[at(id)].clone()).collect();
        for lost in subsets(6, 2) {
            house.lose(&recoded.record, &lost);
            house.read_same(segment(20_000), &Arc::new(recoded.record.clone()), 0..all.len() as u64, &all).await;
        }
        return;
    }
    panic!("no two of 40 could be merged again");
}

#[tokio::test]
async fn repaired_moved_and_recoded_it_gets_shards_of_its_own() {
    let all = merge_some(12, "replica:3", "rs:4+2").await;
    let (house, merged) = (&all.house, all.merged);
    let mut record = all.recoded.record.clone();
    // One that is lost bears the merged segment's name when it is back, as one that moved.
    let lost = house.node_of(&record, 1);
    lost.memory.remove(key(merged, &record, 1)).await.expect("removed");
    let rebuilt = house.transfer.rebuild(merged, &record, &[ShardIndex(1), ShardIndex(5)]).await.expect("rebuilt");
    record = rebuilt.record;
    record = house.transfer.relocate(merged, &record, ShardIndex(2), None).await.expect("moved").record;
    let own = |record: &SegmentRecord| (0..6).filter(|index| key(merged, record, *index).segment == merged).count();
    assert_eq!(own(&record), 4, "two data shards, two parities");
    all.assert_sound(&record).await;
    all.assert_reads(&record).await;
    // More parities: the data stays, whatever its name. Copies: all is written anew.
    let wider = house.transfer.recode(merged, &record, "rs:4+3", None).await.expect("recoded");
    assert_eq!(own(&wider.record), 4);
    assert!(wider.reused_count >= 4 && wider.bytes_saved > 0, "{wider:?}");
    all.assert_sound(&wider.record).await;
    let copies = house.transfer.recode(merged, &wider.record, "replica:3", None).await.expect("recoded");
    assert_eq!((copies.record.geometry.source_count, copies.reused_count, copies.bytes_saved), (1, 0, 0));
    all.assert_sound(&copies.record).await;
    all.assert_reads(&copies.record).await;
    // Removing the merged segment removes what it named, whatever the name.
    let before = house.shards().await.len();
    let removal = house.remove(merged, &record).await;
    assert_eq!((removal.gone, removal.unknown.len()), (6, 0));
    assert_eq!(house.shards().await.len(), before - 6);
}

#[tokio::test]
async fn where_a_node_combines_a_lost_shard_of_a_source_is_rebuilt_so() {
    for (from, code) in [("rs:2+2", "lrc:4+2+2"), ("replica:3", "msr:4+4,d=7"), ("replica:2", "basic:4+4,d=6")] {
        let house = House::that_combines(14);
        let (sources, data) = group_of_length(&house, from, code, EVEN_BYTES).await;
        let record = house.transfer.merge(segment(1000), &sources, code).await.expect("merged").record;
        let rebuilt = house.transfer.rebuild(segment(1000), &record, &[ShardIndex(0)]).await.expect("rebuilt");
        assert_eq!(
            rebuilt.record.shards[0].as_ref().map(|shard| shard.digest),
            record.shards[0].as_ref().map(|shard| shard.digest)
        );
        house.read_same(segment(1000), &Arc::new(rebuilt.record), 0..data.len() as u64, &data).await;
    }
}

/// One segment, whose data shards stay while its code changes.
#[tokio::test]
async fn data_shards_stay_where_cells_are_cut_otherwise() {
    let house = House::new(14);
    let (data, id) = (bytes(EVEN_BYTES, 7), segment(1));
    let mut record = (*house.write(id, "rs:4+2", &data).await).clone();
    let places = |record: &SegmentRecord| -> Vec<_> {
        (0..4).map(|index| (house.node_of(record, index).id, key(id, record, index))).collect()
    };
    let before = places(&record);
    for (code, written) in [("clay:4+2", 2), ("msbasic:4", 4), ("crs:4+2", 2), ("rs:4+3", 3)] {
        let recoded = house.transfer.recode(id, &record, code, None).await.expect("recoded");
        assert_eq!((recoded.reused_count, recoded.written_count), (4, written), "{code}");
        assert!(recoded.bytes_saved >= EVEN_BYTES as u64, "{code}: {recoded:?}");
        record = recoded.record;
        assert_eq!(places(&record), before, "{code}: the data stays where it is");
        let health = house.transfer.verify(id, &record).await;
        assert_eq!(health.shards, vec![ShardHealth::Sound; record.shards.len()], "{code}");
        for lost in [vec![], vec![0, 3]] {
            house.lose(&record, &lost);
            house.read_same(id, &Arc::new(record.clone()), 0..data.len() as u64, &data).await;
        }
        house.heal();
        // One that moves or is rebuilt is the same again.
        record = house.transfer.relocate(id, &record, ShardIndex(5), None).await.expect("moved").record;
    }
}

#[tokio::test]
async fn what_cannot_be_merged_soundly_is_not_and_leaves_nothing() {
    let house = House::new(6);
    let (sources, _) = group_of(&house, "replica:3", "rs:4+2").await;
    let before = house.shards().await;
    let merged = segment(1000);
    let unfit = |outcome: Result<Recoded, RecodeError>| matches!(outcome, Err(RecodeError::Unfit { .. }));
    assert!(unfit(house.transfer.merge(merged, &sources[..3], "rs:4+2").await), "one too few");
    assert!(unfit(house.transfer.merge(merged, &[], "rs:4+2").await));
    assert!(unfit(house.transfer.merge(merged, &sources, "rs:6+3").await), "another count");
    let mut shorter = sources.clone();
    shorter[1].1.geometry.data_bytes -= 1;
    assert!(unfit(house.transfer.merge(merged, &shorter, "rs:4+2").await), "unlike lengths");
    // No room for a parity beside the four.
    house.nodes.iter().for_each(|node| {
        node.fault.set_script(every(Operation::Put, Fault::Fail(NodeErrorKind::Full)));
    });
    assert!(matches!(house.transfer.merge(merged, &sources, "rs:4+2").await, Err(RecodeError::Short { .. })));
    house.heal();
    assert_eq!(house.shards().await, before);
    house.fleet.refresh_space().await;
    // The other copies are of no help: they could be, but a repair comes first.
    let rotten = house.transfer.merge(merged, &sources, "rs:4+2").await.expect("merged").record;
    let aliased = key(merged, &rotten, 0);
    house.node_of(&rotten, 0).memory.remove(aliased).await.expect("removed");
    assert!(matches!(house.transfer.merge(segment(1001), &sources, "rs:4+2").await, Err(RecodeError::Unsound { .. })));
}
