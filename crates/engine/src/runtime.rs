//! Values that a process has once: threads for transfers, and a name.

use crate::error::EngineError;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::runtime::{Builder, Runtime};
use weft_env::Clock;
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

/// This process, as others see it in a lease.
#[must_use]
pub fn holder(clock: &dyn Clock) -> String {
    Holder::this_process(None, clock).on_its_host()
}
