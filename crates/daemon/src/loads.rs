//! What is under way over each cable, and how fast it is, as far as a user can tell cables apart: by the daemons' hosts, and by its own
//! addresses. Daemons of one machine share its cables, and all share the user's.

use super::connections::Watch;
use super::links::{Alone, SAMPLE_BYTES_MIN, SAMPLE_TIME_MIN, STILL, Speed};
use super::progress::Progress;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Instant;
use tokio::sync::Notify;

/// What a process has under way over each cable: one for all daemons that it asks, since those of one machine share their cables.
#[derive(Clone, Default)]
pub struct Cables(pub(super) Arc<Loads>);

/// Of all daemons that a user asks.
#[derive(Default)]
pub(super) struct Loads {
    of: Mutex<HashMap<String, Arc<Load>>>,
    /// A request has ended.
    pub(super) ended: Notify,
}

/// Of a host, or of an own address.
#[derive(Default)]
pub(super) struct Load {
    state: Mutex<State>,
    /// Large puts of a class begin there one after another, in the order in which they came.
    pub(super) turn: [tokio::sync::Mutex<()>; 2],
}

/// A request under way.
pub(super) struct UnderWay {
    pub(super) bytes: u64,
    /// Does it store a large shard?
    pub(super) is_large_put: bool,
    pub(super) began: Instant,
    pub(super) watch: Arc<Watch>,
}

impl UnderWay {
    /// Since when no byte of it has moved.
    pub(super) fn quiet_since(&self) -> Instant {
        let moved = self.watch.progress().and_then(|progress| progress.moved());
        self.began.max(moved.unwrap_or(self.began))
    }
}

#[derive(Default)]
struct State {
    /// What moves over each link that leads there.
    links: Vec<Weak<Progress>>,
    under_way: Vec<Arc<UnderWay>>,
    /// When the present sample of its speed began, and how many bytes had moved then.
    sample: Option<(Instant, u64)>,
    /// When it was seen to have carried much, and how many bytes had moved then.
    carried: Option<(Instant, u64)>,
    speed: Speed,
    alone: Alone,
}

impl Loads {
    pub(super) fn of(&self, end: &str) -> Arc<Load> {
        let mut loads = self.of.lock();
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
        let mut state = self.state.lock();
        state.links.retain(|link| link.strong_count() > 0);
        state.links.push(Arc::downgrade(progress));
        if let Some(kept) = kept_bytes_per_second.filter(|_| state.speed.bytes_per_second().is_none()) {
            state.speed = Speed::remembered(kept, now);
        }
    }

    /// Bytes of the requests under way.
    pub(super) fn bytes(&self) -> u64 {
        self.state.lock().under_way.iter().map(|request| request.bytes).sum()
    }

    /// Bytes of each large put under way that moves. One that stands still leaves its place to others, and reads are in no put's way.
    pub(super) fn moving_puts(&self, now: Instant) -> Vec<u64> {
        let moves = |request: &UnderWay| now.saturating_duration_since(request.quiet_since()) < STILL;
        let state = self.state.lock();
        let puts = state.under_way.iter().filter(|request| request.is_large_put && moves(request));
        puts.map(|request| request.bytes).collect()
    }

    /// How fast a single put is.
    pub(super) fn alone(&self) -> Alone {
        self.state.lock().alone
    }

    /// This put has succeeded.
    pub(super) fn stored(&self, put: &UnderWay, now: Instant) {
        if put.is_large_put {
            self.state.lock().alone.stored(put.bytes, now.saturating_duration_since(put.began), now);
        }
    }

    pub(super) fn speed(&self) -> Speed {
        self.state.lock().speed
    }

    pub(super) fn begin(&self, request: &Arc<UnderWay>) {
        let mut state = self.state.lock();
        if state.under_way.is_empty() {
            state.sample = Some((request.began, state.moved()));
        }
        state.under_way.push(Arc::clone(request));
    }

    pub(super) fn end(&self, request: &Arc<UnderWay>, now: Instant) {
        let mut state = self.state.lock();
        state.under_way.retain(|other| !Arc::ptr_eq(other, request));
        let (moved, Some((began, before))) = (state.moved(), state.sample) else { return };
        let (sampled, took) = (moved.saturating_sub(before), now.saturating_duration_since(began));
        if sampled >= SAMPLE_BYTES_MIN && (took >= SAMPLE_TIME_MIN || state.under_way.is_empty()) {
            state.speed.moved(sampled, took, now);
            state.sample = Some((now, moved));
        }
    }

    /// A request for much stands still: the next ones go elsewhere first.
    pub(super) fn stands_still(&self, began: Instant, now: Instant) {
        self.state.lock().speed.moved(0, now.saturating_duration_since(began), now);
    }

    /// When it was last seen to have carried [`SAMPLE_BYTES_MIN`] more.
    pub(super) fn carried(&self, now: Instant) -> Instant {
        let mut state = self.state.lock();
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
