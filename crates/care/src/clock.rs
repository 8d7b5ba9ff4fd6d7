//! The time of a job.

use std::time::Instant;

/// Wall time that goes on from where it was, whatever the wall clock does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    began: Instant,
    began_ms: u64,
}

impl Clock {
    /// It is `now_ms`, milliseconds since the Unix epoch.
    pub fn new(now_ms: u64) -> Self {
        Self { began: Instant::now(), began_ms: now_ms }
    }

    /// Milliseconds since the Unix epoch.
    pub fn now_ms(&self) -> u64 {
        self.began_ms + self.began.elapsed().as_millis() as u64
    }
}
