//! Threads that take turns: all of a simulation's "threads" are fibres of one real thread, of which one runs at a time.
//!
//! A fibre must never block the real thread, since no other fibre could run then. So whatever waits (a lock, a condition variable, a
//! channel, a task) asks here first whether its thread takes turns, and passes the turn instead of blocking.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

/// What a fibre waits for.
#[derive(Clone, Debug)]
pub enum Until {
    /// Nothing: any other may run first.
    Now,
    /// Another fibre did something, which may be what this one waits for.
    Change,
    /// The same, by a fibre that looked again in vain and did nothing else.
    Still,
    /// The flag is set.
    Flag(Arc<AtomicBool>),
    /// The flag is set, or this moment has come.
    FlagOrMoment(Arc<AtomicBool>, Instant),
    /// This moment has come.
    Moment(Instant),
}

/// Who decides which fibre runs next.
pub trait Turns {
    /// Suspends the calling fibre.
    fn pass(&self, until: Until);
}

thread_local! {
    static TURNS: RefCell<Option<Rc<dyn Turns>>> = const { RefCell::new(None) };
}

/// The calling thread takes turns from now on, or no longer.
pub fn set(turns: Option<Rc<dyn Turns>>) {
    TURNS.with(|own| *own.borrow_mut() = turns);
}

/// Who decides, if the calling thread takes turns.
#[must_use]
pub fn current() -> Option<Rc<dyn Turns>> {
    TURNS.with(|turns| turns.borrow().clone())
}

/// Does the calling thread take turns?
#[must_use]
pub fn are_taken() -> bool {
    // A thread that ends may have lost it before it drops what asks here.
    TURNS.try_with(|turns| turns.borrow().is_some()).unwrap_or(false)
}

/// Another fibre may run here, where threads take turns.
pub fn pass() {
    if let Some(turns) = current() {
        turns.pass(Until::Now);
    }
}
