//! What hurt others, each as a test of ours. At the end of each the invariants are checked.

use crate::harness::{NOW_MS, World, key};
use bytes::Bytes;
use std::sync::Arc;
use weft_care::collect::{self, GRACE_MS};
use weft_care::scrub;
use weft_care::{Job, repair};
use weft_env::Env;
use weft_format::records::NodeState;
use weft_format::{NodeId, SegmentId};
use weft_nodes::wrappers::fault::Call;
use weft_nodes::wrappers::{Fault, FaultNode, Operation};
use weft_nodes::{MemoryNode, Node, NodeErrorKind};
use weft_transfer::{Transfer, WriteError, WriteRequest};

fn set_state(world: &World, nodes: &[u128], state: NodeState) {
    nodes.iter().for_each(|id| world.change_node(NodeId(*id), |record| record.state = state));
}

/// All nodes, of which `node` answers by a script.
fn scripted(world: &World, node: NodeId, script: impl FnMut(&Call) -> Fault + Send + Clone + 'static) -> Transfer {
    world.transfer_through(|id, inner: Arc<dyn Node>| match id == node {
        false => inner,
        true => Arc::new(FaultNode::new(inner, "scripted", Box::new(script.clone()))),
    })
}

async fn volume(nodes: u128, code: &str) -> World {
    let mut world = World::new(nodes);
    for number in 0..10 {
        world.write(number, code).await;
    }
    world
}

/// HDFS-14768: of nodes that were being emptied and busy the rebuilt index was left at its default, 0, so that another block's
/// bytes were stored as the lost one.
#[tokio::test]
async fn hdfs_14768_a_spare_slot_is_never_index_zero() {
    let world = volume(9, "rs:6+3").await;
    // Two to be emptied, one of them too busy to be read, and one lost.
    set_state(&world, &[1, 2], NodeState::Draining);
    set_state(&world, &[3], NodeState::Lost);
    let mut world = world;
    (10..=12).for_each(|id| world.add_node(id));
    let busy = scripted(&world, NodeId(2), |call| match call.operation {
        Operation::Get => Fault::Fail(NodeErrorKind::Busy),
        _ => Fault::None,
    });
    let _ = world.repair(&busy).await.expect("repaired as far as it goes");
    let report = world.repair(&world.transfer_without(&[NodeId(3)])).await.expect("repaired");
    assert!(report.census.is_whole(), "{report:?}");
    assert!(world.named().iter().all(|(node, _)| node.0 > 3));
    world.assert_invariants().await;
}

/// MinIO 14053: disks that were not found were taken for objects that were not, and what was left of these was deleted.
#[tokio::test]
async fn minio_14053_a_disk_that_is_not_found_is_no_object_that_is_not() {
    let world = volume(8, "rs:4+2").await;
    let before = world.named();
    let away = world.transfer_without(&[NodeId(1), NodeId(2), NodeId(3), NodeId(4)]);
    let report = world.repair(&away).await.expect("counted");
    assert_eq!((report.rebuilt_count, report.census.lost_count, report.census.lost_shard_count), (0, 0, 0));
    let options = collect::Options { grace_ms: 0, in_use: None, dry_run: false };
    let now_ms = NOW_MS + 10 * GRACE_MS;
    collect::collect(world.catalogue.clone(), &away, &Job::new(&Env::system().clock), options, now_ms)
        .await
        .expect("collected");
    assert_eq!((world.named(), world.stored().await), (before.clone(), before));
    world.assert_invariants().await;
}

/// SeaweedFS 9490: volumes were deleted when they were encoded, before anybody had read the shards.
#[tokio::test]
async fn seaweedfs_9490_a_source_outlives_the_proof_of_its_successor() {
    let mut world = volume(6, "rs:4+2").await;
    world.add_node(7);
    set_state(&world, &[1], NodeState::Draining);
    let before = world.named();
    // The new node stores what nobody sent.
    let rotten = scripted(&world, NodeId(7), |call| match call.operation {
        Operation::Put => Fault::FlipBit { bit: 12_345 },
        _ => Fault::None,
    });
    let _ = world.repair(&rotten).await.expect("moved");
    let stored = world.stored().await;
    assert!(before.iter().all(|shard| stored.contains(shard)), "nothing that was there is gone");
    let report = world.repair(&world.transfer()).await.expect("repaired");
    assert!(report.census.is_whole(), "{report:?}");
    world.assert_invariants().await;
}

/// SeaweedFS 6445: shards of two encodings of one volume were found on the servers and decoded together.
#[tokio::test]
async fn seaweedfs_6445_generations_are_never_mixed() {
    let world = volume(8, "rs:4+2").await;
    let before: Vec<_> = world.named().into_iter().filter(|(node, _)| node.0 == 1).collect();
    assert!(!before.is_empty());
    set_state(&world, &[1], NodeState::Lost);
    world.repair(&world.transfer_without(&[NodeId(1)])).await.expect("repaired");
    // The node comes back with what it had, and its shards get under the names of their successors.
    world.add_node_again(NodeId(1));
    for (node, old) in before {
        let object = world.object((node, old)).await;
        let successor = key(&world.record(old.segment), old.segment, old.index.0);
        assert!(successor.1.generation > old.generation && successor.0 != node);
        world.spoil(successor, |_| Some(object)).await;
    }
    world.assert_contents().await;
    let report = world.repair(&world.transfer()).await.expect("repaired");
    assert!(report.census.is_whole() && report.rebuilt_count > 0, "{report:?}");
    world.assert_invariants().await;
}

/// SeaweedFS 9535: a balancer moved shards that were being encoded.
#[tokio::test(flavor = "multi_thread")]
async fn seaweedfs_9535_two_who_move_the_same_shards_lose_none() {
    let mut world = volume(8, "rs:4+2").await;
    (9..=11).for_each(|id| world.add_node(id));
    set_state(&world, &[1, 2], NodeState::Draining);
    set_state(&world, &[3], NodeState::Lost);
    let world = Arc::new(world);
    // Without the lease, which would have one wait: what is left to protect is the conditional commit.
    let both = [(); 3].map(|()| {
        let world = world.clone();
        tokio::spawn(async move { world.repair(&world.transfer_without(&[NodeId(3)])).await.expect("repaired") })
    });
    for repair in both {
        repair.await.expect("ended");
    }
    let report = world.repair(&world.transfer()).await.expect("repaired");
    assert!(report.census.is_whole() && world.named().iter().all(|(node, _)| node.0 > 3), "{report:?}");
    world.assert_invariants().await;
}

/// LizardFS 910: several parts of a file came to one server, whose loss lost the file.
#[tokio::test]
async fn lizardfs_910_parts_are_never_together() {
    let mut world = volume(6, "rs:4+2").await;
    set_state(&world, &[1, 2], NodeState::Lost);
    // Four are left for six shards: they stay four, and it is said.
    let report = world.repair(&world.transfer_without(&[NodeId(1), NodeId(2)])).await.expect("told");
    assert_eq!(report.rebuilt_count, 0);
    assert!(report.failures.iter().any(|failure| failure.reason.contains("nodes")), "{:?}", report.failures);
    world.assert_contents().await;
    // Two more, in one domain: one of them can help.
    (7..=8).for_each(|id| world.add_node(id));
    [7, 8].iter().for_each(|id| world.change_node(NodeId(*id), |record| record.domain = "rack".into()));
    let report = world.repair(&world.transfer_without(&[NodeId(1), NodeId(2)])).await.expect("told");
    assert_eq!((report.census.margin, report.census.whole_count), (Some(1), 0), "{report:?}");
    world.add_node(9);
    let report = world.repair(&world.transfer_without(&[NodeId(1), NodeId(2)])).await.expect("repaired");
    assert!(report.census.is_whole(), "{report:?}");
    world.assert_invariants().await;
}

/// JuiceFS 6479: a collector took what a listing that failed half-way had not told for what was not there.
#[tokio::test]
async fn juicefs_6479_half_a_listing_collects_nothing() {
    let world = volume(6, "rs:4+2").await;
    let stored = world.stored().await;
    for after_calls in 0..3 {
        let mut calls = 0;
        let failing = scripted(&world, NodeId(2), move |call| {
            calls += usize::from(call.operation == Operation::List);
            if call.operation == Operation::List && calls > after_calls {
                Fault::Fail(NodeErrorKind::Io)
            } else {
                Fault::None
            }
        });
        let options = collect::Options { grace_ms: 0, in_use: None, dry_run: false };
        let now_ms = NOW_MS + 10 * GRACE_MS;
        collect::collect(world.catalogue.clone(), &failing, &Job::new(&Env::system().clock), options, now_ms)
            .await
            .expect("collected");
        assert_eq!(world.stored().await, stored);
    }
    world.assert_invariants().await;
}

/// GlusterFS 2021: bricks that ran full in mid-write kept fragments of unlike versions, which nothing could heal.
#[tokio::test]
async fn glusterfs_2021_a_full_volume_keeps_no_unlike_fragments() {
    let mut world = World::new(6);
    for (id, node) in &mut world.nodes {
        let identity = node.identity().await.expect("known");
        *node = Arc::new(MemoryNode::new(format!("n{}", id.0), identity, 300_000).with_clock(|| NOW_MS));
    }
    let mut refused = 0;
    for number in 0..40u128 {
        let data: Vec<u8> = (0..100_000u32).map(|at| (at * 31 + number as u32) as u8).collect();
        let segment = SegmentId::new(NOW_MS, number);
        let request = WriteRequest {
            segment,
            code: "rs:4+2".into(),
            write_margin: Some(2),
            cell_bytes: None,
            data: vec![Bytes::copy_from_slice(&data)],
        };
        let written: Result<_, WriteError> = world.transfer().write(request).await;
        match written {
            Ok(receipt) => {
                world.catalogue.commit(segment, receipt.record, &format!("/f{number}"));
                world.files.insert(segment, data);
            }
            Err(_) => refused += 1,
        }
    }
    assert!(refused > 0 && !world.files.is_empty(), "{refused} refused");
    // What was refused left nothing that anybody would decode, and is cleared away.
    let options = collect::Options { grace_ms: 0, in_use: None, dry_run: false };
    let now_ms = NOW_MS + 10 * GRACE_MS;
    for _ in 0..2 {
        let transfer = world.transfer();
        collect::collect(world.catalogue.clone(), &transfer, &Job::new(&Env::system().clock), options, now_ms)
            .await
            .expect("collected");
    }
    assert_eq!(world.stored().await, world.named());
    world.assert_invariants().await;
}

/// RustFS 5869: a drive that was absent at the start was taken for a blank one, and formatted.
#[tokio::test]
async fn rustfs_5869_an_absent_drive_is_no_blank_one() {
    let world = volume(8, "rs:4+2").await;
    let away = world.transfer_without(&[NodeId(4)]);
    let report = world.repair(&away).await.expect("counted");
    assert_eq!((report.rebuilt_count, world.catalogue.renewed()), (0, Vec::new()));
    // Not even when it was given up: its shards are rebuilt elsewhere, and it stays what it is.
    let options = repair::Options { presumed_lost: [NodeId(4)].into(), ..repair::Options::default() };
    let report = repair::repair(world.catalogue.clone(), &away, &Job::new(&Env::system().clock), options, NOW_MS)
        .await
        .expect("repaired");
    assert!(report.rebuilt_count > 0 && report.census.is_whole(), "{report:?}");
    assert!(report.forgotten_nodes.is_empty() && world.catalogue.renewed().is_empty());
    world.assert_invariants().await;
}

/// MinIO 6563: for seven releases nothing was verified, and nobody noticed: so here a bit is flipped in every shard in turn.
#[tokio::test]
async fn minio_6563_every_flipped_bit_is_found_and_the_counter_rises() {
    let mut world = World::new(6);
    let segment = world.write(0, "rs:4+2").await;
    let mut verified = 0;
    for index in 0..6 {
        world
            .spoil(key(&world.record(segment), segment, index), |mut object| {
                let middle = object.len() / 2;
                object[middle] ^= 0x10;
                Some(object)
            })
            .await;
        let catalogue = world.catalogue.clone();
        let options = scrub::Options::default();
        let report =
            scrub::scrub(catalogue, &world.transfer(), &Job::new(&Env::system().clock), options, NOW_MS, |_| {}).await;
        let report = report.expect("scrubbed");
        assert_eq!((report.finding_count, report.repaired_count), (1, 1), "shard {index}");
        assert!(report.bytes_verified > 0);
        verified += report.bytes_verified;
    }
    assert!(verified > 6 * 30_000);
    world.assert_invariants().await;
}
