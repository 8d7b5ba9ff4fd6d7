//! Memory that a run needs beside the given symbols, kept from run to run so that none allocates.

use super::LINE_BYTES;
use super::calls::{Calls, Extent};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ptr;
use core::sync::atomic::{AtomicPtr, Ordering};

/// A cache line. Only its alignment matters.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Line(#[allow(dead_code)] [u8; LINE_BYTES]);

/// Memory for one run at a time.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    /// Where pieces begin: exposed addresses. Together they hold all symbols, in the order of their ids.
    pub(super) starts: Vec<usize>,
    /// The symbols in each piece.
    pub(super) extents: Vec<Extent>,
    /// How many of the pieces hold inputs and outputs; temporaries follow.
    pub(super) given_piece_count: usize,
    pub(super) calls: Calls,
    /// Room for the pointers of a call.
    pub(super) room: Vec<*mut u8>,
    temporaries: Vec<Line>,
}

impl Scratch {
    /// Places symbols of `symbol_bytes` in memory that is given by starts and lengths; after them `temporary_count`
    /// temporaries of a slice each.
    pub(super) fn place(
        &mut self,
        given: impl Iterator<Item = (usize, usize)>,
        symbol_bytes: usize,
        temporary_count: usize,
        slice_bytes: usize,
    ) {
        self.starts.clear();
        self.extents.clear();
        let most_count = most_symbols(symbol_bytes);
        let mut end = None;
        for (start, bytes) in given {
            let symbol_count = if bytes == symbol_bytes { 1 } else { bytes / symbol_bytes };
            let symbols = Extent { symbol_count, pitch_bytes: symbol_bytes, is_close: slice_bytes >= symbol_bytes };
            self.add(start, symbols, most_count, end == Some(start));
            end = Some(start + bytes);
        }
        self.given_piece_count = self.starts.len();
        let lines = (temporary_count * slice_bytes).div_ceil(LINE_BYTES);
        if self.temporaries.len() < lines {
            self.temporaries.resize(lines, Line([0; LINE_BYTES]));
        }
        let start = self.temporaries.as_mut_ptr().cast::<u8>().expose_provenance();
        let is_close = slice_bytes == symbol_bytes;
        let symbols = Extent { symbol_count: temporary_count, pitch_bytes: slice_bytes, is_close };
        self.add(start, symbols, most_symbols(slice_bytes), false);
    }

    /// Adds symbols that begin at this address, in pieces of limited size: to the last piece, if they follow it.
    fn add(&mut self, mut start: usize, symbols: Extent, most_count: usize, follow: bool) {
        let mut left_count = symbols.symbol_count;
        if let Some(last) = self.extents.last_mut().filter(|_| follow) {
            let added = left_count.min(most_count - last.symbol_count);
            last.symbol_count += added;
            left_count -= added;
            start += added * symbols.pitch_bytes;
        }
        while left_count > 0 {
            let symbol_count = left_count.min(most_count);
            self.starts.push(start);
            self.extents.push(Extent { symbol_count, ..symbols });
            left_count -= symbol_count;
            start += symbol_count * symbols.pitch_bytes;
        }
    }
}

/// The most symbols of a piece, so that a name can tell each.
fn most_symbols(pitch_bytes: usize) -> usize {
    (u32::MAX as usize / pitch_bytes).max(1)
}

/// The number of simultaneous runs of one program that keep their scratch; further ones allocate.
const SLOT_COUNT: usize = 32;

/// Scratch of runs that have ended.
#[derive(Debug, Default)]
pub(super) struct Pool {
    slots: [AtomicPtr<Scratch>; SLOT_COUNT],
}

impl Pool {
    /// Scratch that nobody else uses.
    pub(super) fn take(&self) -> Box<Scratch> {
        for slot in &self.slots {
            if slot.load(Ordering::Relaxed).is_null() {
                continue;
            }
            let taken = slot.swap(ptr::null_mut(), Ordering::Acquire);
            if !taken.is_null() {
                // SAFETY: slots hold only what `put` made of a box, and the swap gave it to us alone.
                return unsafe { Box::from_raw(taken) };
            }
        }
        Box::default()
    }

    /// Returns scratch for later runs.
    pub(super) fn put(&self, scratch: Box<Scratch>) {
        let given = Box::into_raw(scratch);
        for slot in &self.slots {
            if slot.compare_exchange(ptr::null_mut(), given, Ordering::Release, Ordering::Relaxed).is_ok() {
                return;
            }
        }
        // SAFETY: no slot took it, so it is still ours.
        drop(unsafe { Box::from_raw(given) });
    }
}

/// A copy of a program starts without scratch.
impl Clone for Pool {
    fn clone(&self) -> Pool {
        Pool::default()
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        for slot in &mut self.slots {
            let kept = *slot.get_mut();
            if !kept.is_null() {
                // SAFETY: slots hold only what `put` made of a box, and nobody else has the pool.
                drop(unsafe { Box::from_raw(kept) });
            }
        }
    }
}

#[cfg(test)]
#[path = "scratch_tests.rs"]
mod tests;
