//! The cost of planning, counted instead of timed. Every loop of a planner reports what it visited. A unit is a symbol
//! named, an element of a row or matrix over bytes, or a word of 64 elements over bits. What programs do to data does
//! not count.
//!
//! The count belongs to the thread, so nothing is passed along and no other planning is counted. Without the standard
//! library nothing is counted, because threads cannot be told apart.

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

/// Operations that this thread has spent so far. Only the difference of two such values means anything.
#[cfg(feature = "std")]
pub(crate) fn spent() -> u64 {
    SPENT.with(core::cell::Cell::get)
}
