//! What a process does for the store besides operations: signs of life, deltas that are taken into their values, and old revisions that are
//! forgotten.

use super::Engine;
use crate::engines::remote::failure::Failure;
use crate::engines::remote::place::SIGN_EVERY;
use crate::owner::Role;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Readers add up what waits, so it should not become much; and a directory's row should not change often.
const FOLD_EVERY: Duration = Duration::from_millis(200);
/// What was replaced longer ago is forgotten: a backup takes some minutes, and a cluster's room is small.
const FORGET_EVERY: Duration = Duration::from_secs(300);

/// Takes deltas in until the store is closed. It ends with the engine's runtime at the latest.
pub(super) async fn fold(engine: Arc<Engine>) {
    while engine.goes_on(FOLD_EVERY).await {
        if let Err(failure) = engine.fold_waiting().await {
            tracing::debug!(?failure, "deltas wait on");
        }
    }
}

/// Gives signs of life until the store is closed.
pub(super) async fn sign(engine: Arc<Engine>) {
    while engine.goes_on(SIGN_EVERY).await {
        if let Err(failure) = engine.sign().await {
            tracing::warn!(error = %engine.error(failure.clone()), "no sign of life is given");
            if failure == Failure::Fenced {
                return;
            }
        }
        if let Err(failure) = engine.free_late_lock().await {
            tracing::debug!(?failure, "the lock of a commit may stay");
        }
    }
}

/// Forgets old revisions until the store is closed.
pub(super) async fn forget(engine: Arc<Engine>) {
    let mut before = None;
    while engine.role() != Role::Helper && engine.goes_on(FORGET_EVERY).await {
        if let Some(revision) = before
            && let Err(failure) = engine.server.compact(revision).await
        {
            // Another process was first, for example.
            tracing::debug!(?failure, "old revisions stay");
        }
        before = engine.revision().await.ok();
    }
}

impl Engine {
    /// Waits; false: the store is closed.
    pub(super) async fn goes_on(&self, time: Duration) -> bool {
        tokio::select! {
            () = self.server.env.clock.sleep(time) => {}
            () = self.closing.notified() => {}
        }
        !self.is_closed.load(Ordering::Acquire)
    }

    /// Keys for which deltas wait.
    pub(super) fn note_waiting(&self, keys: impl IntoIterator<Item = Vec<u8>>) {
        self.waiting.lock().extend(keys);
    }

    /// Takes in what waits and is known here.
    pub(super) async fn fold_waiting(&self) -> Result<(), Failure> {
        let mut keys: BTreeSet<Vec<u8>> = std::mem::take(&mut *self.waiting.lock());
        while let Some(key) = keys.pop_first() {
            match self.fold(&key).await {
                Ok(()) => {}
                Err(Failure::Damaged(why)) => {
                    tracing::error!(key = %crate::keys::printable(&key), why, "deltas of a record wait on");
                }
                Err(failure) => {
                    keys.insert(key);
                    self.waiting.lock().append(&mut keys);
                    return Err(failure);
                }
            }
        }
        Ok(())
    }
}
