//! Nodes that come are filled, nodes that grow get more; killed at any step nothing is lost, and what is left is done later.

use crate::harness::mortal::Mortal;
use crate::harness::{NOW_MS, World};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use weft_care::balance::{Report, balance, estimate};
use weft_care::record::BALANCE;
use weft_care::{CareError, Job, JobRecord, collect};
use weft_env::Env;
use weft_format::NodeId;
use weft_nodes::wrappers::{Fault, FaultNode, Operation};
use weft_nodes::{Node, NodeErrorKind};
use weft_transfer::Transfer;

/// Eight nodes and a new one of twice the weight.
async fn grown(segments: u128) -> World {
    let mut world = World::new(8);
    for number in 0..segments {
        world.write(number, "rs:4+2").await;
    }
    world.add_node(9);
    world.change_node(NodeId(9), |record| record.weight = 2);
    world
}

async fn run(world: &World, transfer: &Transfer) -> Result<Report, CareError> {
    balance(world.catalogue.clone(), transfer, &Job::new(&Env::system().clock), &BTreeSet::new(), NOW_MS).await
}

fn held(world: &World) -> BTreeMap<NodeId, usize> {
    let mut held = BTreeMap::new();
    for (node, _) in world.named() {
        *held.entry(node).or_default() += 1;
    }
    held
}

/// Every shard sound, each on a node of its own.
async fn assert_whole(world: &World) {
    for segment in world.files.keys() {
        assert_eq!(world.sound_count(*segment).await, 6);
        assert_eq!(world.record(*segment).nodes().collect::<BTreeSet<_>>().len(), 6);
    }
    world.assert_contents().await;
}

#[tokio::test]
async fn a_bigger_node_is_filled_as_estimated_and_then_nothing_moves() {
    let world = grown(60).await;
    let transfer = world.transfer();
    let before = estimate(&*world.catalogue, &transfer, &BTreeSet::new()).await.expect("estimated");
    assert!(before.is_out && before.loads.len() == 9 && before.loads[8].held_bytes == 0, "{before:?}");
    let report = run(&world, &transfer).await.expect("balanced");
    assert_eq!((report.bytes_written, report.least_bytes), (before.bytes_to_move, before.least_bytes));
    assert_eq!(report.bytes_read, report.bytes_written, "copied, not rebuilt");
    assert!(report.bytes_written * 10 <= report.least_bytes * 11, "{report:?}");
    assert!(report.bytes_written * 10 >= report.least_bytes * 9, "{report:?}");
    assert!(report.failures.is_empty());
    assert_whole(&world).await;
    let after = estimate(&*world.catalogue, &transfer, &BTreeSet::new()).await.expect("estimated");
    assert!(!after.is_out && after.bytes_to_move == 0, "{after:?}");
    let ended = JobRecord::load(&*world.catalogue, BALANCE).expect("read").expect("a record");
    assert!(ended.ended_ms.is_some() && ended.bytes == report.bytes_written);
    // What moved away stays until the collector has waited.
    assert!(world.stored().await.len() > world.named().len());
    let unreferenced_since = collect::UnreferencedSince::default();
    for at_ms in [0, collect::GRACE_MS] {
        let in_use = Some(collect::Beside { unreferenced_since: &unreferenced_since, at_ms });
        let options = collect::Options { grace_ms: collect::GRACE_MS, in_use, dry_run: false };
        collect::collect(world.catalogue.clone(), &transfer, &Job::new(&Env::system().clock), options, NOW_MS)
            .await
            .expect("collected");
    }
    assert_eq!(world.stored().await, world.named());
    assert_whole(&world).await;
}

#[tokio::test]
async fn killed_at_any_step_nothing_is_less_whole_and_the_rest_is_done_later() {
    for after in [false, true] {
        for steps in 0.. {
            let world = grown(8).await;
            let mortal = Mortal::new(&world, steps, after);
            let (job, nobody) = (Job::new(&Env::system().clock), BTreeSet::new());
            let killed = mortal.kills(balance(mortal.catalogue(), &mortal.transfer, &job, &nobody, NOW_MS)).await;
            assert_whole(&world).await;
            let report = run(&world, &world.transfer()).await.expect("balanced");
            assert!(report.failures.is_empty(), "after {steps} steps: {report:?}");
            let count = held(&world).get(&NodeId(9)).copied().unwrap_or(0);
            assert!((7..=8).contains(&count), "after {steps} steps: {count}");
            assert_whole(&world).await;
            if !killed {
                assert!(steps > 30, "moving seven shards has more steps than {steps}");
                break;
            }
        }
    }
}

#[tokio::test]
async fn one_that_is_cancelled_is_gone_on_with() {
    let world = grown(40).await;
    let job = Arc::new(Job::new(&Env::system().clock));
    // Cancelled at its third put.
    let (of_node, puts) = (job.clone(), Arc::new(std::sync::atomic::AtomicU32::new(0)));
    let transfer = world.transfer_through(|_, node| {
        let (job, puts) = (of_node.clone(), puts.clone());
        let script = move |call: &weft_nodes::wrappers::fault::Call| {
            if call.operation == Operation::Put && puts.fetch_add(1, Ordering::SeqCst) == 2 {
                job.cancel();
            }
            Fault::None
        };
        Arc::new(FaultNode::new(node, "counting", Box::new(script)))
    });
    let cancelled = balance(world.catalogue.clone(), &transfer, &job, &BTreeSet::new(), NOW_MS).await;
    assert!(matches!(cancelled, Err(CareError::Cancelled(_))), "{cancelled:?}");
    let moved = held(&world)[&NodeId(9)];
    assert!((3..10).contains(&moved), "{moved}");
    assert_whole(&world).await;
    let left = estimate(&*world.catalogue, &world.transfer(), &BTreeSet::new()).await.expect("estimated");
    let report = run(&world, &world.transfer()).await.expect("balanced");
    assert_eq!(report.bytes_written, left.bytes_to_move, "nothing is moved twice");
    let ended = JobRecord::load(&*world.catalogue, BALANCE).expect("read").expect("a record");
    assert_eq!(ended.started_ms, NOW_MS);
    assert!(ended.finding_count as usize >= moved + report.moved_count as usize);
}

#[tokio::test]
async fn a_new_node_that_dies_half_way_takes_no_promise_with_it() {
    let world = grown(40).await;
    let is_dead = Arc::new(AtomicBool::new(false));
    let puts = Arc::new(std::sync::atomic::AtomicU32::new(0));
    let transfer = world.transfer_through(|id, node| match id == NodeId(9) {
        false => node,
        true => {
            let (is_dead, puts) = (is_dead.clone(), puts.clone());
            let script = move |call: &weft_nodes::wrappers::fault::Call| {
                if call.operation == Operation::Put && puts.fetch_add(1, Ordering::SeqCst) == 10 {
                    is_dead.store(true, Ordering::SeqCst);
                }
                if is_dead.load(Ordering::SeqCst) { Fault::Fail(NodeErrorKind::Unavailable) } else { Fault::None }
            };
            Arc::new(FaultNode::new(node, "dying", Box::new(script))) as Arc<dyn Node>
        }
    });
    let report = run(&world, &transfer).await.expect("ended");
    assert!(!report.failures.is_empty() && report.moved_count < 20, "{report:?}");
    // It is away, not lost: what went there counts as long as nobody gives it up.
    let again = run(&world, &transfer).await.expect("ended");
    assert_eq!(again.moved_count, 0);
    is_dead.store(false, Ordering::SeqCst);
    let report = run(&world, &transfer).await.expect("balanced");
    assert!(report.failures.is_empty() && report.moved_count > 10, "{report:?}");
    assert_whole(&world).await;
}

/// What is lost on the way is rebuilt on the way, from what is there.
#[tokio::test]
async fn a_shard_that_cannot_be_copied_is_rebuilt() {
    let world = grown(30).await;
    let (from, _) = world.named()[0];
    let transfer = world.transfer_through(|id, node| match id == from {
        false => node,
        true => {
            let script = |call: &weft_nodes::wrappers::fault::Call| match call.operation {
                Operation::Get => Fault::FlipBit { bit: 9_000 },
                _ => Fault::None,
            };
            Arc::new(FaultNode::new(node, "rotten", Box::new(script))) as Arc<dyn Node>
        }
    });
    let report = run(&world, &transfer).await.expect("balanced");
    assert!(report.failures.is_empty() && report.bytes_read > report.bytes_written, "{report:?}");
    assert_whole(&world).await;
}
