//! The places where shards are: each a machine of its own with a disk, and a network in between that loses, delays and doubles.

pub mod http;

use crate::ambush::ProcessId;
use crate::metadata::MetadataDisk;
use crate::scheduler::{Scheduler, running};
use bytes::Bytes;
use http::Machine;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Bound, Range};
use std::sync::Arc;
use std::time::Duration;
use weft_format::ShardKey;
use weft_format::records::{OPENINGS, is_replica};
use weft_format::shard::{Digest, ShardIdentity, verify_object};
use weft_nodes::node::{NodeIdentity, Page, ShardStat, Space};
use weft_nodes::{NodeError, NodeErrorKind};

/// Room on a place.
const TOTAL_BYTES: u64 = 1 << 30;
/// What nobody synced is on the disk after this time, as Linux has it.
const WRITTEN_BACK_MS: u64 = 30_000;
/// A message takes up to so long.
pub(crate) const MESSAGE_US_MAX: u64 = 2_000;

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
    /// What serves it over HTTP; none: it takes messages.
    machine: Option<Machine>,
    state: Mutex<State>,
}

#[derive(Default)]
pub(crate) struct State {
    condition: Condition,
    shards: BTreeMap<ShardKey, Stored>,
    /// Stored, since when, and not durably so: nobody has an answer yet.
    unsynced: BTreeMap<ShardKey, u64>,
    /// How often its power failed.
    power_cuts: u64,
    /// Removed, and not durably so.
    removed: BTreeMap<ShardKey, Stored>,
    /// What it had at an earlier moment.
    snapshot: BTreeMap<ShardKey, Stored>,
    /// What it ever had, where a daemon says so.
    ever: BTreeSet<ShardKey>,
    /// Shards with a wrong bit, ...
    rotten: BTreeSet<ShardKey>,
    /// ... and those on a sector that cannot be read.
    unreadable: BTreeSet<ShardKey>,
    /// Shards that it had and lost without being asked to.
    lost: BTreeSet<ShardKey>,
    /// Processes whose requests do not arrive, and those to whom no answer does.
    cut_off: BTreeSet<ProcessId>,
    unheard: BTreeSet<ProcessId>,
    /// Messages of a thousand that are lost, and that come twice.
    lost_per_mille: u64,
    doubled_per_mille: u64,
    /// Why its machine cannot be reached.
    unreachable: BTreeSet<Unreachable>,
    /// Its disk was replaced by an empty one: it is no node any more.
    is_wiped: bool,
}

/// Why a machine cannot be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Unreachable {
    /// Its daemon is dead, or does not run.
    NoDaemon,
    /// It has moved, and may not have been found.
    Moved,
    /// Its disk is empty, and people have not replaced it yet.
    Wiped,
    /// Another machine has its address.
    Elsewhere,
    /// An address of it leads nowhere.
    Nowhere,
    /// Somebody else answers in its place.
    Impostor,
}

impl Place {
    /// An empty one, served over HTTP by `machine`, if there is one.
    #[must_use]
    pub fn new(name: &str, identity: NodeIdentity, metadata: Arc<MetadataDisk>, machine: Option<Machine>) -> Arc<Self> {
        Arc::new(Self { name: name.to_owned(), identity, metadata, machine, state: Mutex::default() })
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

    /// What serves it over HTTP.
    #[must_use]
    pub fn machine(&self) -> Option<&Machine> {
        self.machine.as_ref()
    }

    /// How long a message to it or from it takes.
    pub(crate) fn delay(&self) -> Duration {
        let slow_us = match self.state.lock().condition {
            Condition::Slow(ms) => ms * 1000,
            _ => 0,
        };
        Duration::from_micros(running().below(MESSAGE_US_MAX) + slow_us)
    }

    /// How many messages of a thousand are lost, and come twice.
    pub(crate) fn noise(&self) -> (u64, u64) {
        let state = self.state.lock();
        (state.lost_per_mille, state.doubled_per_mille)
    }

    /// Do requests of this process arrive?
    pub(crate) fn hears(&self, process: ProcessId) -> bool {
        let state = self.state.lock();
        state.condition != Condition::Silent && !state.cut_off.contains(&process)
    }

    /// Do answers to this process arrive?
    pub(crate) fn is_heard_by(&self, process: ProcessId) -> bool {
        let state = self.state.lock();
        state.condition != Condition::Silent && !state.unheard.contains(&process)
    }

    /// A put was answered. A daemon that says so has stored it, whatever became of the shard since.
    pub(crate) fn put_was_answered(&self, key: ShardKey) {
        if self.machine.is_some() && !self.state.lock().ever.contains(&key) {
            running().complain(format!("the put of {key} to {} is answered, and its disk never had it", self.name));
        }
    }

    /// Are connections refused?
    pub(crate) fn is_down(&self) -> bool {
        self.state.lock().condition == Condition::Down
    }

    /// Does nothing come out of its machine?
    pub(crate) fn is_cut_off(&self) -> bool {
        matches!(self.state.lock().condition, Condition::Down | Condition::Silent)
    }

    /// It could not be reached a moment ago.
    pub(crate) fn was_away(&self) {
        running().trouble(&self.name, true);
        self.tell_trouble(&self.state.lock());
    }

    /// From now on its machine cannot be reached, or not for this reason any more.
    pub(crate) fn set_unreachable(&self, why: Unreachable, is_so: bool) {
        let mut state = self.state.lock();
        match is_so {
            true => state.unreachable.insert(why),
            false => state.unreachable.remove(&why),
        };
        self.tell_trouble(&state);
    }

    /// From now on it is so.
    pub fn set_condition(&self, condition: Condition) {
        let mut state = self.state.lock();
        state.condition = condition;
        self.tell_trouble(&state);
        drop(state);
        if let (Condition::Down, Some(machine)) = (condition, &self.machine) {
            machine.cut(|_| true);
        }
    }

    /// A place that is full answers.
    fn tell_trouble(&self, state: &State) {
        let is_away = !matches!(state.condition, Condition::Well | Condition::Full);
        let is_cut_off = !state.cut_off.is_empty() || !state.unheard.is_empty();
        running()
            .trouble(&self.name, is_away || is_cut_off || state.lost_per_mille > 0 || !state.unreachable.is_empty());
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
    pub fn heal(self: &Arc<Self>) {
        if let Some(machine) = &self.machine {
            machine.heal(self);
        }
        let mut state = self.state.lock();
        state.condition = Condition::Well;
        (state.lost_per_mille, state.doubled_per_mille) = (0, 0);
        state.cut_off.clear();
        state.unheard.clear();
        self.tell_trouble(&state);
    }

    /// Its power fails: what was removed a moment ago may be there again, and what was being stored is there, or not, or its beginning is.
    pub fn cut_power(&self, scheduler: &Scheduler) {
        let mut state = self.state.lock();
        state.power_cuts += 1;
        let now_ms = scheduler.now().as_millis() as u64;
        let mut unsynced = std::mem::take(&mut state.unsynced);
        unsynced.retain(|_, stored_ms| now_ms < *stored_ms + WRITTEN_BACK_MS);
        if !unsynced.is_empty() {
            scheduler.tell(|| format!("{} was storing {} shards", self.name, unsynced.len()));
        }
        for key in unsynced.into_keys() {
            let Some(mut stored) = state.shards.remove(&key) else { continue };
            match scheduler.below(3) {
                0 => continue,
                1 => {
                    stored.bytes.truncate(scheduler.below(stored.bytes.len() as u64) as usize);
                    state.rotten.insert(key);
                }
                _ => {}
            }
            state.shards.insert(key, stored);
        }
        for (key, stored) in std::mem::take(&mut state.removed) {
            if scheduler.chance(500) {
                state.shards.entry(key).or_insert(stored);
            }
        }
    }

    /// A bit of one of its shards turns. False: there is none.
    pub fn rot(&self, scheduler: &Scheduler) -> bool {
        let mut state = self.state.lock();
        state.any_key(scheduler).is_some_and(|key| state.rot(key, scheduler))
    }

    /// A sector under one of its shards cannot be read any more. False: there is none.
    pub fn lose_sector(&self, scheduler: &Scheduler) -> bool {
        let mut state = self.state.lock();
        state.any_key(scheduler).is_some_and(|key| state.unreadable.insert(key))
    }

    /// A bit turns in each of its shards of data. How many there are.
    pub fn rot_all(&self, scheduler: &Scheduler) -> usize {
        let mut state = self.state.lock();
        let keys: Vec<ShardKey> = state.shards.keys().copied().collect();
        let is_data = |key: &&ShardKey| key.segment != OPENINGS && !is_replica(key.segment);
        keys.iter().filter(is_data).filter(|key| state.rot(**key, scheduler)).count()
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
        state.lost.extend(now.into_keys());
        (gone, back)
    }

    /// It loses every shard of data for which the coin falls, as a disk of yesterday has.
    pub fn forget_some(&self, scheduler: &Scheduler, per_mille: u64) -> usize {
        let mut state = self.state.lock();
        let is_gone = |key: &ShardKey, _: &mut Stored| key.segment != OPENINGS && scheduler.chance(per_mille);
        let gone: Vec<ShardKey> = state.shards.extract_if(.., is_gone).map(|(key, _)| key).collect();
        state.lost.extend(&gone);
        gone.len()
    }

    /// Its disk is replaced by an empty one, which is no node. How many shards are gone.
    pub fn wipe(self: &Arc<Self>) -> usize {
        let gone = {
            let mut state = self.state.lock();
            let gone = std::mem::take(&mut state.shards);
            (state.removed, state.unsynced, state.is_wiped) = (BTreeMap::new(), BTreeMap::new(), true);
            state.unreadable.clear();
            let count = gone.len();
            state.lost.extend(gone.into_keys());
            count
        };
        self.set_unreachable(Unreachable::Wiped, true);
        if let Some(machine) = &self.machine {
            machine.kill_daemon(self, Duration::ZERO);
        }
        gone
    }

    /// Is it no node any more?
    #[must_use]
    pub fn is_wiped(&self) -> bool {
        self.state.lock().is_wiped
    }

    /// Is it no node any more, and has nobody replaced it?
    #[must_use]
    pub fn is_to_be_replaced(&self) -> bool {
        self.state.lock().unreachable.contains(&Unreachable::Wiped)
    }

    /// Another has taken its place. Users may take it for a node a moment longer.
    pub fn was_replaced(self: &Arc<Self>) {
        self.set_unreachable(Unreachable::Wiped, false);
        self.was_away();
    }

    /// The shards on it that can be read, without a wrong bit.
    #[must_use]
    pub fn sound_keys(&self) -> BTreeSet<ShardKey> {
        let state = self.state.lock();
        state.shards.keys().filter(|key| !state.is_damaged(key)).copied().collect()
    }

    /// The bytes of a shard that it was given and had nothing happen to; `None`: it has no such shard. A shard that it has lost by itself
    /// counts as one of `expected` bytes.
    #[must_use]
    pub fn stored_bytes(&self, key: ShardKey, expected: u64) -> Option<u64> {
        let state = self.state.lock();
        let stored = state.shards.get(&key).map(|stored| stored.bytes.len() as u64);
        stored.or_else(|| state.lost.contains(&key).then_some(expected))
    }

    /// Has it this shard, whole and with this payload?
    #[must_use]
    pub fn has(&self, key: ShardKey, digest: Digest) -> bool {
        let state = self.state.lock();
        let Some(stored) = state.shards.get(&key).filter(|_| !state.unreadable.contains(&key)).cloned() else {
            return false;
        };
        drop(state);
        let identity = ShardIdentity { volume: self.identity.volume, key };
        verify_object(&identity, &stored.bytes).is_ok_and(|found| found.digest == digest)
    }

    /// The shards on it.
    #[must_use]
    pub fn keys(&self) -> Vec<ShardKey> {
        self.state.lock().shards.keys().copied().collect()
    }

    fn error(&self, kind: NodeErrorKind, detail: &str) -> NodeError {
        NodeError::new(kind, &self.name, detail)
    }

    fn absent(&self) -> NodeError {
        self.error(NodeErrorKind::NotFound, "there is no such shard")
    }

    /// Does what a request asks for, at this moment. `Err`: it is down, or its disk fails.
    pub(crate) fn perform<T>(
        &self,
        work: impl FnOnce(&Place, &mut State, u64) -> Result<T, NodeError>,
    ) -> Result<T, NodeError> {
        let mut state = self.state.lock();
        match state.condition {
            Condition::Down => Err(self.error(NodeErrorKind::Unavailable, "it is down")),
            Condition::Failing => Err(self.error(NodeErrorKind::Io, "its disk fails")),
            _ if state.is_wiped => Err(self.error(NodeErrorKind::WrongNode, "it is no node of a volume")),
            _ => work(self, &mut state, running().now().as_millis() as u64),
        }
    }

    pub(crate) fn put(&self, state: &mut State, key: ShardKey, bytes: &Bytes, now_ms: u64) -> Result<(), NodeError> {
        if let Some(stored) = state.shards.get(&key) {
            state.is_readable(key, self)?;
            let is_same = stored.bytes == *bytes;
            let exists = || self.error(NodeErrorKind::Exists, "the shard exists with other bytes");
            return if is_same { Ok(()) } else { Err(exists()) };
        }
        if state.condition == Condition::Full {
            return Err(self.error(NodeErrorKind::Full, "it is full"));
        }
        state.removed.remove(&key);
        state.rotten.remove(&key);
        state.shards.insert(key, Stored { bytes: bytes.clone(), modified_ms: now_ms });
        state.unsynced.insert(key, now_ms);
        if self.machine.is_some() {
            state.ever.insert(key);
        }
        Ok(())
    }

    /// What a put has stored is durable.
    pub(crate) fn synced(&self, key: ShardKey) {
        self.state.lock().unsynced.remove(&key);
    }

    /// Does it store something at this moment that nobody has an answer to?
    pub(crate) fn is_storing(&self, scheduler: &Scheduler) -> bool {
        let now_ms = scheduler.now().as_millis() as u64;
        self.state.lock().unsynced.values().any(|stored_ms| now_ms < stored_ms + WRITTEN_BACK_MS)
    }

    /// How often its power failed.
    pub(crate) fn power_cuts(&self) -> u64 {
        self.state.lock().power_cuts
    }

    pub(crate) fn get(&self, state: &State, key: ShardKey, range: &Range<u64>) -> Result<Bytes, NodeError> {
        let bytes = &state.shards.get(&key).ok_or_else(|| self.absent())?.bytes;
        state.is_readable(key, self)?;
        let end = range.end.min(bytes.len() as u64);
        Ok(bytes.slice(range.start.min(end) as usize..end as usize))
    }

    pub(crate) fn stat(&self, state: &State, key: ShardKey) -> Result<ShardStat, NodeError> {
        let stored = state.shards.get(&key).ok_or_else(|| self.absent())?;
        Ok(ShardStat { bytes: stored.bytes.len() as u64, modified_ms: stored.modified_ms })
    }

    pub(crate) fn remove(&self, state: &mut State, key: ShardKey) {
        if self.metadata.is_needed(key, self.identity.node) {
            running().complain(format!("{key} is removed from {}, and is needed", self.name));
        }
        if let Some(stored) = state.shards.remove(&key) {
            state.unreadable.remove(&key);
            state.removed.insert(key, stored);
        }
    }
}

impl State {
    fn any_key(&self, scheduler: &Scheduler) -> Option<ShardKey> {
        let index = scheduler.below(self.shards.len() as u64) as usize;
        self.shards.keys().nth(index).copied()
    }

    fn is_damaged(&self, key: &ShardKey) -> bool {
        self.rotten.contains(key) || self.unreadable.contains(key)
    }

    fn is_readable(&self, key: ShardKey, place: &Place) -> Result<(), NodeError> {
        match self.unreadable.contains(&key) {
            true => Err(place.error(NodeErrorKind::Io, "a sector cannot be read")),
            false => Ok(()),
        }
    }

    fn rot(&mut self, key: ShardKey, scheduler: &Scheduler) -> bool {
        let Some(stored) = self.shards.get_mut(&key).filter(|stored| !stored.bytes.is_empty()) else { return false };
        let mut bytes = stored.bytes.to_vec();
        let at = scheduler.below(bytes.len() as u64) as usize;
        bytes[at] ^= 1 << scheduler.below(8);
        stored.bytes = bytes.into();
        self.rotten.insert(key);
        true
    }

    pub(crate) fn list(&self, after: Option<ShardKey>, limit: usize) -> Page {
        let start = after.map_or(Bound::Unbounded, Bound::Excluded);
        let mut keys: Vec<ShardKey> =
            self.shards.range((start, Bound::Unbounded)).map(|(key, _)| *key).take(limit + 1).collect();
        let more = keys.len() > limit;
        keys.truncate(limit);
        Page { keys, foreign: Vec::new(), more }
    }

    pub(crate) fn space(&self) -> Space {
        let used_bytes: u64 = self.shards.values().map(|stored| stored.bytes.len() as u64).sum();
        let free_bytes = if self.condition == Condition::Full { 0 } else { TOTAL_BYTES - used_bytes };
        Space { total_bytes: TOTAL_BYTES, free_bytes, disk: None }
    }
}
