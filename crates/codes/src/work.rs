//! What planning costs, counted instead of timed: every loop of a planner says what it went over. A unit is a symbol named,
//! an element of a row or matrix over bytes, or a word of 64 elements over bits. What programs do to data does not count.
//!
//! The count is the thread's own, so that nothing is passed along and nobody else's planning is counted; without the
//! standard library there are no threads to tell apart, and nothing is counted.

#[cfg(feature = "std")]
std::thread_local! {
    static SPENT: core::cell::Cell<u64> = const { core::cell::Cell::new(0) };
}

/// Counts operations.
#[inline]
pub(crate) fn spend(operations: usize) {
    #[cfg(feature = "std")]
    SPENT.with(|spent| spent.set(spent.get().wrapping_add(operations as u64)));
    #[cfg(not(feature = "std"))]
    let _ = operations;
}

/// Operations that this thread has spent so far, of no use but to be compared with what it says later.
#[cfg(feature = "std")]
pub(crate) fn spent() -> u64 {
    SPENT.with(core::cell::Cell::get)
}
