//! Repair: nodes lost, silent, emptied; crashes at every step; races with deletes and other repairs.

use crate::harness::mortal::Mortal;
use crate::harness::{NOW_MS, World, key};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use weft_care::roster::LOOK_DEADLINE;
use weft_care::{CareError, Catalogue, Job, JobRecord, Roster, collect, record, repair};
use weft_env::{Clock, Env, Sleep, SystemClock};
use weft_format::records::{DamagedShard, NodeState};
use weft_format::removal::{Candidate, Evidence, Verdict, may_remove};
use weft_format::shard::{CHECK_BYTES, FRAME_PAYLOAD_BYTES, HEADER_BYTES};
use weft_format::{NodeId, SegmentId, ShardIndex};
use weft_nodes::wrappers::{Fault, FaultNode, Operation};
use weft_nodes::{Node, NodeErrorKind};

fn lose(world: &World, nodes: &[u128]) {
    for id in nodes {
        world.change_node(NodeId(*id), |record| record.state = NodeState::Lost);
    }
}

async fn collect_all(world: &World) -> collect::Report {
    let options = collect::Options { grace_ms: 0, in_use: None, dry_run: false };
    let report =
        collect::collect(world.catalogue.clone(), &world.transfer(), &Job::new(&Env::system().clock), options, NOW_MS)
            .await;
    report.expect("collected")
}

#[tokio::test]
async fn marks_of_dead_segments_are_taken_away() {
    let mut world = World::new(6);
    let (dead, living) = (world.write(0, "rs:4+2").await, world.write(1, "rs:4+2").await);
    world.catalogue.kill(dead, crate::harness::NOW_MS);
    world.files.remove(&dead);
    world.spoil(crate::harness::key(&world.record(living), living, 3), |_| None).await;
    [dead, living].iter().for_each(|segment| world.catalogue.mark_damaged(*segment).expect("marked"));
    let report = world.repair(&world.transfer()).await.expect("repaired");
    assert_eq!((report.segment_count, report.rebuilt_count), (1, 1));
    assert_eq!(world.catalogue.damaged(None, 9), Ok(vec![]));
    world.assert_invariants().await;
}

#[tokio::test]
async fn two_lost_nodes_are_rebuilt_on_the_others_and_forgotten() {
    let mut world = World::new(8);
    for number in 0..12 {
        world.write(number, if number % 2 == 0 { "rs:4+2" } else { "replica:3" }).await;
    }
    lose(&world, &[1, 2]);
    let estimate =
        repair::estimate(&*world.catalogue, &world.transfer(), &repair::Options::default()).await.expect("estimated");
    let report = world.repair(&world.transfer_without(&[NodeId(1), NodeId(2)])).await.expect("repaired");
    assert!(report.census.is_whole(), "{report:?}");
    assert_eq!(report.census.margin, Some(2));
    assert_eq!(report.rebuilt_count, estimate.lost_shard_count);
    assert_eq!(report.bytes_written, estimate.bytes_to_write);
    assert_eq!(report.forgotten_nodes, ["n1", "n2"]);
    assert!(world.named().iter().all(|(node, _)| node.0 > 2));
    world.nodes.retain(|id, _| id.0 > 2);
    world.assert_contents().await;
    // Two others.
    lose(&world, &[3, 4]);
    world.add_node(11);
    world.add_node(12);
    assert!(world.repair(&world.transfer_without(&[NodeId(3), NodeId(4)])).await.expect("repaired").census.is_whole());
    world.nodes.retain(|id, _| id.0 > 4);
    world.assert_contents().await;
}

#[tokio::test]
async fn a_silent_node_is_not_rebuilt_and_is_told_of() {
    let mut world = World::new(8);
    world.write(0, "rs:4+2").await;
    let before = world.named();
    let silent = before[0].0;
    let report = world.repair(&world.transfer_without(&[silent])).await.expect("ended");
    assert_eq!((report.rebuilt_count, report.census.silent_shard_count), (0, 1));
    assert_eq!(report.census.margin, Some(1));
    assert!(!report.census.is_whole());
    assert_eq!(report.out_of_reach.len(), 1);
    assert_eq!(world.named(), before);
    // It was only away.
    assert!(world.repair(&world.transfer()).await.expect("ended").census.is_whole());
}

#[tokio::test]
async fn without_a_place_it_says_so_and_goes_on_when_there_is_one() {
    let mut world = World::new(6);
    for number in 0..3 {
        world.write(number, "rs:4+2").await;
    }
    lose(&world, &[1, 2]);
    let report = world.repair(&world.transfer()).await.expect("ended");
    let counts: Vec<u64> = report.failures.iter().map(|failure| failure.segment_count).collect();
    assert_eq!(counts, [3], "one reason, told once: {:?}", report.failures);
    assert_eq!((report.census.margin, report.census.degraded_count), (Some(0), 3));
    // One new node for two lost ones: each segment is a shard better off.
    world.add_node(7);
    let report = world.repair(&world.transfer()).await.expect("ended");
    assert_eq!((report.census.margin, report.rebuilt_count), (Some(1), 3));
    world.add_node(8);
    assert!(world.repair(&world.transfer()).await.expect("ended").census.is_whole());
    world.assert_contents().await;
}

#[tokio::test]
async fn lost_files_are_named() {
    let mut world = World::new(6);
    world.write(1, "raid5:6").await;
    world.write(2, "rs:4+2").await;
    lose(&world, &[1, 2]);
    world.add_node(7);
    world.add_node(8);
    let report = world.repair(&world.transfer()).await.expect("ended");
    assert_eq!(report.census.lost_count, 1);
    assert_eq!(report.census.lost_paths, ["/f1".to_owned()].into());
    assert_eq!((report.census.whole_count, report.census.margin), (1, Some(2)));
}

#[tokio::test]
async fn a_node_being_emptied_gives_its_shards_to_others() {
    let mut world = World::new(7);
    for number in 0..4 {
        world.write(number, "rs:4+2").await;
    }
    let drained = world.named()[0].0;
    world.change_node(drained, |record| record.state = NodeState::Draining);
    let report = world.repair(&world.transfer()).await.expect("repaired");
    assert!(report.moved_count > 0 && report.rebuilt_count == 0);
    assert!(world.named().iter().all(|(node, _)| *node != drained));
    // Its old shards stay where they are, since somebody may be reading them; the node is no part of the volume any more.
    assert_eq!(report.forgotten_nodes.len(), 1);
    collect_all(&world).await;
    let mut stored = world.stored().await;
    stored.retain(|(node, _)| *node != drained);
    assert_eq!(stored, world.named());
    world.assert_contents().await;
}

#[tokio::test]
async fn a_read_only_node_keeps_what_it_holds_and_is_given_nothing() {
    let mut world = World::new(8);
    for number in 0..6 {
        world.write(number, "rs:4+2").await;
    }
    let (read_only, empty) = (world.named()[0].0, NodeId(9));
    world.add_node(9);
    for node in [read_only, empty] {
        world.change_node(node, |record| record.state = NodeState::ReadOnly);
    }
    let held: Vec<_> = world.named().into_iter().filter(|(node, _)| *node == read_only).collect();
    let lost = world.named().into_iter().map(|(node, _)| node).find(|node| *node != read_only).expect("another");
    lose(&world, &[lost.0]);
    let report = world.repair(&world.transfer()).await.expect("repaired");
    assert!(report.rebuilt_count > 0 && report.census.is_whole());
    world.write(100, "rs:4+2").await;
    let holds = |wanted: NodeId| world.named().into_iter().filter(|(node, _)| *node == wanted).collect::<Vec<_>>();
    assert_eq!((holds(read_only), holds(empty)), (held, vec![]));
    assert!(world.catalogue.nodes().expect("nodes").iter().any(|(id, _)| *id == empty), "empty, and not forgotten");
    world.assert_contents().await;
}

#[tokio::test]
async fn a_corrupt_survivor_is_not_laundered_and_is_repaired_too() {
    let mut world = World::new(7);
    let segment = world.write(0, "rs:4+2").await;
    let record = world.record(segment);
    lose(&world, &[key(&record, segment, 5).0.0]);
    // The first survivor that a repair would read.
    world
        .spoil(key(&record, segment, 0), |mut bytes| {
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
            Some(bytes)
        })
        .await;
    let report = world.repair(&world.transfer()).await.expect("repaired");
    assert!(report.census.is_whole(), "{report:?}");
    assert_eq!(report.rebuilt_count, 2);
    world.assert_contents().await;
}

#[tokio::test]
async fn a_marked_segment_is_read_whole_and_the_mark_goes_when_it_is_sound() {
    let mut world = World::new(6);
    let segment = world.write(0, "rs:4+2").await;
    world
        .spoil(key(&world.record(segment), segment, 3), |mut bytes| {
            *bytes.last_mut().expect("bytes") ^= 0x80;
            Some(bytes)
        })
        .await;
    world.catalogue.mark_damaged(segment).expect("marked");
    let options = repair::Options::default();
    let job = Job::new(&Env::system().clock);
    let report =
        repair::repair(world.catalogue.clone(), &world.transfer(), &job, options, NOW_MS).await.expect("ended");
    assert_eq!(report.rebuilt_count, 1);
    assert_eq!(world.catalogue.damaged(None, 10), Ok(vec![]));
    assert_eq!(world.sound_count(segment).await, 6);
}

#[tokio::test]
async fn a_cancelled_repair_is_resumed() {
    let mut world = World::new(8);
    for number in 0..6 {
        world.write(number, "rs:4+2").await;
    }
    lose(&world, &[1, 2]);
    let (job, transfer) = (Job::new(&Env::system().clock), world.transfer());
    job.cancel();
    let options = repair::Options::default();
    let cancelled = repair::repair(world.catalogue.clone(), &transfer, &job, options.clone(), NOW_MS).await;
    assert!(matches!(cancelled, Err(CareError::Cancelled(_))), "{cancelled:?}");
    let left = JobRecord::load(&*world.catalogue, record::REPAIR).expect("read").expect("a record");
    assert_eq!(left.ended_ms, None);
    let report =
        repair::repair(world.catalogue.clone(), &transfer, &Job::new(&Env::system().clock), options, NOW_MS + 5000)
            .await;
    let report = report.expect("repaired");
    assert_eq!(report.started_ms, NOW_MS, "it goes on with what began before");
    assert!(report.census.is_whole());
    let ended = JobRecord::load(&*world.catalogue, record::REPAIR).expect("read").expect("a record");
    assert!(ended.ended_ms.is_some());
}

/// One node lost, one shard rotten, one marked: every way into a repair.
async fn wounded() -> World {
    let mut world = World::new(8);
    for number in 0..2 {
        world.write(number, "rs:4+2").await;
    }
    let segment = *world.files.keys().next().expect("a segment");
    let record = world.record(segment);
    lose(&world, &[key(&record, segment, 1).0.0]);
    world
        .spoil(key(&record, segment, 4), |mut bytes| {
            bytes[300] ^= 4;
            Some(bytes)
        })
        .await;
    world.catalogue.mark_damaged(segment).expect("marked");
    world
}

#[tokio::test]
async fn killed_at_any_step_it_ends_whole_and_never_has_less_than_before() {
    for after in [false, true] {
        for steps in 0.. {
            let world = wounded().await;
            let mut before = Vec::new();
            for segment in world.files.keys() {
                before.push(world.sound_count(*segment).await);
            }
            let mortal = Mortal::new(&world, steps, after);
            let options = repair::Options::default();
            let job = Job::new(&Env::system().clock);
            let killed =
                mortal.kills(repair::repair(mortal.catalogue(), &mortal.transfer, &job, options, NOW_MS)).await;
            for (segment, before) in world.files.keys().zip(before) {
                let now = world.sound_count(*segment).await;
                assert!(now >= before, "after {steps} steps: {now} sound shards where there were {before}");
            }
            let report = world.repair(&world.transfer()).await.expect("repaired");
            assert!(report.census.is_whole(), "after {steps} steps: {report:?}");
            world.assert_contents().await;
            // The killed repair counts as running for a minute.
            let options = collect::Options { grace_ms: 0, in_use: None, dry_run: false };
            let gc = collect::collect(
                world.catalogue.clone(),
                &world.transfer(),
                &Job::new(&Env::system().clock),
                options,
                NOW_MS,
            )
            .await;
            assert!(gc.expect("collected").orphans.failures.is_empty());
            let nodes: Vec<NodeId> = world.catalogue.nodes().expect("nodes").iter().map(|(id, _)| *id).collect();
            let stored: Vec<_> = world.stored().await.into_iter().filter(|(node, _)| nodes.contains(node)).collect();
            assert_eq!(stored, world.named(), "after {steps} steps and a collection");
            if !killed {
                assert!(steps > 20, "a repair of two segments has more steps than {steps}");
                break;
            }
        }
    }
}

#[tokio::test]
async fn two_repairs_at_once_end_whole_and_place_nothing_twice() {
    let mut world = World::new(9);
    for number in 0..8 {
        world.write(number, "rs:4+2").await;
    }
    lose(&world, &[1, 2]);
    let (one, other) = (world.transfer(), world.transfer());
    let (one, other) = tokio::join!(world.repair(&one), world.repair(&other));
    assert!(one.expect("repaired").census.is_whole());
    assert!(other.expect("repaired").census.is_whole());
    for segment in world.files.keys() {
        assert_eq!(world.sound_count(*segment).await, 6);
    }
    collect_all(&world).await;
    world.nodes.retain(|id, _| id.0 > 2);
    assert_eq!(world.stored().await, world.named());
    world.assert_contents().await;
}

#[tokio::test]
async fn a_segment_deleted_under_its_repair_stays_deleted() {
    let mut world = World::new(8);
    let segment = world.write(0, "rs:4+2").await;
    let kept = world.write(1, "rs:4+2").await;
    let record = world.catalogue.segment(segment).expect("read").expect("it is there");
    let lost: Vec<u128> = record.nodes().take(2).map(|node| node.0).collect();
    lose(&world, &lost);
    // Its file is deleted, and the collector comes by, at the moment of the first put.
    let catalogue = world.catalogue.clone();
    let transfer = world.transfer_through(|_, node| {
        let catalogue = catalogue.clone();
        let script = move |call: &weft_nodes::wrappers::fault::Call| {
            let of_it = call.key.is_some_and(|key| key.segment == segment);
            if of_it && call.operation == weft_nodes::wrappers::Operation::Put {
                catalogue.kill(segment, NOW_MS);
                let record = catalogue.segment(segment).expect("read");
                if let Some(record) = record {
                    let dead = Candidate::Segment { segment, live_bytes: 0 };
                    let verdict = may_remove(dead, Evidence::Beside { seen_ms: u64::MAX });
                    let Verdict::Remove(dead) = verdict else { panic!("{verdict:?}") };
                    catalogue.drop_segment(dead, &record).expect("dropped");
                }
            }
            Fault::None
        };
        Arc::new(FaultNode::new(node, "watched", Box::new(script)))
    });
    let report = world.repair(&transfer).await.expect("repaired");
    assert!(report.census.is_whole() && report.failures.is_empty(), "{report:?}");
    assert_eq!(world.catalogue.segment(segment), Ok(None));
    assert_eq!(world.sound_count(kept).await, 6);
    collect_all(&world).await;
    world.nodes.retain(|id, _| !lost.contains(&id.0));
    assert_eq!(world.stored().await, world.named(), "nothing of it is left behind");
}

/// Time is paused, and goes on when everybody waits: however many nodes are silent, who looks waits once for all of them.
#[tokio::test(start_paused = true)]
async fn finding_22_whoever_looks_waits_once_for_all_silent_nodes() {
    let mut world = World::new(6);
    world.write(0, "rs:4+2").await;
    let transfer = world.transfer_through(|id, node| match id.0 {
        1..=3 => Arc::new(FaultNode::new(node, format!("n{}", id.0), Box::new(|_| Fault::Silence))),
        _ => node,
    });
    let began = tokio::time::Instant::now();
    let roster = Roster::look(&*world.catalogue, &transfer).await.expect("looked");
    assert_eq!(began.elapsed(), LOOK_DEADLINE);
    let unknown = roster.out_of_reach();
    assert_eq!(unknown.iter().map(|away| &away.name[..]).collect::<Vec<_>>(), ["n1", "n2", "n3"]);
    assert_eq!(unknown[0].why, "node n1 did not answer within 2 s: its state is not known yet");
    let room: Vec<bool> = transfer.fleet().view().members.values().map(|member| member.free_bytes.is_some()).collect();
    assert_eq!(room, [false, false, false, true, true, true], "what the others said is known for placement");
}

/// Two of six nodes say that they are busy, whoever stores there: what a repair rebuilt is kept until they take it, and nothing is read
/// twice, be it to find out what is known already.
#[tokio::test(start_paused = true)]
async fn finding_25_a_repair_reads_no_more_than_it_needs_while_nodes_are_busy() {
    let mut world = World::new(6);
    for number in 0..4 {
        let segment = world.write(number, "rs:4+2").await;
        // As after a write while nodes 1 and 2 were away.
        let (mut record, before) = (world.record(segment), world.record(segment));
        for location in record.shards.iter_mut().filter(|shard| shard.as_ref().is_some_and(|at| at.node.0 <= 2)) {
            *location = None;
        }
        for index in 0..6 {
            let (node, shard) = key(&before, segment, index);
            if node.0 <= 2 {
                world.nodes[&node].remove(shard).await.expect("removed");
            }
        }
        world.catalogue.commit(segment, record, &format!("/f{number}"));
        world.catalogue.mark_damaged(segment).expect("marked");
    }
    let transfer = world.transfer_through(|id, node| match id.0 {
        1 | 2 => {
            let mut left = 12;
            Arc::new(FaultNode::new(
                node,
                format!("n{}", id.0),
                Box::new(move |call| {
                    let is_busy = call.operation == Operation::Put && left > 0;
                    left -= u32::from(is_busy);
                    if is_busy { Fault::Fail(NodeErrorKind::Busy) } else { Fault::None }
                }),
            ))
        }
        _ => node,
    });
    let options = repair::Options::default();
    let estimate = repair::estimate(&*world.catalogue, &transfer, &options).await.expect("estimated");
    let job = Job::new(&Env::system().clock);
    let report = repair::repair(world.catalogue.clone(), &transfer, &job, options, NOW_MS).await.expect("repaired");
    assert_eq!((report.rebuilt_count, report.failures.len()), (8, 0), "{:?}", report.failures);
    assert!(report.census.is_whole(), "{:?}", report.census);
    assert!(
        report.bytes_read <= 2 * report.bytes_written,
        "{} read to write {}",
        report.bytes_read,
        report.bytes_written
    );
    assert!(report.bytes_read <= estimate.bytes_to_read * 11 / 10, "{} bytes were foretold", estimate.bytes_to_read);
    assert_eq!(world.catalogue.damaged(None, 9), Ok(vec![]), "nothing is left to be looked at");
    world.assert_invariants().await;
}

/// Damage of more shards than the code can lose, in different stripes, cost nothing by the estimate.
#[tokio::test]
async fn what_is_pieced_together_is_foretold() {
    let mut world = World::new(8);
    // Three frames a shard.
    let segment = world.write(20, "rs:4+2").await;
    let record = world.record(segment);
    for index in 0..3 {
        let place = key(&record, segment, index);
        world
            .spoil(place, |mut bytes| {
                bytes[HEADER_BYTES + usize::from(index) * (FRAME_PAYLOAD_BYTES + CHECK_BYTES)] ^= 1;
                Some(bytes)
            })
            .await;
        let run = u64::from(index)..u64::from(index) + 1;
        let frames = Some(vec![run]);
        let (node, key) = place;
        let damaged = DamagedShard { index: ShardIndex(index), node, key, complaint: "rotten".into(), frames };
        world.catalogue.note_damage(segment, &[damaged]).expect("noted");
    }
    let options = repair::Options::default();
    let estimate = repair::estimate(&*world.catalogue, &world.transfer(), &options).await.expect("estimated");
    assert_eq!((estimate.segment_count, estimate.lost_shard_count), (1, 3));
    // All six are looked at, and then read again.
    assert_eq!(estimate.bytes_to_read, 12 * record.shard_bytes());
    let job = Job::new(&Env::system().clock);
    let report = repair::repair(world.catalogue.clone(), &world.transfer(), &job, options, NOW_MS).await;
    let report = report.expect("repaired");
    assert_eq!((report.rebuilt_count, report.census.is_whole()), (3, true), "{report:?}");
    assert!(report.bytes_read >= 11 * record.shard_bytes(), "{} bytes", report.bytes_read);
    world.assert_invariants().await;
}

/// A clock that goes on by two seconds whenever it is asked, so that a job notes its progress after each segment.
struct HastyClock(AtomicU32);

impl Clock for HastyClock {
    fn now(&self) -> Instant {
        SystemClock.now() + Duration::from_secs(2) * self.0.fetch_add(1, Ordering::SeqCst)
    }

    fn unix_time(&self) -> Duration {
        SystemClock.unix_time()
    }

    fn sleep_until(&self, moment: Instant) -> Sleep {
        SystemClock.sleep_until(moment)
    }

    fn block(&self, time: Duration) {
        SystemClock.block(time);
    }
}

/// What a read found during a repair waited until all else was mended and counted, though it was the most endangered.
#[tokio::test]
async fn what_is_found_during_a_repair_is_mended_by_its_margin() {
    let mut world = World::new(8);
    let mut segments = Vec::new();
    // One shard of three segments is missing, and two of the fourth.
    for (number, missing) in [(0, 1), (1, 1), (2, 1), (3, 2)] {
        let segment = world.write(number, "rs:4+2").await;
        let mut noted = Vec::new();
        for index in 0..missing {
            let (node, key) = key(&world.record(segment), segment, index);
            world.nodes[&node].remove(key).await.expect("removed");
            let index = ShardIndex(index);
            noted.push(DamagedShard { index, node, key, complaint: String::new(), frames: None });
        }
        segments.push((segment, noted));
    }
    let (last, of_last) = segments.pop().expect("four");
    for (segment, noted) in &segments {
        world.catalogue.note_damage(*segment, noted).expect("noted");
    }
    let order: Arc<Mutex<Vec<SegmentId>>> = Arc::default();
    let transfer = world.transfer_through(|_, node| {
        let (order, catalogue, of_last) = (order.clone(), world.catalogue.clone(), of_last.clone());
        let script = move |call: &weft_nodes::wrappers::fault::Call| {
            if let (Operation::Put, Some(key)) = (call.operation, call.key) {
                let mut order = order.lock().expect("no panic");
                if order.is_empty() {
                    catalogue.note_damage(last, &of_last).expect("noted");
                }
                order.push(key.segment);
            }
            Fault::None
        };
        Arc::new(FaultNode::new(node, "watched", Box::new(script)))
    });
    let clock: Arc<dyn Clock> = Arc::new(HastyClock(AtomicU32::new(0)));
    let options = repair::Options { workers: 1, ..repair::Options::default() };
    let report = repair::repair(world.catalogue.clone(), &transfer, &Job::new(&clock), options, NOW_MS).await;
    assert!(report.expect("repaired").census.is_whole());
    let [first, second, third] = [0, 1, 2].map(|place| segments[place].0);
    assert_eq!(*order.lock().expect("no panic"), [first, last, last, second, third]);
    world.assert_invariants().await;
}
