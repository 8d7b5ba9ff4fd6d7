//! Collecting: what is dead goes, what may be needed stays, and an error is no proof of anything.

use crate::harness::mortal::Mortal;
use crate::harness::{NOW_MS, World, key};
use std::sync::Arc;
use weft_care::collect::{Beside, GRACE_MS, Options, Report, UnreferencedSince, collect, empty_trash};
use weft_care::{CareError, Catalogue, CatalogueError, Job};
use weft_env::Env;
use weft_format::records::{Latest, NodeState, OpeningsRecord, RetainedRecord, Succession};
use weft_format::removal::{Candidate, Evidence, OWNER_GRACE_MS, Verdict, may_remove};
use weft_format::{NodeId, SegmentId, ShardKey};
use weft_nodes::wrappers::fault::Call;
use weft_nodes::wrappers::{Fault, FaultNode, Operation};
use weft_nodes::{Node, NodeErrorKind};
use weft_transfer::Transfer;

const NO_GRACE: Options<'static> = Options { grace_ms: 0, in_use: None, dry_run: false };
const GRACE: Options<'static> = Options { grace_ms: GRACE_MS, in_use: None, dry_run: false };

async fn run_over(world: &World, transfer: &Transfer, options: Options<'_>, now_ms: u64) -> Report {
    collect(world.catalogue.clone(), transfer, &Job::new(&Env::system().clock), options, now_ms)
        .await
        .expect("collected")
}

async fn run(world: &World, options: Options<'_>, now_ms: u64) -> Report {
    run_over(world, &world.transfer(), options, now_ms).await
}

/// All nodes, of which the one fails when it is asked for `operation`.
fn failing(world: &World, node: NodeId, operation: Operation, kind: NodeErrorKind, after_calls: usize) -> Transfer {
    world.transfer_through(|id, inner: Arc<dyn Node>| {
        if id != node {
            return inner;
        }
        let mut calls = 0;
        let script = move |call: &Call| {
            calls += usize::from(call.operation == operation);
            if call.operation == operation && calls > after_calls { Fault::Fail(kind) } else { Fault::None }
        };
        Arc::new(FaultNode::new(inner, "failing", Box::new(script)))
    })
}

#[tokio::test]
async fn dead_segments_go_after_their_grace_time() {
    let mut world = World::new(6);
    let dead = world.write(0, "rs:4+2").await;
    world.write(1, "rs:4+2").await;
    world.catalogue.kill(dead, NOW_MS);
    let early = run(&world, GRACE, NOW_MS + GRACE_MS - 1).await;
    assert_eq!((early.trash.segment_count, early.trash.young_count), (0, 1));
    assert_eq!(world.stored().await, world.named());
    let dry = run(&world, Options { dry_run: true, ..GRACE }, NOW_MS + GRACE_MS).await;
    assert_eq!(dry.trash.segment_count, 1);
    assert_eq!(world.stored().await.len(), 12, "a dry run removes nothing");
    let ripe = run(&world, GRACE, NOW_MS + GRACE_MS).await;
    assert_eq!((ripe.trash.segment_count, ripe.trash.kept_count), (1, 0));
    assert!(ripe.trash.bytes > 0);
    assert_eq!(world.catalogue.segment(dead), Ok(None));
    assert_eq!(world.stored().await, world.named());
    assert_eq!(world.stored().await.len(), 6);
    world.files.remove(&dead);
    world.assert_contents().await;
}

/// A crash may undo a deletion that is not durable, and then a file needs these shards.
#[tokio::test]
async fn no_shard_goes_before_the_deletion_is_durable() {
    let mut world = World::new(6);
    let dead = world.write(0, "rs:4+2").await;
    world.catalogue.kill(dead, NOW_MS);
    run(&world, GRACE, NOW_MS).await;
    run(&world, Options { dry_run: true, ..NO_GRACE }, NOW_MS).await;
    assert_eq!(world.catalogue.flush_count(), 0, "nothing was to be removed");
    world.catalogue.set_cannot_flush(true);
    let (job, unreferenced_since) = (Job::new(&Env::system().clock), UnreferencedSince::default());
    collect(world.catalogue.clone(), &world.transfer(), &job, NO_GRACE, NOW_MS).await.expect_err("not durable");
    for at_ms in [0, OWNER_GRACE_MS] {
        let beside = Beside { unreferenced_since: &unreferenced_since, at_ms };
        let emptied = empty_trash(world.catalogue.clone(), &world.transfer(), &job, beside).await;
        assert_eq!(emptied.is_ok(), at_ms == 0, "not durable, when its time is over");
    }
    assert_eq!(world.stored().await.len(), 6);
    world.catalogue.set_cannot_flush(false);
    assert_eq!(run(&world, NO_GRACE, NOW_MS).await.trash.segment_count, 1);
    assert_eq!(world.stored().await, []);
}

#[tokio::test]
async fn a_dead_segment_waits_for_a_silent_node_and_not_for_a_lost_one() {
    let mut world = World::new(6);
    let dead = world.write(0, "rs:4+2").await;
    world.catalogue.kill(dead, NOW_MS);
    let away = NodeId(3);
    let report = run_over(&world, &world.transfer_without(&[away]), NO_GRACE, NOW_MS).await;
    assert_eq!((report.trash.segment_count, report.trash.kept_count), (0, 1));
    assert!(world.catalogue.segment(dead).expect("read").is_some(), "the record stays as long as a shard may");
    // The node comes back: the rest goes.
    assert_eq!(run(&world, NO_GRACE, NOW_MS).await.trash.segment_count, 1);
    assert_eq!(world.stored().await, []);

    let dead = world.write(1, "rs:4+2").await;
    world.catalogue.kill(dead, NOW_MS);
    world.change_node(away, |record| record.state = NodeState::Lost);
    let report = run_over(&world, &world.transfer_without(&[away]), NO_GRACE, NOW_MS).await;
    assert_eq!((report.trash.segment_count, report.trash.kept_count), (1, 0));
    assert_eq!(world.catalogue.segment(dead), Ok(None));
}

/// One that looks again and again beside a mount, at `at_ms` of its own clock and whatever the wall clock says.
async fn look(world: &World, unreferenced_since: &UnreferencedSince, at_ms: u64, now_ms: u64) -> Report {
    run(world, Options { in_use: Some(Beside { unreferenced_since, at_ms }), ..GRACE }, now_ms).await
}

#[tokio::test]
async fn what_is_deleted_becomes_room_though_no_mount_lasts_as_long_as_its_grace() {
    let mut world = World::new(6);
    let dead = world.write(0, "rs:4+2").await;
    world.catalogue.kill(dead, NOW_MS);
    world.files.remove(&dead);
    // Mounts of seven seconds, each with its own clock: together they have seen it for 28 s after four mounts and for 35 s after five.
    let mut removed_counts = Vec::new();
    for mount in 0..5 {
        let unreferenced_since = UnreferencedSince::load(&*world.catalogue).expect("reads the note");
        for at_ms in [mount, mount + 7000] {
            let (job, beside) =
                (Job::new(&Env::system().clock), Beside { unreferenced_since: &unreferenced_since, at_ms });
            let emptied = empty_trash(world.catalogue.clone(), &world.transfer(), &job, beside).await;
            removed_counts.push(emptied.expect("empties").segment_count);
            beside.note(&*world.catalogue, at_ms != mount).expect("notes");
        }
    }
    assert_eq!(removed_counts, [0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    assert_eq!(world.stored().await, []);
}

#[tokio::test]
async fn a_slow_writer_loses_nothing_whatever_the_clocks_say() {
    let mut world = World::new(6);
    let data = vec![7; 50_000];
    let (segment, record) = world.put(0, "rs:4+2", &data).await;
    let (one, other) = (UnreferencedSince::default(), UnreferencedSince::default());
    // The writer is between its last shard and its commit, for almost the whole grace time.
    for at_ms in [0, GRACE_MS / 2, GRACE_MS - 1] {
        for now_ms in [NOW_MS + at_ms, NOW_MS + 100 * GRACE_MS, NOW_MS - 100 * GRACE_MS] {
            for unreferenced_since in [&one, &other] {
                let report = look(&world, unreferenced_since, at_ms, now_ms).await;
                assert_eq!((report.orphans.removed_count, report.orphans.young_count), (0, 6));
            }
        }
    }
    world.catalogue.commit(segment, record, "/slow");
    world.files.insert(segment, data);
    let report = look(&world, &one, 10 * GRACE_MS, NOW_MS + 10 * GRACE_MS).await;
    assert_eq!((report.orphans.removed_count, report.orphans.young_count), (0, 0));
    world.assert_contents().await;
}

#[tokio::test]
async fn while_a_mount_writes_no_grace_is_no_option() {
    let world = World::new(6);
    world.put(0, "rs:4+2", &[1; 1000]).await;
    let in_use = Some(Beside { unreferenced_since: &UnreferencedSince::default(), at_ms: 0 });
    let report = run(&world, Options { in_use, ..NO_GRACE }, NOW_MS).await;
    assert_eq!((report.grace_ms, report.orphans.removed_count, report.orphans.young_count), (GRACE_MS, 0, 6));
}

#[tokio::test]
async fn what_a_dead_writer_left_goes_when_it_was_seen_for_the_grace_time() {
    let world = World::new(6);
    world.put(0, "rs:4+2", &[1; 1000]).await;
    let unreferenced_since = UnreferencedSince::default();
    // Old enough by every clock, but never seen before: perhaps the clocks are wrong.
    let late_ms = NOW_MS + 100 * GRACE_MS;
    let first = look(&world, &unreferenced_since, 0, late_ms).await;
    assert_eq!((first.orphans.removed_count, first.orphans.young_count), (0, 6));
    assert_eq!(look(&world, &unreferenced_since, GRACE_MS - 1, late_ms).await.orphans.removed_count, 0);
    // A clock that has jumped back, or forward, hinders nothing.
    let second = look(&world, &unreferenced_since, GRACE_MS, NOW_MS - 1).await;
    assert_eq!((second.orphans.removed_count, second.orphans.young_count), (6, 0));
    assert!(second.orphans.removed_bytes > 0);
    assert_eq!(world.stored().await, []);
}

#[tokio::test]
async fn what_others_may_still_read_goes_when_it_was_seen_for_its_time() {
    let mut world = World::new(7);
    let (segment, node, previous) = moved(&mut world, 2 * GRACE_MS).await;
    let dead = world.write(1, "rs:4+2").await;
    world.catalogue.kill(dead, NOW_MS);
    world.files.remove(&dead);
    let (unreferenced_since, late_ms) = (UnreferencedSince::default(), NOW_MS + 100 * GRACE_MS);
    for (at_ms, dead_count, previous_count) in
        [(0, 0, 0), (GRACE_MS - 1, 0, 0), (GRACE_MS, 1, 0), (2 * GRACE_MS - 1, 0, 0), (2 * GRACE_MS, 0, 1)]
    {
        let report = look(&world, &unreferenced_since, at_ms, late_ms).await;
        assert_eq!(
            (report.trash.segment_count, report.retained.generation_count),
            (dead_count, previous_count),
            "{at_ms}"
        );
    }
    assert!(world.nodes[&node].stat(previous).await.is_err());
    assert_eq!(world.catalogue.retained_of(segment), Ok(Vec::new()));
    assert_eq!(world.stored().await, world.named());
    world.assert_contents().await;
}

#[tokio::test]
async fn without_grace_one_run_is_enough() {
    let mut world = World::new(6);
    let kept = world.write(1, "rs:4+2").await;
    world.put(0, "rs:4+2", &[1; 1000]).await;
    let dry = run(&world, Options { dry_run: true, ..NO_GRACE }, NOW_MS).await;
    assert_eq!((dry.orphans.removed_count, world.stored().await.len()), (6, 12));
    assert_eq!(run(&world, NO_GRACE, NOW_MS).await.orphans.removed_count, 6);
    assert_eq!(world.stored().await, world.named());
    assert_eq!(world.sound_count(kept).await, 6);
}

#[tokio::test]
async fn a_listing_error_removes_nothing_from_that_node() {
    let mut world = World::new(6);
    world.write(1, "rs:4+2").await;
    world.put(0, "rs:4+2", &[1; 1000]).await;
    let node = NodeId(2);
    for kind in [NodeErrorKind::Io, NodeErrorKind::Unavailable, NodeErrorKind::Denied, NodeErrorKind::WrongNode] {
        let report = run_over(&world, &failing(&world, node, Operation::List, kind, 0), NO_GRACE, NOW_MS).await;
        assert_eq!(report.orphans.skipped_nodes.len(), 1, "{kind:?}");
        assert_eq!(world.nodes[&node].list(None, 100).await.expect("listed").keys.len(), 2, "{kind:?}");
    }
    run(&world, NO_GRACE, NOW_MS).await;
    assert_eq!(world.stored().await, world.named());
}

#[tokio::test]
async fn an_error_in_the_middle_of_a_listing_removes_nothing_either() {
    let world = World::new(3);
    // More than one page of the listing.
    let node = NodeId(1);
    for number in 0..1500u128 {
        let segment = weft_format::SegmentId::new(NOW_MS, number);
        let key = weft_format::ShardKey {
            segment,
            generation: weft_format::Generation(0),
            index: weft_format::ShardIndex(0),
        };
        world.nodes[&node].put(key, &[bytes::Bytes::from_static(b"x")]).await.expect("put");
    }
    let transfer = failing(&world, node, Operation::List, NodeErrorKind::Io, 1);
    let report = run_over(&world, &transfer, NO_GRACE, NOW_MS).await;
    assert_eq!((report.orphans.removed_count, report.orphans.skipped_nodes.len()), (0, 1));
    assert_eq!(world.stored().await.len(), 1500);
    let report = run(&world, GRACE, NOW_MS).await;
    assert_eq!(report.orphans.young_count, 1500);
    assert_eq!(run(&world, GRACE, NOW_MS + GRACE_MS).await.orphans.removed_count, 1500);
}

#[tokio::test]
async fn a_shard_that_cannot_be_removed_is_told_and_tried_again() {
    let world = World::new(6);
    world.put(0, "rs:4+2", &[1; 1000]).await;
    let transfer = failing(&world, NodeId(2), Operation::Remove, NodeErrorKind::Denied, 0);
    let report = run_over(&world, &transfer, NO_GRACE, NOW_MS).await;
    assert_eq!((report.orphans.removed_count, report.orphans.failures.len()), (5, 1));
    assert_eq!(run(&world, NO_GRACE, NOW_MS).await.orphans.removed_count, 1);
    assert_eq!(world.stored().await, []);
}

#[tokio::test]
async fn a_node_that_returns_is_cleaned_of_what_was_rebuilt_meanwhile() {
    let mut world = World::new(7);
    let segment = world.write(0, "rs:4+2").await;
    let old = key(&world.record(segment), segment, 0);
    world.change_node(old.0, |record| record.state = NodeState::Lost);
    world.add_node(8);
    assert!(world.repair(&world.transfer_without(&[old.0])).await.expect("repaired").census.is_whole());
    world.add_node_again(old.0);
    assert!(world.stored().await.contains(&old), "its old shard came back with it");
    let report = run(&world, NO_GRACE, NOW_MS).await;
    assert_eq!(report.orphans.removed_count, 1);
    assert_eq!(world.stored().await, world.named());
    world.assert_contents().await;
}

#[tokio::test]
async fn during_a_repair_shards_of_known_segments_are_left_alone() {
    let mut world = World::new(7);
    let segment = world.write(0, "rs:4+2").await;
    let lost = key(&world.record(segment), segment, 0);
    world.change_node(lost.0, |record| record.state = NodeState::Lost);
    // A repair stored its shard, was killed long ago, and is started again.
    let rebuilt = world.transfer().rebuild(segment, &world.record(segment), &[lost.1.index]).await.expect("rebuilt");
    let late_ms = NOW_MS + 10 * GRACE_MS;
    let note = format!(
        r#"{{"version":2,"started_ms":{late_ms},"updated_ms":{late_ms},"ended_ms":null,"cursor":null,"segment_count":0,"bytes":0,"finding_count":0,"failure_count":0}}"#
    );
    world.catalogue.set_job(weft_care::record::REPAIR, Some(note.as_bytes())).expect("noted");
    let report = run(&world, GRACE, late_ms + 59_000).await;
    assert_eq!(report.orphans.removed_count, 0);
    let record = world.record(segment);
    world.catalogue.replace_segment(segment, &record, &rebuilt.record, &Default::default()).expect("committed");
    assert_eq!(world.sound_count(segment).await, 6);
}

/// A segment of which one shard was moved, and the previous place kept for `keep_ms` from now on.
async fn moved(world: &mut World, keep_ms: u64) -> (SegmentId, NodeId, ShardKey) {
    let segment = world.write(0, "rs:4+2").await;
    let record = world.record(segment);
    let (node, previous) = key(&record, segment, 2);
    let moved = world.transfer().relocate(segment, &record, previous.index, None).await.expect("moved");
    let retained = RetainedRecord::of(&record, &moved.record, NOW_MS, keep_ms);
    let succession = Succession { retained, restored: None };
    world.catalogue.replace_segment(segment, &record, &moved.record, &succession).expect("committed");
    (segment, node, previous)
}

#[tokio::test]
async fn previous_generations_go_when_their_time_is_over_and_not_before() {
    let mut world = World::new(7);
    let (segment, node, previous) = moved(&mut world, 2 * GRACE_MS).await;
    let is_there = async || world.nodes[&node].stat(previous).await.is_ok();
    for now_ms in [NOW_MS, NOW_MS + GRACE_MS, NOW_MS + 2 * GRACE_MS - 1] {
        let early = run(&world, NO_GRACE, now_ms).await;
        assert_eq!((early.retained.young_count, early.retained.generation_count), (1, 0));
        assert_eq!((early.orphans.young_count, early.orphans.removed_count), (0, 0), "no orphan: it is kept");
        assert!(is_there().await);
    }
    let due_ms = NOW_MS + 2 * GRACE_MS;
    let dry = run(&world, Options { dry_run: true, ..NO_GRACE }, due_ms).await;
    assert_eq!(dry.retained.generation_count, 1);
    assert!(is_there().await && world.catalogue.retained_of(segment).expect("read").len() == 1);
    let ripe = run(&world, NO_GRACE, due_ms).await;
    assert_eq!((ripe.retained.generation_count, ripe.retained.kept_count), (1, 0));
    assert!(ripe.retained.bytes > 0 && !is_there().await);
    assert_eq!(world.catalogue.retained_of(segment), Ok(Vec::new()));
    assert_eq!(world.stored().await, world.named());
    world.assert_contents().await;
}

#[tokio::test]
async fn a_silent_node_keeps_its_former_shard_and_a_killed_removal_is_brought_to_its_end() {
    let mut world = World::new(7);
    let (segment, node, previous) = moved(&mut world, 0).await;
    let silent = failing(&world, node, Operation::Remove, NodeErrorKind::Unavailable, 0);
    let report = run_over(&world, &silent, NO_GRACE, NOW_MS).await;
    assert_eq!((report.retained.kept_count, report.retained.generation_count), (1, 0));
    let kept = world.catalogue.retained_of(segment).expect("read");
    assert!(kept[0].is_going, "nobody may name it again");
    assert!(world.nodes[&node].stat(previous).await.is_ok());
    let mut steps = 0;
    loop {
        let mortal = Mortal::new(&world, steps, steps % 2 == 0);
        let (job, catalogue) = (Job::new(&Env::system().clock), mortal.catalogue());
        let killed = mortal.kills(collect(catalogue, &mortal.transfer, &job, NO_GRACE, NOW_MS)).await;
        world.assert_contents().await;
        if !killed {
            break;
        }
        steps += 1;
    }
    assert!(steps > 5, "{steps} steps");
    assert_eq!(world.catalogue.retained_of(segment), Ok(Vec::new()));
    assert_eq!(world.stored().await, world.named());
}

#[tokio::test]
async fn thin_segments_are_told() {
    let mut world = World::new(6);
    let thin = world.write(0, "rs:4+2").await;
    let half = world.write(1, "rs:4+2").await;
    world.write(2, "rs:4+2").await;
    let data_bytes = |segment| world.record(segment).geometry.data_bytes;
    world.catalogue.set_live_bytes(thin, 10);
    world.catalogue.set_live_bytes(half, data_bytes(half).div_ceil(2));
    let report = run(&world, GRACE, NOW_MS).await;
    assert_eq!(report.thin_count, 1);
    assert_eq!(report.thin[0].segment, thin.to_string());
    assert_eq!(report.thin_dead_bytes, data_bytes(thin) - 10);
}

/// Of a segment of this count of an opening.
fn number(opening: u128, count: u128) -> u128 {
    (opening << 48) | (count << 16) | 5
}

/// Metadata that was opened so often, and whose latest opening is settled up to a count.
fn opened(world: &World, times: u32, settled_below: u32) -> OpeningsRecord {
    let openings = (0..times).fold(OpeningsRecord::default(), |openings, tag| openings.followed_by(tag.into(), NOW_MS));
    let latest = openings.latest.map(|latest| Latest { settled_below, ..latest });
    let openings = OpeningsRecord { latest, ..openings };
    world.catalogue.set_openings(openings.clone());
    openings
}

#[tokio::test]
async fn finding_04_a_writer_that_sleeps_for_a_week_between_its_puts_and_its_commit_loses_nothing() {
    let mut world = World::new(6);
    let openings = opened(&world, 2, 3);
    let data = vec![7; 50_000];
    let (segment, record) = world.put(number(2, 3), "rs:4+2", &data).await;
    // What it gave up before that, and what was left by whoever had the volume before it.
    world.put(number(2, 2), "rs:4+2", &data).await;
    world.put(number(1, 9), "rs:4+2", &data).await;
    let unreferenced_since = UnreferencedSince::default();
    for days in 0..7 {
        let at_ms = days * 24 * 60 * 60 * 1000;
        let report = look(&world, &unreferenced_since, at_ms, NOW_MS + at_ms).await;
        let removed_count = if days == 1 { 12 } else { 0 };
        assert_eq!(report.orphans.removed_count, removed_count, "after {days} days");
    }
    // Nor does one that believes to be alone.
    assert_eq!(run(&world, NO_GRACE, NOW_MS + 100 * GRACE_MS).await.orphans.removed_count, 0);
    assert_eq!(world.stored().await.len(), 6);
    world.catalogue.commit(segment, record, "/slow");
    world.files.insert(segment, data.clone());
    world.assert_invariants().await;
    // Killed before it commits another: the next opening ends this one.
    world.put(number(2, 4), "rs:4+2", &data).await;
    assert_eq!(run(&world, NO_GRACE, NOW_MS + 100 * GRACE_MS).await.orphans.removed_count, 0);
    world.catalogue.set_openings(openings.followed_by(9, NOW_MS));
    assert_eq!(run(&world, NO_GRACE, NOW_MS + 100 * GRACE_MS).await.orphans.removed_count, 6);
    assert_eq!(world.stored().await, world.named());
}

#[tokio::test]
async fn finding_05_a_copy_of_the_metadata_removes_nothing_that_it_cannot_know() {
    let world = World::new(6);
    opened(&world, 3, 5);
    // By openings of the original after the copy was taken, and by the one in which it was.
    for (opening, count) in [(4, 0), (9, 100), (3, 5)] {
        world.put(number(opening, count), "rs:4+2", &[3; 5000]).await;
    }
    for in_use in [None, Some(Beside { unreferenced_since: &UnreferencedSince::default(), at_ms: 0 })] {
        let options = Options { in_use, ..NO_GRACE };
        let orphans = run(&world, options, NOW_MS + 100 * GRACE_MS).await.orphans;
        assert_eq!((orphans.removed_count, orphans.unknown_count, orphans.young_count), (0, 12, 6));
    }
    assert_eq!(world.stored().await.len(), 18);
}

#[tokio::test]
async fn finding_05_openings_on_nodes_are_no_orphans() {
    let world = World::new(6);
    let latest = opened(&world, 2, 0).latest.expect("opened").opening;
    let transfer = world.transfer();
    let known = transfer.look_for_openings(Some(latest)).await;
    assert_eq!(transfer.publish_opening(latest, &known.held).await, None);
    let report = run(&world, NO_GRACE, NOW_MS + 100 * GRACE_MS).await;
    assert_eq!((report.orphans.listed_count, report.orphans.removed_count), (0, 0));
    assert_eq!(world.stored().await.len(), 6);
    assert_eq!(weft_care::openings::check(&*world.catalogue, &transfer).await, Ok(()));
}

#[tokio::test]
async fn finding_05_whoever_works_by_an_older_copy_changes_nothing() {
    let mut world = World::new(7);
    let segment = world.write(0, "rs:4+2").await;
    let record = world.record(segment);
    let newer = opened(&world, 3, 0).latest.expect("opened").opening;
    let transfer = world.transfer();
    let known = transfer.look_for_openings(Some(newer)).await;
    assert_eq!(transfer.publish_opening(newer, &known.held).await, None);
    let stored = world.stored().await;
    opened(&world, 2, 0);
    let job = Job::new(&Env::system().clock);
    let work = collect(world.catalogue.clone(), &transfer, &job, NO_GRACE, NOW_MS);
    let refused = weft_care::openings::guarded(&*world.catalogue, &transfer, &job, work).await;
    let Err(CareError::Catalogue(CatalogueError::Superseded(why))) = refused else { panic!("{refused:?}") };
    assert!(why.contains("knows opening 2, and nodes know opening 3"), "{why}");
    // Nor what was begun before it was found out.
    let (node, shard) = key(&record, segment, 0);
    let verdict = may_remove(Candidate::own_shard(node, shard), Evidence::Author);
    let Verdict::Remove(removable) = verdict else { panic!("{verdict:?}") };
    let denied = transfer.remove_shard(removable).await;
    assert_eq!(denied.map_err(|error| error.kind), Err(NodeErrorKind::Denied));
    transfer.rebuild(segment, &record, &[shard.index]).await.expect_err("nothing is stored");
    transfer.recode(segment, &record, "rs:3+3", None).await.expect_err("nothing is stored");
    assert_eq!(world.stored().await, stored);
    world.assert_contents().await;
}
