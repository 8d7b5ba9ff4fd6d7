//! The time of a job.

use std::sync::Arc;
use std::time::Instant;
use weft_env::Clock;

/// Wall time that goes on from where it was, whatever the wall clock does.
#[derive(Clone)]
pub(crate) struct JobClock {
    clock: Arc<dyn Clock>,
    began: Instant,
    began_ms: u64,
}

impl JobClock {
    /// It is `now_ms`, milliseconds since the Unix epoch.
    pub fn new(clock: &Arc<dyn Clock>, now_ms: u64) -> Self {
        Self { began: clock.now(), clock: Arc::clone(clock), began_ms: now_ms }
    }

    /// Milliseconds since the Unix epoch.
    pub fn now_ms(&self) -> u64 {
        self.began_ms + self.clock.elapsed(self.began).as_millis() as u64
    }
}
