//! Nodes that list without end.

use super::*;
use async_trait::async_trait;
use bytes::Bytes;
use std::ops::Range;
use weft_env::Env;
use weft_format::{Generation, SegmentId, ShardIndex};
use weft_nodes::{Capability, MemoryNode, NodeIdentity, Page, ShardStat, Space};

/// Says that there is more, for ever.
struct Endless {
    ascends: bool,
    inner: MemoryNode,
}

fn key(number: u128) -> ShardKey {
    ShardKey { segment: SegmentId(number), generation: Generation(0), index: ShardIndex(0) }
}

#[async_trait]
impl Node for Endless {
    fn capability(&self) -> &Capability {
        self.inner.capability()
    }
    async fn put(&self, key: ShardKey, parts: &[Bytes]) -> Result<(), NodeError> {
        self.inner.put(key, parts).await
    }
    async fn get(&self, key: ShardKey, range: Range<u64>) -> Result<Bytes, NodeError> {
        self.inner.get(key, range).await
    }
    async fn stat(&self, key: ShardKey) -> Result<ShardStat, NodeError> {
        self.inner.stat(key).await
    }
    async fn list(&self, after: Option<ShardKey>, limit: usize) -> Result<Page, NodeError> {
        let from = after.filter(|_| self.ascends).map_or(0, |after| after.segment.0 + 1);
        let keys = (from..from + limit as u128).map(key).collect();
        Ok(Page { keys, foreign: Vec::new(), more: true })
    }
    async fn remove(&self, key: ShardKey) -> Result<(), NodeError> {
        self.inner.remove(key).await
    }
    async fn space(&self) -> Result<Space, NodeError> {
        self.inner.space().await
    }
    async fn identity(&self) -> Result<NodeIdentity, NodeError> {
        self.inner.identity().await
    }
}

#[tokio::test]
async fn finding_15_a_list_without_an_end_is_no_list() {
    for ascends in [false, true] {
        let identity = NodeIdentity { volume: weft_format::VolumeId(1), node: NodeId(1) };
        let node = Endless { ascends, inner: MemoryNode::new("endless", identity, 1 << 20) };
        let listed = list(&node, "endless", 5000, &Job::new(&Env::system().clock), &mut 0).await.expect("not stopped");
        assert_eq!(listed.expect_err("it never ends").kind, NodeErrorKind::WrongNode);
    }
}
