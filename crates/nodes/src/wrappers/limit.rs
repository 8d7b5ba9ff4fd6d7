//! A node that is not asked too much: calls at a time, and bytes a second.

use crate::combine::Combination;
use crate::error::NodeError;
use crate::node::{Capability, Node, NodeIdentity, Page, ShardStat, Space};
use crate::rate::Rate;
use async_trait::async_trait;
use bytes::Bytes;
use std::num::NonZeroU64;
use std::ops::Range;
use std::sync::Arc;
use tokio::sync::{Semaphore, SemaphorePermit};
use weft_format::ShardKey;

/// How much a node is asked at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Calls under way at one time; 0 counts as 1.
    pub concurrent_calls: usize,
    /// Shard bytes sent and received, together; `None`: as fast as it goes.
    pub bytes_per_second: Option<NonZeroU64>,
}

/// A node within limits. Callers beyond them wait in the order they came.
pub struct LimitNode {
    node: Arc<dyn Node>,
    calls: Semaphore,
    rate: Option<Rate>,
}

impl LimitNode {
    /// `node` within `limits`. Waits by tokio's clock.
    pub fn new(node: Arc<dyn Node>, limits: Limits) -> Self {
        let rate = limits.bytes_per_second.map(Rate::new);
        let calls = Semaphore::new(limits.concurrent_calls.clamp(1, Semaphore::MAX_PERMITS));
        Self { node, calls, rate }
    }

    async fn turn(&self) -> SemaphorePermit<'_> {
        self.calls.acquire().await.expect("the semaphore is never closed")
    }
}

#[async_trait]
impl Node for LimitNode {
    fn capability(&self) -> &Capability {
        self.node.capability()
    }

    async fn put(&self, key: ShardKey, parts: &[Bytes]) -> Result<(), NodeError> {
        let _turn = self.turn().await;
        if let Some(rate) = &self.rate {
            rate.wait_until_paid().await;
            rate.charge(parts.iter().map(Bytes::len).sum());
        }
        self.node.put(key, parts).await
    }

    async fn get(&self, key: ShardKey, range: Range<u64>) -> Result<Bytes, NodeError> {
        let _turn = self.turn().await;
        if let Some(rate) = &self.rate {
            rate.wait_until_paid().await;
        }
        let bytes = self.node.get(key, range).await?;
        // Only now is it known how many there are.
        if let Some(rate) = &self.rate {
            rate.charge(bytes.len());
        }
        Ok(bytes)
    }

    async fn combine(&self, key: ShardKey, combination: &Combination) -> Result<Bytes, NodeError> {
        let _turn = self.turn().await;
        if let Some(rate) = &self.rate {
            rate.wait_until_paid().await;
        }
        let bytes = self.node.combine(key, combination).await?;
        if let Some(rate) = &self.rate {
            rate.charge(bytes.len());
        }
        Ok(bytes)
    }

    async fn stat(&self, key: ShardKey) -> Result<ShardStat, NodeError> {
        let _turn = self.turn().await;
        self.node.stat(key).await
    }

    async fn list(&self, after: Option<ShardKey>, limit: usize) -> Result<Page, NodeError> {
        let _turn = self.turn().await;
        self.node.list(after, limit).await
    }

    async fn remove(&self, key: ShardKey) -> Result<(), NodeError> {
        let _turn = self.turn().await;
        self.node.remove(key).await
    }

    async fn space(&self) -> Result<Space, NodeError> {
        let _turn = self.turn().await;
        self.node.space().await
    }

    async fn identity(&self) -> Result<NodeIdentity, NodeError> {
        let _turn = self.turn().await;
        self.node.identity().await
    }
}
