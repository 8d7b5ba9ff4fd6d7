//! The places where shards are: each a machine of its own with a disk, and a network in between that loses, delays and doubles.

use crate::ambush::{ProcessId, Step};
use crate::metadata::MetadataDisk;
use crate::scheduler::{Scheduler, running};
use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Bound, Range};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use weft_format::ShardKey;
use weft_nodes::node::{Capability, Node, NodeIdentity, Page, ShardStat, Space};
use weft_nodes::{NodeError, NodeErrorKind};

const CAPABILITY: Capability = weft_nodes::kinds::LOCAL;
/// Room on a place.
const TOTAL_BYTES: u64 = 1 << 30;
/// A message takes up to so long.
const MESSAGE_US_MAX: u64 = 2_000;

/// How a place is at the moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Condition {
    /// It answers.
    #[default]
    Well,
    /// Connections are refused.
    Down,
    /// Nothing comes back.
    Silent,
    /// Each message is delayed by this number of milliseconds.
    Slow(u64),
    /// It takes nothing more.
    Full,
    /// Its disk fails.
    Failing,
}

#[derive(Clone)]
struct Stored {
    bytes: Bytes,
    modified_ms: u64,
}

/// A machine with a disk.
pub struct Place {
    name: String,
    identity: NodeIdentity,
    /// What says which shards are needed.
    metadata: Arc<MetadataDisk>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    condition: Condition,
    shards: BTreeMap<ShardKey, Stored>,
    /// Removed, and not durably so.
    removed: BTreeMap<ShardKey, Stored>,
    /// What it had at an earlier moment.
    snapshot: BTreeMap<ShardKey, Stored>,
    /// Shards with a wrong bit.
    rotten: BTreeSet<ShardKey>,
    /// Processes whose requests do not arrive, and those to whom no answer does.
    cut_off: BTreeSet<ProcessId>,
    unheard: BTreeSet<ProcessId>,
    /// Messages of a thousand that are lost, and that come twice.
    lost_per_mille: u64,
    doubled_per_mille: u64,
}

impl Place {
    /// An empty one.
    #[must_use]
    pub fn new(name: &str, identity: NodeIdentity, metadata: Arc<MetadataDisk>) -> Arc<Self> {
        Arc::new(Self { name: name.to_owned(), identity, metadata, state: Mutex::default() })
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// As which node of which volume it identifies itself.
    #[must_use]
    pub fn known_as(&self) -> NodeIdentity {
        self.identity
    }

    /// From now on it is so.
    pub fn set_condition(&self, condition: Condition) {
        let mut state = self.state.lock();
        state.condition = condition;
        self.tell_trouble(&state);
    }

    /// A place that is full answers.
    fn tell_trouble(&self, state: &State) {
        let is_away = !matches!(state.condition, Condition::Well | Condition::Full);
        let is_cut_off = !state.cut_off.is_empty() || !state.unheard.is_empty();
        running().trouble(&self.name, is_away || is_cut_off || state.lost_per_mille > 0);
    }

    /// How much of the network's traffic with it is lost and comes twice, of a thousand messages.
    pub fn set_noise(&self, lost_per_mille: u64, doubled_per_mille: u64) {
        let mut state = self.state.lock();
        (state.lost_per_mille, state.doubled_per_mille) = (lost_per_mille, doubled_per_mille);
        self.tell_trouble(&state);
    }

    /// Between it and a process nothing goes through in one direction.
    pub fn part(&self, process: ProcessId, hears_it: bool) {
        let mut state = self.state.lock();
        if hears_it {
            state.unheard.insert(process)
        } else {
            state.cut_off.insert(process)
        };
        self.tell_trouble(&state);
    }

    /// The network is whole again, and the place well.
    pub fn heal(&self) {
        let mut state = self.state.lock();
        state.condition = Condition::Well;
        (state.lost_per_mille, state.doubled_per_mille) = (0, 0);
        state.cut_off.clear();
        state.unheard.clear();
        self.tell_trouble(&state);
    }

    /// Its power fails: what was removed a moment ago may be there again.
    pub fn cut_power(&self, scheduler: &Scheduler) {
        let mut state = self.state.lock();
        for (key, stored) in std::mem::take(&mut state.removed) {
            if scheduler.chance(500) {
                state.shards.entry(key).or_insert(stored);
            }
        }
    }

    /// A bit of one of its shards turns. False: there is none.
    pub fn rot(&self, scheduler: &Scheduler) -> bool {
        let mut state = self.state.lock();
        let keys: Vec<ShardKey> = state.shards.keys().copied().collect();
        let Some(key) = keys.get(scheduler.below(keys.len() as u64) as usize) else { return false };
        let Some(stored) = state.shards.get_mut(key) else { return false };
        let mut bytes = stored.bytes.to_vec();
        let at = scheduler.below(bytes.len() as u64) as usize;
        if bytes.is_empty() {
            return false;
        }
        bytes[at] ^= 1 << scheduler.below(8);
        stored.bytes = bytes.into();
        state.rotten.insert(*key);
        true
    }

    /// Keeps what it has now, to be rolled back to it.
    pub fn take_snapshot(&self) {
        let mut state = self.state.lock();
        state.snapshot = state.shards.clone();
    }

    /// It has what it had at its snapshot, as a disk that was restored from a backup. How many shards are gone, and back.
    pub fn roll_back(&self) -> (usize, usize) {
        let mut state = self.state.lock();
        let then = state.snapshot.clone();
        let now = std::mem::replace(&mut state.shards, then);
        state.removed.clear();
        let gone = now.keys().filter(|key| !state.shards.contains_key(key)).count();
        let back = state.shards.keys().filter(|key| !now.contains_key(key)).count();
        (gone, back)
    }

    /// It loses every shard of data for which the coin falls, as a disk of yesterday has.
    pub fn forget_some(&self, scheduler: &Scheduler, per_mille: u64) -> usize {
        let mut state = self.state.lock();
        let before = state.shards.len();
        state.shards.retain(|key, _| key.segment == weft_format::records::OPENINGS || !scheduler.chance(per_mille));
        before - state.shards.len()
    }

    /// The shards on it without a wrong bit.
    #[must_use]
    pub fn sound_keys(&self) -> BTreeSet<ShardKey> {
        let state = self.state.lock();
        state.shards.keys().filter(|key| !state.rotten.contains(key)).copied().collect()
    }

    /// The shards on it.
    #[must_use]
    pub fn keys(&self) -> Vec<ShardKey> {
        self.state.lock().shards.keys().copied().collect()
    }

    fn error(&self, kind: NodeErrorKind, detail: &str) -> NodeError {
        NodeError::new(kind, &self.name, detail)
    }

    fn check(&self, state: &State) -> Result<(), NodeError> {
        match state.condition {
            Condition::Down => Err(self.error(NodeErrorKind::Unavailable, "it is down")),
            Condition::Failing => Err(self.error(NodeErrorKind::Io, "its disk fails")),
            _ => Ok(()),
        }
    }
}

/// A place as one process sees it.
pub struct SimNode {
    place: Arc<Place>,
    process: ProcessId,
}

impl SimNode {
    /// As `process` sees it.
    #[must_use]
    pub fn seen_by(place: Arc<Place>, process: ProcessId) -> Arc<dyn Node> {
        Arc::new(Self { place, process })
    }

    /// Sends a request that changes something: there a fault may wait.
    async fn change(
        &self,
        step: Step,
        work: impl Fn(&Place, &mut State, u64) -> Result<(), NodeError> + Send + 'static,
    ) -> Result<(), NodeError> {
        running().reach(self.process, &[step], false);
        let done = self.call(work).await;
        running().reach(self.process, &[step], true);
        done
    }

    /// Sends a request; what it does is done when it arrives, and goes on if nobody waits for the answer any more.
    async fn call<T: Send + 'static>(
        &self,
        work: impl Fn(&Place, &mut State, u64) -> Result<T, NodeError> + Send + 'static,
    ) -> Result<T, NodeError> {
        let (tell, told) = oneshot::channel();
        {
            let scheduler = running();
            let (place, process) = (self.place.clone(), self.process);
            let (delay, lost, doubled) = {
                let state = place.state.lock();
                let slow_us = match state.condition {
                    Condition::Slow(ms) => ms * 1000,
                    _ => 0,
                };
                let delay = Duration::from_micros(scheduler.below(MESSAGE_US_MAX) + slow_us);
                (delay, state.lost_per_mille, state.doubled_per_mille)
            };
            let is_doubled = scheduler.chance(doubled);
            let mut tell = Some(tell);
            let arrive = move |is_first: bool| {
                let scheduler = running();
                let mut state = place.state.lock();
                let is_silent = state.condition == Condition::Silent || state.cut_off.contains(&process);
                if is_silent || scheduler.chance(lost) {
                    // Nobody ever says so.
                    std::mem::forget(tell.take());
                    return;
                }
                let now_ms = scheduler.now().as_millis() as u64;
                let done = place.check(&state).and_then(|()| work(&place, &mut state, now_ms));
                if !is_first {
                    return;
                }
                if state.unheard.contains(&process) || scheduler.chance(lost) {
                    std::mem::forget(tell.take());
                    return;
                }
                let tell = tell.take();
                scheduler.after(Duration::from_micros(scheduler.below(MESSAGE_US_MAX)), move || {
                    if let Some(tell) = tell {
                        // Nobody may wait any more.
                        let _ = tell.send(done);
                    }
                });
            };
            if is_doubled {
                let mut arrive = arrive;
                scheduler.after(delay, move || {
                    arrive(true);
                    let again = running().below(2_000_000);
                    running().after(Duration::from_micros(again), move || arrive(false));
                });
            } else {
                let mut arrive = arrive;
                scheduler.after(delay, move || arrive(true));
            }
        }
        match told.await {
            Ok(answer) => answer,
            Err(_) => std::future::pending().await,
        }
    }
}

#[async_trait]
impl Node for SimNode {
    fn capability(&self) -> &Capability {
        &CAPABILITY
    }

    async fn put(&self, key: ShardKey, parts: &[Bytes]) -> Result<(), NodeError> {
        let bytes = Bytes::from(parts.concat());
        self.change(Step::Put, move |place, state, now_ms| {
            if let Some(stored) = state.shards.get(&key) {
                let is_same = stored.bytes == bytes;
                let exists = || place.error(NodeErrorKind::Exists, "the shard exists with other bytes");
                return if is_same { Ok(()) } else { Err(exists()) };
            }
            if state.condition == Condition::Full {
                return Err(place.error(NodeErrorKind::Full, "it is full"));
            }
            state.removed.remove(&key);
            state.rotten.remove(&key);
            state.shards.insert(key, Stored { bytes: bytes.clone(), modified_ms: now_ms });
            Ok(())
        })
        .await
    }

    async fn get(&self, key: ShardKey, range: Range<u64>) -> Result<Bytes, NodeError> {
        self.call(move |place, state, _| {
            let absent = || place.error(NodeErrorKind::NotFound, "there is no such shard");
            let bytes = &state.shards.get(&key).ok_or_else(absent)?.bytes;
            let end = range.end.min(bytes.len() as u64);
            Ok(bytes.slice(range.start.min(end) as usize..end as usize))
        })
        .await
    }

    async fn stat(&self, key: ShardKey) -> Result<ShardStat, NodeError> {
        self.call(move |place, state, _| {
            let absent = || place.error(NodeErrorKind::NotFound, "there is no such shard");
            let stored = state.shards.get(&key).ok_or_else(absent)?;
            Ok(ShardStat { bytes: stored.bytes.len() as u64, modified_ms: stored.modified_ms })
        })
        .await
    }

    async fn list(&self, after: Option<ShardKey>, limit: usize) -> Result<Page, NodeError> {
        self.call(move |_, state, _| {
            let start = after.map_or(Bound::Unbounded, Bound::Excluded);
            let mut keys: Vec<ShardKey> =
                state.shards.range((start, Bound::Unbounded)).map(|(key, _)| *key).take(limit + 1).collect();
            let more = keys.len() > limit;
            keys.truncate(limit);
            Ok(Page { keys, foreign: Vec::new(), more })
        })
        .await
    }

    async fn remove(&self, key: ShardKey) -> Result<(), NodeError> {
        self.change(Step::Remove, move |place, state, _| {
            if place.metadata.is_needed(key, place.identity.node) {
                running().complain(format!("{key} is removed from {}, and is needed", place.name));
            }
            if let Some(stored) = state.shards.remove(&key) {
                state.removed.insert(key, stored);
            }
            Ok(())
        })
        .await
    }

    async fn space(&self) -> Result<Space, NodeError> {
        self.call(|_, state, _| {
            let used_bytes: u64 = state.shards.values().map(|stored| stored.bytes.len() as u64).sum();
            let free_bytes = if state.condition == Condition::Full { 0 } else { TOTAL_BYTES - used_bytes };
            Ok(Space { total_bytes: TOTAL_BYTES, free_bytes, disk: None })
        })
        .await
    }

    async fn identity(&self) -> Result<NodeIdentity, NodeError> {
        self.call(|place, _, _| Ok(place.identity)).await
    }
}
