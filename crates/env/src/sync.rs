//! Locks, condition variables and channels for threads that may take turns ([`crate::turns`]). Elsewhere they are `parking_lot`'s and
//! the standard library's: what is not contended costs the same.

use crate::turns::{self, Until};
use parking_lot::{RwLockReadGuard, RwLockWriteGuard};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

pub use parking_lot::MutexGuard;

/// A mutex.
#[derive(Default)]
pub struct Mutex<T: ?Sized>(parking_lot::Mutex<T>);

impl<T> Mutex<T> {
    /// Unlocked.
    pub const fn new(value: T) -> Self {
        Self(parking_lot::Mutex::new(value))
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Waits until nobody else has it.
    #[inline]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.try_lock().unwrap_or_else(|| wait_for(|| self.0.try_lock()).unwrap_or_else(|| self.0.lock()))
    }

    /// Unless somebody has it.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        self.0.try_lock()
    }

    /// Nobody else can have it.
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut()
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A lock that many may have for reading.
#[derive(Debug, Default)]
pub struct RwLock<T: ?Sized>(parking_lot::RwLock<T>);

impl<T> RwLock<T> {
    /// Unlocked.
    pub const fn new(value: T) -> Self {
        Self(parking_lot::RwLock::new(value))
    }
}

impl<T: ?Sized> RwLock<T> {
    /// Waits until nobody writes.
    #[inline]
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        self.0.try_read().unwrap_or_else(|| wait_for(|| self.0.try_read()).unwrap_or_else(|| self.0.read()))
    }

    /// Waits until nobody else has it.
    #[inline]
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        self.0.try_write().unwrap_or_else(|| wait_for(|| self.0.try_write()).unwrap_or_else(|| self.0.write()))
    }
}

/// Takes turns until `take` succeeds. `None`: this thread takes no turns.
#[cold]
fn wait_for<T>(take: impl Fn() -> Option<T>) -> Option<T> {
    let turns = turns::current()?;
    let mut until = Until::Change(None);
    loop {
        turns.pass(until);
        if let Some(taken) = take() {
            return Some(taken);
        }
        until = Until::Still(None);
    }
}

/// A condition variable.
#[derive(Debug, Default)]
pub struct Condvar {
    real: parking_lot::Condvar,
    /// How often somebody was notified.
    notified: AtomicU64,
}

impl Condvar {
    /// Nobody waits.
    #[must_use]
    pub const fn new() -> Self {
        Self { real: parking_lot::Condvar::new(), notified: AtomicU64::new(0) }
    }

    /// Wakes one of those who wait, maybe more.
    pub fn notify_one(&self) {
        self.notified.fetch_add(1, Ordering::Relaxed);
        self.real.notify_one();
    }

    /// Wakes all who wait.
    pub fn notify_all(&self) {
        self.notified.fetch_add(1, Ordering::Relaxed);
        self.real.notify_all();
    }

    /// Waits until notified, or for no reason.
    pub fn wait<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>) {
        if !self.take_turns(guard, None) {
            self.real.wait(guard);
        }
    }

    /// Waits until notified, for no reason, or for `at_most`.
    pub fn wait_for<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>, at_most: Duration, now: impl FnOnce() -> Instant) {
        if turns::current().is_none() {
            self.real.wait_for(guard, at_most);
        } else {
            self.take_turns(guard, Some(now() + at_most));
        }
    }

    fn take_turns<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>, end: Option<Instant>) -> bool {
        let Some(turns) = turns::current() else { return false };
        let before = self.notified.load(Ordering::Relaxed);
        let mutex = MutexGuard::mutex(guard);
        MutexGuard::unlocked(guard, || {
            let mut until = Until::Change(end);
            loop {
                turns.pass(until);
                // With an end it may wake for no reason, which is what condition variables do.
                let is_over = end.is_some() || self.notified.load(Ordering::Relaxed) != before;
                if is_over && !mutex.is_locked() {
                    break;
                }
                until = Until::Still(end);
            }
        });
        true
    }
}

/// The receiving end of a channel.
#[derive(Debug)]
pub struct Receiver<T>(mpsc::Receiver<T>);

pub use std::sync::mpsc::Sender;

/// An unbounded channel.
#[must_use]
pub fn channel<T>() -> (Sender<T>, Receiver<T>) {
    let (sender, receiver) = mpsc::channel();
    (sender, Receiver(receiver))
}

impl<T> Receiver<T> {
    /// Waits for the next; `None`: there will be none.
    pub fn recv(&self) -> Option<T> {
        let Some(turns) = turns::current() else { return self.0.recv().ok() };
        let mut until = Until::Change(None);
        loop {
            match self.0.try_recv() {
                Ok(next) => return Some(next),
                Err(mpsc::TryRecvError::Disconnected) => return None,
                Err(mpsc::TryRecvError::Empty) => turns.pass(std::mem::replace(&mut until, Until::Still(None))),
            }
        }
    }

    /// Those that are there.
    pub fn try_iter(&self) -> impl Iterator<Item = T> + '_ {
        self.0.try_iter()
    }
}
