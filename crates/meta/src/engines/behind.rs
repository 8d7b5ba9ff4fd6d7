//! Write-behind for an engine on a server, of the process that owns the store alone.
//!
//! ```text
//! commit   -> checks hold on (memtable over server)? -> memtable -> return
//! flush    -> freeze the memtable, one commit of the engine below, forget the frozen part
//! 100 ms, or 1 MiB, or half of what the engine below takes at once -> the same, by a thread
//! snapshot = (memtable, snapshot of the engine below)                                      (behind/view.rs)
//! ```
//!
//! **What is durable.** Each commit below has all batches committed before some moment, so after a crash the server has a prefix of the
//! commits, each whole. Concurrent flushes share one.
//!
//! **Snapshots.** Keys are the owner's alone, except those under a [`SharedPrefix`]. So what the server has at such a key, and the memtable
//! does not, is what was there when the memtable was cloned, unless a later batch changed the key and began to be filed. The keys that are
//! changed while a view lives are noted; an answer about one of them is a conflict.
//!
//! **Several processes.** Others write shared keys. A batch that depends on them is written through, after everything committed before it
//! (`route.rs`; `sqlite.rs` says why that is sound). A key with a fresh id that the owner makes, nobody else can make; the commit below
//! verifies it all the same, and the engine stops rather than overwrite.
//!
//! **Once.** Each commit below moves a mark from the value that the last one gave it to a new one. A commit whose outcome nobody knows is
//! sent again as it was: if the mark has its value, it was done. So neither a copy of it that comes late, nor an owner that comes back,
//! writes over what came after.
//!
//! **Failures.** What cannot be filed stays in the memtable, and is tried again; who flushes has the error. When another process has taken
//! this one's place, what was not filed is dropped: nobody has a promise of it. A view that has something from the memtable asks for the
//! place first, if it is not sure of it.

mod view;

#[cfg(feature = "shared")]
use crate::engines::OpenError;
use crate::engines::memtable::{Memtable, Shared};
use crate::engines::route::{Route, route};
#[cfg(feature = "shared")]
use crate::keys::SHARED;
use crate::keys::{Counter, SharedPrefix, Table};
use crate::kv::{Batch, Kv, KvError, RangeCheck, Sessions, Snapshot, WHOLE_COMMIT};
#[cfg(feature = "shared")]
use crate::types::Access;
use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Included};
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};
use view::{Taken, View};
use weft_env::planted::{Planted, has_planted};
use weft_env::steps;
use weft_env::sync::{Condvar, Mutex, MutexGuard};
use weft_env::{Env, Thread};

/// How long a change waits at most for a commit that nobody asks for.
const FILE_AFTER: Duration = Duration::from_millis(100);
/// So much is filed at once: a commit of it takes a server some ten milliseconds.
const FILE_BYTES: u64 = 1 << 20;
/// Commits wait when this much is pending.
const PENDING_BYTES_MAX: u64 = 8 << 20;
/// After a failure.
const TRY_AGAIN_AFTER: Duration = Duration::from_secs(1);
/// Transactions of a server may be in each other's way without a reason that stays.
const TRIES: u32 = 16;
/// Fewer keys that changed are not looked through for those that nobody asks about any more.
const RECENT_MIN: usize = 10_000;

/// The key of the mark. Those above do not see it.
const MARK: [u8; 2] = [Table::Counter as u8, Counter::Filed as u8];

/// An engine whose owner does not wait for its server. Dropping it files what is pending.
pub struct Behind {
    engine: Arc<Engine>,
    thread: Option<Thread>,
}

struct Engine {
    below: Arc<dyn Kv>,
    /// What the store is called in errors.
    store: String,
    shared_keys: &'static [SharedPrefix],
    env: Env,
    state: Mutex<State>,
    /// The thread waits here for work.
    work: Condvar,
    /// All others wait here for the end of a commit below.
    done: Condvar,
}

#[derive(Default)]
struct State {
    memtable: Memtable,
    /// How much the next commit below has of the largest that there may be, at most.
    share: u64,
    /// Batches ever committed, ...
    committed: u64,
    /// ... how many of them a commit below has that began, ...
    begun: u64,
    /// ... and how many are on the server.
    filed: u64,
    /// Keys with a fresh id that pending batches make.
    claims: Vec<Vec<u8>>,
    /// What the mark has on the server; `None`: it was not read yet.
    mark: Option<Mark>,
    /// A commit of what was pending that failed, or whose outcome is not known.
    unfinished: Option<Attempt>,
    /// A batch that was written through, and nobody knows whether it was: before anything else it is found out.
    unsettled: Option<Unsettled>,
    /// Views, by the number of batches that they see.
    views: BTreeMap<u64, usize>,
    /// The last batch that changed a key, of those since the oldest view.
    recent: BTreeMap<Shared, u64>,
    /// How many were left when it was looked through last.
    recent_kept: usize,
    /// When the oldest change that waits was committed.
    waiting_since: Option<Instant>,
    /// A commit below is under way.
    is_filing: bool,
    /// A batch is being written through: commits wait.
    is_through: bool,
    failures: u64,
    /// The last failure since a commit below succeeded, and when it was.
    failure: Option<(KvError, Instant)>,
    /// The engine takes no more writes, because of this.
    stopped: Option<KvError>,
    is_closing: bool,
}

/// The value of the mark, if it has one.
type Mark = Option<Vec<u8>>;

/// A commit below.
#[derive(Clone)]
struct Attempt {
    /// Without the mark.
    batch: Batch,
    /// The value of the mark before it, and after.
    before: Mark,
    after: Mark,
}

/// A commit of which nobody knows whether it was done, and what is committed to find out. That is sent again as it was: the first may have been
/// done as well.
#[derive(Clone)]
struct Unsettled {
    attempt: Attempt,
    nothing: Attempt,
}

impl State {
    /// Something is committed that changes these keys.
    fn note<'k>(&mut self, keys: impl Iterator<Item = &'k [u8]>) {
        self.committed += 1;
        if !self.views.is_empty() {
            let number = self.committed;
            self.recent.extend(keys.map(|key| (key.into(), number)));
        }
    }

    /// Forgets which keys were changed before the oldest view. Where many read there always is a view, so that each is looked at once for
    /// each time that it has doubled.
    fn forget_recent(&mut self) {
        match self.views.first_key_value() {
            None => self.recent.clear(),
            Some((oldest, _)) if self.recent.len() >= self.recent_kept * 2 + RECENT_MIN => {
                let oldest = *oldest;
                self.recent.retain(|_, number| *number > oldest);
                self.recent_kept = self.recent.len();
            }
            Some(_) => return,
        }
        if self.recent.is_empty() {
            self.recent_kept = 0;
        }
    }

    /// Did a batch change the key that came after the first `seen`?
    fn is_changed(&self, key: &[u8], seen: u64) -> bool {
        self.recent.get(key).is_some_and(|number| *number > seen)
    }

    fn is_changed_within(&self, range: &Range<Vec<u8>>, seen: u64) -> bool {
        let bounds = (Included(&*range.start), Excluded(&*range.end));
        range.start < range.end && self.recent.range::<[u8], _>(bounds).any(|(_, number)| *number > seen)
    }

    /// Is as much pending?
    fn has(&self, bytes: u64) -> bool {
        self.memtable.bytes() as u64 > steps::bound(bytes)
    }

    /// Is so much pending that it is filed at once?
    fn has_enough(&self) -> bool {
        self.has(FILE_BYTES) || self.share > WHOLE_COMMIT / 2
    }

    /// Does the next commit below take so much more?
    fn takes(&self, share: u64) -> bool {
        self.share + share <= WHOLE_COMMIT
    }

    fn refuse_if_stopped(&self) -> Result<(), KvError> {
        self.stopped.clone().map_or(Ok(()), Err)
    }

    /// What is pending never happened.
    fn stop(&mut self, why: &KvError) -> KvError {
        (self.memtable, self.share) = (Memtable::default(), 0);
        (self.unfinished, self.unsettled) = (None, None);
        self.stopped.get_or_insert_with(|| why.clone()).clone()
    }

    /// A batch is written through, or was: which views see it nobody knows. Nothing is pending.
    fn note_through(&mut self, batch: &Batch) {
        self.note(batch.changed_keys().map(Vec::as_slice));
        (self.begun, self.filed) = (self.committed, self.committed);
    }

    /// When the thread is to file what is pending; `None`: nothing is.
    fn due(&self) -> Option<Instant> {
        let since = self.waiting_since.filter(|_| self.stopped.is_none())?;
        Some(match &self.failure {
            Some((_, failed)) => *failed + TRY_AGAIN_AFTER,
            None if self.has_enough() => since,
            None => since + FILE_AFTER,
        })
    }
}

impl Behind {
    /// Over an engine that this process owns. `store` is what it is called.
    ///
    /// # Errors
    /// There is no thread for it.
    pub fn new(
        below: Arc<dyn Kv>,
        store: String,
        shared_keys: &'static [SharedPrefix],
        env: &Env,
    ) -> Result<Self, KvError> {
        let engine = Arc::new(Engine {
            below,
            store,
            shared_keys,
            env: env.clone(),
            state: Mutex::default(),
            work: Condvar::new(),
            done: Condvar::new(),
        });
        let filing = engine.clone();
        let thread = env.spawner.thread("weft-meta-behind", Box::new(move || filing.file_when_due()));
        let no_thread = |error| KvError::Failed {
            store: engine.store.clone(),
            detail: format!("it gets no thread: {error}; end other programs"),
        };
        let thread = Some(thread.map_err(no_thread)?);
        Ok(Self { engine, thread })
    }
}

/// An engine on a server as this process uses it: an owner writes behind.
///
/// # Errors
/// There is no thread for it.
#[cfg(feature = "shared")]
pub(super) fn of_owner(below: Arc<dyn Kv>, access: Access, store: String, env: &Env) -> Result<Arc<dyn Kv>, OpenError> {
    if access != Access::Owner {
        return Ok(below);
    }
    Ok(Arc::new(Behind::new(below, store, SHARED, env)?))
}

impl Engine {
    fn commit(&self, batch: Batch, frees_room: bool) -> Result<(), KvError> {
        if batch.asks_nothing() {
            return Ok(());
        }
        match route(&batch, self.shared_keys) {
            Route::Behind { claims } if !self.are_shared(&batch.ranges) => {
                self.commit_behind(batch, claims, frees_room)
            }
            _ => self.commit_through(batch),
        }
    }

    /// Does one of the ranges have keys that others change?
    fn are_shared(&self, ranges: &[RangeCheck]) -> bool {
        let is_shared = |range: &Range<Vec<u8>>| {
            let reaches = |shared: &SharedPrefix| {
                range.start.starts_with(shared.prefix) || *shared.prefix >= *range.start && *shared.prefix < *range.end
            };
            self.shared_keys.iter().any(reaches)
        };
        ranges.iter().any(|check| is_shared(&check.range))
    }

    fn commit_behind(&self, batch: Batch, claims: Vec<Vec<u8>>, frees_room: bool) -> Result<(), KvError> {
        let asked: Vec<Vec<u8>> = batch
            .checks
            .iter()
            .map(|(key, _)| key)
            .chain(batch.directories.iter().map(|check| &check.key))
            .chain(batch.deltas.iter().map(|(key, _)| key))
            .cloned()
            .collect();
        loop {
            // The server is asked outside the lock. What it says stays true until the key is noted.
            let view = Taken::new(self)?;
            let found = match view.get_many(&asked) {
                Err(KvError::Conflict) => continue,
                found => found?,
            };
            let (checked, rest) = found.split_at(batch.checks.len());
            let (directories, before) = rest.split_at(batch.directories.len());
            let holds = batch.checks.iter().zip(checked).all(|((_, expected), found)| found == expected)
                && batch.directories.iter().zip(directories).all(|(check, found)| check.holds(found.as_deref()));
            if !holds {
                return Err(KvError::Conflict);
            }
            let merged = batch.deltas.iter().zip(before).map(|((key, delta), found)| {
                let value = delta.apply(found.as_deref());
                let damaged = |detail| KvError::Damaged { store: self.store.clone(), detail };
                Ok((key.clone(), Some(value.map_err(damaged)?)))
            });
            let merged = merged.collect::<Result<Vec<_>, KvError>>()?;
            let writes = batch.writes.iter().chain(&merged);
            let share = writes.map(|(key, value)| self.below.share_of_commit(key, value.as_deref())).sum();
            let Some(mut state) = self.admit(share, frees_room)? else { continue };
            let is_changed = asked.iter().any(|key| state.is_changed(key, view.seen()));
            if is_changed && !has_planted(Planted::CheckedOnce) {
                drop(state);
                continue;
            }
            if batch.is_empty() {
                return Ok(());
            }
            state.note(batch.changed_keys().map(Vec::as_slice));
            state.claims.extend(claims);
            state.share += share;
            for (key, value) in batch.writes.into_iter().chain(merged) {
                state.memtable.put(key.into(), value.map(Into::into));
            }
            let is_first = state.waiting_since.is_none();
            state.waiting_since.get_or_insert_with(|| self.env.clock.now());
            if is_first || state.has_enough() {
                self.work.notify_one();
            }
            drop(state);
            return Ok(());
        }
    }

    /// The lock, once the engine takes a batch with this share of a commit below; `None` if it had to wait for that, so that checks must be
    /// made again.
    fn admit(&self, share: u64, frees_room: bool) -> Result<Option<MutexGuard<'_, State>>, KvError> {
        if share > WHOLE_COMMIT {
            let detail = "a change is larger than its servers take at once; make it in parts".into();
            return Err(KvError::Failed { store: self.store.clone(), detail });
        }
        let mut state = self.state.lock();
        state.refuse_if_stopped()?;
        if let Some((failure @ KvError::Full { .. }, _)) = &state.failure
            && !frees_room
        {
            return Err(failure.clone());
        }
        if state.is_through && !has_planted(Planted::KeysNotHeld) {
            self.done.wait(&mut state);
            return Ok(None);
        }
        if state.unsettled.is_some() || state.has(PENDING_BYTES_MAX) {
            drop(state);
            self.file_all()?;
            return Ok(None);
        }
        if !state.takes(share) {
            drop(state);
            self.take_turns(|state| state.takes(share))?;
            return Ok(None);
        }
        Ok(Some(state))
    }

    /// After everything that was committed before it, while no other batch is.
    fn commit_through(&self, batch: Batch) -> Result<(), KvError> {
        let _gate = self.close_gate()?;
        self.file_all()?;
        let before = self.mark()?;
        let attempt = Attempt { batch, before, after: self.new_mark() };
        // Views that are taken before do not see it, and those that are taken until it is done may see it or not.
        self.state.lock().note_through(&attempt.batch);
        let sent = self.send(&attempt);
        let mut state = self.state.lock();
        state.note_through(&attempt.batch);
        match sent {
            Ok(mark) if mark == attempt.after => {
                state.mark = Some(mark);
                Ok(())
            }
            Ok(_) => Err(state.stop(&self.displaced())),
            Err(displaced @ KvError::Displaced { .. }) => Err(state.stop(&displaced)),
            Err(error @ (KvError::Conflict | KvError::Damaged { .. })) => Err(error),
            Err(unknown) => {
                state.waiting_since.get_or_insert_with(|| self.env.clock.now());
                let nothing = Attempt { batch: Batch::default(), after: self.new_mark(), ..attempt.clone() };
                state.unsettled = Some(Unsettled { attempt, nothing });
                Err(unknown)
            }
        }
    }

    /// No batch is committed until it is dropped.
    fn close_gate(&self) -> Result<Gate<'_>, KvError> {
        let mut state = self.state.lock();
        loop {
            state.refuse_if_stopped()?;
            if !state.is_through {
                state.is_through = true;
                return Ok(Gate(self));
            }
            self.done.wait(&mut state);
        }
    }

    /// Returns when all that was committed before the call is on the server.
    fn file_all(&self) -> Result<(), KvError> {
        let target = self.state.lock().committed;
        self.take_turns(|state| state.unsettled.is_none() && state.filed >= target)
    }

    /// Returns when it is known what became of everything that was written through.
    fn settle(&self) -> Result<(), KvError> {
        self.take_turns(|state| state.unsettled.is_none())
    }

    /// Takes turns with others until it is done.
    fn take_turns(&self, is_done: impl Fn(&State) -> bool) -> Result<(), KvError> {
        let mut state = self.state.lock();
        let failures = state.failures;
        loop {
            if is_done(&state) {
                return Ok(());
            }
            state.refuse_if_stopped()?;
            if state.failures > failures
                && let Some((failure, _)) = &state.failure
            {
                return Err(failure.clone());
            }
            if state.is_filing {
                self.done.wait(&mut state);
            } else {
                state = self.take_turn(state);
            }
        }
    }

    /// Finds out what became of a batch that was written through, or files what is pending.
    fn take_turn<'e>(&'e self, mut state: MutexGuard<'e, State>) -> MutexGuard<'e, State> {
        state.is_filing = true;
        let (turn, unsettled) = (Turn(self), state.unsettled.clone());
        drop(state);
        let done = match unsettled {
            Some(attempt) => self.find_out(&attempt),
            None => self.file(),
        };
        let mut state = self.state.lock();
        match done {
            Ok(()) => {
                state.failure = None;
                if state.memtable.is_empty() {
                    state.waiting_since = None;
                }
            }
            Err(failure) => {
                tracing::warn!(store = %self.store, error = %failure, "the last changes are not on the server");
                if let KvError::Displaced { .. } | KvError::Damaged { .. } = failure {
                    state.stop(&failure);
                }
                let now = self.env.clock.now();
                state.failures += 1;
                state.waiting_since.get_or_insert(now);
                state.failure = Some((failure, now));
            }
        }
        state.is_filing = false;
        turn.ends();
        state
    }

    /// Was it done? If not, it never will be: the mark moves on.
    fn find_out(&self, Unsettled { attempt, nothing }: &Unsettled) -> Result<(), KvError> {
        let mark = self.send_again(nothing)?;
        if ![&nothing.after, &attempt.after].contains(&&mark) {
            return Err(self.displaced());
        }
        let mut state = self.state.lock();
        state.note_through(&attempt.batch);
        (state.mark, state.unsettled) = (Some(mark), None);
        Ok(())
    }

    /// Files what is pending, by one commit below.
    fn file(&self) -> Result<(), KvError> {
        let unfinished = self.state.lock().unfinished.take();
        let attempt = match unfinished {
            Some(attempt) => attempt,
            None => {
                let before = self.mark()?;
                self.next_attempt(&mut self.state.lock(), before)
            }
        };
        let sent = self.send_again(&attempt);
        let mut state = self.state.lock();
        match sent {
            Ok(mark) if mark == attempt.after => {
                state.memtable.forget_frozen();
                state.filed = state.begun;
                state.mark = Some(mark);
                Ok(())
            }
            Ok(_) => Err(self.displaced()),
            Err(failure) => {
                state.unfinished = Some(attempt);
                Err(failure)
            }
        }
    }

    /// All that is pending.
    fn next_attempt(&self, state: &mut State, before: Mark) -> Attempt {
        let changes = state.memtable.freeze();
        state.share = 0;
        state.begun = state.committed;
        if has_planted(Planted::FiledEarly) {
            state.filed = state.committed;
        }
        state.waiting_since = None;
        let claims = std::mem::take(&mut state.claims);
        let writes = changes.iter().map(|(key, value)| (key.to_vec(), value.as_deref().map(<[u8]>::to_vec)));
        let checks = claims.into_iter().map(|key| (key, None)).collect();
        let batch = Batch { checks, writes: writes.collect(), ..Batch::default() };
        Attempt { batch, before, after: self.new_mark() }
    }

    /// What the mark has on the server.
    fn mark(&self) -> Result<Mark, KvError> {
        if let Some(mark) = &self.state.lock().mark {
            return Ok(mark.clone());
        }
        self.below.snapshot()?.get(&MARK)
    }

    /// A value that it never had.
    fn new_mark(&self) -> Mark {
        Some([self.env.rng.next_u64().to_be_bytes(), self.env.rng.next_u64().to_be_bytes()].concat())
    }

    /// Sends it once. The mark then: its own, also if it was done before; or that of a process that came in between.
    fn send(&self, attempt: &Attempt) -> Result<Mark, KvError> {
        let mut batch = attempt.batch.clone();
        batch.checks.push((MARK.to_vec(), attempt.before.clone()));
        batch.writes.push((MARK.to_vec(), attempt.after.clone()));
        match self.below.commit_freeing(batch) {
            Ok(()) => return Ok(attempt.after.clone()),
            Err(KvError::Conflict) => {}
            Err(error) => return Err(error),
        }
        let mark = self.below.snapshot()?.get(&MARK)?;
        if mark == attempt.before { Err(KvError::Conflict) } else { Ok(mark) }
    }

    /// The same for what others can be in the way of only by chance.
    fn send_again(&self, attempt: &Attempt) -> Result<Mark, KvError> {
        for _ in 0..TRIES {
            match self.send(attempt) {
                Err(KvError::Conflict) => self.refuse_claimed(attempt)?,
                sent => return sent,
            }
        }
        let detail = "other transactions of its server are in the way of each attempt; try again".into();
        Err(KvError::Failed { store: self.store.clone(), detail })
    }

    /// Its conflict is that somebody else has made a record with an id that this process drew.
    fn refuse_claimed(&self, attempt: &Attempt) -> Result<(), KvError> {
        let claimed: Vec<Vec<u8>> = attempt.batch.checks.iter().map(|(key, _)| key.clone()).collect();
        let found = self.below.snapshot()?.get_many(&claimed)?;
        let Some(place) = found.iter().position(Option::is_some) else { return Ok(()) };
        let key = crate::keys::printable(&claimed[place]);
        let detail = format!("the record {key} is there, whose id this process has just drawn");
        Err(KvError::Damaged { store: self.store.clone(), detail })
    }

    /// Somebody else has moved the mark.
    fn displaced(&self) -> KvError {
        let sentence = format!(
            "another process changed {} in the place of this one, which gave no sign of life for too long; end this one, and start it again",
            self.store
        );
        KvError::Displaced { sentence }
    }

    /// The work of the thread.
    fn file_when_due(&self) {
        let mut state = self.state.lock();
        while !state.is_closing {
            let now = self.env.clock.now();
            match state.due() {
                Some(due) if due <= now && !state.is_filing => state = self.take_turn(state),
                Some(due) if due > now => self.work.wait_for(&mut state, due - now, || now),
                _ => self.work.wait(&mut state),
            }
        }
    }
}

/// A commit below is under way.
struct Turn<'e>(&'e Engine);

impl Turn<'_> {
    /// Others may go on.
    fn ends(self) {
        self.0.done.notify_all();
        self.0.work.notify_one();
        std::mem::forget(self);
    }
}

impl Drop for Turn<'_> {
    /// It panicked: nobody would ever end it.
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        let detail = "its client panicked; end this process, and start it again".into();
        state.stop(&KvError::Failed { store: self.0.store.clone(), detail });
        state.is_filing = false;
        self.0.done.notify_all();
    }
}

/// No batch is committed until it is dropped.
struct Gate<'e>(&'e Engine);

impl Drop for Gate<'_> {
    fn drop(&mut self) {
        self.0.state.lock().is_through = false;
        self.0.done.notify_all();
    }
}

impl Kv for Behind {
    fn snapshot(&self) -> Result<Box<dyn Snapshot + '_>, KvError> {
        Ok(Box::new(View::new(&self.engine)?))
    }

    fn note_empty(&self, key: &[u8]) {
        self.engine.below.note_empty(key);
    }

    fn commit(&self, batch: Batch) -> Result<(), KvError> {
        self.engine.commit(batch, false)
    }

    fn commit_freeing(&self, batch: Batch) -> Result<(), KvError> {
        self.engine.commit(batch, true)
    }

    fn flush(&self) -> Result<(), KvError> {
        self.engine.file_all()?;
        self.engine.below.flush()
    }

    fn close(&self) -> Result<(), KvError> {
        self.flush()?;
        self.engine.below.close()
    }

    fn sessions(&self) -> Option<&dyn Sessions> {
        self.engine.below.sessions()
    }

    fn verify(&self, progress: &mut dyn FnMut(u64)) -> Result<Vec<String>, KvError> {
        self.flush()?;
        self.engine.below.verify(progress)
    }
}

impl Drop for Behind {
    fn drop(&mut self) {
        self.engine.state.lock().is_closing = true;
        self.engine.work.notify_all();
        if let Some(thread) = self.thread.take() {
            // It panicked, which was told.
            let _ = thread.join();
        }
        if let Err(error) = self.flush() {
            tracing::error!(store = %self.engine.store, %error, "closed with changes that could not be written");
        }
    }
}

#[cfg(test)]
#[path = "behind_tests.rs"]
mod tests;
