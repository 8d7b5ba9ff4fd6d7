//! The committing side: which way a batch goes, its checks, and waiting for the writer.

use super::intents::{Change, Refused};
use super::rows::Fault;
use super::view::View;
use super::{Engine, Failure, Logging, State, Writing, rows};
use crate::engines::memtable::Shared;
use crate::engines::route::{Route, route};
use crate::kv::{Batch, KvError};
use crate::types::Access;
use weft_env::planted::{Planted, has_planted};
use weft_env::steps;
use weft_env::sync::MutexGuard;

/// Commits wait when this much is pending: some seconds of a disk's work, and little beside a mount's page cache.
const MAX_PENDING_BYTES: u64 = 64 << 20;
/// ... and where room is short when this much is: its log fits the reserve, even if each change is in a page of its own.
const MAX_PENDING_BYTES_SHORT: u64 = 512 << 10;

/// Changes that are kept for the log besides four for each pending key: some hundred kilobytes.
const UNLOGGED_SLACK: u64 = 4096;

impl State {
    fn has_too_much(&self) -> bool {
        let bytes_max = if self.is_short { MAX_PENDING_BYTES_SHORT } else { MAX_PENDING_BYTES };
        self.memtable.bytes() as u64 > steps::bound(bytes_max)
    }
}

impl Engine {
    pub(super) fn commit(&self, batch: Batch) -> Result<(), KvError> {
        self.regain_reserve()?;
        self.commit_freeing(batch)
    }

    /// For a batch that needs room: the reserve is to be there before.
    fn regain_reserve(&self) -> Result<(), KvError> {
        if !self.state.lock().in_reserve {
            return Ok(());
        }
        if !self.reserve.take().unwrap_or(false) {
            return Err(self.error(Failure::Full));
        }
        self.state.lock().in_reserve = false;
        Ok(())
    }

    pub(super) fn commit_freeing(&self, batch: Batch) -> Result<(), KvError> {
        if let Some(key) = batch.changed_keys().find(|key| !rows::is_allowed(key)) {
            return Err(self.failed(format!("no record can have the key {}", key.escape_ascii())));
        }
        if self.access == Access::Shared {
            if let Some(key) = batch.changed_keys().find(|key| !self.is_shared(key)) {
                let key = key.escape_ascii();
                return Err(
                    self.failed(format!("only the volume's owner may change the key {key}; run it in the mount"))
                );
            }
            return self.commit_through(batch);
        }
        match route(&batch, self.shared_keys) {
            Route::Behind { claims } => self.commit_behind(batch, claims),
            Route::Through => self.commit_through(batch),
        }
    }

    fn commit_behind(&self, batch: Batch, claims: Vec<Vec<u8>>) -> Result<(), KvError> {
        loop {
            // The file is read outside the lock. What it says stays true for the epoch.
            let view = View::new(self)?;
            for (key, expected) in &batch.checks {
                if view.value(key)?.as_deref() != expected.as_deref() {
                    return Err(KvError::Conflict);
                }
            }
            let mut directories = Vec::with_capacity(batch.directories.len());
            for check in &batch.directories {
                let found = view.value(&check.key)?;
                if !check.holds(found.as_deref()) {
                    return Err(KvError::Conflict);
                }
                directories.push((&check.key, found));
            }
            let mut filed = Vec::with_capacity(batch.deltas.len());
            for (key, _) in &batch.deltas {
                // A directory in which a name is made is checked and merged.
                let checked = directories.iter().find(|(directory, _)| *directory == key);
                filed.push(checked.map_or_else(|| view.value(key), |(_, found)| Ok(found.clone()))?);
            }
            let Some(mut state) = self.admit(&batch)? else { continue };
            if state.epoch != view.epoch() {
                continue;
            }
            for (key, expected) in &batch.checks {
                let is_other = |change: &Option<Shared>| change.as_deref() != expected.as_deref();
                if state.memtable.get(key).is_some_and(is_other) && !has_planted(Planted::CheckedOnce) {
                    return Err(KvError::Conflict);
                }
            }
            for check in &batch.directories {
                if state.memtable.get(&check.key).is_some_and(|change| !check.holds(change.as_deref())) {
                    return Err(KvError::Conflict);
                }
            }
            if batch.is_empty() {
                return Ok(());
            }
            let mut merged = Vec::with_capacity(batch.deltas.len());
            for ((key, delta), filed) in batch.deltas.iter().zip(&filed) {
                let found = state.memtable.get(key).map_or(filed.as_deref(), |change| change.as_deref());
                let value = delta.apply(found);
                let value = value.map_err(|detail| self.read_error(&Fault::Damaged(detail)))?;
                merged.push((key.clone(), Some(value)));
            }
            state.claims.extend(claims.into_iter().map(Into::into));
            state.committed += 1;
            for (key, value) in batch.writes.into_iter().chain(merged) {
                let (key, value): Change = (key.into(), value.map(Into::into));
                if self.log.is_some() {
                    state.unlogged.push((key.clone(), value.clone()));
                }
                state.memtable.put(key, value);
            }
            state.bound_unlogged();
            let first = state.waiting_since.is_none();
            state.waiting_since.get_or_insert_with(|| self.env.clock.now());
            if first && !state.is_watched || state.is_large() {
                self.work.notify_one();
            }
            drop(state);
            return Ok(());
        }
    }

    /// The lock, once the engine takes the batch; `None` if it had to wait for that, so that checks must be made again.
    fn admit(&self, batch: &Batch) -> Result<Option<MutexGuard<'_, State>>, KvError> {
        let mut state = self.state.lock();
        state.refuse_if_stopped(self)?;
        if state.full {
            drop(state);
            self.flush()?;
            return Ok(None);
        }
        if state.has_too_much() {
            state.wanted = state.committed;
            self.work.notify_one();
            let failures = state.failures;
            while state.has_too_much() {
                self.done.wait(&mut state);
                if state.failures > failures
                    && let Some(failure) = state.failure.clone()
                {
                    return Err(self.error(failure));
                }
            }
            return Ok(None);
        }
        if !state.held.is_empty() && batch.keys().any(|key| state.held.contains(key)) {
            self.done.wait(&mut state);
            return Ok(None);
        }
        Ok(Some(state))
    }

    fn commit_through(&self, batch: Batch) -> Result<(), KvError> {
        let mut state = self.state.lock();
        state.refuse_if_stopped(self)?;
        let ticket = state.next_ticket;
        state.next_ticket += 1;
        state.through.push((ticket, batch));
        loop {
            state = self.advance(state);
            if let Some(outcome) = state.outcomes.remove(&ticket) {
                return outcome.map_err(|failure| self.error(failure));
            }
            if state.writer_is_lost {
                state.refuse_if_stopped(self)?;
            }
        }
    }

    /// What is committed is durable: by the log, or else by the file.
    pub(super) fn flush(&self) -> Result<(), KvError> {
        let target = self.state.lock().committed;
        match &self.log {
            Some(log) if self.log_up_to(log, target) => Ok(()),
            _ => self.file_up_to(target),
        }
    }

    /// What is committed is in the file.
    pub(super) fn file(&self) -> Result<(), KvError> {
        let target = self.state.lock().committed;
        self.file_up_to(target)
    }

    /// False: the file must take it.
    fn log_up_to(&self, logging: &Logging, target: u64) -> bool {
        // Who waits for the log mostly finds its commits in the record of another.
        let mut log = logging.log.lock();
        let mut state = self.state.lock();
        if !state.may_log() {
            return false;
        }
        if state.filed.max(state.logged) >= target {
            return true;
        }
        // What was logged while somebody came is acknowledged only when the file has it.
        if state.unlogged.is_empty() || state.is_watched_by_others && !log.is_alone() {
            return false;
        }
        let committed = state.committed;
        let changes = std::mem::take(&mut state.unlogged);
        drop(state);
        let logged = log.append(&changes, logging.witness.commits()).and_then(|()| log.sync());
        if let Ok(number) = logged {
            logging.witness.note_intents(number + u64::from(has_planted(Planted::WitnessAhead)));
        }
        let is_alone = logged.is_ok() && log.is_alone();
        let mut state = self.state.lock();
        match logged {
            Ok(_) => state.is_watched_by_others = !is_alone,
            Err(refused) => {
                state.put_back(changes);
                self.tell(refused);
            }
        }
        if is_alone {
            state.logged = committed;
        }
        is_alone
    }

    /// Why the log does not take something, where somebody should know.
    pub(super) fn tell(&self, refused: Refused) {
        if let Refused::Io(error) = refused {
            tracing::warn!(store = %self.path.display(), %error, "the intent log cannot be written: flushes go to the file");
        }
    }

    fn file_up_to(&self, target: u64) -> Result<(), KvError> {
        let mut state = self.state.lock();
        let failures = state.failures;
        loop {
            state.refuse_if_stopped(self)?;
            if state.filed >= target {
                return Ok(());
            }
            if state.failures > failures
                && let Some(failure) = state.failure.clone()
            {
                return Err(self.error(failure));
            }
            state.wanted = state.wanted.max(target);
            state = self.advance(state);
        }
    }
}

impl State {
    /// Changes that the log did not take come before those that were made meanwhile.
    pub(super) fn put_back(&mut self, mut changes: Vec<Change>) {
        changes.append(&mut self.unlogged);
        self.unlogged = changes;
    }

    /// Where one key is written again and again, and nobody flushes or the file is busy, its last value is all that matters. Not of what
    /// is being filed: a later record must not have it.
    fn bound_unlogged(&mut self) {
        let is_long = self.unlogged.len() as u64 > steps::bound(UNLOGGED_SLACK) + 4 * self.memtable.len() as u64;
        if is_long && self.writing == Writing::Nothing {
            self.unlogged = self.memtable.all();
        }
    }

    /// There must be room for it in the file, too; and a store that is marked as closed is one file.
    pub(super) fn may_log(&self) -> bool {
        !self.is_closed
            && self.stopped.is_none()
            && self.failure.is_none()
            && !self.full
            && !self.in_reserve
            && !self.is_short
    }
}

#[cfg(test)]
#[path = "commit_tests.rs"]
mod tests;
