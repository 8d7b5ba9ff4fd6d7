//! What a run needs beside the symbols given, kept from run to run so that none allocates.

use super::LINE_BYTES;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ptr;
use core::sync::atomic::{AtomicPtr, Ordering};

/// A cache line, of which only the place matters here.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Line(#[allow(dead_code)] [u8; LINE_BYTES]);

/// Room for one run at a time.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    /// A pointer per symbol.
    pub(super) symbols: Vec<*mut u8>,
    /// Those that a step names.
    pub(super) named: Vec<*mut u8>,
    /// For each symbol the number of the piece of memory that it lies in, ascending; symbols in one lie one after the other.
    /// Temporaries longer or shorter than symbols have none.
    pub(super) piece_numbers: Vec<u32>,
    temporaries: Vec<Line>,
}

impl Scratch {
    /// Points `symbols` to those of so many bytes that these pieces hold, each given by its start and length.
    pub(super) fn point_to(&mut self, pieces: impl Iterator<Item = (usize, usize)>, symbol_bytes: usize) {
        self.symbols.clear();
        self.piece_numbers.clear();
        let (mut number, mut end) = (0, 0);
        pieces.for_each(|(start, bytes)| {
            number += u32::from(start != end);
            end = start + bytes;
            if bytes == symbol_bytes {
                self.symbols.push(ptr::with_exposed_provenance_mut(start));
                self.piece_numbers.push(number);
            } else {
                let count = bytes / symbol_bytes;
                let start_of = |index: usize| ptr::with_exposed_provenance_mut(start + index * symbol_bytes);
                self.symbols.extend((0..count).map(start_of));
                self.piece_numbers.resize(self.piece_numbers.len() + count, number);
            }
        });
    }

    /// Adds temporaries of so many bytes, one after the other.
    pub(super) fn add_temporaries(&mut self, temporary_count: usize, slice_bytes: usize, symbol_bytes: usize) {
        let lines = (temporary_count * slice_bytes).div_ceil(LINE_BYTES);
        if self.temporaries.len() < lines {
            self.temporaries.resize(lines, Line([0; LINE_BYTES]));
        }
        let first = self.temporaries.as_mut_ptr().cast::<u8>().expose_provenance();
        let starts = (0..temporary_count).map(|temporary| first + temporary * slice_bytes);
        self.symbols.extend(starts.map(ptr::with_exposed_provenance_mut::<u8>));
        if slice_bytes == symbol_bytes {
            let next = self.piece_numbers.last().map_or(0, |last| last + 1);
            self.piece_numbers.resize(self.symbols.len(), next);
        }
    }
}

/// Runs of one program at the same time that keep their scratch; further ones allocate.
const SLOT_COUNT: usize = 32;

/// Scratch of runs that are over.
#[derive(Debug, Default)]
pub(super) struct Pool {
    slots: [AtomicPtr<Scratch>; SLOT_COUNT],
}

impl Pool {
    /// Scratch that nobody else has.
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

    /// Gives scratch back.
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

/// A copy of a program begins with nothing.
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
