//! What nobody waits for gives way to what somebody waits for, and is never shut out.

use crate::house::{VOLUME, bytes, node_record, segment};
use bytes::Bytes;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::time::Instant;
use weft_env::Env;
use weft_format::records::{NodeState, SegmentRecord};
use weft_format::{NodeId, SegmentId, ShardIndex};
use weft_nodes::wrappers::{LimitNode, Limits, Line, ShapeNode};
use weft_nodes::{MemoryNode, Node, NodeIdentity};
use weft_transfer::{Fleet, Settings, Transfer, WriteRequest};

const SEGMENT_BYTES: u64 = 1 << 20;
const RATE: u64 = 4 << 20;

struct Scene {
    transfer: Transfer,
    segments: Vec<(SegmentId, Arc<SegmentRecord>)>,
}

/// Seven nodes, segments of `rs:4+2`, and what `adapt` puts around each node.
async fn scene(settings: Settings, adapt: impl Fn(Arc<dyn Node>) -> Arc<dyn Node>) -> Scene {
    let member = |i: usize| {
        let id = NodeId(100 + i as u128);
        let memory = MemoryNode::new(format!("n{i}"), NodeIdentity { volume: VOLUME, node: id }, 1 << 40);
        (id, node_record(i, NodeState::Active), adapt(Arc::new(memory)))
    };
    let fleet = Arc::new(Fleet::new((0..7).map(member).collect(), Default::default(), &Env::system()));
    let transfer = Transfer::new(VOLUME, fleet, settings, tokio::runtime::Handle::current());
    let mut segments = Vec::new();
    for i in 0..8 {
        let data = vec![Bytes::from(bytes(SEGMENT_BYTES as usize, i))];
        let request =
            WriteRequest { segment: segment(i), code: "rs:4+2".into(), write_margin: Some(1), cell_bytes: None, data };
        let receipt = transfer.write(request).await.unwrap();
        assert!(receipt.missing.is_empty());
        segments.push((segment(i), Arc::new(receipt.record)));
    }
    tokio::time::sleep(Duration::from_secs(60)).await;
    Scene { transfer, segments }
}

impl Scene {
    /// Reads until `end`; how many bytes.
    fn reader(&self, end: Instant) -> tokio::task::JoinHandle<u64> {
        let (transfer, segments) = (self.transfer.clone(), self.segments.clone());
        tokio::spawn(async move {
            let (mut read, mut out) = (0, vec![0; SEGMENT_BYTES as usize]);
            for (segment, record) in segments.iter().cycle() {
                if Instant::now() >= end {
                    break;
                }
                transfer.read(*segment, record, 0..SEGMENT_BYTES, &mut out).await.unwrap();
                read += SEGMENT_BYTES;
            }
            read
        })
    }

    /// Rebuilds a shard of one segment after another, four at a time; the counter is of the bytes moved.
    fn repair(&self, end: Instant) -> Arc<AtomicU64> {
        let moved = Arc::new(AtomicU64::new(0));
        for worker in 0..4 {
            let (transfer, segments, moved) = (self.transfer.in_background(), self.segments.clone(), moved.clone());
            tokio::spawn(async move {
                for (segment, record) in segments.iter().cycle().skip(worker) {
                    if Instant::now() >= end {
                        break;
                    }
                    let rebuilt = transfer.rebuild(*segment, record, &[ShardIndex(worker as u16)]).await.unwrap();
                    moved.fetch_add(rebuilt.bytes_read + rebuilt.bytes_written, Ordering::Relaxed);
                    transfer.withdraw(*segment, &only(&rebuilt.record, worker)).await;
                }
            });
        }
        moved
    }
}

/// The record of one shard: the one that was rebuilt, to be removed again.
fn only(record: &SegmentRecord, shard: usize) -> SegmentRecord {
    let mut record = record.clone();
    let shards = record.shards.iter().enumerate();
    record.shards = shards.map(|(i, location)| location.clone().filter(|_| i == shard)).collect();
    record
}

/// What users read in twenty seconds alone and beside a repair, and what the repair moves beside them and alone.
async fn shares(scene: &Scene) -> [u64; 4] {
    let stretch = Duration::from_secs(20);
    let alone = scene.reader(Instant::now() + stretch).await.unwrap();
    tokio::time::sleep(Duration::from_secs(30)).await;
    let end = Instant::now() + stretch;
    let moved = scene.repair(end + stretch);
    let beside = scene.reader(end).await.unwrap();
    let moved_beside = moved.load(Ordering::Relaxed);
    tokio::time::sleep_until(end + stretch).await;
    let moved_alone = moved.load(Ordering::Relaxed) - moved_beside;
    println!(
        "users {alone} alone, {beside} beside a repair; the repair {moved_beside} beside users, {moved_alone} alone"
    );
    [alone, beside, moved_beside, moved_alone]
}

#[tokio::test(start_paused = true)]
async fn a_repair_over_slow_lines_leaves_users_their_share() {
    let line = Line {
        latency: Duration::from_millis(2),
        jitter_percent: 0,
        bytes_per_second: NonZeroU64::new(RATE).unwrap(),
        silent_per_mille: 0,
    };
    let settings = Settings { cache_bytes: 0, ..Settings::default() };
    let scene = scene(settings, |node| Arc::new(ShapeNode::new(node, line, 7))).await;
    let [alone, beside, moved_beside, moved_alone] = shares(&scene).await;
    assert!(beside * 100 >= alone * 75, "{beside} of {alone}");
    assert!(moved_beside > 0, "it is never shut out");
    assert!(moved_alone > moved_beside * 3, "alone it takes everything: {moved_alone} after {moved_beside}");
}

#[tokio::test(start_paused = true)]
async fn a_repair_through_limited_nodes_leaves_users_their_share() {
    let limits = Limits { concurrent_calls: 4, bytes_per_second: NonZeroU64::new(RATE) };
    let settings = Settings { cache_bytes: 0, ..Settings::default() };
    let scene = scene(settings, |node| Arc::new(LimitNode::new(node, limits))).await;
    let [alone, beside, moved_beside, moved_alone] = shares(&scene).await;
    assert!(beside * 100 >= alone * 70, "{beside} of {alone}");
    assert!(moved_beside > 0, "it is never shut out");
    assert!(moved_alone > moved_beside * 2, "alone it takes everything: {moved_alone} after {moved_beside}");
}

#[tokio::test(start_paused = true)]
async fn a_limit_of_all_bytes_is_kept_and_shared() {
    let settings = Settings { cache_bytes: 0, bytes_per_second: NonZeroU64::new(RATE), ..Settings::default() };
    let scene = scene(settings, |node| node).await;
    let [alone, beside, moved_beside, moved_alone] = shares(&scene).await;
    let within = |bytes: u64, percent: u64| {
        let whole = RATE * 20 * percent / 100;
        (whole * 85 / 100..=whole * 115 / 100).contains(&bytes)
    };
    assert!(within(alone, 100), "{alone}");
    assert!(within(beside, 80), "{beside}");
    assert!(within(moved_beside, 20), "{moved_beside}");
    assert!(within(moved_alone, 100), "{moved_alone}");
}
