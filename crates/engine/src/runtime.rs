//! What a process has once: threads for transfers, a clock, a name.

use crate::error::EngineError;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::runtime::{Builder, Runtime};
use weft_meta::owner::Holder;

/// The threads on which transfers run, with as many open files as are allowed at all: the usual 1,024 are for programs
/// that call `select`.
///
/// # Errors
/// [`EngineError::Threads`].
pub fn runtime() -> Result<Runtime, EngineError> {
    let allowed = getrlimit(Resource::Nofile);
    // Where the limit cannot be raised, the files that are allowed must do.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: allowed.maximum, ..allowed });
    Builder::new_multi_thread().enable_all().thread_name("transfer").build().map_err(EngineError::Threads)
}

/// Milliseconds since the Unix epoch.
///
/// # Errors
/// [`EngineError::Clock`].
pub fn now_ms() -> Result<u64, EngineError> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_err(|_| EngineError::Clock)?;
    u64::try_from(now.as_millis()).map_err(|_| EngineError::Clock)
}

/// This process, as others see it in a lease.
#[must_use]
pub fn holder() -> String {
    Holder::this_process(None).on_its_host()
}
