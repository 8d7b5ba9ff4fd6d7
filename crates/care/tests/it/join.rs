//! Conversion where several segments become one, and where these become several again: their data stays where it is, and nobody who
//! reads or cleans up notices.

use crate::harness::mortal::Mortal;
use crate::harness::{NOW_MS, World, key};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use weft_care::collect::{self, Beside, Sightings, discard};
use weft_care::convert::{KEEP_MS, Options, Report, convert};
use weft_care::{Catalogue, Job};
use weft_env::Env;
use weft_format::records::{Later, PolicyRecord, RetiredRecord, SegmentRecord, Succession};
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
    let mut segments = world.catalogue.segments(None, usize::MAX).expect("read");
    segments.retain(|(segment, _)| world.catalogue.live_bytes(*segment).expect("read") > 0);
    segments
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
    let dead = world.catalogue.trash(u64::MAX, None, 9).expect("read");
    assert_eq!((world.stored().await, dead), (world.named(), Vec::new()));
}

#[tokio::test]
async fn copies_become_the_data_of_a_wider_code_and_the_others_go() {
    let world = written(12, "replica:3", 8).await;
    want(&world, "rs:4+2");
    let before = world.stored().await;
    let report = run(&world).await;
    assert_eq!((report.segment_count, report.joined_count, report.failures.len()), (8, 8, 0), "{report:?}");
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
    assert_eq!((report.trash.segment_count, report.trash.kept_count, report.orphans.removed_count), (8, 0, 0));
    assert_eq!((report.retired.generation_count, report.retired.bytes), (8, 16 * shard_bytes), "two copies of each");
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
    assert_eq!(world.catalogue.borrowers(first), Ok(None), "nor what was noted of it");
}

#[tokio::test]
async fn former_copies_go_when_their_time_is_over_though_trash_is_not_emptied() {
    let (world, before) = joined(12, "replica:3", "rs:4+2", 4).await;
    let shard_bytes = object_bytes(DATA_BYTES as u64);
    let sightings = Sightings::default();
    for (at_ms, count) in [(0, 0), (KEEP_MS, 4)] {
        assert_eq!(world.stored().await.len(), before.len() + 2, "and two parities");
        let beside = Beside { sightings: &sightings, at_ms };
        let report = discard(&*world.catalogue, &world.transfer(), &Job::new(&Env::system().clock), beside)
            .await
            .expect("discarded");
        assert_eq!((report.generation_count, report.bytes), (count, count * 2 * shard_bytes), "two copies of each");
    }
    let (whole, record) = living(&world).remove(0);
    let mut of_whole: Vec<_> = (0..6).map(|index| key(&record, whole, index)).collect();
    of_whole.sort();
    assert_eq!(world.stored().await, of_whole);
    want(&world, "rs:4+2");
    assert_whole(&world, "rs:4+2").await;
    assert_tidied(&world).await;
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
        assert!(report.joined_count >= count / 2, "{code}: {report:?}");
        assert_eq!(living(&world).len() as u64, count - report.joined_count / 2, "{code}");
        assert_whole(&world, code).await;
    }
    assert_tidied(&world).await;
    assert_whole(&world, "rs:8+3").await;
    // One's mind is changed: the copies are gone, so they are written anew, and nothing of the wide ones is left.
    want(&world, "replica:2");
    let report = run(&world).await;
    assert_eq!((report.failures.len(), report.revived_count, report.bytes_saved), (0, 0, 0));
    assert_whole(&world, "replica:2").await;
    // And again: they are there still.
    want(&world, "rs:8+3");
    let report = run(&world).await;
    assert_eq!((report.bytes_read, report.bytes_written, report.joined_count), (0, 0, 0), "{report:?}");
    assert_whole(&world, "rs:8+3").await;
    assert_tidied(&world).await;
}

/// Joined half an hour ago; and what was stored before.
async fn joined(node_count: u128, from: &str, code: &str, count: u128) -> (World, Vec<(NodeId, ShardKey)>) {
    let world = written(node_count, from, count).await;
    let before = world.stored().await;
    want(&world, code);
    let report = run(&world).await;
    assert_eq!((report.joined_count, report.failures.len()), (count as u64, 0), "{report:?}");
    want(&world, from);
    (world, before)
}

const HALF_AN_HOUR_MS: u64 = KEEP_MS / 2;

#[tokio::test]
async fn undone_within_the_hour_the_parts_are_segments_again_and_nothing_is_written() {
    for (from, code) in [("replica:3", "rs:4+2"), ("rs:4+2", "rs:8+3"), ("rs:2+1", "lrc:4+2+2")] {
        let (world, before) = joined(40, from, code, 8).await;
        let wholes = living(&world);
        // Collectors look all the while, and take what is dead, but not what may be taken back.
        collect_at(&world, NOW_MS + HALF_AN_HOUR_MS).await;
        let kept = collect::kept(&*world.catalogue).expect("read");
        let lent_count: usize = wholes
            .iter()
            .flat_map(|(_, record)| record.shards.iter().flatten())
            .filter(|shard| shard.origin.is_some())
            .count();
        let shard_bytes = wholes[0].1.shard_bytes();
        assert_eq!(
            (kept.generation_count, kept.bytes),
            (8, (before.len() - lent_count) as u64 * shard_bytes),
            "{from}"
        );
        let report = run_over(&world, &world.transfer(), NOW_MS + HALF_AN_HOUR_MS).await;
        assert_eq!(
            (report.segment_count, report.revived_count),
            (wholes.len() as u64, wholes.len() as u64),
            "{report:?}"
        );
        assert_eq!((report.bytes_read, report.bytes_written, report.failures.len()), (0, 0, 0), "{report:?}");
        assert!(report.bytes_saved > 8 * DATA_BYTES as u64 * 2, "{report:?}");
        assert_eq!(living(&world).len(), 8);
        assert_whole(&world, from).await;
        assert_eq!(collect::kept(&*world.catalogue), Ok(collect::Kept::default()));
        // What was computed for the wholes goes as what is dead does; all else lies where it ever lay.
        collect_at(&world, NOW_MS + HALF_AN_HOUR_MS).await;
        assert_eq!(world.stored().await, before, "{from}");
        assert_tidied(&world).await;
        assert_eq!(world.stored().await, before, "{from}");
        assert_whole(&world, from).await;
        // It is what it was: it may be joined again, and taken apart again.
        want(&world, code);
        assert_eq!(run(&world).await.joined_count, 8);
        want(&world, from);
        let report = run(&world).await;
        assert_eq!((report.bytes_written, report.revived_count), (0, wholes.len() as u64));
        assert_whole(&world, from).await;
        assert_tidied(&world).await;
        assert_eq!(world.stored().await, before, "{from}");
    }
}

#[tokio::test]
async fn what_was_joined_twice_goes_back_by_one_step_or_by_two() {
    for way in [&["rs:4+2", "rs:2+2", "replica:2"][..], &["rs:4+2", "replica:2"], &["rs:2+2", "rs:4+2", "replica:2"]] {
        let (world, before) = joined(40, "replica:2", "rs:2+2", 8).await;
        want(&world, "rs:4+2");
        assert_eq!(run(&world).await.joined_count, 4);
        want(&world, "rs:8+3");
        assert_eq!(run(&world).await.joined_count, 2);
        collect_at(&world, NOW_MS + HALF_AN_HOUR_MS).await;
        for code in way {
            want(&world, code);
            let report = run(&world).await;
            let is_wider = report.joined_count > 0;
            assert_eq!(
                (report.bytes_written == 0, report.failures.len()),
                (!is_wider, 0),
                "{way:?}: {code}: {report:?}"
            );
            assert_whole(&world, code).await;
            collect_at(&world, NOW_MS + HALF_AN_HOUR_MS).await;
            assert_whole(&world, code).await;
        }
        assert_tidied(&world).await;
        assert_eq!(world.stored().await, before, "{way:?}");
        assert_whole(&world, "replica:2").await;
    }
}

#[tokio::test]
async fn what_was_repaired_lost_or_moved_since_it_was_joined_is_made_whole() {
    // A lent shard moves to another node, and its former place is cleared.
    let (world, before) = joined(12, "replica:3", "rs:4+2", 4).await;
    let (whole, record) = living(&world).remove(0);
    let moved = world.transfer().relocate(whole, &record, ShardIndex(1), None).await.expect("moved");
    let retired = RetiredRecord::of(&record, &moved.record, NOW_MS, 0);
    let succession = Succession { retired, revived: None };
    world.catalogue.replace_segment(whole, &record, &moved.record, &succession).expect("committed");
    let cleared = collect_at(&world, NOW_MS + HALF_AN_HOUR_MS).await;
    assert_eq!((cleared.retired.generation_count, cleared.retired.bytes), (1, 0), "it is kept beside the copies");
    let report = run_over(&world, &world.transfer(), NOW_MS + HALF_AN_HOUR_MS).await;
    assert_eq!((report.revived_count, report.bytes_written), (1, 0), "{report:?}");
    assert_whole(&world, "replica:3").await;
    assert_tidied(&world).await;
    assert_eq!(world.stored().await, before);

    // A copy is lost, and another one rots.
    let (world, before) = joined(12, "replica:3", "rs:4+2", 4).await;
    let of_whole = living(&world).remove(0).1;
    let is_lent = |(node, _): &(NodeId, ShardKey)| of_whole.nodes().any(|of_whole| of_whole == *node);
    let others: Vec<_> = before.iter().filter(|shard| !is_lent(shard)).collect();
    let (lost, rotten) =
        (*others[0], **others.iter().find(|shard| shard.1.segment != others[0].1.segment).expect("one"));
    world.spoil(lost, |_| None).await;
    let flip = |mut bytes: Vec<u8>| {
        bytes[9_000] ^= 1;
        Some(bytes)
    };
    world.spoil(rotten, flip).await;
    let report = run(&world).await;
    assert_eq!((report.revived_count, report.failures.len()), (1, 0), "{report:?}");
    assert_eq!(report.bytes_written, 2 * object_bytes(DATA_BYTES as u64), "two copies");
    assert_whole(&world, "replica:3").await;
    assert_tidied(&world).await;

    // Nothing is left of one part but what the whole has: it is written anew with the others, from the whole.
    let (world, before) = joined(12, "rs:2+1", "rs:4+2", 2).await;
    let of_whole = living(&world).remove(0).1;
    let lent: BTreeSet<NodeId> =
        of_whole.shards.iter().flatten().filter(|shard| shard.origin.is_some()).map(|shard| shard.node).collect();
    let parity = before.iter().find(|(node, _)| !lent.contains(node)).expect("one");
    let (_, data) =
        before.iter().find(|(node, key)| lent.contains(node) && key.segment == parity.1.segment).expect("one");
    let lost = before.iter().filter(|(_, key)| key == data || *key == parity.1);
    for shard in lost.copied().collect::<Vec<_>>() {
        world.spoil(shard, |_| None).await;
    }
    let report = run(&world).await;
    assert_eq!((report.segment_count, report.revived_count, report.failures.len()), (1, 0, 0), "{report:?}");
    assert_eq!(living(&world).len(), 1);
    assert_whole(&world, "rs:2+1").await;
    assert_tidied(&world).await;
}

#[tokio::test]
async fn when_their_time_is_over_or_they_are_being_removed_it_is_too_late() {
    let (world, _) = joined(12, "replica:3", "rs:4+2", 4).await;
    let first = *world.files.keys().next().expect("one");
    let retired = world.catalogue.retired_of(first).expect("read").remove(0);
    let going = RetiredRecord { is_going: true, ..retired.clone() };
    world.catalogue.replace_retired(first, &retired, Some(&going)).expect("marked");
    let report = run(&world).await;
    assert_eq!((report.segment_count, report.revived_count, report.failures.len()), (1, 0, 0));
    assert_whole(&world, "replica:3").await;
    assert_tidied(&world).await;
    // By a collector that comes between the look at what is kept and the taking back.
    let (world, _) = joined(12, "replica:3", "rs:4+2", 4).await;
    let retired = world.catalogue.retired_of(first).expect("read").remove(0);
    let transfer = world.transfer_through(|_, node: Arc<dyn Node>| {
        let (catalogue, retired) = (world.catalogue.clone(), retired.clone());
        let script = move |call: &Call| {
            if call.operation == Operation::Get {
                let going = RetiredRecord { is_going: true, ..retired.clone() };
                let _ = catalogue.replace_retired(first, &retired, Some(&going));
            }
            Fault::None
        };
        Arc::new(FaultNode::new(node, "busy", Box::new(script)))
    });
    let report = run_over(&world, &transfer, NOW_MS).await;
    assert_eq!((report.segment_count, report.revived_count, report.failures.len()), (1, 0, 0), "{report:?}");
    assert_whole(&world, "replica:3").await;
    assert_tidied(&world).await;
    // And by another process than the owner's.
    let (world, _) = joined(12, "replica:3", "rs:4+2", 4).await;
    world.catalogue.set_owner(false);
    let report = run(&world).await;
    assert_eq!((report.segment_count, report.revived_count, report.failures.len()), (1, 0, 0));
    assert_whole(&world, "replica:3").await;
    assert_tidied(&world).await;
}

/// What is kept, and how often the catalogue was asked for that.
fn kept(world: &World) -> (collect::Kept, u64) {
    let before = world.catalogue.call_count();
    let kept = collect::kept(&*world.catalogue).expect("read");
    (kept, world.catalogue.call_count() - before)
}

#[tokio::test]
async fn to_tell_what_is_kept_takes_one_question_for_each_whole_and_each_segment_that_was_not_joined() {
    // A page of what is retired, and an empty one.
    const PAGES: u64 = 2;
    let copy_bytes = object_bytes(DATA_BYTES as u64);
    let (world, _) = joined(12, "replica:3", "rs:4+2", 32).await;
    let is_kept = collect::Kept { generation_count: 32, bytes: 32 * 2 * copy_bytes };
    assert_eq!(kept(&world), (is_kept, PAGES + 8), "two copies of each are nobody else's");

    let world = written(12, "replica:3", 32).await;
    world.catalogue.set_owner(false);
    want(&world, "rs:4+2");
    assert_eq!(run(&world).await.joined_count, 0);
    let is_kept = collect::Kept { generation_count: 32, bytes: 32 * 3 * copy_bytes };
    assert_eq!(kept(&world), (is_kept, PAGES + 32));

    // Of those in the middle the parities, and of the first ones a copy, are nobody else's.
    let (world, _) = joined(40, "replica:2", "rs:2+2", 8).await;
    want(&world, "rs:4+2");
    assert_eq!(run(&world).await.joined_count, 4);
    let is_kept = collect::Kept { generation_count: 8 + 4, bytes: (8 + 4 * 2) * copy_bytes };
    assert_eq!(kept(&world), (is_kept, PAGES + 2));
}

/// How many shards lie on nodes that no record names, former ones included.
async fn orphan_count(world: &World) -> usize {
    let retired = world.catalogue.retired(None, usize::MAX).expect("read");
    let is_former = |(node, key): &(NodeId, ShardKey)| {
        retired.iter().any(|(segment, retired)| retired.record.has_at(*segment, *node, *key))
    };
    let named = world.named();
    world.stored().await.iter().filter(|shard| !named.contains(shard) && !is_former(shard)).count()
}

#[tokio::test]
async fn while_another_process_owns_the_volume_each_is_converted_by_itself_and_afterwards_they_are_joined() {
    let world = written(12, "replica:3", 8).await;
    let segments: Vec<SegmentId> = world.files.keys().copied().collect();
    let want_of = |segments: &[SegmentId]| {
        segments.iter().for_each(|segment| world.catalogue.set_policies(*segment, &[PolicyRecord::of("rs:4+2", None)]));
    };
    want_of(&segments[..4]);
    world.catalogue.set_owner(false);
    let report = run(&world).await;
    assert_eq!((report.segment_count, report.joined_count, report.bytes_saved), (4, 0, 0));
    assert_eq!(orphan_count(&world).await, 0, "nothing was stored in vain");
    want_of(&segments[4..]);
    world.catalogue.set_owner(true);
    let report = run(&world).await;
    assert_eq!((report.segment_count, report.joined_count, report.failures.len()), (4, 4, 0), "{report:?}");
    assert_eq!(orphan_count(&world).await, 0);
    assert_whole(&world, "rs:4+2").await;
    assert_tidied(&world).await;
}

#[tokio::test]
async fn who_comes_to_own_the_volume_meanwhile_costs_one_joining_and_is_left_alone() {
    let world = written(12, "replica:3", 8).await;
    want(&world, "rs:4+2");
    let put_count = Arc::new(AtomicU64::new(0));
    let transfer = world.transfer_through(|_, node: Arc<dyn Node>| {
        let (catalogue, put_count) = (world.catalogue.clone(), put_count.clone());
        let script = move |call: &Call| {
            if call.operation == Operation::Put {
                // While the two parities of the first joining are stored, and no longer.
                catalogue.set_owner(put_count.fetch_add(1, Ordering::SeqCst) > 1);
            }
            Fault::None
        };
        Arc::new(FaultNode::new(node, "busy", Box::new(script)))
    });
    let options = Options { workers: 1, ..Options::default() };
    let report = convert(world.catalogue.clone(), &transfer, &Job::new(&Env::system().clock), options, NOW_MS).await;
    let report = report.expect("converted");
    assert_eq!((report.segment_count, report.joined_count, report.failures.len()), (8, 0, 0), "{report:?}");
    assert_eq!(orphan_count(&world).await, 2, "the parities of the first joining");
    assert_whole(&world, "rs:4+2").await;
    assert_tidied(&world).await;
}

#[tokio::test]
async fn what_is_joined_by_a_rule_of_age_is_as_old_as_before() {
    let world = written(12, "replica:3", 4).await;
    let later = Some(Later { code: "rs:4+2".into(), after_ms: 60_000 });
    for segment in world.files.keys() {
        world
            .catalogue
            .set_policies(*segment, &[PolicyRecord { later: later.clone(), ..PolicyRecord::of("replica:3", None) }]);
    }
    assert_eq!(run_over(&world, &world.transfer(), NOW_MS + 59_000).await, Report::default());
    let report = run_over(&world, &world.transfer(), NOW_MS + 60_000).await;
    assert_eq!((report.segment_count, report.joined_count), (4, 4));
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
    assert_eq!((report.segment_count, report.joined_count, report.failures.len()), (4, 0, 0), "{report:?}");
    assert_whole(&world, "rs:4+2").await;
    assert_tidied(&world).await;
}

#[tokio::test]
async fn rotten_copies_are_not_joined_and_silent_nodes_are_not_relied_on() {
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
async fn killed_at_any_step_of_an_undoing_every_file_is_whole_and_nothing_is_left_behind() {
    for after in [false, true] {
        for steps in 0.. {
            let (world, before) = joined(12, "replica:2", "rs:2+2", 4).await;
            // One copy is to be made anew.
            let is_lent = |(node, key): &(NodeId, ShardKey)| {
                living(&world).iter().any(|(whole, record)| record.has_at(*whole, *node, *key))
            };
            world.spoil(*before.iter().find(|shard| !is_lent(shard)).expect("one"), |_| None).await;
            let is_killed = killed(&world, steps, after).await;
            world.assert_contents().await;
            // A collector comes right then, and by a clock that is hours ahead one that nobody is beside.
            let now_ms = if steps % 2 == 0 { NOW_MS } else { NOW_MS + 2 * KEEP_MS };
            collect_at(&world, now_ms).await;
            world.assert_contents().await;
            let report = run(&world).await;
            assert_eq!(report.failures, [], "after {steps} steps");
            assert_whole(&world, "replica:2").await;
            if steps % 2 == 0 || !is_killed {
                assert_eq!(living(&world).len(), 4, "after {steps} steps");
            }
            assert_tidied(&world).await;
            assert_whole(&world, "replica:2").await;
            if !is_killed {
                assert!(steps > 15, "two undoings have more steps than {steps}");
                break;
            }
        }
    }
}

#[tokio::test]
async fn killed_at_any_step_of_a_collection_nothing_is_taken_that_an_undoing_needs() {
    for steps in 0.. {
        let (world, _) = joined(12, "replica:2", "rs:2+2", 4).await;
        let mortal = Mortal::new(&world, steps, steps % 2 == 0);
        let options = collect::Options { grace_ms: 0, in_use: None, dry_run: false };
        let job = Job::new(&Env::system().clock);
        let is_killed = mortal
            .kills(collect::collect(mortal.catalogue(), &mortal.transfer, &job, options, NOW_MS + 2 * KEEP_MS))
            .await;
        let report = run(&world).await;
        assert_eq!(report.failures, [], "after {steps} steps");
        assert_whole(&world, "replica:2").await;
        assert_tidied(&world).await;
        assert_whole(&world, "replica:2").await;
        if !is_killed {
            assert!(steps > 15, "a collection has more steps than {steps}");
            break;
        }
    }
}

#[tokio::test]
async fn killed_at_any_step_every_file_is_whole_and_nothing_is_left_behind() {
    for after in [false, true] {
        for steps in 0.. {
            let world = written(12, "replica:2", 4).await;
            want(&world, "rs:2+2");
            let is_killed = killed(&world, steps, after).await;
            world.assert_contents().await;
            // A collector that comes right then takes nothing that anybody needs.
            collect_at(&world, NOW_MS).await;
            world.assert_contents().await;
            let report = run(&world).await;
            assert_eq!(report.failures, [], "after {steps} steps");
            assert_whole(&world, "rs:2+2").await;
            assert_tidied(&world).await;
            assert_whole(&world, "rs:2+2").await;
            if !is_killed {
                assert!(steps > 20, "two joinings have more steps than {steps}");
                assert_eq!(living(&world).len(), 2, "both were joined");
                break;
            }
        }
    }
}
