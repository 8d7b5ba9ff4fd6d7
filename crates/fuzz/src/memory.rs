//! What memory a thread takes.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static HELD_BYTES: Cell<usize> = const { Cell::new(0) };
    static MOST_BYTES: Cell<usize> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: everything is passed on to the system's allocator.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        HELD_BYTES.set(HELD_BYTES.get().wrapping_add(layout.size()));
        // What another thread took and this one gave back makes it negative.
        if HELD_BYTES.get() <= usize::MAX >> 1 {
            MOST_BYTES.set(MOST_BYTES.get().max(HELD_BYTES.get()));
        }
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        HELD_BYTES.set(HELD_BYTES.get().wrapping_sub(layout.size()));
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(start, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The most that this thread held at once during `work`, beside what it held before.
pub(crate) fn most_bytes_of(work: impl FnOnce()) -> usize {
    HELD_BYTES.set(0);
    MOST_BYTES.set(0);
    work();
    MOST_BYTES.get()
}
