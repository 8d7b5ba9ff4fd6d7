//! So many bytes a second, and a turn for everybody.

use parking_lot::Mutex;
use std::num::NonZeroU64;
use std::time::Duration;
use tokio::time::Instant;

/// A day is longer than any transfer takes and far from the clock's end.
const LONGEST_DEBT: Duration = Duration::from_secs(24 * 3600);

/// What has been moved is paid for with time; who comes next waits until it is, in the order of coming. So callers that move
/// pieces of the same size, one at a time, get the same share.
pub(crate) struct Rate {
    bytes_per_second: NonZeroU64,
    paid_at: Mutex<Instant>,
    queue: tokio::sync::Mutex<()>,
}

impl Rate {
    pub(crate) fn new(bytes_per_second: NonZeroU64) -> Self {
        Self { bytes_per_second, paid_at: Mutex::new(Instant::now()), queue: tokio::sync::Mutex::new(()) }
    }

    pub(crate) async fn wait_until_paid(&self) {
        let _turn = self.queue.lock().await;
        self.sleep_until_paid().await;
    }

    pub(crate) fn charge(&self, bytes: usize) {
        let time = self.time_for(bytes as u64);
        let mut paid_at = self.paid_at.lock();
        *paid_at = (*paid_at).max(Instant::now()) + time;
    }

    /// Waits its turn and charges in one.
    pub(crate) async fn pay(&self, bytes: usize) {
        let _turn = self.queue.lock().await;
        self.sleep_until_paid().await;
        self.charge(bytes);
    }

    /// How long so many bytes take.
    pub(crate) fn time_for(&self, bytes: u64) -> Duration {
        let seconds = bytes as f64 / self.bytes_per_second.get() as f64;
        Duration::try_from_secs_f64(seconds).map_or(LONGEST_DEBT, |time| time.min(LONGEST_DEBT))
    }

    async fn sleep_until_paid(&self) {
        let paid_at = *self.paid_at.lock();
        tokio::time::sleep_until(paid_at).await;
    }
}
