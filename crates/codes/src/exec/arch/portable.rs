//! Plain Rust for every machine, and the oracle of the other kernels: one table look-up per byte.

use super::{Isa, Kernel, Kernels, MOST_SUMMANDS, MOST_TARGETS, Step, Stores};
use crate::gf::MUL;
use std::slice;

pub(super) const ISA: Isa = isa("portable", kernel);

/// Errs in the last byte of broken vectors only.
#[cfg(test)]
pub(super) const ERRING_ISA: Isa = isa("erring", erring_kernel);

const fn isa(name: &'static str, kernel: Kernel) -> Isa {
    let kernels = Kernels { sums: [kernel; MOST_SUMMANDS + 1], combinations: [[kernel; 2]; MOST_TARGETS] };
    Isa { name, is_available: || true, least_bytes: 0, kernels, fence: || () }
}

/// # Safety
/// As [`super::Kernel`] says.
unsafe fn kernel(step: &Step, symbols: *const *mut u8, bytes: usize, _: Stores) {
    // SAFETY: ids are in range.
    let start = |id: u32| unsafe { *symbols.add(id as usize) };
    for (row, &target) in step.targets.iter().enumerate() {
        // SAFETY: a target is valid for writing, and overlaps no source.
        let target = unsafe { slice::from_raw_parts_mut(start(target), bytes) };
        target.fill(0);
        for (column, &source) in step.sources.iter().enumerate() {
            // SAFETY: a source is valid for reading.
            let source = unsafe { slice::from_raw_parts(start(source), bytes) };
            let coefficient = match step.is_sum() {
                true => 1,
                false => step.coefficients[column * step.targets.len() + row],
            };
            if coefficient == 1 {
                target.iter_mut().zip(source).for_each(|(t, s)| *t ^= s);
            } else {
                let products = &MUL[coefficient as usize];
                target.iter_mut().zip(source).for_each(|(t, s)| *t ^= products[*s as usize]);
            }
        }
    }
}

/// # Safety
/// As [`super::Kernel`] says.
#[cfg(test)]
unsafe fn erring_kernel(step: &Step, symbols: *const *mut u8, bytes: usize, stores: Stores) {
    // SAFETY: the caller's promises are passed on; a broken vector has a last byte.
    unsafe {
        kernel(step, symbols, bytes, stores);
        if !bytes.is_multiple_of(32) {
            *(*symbols.add(step.targets[0] as usize)).add(bytes - 1) ^= 1;
        }
    }
}
