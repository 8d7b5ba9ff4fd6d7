//! The thread that keeps the replica, as long as a volume is owned.

use super::chain::ReplicaSizes;
use super::keeping::Keeping;
use crate::error::EngineError;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::Notify;
use weft_env::planted::{Planted, has_planted};
use weft_env::sync::{Condvar, Mutex};
use weft_env::{Clock, Runtime, Thread};
use weft_meta::Store;
use weft_transfer::Transfer;

/// The store's file is looked at this often: with the tenth of a second until it has a change, and the time that nodes take, the replica is
/// about a second behind.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Copies that are missing are looked for this often, also while nothing changes.
const LOOK_AGAIN_EVERY: Duration = Duration::from_secs(60);
/// After a failure.
const RETRY_AFTER: Duration = Duration::from_secs(5);
/// A caller that waits for the replica waits no longer than this while nodes take nothing, and at the end no longer in all.
const CATCH_UP_DEADLINE: Duration = Duration::from_secs(60);

/// See the module's head.
pub struct Replicator {
    shared: Arc<Shared>,
    thread: Option<Thread>,
}

struct Shared {
    store: Arc<Store>,
    /// Pieces that nodes have taken.
    stored: Arc<AtomicU64>,
    /// Ends a round that is under way: what it has stored of a set is removed by a later one.
    stop: Notify,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    is_stopping: bool,
    /// Somebody waits.
    is_asked: bool,
    /// Rounds that have begun, and those of them that have ended.
    begun: u64,
    ended: u64,
    /// Nodes have everything that was committed before the last one, unless it failed.
    is_whole: bool,
    /// The next one does not wait: it stores a part of a snapshot.
    has_more: bool,
    /// Why the last one failed.
    failure: Option<String>,
}

impl Replicator {
    /// Of a volume that this process owns. `None`: its engine cannot say what changes.
    ///
    /// # Errors
    /// [`EngineError::Threads`]; metadata cannot be read.
    pub fn start(
        store: &Arc<Store>,
        transfer: &Transfer,
        sizes: ReplicaSizes,
        runtime: &Runtime,
    ) -> Result<Option<Self>, EngineError> {
        let Some(history) = store.history() else { return Ok(None) };
        let keeping = Keeping::new(store.clone(), history, transfer.in_background(), sizes)?;
        let shared = Arc::new(Shared {
            store: store.clone(),
            stored: keeping.stored(),
            stop: Notify::new(),
            state: Mutex::default(),
            changed: Condvar::new(),
        });
        let (own, runtime) = (shared.clone(), runtime.clone());
        let body = Box::new(move || own.run(keeping, &runtime));
        let thread = store.env().spawner.thread("weft-replica", body).map_err(EngineError::Threads)?;
        // The store does not keep alive what keeps the store.
        let waits = Arc::downgrade(&shared);
        store.wait_by(move || {
            waits.upgrade().map_or(Err("the volume is being closed".into()), |shared| shared.catch_up(true))
        });
        Ok(Some(Self { shared, thread: Some(thread) }))
    }

    /// Waits until nodes have everything that was committed before.
    ///
    /// # Errors
    /// Why they have not, or not in time; a sentence.
    pub fn catch_up(&self) -> Result<(), String> {
        self.shared.catch_up(true)
    }

    /// The same, for a minute at most, and ends it.
    ///
    /// # Errors
    /// As [`Self::catch_up`].
    pub fn end(self) -> Result<(), String> {
        self.shared.catch_up(false)
    }
}

impl Drop for Replicator {
    fn drop(&mut self) {
        self.shared.state.lock().is_stopping = true;
        self.shared.stop.notify_one();
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread that keeps the metadata's replica panicked");
        }
    }
}

impl Shared {
    /// `is_patient`: while nodes take pieces it goes on waiting, since a first snapshot may take long.
    fn catch_up(&self, is_patient: bool) -> Result<(), String> {
        if has_planted(Planted::ReplicaToldEarly) {
            return Ok(());
        }
        let Self { store, state, changed, stored, .. } = self;
        if let Some(history) = store.history() {
            history.settle().map_err(|error| error.to_string())?;
        }
        let clock = store.env().clock.clone();
        let (mut seen, mut began) = (stored.load(Ordering::Relaxed), clock.now());
        let mut state = state.lock();
        // One that has begun already may have looked before.
        let round = state.begun + 1;
        loop {
            match &state.failure {
                Some(why) if state.ended >= round => return Err(why.clone()),
                None if state.ended >= round && state.is_whole => return Ok(()),
                _ if state.is_stopping => return Err("the volume is being closed".into()),
                _ => {}
            }
            // Said once: others that wait are woken by it, too, and would wake this one.
            if !std::mem::replace(&mut state.is_asked, true) {
                changed.notify_all();
            }
            let now = stored.load(Ordering::Relaxed);
            if std::mem::replace(&mut seen, now) != now && is_patient {
                began = clock.now();
            }
            let left = CATCH_UP_DEADLINE.saturating_sub(clock.elapsed(began));
            if left.is_zero() {
                return Err("nodes take too long".into());
            }
            changed.wait_for(&mut state, left, || clock.now());
        }
    }

    fn run(&self, mut keeping: Keeping, runtime: &Runtime) {
        let Some(history) = self.store.history() else { return };
        let (mut seen, mut noted) = (None, None);
        let clock = self.store.env().clock.clone();
        let mut looked = clock.now();
        while self.wait() {
            let last = history.last().ok();
            let is_fresh = clock.elapsed(looked) < LOOK_AGAIN_EVERY && !keeping.is_under_way();
            let outcome = if seen.is_some() && seen == last && is_fresh {
                Ok(true)
            } else {
                looked = clock.now();
                runtime.block_on(async {
                    tokio::select! {
                        biased;
                        () = self.stop.notified() => Err("the volume is closed".to_owned()),
                        done = keeping.round(history) => done.map_err(|error| error.to_string()),
                    }
                })
            };
            // A round that was cut short says nothing.
            if self.state.lock().is_stopping {
                return;
            }
            let is_whole = outcome == Ok(true);
            seen = last.filter(|_| is_whole);
            let failure = outcome.err();
            let note = keeping.note(failure.clone());
            if let Some(meta) = self.store.url().filter(|_| noted.as_ref() != Some(&note)) {
                note.write(meta);
                noted = Some(note);
            }
            let mut state = self.state.lock();
            state.ended = state.begun;
            if let Some(why) = failure.as_ref().filter(|why| state.failure.as_ref() != Some(*why)) {
                tracing::warn!("the names on the nodes are behind the metadata: {why}");
            }
            (state.failure, state.is_whole, state.has_more) = (failure, is_whole, keeping.is_under_way());
            self.changed.notify_all();
        }
    }

    /// Until a round is due; false: no more.
    fn wait(&self) -> bool {
        let clock: &dyn Clock = &*self.store.env().clock;
        let began = clock.now();
        let mut state = self.state.lock();
        let pause = match &state.failure {
            Some(_) => RETRY_AFTER,
            None if state.has_more => Duration::ZERO,
            None => LOOK_EVERY,
        };
        while !state.is_stopping && !state.is_asked {
            let left = pause.saturating_sub(clock.elapsed(began));
            if left.is_zero() {
                break;
            }
            self.changed.wait_for(&mut state, left, || clock.now());
        }
        state.is_asked = false;
        state.begun += 1;
        !state.is_stopping
    }
}
