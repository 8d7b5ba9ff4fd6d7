//! What is under way over each cable, and how fast it is, as far as a user can tell cables apart: by the daemons' hosts, and by its own
//! addresses. Daemons of one machine share its cables, and all share the user's.

use super::links::{SAMPLE_BYTES_MIN, SAMPLE_TIME_MIN, Speed};
use super::progress::Progress;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Instant;

/// Of all daemons that a user asks.
#[derive(Default)]
pub(super) struct Loads(Mutex<HashMap<String, Arc<Load>>>);

/// Of a host, or of an own address.
#[derive(Default)]
pub(super) struct Load(Mutex<State>);

#[derive(Default)]
struct State {
    /// What moves over each link that leads there.
    links: Vec<Weak<Progress>>,
    /// Requests under way, ...
    requests: u32,
    /// ... and their bytes.
    bytes: u64,
    /// When the present sample of its speed began, and how many bytes had moved then.
    sample: Option<(Instant, u64)>,
    /// When it was seen to have carried much, and how many bytes had moved then.
    carried: Option<(Instant, u64)>,
    speed: Speed,
}

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
    /// A further link leads there. What an earlier process knew of its speed stands until it is known better.
    pub(super) fn add_link(&self, progress: &Arc<Progress>, kept_bytes_per_second: Option<u64>, now: Instant) {
        let mut state = self.0.lock();
        state.links.retain(|link| link.strong_count() > 0);
        state.links.push(Arc::downgrade(progress));
        if let Some(kept) = kept_bytes_per_second.filter(|_| state.speed.bytes_per_second().is_none()) {
            state.speed = Speed::remembered(kept, now);
        }
    }

    /// Bytes of the requests under way.
    pub(super) fn bytes(&self) -> u64 {
        self.0.lock().bytes
    }

    pub(super) fn speed(&self) -> Speed {
        self.0.lock().speed
    }

    /// A request of this many bytes begins.
    pub(super) fn begin(&self, bytes: u64, now: Instant) {
        let mut state = self.0.lock();
        if state.requests == 0 {
            state.sample = Some((now, state.moved()));
        }
        state.requests += 1;
        state.bytes += bytes;
    }

    /// A request that began with this many bytes has ended.
    pub(super) fn end(&self, bytes: u64, now: Instant) {
        let mut state = self.0.lock();
        state.requests -= 1;
        state.bytes -= bytes;
        let (moved, Some((began, before))) = (state.moved(), state.sample) else { return };
        let (sampled, took) = (moved.saturating_sub(before), now.saturating_duration_since(began));
        if sampled >= SAMPLE_BYTES_MIN && (took >= SAMPLE_TIME_MIN || state.requests == 0) {
            state.speed.moved(sampled, took, now);
            state.sample = Some((now, moved));
        }
    }

    /// A request for much stands still: the next ones go elsewhere first.
    pub(super) fn stands_still(&self, began: Instant, now: Instant) {
        self.0.lock().speed.moved(0, now.saturating_duration_since(began), now);
    }

    /// When it was last seen to have carried [`SAMPLE_BYTES_MIN`] more.
    pub(super) fn carried(&self, now: Instant) -> Instant {
        let mut state = self.0.lock();
        let moved = state.moved();
        let (at, before) = state.carried.unwrap_or((now, moved));
        // A link that is no more takes its bytes along.
        let before = before.min(moved);
        let seen = if moved >= before + SAMPLE_BYTES_MIN { (now, moved) } else { (at, before) };
        state.carried = Some(seen);
        seen.0
    }
}

impl State {
    fn moved(&self) -> u64 {
        self.links.iter().filter_map(Weak::upgrade).map(|link| link.bytes()).sum()
    }
}

#[cfg(test)]
#[path = "loads_tests.rs"]
mod tests;
