//! The writer: every change of the file goes through it, one transaction at a time. A thread that waits for a transaction and finds the
//! writer free takes a turn and writes for all, so that a flush wakes no other thread. One more thread writes changes for which no thread waits.

use super::checkpoint::{CheckpointHandle, checkpoint, shrink};
use super::file;
use super::home::{self, Home};
use super::intents::IntentLog;
use super::rows::{self, Editor};
use super::{Engine, Failure, State, Writing, changes};
use crate::engines::memtable::{Changes, Shared};
use crate::kv::{Batch, KvError};
use crate::types::Access;
use rusqlite::Connection;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use weft_env::planted::{Planted, has_planted};
use weft_env::sync::MutexGuard;
use weft_env::{Thread, steps};

/// Pending changes are written at the latest after this: what a crash may take of work that nobody flushed.
const WRITE_AFTER: Duration = Duration::from_millis(100);
/// After a failure, when nobody asks for it.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// Pending changes are written at once from here on: about 40 ms of SQLite's work, so that a flush never waits for much more.
const WRITE_FROM_BYTES: u64 = 4 << 20;
/// The same where room is short.
const WRITE_FROM_BYTES_SHORT: u64 = 128 << 10;

impl State {
    pub(super) fn is_large(&self) -> bool {
        let from_bytes = if self.is_short { WRITE_FROM_BYTES_SHORT } else { WRITE_FROM_BYTES };
        self.memtable.bytes() as u64 >= steps::bound(from_bytes)
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
    if state.wanted > state.filed {
        return Due::Now;
    }
    let failed = state.failure.is_some();
    match state.waiting_since {
        Some(_) if !failed && state.is_large() => Due::Now,
        Some(since) => Due::At(since + if failed { RETRY_AFTER } else { WRITE_AFTER }),
        None => Due::Later,
    }
}

pub(super) fn start(
    engine: Arc<Engine>,
    connection: Connection,
    home: Home,
    checkpoints: CheckpointHandle,
) -> io::Result<Thread> {
    *engine.writer.lock() = Some(Writer { connection, home: RefCell::new(home), checkpoints });
    let spawner = engine.env.spawner.clone();
    spawner.thread("weft-meta-writer", Box::new(move || supervise(&engine, || engine.run_writer())))
}

/// Runs the writer. Should it panic, everybody who waits for it is answered, and so is whoever comes later.
fn supervise(engine: &Engine, writer: impl FnOnce()) {
    struct Watch<'e> {
        engine: &'e Engine,
        /// As it was before the turn: the turn may be one that cleans up after a panic.
        was_panicking: bool,
    }
    impl Drop for Watch<'_> {
        fn drop(&mut self) {
            if std::thread::panicking() && !self.was_panicking {
                self.engine.lose_writer();
            }
        }
    }
    let _watch = Watch { engine, was_panicking: std::thread::panicking() };
    writer();
}

/// All that is needed to write.
pub(super) struct Writer {
    connection: Connection,
    home: RefCell<Home>,
    checkpoints: CheckpointHandle,
}

impl Writer {
    /// Between two turns, with a connection of its own, whose failures do not matter to the next.
    pub fn mark_closed(&self, path: &Path) -> Result<(), Failure> {
        let connection = file::open(path)?;
        file::keep_log(&connection, false)?;
        if let Some(why) = home::look(path, &connection)? {
            return Err(Failure::Displaced(why));
        }
        self.home.borrow().leave(&connection, || true)
    }
}

/// A thread's turn at the writer.
struct Turn<'e> {
    engine: &'e Engine,
    writer: &'e Writer,
}

/// Changes to be written, and keys that the file must not have.
struct Pending<'e> {
    changes: Changes,
    claims: Vec<Shared>,
    /// Commits that the file has afterwards.
    covers: u64,
    /// The last record of the intent log that it has then.
    intents: Option<u64>,
    /// Where the log could not take some of them: it takes no others until the file has these.
    held_log: Option<MutexGuard<'e, IntentLog>>,
}

/// Batches to be written through, with their tickets.
type Through = Vec<(u64, Batch)>;
type Outcome = Result<(), Failure>;

impl Engine {
    /// Waits until the writer has an outcome for the caller; takes a turn and does the work if nobody else does.
    pub(super) fn advance<'e>(&'e self, mut state: MutexGuard<'e, State>) -> MutexGuard<'e, State> {
        let Some(writer) = self.writer.try_lock().filter(|writer| writer.is_some()) else {
            // The thread that has the turn passes it on.
            self.done.wait(&mut state);
            return state;
        };
        drop(state);
        // A panic does not end this thread: the engine is stopped by it and answers its callers with that error.
        let _ = catch_unwind(AssertUnwindSafe(|| supervise(self, || self.take_turn(&writer))));
        drop(writer);
        self.pass_on()
    }

    fn take_turn(&self, writer: &Option<Writer>) {
        if let Some(writer) = writer {
            let turn = Turn { engine: self, writer };
            turn.write();
            turn.mind_room();
            writer.checkpoints.help(&writer.connection);
        }
    }

    /// After a turn: wakes one of the threads that found the writer busy.
    pub(super) fn pass_on(&self) -> MutexGuard<'_, State> {
        let state = self.state.lock();
        if state.wanted > state.filed || !state.through.is_empty() {
            self.done.notify_all();
        }
        state
    }

    /// The thread.
    fn run_writer(&self) {
        while self.wait_for_work() {
            let writer = self.writer.lock();
            self.take_turn(&writer);
            drop(writer);
            drop(self.pass_on());
        }
        // One last transaction, even if it fails.
        let writer = self.writer.lock().take();
        if let Some(writer) = &writer {
            Turn { engine: self, writer }.close();
        }
    }

    /// Waits until there is work; `false` to end.
    fn wait_for_work(&self) -> bool {
        let mut state = self.state.lock();
        loop {
            if state.closing {
                return false;
            }
            match due(&state) {
                Due::Now => return true,
                Due::At(when) if when <= self.env.clock.now() => return true,
                Due::At(when) => {
                    // After a failure the next look may come later than new changes may wait.
                    state.is_watched = state.failure.is_none();
                    let clock = &self.env.clock;
                    self.work.wait_for(&mut state, when.saturating_duration_since(clock.now()), || clock.now());
                    state.is_watched = false;
                }
                Due::Later => self.work.wait(&mut state),
            }
        }
    }
}

impl Turn<'_> {
    fn close(&self) {
        let pending = |state: &State| !state.memtable.is_empty();
        if pending(&self.engine.state.lock()) {
            self.write();
        }
        let state = self.engine.state.lock();
        if pending(&state) {
            let store = self.engine.path.display();
            tracing::error!(%store, failure = ?state.failure, "closed with changes that could not be written");
            return;
        }
        if state.stopped.is_none() && self.leaves_last() {
            drop(state);
            if let Err(failure) = self.leave() {
                tracing::debug!(store = %self.engine.path.display(), ?failure, "not marked as closed cleanly");
            }
        }
    }

    fn leave(&self) -> Result<(), Failure> {
        self.writer.home.borrow().leave(&self.writer.connection, || self.leaves_last())?;
        match &self.engine.log {
            Some(logging) => {
                let closed = logging.log.lock().close();
                closed.map_err(|error| Failure::Busy(format!("its intent log cannot be cut: {error}")))
            }
            None => Ok(()),
        }
    }

    /// Does it leave a store that nobody owns then? In a transaction that is sure: an owner who comes later finds the mark, and takes it
    /// back before he logs anything.
    fn leaves_last(&self) -> bool {
        match self.engine.access {
            Access::Owner => true,
            Access::ShortLived => false,
            Access::Shared | Access::Member => self.writer.home.borrow().is_entered() && self.engine.store.is_free(),
        }
    }

    /// Everything committed so far; after it, in a transaction of their own, the batches that are written through. Their
    /// keys are held by then and not pending any more, so no memtable hides what they change.
    fn write(&self) {
        let through = self.engine.hold();
        let pending = !self.engine.state.lock().memtable.is_empty();
        let written = if pending { self.write_pending() } else { Ok(()) };
        if !through.is_empty() {
            let outcomes = written.and_then(|()| self.write_through(&through));
            self.engine.answer(through, outcomes);
        }
    }

    /// After a transaction: where room is short the log is carried into the file at once, so that it takes no more, and what was
    /// deleted is given back to the disk.
    fn mind_room(&self) {
        let is_short = self.engine.reserve.is_short();
        if !self.engine.note_room(is_short) {
            return;
        }
        let carried = self.with_reserve(|| Ok(checkpoint(&self.writer.connection)?));
        if !self.engine.state.lock().in_reserve {
            return;
        }
        if let Err(failure) = carried.and_then(|_| Ok(shrink(&self.writer.connection)?)) {
            tracing::debug!(store = %self.engine.path.display(), ?failure, "no room is made");
        }
        if self.engine.reserve.take().unwrap_or(false) {
            self.engine.state.lock().in_reserve = false;
        }
    }

    /// Runs it, and again with the reserve as often as it finds no space.
    fn with_reserve<T>(&self, run: impl Fn() -> Result<T, Failure>) -> Result<T, Failure> {
        loop {
            match run() {
                Err(Failure::Full) => {
                    self.engine.state.lock().in_reserve = true;
                    if !self.engine.reserve.give_up().unwrap_or(false) {
                        return Err(Failure::Full);
                    }
                }
                outcome => return outcome,
            }
        }
    }

    fn write_pending(&self) -> Result<(), Failure> {
        let written = self.with_reserve(|| self.transact_pending());
        match written {
            Ok(pending) => {
                self.writer.checkpoints.written(pending.changes.len());
                self.engine.publish(pending);
                Ok(())
            }
            Err(failure) => {
                self.engine.keep(failure.clone());
                Err(failure)
            }
        }
    }

    fn transact_pending(&self) -> Result<Pending<'_>, Failure> {
        self.transact(|before| {
            let pending = self.engine.freeze(before.intents);
            for key in &pending.claims {
                if rows::read(&self.writer.connection, key)?.is_some() {
                    let key = key.escape_ascii();
                    let why = format!("two processes made the key {key}, whose id must be used once only");
                    return Err(Failure::Broken(why));
                }
            }
            let changes = pending.changes.iter().map(|(key, value)| (&**key, value.as_deref()));
            Editor::new(&self.writer.connection).set_all(changes)?;
            let keys = pending.changes.iter().map(|(key, _)| &**key);
            changes::note(&self.writer.connection, before.commits + 1, keys)?;
            let intents = pending.intents;
            Ok((pending, intents))
        })
    }

    fn write_through(&self, through: &Through) -> Result<Vec<Outcome>, Failure> {
        let outcomes: Vec<Outcome> = self.with_reserve(|| {
            self.transact(|before| {
                self.engine.shield();
                let outcomes: Vec<Outcome> =
                    through.iter().map(|(_, batch)| self.apply(batch)).collect::<Result<_, _>>()?;
                let done = through.iter().zip(&outcomes).filter(|(_, outcome)| outcome.is_ok());
                let keys: BTreeSet<&[u8]> =
                    done.flat_map(|((_, batch), _)| batch.changed_keys()).map(Vec::as_slice).collect();
                changes::note(&self.writer.connection, before.commits + 1, keys)?;
                if has_planted(Planted::AnsweredEarly) {
                    let tickets = through.iter().map(|(ticket, _)| *ticket);
                    self.engine.state.lock().outcomes.extend(tickets.zip(outcomes.iter().cloned()));
                    self.engine.done.notify_all();
                }
                Ok((outcomes, None))
            })
        })?;
        self.writer.checkpoints.written(through.iter().map(|(_, batch)| batch.changed_keys().count()).sum());
        Ok(outcomes)
    }

    /// A transaction of everything that `work` does or, if it or the transaction fails, of nothing. `work` gets the store's state and
    /// answers up to which record of the intent log the file has everything then, if that changes.
    fn transact<T>(&self, work: impl FnOnce(home::State) -> Result<(T, Option<u64>), Failure>) -> Result<T, Failure> {
        if let Some(why) = &self.engine.state.lock().stopped {
            return Err(Failure::Broken(why.clone()));
        }
        let connection = &self.writer.connection;
        let home = &self.writer.home;
        let run = |sql| -> Result<(), Failure> { Ok(connection.prepare_cached(sql)?.execute([]).map(drop)?) };
        // The write lock from the start: what is checked in here stays true.
        let found = run("BEGIN IMMEDIATE").and_then(|()| home.borrow_mut().found(connection));
        let result = found.and_then(|before| {
            let (done, intents) = work(before)?;
            home.borrow().count(connection, before, intents)?;
            if !steps::has_room() {
                return Err(Failure::Full);
            }
            run("COMMIT")?;
            file::note_committed(connection)?;
            Ok((before, done))
        });
        // SQLite ends a transaction by itself after some failures. One that cannot be ended makes the next one fail, which
        // stops the engine.
        if result.is_err()
            && !self.writer.connection.is_autocommit()
            && let Err(failure) = run("ROLLBACK")
        {
            tracing::warn!(store = %self.engine.path.display(), ?failure, "a failed transaction does not end");
        }
        let (before, done) = result?;
        if before.is_clean
            && let Err(error) = checkpoint(&self.writer.connection)
        {
            // The mark stays in the file until the next one; the witness knows better.
            tracing::debug!(store = %self.engine.path.display(), %error, "a checkpoint failed");
        }
        self.writer.home.borrow().note(before);
        Ok(done)
    }

    /// The batch in the transaction, if its checks hold.
    fn apply(&self, batch: &Batch) -> Result<Outcome, Failure> {
        for (key, expected) in &batch.checks {
            if rows::read(&self.writer.connection, key)?.as_deref() != expected.as_deref() {
                return Ok(Err(Failure::Conflict));
            }
        }
        for check in &batch.directories {
            if !check.holds(rows::read(&self.writer.connection, &check.key)?.as_deref()) {
                return Ok(Err(Failure::Conflict));
            }
        }
        let mut merged = Vec::with_capacity(batch.deltas.len());
        for (key, delta) in &batch.deltas {
            match delta.apply(rows::read(&self.writer.connection, key)?.as_deref()) {
                Ok(value) => merged.push((key, value)),
                Err(detail) => return Ok(Err(Failure::Damaged(detail))),
            }
        }
        let writes = batch.writes.iter().map(|(key, value)| (&**key, value.as_deref()));
        let changes = writes.chain(merged.iter().map(|(key, value)| (key.as_slice(), Some(value.as_slice()))));
        Editor::new(&self.writer.connection).set_all(changes)?;
        Ok(Ok(()))
    }
}

impl Engine {
    /// See [`changes::forget`]. It waits for the writer.
    pub(super) fn forget_changes(&self, upto: u64) -> Result<(), KvError> {
        let writer = self.writer.lock();
        let forgotten = writer.as_ref().map_or(Ok(()), |writer| {
            let turn = Turn { engine: self, writer };
            turn.transact(|_| Ok((changes::forget(&writer.connection, upto)?, None)))
        });
        drop(writer);
        drop(self.pass_on());
        forgotten.map_err(|failure| self.error(failure))
    }

    /// Takes the batches that are to be written through, and holds their keys.
    fn hold(&self) -> Through {
        let mut state = self.state.lock();
        let through = std::mem::take(&mut state.through);
        for (_, batch) in through.iter().filter(|_| !has_planted(Planted::KeysNotHeld)) {
            state.held.extend(batch.keys().cloned());
        }
        through
    }

    /// Takes the pending changes. Call it in the transaction, of a file with the records of the intent log up to `filed`. All that is
    /// taken is in the log first: no record that comes later, and may be filed after a crash, has a change that is older than what the
    /// file has by then.
    fn freeze(&self, filed: u64) -> Pending<'_> {
        let mut log = self.log.as_ref().map(|logging| (logging.log.lock(), logging.witness.commits()));
        let mut state = self.state.lock();
        if let Some((log, commits)) = log.as_mut().filter(|_| state.may_log() && !has_planted(Planted::FiledUnlogged)) {
            log.note_filed(filed);
            // Commits do not wait for most of it, ...
            let changes = std::mem::take(&mut state.unlogged);
            drop(state);
            let logged = log.append(&changes, *commits);
            state = self.state.lock();
            match logged {
                // ... only for those that came meanwhile.
                Ok(()) if log.append(&state.unlogged, *commits).is_ok() => state.unlogged.clear(),
                Ok(()) => {}
                Err(refused) => {
                    state.put_back(changes);
                    self.tell(refused);
                }
            }
        }
        state.waiting_since = None;
        if has_planted(Planted::FiledEarly) {
            state.filed = state.committed;
        }
        let changes = state.memtable.freeze();
        let pending = Pending {
            changes,
            claims: state.claims.clone(),
            covers: state.committed,
            intents: log.as_mut().map(|(log, _)| log.turn_over(filed)),
            held_log: log
                .map(|(log, _)| log)
                .filter(|_| !state.unlogged.is_empty() && !has_planted(Planted::FiledUnlogged)),
        };
        self.pin_views(state, Writing::Pending);
        pending
    }

    /// Prepares for changes that no memtable hides: no view of this epoch may find or leave their keys in the cache. Call it
    /// in the transaction.
    fn shield(&self) {
        let mut state = self.state.lock();
        state.fill_epoch = state.epoch + 1;
        state.held.iter().for_each(|key| self.cache.forget(key));
        self.pin_views(state, Writing::Through);
    }

    /// From here on every view has its read transaction, or comes while this is being written (see `sqlite.rs`).
    fn pin_views(&self, mut state: MutexGuard<'_, State>, what: Writing) {
        state.writing = what;
        let unpinned: Vec<_> = state.unpinned.values().cloned().collect();
        drop(state);
        if !has_planted(Planted::ViewNotPinned) {
            unpinned.iter().for_each(|pin| pin.begin(self));
        }
    }

    /// The file has the pending changes.
    fn publish(&self, pending: Pending<'_>) {
        let mut state = self.state.lock();
        let next_epoch = state.epoch + 1;
        state.fill_epoch = next_epoch;
        state.filed = pending.covers;
        state.is_closed = false;
        state.claims.drain(..pending.claims.len());
        state.failure = None;
        state.full = false;
        if has_planted(Planted::FrozenForgottenEarly) {
            state.memtable.forget_frozen();
        }
        drop(state);
        self.done.notify_all();
        // Views of this epoch have these changes in their memtable or must not see them; those of the next find them here.
        for (key, value) in pending.changes {
            self.remember(key, next_epoch, value);
        }
        let mut state = self.state.lock();
        state.epoch = next_epoch;
        state.memtable.forget_frozen();
        if pending.held_log.is_some() {
            state.unlogged = state.memtable.all();
        }
        state.writing = Writing::Nothing;
        drop(state);
        self.done.notify_all();
    }

    /// Notes how much room there is. Answers whether it is to be minded.
    fn note_room(&self, is_short: bool) -> bool {
        let mut state = self.state.lock();
        state.is_short = is_short;
        is_short || state.in_reserve
    }

    /// The file has none of the pending changes, so they stay pending.
    fn keep(&self, failure: Failure) {
        let mut state = self.state.lock();
        state.full = failure == Failure::Full;
        state.waiting_since = Some(self.env.clock.now());
        state.wanted = state.filed;
        self.fail(&mut state, failure);
        drop(state);
        self.done.notify_all();
    }

    /// The file has those of the batches that met no conflict or, after a failure, none.
    fn answer(&self, through: Through, outcomes: Result<Vec<Outcome>, Failure>) {
        let mut state = self.state.lock();
        let outcomes = match outcomes {
            Ok(outcomes) => {
                state.epoch += 1;
                state.fill_epoch = state.epoch;
                outcomes
            }
            Err(failure) => {
                self.fail(&mut state, failure.clone());
                vec![Err(failure); through.len()]
            }
        };
        for ((ticket, batch), outcome) in through.into_iter().zip(outcomes) {
            if outcome.is_ok() {
                for (key, value) in batch.writes {
                    self.remember(key.into(), state.epoch, value.map(Into::into));
                }
            }
            state.outcomes.insert(ticket, outcome);
        }
        state.held.clear();
        state.writing = Writing::Nothing;
        drop(state);
        self.done.notify_all();
    }

    /// The writer is gone: what it had in hand has failed, and nothing is written any more.
    fn lose_writer(&self) {
        let failure = Failure::Broken("its writer panicked; start weft again, and report the panic".into());
        let mut state = self.state.lock();
        state.held.clear();
        state.writer_is_lost = true;
        self.fail(&mut state, failure);
        drop(state);
        self.done.notify_all();
    }

    fn fail(&self, state: &mut State, failure: Failure) {
        let is_told = state.failure.as_ref() == Some(&failure) || matches!(failure, Failure::Displaced(_));
        if !is_told {
            tracing::warn!(store = %self.path.display(), ?failure, "the metadata store could not write");
        }
        if let Failure::Broken(why) | Failure::Damaged(why) = &failure {
            state.stopped.get_or_insert_with(|| why.clone());
        }
        state.failures += 1;
        state.failure = Some(failure);
        state.fill_epoch = state.epoch;
        state.writing = Writing::Nothing;
    }

    fn remember(&self, key: Shared, epoch: u64, value: Option<Shared>) {
        if self.is_cacheable(&key) {
            self.cache.put(key, epoch, value);
        }
    }
}

#[cfg(test)]
#[path = "writer_tests.rs"]
mod tests;
