//! What a process does for the store besides operations: signs of life, and deltas that are folded into their values.

use super::Engine;
use super::failure::Failure;
use super::server::Sql;
use super::session::SIGN_EVERY;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Readers add up what waits, so it should not become much.
const FOLD_EVERY: Duration = Duration::from_millis(50);
/// Of deltas that others have left, so many keys are folded with a sign of life.
const OTHERS_MAX: i64 = 64;

/// Runs until the store is closed. It ends with the engine's runtime at the latest.
pub(super) async fn keep(engine: Arc<Engine>) {
    let clock = engine.server.env.clock.clone();
    let mut sign_at = clock.now() + SIGN_EVERY;
    while !engine.is_closed.load(Ordering::Acquire) {
        tokio::select! {
            () = clock.sleep(FOLD_EVERY) => {}
            () = engine.closing.notified() => return,
        }
        let keys = std::mem::take(&mut *engine.waiting.lock());
        if let Err(failure) = engine.fold(keys.iter().cloned().collect()).await {
            tracing::debug!(?failure, "deltas wait on");
            engine.waiting.lock().extend(keys);
        }
        if clock.now() >= sign_at {
            sign_at = clock.now() + SIGN_EVERY;
            if let Err(failure) = engine.sign().await {
                tracing::warn!(error = %engine.error(failure), "no sign of life is given");
            }
        }
    }
}

impl Engine {
    /// A sign of life, if this process has a session. An owner also folds what others have left.
    async fn sign(&self) -> Result<(), Failure> {
        let Some(session) = *self.session.lock().await else { return Ok(()) };
        if self.execute(Sql::Heartbeat, &[&session]).await? == 0 {
            self.fence();
            return Err(Failure::Fenced);
        }
        if !self.is_owner() {
            return Ok(());
        }
        let keys = self.keys(Sql::WaitedFor, &[&OTHERS_MAX]).await?;
        self.fold(keys).await
    }
}
