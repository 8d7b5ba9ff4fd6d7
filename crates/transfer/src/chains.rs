//! When repairs may try a chain of helpers (`rebuild/chained.rs`): not for a while after one broke.

use std::sync::atomic::{AtomicU64, Ordering};

/// After a chain that broke none is tried for so long: most likely it would break too.
const REST_MS: u64 = 60_000;

/// When chains may be tried again, in milliseconds of the fleet's clock.
#[derive(Default)]
pub(crate) struct Chains(AtomicU64);

impl Chains {
    pub(crate) fn may_be_tried(&self, now_ms: u64) -> bool {
        self.0.load(Ordering::Relaxed) <= now_ms
    }

    pub(crate) fn rest(&self, now_ms: u64) {
        self.0.store(now_ms + REST_MS, Ordering::Relaxed);
    }
}
