//! Bytes under way over each cable, as far as a user can tell cables apart: by the daemons' hosts, and by its own addresses. Daemons of one
//! machine share its cables, and all share the user's.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Of all daemons that a user asks.
#[derive(Default)]
pub(super) struct Loads(Mutex<HashMap<String, Arc<Load>>>);

/// Bytes under way to a host, or from an own address.
#[derive(Default)]
pub(super) struct Load(AtomicU64);

impl Loads {
    pub(super) fn of(&self, end: &str) -> Arc<Load> {
        let mut loads = self.0.lock();
        if let Some(known) = loads.get(end) {
            return Arc::clone(known);
        }
        // Hosts that nobody asks any more.
        loads.retain(|_, load| Arc::strong_count(load) > 1);
        Arc::clone(loads.entry(end.to_owned()).or_default())
    }
}

impl Load {
    pub(super) fn bytes(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    pub(super) fn add(&self, bytes: u64) {
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn take(&self, bytes: u64) {
        self.0.fetch_sub(bytes, Ordering::Relaxed);
    }
}
