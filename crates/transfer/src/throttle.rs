//! The background throttle: while users call a node, background work does one thing at a time there and rests after it. So it
//! takes its share of the node's time and no more, and nothing needs to know how fast the node is. Pure, but for counters.
//!
//! A node with a limit of bytes divides it between the classes itself, and is not throttled here.

use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use weft_env::Clock;
use weft_nodes::BACKGROUND_PERCENT;
use weft_nodes::rate::FOREGROUND_STAYS;

/// After something that took so long, the background rests for so many times as long.
const REST_FACTOR: u32 = (100 - BACKGROUND_PERCENT) / BACKGROUND_PERCENT;

/// How often to look whether what is under way has ended: seldom beside what the background moves at once.
const LOOK_AGAIN_US: u64 = 5_000;

/// What is going on at one node.
pub(crate) struct Traffic {
    clock: Arc<dyn Clock>,
    started: Instant,
    foreground_under_way: AtomicU32,
    /// When the foreground's last call ended, microseconds since `started`.
    foreground_seen_us: AtomicU64,
    background: Mutex<Background>,
}

/// What the background did lately.
#[derive(Clone, Copy, Debug, Default)]
struct Background {
    under_way: u32,
    rested_us: u64,
}

impl Background {
    /// When to look again whether something may begin, if the foreground is there until `foreground_until_us`; `None`: now.
    fn waits_until_us(self, foreground_until_us: u64, now_us: u64) -> Option<u64> {
        if now_us >= foreground_until_us {
            return None;
        }
        match self.under_way {
            0 => (now_us < self.rested_us).then(|| self.rested_us.min(foreground_until_us)),
            _ => Some(foreground_until_us.min(now_us + LOOK_AGAIN_US)),
        }
    }

    /// Something has ended that began at `began_us`.
    fn ended(&mut self, began_us: u64, now_us: u64) {
        self.under_way -= 1;
        let rest_us = (now_us - began_us).saturating_mul(REST_FACTOR.into());
        self.rested_us = self.rested_us.max(now_us.saturating_add(rest_us));
    }
}

impl Traffic {
    pub(crate) fn new(clock: &Arc<dyn Clock>) -> Self {
        Self {
            clock: clock.clone(),
            started: clock.now(),
            foreground_under_way: AtomicU32::new(0),
            foreground_seen_us: AtomicU64::new(0),
            background: Mutex::default(),
        }
    }

    fn us(&self, moment: Instant) -> u64 {
        moment.saturating_duration_since(self.started).as_micros() as u64
    }

    /// Until when the foreground counts as there.
    fn foreground_until_us(&self, now_us: u64) -> u64 {
        let stays_us = FOREGROUND_STAYS.as_micros() as u64;
        match (self.foreground_under_way.load(Ordering::Relaxed), self.foreground_seen_us.load(Ordering::Relaxed)) {
            (0, 0) => 0,
            (0, seen_us) => seen_us + stays_us,
            _ => now_us + stays_us,
        }
    }
}

/// A foreground call under way, until it is dropped.
pub(crate) struct ForegroundCall(Arc<Traffic>);

impl ForegroundCall {
    pub(crate) fn new(traffic: &Arc<Traffic>) -> Self {
        traffic.foreground_under_way.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(traffic))
    }
}

impl Drop for ForegroundCall {
    fn drop(&mut self) {
        self.0.foreground_seen_us.store(self.0.us(self.0.clock.now()).max(1), Ordering::Relaxed);
        self.0.foreground_under_way.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Background work under way at some nodes, until it is dropped.
pub(crate) struct BackgroundTurn {
    clock: Arc<dyn Clock>,
    nodes: Vec<Arc<Traffic>>,
    began: Instant,
}

impl BackgroundTurn {
    /// Waits until it may begin at all of them.
    pub(crate) async fn begin(nodes: Vec<Arc<Traffic>>, clock: &Arc<dyn Clock>) -> Self {
        loop {
            let now = clock.now();
            match Self::try_begin(&nodes, now) {
                None => return Self { clock: clock.clone(), nodes, began: now },
                Some(wait) => clock.sleep_until(now + wait).await,
            }
        }
    }

    /// How long to wait before trying again; `None`: it has begun.
    fn try_begin(nodes: &[Arc<Traffic>], now: Instant) -> Option<Duration> {
        for (position, node) in nodes.iter().enumerate() {
            let now_us = node.us(now);
            let mut background = node.background.lock();
            match background.waits_until_us(node.foreground_until_us(now_us), now_us) {
                None => background.under_way += 1,
                Some(until_us) => {
                    drop(background);
                    nodes[..position].iter().for_each(|node| node.background.lock().under_way -= 1);
                    return Some(Duration::from_micros(until_us - now_us));
                }
            }
        }
        None
    }
}

impl Drop for BackgroundTurn {
    fn drop(&mut self) {
        let now = self.clock.now();
        for node in &self.nodes {
            node.background.lock().ended(node.us(self.began), node.us(now));
        }
    }
}

#[cfg(test)]
#[path = "throttle_tests.rs"]
mod tests;
