//! The writer thread: the only one that changes the file.

use super::checkpoint::CheckpointHandle;
use super::{Engine, Failure, State, file, view};
use crate::engines::memtable::{Changes, Shared};
use crate::kv::Batch;
use rusqlite::Connection;
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Pending changes are written at the latest after this: what a crash may take of work that nobody flushed.
const WRITE_AFTER: Duration = Duration::from_millis(100);
/// After a failure, when nobody asks for it.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// Pending changes are written at once from here on: about 40 ms of SQLite's work, so that a flush never waits for much more.
const WRITE_FROM_BYTES: usize = 4 << 20;

impl State {
    pub(super) fn is_large(&self) -> bool {
        self.memtable.bytes() >= WRITE_FROM_BYTES
    }
}

/// When the writer is to act.
#[derive(Debug, PartialEq, Eq)]
enum Due {
    Now,
    At(Instant),
    /// When somebody calls.
    Later,
}

fn due(state: &State) -> Due {
    // Batches to be written through are there only until they have their answer, even of a stopped engine.
    if !state.through.is_empty() {
        return Due::Now;
    }
    if state.stopped.is_some() {
        return Due::Later;
    }
    if state.wanted > state.durable {
        return Due::Now;
    }
    let failed = state.failure.is_some();
    match state.waiting_since {
        Some(_) if !failed && state.is_large() => Due::Now,
        Some(since) => Due::At(since + if failed { RETRY_AFTER } else { WRITE_AFTER }),
        None => Due::Later,
    }
}

pub(super) fn start(engine: Arc<Engine>, connection: Connection, checkpoints: CheckpointHandle) -> io::Result<JoinHandle<()>> {
    let writer = Writer { engine, connection, checkpoints };
    std::thread::Builder::new().name("weft-meta-writer".into()).spawn(move || writer.run())
}

struct Writer {
    engine: Arc<Engine>,
    connection: Connection,
    checkpoints: CheckpointHandle,
}

type Outcome = Result<(), Failure>;

/// One transaction's work.
struct Work {
    changes: Changes,
    claims: Vec<Shared>,
    /// Commits that are durable after it.
    covers: u64,
    through: Vec<(u64, Batch)>,
}

impl Writer {
    fn run(self) {
        while self.wait() {
            self.write();
            self.checkpoints.help(&self.connection);
        }
    }

    /// Waits until there is work; `false` to end.
    fn wait(&self) -> bool {
        let mut state = self.engine.state.lock();
        loop {
            if state.closing {
                // One last transaction, whatever becomes of it.
                drop(state);
                self.close();
                return false;
            }
            match due(&state) {
                Due::Now => return true,
                Due::At(when) if when <= Instant::now() => return true,
                Due::At(when) => drop(self.engine.work.wait_until(&mut state, when)),
                Due::Later => self.engine.work.wait(&mut state),
            }
        }
    }

    fn close(&self) {
        let pending = |state: &State| !state.memtable.is_empty();
        if pending(&self.engine.state.lock()) {
            self.write();
        }
        let state = self.engine.state.lock();
        if pending(&state) {
            let store = self.engine.path.display();
            tracing::error!(%store, failure = ?state.failure, "closed with changes that could not be written");
        }
    }

    /// One transaction: everything committed so far, then the batches that are written through.
    fn write(&self) {
        // The write lock first: from the freezing on, batches that are written through keep commits waiting.
        let begun = self.begin();
        let work = self.engine.freeze();
        match begun.and_then(|()| self.transact(&work)) {
            Ok(outcomes) => {
                self.checkpoints.written(work.changes.len() + work.through.len());
                self.engine.publish(work, outcomes);
            }
            Err(failure) => {
                self.roll_back();
                self.engine.give_up(work, failure);
            }
        }
    }

    fn begin(&self) -> Result<(), Failure> {
        if let Some(why) = &self.engine.state.lock().stopped {
            return Err(Failure::Broken(why.clone()));
        }
        self.connection.execute_batch("BEGIN IMMEDIATE").map_err(|error| file::classify(&error))
    }

    /// Writes all of it or, on an error, nothing; answers which of the batches written through met a conflict.
    fn transact(&self, work: &Work) -> Result<Vec<Outcome>, Failure> {
        let sql = |error: rusqlite::Error| file::classify(&error);
        for key in &work.claims {
            if view::read(&self.connection, key).map_err(sql)?.is_some() {
                let key = key.escape_ascii();
                return Err(Failure::Broken(format!("two processes made the key {key}, whose id must be used once only")));
            }
        }
        for (key, value) in &work.changes {
            self.set(key, value.as_deref()).map_err(sql)?;
        }
        let mut outcomes = Vec::with_capacity(work.through.len());
        for (_, batch) in &work.through {
            let outcome = self.apply(batch).map_err(sql)?;
            outcomes.push(outcome);
        }
        self.connection.execute_batch("COMMIT").map_err(sql)?;
        Ok(outcomes)
    }

    fn apply(&self, batch: &Batch) -> rusqlite::Result<Outcome> {
        for (key, expected) in &batch.checks {
            if view::read(&self.connection, key)?.as_deref() != expected.as_deref() {
                return Ok(Err(Failure::Conflict));
            }
        }
        for (key, value) in &batch.writes {
            self.set(key, value.as_deref())?;
        }
        Ok(Ok(()))
    }

    fn set(&self, key: &[u8], value: Option<&[u8]>) -> rusqlite::Result<()> {
        let connection = &self.connection;
        match value {
            Some(value) => connection
                .prepare_cached("INSERT INTO kv (k, v) VALUES (?1, ?2) ON CONFLICT (k) DO UPDATE SET v = excluded.v")?
                .execute([key, value])?,
            None => connection.prepare_cached("DELETE FROM kv WHERE k = ?1")?.execute([key])?,
        };
        Ok(())
    }

    /// SQLite ends a transaction by itself after some failures. A transaction that cannot be ended makes the next one fail,
    /// which stops the engine.
    fn roll_back(&self) {
        if !self.connection.is_autocommit() && let Err(error) = self.connection.execute_batch("ROLLBACK") {
            tracing::warn!(store = %self.engine.path.display(), %error, "a failed transaction does not end");
        }
    }
}

impl Engine {
    /// Takes what is to be written. Afterwards every view has its read transaction, or begins it before it clones the
    /// memtable.
    fn freeze(&self) -> Work {
        let mut state = self.state.lock();
        state.writing = true;
        state.waiting_since = None;
        let through = std::mem::take(&mut state.through);
        if !through.is_empty() {
            // The file will have changes that no memtable hides: no view of this epoch may use or leave them in the cache.
            state.fill_epoch = state.epoch + 1;
            for (_, batch) in &through {
                let keys = batch.checks.iter().chain(&batch.writes).map(|(key, _)| key);
                keys.clone().for_each(|key| self.cache.forget(key));
                state.held.extend(keys.cloned());
            }
        }
        let work =
            Work { changes: state.memtable.freeze(), claims: state.claims.clone(), covers: state.committed, through };
        let unpinned: Vec<_> = state.unpinned.values().cloned().collect();
        drop(state);
        unpinned.iter().for_each(|pin| pin.begin(&self.readers));
        work
    }

    /// The file has it all.
    fn publish(&self, work: Work, outcomes: Vec<Outcome>) {
        let mut state = self.state.lock();
        let next_epoch = state.epoch + 1;
        state.fill_epoch = next_epoch;
        state.durable = work.covers;
        state.claims.drain(..work.claims.len());
        state.failure = None;
        state.full = false;
        let applied: Vec<bool> = outcomes.iter().map(Result::is_ok).collect();
        state.outcomes.extend(work.through.iter().map(|(ticket, _)| *ticket).zip(outcomes));
        drop(state);
        self.done.notify_all();

        // Views of this epoch either have these changes in their memtable or must not see them; the next epoch's find them here.
        for (key, value) in work.changes {
            if self.is_cacheable(&key) {
                self.cache.put(key, next_epoch, value);
            }
        }
        for (_, (_, batch)) in applied.into_iter().zip(work.through).filter(|(applied, _)| *applied) {
            for (key, value) in batch.writes {
                if self.is_cacheable(&key) {
                    self.cache.put(key.into(), next_epoch, value.map(Into::into));
                }
            }
        }

        let mut state = self.state.lock();
        state.epoch = next_epoch;
        state.memtable.forget_frozen();
        state.held.clear();
        state.writing = false;
        drop(state);
        self.done.notify_all();
    }

    /// The file has nothing of it. Pending changes stay; batches written through are refused.
    fn give_up(&self, work: Work, failure: Failure) {
        let store = self.path.display();
        let mut state = self.state.lock();
        let is_news = state.failure.as_ref().is_none_or(|(last, _)| *last != failure);
        if is_news {
            tracing::warn!(%store, ?failure, "the metadata store could not write");
        }
        if let Failure::Broken(why) = &failure {
            state.stopped.get_or_insert_with(|| why.clone());
        }
        let pending = !state.memtable.is_empty();
        state.full = failure == Failure::Full && pending;
        state.waiting_since = pending.then(Instant::now);
        if state.wanted <= work.covers {
            state.wanted = state.durable;
        }
        state.failures += 1;
        state.outcomes.extend(work.through.iter().map(|(ticket, _)| (*ticket, Err(failure.clone()))));
        state.failure = Some((failure, work.covers));
        state.fill_epoch = state.epoch;
        state.held.clear();
        state.writing = false;
        drop(state);
        self.done.notify_all();
    }
}

#[cfg(test)]
#[path = "writer_tests.rs"]
mod tests;
