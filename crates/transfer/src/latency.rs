//! How long a node usually takes: a running estimate of the 99th percentile, without a lock or a history.

use std::sync::atomic::{AtomicU64, Ordering};

/// Hedge after this many times the 99th percentile: waiting longer than that is no longer the tail, it is trouble.
const HEDGE_FACTOR: u64 = 4;

/// Never hedge sooner: a busy machine delays healthy answers by tens of milliseconds, and hedging doubles the load.
pub(crate) const HEDGE_FLOOR_US: u64 = 50_000;

/// What is allowed for the bytes themselves: 10 MB/s, a slow disk or a 100 Mbit line.
const BYTES_PER_US: u64 = 10;

/// A node's learned latency.
#[derive(Debug, Default)]
pub(crate) struct Latency {
    p99_us: AtomicU64,
}

impl Latency {
    /// Takes in one answer. The estimate rises by a quarter of an excess and falls by 1/400 of itself, so it rests where one
    /// answer in about a hundred exceeds it. Lost updates between threads do no harm.
    pub(crate) fn observe(&self, elapsed_us: u64) {
        let p99_us = self.p99_us.load(Ordering::Relaxed);
        let next_us = match elapsed_us.checked_sub(p99_us) {
            Some(excess_us) => p99_us + excess_us.div_ceil(4),
            None => p99_us - p99_us / 400,
        };
        self.p99_us.store(next_us, Ordering::Relaxed);
    }

    /// How long to wait for `bytes` before asking others too.
    pub(crate) fn hedge_after_us(&self, bytes: u64) -> u64 {
        let usual_us = self.p99_us.load(Ordering::Relaxed).saturating_mul(HEDGE_FACTOR);
        usual_us.max(HEDGE_FLOOR_US) + bytes / BYTES_PER_US
    }
}

#[cfg(test)]
#[path = "latency_tests.rs"]
mod tests;
