//! A node that hangs.

use super::{BoundedNode, DEADLINE, LIST_DEADLINE};
use bytes::Bytes;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use weft_env::SystemClock;
use weft_format::{Generation, NodeId, NodeIdentity, SegmentId, ShardIndex, ShardKey, VolumeId};
use weft_nodes::wrappers::{Fault, FaultNode};
use weft_nodes::{MemoryNode, Node, NodeErrorKind};

const KEY: ShardKey = ShardKey { segment: SegmentId(1), generation: Generation(1), index: ShardIndex(0) };

fn failing_as(fault: Fault) -> BoundedNode {
    let identity = NodeIdentity { volume: VolumeId(1), node: NodeId(2) };
    let memory = Arc::new(MemoryNode::new("disk1", identity, 1 << 30));
    let node = Arc::new(FaultNode::new(memory, "disk1", Box::new(move |_| fault)));
    BoundedNode { node, name: "disk1".into(), clock: Arc::new(SystemClock) }
}

#[tokio::test(start_paused = true)]
async fn each_call_to_a_node_that_hangs_ends() {
    let node = failing_as(Fault::Silence);
    let began = Instant::now();
    let errors = [
        node.put(KEY, &[Bytes::from_static(b"shard")]).await.unwrap_err(),
        node.get(KEY, 0..5).await.unwrap_err(),
        node.stat(KEY).await.unwrap_err(),
        node.list(None, 10).await.unwrap_err(),
        node.remove(KEY).await.unwrap_err(),
        node.space().await.unwrap_err(),
        node.identity().await.unwrap_err(),
    ];
    for error in &errors {
        assert_eq!(error.kind, NodeErrorKind::TimedOut, "{error}");
        assert!(error.to_string().contains("disk1"), "{error}");
    }
    assert_eq!(began.elapsed(), DEADLINE * 5 + LIST_DEADLINE * 2);
}

/// Of a bucket with millions of shards, or with a quota.
#[tokio::test(start_paused = true)]
async fn a_walk_through_all_that_a_node_has_may_take_ten_minutes() {
    let node = failing_as(Fault::Delay(Duration::from_secs(600)));
    node.list(None, 10).await.expect("a list");
    node.space().await.expect("the room");
    assert_eq!(node.identity().await.unwrap_err().kind, NodeErrorKind::TimedOut);
}

#[tokio::test(start_paused = true)]
async fn large_calls_have_the_time_that_their_bytes_take() {
    let node = failing_as(Fault::Delay(DEADLINE + Duration::from_secs(60)));
    node.put(KEY, &[Bytes::from(vec![7; 1 << 20])]).await.expect("a mebibyte may take a minute more");
    assert_eq!(node.stat(KEY).await.unwrap_err().kind, NodeErrorKind::TimedOut);
}
