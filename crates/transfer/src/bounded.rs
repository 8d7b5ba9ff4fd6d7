//! A node whose calls all end. A folder on a file system that hangs may never answer, and a worker that waits for it
//! keeps the lease, so that nobody repairs anything any more.
//!
//! Reads and writes of users have shorter deadlines of their own (`scheduler.rs`, `write/put.rs`) and do without this one.

use crate::error::timed_out;
use async_trait::async_trait;
use bytes::Bytes;
use std::future::Future;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;
use weft_env::Clock;
use weft_env::planted::{Planted, has_planted};
use weft_format::ShardKey;
use weft_nodes::combine::Combination;
use weft_nodes::node::{
    Capability, Link, Node, NodeIdentity, Page, SHARD_BYTES_MAX, SHARD_BYTES_PER_SECOND_MIN, ShardStat, Space,
};
use weft_nodes::{NodeError, NodeErrorKind};

/// Longer than any node that still works takes for a request without bytes; a daemon's own deadline is less than half of it.
const DEADLINE: Duration = Duration::from_secs(60);
/// A page of a list, and the room under a quota, may take a walk through all that a node has. A bucket's own deadline for that is half of
/// it.
const LIST_DEADLINE: Duration = Duration::from_secs(1200);
/// A combination reads a whole shard and may pass through many nodes.
const COMBINING_DEADLINE: Duration = Duration::from_secs(600);

/// What a node answers, or that it takes longer than a deadline of the caller's.
pub(crate) async fn within<T>(
    clock: &dyn Clock,
    deadline: Duration,
    work: impl Future<Output = Result<T, NodeError>>,
) -> Result<T, NodeError> {
    match clock.timeout(deadline, work).await {
        Ok(outcome) => outcome,
        Err(_) => Err(NodeError::new(NodeErrorKind::TimedOut, "of the volume", "it takes too long")),
    }
}

/// See the module's head.
pub(crate) struct BoundedNode {
    pub(crate) node: Arc<dyn Node>,
    pub(crate) name: String,
    pub(crate) clock: Arc<dyn Clock>,
}

impl BoundedNode {
    async fn within<T>(
        &self,
        deadline: Duration,
        call: impl Future<Output = Result<T, NodeError>>,
    ) -> Result<T, NodeError> {
        if has_planted(Planted::EndlessCalls) {
            return call.await;
        }
        match self.clock.timeout(deadline, call).await {
            Ok(answer) => answer,
            Err(_) => Err(timed_out(&self.name, deadline.as_millis() as u64)),
        }
    }

    fn deadline(&self, bytes: u64) -> Duration {
        DEADLINE + Duration::from_secs(bytes / SHARD_BYTES_PER_SECOND_MIN) + self.node.held_back(bytes)
    }
}

#[async_trait]
impl Node for BoundedNode {
    fn capability(&self) -> &Capability {
        self.node.capability()
    }

    fn shares_itself(&self) -> bool {
        self.node.shares_itself()
    }

    fn held_back(&self, bytes: u64) -> Duration {
        self.node.held_back(bytes)
    }

    async fn put(&self, key: ShardKey, parts: &[Bytes]) -> Result<(), NodeError> {
        let bytes = parts.iter().map(|part| part.len() as u64).sum();
        self.within(self.deadline(bytes), self.node.put(key, parts)).await
    }

    async fn get(&self, key: ShardKey, range: Range<u64>) -> Result<Bytes, NodeError> {
        let bytes = range.end.saturating_sub(range.start).min(SHARD_BYTES_MAX);
        self.within(self.deadline(bytes), self.node.get(key, range)).await
    }

    async fn open_file(&self, key: ShardKey) -> Option<OwnedFd> {
        self.clock.timeout(DEADLINE, self.node.open_file(key)).await.ok().flatten()
    }

    async fn combine(&self, key: ShardKey, combination: &Combination) -> Result<Bytes, NodeError> {
        self.within(COMBINING_DEADLINE, self.node.combine(key, combination)).await
    }

    fn link(&self, key: ShardKey, combination: &Combination, onward: Option<&Link>, timeout: Duration) -> Option<Link> {
        self.node.link(key, combination, onward, timeout)
    }

    async fn pull(&self, link: Link) -> Result<Bytes, NodeError> {
        self.within(COMBINING_DEADLINE, self.node.pull(link)).await
    }

    async fn stat(&self, key: ShardKey) -> Result<ShardStat, NodeError> {
        self.within(DEADLINE, self.node.stat(key)).await
    }

    async fn list(&self, after: Option<ShardKey>, limit: usize) -> Result<Page, NodeError> {
        self.within(LIST_DEADLINE, self.node.list(after, limit)).await
    }

    async fn remove(&self, key: ShardKey) -> Result<(), NodeError> {
        self.within(DEADLINE, self.node.remove(key)).await
    }

    async fn space(&self) -> Result<Space, NodeError> {
        self.within(LIST_DEADLINE, self.node.space()).await
    }

    async fn identity(&self) -> Result<NodeIdentity, NodeError> {
        self.within(DEADLINE, self.node.identity()).await
    }
}

#[cfg(test)]
#[path = "bounded_tests.rs"]
mod tests;
