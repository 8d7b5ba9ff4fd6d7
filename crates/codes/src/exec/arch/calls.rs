//! Which kernels to call with which symbols, given where symbols lie in memory.
//!
//! Looking up thousands of symbols, and how far each run over them reaches, takes as long as adding them, and evicts
//! them from L1. So this is done once for the layout of the given pieces, and kept until the program runs over another
//! layout.

use super::{Isa, Kernel, Step, Steps, portable};
use alloc::vec::Vec;
use core::ptr;

/// Symbols at equal distances in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Extent {
    pub(super) symbol_count: usize,
    /// From the start of one to the start of the next.
    pub(super) pitch_bytes: usize,
    /// Is the distance of two symbols one slice, so that several are one pass?
    pub(super) is_close: bool,
}

/// A symbol: an offset from the start of a piece of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Name {
    pub(super) piece: u32,
    pub(super) offset_bytes: u32,
}

/// The addresses that names stand for while a program runs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Places {
    /// Where pieces begin: exposed addresses.
    pub(super) starts: *const usize,
    /// Room for as many pointers as the largest step has symbols.
    #[cfg_attr(
        not(any(all(target_arch = "x86_64", target_feature = "sse2"), target_arch = "aarch64")),
        allow(dead_code)
    )]
    pub(super) room: *mut *mut u8,
}

/// The symbols of a step: its sources, then its targets. Kernels of few symbols find their addresses in registers when
/// they need them, which makes short calls cheap.
#[derive(Clone, Copy, Debug)]
pub(super) struct Symbols<'a> {
    pub(super) names: *const Name,
    pub(super) places: &'a Places,
}

impl Symbols<'_> {
    /// Where the symbol of this number begins.
    ///
    /// # Safety
    /// There is a name for it, and a piece for the name.
    #[inline(always)]
    pub(super) unsafe fn at(self, index: usize) -> *mut u8 {
        // SAFETY: as the caller says.
        unsafe {
            let Name { piece, offset_bytes } = *self.names.add(index);
            ptr::with_exposed_provenance_mut(*self.places.starts.add(piece as usize) + offset_bytes as usize)
        }
    }

    /// Where the first `count` symbols begin.
    ///
    /// # Safety
    /// As [`Symbols::at`] says, of each; there is room for `count`.
    #[cfg_attr(
        not(any(all(target_arch = "x86_64", target_feature = "sse2"), target_arch = "aarch64")),
        allow(dead_code)
    )]
    #[inline(always)]
    pub(super) unsafe fn first(self, count: usize) -> *const *mut u8 {
        for index in 0..count {
            // SAFETY: as the caller says.
            unsafe { *self.places.room.add(index) = self.at(index) };
        }
        self.places.room
    }
}

/// How many bytes a call computes, and how its targets are stored.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    /// A slice of temporaries only, whole even where that of other symbols is not.
    Internal,
    /// A slice.
    Plain,
    /// A slice; no step reads the targets.
    Final,
}

/// A call of a kernel for some repetitions of a step, over consecutive symbols.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call {
    pub(super) kernel: Kernel,
    pub(super) step: u32,
    pub(super) repeat_count: u32,
    pub(super) name_count: u32,
    pub(super) kind: Kind,
}

/// The calls of a program.
#[derive(Debug)]
pub(super) struct Calls {
    /// The layout that they are made for.
    pub(super) isa: &'static Isa,
    extents: Vec<Extent>,
    pub(super) calls: Vec<Call>,
    /// The names of each call, call by call.
    pub(super) names: Vec<Name>,
}

impl Default for Calls {
    fn default() -> Calls {
        let (extents, calls, names) = Default::default();
        Calls { isa: portable(), extents, calls, names }
    }
}

impl Calls {
    /// Makes the calls of these steps for pieces of these extents, unless they are made already.
    pub(super) fn make(&mut self, isa: &'static Isa, steps: &Steps, extents: &[Extent]) {
        if ptr::eq(isa, self.isa) && *extents == self.extents {
            return;
        }
        self.isa = isa;
        self.extents.clear();
        self.extents.extend(extents);
        self.calls.clear();
        self.names.clear();
        let next_id = |next: &mut usize, extent: &Extent| Some(core::mem::replace(next, *next + extent.symbol_count));
        let first_ids: Vec<usize> = extents.iter().scan(0, next_id).collect();
        for (index, step) in steps.steps.iter().enumerate() {
            let mut repeat = 0;
            while repeat < step.repeat_count {
                let first_name = self.names.len();
                let mut repeat_count = step.repeat_count - repeat;
                for id in step.ids().map(|id| id + repeat as usize) {
                    let piece = first_ids.partition_point(|&first| first <= id) - 1;
                    let index = id - first_ids[piece];
                    let Extent { symbol_count, pitch_bytes, is_close } = extents[piece];
                    let reach = if is_close { symbol_count - index } else { 1 };
                    if !step.is_internal {
                        repeat_count = repeat_count.min(reach as u32);
                    }
                    let offset_bytes = u32::try_from(index * pitch_bytes).expect("pieces are no longer");
                    self.names.push(Name { piece: piece as u32, offset_bytes });
                }
                let kind = match step {
                    Step { is_internal: true, .. } => Kind::Internal,
                    Step { is_final: true, .. } => Kind::Final,
                    _ => Kind::Plain,
                };
                let name_count = (self.names.len() - first_name) as u32;
                self.calls.push(Call { kernel: isa.kernel(step), step: index as u32, repeat_count, name_count, kind });
                repeat += repeat_count;
            }
        }
    }
}
