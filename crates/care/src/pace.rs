//! A limit in bytes per second, as arithmetic: bytes in, milliseconds to wait out.

use std::time::Instant;

/// Spaces work so that its bytes per second stay at or under a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    bytes_per_second: Option<u64>,
    /// When everything charged so far is paid for.
    paid_ms: u64,
}

impl Pace {
    /// `None` or 0: no limit.
    pub fn new(bytes_per_second: Option<u64>) -> Self {
        Self { bytes_per_second: bytes_per_second.filter(|limit| *limit > 0), paid_ms: 0 }
    }

    /// How many of `wanted` pieces of work to have in hand at once: with a limit one, because what is begun is moved
    /// before it is charged.
    pub fn at_once(&self, wanted: usize) -> usize {
        if self.bytes_per_second.is_some() { 1 } else { wanted.max(1) }
    }

    /// Charges `bytes` that moved. Time that went by unused is not saved up, so that a pause is not followed by a burst.
    pub fn charge(&mut self, bytes: u64, now_ms: u64) {
        let Some(limit) = self.bytes_per_second else { return };
        let cost_ms = u64::try_from(u128::from(bytes) * 1000 / u128::from(limit)).unwrap_or(u64::MAX);
        self.paid_ms = self.paid_ms.max(now_ms).saturating_add(cost_ms);
    }

    /// How long to wait before moving more.
    pub fn wait_ms(&self, now_ms: u64) -> u64 {
        self.paid_ms.saturating_sub(now_ms)
    }
}

/// Milliseconds since `began`: the clock that a driver tells a pace.
pub(crate) fn milliseconds(began: Instant) -> u64 {
    u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
#[path = "pace_tests.rs"]
mod tests;
