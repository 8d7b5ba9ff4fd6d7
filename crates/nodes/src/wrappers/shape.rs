//! A node at the end of a line: latency, jitter, bandwidth and loss of service. For experiments and tests; by tokio's clock, so
//! that with paused time a slow network costs no time.

use super::split_mix;
use crate::combine::Combination;
use crate::error::NodeError;
use crate::node::{Capability, Node, NodeIdentity, Page, ShardStat, Space};
use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;
use std::num::NonZeroU64;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use weft_format::ShardKey;

/// What the line is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    /// From the request to the answer's first byte.
    pub latency: Duration,
    /// On top of it, at random: this part of it in a hundred on average, exponentially distributed.
    pub jitter_percent: u32,
    /// Both ways together; calls at one time share it, first come first served.
    pub bytes_per_second: NonZeroU64,
    /// How many calls in a thousand are never answered.
    pub silent_per_mille: u32,
}

/// A node behind a line.
pub struct ShapeNode {
    node: Arc<dyn Node>,
    state: Mutex<State>,
}

struct State {
    line: Line,
    random: u64,
    /// When the line has carried all it was given.
    free_at: Instant,
}

impl ShapeNode {
    /// `node` behind `line`; `seed` decides what is random.
    pub fn new(node: Arc<dyn Node>, line: Line, seed: u64) -> Self {
        Self { node, state: Mutex::new(State { line, random: seed, free_at: Instant::now() }) }
    }

    /// From now on the line is another.
    pub fn set_line(&self, line: Line) {
        self.state.lock().line = line;
    }

    /// The way there: half of it, as far as anybody can tell, and all of its chance.
    async fn travel(&self) {
        let wait = {
            let State { line, random, .. } = &mut *self.state.lock();
            let is_silent = split_mix(random) % 1000 < u64::from(line.silent_per_mille);
            // In (0, 1], so that its logarithm is finite.
            let uniform = ((split_mix(random) >> 11) as f64 + 1.0) / (1u64 << 53) as f64;
            let jitter = line.latency.as_secs_f64() * f64::from(line.jitter_percent) / 100.0 * -uniform.ln();
            (!is_silent).then(|| line.latency + Duration::from_secs_f64(jitter))
        };
        match wait {
            Some(wait) => tokio::time::sleep(wait).await,
            None => std::future::pending().await,
        }
    }

    /// Waits until the line has carried `bytes` more. Who stops waiting gives back what was not carried yet.
    async fn carry(&self, bytes: usize) {
        let (time, carried_at) = {
            let State { line, free_at, .. } = &mut *self.state.lock();
            let time = Duration::from_secs_f64(bytes as f64 / line.bytes_per_second.get() as f64);
            *free_at = (*free_at).max(Instant::now()) + time;
            (time, *free_at)
        };
        let _carried = Carried { state: &self.state, time, carried_at };
        tokio::time::sleep_until(carried_at).await;
    }
}

/// Bytes on a line.
struct Carried<'a> {
    state: &'a Mutex<State>,
    time: Duration,
    carried_at: Instant,
}

impl Drop for Carried<'_> {
    fn drop(&mut self) {
        let left = self.carried_at.saturating_duration_since(Instant::now()).min(self.time);
        self.state.lock().free_at -= left;
    }
}

#[async_trait]
impl Node for ShapeNode {
    fn capability(&self) -> &Capability {
        self.node.capability()
    }

    async fn put(&self, key: ShardKey, parts: &[Bytes]) -> Result<(), NodeError> {
        self.travel().await;
        self.carry(parts.iter().map(Bytes::len).sum()).await;
        self.node.put(key, parts).await
    }

    async fn get(&self, key: ShardKey, range: Range<u64>) -> Result<Bytes, NodeError> {
        self.travel().await;
        let bytes = self.node.get(key, range).await?;
        self.carry(bytes.len()).await;
        Ok(bytes)
    }

    async fn combine(&self, key: ShardKey, combination: &Combination) -> Result<Bytes, NodeError> {
        self.travel().await;
        let bytes = self.node.combine(key, combination).await?;
        self.carry(bytes.len()).await;
        Ok(bytes)
    }

    async fn stat(&self, key: ShardKey) -> Result<ShardStat, NodeError> {
        self.travel().await;
        self.node.stat(key).await
    }

    async fn list(&self, after: Option<ShardKey>, limit: usize) -> Result<Page, NodeError> {
        self.travel().await;
        self.node.list(after, limit).await
    }

    async fn remove(&self, key: ShardKey) -> Result<(), NodeError> {
        self.travel().await;
        self.node.remove(key).await
    }

    async fn space(&self) -> Result<Space, NodeError> {
        self.travel().await;
        self.node.space().await
    }

    async fn identity(&self) -> Result<NodeIdentity, NodeError> {
        self.travel().await;
        self.node.identity().await
    }
}
