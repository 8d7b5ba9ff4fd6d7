//! What a process does for the store besides operations: signs of life, and deltas that are folded into their values.

use super::Engine;
use super::server::Sql;
use super::session::Watch;
use crate::engines::remote::failure::Failure;
use crate::engines::remote::place::SIGN_EVERY;
use crate::owner::Role;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Readers add up what waits, so it should not become much.
const FOLD_EVERY: Duration = Duration::from_millis(50);
/// Keys with deltas of others that are folded at once, ...
const OTHERS_MAX: i64 = 64;
/// ... by owners and members, this often.
const FOLD_OTHERS_EVERY: u32 = 100;

/// Folds deltas until the store is closed. It ends with the engine's runtime at the latest.
pub(super) async fn fold(engine: Arc<Engine>) {
    let clock = engine.server.env.clock.clone();
    for round in 1u32.. {
        tokio::select! {
            () = clock.sleep(FOLD_EVERY) => {}
            () = engine.closing.notified() => {}
        }
        if engine.is_closed.load(Ordering::Acquire) {
            return;
        }
        if let Err(failure) = engine.fold_own().await {
            tracing::debug!(?failure, "deltas wait on");
        }
        if engine.role() != Role::Helper
            && round.is_multiple_of(FOLD_OTHERS_EVERY)
            && let Err(failure) = engine.fold_others().await
        {
            tracing::debug!(?failure, "deltas of others wait on");
        }
    }
}

/// Gives signs of life until the store is closed. A member also ends sessions of others that give none.
pub(super) async fn sign(engine: Arc<Engine>) {
    let (clock, mut watch) = (engine.server.env.clock.clone(), Watch::default());
    loop {
        tokio::select! {
            () = clock.sleep(SIGN_EVERY) => {}
            () = engine.closing.notified() => {}
        }
        if engine.is_closed.load(Ordering::Acquire) {
            return;
        }
        match engine.sign().await {
            Ok(()) => {}
            Err(failure) => {
                let is_over = failure == Failure::Fenced;
                tracing::warn!(error = %engine.error(failure), "no sign of life is given");
                if is_over {
                    return;
                }
            }
        }
        if engine.role() == Role::Member
            && let Err(failure) = engine.look_after(&mut watch).await
        {
            tracing::debug!(?failure, "the other sessions could not be looked at");
        }
    }
}

impl Engine {
    /// A sign of life, if this process has a session.
    pub(super) async fn sign(&self) -> Result<(), Failure> {
        let Some(session) = *self.session.lock().await else { return Ok(()) };
        let moment = self.place.moment();
        if self.execute(Sql::Heartbeat, &[&session]).await? == 0 {
            self.place.lose();
            return Err(Failure::Fenced);
        }
        self.place.signed(moment);
        Ok(())
    }

    /// Deltas that processes have left which ended.
    async fn fold_others(&self) -> Result<(), Failure> {
        let keys = self.keys(Sql::WaitedFor, &[&OTHERS_MAX]).await?;
        self.fold(keys).await
    }
}
