//! Values that a process has once: threads for transfers, and a name.

use crate::error::EngineError;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::ops::Deref;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use weft_env::Clock;
use weft_meta::owner::Holder;

/// How long the end of a process waits for calls that it has given up: what is written at the moment may end well.
const ENDING: Duration = Duration::from_secs(5);

/// Threads for transfers. Their end does not wait for a file system that hangs.
pub struct Threads(Option<Runtime>);

impl Threads {
    /// Ends without waiting for anything.
    pub fn leave(mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

impl Deref for Threads {
    type Target = Runtime;

    fn deref(&self) -> &Runtime {
        self.0.as_ref().expect("it is taken when it is dropped")
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_timeout(ENDING);
        }
    }
}

/// The threads on which transfers run, with as many open files as are allowed at all: the usual 1,024 are for programs
/// that call `select`.
///
/// # Errors
/// [`EngineError::Threads`].
pub fn runtime() -> Result<Threads, EngineError> {
    let allowed = getrlimit(Resource::Nofile);
    // Where the limit cannot be raised, the files that are allowed must do.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: allowed.maximum, ..allowed });
    let runtime = Builder::new_multi_thread().enable_all().thread_name("transfer").build();
    Ok(Threads(Some(runtime.map_err(EngineError::Threads)?)))
}

/// This process, as others see it in a lease.
#[must_use]
pub fn holder(clock: &dyn Clock) -> String {
    Holder::this_process(None, clock).on_its_host()
}
