//! Whether this process still has its place among those that change the store, as far as it can know by itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use weft_env::Clock;
use weft_env::sync::Mutex;

/// Each session says so often that it lives.
pub(in crate::engines) const SIGN_EVERY: Duration = Duration::from_secs(3);
/// A session that said nothing for so long is silent: another process may take its place.
pub(in crate::engines) const SILENCE_MAX: Duration = Duration::from_secs(20);
/// For so long after a sign of life its owner still has its place for sure.
const SURE: Duration = Duration::from_secs(15);

/// A moment by both clocks: one stands still while the machine sleeps, one can be set.
#[derive(Clone, Copy)]
pub(in crate::engines) struct Moment(Instant, Duration);

/// What is known of the place.
pub(in crate::engines) struct Place {
    clock: Arc<dyn Clock>,
    is_lost: AtomicBool,
    /// When the last sign of life was sent that arrived.
    signed: Mutex<Option<Moment>>,
}

impl Place {
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, is_lost: AtomicBool::new(false), signed: Mutex::new(None) }
    }

    /// Now: to be taken before a sign of life is sent.
    pub fn moment(&self) -> Moment {
        Moment(self.clock.now(), self.clock.unix_time())
    }

    /// A sign of life arrived that was sent after this moment.
    pub fn signed(&self, moment: Moment) {
        *self.signed.lock() = Some(moment);
    }

    /// Another process has it.
    pub fn lose(&self) {
        self.is_lost.store(true, Ordering::Release);
    }

    pub fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::Acquire)
    }

    /// Nobody else can have taken it yet.
    pub fn is_sure(&self) -> bool {
        let Moment(now, now_unix) = self.moment();
        let is_fresh = |Moment(signed, signed_unix)| {
            let since = now_unix.checked_sub(signed_unix);
            now.duration_since(signed) < SURE && since.is_some_and(|since| since < SURE)
        };
        !self.is_lost() && self.signed.lock().is_some_and(is_fresh)
    }
}
