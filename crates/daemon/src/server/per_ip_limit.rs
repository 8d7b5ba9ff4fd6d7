//! How many connections there may be, in all and from one IP address, and which one makes way where all places are taken.
//!
//! Two kinds make way: a connection that asks nothing, and one that waits for the body of its request and gets it slowly or not at all. A
//! connection that is being answered stays until its answer is sent.
//!
//! A connection without a place is not closed at once: that would look like a daemon that ends, and a request may be on its way. It is
//! told "ask later" if it asks within a short time. Decisions are pure ([`admission`]); [`PerIpLimit`] keeps the facts.

use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, watch};
use weft_env::Clock;

/// A connection without a place must ask within this time to be told "ask later", ...
const REQUEST_DEADLINE: Duration = Duration::from_secs(2);
/// ... and must have read the answer within this time after it is made. Longer than a closing connection lingers.
const ANSWER_DEADLINE: Duration = Duration::from_secs(4);

/// A request whose body was waited for so long in all makes way.
const BODY_GRACE: Duration = Duration::from_secs(2);

/// How many connections there may be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// At once.
    pub(super) connections: usize,
    /// Of them, from one IP address.
    pub(super) per_ip: usize,
    /// Beside them, those that are told "ask later". Any more are closed.
    pub(super) refused: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { connections: 1024, per_ip: 512, refused: 256 }
    }
}

/// What a connection does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Activity {
    /// It asks nothing.
    Idle,
    /// Since then a part of its request's body is waited for.
    Receiving { since: Instant },
    /// Its request is worked on, or the answer is sent.
    Working,
}

/// The body of the request that came last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct BodyProgress {
    bytes: u64,
    waited: Duration,
}

/// What counts of a connection.
#[derive(Clone, Copy, Debug)]
struct Facts {
    ip: IpAddr,
    /// Larger, the later it was made or last began or ended a request.
    last_used: u64,
    /// Has a request of it been answered with what was asked?
    is_proven: bool,
    activity: Activity,
    body: BodyProgress,
}

impl Facts {
    /// How long the body that it sends has been waited for in all; `None`: no body is waited for.
    fn waited(&self, now: Instant) -> Option<Duration> {
        match self.activity {
            Activity::Receiving { since } => Some(self.body.waited + now.saturating_duration_since(since)),
            Activity::Idle | Activity::Working => None,
        }
    }

    /// Bytes a second of the body that it sends too slowly; `None`: it does not.
    fn slow_rate(&self, now: Instant) -> Option<u64> {
        let waited = self.waited(now).filter(|waited| *waited >= BODY_GRACE)?;
        Some((u128::from(self.body.bytes) * 1000 / waited.as_millis().max(1)) as u64)
    }
}

/// What becomes of a new connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Admission {
    Free,
    InPlaceOf(u64),
    Refused,
}

/// Where there is no place left, one of the connections that ask nothing makes way: the one that was used longest ago, and first
/// those that have never been given what they asked for. If all ask something, the one makes way whose body comes slowest.
fn admission(limits: Limits, connections: &BTreeMap<u64, Facts>, ip: IpAddr, now: Instant) -> Admission {
    let of_ip = connections.values().filter(|facts| facts.ip == ip).count();
    if of_ip < limits.per_ip && connections.len() < limits.connections {
        return Admission::Free;
    }
    let candidates = || connections.iter().filter(|(_, facts)| of_ip < limits.per_ip || facts.ip == ip);
    let idle = candidates().filter(|(_, facts)| facts.activity == Activity::Idle);
    let slow = candidates().filter_map(|(id, facts)| Some((facts.slow_rate(now)?, id)));
    let chosen = idle.min_by_key(|(_, facts)| (facts.is_proven, facts.last_used)).map(|(id, _)| id);
    chosen.or(slow.min().map(|(_, id)| id)).map_or(Admission::Refused, |id| Admission::InPlaceOf(*id))
}

/// All connections.
pub(super) struct PerIpLimit {
    limits: Limits,
    state: Mutex<State>,
    clock: Arc<dyn Clock>,
}

#[derive(Default)]
struct State {
    next: u64,
    connections: BTreeMap<u64, Facts>,
    evictions: BTreeMap<u64, watch::Sender<bool>>,
    /// Without a place, and told so.
    refused: BTreeSet<u64>,
}

impl State {
    fn tick(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// May one more be told that it has no place?
    fn refuse(&mut self, id: u64, limits: Limits) -> bool {
        self.refused.len() < limits.refused && self.refused.insert(id)
    }

    fn evict(&mut self, id: u64, limits: Limits) {
        self.connections.remove(&id);
        self.refuse(id, limits);
        if let Some(eviction) = self.evictions.remove(&id) {
            eviction.send_replace(true);
        }
    }
}

impl PerIpLimit {
    pub(super) fn new(limits: Limits, clock: &Arc<dyn Clock>) -> Arc<Self> {
        Arc::new(Self { limits, state: Mutex::default(), clock: Arc::clone(clock) })
    }

    /// A slot for a connection from there: with a place, perhaps another's, or without one. `None`: too many are without one already.
    pub(super) fn admit(self: &Arc<Self>, ip: IpAddr) -> Option<Slot> {
        let ip = ip.to_canonical();
        let mut state = self.state.lock();
        let (id, (eviction, is_evicted)) = (state.tick(), watch::channel(false));
        match admission(self.limits, &state.connections, ip, self.clock.now()) {
            Admission::Refused => {
                eviction.send_replace(true);
                if !state.refuse(id, self.limits) {
                    return None;
                }
            }
            admitted => {
                if let Admission::InPlaceOf(other) = admitted {
                    state.evict(other, self.limits);
                }
                let (activity, body) = (Activity::Idle, BodyProgress::default());
                state.connections.insert(id, Facts { ip, last_used: id, is_proven: false, activity, body });
                state.evictions.insert(id, eviction);
            }
        }
        let limit = Arc::clone(self);
        Some(Slot { id, limit, is_evicted, is_told: Notify::new(), is_body_gone: AtomicBool::new(false) })
    }
}

/// One connection, until it is dropped.
pub(super) struct Slot {
    id: u64,
    limit: Arc<PerIpLimit>,
    is_evicted: watch::Receiver<bool>,
    /// An answer was made for a connection without a place.
    is_told: Notify,
    /// The answer's last bytes are on their way to the stream.
    is_body_gone: AtomicBool,
}

impl Slot {
    /// Waits until it has no place.
    pub(super) async fn evicted(&self) {
        // Its sender is dropped with the slot only.
        let _ = self.is_evicted.clone().wait_for(|is_evicted| *is_evicted).await;
    }

    /// Waits until it has no place, and until the time is over in which it is told so.
    pub(super) async fn expired(&self) {
        self.evicted().await;
        let is_refused = self.limit.state.lock().refused.contains(&self.id);
        if is_refused && self.limit.clock.timeout(REQUEST_DEADLINE, self.is_told.notified()).await.is_ok() {
            self.limit.clock.sleep(ANSWER_DEADLINE).await;
        }
    }

    /// A request begins. False: it has no place, so the answer is "ask later".
    #[must_use]
    pub(super) fn begin(&self) -> bool {
        // What is left of the answer before goes out with this one's.
        self.is_body_gone.store(false, Ordering::Relaxed);
        self.note(|facts| {
            facts.activity = Activity::Working;
            facts.body = BodyProgress::default();
        })
    }

    /// A part of the request's body is waited for, until [`Self::body_came`].
    pub(super) fn wait_for_body(&self) {
        let since = self.limit.clock.now();
        self.note(|facts| facts.activity = Activity::Receiving { since });
    }

    /// So many bytes of the body came; at its end none.
    pub(super) fn body_came(&self, bytes: u64) {
        let now = self.limit.clock.now();
        self.note(|facts| {
            facts.body.waited = facts.waited(now).unwrap_or(facts.body.waited);
            facts.body.bytes += bytes;
            facts.activity = Activity::Working;
        });
    }

    /// The answer is made: is it what was asked?
    pub(super) fn answered(&self, is_given: bool) {
        if !self.note(|facts| facts.is_proven |= is_given) {
            self.is_told.notify_one();
        }
    }

    /// Everything that was written to the stream so far is sent.
    pub(super) fn flushed(&self) {
        if self.is_body_gone.swap(false, Ordering::Relaxed) {
            self.note(|facts| facts.activity = Activity::Idle);
        }
    }

    /// Changes what is known of it, if it has a place.
    fn note(&self, change: impl FnOnce(&mut Facts)) -> bool {
        let mut state = self.limit.state.lock();
        let now = state.tick();
        let Some(facts) = state.connections.get_mut(&self.id) else { return false };
        facts.last_used = now;
        change(facts);
        true
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut state = self.limit.state.lock();
        state.connections.remove(&self.id);
        state.evictions.remove(&self.id);
        state.refused.remove(&self.id);
    }
}

/// Goes with the body of an answer: once it is dropped and the stream is flushed, the answer is sent.
pub(crate) struct Sending(pub(super) Arc<Slot>);

impl Drop for Sending {
    fn drop(&mut self) {
        self.0.is_body_gone.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
#[path = "per_ip_limit_tests.rs"]
mod tests;
