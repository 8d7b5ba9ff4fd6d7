//! The rounds of a volume's compaction: that there is one at a time, and when a mount begins one.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use weft_env::sync::{Mutex, MutexGuard};

/// A volume's compaction: one round at a time, none once the volume ends.
#[derive(Default)]
pub(crate) struct Compaction {
    at_work: Mutex<()>,
    stopping: AtomicBool,
}

impl Compaction {
    /// Begins no more segments, and waits for the one at hand.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        drop(self.at_work.lock());
    }

    /// Waits for the round at hand, and lets no other begin while the result is held.
    pub fn begin(&self) -> MutexGuard<'_, ()> {
        self.at_work.lock()
    }

    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }
}

/// A mount looks this often whether there is something worth compacting: looking reads every segment's record.
const LOOK_EVERY: Duration = Duration::from_secs(600);
/// A round waits until no file was read or written for one step of the background's clock, but no longer than this: a
/// volume that never rests gets its room back too, half a MiB a second.
const TIMEOUT: Duration = Duration::from_secs(60);
/// After a round compaction rests this many times as long as the round took: it uses a quarter of the disks at most.
const REST_FACTOR: u32 = 3;

/// When a mount's rounds are. Pure: time and the count of calls come from outside.
pub(crate) struct Pace {
    due: Instant,
    calls_seen: u64,
}

impl Pace {
    pub fn new(now: Instant) -> Self {
        Self { due: now + LOOK_EVERY, calls_seen: 0 }
    }

    /// Is a round to begin? Asked once a second; `calls` is how often files were ever read or written.
    pub fn is_time(&mut self, now: Instant, calls: u64) -> bool {
        let was_quiet = std::mem::replace(&mut self.calls_seen, calls) == calls;
        now >= self.due && (was_quiet || now >= self.due + TIMEOUT)
    }

    /// A round that began at `began` has ended. `more`: it found something to do, and there may be more.
    pub fn ended(&mut self, began: Instant, now: Instant, more: bool) {
        let took = now.saturating_duration_since(began);
        self.due = if more { now + took * REST_FACTOR } else { now + LOOK_EVERY };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_wait_for_quiet_but_not_for_ever() {
        let start = Instant::now();
        let second = Duration::from_secs(1);
        let mut pace = Pace::new(start);
        assert!(!pace.is_time(start + second, 0), "a mount that has just begun has other things to do");
        let due = start + LOOK_EVERY;
        assert!(!pace.is_time(due, 5), "somebody was at work");
        assert!(!pace.is_time(due + second, 6));
        assert!(pace.is_time(due + 2 * second, 6), "nobody was");
        assert!(pace.is_time(due + TIMEOUT, 7), "somebody always is");
        let began = due + TIMEOUT;
        pace.ended(began, began + second, true);
        assert!(!pace.is_time(began + 2 * second, 7) && !pace.is_time(began + 3 * second, 7), "it rests");
        assert!(pace.is_time(began + (1 + REST_FACTOR) * second, 7));
        pace.ended(began, began + second, false);
        assert!(!pace.is_time(began + LOOK_EVERY, 7));
        assert!(pace.is_time(began + second + LOOK_EVERY, 7));
    }
}
