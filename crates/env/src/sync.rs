//! Locks, condition variables and channels for threads that may take turns ([`crate::turns`]). Elsewhere they are `parking_lot`'s and
//! the standard library's: what is not contended costs the same. Each is a step ([`crate::steps`]).

use crate::Clock;
use crate::steps;
use crate::turns::{self, Until};
use parking_lot::{RwLockReadGuard, RwLockWriteGuard};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
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
        steps::step();
        self.0.try_lock().unwrap_or_else(|| wait_for(|| self.0.try_lock()).unwrap_or_else(|| self.0.lock()))
    }

    /// Unless somebody has it.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        steps::step();
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
        steps::step();
        self.0.try_read().unwrap_or_else(|| wait_for(|| self.0.try_read()).unwrap_or_else(|| self.0.read()))
    }

    /// Waits until nobody else has it.
    #[inline]
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        steps::step();
        self.0.try_write().unwrap_or_else(|| wait_for(|| self.0.try_write()).unwrap_or_else(|| self.0.write()))
    }
}

/// Takes turns until `take` succeeds. `None`: this thread takes no turns.
#[cold]
fn wait_for<T>(take: impl Fn() -> Option<T>) -> Option<T> {
    let turns = turns::current()?;
    let mut until = Until::Change;
    loop {
        turns.pass(until);
        if let Some(taken) = take() {
            return Some(taken);
        }
        until = Until::Still;
    }
}

/// Fibres that wait, each by a flag of its own.
#[derive(Debug, Default)]
struct Waiters(parking_lot::Mutex<Vec<Arc<AtomicBool>>>);

impl Waiters {
    const fn new() -> Self {
        Self(parking_lot::Mutex::new(Vec::new()))
    }

    /// They may go on.
    fn wake(&self) {
        if turns::are_taken() {
            std::mem::take(&mut *self.0.lock()).iter().for_each(|flag| flag.store(true, Ordering::Relaxed));
        }
    }

    /// What a fibre that joins them waits for.
    fn join(&self, end: Option<Instant>) -> Until {
        let flag = Arc::<AtomicBool>::default();
        self.0.lock().push(flag.clone());
        match end {
            Some(end) => Until::FlagOrMoment(flag, end),
            None => Until::Flag(flag),
        }
    }
}

/// A condition variable.
#[derive(Debug, Default)]
pub struct Condvar {
    real: parking_lot::Condvar,
    waiters: Waiters,
}

impl Condvar {
    /// Nobody waits.
    #[must_use]
    pub const fn new() -> Self {
        Self { real: parking_lot::Condvar::new(), waiters: Waiters::new() }
    }

    /// Wakes one of those who wait, maybe more.
    pub fn notify_one(&self) {
        self.waiters.wake();
        self.real.notify_one();
    }

    /// Wakes all who wait.
    pub fn notify_all(&self) {
        self.waiters.wake();
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
        if turns::are_taken() {
            self.take_turns(guard, Some(now() + at_most));
        } else {
            self.real.wait_for(guard, at_most);
        }
    }

    fn take_turns<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>, end: Option<Instant>) -> bool {
        let Some(turns) = turns::current() else { return false };
        let until = self.waiters.join(end);
        let mutex = MutexGuard::mutex(guard);
        MutexGuard::unlocked(guard, || {
            turns.pass(until);
            while mutex.is_locked() {
                turns.pass(Until::Still);
            }
        });
        true
    }
}

/// The receiving end of a channel.
#[derive(Debug)]
pub struct Receiver<T> {
    real: mpsc::Receiver<T>,
    waiters: Arc<Waiters>,
}

/// The sending end of a channel.
#[derive(Debug)]
pub struct Sender<T> {
    real: Option<mpsc::Sender<T>>,
    waiters: Arc<Waiters>,
}

pub use std::sync::mpsc::{RecvTimeoutError, SendError};

/// An unbounded channel.
#[must_use]
pub fn channel<T>() -> (Sender<T>, Receiver<T>) {
    let (sender, receiver) = mpsc::channel();
    let waiters = Arc::<Waiters>::default();
    (Sender { real: Some(sender), waiters: waiters.clone() }, Receiver { real: receiver, waiters })
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        Self { real: self.real.clone(), waiters: self.waiters.clone() }
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        // The last one that goes is news for who waits.
        self.real = None;
        self.waiters.wake();
    }
}

impl<T> Sender<T> {
    /// Sends.
    ///
    /// # Errors
    /// Nobody receives any more.
    pub fn send(&self, value: T) -> Result<(), SendError<T>> {
        let Some(real) = &self.real else { return Err(SendError(value)) };
        real.send(value)?;
        self.waiters.wake();
        Ok(())
    }
}

impl<T> Receiver<T> {
    /// Waits for the next; `None`: there will be none.
    pub fn recv(&self) -> Option<T> {
        steps::step();
        let Some(turns) = turns::current() else { return self.real.recv().ok() };
        loop {
            match self.real.try_recv() {
                Ok(next) => return Some(next),
                Err(mpsc::TryRecvError::Disconnected) => return None,
                Err(mpsc::TryRecvError::Empty) => turns.pass(self.waiters.join(None)),
            }
        }
    }

    /// Waits for the next, `at_most` so long by `clock`.
    ///
    /// # Errors
    /// None came in that time, or there will be none.
    pub fn recv_for(&self, at_most: Duration, clock: &dyn Clock) -> Result<T, RecvTimeoutError> {
        let Some(turns) = turns::current() else { return self.real.recv_timeout(at_most) };
        let end = clock.now() + at_most;
        loop {
            match self.real.try_recv() {
                Ok(next) => return Ok(next),
                Err(mpsc::TryRecvError::Disconnected) => return Err(RecvTimeoutError::Disconnected),
                Err(mpsc::TryRecvError::Empty) if clock.now() >= end => return Err(RecvTimeoutError::Timeout),
                Err(mpsc::TryRecvError::Empty) => turns.pass(self.waiters.join(Some(end))),
            }
        }
    }

    /// Those that are there.
    pub fn try_iter(&self) -> impl Iterator<Item = T> + '_ {
        self.real.try_iter()
    }
}
