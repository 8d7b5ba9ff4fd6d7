//! The extra bytes that hedging may cost, over all downloads of an engine.

use parking_lot::Mutex;

/// So much may be spent at once: a burst of late blocks after a long quiet time.
const SAVED_BYTES_MAX: u64 = 64 << 20;

/// Every fetch adds a percentage of its bytes; a fetch that happens only because others are late subtracts its bytes.
#[derive(Debug)]
pub(crate) struct HedgeBudget {
    saved_bytes: Mutex<u64>,
    percent: u64,
}

impl HedgeBudget {
    /// Full, so that the first laggard need not be waited for.
    pub(crate) fn new(percent: u64) -> Self {
        Self { saved_bytes: Mutex::new(SAVED_BYTES_MAX), percent }
    }

    /// Takes out half of what there is, so that those who read at the same time find something, too.
    pub(crate) fn allowance_bytes(&self) -> u64 {
        let mut saved_bytes = self.saved_bytes.lock();
        let allowance_bytes = *saved_bytes / 2;
        *saved_bytes -= allowance_bytes;
        allowance_bytes
    }

    /// Puts back what is left of it, and the part of what was fetched.
    pub(crate) fn settle(&self, fetched_bytes: u64, left_bytes: u64) {
        let mut saved_bytes = self.saved_bytes.lock();
        *saved_bytes = (*saved_bytes + left_bytes + fetched_bytes * self.percent / 100).min(SAVED_BYTES_MAX);
    }
}
