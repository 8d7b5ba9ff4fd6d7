//! This client's uplink: the bytes in flight on it, and its pace. A call takes longer while others share the uplink, and its node
//! is not at fault for that.

use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// What a call's bytes add to its deadline: 1 MB/s, the slowest link worth storing on.
pub const SLOWEST_BYTES_PER_MS: u64 = 1_000;

/// How far back the pace looks.
const WINDOW_MS: f64 = 5_000.0;

/// What shares the uplink may take this many times as long as at the pace of late: shares are unequal, and paces change.
const CAUTION: u64 = 4;

/// The uplink, shared by all calls of an engine.
#[derive(Default)]
pub(crate) struct Uplink {
    under_way_bytes: AtomicU64,
    traffic: Mutex<Traffic>,
}

/// How busy the uplink is, for those who wait for their share of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct UplinkView {
    /// Bytes that have arrived, here or there, since the engine began.
    pub(crate) moved_bytes: u64,
    /// For how long none has; `None`: none ever has.
    pub(crate) quiet_ms: Option<u64>,
    /// Bytes under way.
    pub(crate) under_way_bytes: u64,
    /// Its pace while anything is under way; `None`: not known yet.
    pub(crate) bytes_per_ms: Option<u64>,
}

/// Bytes under way, until it is dropped.
pub(crate) struct InFlightBytes {
    uplink: Arc<Uplink>,
    bytes: u64,
}

impl Uplink {
    pub(crate) fn enter(self: &Arc<Self>, bytes: u64, now_ms: u64) -> InFlightBytes {
        if self.under_way_bytes.fetch_add(bytes, Ordering::Relaxed) == 0 {
            self.traffic.lock().busy_since_ms = now_ms;
        }
        InFlightBytes { uplink: self.clone(), bytes }
    }

    /// So many bytes have arrived, here or there.
    pub(crate) fn moved(&self, bytes: u64, now_ms: u64) {
        self.traffic.lock().add(bytes, now_ms);
    }

    /// How busy it is.
    pub(crate) fn view(&self, now_ms: u64) -> UplinkView {
        let under_way_bytes = self.under_way_bytes.load(Ordering::Relaxed);
        self.traffic.lock().view(under_way_bytes, now_ms)
    }

    /// How much longer a call may take because of what is under way now beside its own bytes.
    pub(crate) fn wait(&self, own_bytes: u64, now_ms: u64) -> Duration {
        let bytes = self.under_way_bytes.load(Ordering::Relaxed).saturating_sub(own_bytes);
        let bytes_per_ms = (self.traffic.lock().bytes_per_ms_of_late(now_ms) / CAUTION).max(SLOWEST_BYTES_PER_MS);
        Duration::from_millis(bytes / bytes_per_ms)
    }
}

impl Drop for InFlightBytes {
    fn drop(&mut self) {
        self.uplink.under_way_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// What has moved.
#[derive(Default)]
struct Traffic {
    moved_bytes: u64,
    moved_at_ms: Option<u64>,
    busy_since_ms: u64,
    /// Bytes of late: each counts less the longer ago it moved.
    recent_bytes: f64,
    /// Bytes, and the time with anything under way that they took: each counts less the longer the uplink has been busy since.
    busy_bytes: f64,
    busy_ms: f64,
}

impl Traffic {
    fn add(&mut self, bytes: u64, now_ms: u64) {
        self.recent_bytes = self.faded(now_ms) + bytes as f64;
        let busy_from_ms = self.moved_at_ms.unwrap_or(0).max(self.busy_since_ms);
        let busy_ms = now_ms.saturating_sub(busy_from_ms) as f64;
        let fading = (-busy_ms / WINDOW_MS).exp();
        self.busy_bytes = self.busy_bytes * fading + bytes as f64;
        self.busy_ms = self.busy_ms * fading + busy_ms;
        self.moved_bytes += bytes;
        self.moved_at_ms = Some(now_ms);
    }

    /// The pace of the last seconds, busy or not.
    fn bytes_per_ms_of_late(&self, now_ms: u64) -> u64 {
        (self.faded(now_ms) / WINDOW_MS) as u64
    }

    fn faded(&self, now_ms: u64) -> f64 {
        let since_ms = now_ms.saturating_sub(self.moved_at_ms.unwrap_or(0));
        self.recent_bytes * (-(since_ms as f64) / WINDOW_MS).exp()
    }

    fn view(&self, under_way_bytes: u64, now_ms: u64) -> UplinkView {
        // Below a millisecond the clock says nothing of the pace but that it is high.
        let bytes_per_ms = self.busy_bytes / self.busy_ms.max(1.0);
        UplinkView {
            moved_bytes: self.moved_bytes,
            quiet_ms: self.moved_at_ms.map(|moved_at_ms| now_ms.saturating_sub(moved_at_ms)),
            under_way_bytes,
            bytes_per_ms: self.moved_at_ms.map(|_| (bytes_per_ms.round() as u64).max(SLOWEST_BYTES_PER_MS)),
        }
    }
}

#[cfg(test)]
#[path = "uplink_tests.rs"]
mod tests;
