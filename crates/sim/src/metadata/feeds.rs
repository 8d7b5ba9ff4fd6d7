//! What an engine that many share tells its members of each other's changes: soon, late, twice, in another order, or not at all while a feed is
//! cut. No engine promises anything of it ([`Sessions::changes`]), and none says what it left out: what a member does not hear must show
//! to it by time.

use super::SimKv;
use crate::ambush::ProcessId;
use crate::scheduler::{Scheduler, running};
use std::collections::BTreeSet;
use std::time::Duration;
use weft_env::sync::{Receiver, Sender, channel};
use weft_meta::engines::memory::MemoryMember;
use weft_meta::kv::{Batch, ChangedKeys, Kv, KvError, Sessions};

/// What is committed within some milliseconds is announced together.
const SOON_US_MAX: u64 = 20_000;
const LATE_US_MAX: u64 = 5_000_000;
const CUT_MS_MAX: u64 = 60_000;

/// How well a history's engine tells.
#[derive(Clone, Copy, Debug, Default)]
pub struct Quality {
    /// Of a thousand messages these many come late, ...
    pub late_per_mille: u64,
    /// ... come twice, ...
    pub doubled_per_mille: u64,
    /// ... and are the first that a member does not get for a while.
    pub cut_per_mille: u64,
}

impl Quality {
    /// Of a history: good, bad, or none after the first changes.
    pub fn of(mut below: impl FnMut(u64) -> u64) -> Self {
        match below(3) {
            0 => Self::default(),
            1 => Self { late_per_mille: below(500), doubled_per_mille: below(200), cut_per_mille: 0 },
            _ => Self { late_per_mille: below(200), doubled_per_mille: below(200), cut_per_mille: 20 + below(200) },
        }
    }
}

/// The members that listen.
#[derive(Default)]
pub struct Feeds {
    pub quality: Quality,
    listeners: Vec<Listener>,
}

struct Listener {
    process: ProcessId,
    tables: &'static [u8],
    heard: Sender<ChangedKeys>,
    cut_until: Duration,
}

impl Feeds {
    /// A process listens from now on.
    fn listen(&mut self, process: ProcessId, tables: &'static [u8]) -> Receiver<ChangedKeys> {
        let (heard, changes) = channel();
        self.listeners.push(Listener { process, tables, heard, cut_until: Duration::ZERO });
        changes
    }

    /// It is no member any more.
    pub fn forget(&mut self, process: ProcessId) {
        self.listeners.retain(|listener| listener.process != process);
    }

    /// What the others are to hear of a batch of a process. It is read before the batch is committed.
    pub fn news(&mut self, process: ProcessId, batch: &Batch, scheduler: &Scheduler) -> Vec<News> {
        let quality = self.quality;
        let others = self.listeners.iter_mut().filter(|listener| listener.process != process);
        others.filter_map(|listener| listener.news(batch, quality, scheduler)).flatten().collect()
    }
}

impl Listener {
    fn news(&mut self, batch: &Batch, quality: Quality, scheduler: &Scheduler) -> Option<Vec<News>> {
        let keys = Some(batch.changed_in(self.tables)).filter(|keys| !keys.is_empty())?;
        if scheduler.chance(quality.cut_per_mille) && self.cut_until <= scheduler.now() {
            let lasts = Duration::from_millis(scheduler.below(CUT_MS_MAX));
            self.cut_until = scheduler.now() + lasts;
            scheduler.tell(|| format!("{:?} hears nothing for {} ms", self.process, lasts.as_millis()));
        }
        if self.cut_until > scheduler.now() {
            return None;
        }
        let count = if scheduler.chance(quality.doubled_per_mille) { 2 } else { 1 };
        let one = |_| {
            let is_late = scheduler.chance(quality.late_per_mille);
            let comes = scheduler.below(if is_late { LATE_US_MAX } else { SOON_US_MAX });
            News { keys: keys.clone(), heard: self.heard.clone(), comes: Duration::from_micros(comes) }
        };
        Some((0..count).map(one).collect())
    }
}

/// A message to a member.
pub struct News {
    keys: ChangedKeys,
    heard: Sender<ChangedKeys>,
    comes: Duration,
}

impl News {
    /// What it is about is committed.
    pub fn send(self) {
        let Self { keys, heard, comes } = self;
        running().after(comes, move || {
            // Who does not listen any more is about to leave.
            let _ = heard.send(keys);
        });
    }
}

impl SimKv {
    fn session(&self) -> Result<&MemoryMember, KvError> {
        self.member.as_ref().ok_or_else(super::gone)
    }

    fn of_engine(&self) -> Result<&dyn Sessions, KvError> {
        self.session()?.sessions().ok_or_else(super::gone)
    }
}

impl Sessions for SimKv {
    fn own(&self) -> Result<i64, KvError> {
        self.of_engine()?.own()
    }

    fn members(&self) -> Result<BTreeSet<i64>, KvError> {
        self.of_engine()?.members()
    }

    fn make_sure(&self) -> Result<(), KvError> {
        self.of_engine()?.make_sure()
    }

    fn changes(&self, tables: &'static [u8]) -> Option<Receiver<ChangedKeys>> {
        Some(self.disk.state.lock().feeds.listen(self.process, tables))
    }
}

#[cfg(test)]
#[path = "feeds_tests.rs"]
mod tests;
