//! A node asked again when asking again may help. Attempts are bounded and spread out, so that many callers of one sick
//! node do not make it sicker.

use super::split_mix;
use crate::combine::Combination;
use crate::error::{NodeError, NodeErrorKind};
use crate::node::{Capability, Node, NodeIdentity, Page, ShardStat, Space};
use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;
use std::future::Future;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use weft_format::ShardKey;

/// How often and how soon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Attempts in all, the first included; 0 counts as 1.
    pub attempts: u32,
    /// About how long to wait before the second attempt; doubled before each further one.
    pub first_delay_ms: u64,
    /// The longest wait.
    pub longest_delay_ms: u64,
}

impl RetryPolicy {
    /// How long to wait after `failures` failed attempts: between half and all of the doubled delay, as `random` says.
    pub fn delay(&self, failures: u32, random: u64) -> Duration {
        let doublings = failures.saturating_sub(1).min(32);
        let full_ms = self.first_delay_ms.saturating_mul(1 << doublings).min(self.longest_delay_ms);
        let half_ms = full_ms / 2;
        Duration::from_millis(full_ms - half_ms + random % (half_ms + 1))
    }
}

/// A node whose transient failures are tried again.
pub struct RetryNode {
    node: Arc<dyn Node>,
    policy: RetryPolicy,
    random: Mutex<u64>,
}

impl RetryNode {
    /// `node`, asked again as `policy` says; `seed` decides the jitter. Waits by tokio's clock.
    pub fn new(node: Arc<dyn Node>, policy: RetryPolicy, seed: u64) -> Self {
        Self { node, policy, random: Mutex::new(seed) }
    }

    /// The first result that is no transient failure, or the last failure; and whether it took more than one attempt.
    async fn retry<T, F>(&self, call: impl Fn() -> F) -> (Result<T, NodeError>, bool)
    where
        F: Future<Output = Result<T, NodeError>>,
    {
        let mut failures = 0;
        loop {
            match call().await {
                Err(error) if error.kind.is_transient() && failures + 1 < self.policy.attempts => {
                    failures += 1;
                    let random = split_mix(&mut self.random.lock());
                    tokio::time::sleep(self.policy.delay(failures, random)).await;
                }
                result => return (result, failures > 0),
            }
        }
    }
}

#[async_trait]
impl Node for RetryNode {
    fn capability(&self) -> &Capability {
        self.node.capability()
    }

    async fn put(&self, key: ShardKey, parts: &[Bytes]) -> Result<(), NodeError> {
        self.retry(|| self.node.put(key, parts)).await.0
    }

    async fn get(&self, key: ShardKey, range: Range<u64>) -> Result<Bytes, NodeError> {
        self.retry(|| self.node.get(key, range.clone())).await.0
    }

    async fn combine(&self, key: ShardKey, combination: &Combination) -> Result<Bytes, NodeError> {
        self.retry(|| self.node.combine(key, combination)).await.0
    }

    async fn stat(&self, key: ShardKey) -> Result<ShardStat, NodeError> {
        self.retry(|| self.node.stat(key)).await.0
    }

    async fn list(&self, after: Option<ShardKey>, limit: usize) -> Result<Page, NodeError> {
        self.retry(|| self.node.list(after, limit)).await.0
    }

    async fn remove(&self, key: ShardKey) -> Result<(), NodeError> {
        match self.retry(|| self.node.remove(key)).await {
            // An attempt whose answer was lost has removed it.
            (Err(error), true) if error.kind == NodeErrorKind::NotFound => Ok(()),
            (result, _) => result,
        }
    }

    async fn space(&self) -> Result<Space, NodeError> {
        self.retry(|| self.node.space()).await.0
    }

    async fn identity(&self) -> Result<NodeIdentity, NodeError> {
        self.retry(|| self.node.identity()).await.0
    }
}
