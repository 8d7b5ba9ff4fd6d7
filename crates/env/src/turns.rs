//! Threads that take turns: all of a simulation's "threads" are fibres of one real thread, of which one runs at a time.
//!
//! A fibre must never block the real thread, since no other fibre could run then. So whatever waits (a lock, a condition variable, a
//! channel, a task) asks here first whether its thread takes turns, and passes the turn instead of blocking.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

/// What a fibre waits for.
#[derive(Clone, Debug)]
pub enum Until {
    /// Nothing: any other may run first.
    Now,
    /// Another fibre did something, which may be what this one waits for; or this moment has come.
    Change(Option<Instant>),
    /// The same, by a fibre that looked again in vain and did nothing else.
    Still(Option<Instant>),
    /// The flag is set.
    Flag(Arc<AtomicBool>),
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

thread_local! {
    static PLANTED: Cell<Option<Planted>> = const { Cell::new(None) };
}

/// A bug that only a simulator can switch on, to see that it is found (`weft-sim canaries`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// fsync answers before the bytes are safe.
    EarlyFsync,
    /// A file takes another's name before its own bytes are safe.
    RenameBeforeBytes,
    /// Uploads of one file are committed in any order.
    CommitsOutOfOrder,
    /// What the journal held is not taken over at the next mount.
    JournalNotReplayed,
    /// The journal drops a page that a newer one of the same bytes does not cover.
    JournalDroppedEarly,
    /// fsync puts bytes into the journal and does not wait until that is durable.
    UnflushedFsync,
}

impl Planted {
    /// All of them.
    pub const ALL: [Planted; 6] = [
        Self::EarlyFsync,
        Self::UnflushedFsync,
        Self::RenameBeforeBytes,
        Self::CommitsOutOfOrder,
        Self::JournalNotReplayed,
        Self::JournalDroppedEarly,
    ];
}

/// Has a simulator switched this bug on?
#[must_use]
pub fn has_planted(bug: Planted) -> bool {
    PLANTED.get() == Some(bug)
}

/// Switches a bug on in the calling thread, or all off.
pub fn plant(bug: Option<Planted>) {
    PLANTED.set(bug);
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

/// Another fibre may run here, where threads take turns.
pub fn pass() {
    if let Some(turns) = current() {
        turns.pass(Until::Now);
    }
}
