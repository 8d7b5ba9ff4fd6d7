//! A node that is not asked too much: calls at a time, and bytes a second, users' before others.

use crate::combine::Combination;
use crate::error::NodeError;
use crate::node::{Capability, LinkReport, Node, NodeIdentity, Page, ShardStat, Space};
use crate::rate::{BACKGROUND_PERCENT, Class, FOREGROUND_STAYS, Rate};
use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::num::NonZeroU64;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::Instant;
use weft_format::ShardKey;

/// How much a node is asked at most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Calls under way at one time, which for nodes elsewhere is connections; 0: as many as come.
    pub concurrent_calls: u32,
    /// Shard bytes sent and received, together; `None`: as fast as it goes.
    pub bytes_per_second: Option<NonZeroU64>,
}

/// A node within limits. Callers beyond them wait in the order they came; those of the background (see
/// [`Node::in_background`]) have [`BACKGROUND_PERCENT`] of both while there are others.
pub struct LimitNode {
    node: Arc<dyn Node>,
    class: Class,
    limiter: Arc<Limiter>,
}

struct Limiter {
    calls: Mutex<Calls>,
    rate: Option<Rate>,
}

impl LimitNode {
    /// `node` within `limits`. Waits by tokio's clock.
    pub fn new(node: Arc<dyn Node>, limits: Limits) -> Self {
        let calls = Mutex::new(Calls::new(limits.concurrent_calls));
        let limiter = Limiter { calls, rate: limits.bytes_per_second.map(Rate::new) };
        Self { node, class: Class::Foreground, limiter: Arc::new(limiter) }
    }

    async fn turn(&self) -> Turn<'_> {
        let waits = self.limiter.calls.lock().enter(self.class, Instant::now());
        let turn = Turn { limiter: &self.limiter, class: self.class, waits };
        turn.begin().await
    }

    /// Takes what came beyond what was expected and paid.
    fn settle(&self, expected_bytes: u64, bytes: &Bytes) {
        if let Some(rate) = &self.limiter.rate {
            rate.charge(self.class, (bytes.len() as u64).saturating_sub(expected_bytes));
        }
    }

    async fn pay(&self, bytes: u64) {
        if let Some(rate) = &self.limiter.rate {
            rate.pay(self.class, bytes).await;
        }
    }
}

/// Calls under way, and those that wait. Pure, but for how a waiting one is told.
#[derive(Default)]
struct Calls {
    most: u32,
    /// When the last one of the foreground ended.
    foreground_seen: Option<Instant>,
    under_way: [u32; 2],
    /// Turns of the foreground since the background had one.
    foreground_turns: u32,
    waiting: [VecDeque<oneshot::Sender<()>>; 2],
}

impl Calls {
    fn new(most: u32) -> Self {
        Self { most: if most == 0 { u32::MAX } else { most }, ..Self::default() }
    }

    /// May one more of the class begin?
    fn has_room(&self, class: Class, now: Instant) -> bool {
        let [foreground, background] = self.under_way;
        let was_seen = self.foreground_seen.is_some_and(|seen| now < seen + FOREGROUND_STAYS);
        let has_foreground = was_seen || foreground > 0 || !self.waiting[Class::Foreground as usize].is_empty();
        let share = (u64::from(self.most) * u64::from(BACKGROUND_PERCENT) / 100).max(1);
        let is_beyond_share = has_foreground && u64::from(background) >= share;
        foreground.saturating_add(background) < self.most && (class == Class::Foreground || !is_beyond_share)
    }

    /// One more; `Some` is told when it may begin.
    fn enter(&mut self, class: Class, now: Instant) -> Option<oneshot::Receiver<()>> {
        if self.waiting[class as usize].is_empty() && self.has_room(class, now) {
            self.under_way[class as usize] += 1;
            return None;
        }
        let (tell, told) = oneshot::channel();
        self.waiting[class as usize].push_back(tell);
        Some(told)
    }

    /// One less is under way: others may begin.
    fn leave(&mut self, class: Class, now: Instant) {
        self.under_way[class as usize] -= 1;
        if class == Class::Foreground {
            self.foreground_seen = Some(now);
        }
        self.admit(now);
    }

    fn admit(&mut self, now: Instant) {
        while let Some(class) = self.next(now) {
            let Some(tell) = self.waiting[class as usize].pop_front() else { continue };
            // Who stopped waiting is passed over.
            if tell.send(()).is_ok() {
                self.under_way[class as usize] += 1;
                self.foreground_turns =
                    if class == Class::Foreground { self.foreground_turns.saturating_add(1) } else { 0 };
            }
        }
    }

    /// Whose turn it is: that of those who wait for it, but for one in some turns.
    fn next(&self, now: Instant) -> Option<Class> {
        let may = |class: Class| !self.waiting[class as usize].is_empty() && self.has_room(class, now);
        let background_is_due = self.foreground_turns >= 100 / BACKGROUND_PERCENT - 1;
        match (may(Class::Foreground), may(Class::Background)) {
            (true, background) if !(background && background_is_due) => Some(Class::Foreground),
            (_, true) => Some(Class::Background),
            _ => None,
        }
    }
}

/// One call under way, or waiting for it, until it is dropped.
struct Turn<'a> {
    limiter: &'a Limiter,
    class: Class,
    waits: Option<oneshot::Receiver<()>>,
}

impl Turn<'_> {
    async fn begin(mut self) -> Self {
        if let Some(told) = &mut self.waits {
            // Nobody else may come who tells that the foreground has gone.
            while tokio::time::timeout(FOREGROUND_STAYS, &mut *told).await.is_err() {
                self.limiter.calls.lock().admit(Instant::now());
            }
            self.waits = None;
        }
        self
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let (mut calls, now) = (self.limiter.calls.lock(), Instant::now());
        match &mut self.waits {
            None => calls.leave(self.class, now),
            Some(told) => match told.try_recv() {
                // Told, and gone before it could begin.
                Ok(()) => calls.leave(self.class, now),
                Err(_) => {
                    told.close();
                    // It may have kept the background waiting.
                    calls.waiting[self.class as usize].retain(|tell| !tell.is_closed());
                    calls.admit(now);
                }
            },
        }
    }
}

#[async_trait]
impl Node for LimitNode {
    fn capability(&self) -> &Capability {
        self.node.capability()
    }

    fn in_background(&self) -> Option<Arc<dyn Node>> {
        let node = self.node.in_background().unwrap_or_else(|| Arc::clone(&self.node));
        Some(Arc::new(Self { node, class: Class::Background, limiter: Arc::clone(&self.limiter) }))
    }

    fn shares_itself(&self) -> bool {
        self.limiter.rate.is_some() || self.node.shares_itself()
    }

    async fn links(&self) -> Vec<LinkReport> {
        self.node.links().await
    }

    fn held_back(&self, bytes: u64) -> Duration {
        // Calls before this one have not taken theirs yet: as much as this one, as far as anybody knows.
        let before: u32 = self.limiter.calls.lock().under_way.iter().sum();
        let bytes_in_all = bytes.saturating_mul(u64::from(before) + 1);
        let own = self.limiter.rate.as_ref().map(|rate| rate.delay(self.class, bytes_in_all));
        own.unwrap_or_default() + self.node.held_back(bytes)
    }

    async fn put(&self, key: ShardKey, parts: &[Bytes]) -> Result<(), NodeError> {
        let _turn = self.turn().await;
        self.pay(parts.iter().map(|part| part.len() as u64).sum()).await;
        self.node.put(key, parts).await
    }

    async fn get(&self, key: ShardKey, range: Range<u64>) -> Result<Bytes, NodeError> {
        let _turn = self.turn().await;
        // Of a shard asked for to its end it is known afterwards how many bytes it has.
        let expected_bytes = if range.end == u64::MAX { 0 } else { range.end.saturating_sub(range.start) };
        self.pay(expected_bytes).await;
        let bytes = self.node.get(key, range).await?;
        self.settle(expected_bytes, &bytes);
        Ok(bytes)
    }

    async fn combine(&self, key: ShardKey, combination: &Combination) -> Result<Bytes, NodeError> {
        let _turn = self.turn().await;
        self.pay(0).await;
        let bytes = self.node.combine(key, combination).await?;
        self.settle(0, &bytes);
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

    /// Out of turn, as [`Self::identity`]: whoever asks wants to know whether the node is there, and one that is busy is.
    async fn space(&self) -> Result<Space, NodeError> {
        self.node.space().await
    }

    async fn identity(&self) -> Result<NodeIdentity, NodeError> {
        self.node.identity().await
    }
}
