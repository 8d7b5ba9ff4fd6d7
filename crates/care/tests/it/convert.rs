//! Conversion: segments get the code that their files' policies want, and nobody who reads notices.

use crate::harness::mortal::Mortal;
use crate::harness::{NOW_MS, World, key};
use std::sync::Arc;
use weft_care::convert::{KEEP_MS, Options, Report, convert};
use weft_care::{CareError, Catalogue, ConvertRecord, Job, collect};
use weft_env::Env;
use weft_format::records::{Later, PolicyRecord, RetainedRecord, Succession};
use weft_format::removal::{Evidence, Queued, Verdict, may_remove};
use weft_format::{NodeId, SegmentId, ShardIndex};
use weft_nodes::Node;
use weft_nodes::wrappers::fault::Call;
use weft_nodes::wrappers::{Fault, FaultNode, Operation};
use weft_transfer::Transfer;

/// When all times are over.
const AT_THE_END: Evidence = Evidence::Beside { seen_ms: u64::MAX };

fn want(world: &World, code: &str) {
    for segment in world.files.keys() {
        world.catalogue.set_policies(*segment, &[PolicyRecord::of(code, None)]);
    }
}

async fn run_over(world: &World, transfer: &Transfer, now_ms: u64) -> Result<Report, CareError> {
    convert(world.catalogue.clone(), transfer, &Job::new(&Env::system().clock), Options::default(), now_ms).await
}

async fn run(world: &World) -> Report {
    run_over(world, &world.transfer(), NOW_MS).await.expect("converted")
}

/// What a collection in a quiet hour leaves.
async fn collect_at(world: &World, now_ms: u64) -> collect::Report {
    let options = collect::Options { grace_ms: 0, in_use: None, dry_run: false };
    let report =
        collect::collect(world.catalogue.clone(), &world.transfer(), &Job::new(&Env::system().clock), options, now_ms)
            .await;
    report.expect("collected")
}

fn codes(world: &World) -> Vec<String> {
    world.files.keys().map(|segment| world.record(*segment).code).collect()
}

/// All shards of all files are sound, and each on a node of its own.
async fn assert_whole(world: &World) {
    for segment in world.files.keys() {
        let record = world.record(*segment);
        assert_eq!(world.sound_count(*segment).await, record.shards.len());
        let nodes: std::collections::BTreeSet<NodeId> = record.nodes().collect();
        assert_eq!(nodes.len(), record.shards.len(), "two shards on one node");
    }
    world.assert_contents().await;
}

async fn written(code: &str, count: u128) -> World {
    let mut world = World::new(12);
    for number in 0..count {
        world.write(number, code).await;
    }
    world
}

#[tokio::test]
async fn replicas_become_a_wide_code_and_the_former_shards_go_in_their_time() {
    let world = written("replica:3", 4).await;
    assert_eq!(run(&world).await, Report::default(), "nothing is wanted of them");
    want(&world, "rs:8+3");
    let before = world.named();
    let report = run(&world).await;
    assert_eq!((report.segment_count, report.failures.len(), report.bytes_saved), (4, 0, 0));
    let data_bytes: u64 = world.files.values().map(|data| data.len() as u64).sum();
    assert_eq!(report.data_bytes, data_bytes);
    assert!(report.bytes_read >= data_bytes && report.bytes_read < data_bytes * 11 / 10, "{report:?}");
    assert_eq!(codes(&world), ["rs:8+3"; 4]);
    assert_whole(&world).await;
    // Whoever reads by a previous record finds its shards, until their time is over.
    let early = collect_at(&world, NOW_MS + KEEP_MS - 1).await;
    assert_eq!((early.retained.young_count, early.orphans.removed_count), (4, 0));
    let stored = world.stored().await;
    assert!(before.iter().all(|shard| stored.contains(shard)));
    let late = collect_at(&world, NOW_MS + KEEP_MS + 60_000).await;
    assert_eq!((late.retained.generation_count, late.retained.kept_count), (4, 0));
    assert_eq!(world.stored().await, world.named());
    assert_whole(&world).await;
    assert_eq!(run(&world).await, Report::default(), "all is as wanted");
}

#[tokio::test]
async fn more_parities_fewer_and_other_ones_move_only_parities() {
    let world = written("rs:4+2", 3).await;
    let data_places = |world: &World| -> Vec<_> {
        let segments = world.files.keys().copied();
        segments
            .flat_map(|segment| (0..4).map(move |index| (segment, index)))
            .map(|(segment, index)| key(&world.record(segment), segment, index))
            .collect()
    };
    let before = data_places(&world);
    for (code, written_count) in [("rs:4+3", 1..=3), ("lrc:4+2+2", 0..=4), ("raid5:5", 0..=1), ("rs:4+2", 0..=2)] {
        want(&world, code);
        let report = run(&world).await;
        assert_eq!((report.segment_count, report.failures.len()), (3, 0), "{code}: {report:?}");
        assert_eq!(codes(&world), vec![code; 3]);
        assert_eq!(data_places(&world), before, "{code}: data stays where it is");
        let shard_bytes = world
            .object(key(
                &world.record(*world.files.keys().next().expect("one")),
                *world.files.keys().next().expect("one"),
                0,
            ))
            .await
            .len() as u64;
        let written = report.bytes_written / shard_bytes / 3;
        assert!(written_count.contains(&written), "{code}: {written} shards a segment");
        assert!(report.bytes_saved >= 4 * shard_bytes * 3 * 9 / 10, "{code}: {report:?}");
        assert_whole(&world).await;
    }
    let late = collect_at(&world, NOW_MS + KEEP_MS + 60_000).await;
    assert_eq!(late.retained.young_count, 0);
    assert_eq!(world.stored().await, world.named());
    assert_whole(&world).await;
}

#[tokio::test]
async fn fewer_copies_are_no_work_at_all() {
    let world = written("replica:3", 2).await;
    want(&world, "replica:2");
    let report = run(&world).await;
    assert_eq!((report.segment_count, report.bytes_read, report.bytes_written), (2, 0, 0));
    assert_eq!(codes(&world), ["replica:2"; 2]);
    assert_whole(&world).await;
}

#[tokio::test]
async fn a_former_shard_is_made_again_where_another_has_been_moved_to_its_node() {
    let mut world = World::new(6);
    let segment = world.write(0, "rs:2+2").await;
    let former = world.record(segment);
    want(&world, "rs:2+1");
    run(&world).await;
    // The last parity is retained. Its node gets the first shard.
    let record = world.record(segment);
    let to = former.shards[3].as_ref().expect("stored").node;
    let moved = world.transfer().relocate(segment, &record, ShardIndex(0), Some(to)).await.expect("moved");
    let retained = RetainedRecord::of(&record, &moved.record, NOW_MS, KEEP_MS);
    let succession = Succession { retained, restored: None };
    world.catalogue.replace_segment(segment, &record, &moved.record, &succession).expect("committed");
    want(&world, "rs:2+2");
    let report = run(&world).await;
    assert_eq!((report.segment_count, report.failures.len()), (1, 0));
    assert_eq!(codes(&world), ["rs:2+2"]);
    assert_whole(&world).await;
}

#[tokio::test]
async fn undone_within_the_hour_the_former_shards_are_taken_again() {
    let world = written("replica:3", 3).await;
    let before = world.named();
    want(&world, "rs:4+2");
    run(&world).await;
    let wide = world.named();
    want(&world, "replica:3");
    let report = run(&world).await;
    assert_eq!((report.segment_count, report.restored_count, report.bytes_written, report.bytes_read), (3, 3, 0, 0));
    assert_eq!(world.named(), before, "the very shards");
    // And back: these are still there too.
    want(&world, "rs:4+2");
    assert_eq!(run(&world).await.restored_count, 3);
    assert_eq!(world.named(), wide);
    assert_whole(&world).await;
    // One of the previous shards is lost meanwhile: it is rebuilt from the others.
    let lost = before[0];
    world.nodes[&lost.0].remove(lost.1).await.expect("removed");
    want(&world, "replica:3");
    let report = run(&world).await;
    assert_eq!((report.restored_count, report.failures.len()), (3, 0));
    assert!(report.bytes_written > 0);
    assert_whole(&world).await;
    // When they are being removed it is too late, and they are written anew.
    let mut world = world;
    let segment = world.write(77, "replica:3").await;
    want(&world, "rs:4+2");
    run(&world).await;
    let retained = world.catalogue.retained_of(segment).expect("read").remove(0);
    let verdict = may_remove(Queued::Generation { segment, retained: retained.clone() }.candidate(0), AT_THE_END);
    let Verdict::Mark(expired) = verdict else { panic!("{verdict:?}") };
    world.catalogue.mark_going(expired, &retained).expect("marked");
    world.catalogue.set_policies(segment, &[PolicyRecord::of("replica:3", None)]);
    let report = run(&world).await;
    assert_eq!((report.segment_count, report.restored_count), (1, 0));
    collect_at(&world, NOW_MS + 2 * KEEP_MS).await;
    assert_eq!(world.stored().await, world.named());
    assert_whole(&world).await;
}

#[tokio::test]
async fn files_that_rest_get_their_later_code_and_shared_segments_wait_for_their_owner() {
    let mut world = World::new(12);
    let (old, shared) = (world.write(0, "replica:3").await, world.write(1, "replica:3").await);
    let aging = PolicyRecord {
        later: Some(Later { code: "rs:8+3".into(), after_ms: 60_000 }),
        ..PolicyRecord::of("replica:3", None)
    };
    world.catalogue.set_policies(old, std::slice::from_ref(&aging));
    world.catalogue.set_policies(shared, &[aging, PolicyRecord::of("replica:3", None)]);
    let early = run_over(&world, &world.transfer(), NOW_MS + 59_000).await.expect("ended");
    assert_eq!(early, Report::default());
    let late = run_over(&world, &world.transfer(), NOW_MS + 60_000).await.expect("ended");
    assert_eq!((late.segment_count, late.divided_count), (1, 1));
    assert_eq!(codes(&world), ["rs:8+3", "replica:3"]);
    let noted = ConvertRecord::load(&*world.catalogue).expect("read").expect("noted");
    assert_eq!((noted.segment_count, noted.divided_count, noted.ended_ms.is_some()), (1, 1, true));
    assert_whole(&world).await;
}

#[tokio::test]
async fn what_cannot_be_stored_whole_is_not_begun_and_a_degraded_segment_is_converted_whole() {
    let mut world = World::new(7);
    let segment = world.write(0, "rs:4+2").await;
    want(&world, "rs:8+3");
    let before = world.named();
    let report = run(&world).await;
    assert_eq!((report.segment_count, report.failures.len()), (0, 1));
    assert_eq!((world.named(), world.stored().await.len()), (before.clone(), 6), "nothing is left behind");
    // One of its nodes is silent: what it holds is decoded, and the new shards lie elsewhere.
    world.add_node(8);
    want(&world, "raid6:6");
    let silent = key(&world.record(segment), segment, 1).0;
    let report = run_over(&world, &world.transfer_without(&[silent]), NOW_MS).await.expect("ended");
    assert_eq!((report.segment_count, report.failures.len()), (1, 0), "{report:?}");
    assert!(world.record(segment).nodes().all(|node| node != silent));
    assert_whole(&world).await;
}

#[tokio::test]
async fn a_node_that_stores_other_bytes_than_it_was_given_is_found_before_anything_relies_on_it() {
    let world = written("replica:3", 1).await;
    let segment = *world.files.keys().next().expect("one");
    want(&world, "rs:4+2");
    let before = world.record(segment);
    // Whatever is put rots at once.
    let transfer = world.transfer_through(|_, node: Arc<dyn Node>| {
        let script = |call: &Call| match call.operation {
            Operation::Put => Fault::FlipBit { bit: 30_000 },
            _ => Fault::None,
        };
        Arc::new(FaultNode::new(node, "rotten", Box::new(script)))
    });
    let report = run_over(&world, &transfer, NOW_MS).await.expect("ended");
    assert_eq!((report.segment_count, report.failures.len()), (0, 1));
    assert!(report.failures[0].reason.contains("does not read back"), "{report:?}");
    assert_eq!((world.record(segment), world.stored().await.len()), (before, 3));
}

/// Segments of every way to convert.
async fn to_convert() -> World {
    let mut world = World::new(12);
    let (wide, parities) = (world.write(0, "replica:3").await, world.write(1, "rs:4+2").await);
    let back = world.write(2, "replica:2").await;
    world.catalogue.set_policies(back, &[PolicyRecord::of("rs:4+2", None)]);
    run(&world).await;
    world.catalogue.set_policies(wide, &[PolicyRecord::of("rs:4+2", None)]);
    world.catalogue.set_policies(parities, &[PolicyRecord::of("rs:4+3", None)]);
    world.catalogue.set_policies(back, &[PolicyRecord::of("replica:2", None)]);
    world
}

#[tokio::test]
async fn killed_at_any_step_every_segment_is_whole_under_one_of_its_codes() {
    for after in [false, true] {
        for steps in 0.. {
            let world = to_convert().await;
            let mortal = Mortal::new(&world, steps, after);
            let job = Job::new(&Env::system().clock);
            let options = Options { workers: 1, ..Options::default() };
            let killed = mortal.kills(convert(mortal.catalogue(), &mortal.transfer, &job, options, NOW_MS)).await;
            assert_whole(&world).await;
            let report = run(&world).await;
            assert_eq!(report.failures, [], "after {steps} steps");
            assert_eq!(codes(&world), ["rs:4+2", "rs:4+3", "replica:2"], "after {steps} steps");
            assert_whole(&world).await;
            collect_at(&world, NOW_MS + 2 * KEEP_MS).await;
            collect_at(&world, NOW_MS + 4 * KEEP_MS).await;
            assert_eq!(world.stored().await, world.named(), "after {steps} steps and a collection");
            assert_whole(&world).await;
            if !killed {
                assert!(steps > 20, "three conversions have more steps than {steps}");
                break;
            }
        }
    }
}

#[tokio::test]
async fn a_repair_and_a_delete_come_in_between() {
    let mut world = written("rs:4+2", 2).await;
    let segments: Vec<SegmentId> = world.files.keys().copied().collect();
    want(&world, "rs:8+3");
    // At the first put of a new shard the one segment is repaired by somebody else, and the other deleted.
    let (catalogue, inner) = (world.catalogue.clone(), world.transfer());
    let repaired =
        inner.relocate(segments[0], &world.record(segments[0]), weft_format::ShardIndex(0), None).await.expect("moved");
    let before = world.record(segments[0]);
    let deleted = segments[1];
    let transfer = world.transfer_through(|_, node: Arc<dyn Node>| {
        let (catalogue, before, repaired, first) = (catalogue.clone(), before.clone(), repaired.clone(), segments[0]);
        let script = move |call: &Call| {
            if call.operation == Operation::Put {
                // Whoever is first does it; the others find it done.
                let _ = catalogue.replace_segment(first, &before, &repaired.record, &Default::default());
                catalogue.kill(deleted, NOW_MS);
            }
            Fault::None
        };
        Arc::new(FaultNode::new(node, "busy", Box::new(script)))
    });
    let report = run_over(&world, &transfer, NOW_MS).await.expect("ended");
    assert_eq!(report.failures, []);
    assert_eq!(world.record(segments[0]).code, "rs:8+3");
    world.files.remove(&deleted);
    assert_whole(&world).await;
    collect_at(&world, NOW_MS + 2 * KEEP_MS).await;
    collect_at(&world, NOW_MS + 4 * KEEP_MS).await;
    assert_eq!(world.stored().await, world.named());
}

#[tokio::test]
async fn a_cancelled_conversion_goes_on_later_and_counts_all_of_it() {
    let world = written("replica:3", 6).await;
    want(&world, "rs:4+2");
    let job = Arc::new(Job::new(&Env::system().clock));
    let cancel = job.clone();
    let transfer = world.transfer_through(|_, node: Arc<dyn Node>| {
        let (cancel, catalogue) = (cancel.clone(), world.catalogue.clone());
        let script = move |_: &Call| {
            let converted = catalogue.survey(None, 99).expect("read").iter().any(|entry| entry.record.code == "rs:4+2");
            if converted {
                cancel.cancel();
            }
            Fault::None
        };
        Arc::new(FaultNode::new(node, "watched", Box::new(script)))
    });
    let cancelled = convert(world.catalogue.clone(), &transfer, &job, Options::default(), NOW_MS).await;
    assert!(matches!(cancelled, Err(CareError::Cancelled(_))));
    let noted = ConvertRecord::load(&*world.catalogue).expect("read").expect("noted");
    assert!(noted.ended_ms.is_none() && (1..6).contains(&noted.segment_count), "{noted:?}");
    let report = run(&world).await;
    assert_eq!(report.segment_count, 6 - noted.segment_count);
    let noted = ConvertRecord::load(&*world.catalogue).expect("read").expect("noted");
    assert_eq!((noted.segment_count, noted.ended_ms.is_some()), (6, true));
    assert_whole(&world).await;
}

#[tokio::test]
async fn it_leaves_room_to_writers_and_an_undoing_needs_none() {
    let mut world = World::new(0);
    (1..=12).for_each(|id| world.add_node_of(id, 600_000));
    for number in 0..32 {
        world.write(number, "replica:3").await;
    }
    want(&world, "rs:2+4");
    let report = run(&world).await;
    assert!((1..32).contains(&report.segment_count), "{report:?}");
    let left: u64 = report.failures.iter().map(|failure| failure.segment_count).sum();
    assert_eq!(left, 32 - report.segment_count);
    assert!(report.failures.iter().any(|failure| failure.reason.contains("too little room")), "{report:?}");
    let more = run(&world).await;
    assert!(more.segment_count <= 2, "those that are begun before anything is written: {more:?}");
    // Undone without room.
    want(&world, "replica:3");
    let back = run(&world).await;
    assert_eq!((back.restored_count, back.failures.len()), (report.segment_count + more.segment_count, 0));
    collect_at(&world, NOW_MS + 2 * KEEP_MS).await;
    // When previous shards go it goes on.
    want(&world, "rs:2+4");
    for hour in 1..9 {
        let now_ms = NOW_MS + 2 * hour * KEEP_MS;
        run_over(&world, &world.transfer(), now_ms).await.expect("ended");
        collect_at(&world, now_ms + KEEP_MS).await;
    }
    assert_eq!(codes(&world), ["rs:2+4"; 32]);
    assert_whole(&world).await;
}
