//! A node that counts what it is asked, and remembers the last calls.

use super::Operation;
use crate::combine::Combination;
use crate::error::{NodeError, NodeErrorKind};
use crate::node::{Capability, Node, NodeIdentity, Page, ShardStat, Space};
use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use weft_format::ShardKey;

/// One finished call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Which method.
    pub operation: Operation,
    /// Of which shard, if of one.
    pub key: Option<ShardKey>,
    /// Of a get, what was asked for.
    pub range: Option<Range<u64>>,
    /// Shard bytes moved.
    pub bytes: u64,
    /// How it failed, if it did.
    pub failure: Option<NodeErrorKind>,
}

/// Sums since the beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Successful puts.
    pub puts: u64,
    /// Successful gets.
    pub gets: u64,
    /// Successful calls of other kinds.
    pub others: u64,
    /// Failed calls of any kind.
    pub failures: u64,
    /// Bytes that gets and combinations brought.
    pub bytes_read: u64,
    /// Bytes that puts stored.
    pub bytes_written: u64,
}

#[derive(Default)]
struct Counters {
    puts: AtomicU64,
    gets: AtomicU64,
    others: AtomicU64,
    failures: AtomicU64,
    bytes_read: AtomicU64,
    bytes_written: AtomicU64,
}

/// A node and its book.
pub struct RecordNode {
    node: Arc<dyn Node>,
    counters: Counters,
    calls: Mutex<VecDeque<Call>>,
    calls_kept: usize,
}

impl RecordNode {
    /// `node`, with the last `calls_kept` calls remembered; with 0 only the sums are kept, which costs nothing to speak of.
    pub fn new(node: Arc<dyn Node>, calls_kept: usize) -> Self {
        Self { node, counters: Counters::default(), calls: Mutex::default(), calls_kept }
    }

    /// The sums so far.
    pub fn counts(&self) -> Counts {
        let value = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counts {
            puts: value(&self.counters.puts),
            gets: value(&self.counters.gets),
            others: value(&self.counters.others),
            failures: value(&self.counters.failures),
            bytes_read: value(&self.counters.bytes_read),
            bytes_written: value(&self.counters.bytes_written),
        }
    }

    /// The remembered calls, oldest first; they are forgotten here.
    pub fn take_calls(&self) -> Vec<Call> {
        self.calls.lock().drain(..).collect()
    }

    fn record<T>(
        &self,
        operation: Operation,
        key: Option<ShardKey>,
        range: Option<Range<u64>>,
        result: &Result<T, NodeError>,
        bytes: u64,
    ) {
        let add = |counter: &AtomicU64, value| counter.fetch_add(value, Ordering::Relaxed);
        match (result, operation) {
            (Err(_), _) => add(&self.counters.failures, 1),
            (Ok(_), Operation::Put) => {
                add(&self.counters.bytes_written, bytes);
                add(&self.counters.puts, 1)
            }
            (Ok(_), Operation::Get) => {
                add(&self.counters.bytes_read, bytes);
                add(&self.counters.gets, 1)
            }
            (Ok(_), Operation::Combine) => {
                add(&self.counters.bytes_read, bytes);
                add(&self.counters.others, 1)
            }
            (Ok(_), _) => add(&self.counters.others, 1),
        };
        if self.calls_kept == 0 {
            return;
        }
        let failure = result.as_ref().err().map(|error| error.kind);
        let mut calls = self.calls.lock();
        if calls.len() == self.calls_kept {
            calls.pop_front();
        }
        calls.push_back(Call { operation, key, range, bytes, failure });
    }
}

#[async_trait]
impl Node for RecordNode {
    fn capability(&self) -> &Capability {
        self.node.capability()
    }

    async fn put(&self, key: ShardKey, parts: &[Bytes]) -> Result<(), NodeError> {
        let result = self.node.put(key, parts).await;
        let bytes = if result.is_ok() { parts.iter().map(|part| part.len() as u64).sum() } else { 0 };
        self.record(Operation::Put, Some(key), None, &result, bytes);
        result
    }

    async fn get(&self, key: ShardKey, range: Range<u64>) -> Result<Bytes, NodeError> {
        let result = self.node.get(key, range.clone()).await;
        let bytes = result.as_ref().map_or(0, |bytes| bytes.len() as u64);
        self.record(Operation::Get, Some(key), Some(range), &result, bytes);
        result
    }

    async fn combine(&self, key: ShardKey, combination: &Combination) -> Result<Bytes, NodeError> {
        let result = self.node.combine(key, combination).await;
        let bytes = result.as_ref().map_or(0, |bytes| bytes.len() as u64);
        self.record(Operation::Combine, Some(key), None, &result, bytes);
        result
    }

    async fn stat(&self, key: ShardKey) -> Result<ShardStat, NodeError> {
        let result = self.node.stat(key).await;
        self.record(Operation::Stat, Some(key), None, &result, 0);
        result
    }

    async fn list(&self, after: Option<ShardKey>, limit: usize) -> Result<Page, NodeError> {
        let result = self.node.list(after, limit).await;
        self.record(Operation::List, after, None, &result, 0);
        result
    }

    async fn remove(&self, key: ShardKey) -> Result<(), NodeError> {
        let result = self.node.remove(key).await;
        self.record(Operation::Remove, Some(key), None, &result, 0);
        result
    }

    async fn space(&self) -> Result<Space, NodeError> {
        let result = self.node.space().await;
        self.record(Operation::Space, None, None, &result, 0);
        result
    }

    async fn identity(&self) -> Result<NodeIdentity, NodeError> {
        let result = self.node.identity().await;
        self.record(Operation::Identity, None, None, &result, 0);
        result
    }
}
