//! Time that passes, the time of day, and waiting for either.

use std::future::Future;
use std::pin::{Pin, pin};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::time::Instant as RuntimeInstant;

/// Ends when a moment has come.
pub type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The time was over before the work was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elapsed;

/// A clock of each kind. Moments of one clock are compared with moments of the same clock only.
pub trait Clock: Send + Sync {
    /// Now, on a clock that never goes back and never jumps. What is waited for, and what may be removed, goes by it.
    fn now(&self) -> Instant;

    /// The time of day since the Unix epoch. It may be wrong and it may jump: it is for times of files and for people.
    fn unix_time(&self) -> Duration;

    /// Waits until `moment`, or not at all if that is past.
    fn sleep_until(&self, moment: Instant) -> Sleep;

    /// Blocks the calling thread for `time`. Never call it on a thread that runs tasks.
    fn block(&self, time: Duration);
}

impl dyn Clock + '_ {
    /// The time of day in milliseconds since the Unix epoch.
    #[must_use]
    pub fn unix_ms(&self) -> u64 {
        u64::try_from(self.unix_time().as_millis()).unwrap_or(u64::MAX)
    }

    /// How long ago `moment` was.
    #[must_use]
    pub fn elapsed(&self, moment: Instant) -> Duration {
        self.now().saturating_duration_since(moment)
    }

    /// Waits for `time`.
    pub fn sleep(&self, time: Duration) -> Sleep {
        self.sleep_until(self.now() + time)
    }

    /// Does `work`, for `time` at most.
    ///
    /// # Errors
    /// [`Elapsed`]: the time was over first, and the work is dropped where it was.
    pub async fn timeout<T>(&self, time: Duration, work: impl Future<Output = T>) -> Result<T, Elapsed> {
        self.timeout_at(self.now() + time, work).await
    }

    /// Does `work`, until `moment` at most.
    ///
    /// # Errors
    /// As [`Self::timeout`].
    pub async fn timeout_at<T>(&self, moment: Instant, work: impl Future<Output = T>) -> Result<T, Elapsed> {
        let mut work = pin!(work);
        let mut sleep = self.sleep_until(moment);
        // The work is asked first: what is done at the last moment is done.
        std::future::poll_fn(|context| {
            if let std::task::Poll::Ready(value) = work.as_mut().poll(context) {
                return std::task::Poll::Ready(Ok(value));
            }
            sleep.as_mut().poll(context).map(|()| Err(Elapsed))
        })
        .await
    }
}

/// The machine's clocks. Tasks of a runtime whose time is paused, as in tests, see that time.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

#[expect(clippy::disallowed_methods, reason = "this is where they are called")]
impl Clock for SystemClock {
    fn now(&self) -> Instant {
        RuntimeInstant::now().into_std()
    }

    fn unix_time(&self) -> Duration {
        // A clock before 1970 is a clock that was never set.
        SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
    }

    fn sleep_until(&self, moment: Instant) -> Sleep {
        Box::pin(tokio::time::sleep_until(moment.into()))
    }

    fn block(&self, time: Duration) {
        std::thread::sleep(time);
    }
}

#[cfg(test)]
#[path = "clock_tests.rs"]
mod tests;
