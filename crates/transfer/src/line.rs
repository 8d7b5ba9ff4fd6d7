//! This client's own line: what is under way on it, and how fast that goes. A call takes longer while others share the line, and
//! its node is not at fault for that.

use crate::transfer::SLOWEST_BYTES_PER_MS;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How far back the pace looks.
const WINDOW_MS: f64 = 5_000.0;

/// What shares the line may take this many times as long as at the pace of late: shares are unequal, and paces change.
const CAUTION: u64 = 4;

/// The line, shared by all calls of an engine.
#[derive(Default)]
pub(crate) struct Line {
    under_way_bytes: AtomicU64,
    pace: Mutex<Pace>,
}

/// Bytes under way, until it is dropped.
pub(crate) struct Passage {
    line: Arc<Line>,
    bytes: u64,
}

impl Line {
    pub(crate) fn enter(self: &Arc<Self>, bytes: u64) -> Passage {
        self.under_way_bytes.fetch_add(bytes, Ordering::Relaxed);
        Passage { line: self.clone(), bytes }
    }

    /// So many bytes have arrived, here or there.
    pub(crate) fn moved(&self, bytes: u64, now_ms: u64) {
        self.pace.lock().add(bytes, now_ms);
    }

    /// How much longer a call may take because of what is under way now beside its own bytes.
    pub(crate) fn wait(&self, own_bytes: u64, now_ms: u64) -> Duration {
        let bytes = self.under_way_bytes.load(Ordering::Relaxed).saturating_sub(own_bytes);
        let bytes_per_ms = (self.pace.lock().bytes_per_ms(now_ms) / CAUTION).max(SLOWEST_BYTES_PER_MS);
        Duration::from_millis(bytes / bytes_per_ms)
    }
}

impl Drop for Passage {
    fn drop(&mut self) {
        self.line.under_way_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Bytes of late: each counts less the longer ago it moved.
#[derive(Default)]
struct Pace {
    bytes: f64,
    at_ms: u64,
}

impl Pace {
    fn add(&mut self, bytes: u64, now_ms: u64) {
        self.bytes = self.faded(now_ms) + bytes as f64;
        self.at_ms = now_ms;
    }

    fn bytes_per_ms(&self, now_ms: u64) -> u64 {
        (self.faded(now_ms) / WINDOW_MS) as u64
    }

    fn faded(&self, now_ms: u64) -> f64 {
        self.bytes * (-(now_ms.saturating_sub(self.at_ms) as f64) / WINDOW_MS).exp()
    }
}

#[cfg(test)]
#[path = "line_tests.rs"]
mod tests;
