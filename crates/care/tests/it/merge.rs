//! Conversion where several segments become one: their data stays where it is, and nobody who reads or cleans up notices.

use crate::harness::mortal::Mortal;
use crate::harness::{NOW_MS, World, key};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use weft_care::collect;
use weft_care::convert::{KEEP_MS, Options, Report, convert};
use weft_care::{Catalogue, Job};
use weft_env::Env;
use weft_format::records::{Later, PolicyRecord, RetainedRecord, SegmentRecord, Succession};
use weft_format::removal::Queued;
use weft_format::shard::object_bytes;
use weft_format::{NodeId, SegmentId, ShardIndex, ShardKey};
use weft_nodes::Node;
use weft_nodes::wrappers::fault::Call;
use weft_nodes::wrappers::{Fault, FaultNode, Operation};
use weft_transfer::Transfer;

const DATA_BYTES: usize = 40_000;

/// Segments of one length on so many nodes.
async fn written(node_count: u128, code: &str, count: u128) -> World {
    let mut world = World::new(node_count);
    world.catalogue.set_owner(true);
    for number in 0..count {
        let data: Vec<u8> = (0..DATA_BYTES).map(|at| (at * 31 / 7 + number as usize * 5) as u8).collect();
        let (segment, record) = world.put(number, code, &data).await;
        world.catalogue.commit(segment, record, &format!("/f{number}"));
        world.files.insert(segment, data);
    }
    world
}

fn living(world: &World) -> Vec<(SegmentId, SegmentRecord)> {
    let segments = world.catalogue.survey(None, usize::MAX).expect("read").into_iter();
    segments.filter(|entry| entry.live_bytes > 0).map(|entry| (entry.segment, entry.record)).collect()
}

/// All files want this code.
fn want(world: &World, code: &str) {
    for (segment, _) in living(world) {
        world.catalogue.set_policies(segment, &[PolicyRecord::of(code, None)]);
    }
}

async fn run_over(world: &World, transfer: &Transfer, now_ms: u64) -> Report {
    let (job, options) = (Job::new(&Env::system().clock), Options::default());
    convert(world.catalogue.clone(), transfer, &job, options, now_ms).await.expect("converted")
}

async fn run(world: &World) -> Report {
    run_over(world, &world.transfer(), NOW_MS).await
}

async fn collect_at(world: &World, now_ms: u64) -> collect::Report {
    let options = collect::Options { grace_ms: 0, in_use: None, dry_run: false };
    let report =
        collect::collect(world.catalogue.clone(), &world.transfer(), &Job::new(&Env::system().clock), options, now_ms)
            .await;
    report.expect("collected")
}

/// Every living segment is sound, of this code, each shard on a node of its own; every file reads back.
async fn assert_whole(world: &World, code: &str) {
    for (segment, record) in living(world) {
        assert_eq!(record.code, code);
        assert_eq!(world.sound_count(segment).await, record.shards.len());
        let nodes: BTreeSet<NodeId> = record.nodes().collect();
        assert_eq!(nodes.len(), record.shards.len(), "two shards on one node");
    }
    world.assert_contents().await;
}

/// After two collections nothing lies on nodes but what living segments name.
async fn assert_tidied(world: &World) {
    collect_at(world, NOW_MS + 2 * KEEP_MS).await;
    collect_at(world, NOW_MS + 4 * KEEP_MS).await;
    let dead = world.catalogue.unreferenced(None, 9).expect("read");
    assert_eq!((world.stored().await, dead), (world.named(), Vec::new()));
}

#[tokio::test]
async fn copies_become_the_data_of_a_wider_code_and_the_others_go() {
    let world = written(12, "replica:3", 8).await;
    want(&world, "rs:4+2");
    let before = world.stored().await;
    let report = run(&world).await;
    assert_eq!((report.segment_count, report.merged_count, report.failures.len()), (8, 8, 0), "{report:?}");
    let shard_bytes = object_bytes(DATA_BYTES as u64);
    assert_eq!(report.bytes_written, 2 * 2 * shard_bytes, "two parities for each four");
    assert_eq!(report.data_bytes, 8 * DATA_BYTES as u64);
    // Each by itself would have been read once, and written one and a half times.
    let plain = 8 * (DATA_BYTES as u64 + 6 * object_bytes(DATA_BYTES as u64 / 4));
    assert_eq!(report.bytes_saved, plain - report.bytes_read - report.bytes_written);
    assert!(report.bytes_saved > plain * 2 / 5, "{report:?}");
    assert_eq!(living(&world).len(), 2);
    assert_whole(&world, "rs:4+2").await;
    assert_eq!(run(&world).await, Report::default(), "all is as wanted");
    // Nothing is removed before its time, and of the copies one of each never.
    let now = world.stored().await;
    assert!(before.iter().all(|shard| now.contains(shard)));
    let report = collect_at(&world, NOW_MS + KEEP_MS + 60_000).await;
    assert_eq!((report.trash.segment_count, report.trash.bytes), (8, 16 * shard_bytes), "two copies of each");
    assert_eq!((report.trash.kept_count, report.retained.generation_count, report.orphans.removed_count), (0, 0, 0));
    assert_eq!(world.stored().await, world.named());
    assert_whole(&world, "rs:4+2").await;
    // The orphans' own look comes to the same, twice.
    for hours in 2..4 {
        let report = collect_at(&world, NOW_MS + hours * KEEP_MS).await;
        assert_eq!((report.orphans.removed_count, report.orphans.young_count), (0, 0));
    }
    // Two of the nodes are lost with what they hold.
    let (segment, record) = living(&world).remove(0);
    let lost = [0, 5].map(|index| key(&record, segment, index));
    for shard in lost {
        world.spoil(shard, |_| None).await;
    }
    let repaired = world.repair(&world.transfer()).await.expect("repaired");
    assert_eq!(repaired.rebuilt_count, 2, "{repaired:?}");
    assert_whole(&world, "rs:4+2").await;
    assert_tidied(&world).await;
    // At the end of all nothing is left, under whatever name.
    for (segment, _) in living(&world) {
        world.catalogue.kill(segment, NOW_MS);
    }
    collect_at(&world, NOW_MS + 9 * KEEP_MS).await;
    assert_eq!(world.stored().await, []);
    let first = *world.files.keys().next().expect("one");
    assert_eq!(world.catalogue.aliases(first), Ok(Vec::new()), "nor what was noted of it");
}

#[tokio::test]
async fn narrow_segments_become_wide_ones_again_and_again_and_turn_back() {
    let world = written(16, "replica:2", 16).await;
    for code in ["rs:2+2", "rs:4+2", "rs:8+3"] {
        let count = living(&world).len() as u64;
        want(&world, code);
        let report = run(&world).await;
        assert_eq!(report.failures, []);
        // Two and two, but for those whose shards are by chance on the nodes of all others.
        assert!(report.merged_count >= count / 2, "{code}: {report:?}");
        assert_eq!(living(&world).len() as u64, count - report.merged_count / 2, "{code}");
        assert_whole(&world, code).await;
    }
    assert_tidied(&world).await;
    assert_whole(&world, "rs:8+3").await;
    // One's mind is changed: the copies are gone, so they are written anew, and nothing of the wide ones is left.
    want(&world, "replica:2");
    let report = run(&world).await;
    assert_eq!((report.failures.len(), report.restored_count, report.bytes_saved), (0, 0, 0));
    assert_whole(&world, "replica:2").await;
    // And again: they are there still.
    want(&world, "rs:8+3");
    let report = run(&world).await;
    assert_eq!((report.bytes_read, report.bytes_written, report.merged_count), (0, 0, 0), "{report:?}");
    assert_whole(&world, "rs:8+3").await;
    assert_tidied(&world).await;
}

/// Merged, by itself, and what was stored before.
async fn merged(node_count: u128, from: &str, code: &str, count: u128) -> (World, Vec<(NodeId, ShardKey)>) {
    let world = written(node_count, from, count).await;
    let before = world.stored().await;
    want(&world, code);
    let report = run(&world).await;
    assert_eq!((report.merged_count, report.failures.len()), (count as u64, 0), "{report:?}");
    (world, before)
}

#[tokio::test]
async fn put_back_to_the_code_of_before_it_is_converted_as_any_segment() {
    for (from, code) in
        [("replica:3", "rs:4+2"), ("rs:4+2", "rs:8+3"), ("rs:2+1", "lrc:4+2+2"), ("replica:3", "clay:4+2")]
    {
        let (world, _) = merged(40, from, code, 8).await;
        let count = living(&world).len() as u64;
        want(&world, from);
        let report = run(&world).await;
        assert_eq!((report.segment_count, report.restored_count, report.merged_count), (count, 0, 0), "{report:?}");
        assert_whole(&world, from).await;
        // Within the hour, and as it is one segment now, it takes its previous shards again.
        want(&world, code);
        let report = run(&world).await;
        assert_eq!((report.restored_count, report.bytes_written, report.failures.len()), (count, 0, 0), "{report:?}");
        assert_whole(&world, code).await;
        assert_tidied(&world).await;
        assert_whole(&world, code).await;
    }
}

#[tokio::test]
async fn a_shard_of_a_source_that_moves_is_the_merged_segments_until_its_former_place_is_cleared() {
    let (world, _) = merged(12, "replica:3", "rs:4+2", 4).await;
    let (segment, record) = living(&world).remove(0);
    let shard = key(&record, segment, 1);
    assert_ne!(shard.1.segment, segment);
    let moved = world.transfer().relocate(segment, &record, ShardIndex(1), None).await.expect("moved");
    let retained = RetainedRecord::of(&record, &moved.record, NOW_MS, 0);
    let succession = Succession { retained, restored: None };
    world.catalogue.replace_segment(segment, &record, &moved.record, &succession).expect("committed");
    assert_eq!(world.catalogue.aliases(shard.1.segment), Ok(vec![(shard.1, segment)]));
    let cleared = collect_at(&world, NOW_MS + KEEP_MS).await;
    assert_eq!((cleared.retained.generation_count, cleared.retained.bytes), (1, record.shard_bytes()));
    assert_eq!(world.catalogue.aliases(shard.1.segment), Ok(Vec::new()));
    assert!(!world.stored().await.contains(&shard));
    assert_tidied(&world).await;
    assert_whole(&world, "rs:4+2").await;
}

/// How many shards lie on nodes that no record names, previous ones included.
async fn orphan_count(world: &World) -> usize {
    let retained = world.catalogue.unreferenced(None, usize::MAX).expect("read");
    let is_previous = |(node, key): &(NodeId, ShardKey)| {
        retained.iter().any(|entry| match entry {
            Queued::Generation { segment, retained } => retained.record.has_at(*segment, *node, *key),
            Queued::Segment { .. } => false,
        })
    };
    let named = world.named();
    world.stored().await.iter().filter(|shard| !named.contains(shard) && !is_previous(shard)).count()
}

#[tokio::test]
async fn while_another_process_owns_the_volume_each_is_converted_by_itself_and_afterwards_they_are_merged() {
    let world = written(12, "replica:3", 8).await;
    let segments: Vec<SegmentId> = world.files.keys().copied().collect();
    let want_of = |segments: &[SegmentId]| {
        segments.iter().for_each(|segment| world.catalogue.set_policies(*segment, &[PolicyRecord::of("rs:4+2", None)]));
    };
    want_of(&segments[..4]);
    world.catalogue.set_owner(false);
    let report = run(&world).await;
    assert_eq!((report.segment_count, report.merged_count, report.bytes_saved), (4, 0, 0));
    assert_eq!(orphan_count(&world).await, 0, "nothing was stored in vain");
    want_of(&segments[4..]);
    world.catalogue.set_owner(true);
    let report = run(&world).await;
    assert_eq!((report.segment_count, report.merged_count, report.failures.len()), (4, 4, 0), "{report:?}");
    assert_eq!(orphan_count(&world).await, 0);
    assert_whole(&world, "rs:4+2").await;
    assert_tidied(&world).await;
}

#[tokio::test]
async fn who_comes_to_own_the_volume_meanwhile_costs_one_merge_and_is_left_alone() {
    let world = written(12, "replica:3", 8).await;
    want(&world, "rs:4+2");
    let put_count = Arc::new(AtomicU64::new(0));
    let transfer = world.transfer_through(|_, node: Arc<dyn Node>| {
        let (catalogue, put_count) = (world.catalogue.clone(), put_count.clone());
        let script = move |call: &Call| {
            if call.operation == Operation::Put {
                // While the two parities of the first merge are stored, and no longer.
                catalogue.set_owner(put_count.fetch_add(1, Ordering::SeqCst) > 1);
            }
            Fault::None
        };
        Arc::new(FaultNode::new(node, "busy", Box::new(script)))
    });
    let options = Options { workers: 1, ..Options::default() };
    let report = convert(world.catalogue.clone(), &transfer, &Job::new(&Env::system().clock), options, NOW_MS).await;
    let report = report.expect("converted");
    assert_eq!((report.segment_count, report.merged_count, report.failures.len()), (8, 0, 0), "{report:?}");
    assert_eq!(orphan_count(&world).await, 2, "the parities of the first merge");
    assert_whole(&world, "rs:4+2").await;
    assert_tidied(&world).await;
}

#[tokio::test]
async fn what_is_merged_by_a_rule_of_age_is_as_old_as_before() {
    let world = written(12, "replica:3", 4).await;
    let later = Some(Later { code: "rs:4+2".into(), after_ms: 60_000 });
    for segment in world.files.keys() {
        world
            .catalogue
            .set_policies(*segment, &[PolicyRecord { later: later.clone(), ..PolicyRecord::of("replica:3", None) }]);
    }
    assert_eq!(run_over(&world, &world.transfer(), NOW_MS + 59_000).await, Report::default());
    let report = run_over(&world, &world.transfer(), NOW_MS + 60_000).await;
    assert_eq!((report.segment_count, report.merged_count), (4, 4));
    assert_eq!(run_over(&world, &world.transfer(), NOW_MS + 61_000).await, Report::default());
    assert_eq!(living(&world)[0].0.created_ms(), NOW_MS);
}

#[tokio::test]
async fn a_repair_that_comes_in_between_is_not_undone() {
    let world = written(12, "replica:3", 4).await;
    want(&world, "rs:4+2");
    let moved = *world.files.keys().next().expect("one");
    let before = world.record(moved);
    let transfer = world.transfer();
    let repaired = transfer.relocate(moved, &before, weft_format::ShardIndex(0), None).await.expect("moved");
    // At the first put of a parity another process moves a copy.
    let catalogue = world.catalogue.clone();
    let transfer = world.transfer_through(|_, node: Arc<dyn Node>| {
        let (catalogue, before, repaired) = (catalogue.clone(), before.clone(), repaired.clone());
        let script = move |call: &Call| {
            if call.operation == Operation::Put {
                let _ = catalogue.replace_segment(moved, &before, &repaired.record, &Default::default());
            }
            Fault::None
        };
        Arc::new(FaultNode::new(node, "busy", Box::new(script)))
    });
    let report = run_over(&world, &transfer, NOW_MS).await;
    assert_eq!((report.segment_count, report.merged_count, report.failures.len()), (4, 0, 0), "{report:?}");
    assert_whole(&world, "rs:4+2").await;
    assert_tidied(&world).await;
}

#[tokio::test]
async fn rotten_copies_are_not_merged_and_silent_nodes_are_not_relied_on() {
    let world = written(12, "replica:3", 4).await;
    want(&world, "rs:4+2");
    let first = *world.files.keys().next().expect("one");
    for index in 0..2 {
        let flip = |mut bytes: Vec<u8>| {
            bytes[9_000] ^= 1;
            Some(bytes)
        };
        world.spoil(key(&world.record(first), first, index), flip).await;
    }
    let report = run(&world).await;
    assert_eq!((report.segment_count, report.failures.len()), (4, 0), "{report:?}");
    assert_whole(&world, "rs:4+2").await;
    let world = written(12, "replica:3", 4).await;
    want(&world, "rs:4+2");
    let silent = key(&world.record(first), first, 0).0;
    let report = run_over(&world, &world.transfer_without(&[silent]), NOW_MS).await;
    assert_eq!((report.segment_count, report.failures.len()), (4, 0), "{report:?}");
    assert!(living(&world).iter().all(|(_, record)| record.nodes().all(|node| node != silent)));
    assert_whole(&world, "rs:4+2").await;
}

/// A process that converts is killed after so many steps, or comes to its end: false.
async fn killed(world: &World, steps: i64, after: bool) -> bool {
    let mortal = Mortal::new(world, steps, after);
    let (job, options) = (Job::new(&Env::system().clock), Options { workers: 1, ..Options::default() });
    mortal.kills(convert(mortal.catalogue(), &mortal.transfer, &job, options, NOW_MS)).await
}

#[tokio::test]
async fn killed_at_any_step_of_a_collection_nothing_is_taken_that_the_merged_segments_need() {
    for steps in 0.. {
        let (world, _) = merged(12, "replica:2", "rs:2+2", 4).await;
        let mortal = Mortal::new(&world, steps, steps % 2 == 0);
        let options = collect::Options { grace_ms: 0, in_use: None, dry_run: false };
        let job = Job::new(&Env::system().clock);
        let is_killed = mortal
            .kills(collect::collect(mortal.catalogue(), &mortal.transfer, &job, options, NOW_MS + 2 * KEEP_MS))
            .await;
        assert_whole(&world, "rs:2+2").await;
        assert_tidied(&world).await;
        assert_whole(&world, "rs:2+2").await;
        if !is_killed {
            assert!(steps > 10, "a collection has more steps than {steps}");
            break;
        }
    }
}

#[tokio::test]
async fn killed_at_any_step_every_file_is_whole_and_nothing_is_left_behind() {
    for (after, code) in [(false, "rs:2+2"), (true, "rs:2+2"), (false, "clay:2+2"), (true, "msbasic:2")] {
        for steps in 0.. {
            let world = written(12, "replica:2", 4).await;
            want(&world, code);
            let is_killed = killed(&world, steps, after).await;
            world.assert_contents().await;
            // A collector that comes right then takes nothing that anybody needs.
            collect_at(&world, NOW_MS).await;
            world.assert_contents().await;
            let report = run(&world).await;
            assert_eq!(report.failures, [], "after {steps} steps");
            assert_whole(&world, code).await;
            assert_tidied(&world).await;
            assert_whole(&world, code).await;
            if !is_killed {
                assert!(steps > 20, "two merges have more steps than {steps}");
                assert_eq!(living(&world).len(), 2, "both were merged");
                break;
            }
        }
    }
}
