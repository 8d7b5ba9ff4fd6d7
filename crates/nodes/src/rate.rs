//! So many bytes a second, and a turn for everybody: users first, but what runs in the background is never shut out.

use parking_lot::Mutex;
use std::num::NonZeroU64;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// For whom bytes are moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Class {
    /// Somebody waits for them: users' reads and writes.
    #[default]
    Foreground,
    /// Nobody waits for them: repair, scrub, compaction, removing what is dead. Takes [`BACKGROUND_PERCENT`] while there is a
    /// foreground, and everything while there is none.
    Background,
}

/// What the background takes of what there is while the foreground takes the rest: little enough that users hardly see it,
/// enough that a repair of a node that is in use ends in five times the time it takes alone.
pub const BACKGROUND_PERCENT: u32 = 20;

/// The foreground counts as there for so long after it was seen: longer than a user who reads one piece after another needs
/// between two of them.
pub const FOREGROUND_STAYS: Duration = Duration::from_millis(250);

/// A day is longer than any transfer takes and far from the clock's end.
const LONGEST_DEBT: Duration = Duration::from_secs(24 * 3600);

/// What was moved, as time that pays for it. Pure: what happens and the time come in, who may move when goes out.
#[derive(Clone, Copy, Debug)]
struct Account {
    bytes_per_second: NonZeroU64,
    /// When all that was moved is paid for.
    paid_at: Instant,
    /// When what the background moved is paid for out of its share.
    background_paid_at: Instant,
    /// Until then the foreground counts as there.
    foreground_until: Instant,
    foreground_waiting: u32,
}

impl Account {
    fn new(bytes_per_second: NonZeroU64, now: Instant) -> Self {
        Self { bytes_per_second, paid_at: now, background_paid_at: now, foreground_until: now, foreground_waiting: 0 }
    }

    /// How long so many bytes take.
    fn time_for(&self, bytes: u64) -> Duration {
        let seconds = bytes as f64 / self.bytes_per_second.get() as f64;
        Duration::try_from_secs_f64(seconds).map_or(LONGEST_DEBT, |time| time.min(LONGEST_DEBT))
    }

    fn has_foreground(&self, now: Instant) -> bool {
        self.foreground_waiting > 0 || now < self.foreground_until
    }

    /// When to look again whether the background's share is paid for; `None`: it is, or nobody else wants anything.
    fn background_waits_until(&self, now: Instant) -> Option<Instant> {
        let has_to_wait = self.has_foreground(now) && now < self.background_paid_at;
        let foreground_ends = self.foreground_until.max(now + FOREGROUND_STAYS);
        has_to_wait.then(|| self.background_paid_at.min(foreground_ends))
    }

    fn charge(&mut self, class: Class, bytes: u64, now: Instant) {
        let time = self.time_for(bytes);
        self.paid_at = self.paid_at.max(now) + time;
        match class {
            Class::Foreground => self.foreground_until = self.paid_at + FOREGROUND_STAYS,
            Class::Background => {
                // Alone it owes nobody; and what it did not use while it waited for its turn is not lost to it.
                let time = if self.has_foreground(now) { of_share(time) } else { time };
                let earliest = now.checked_sub(FOREGROUND_STAYS).unwrap_or(now);
                self.background_paid_at = self.background_paid_at.max(earliest) + time;
            }
        }
    }
}

/// How long the background takes for what takes `time` alone.
fn of_share(time: Duration) -> Duration {
    (time.min(LONGEST_DEBT) * 100 / BACKGROUND_PERCENT).min(LONGEST_DEBT)
}

/// Lets through so many bytes a second. What has been moved is paid for with time; who comes next waits until it is, in the
/// order of coming, the background behind its share. So callers that move pieces of the same size, one at a time, get the same.
pub struct Rate {
    account: Mutex<Account>,
    queue: tokio::sync::Mutex<()>,
    background_queue: tokio::sync::Mutex<()>,
}

impl Rate {
    /// From now on so many bytes a second, by tokio's clock.
    pub fn new(bytes_per_second: NonZeroU64) -> Self {
        let account = Mutex::new(Account::new(bytes_per_second, Instant::now()));
        Self { account, queue: tokio::sync::Mutex::default(), background_queue: tokio::sync::Mutex::default() }
    }

    /// Waits for its turn, and takes so many bytes of it. Who stops waiting takes nothing.
    pub async fn pay(&self, class: Class, bytes: u64) {
        let _waiting = (class == Class::Foreground).then(|| Waiting::new(self));
        let _own_turn = match class {
            Class::Foreground => None,
            Class::Background => Some(self.background_queue.lock().await),
        };
        while class == Class::Background
            && let Some(until) = { self.account.lock().background_waits_until(Instant::now()) }
        {
            sleep_until(until).await;
        }
        let _turn = self.queue.lock().await;
        let paid_at = self.account.lock().paid_at;
        // A timer takes up to a millisecond even where nothing is owed.
        if paid_at > Instant::now() {
            sleep_until(paid_at).await;
        }
        self.charge(class, bytes);
    }

    /// More came than was paid for: who comes next waits for it.
    pub fn charge(&self, class: Class, bytes: u64) {
        self.account.lock().charge(class, bytes, Instant::now());
    }

    /// How long so many bytes take.
    pub fn time_for(&self, bytes: u64) -> Duration {
        self.account.lock().time_for(bytes)
    }

    /// About how long a piece that comes now takes to get through.
    pub fn delay(&self, class: Class, bytes: u64) -> Duration {
        let (account, now) = (*self.account.lock(), Instant::now());
        let (paid_at, time) = match class {
            Class::Background if account.has_foreground(now) => {
                (account.paid_at.max(account.background_paid_at), of_share(account.time_for(bytes)))
            }
            _ => (account.paid_at, account.time_for(bytes)),
        };
        paid_at.saturating_duration_since(now) + time
    }
}

/// Counts a caller of the foreground as waiting, until it is dropped.
struct Waiting<'a>(&'a Rate);

impl<'a> Waiting<'a> {
    fn new(rate: &'a Rate) -> Self {
        rate.account.lock().foreground_waiting += 1;
        Self(rate)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.account.lock().foreground_waiting -= 1;
    }
}

#[cfg(test)]
#[path = "rate_tests.rs"]
mod tests;
