//! Plain Rust for every machine, and the oracle of the other kernels: one table look-up per byte.

use super::{Isa, Step};
use crate::gf::MUL;
use std::slice;

pub(super) const ISA: Isa = Isa { name: "portable", is_available: || true, kernel };

/// # Safety
/// As [`super::Kernel`] says.
unsafe fn kernel(step: &Step, symbols: &[*mut u8], bytes: usize) {
    // SAFETY: the caller's promises are passed on.
    unsafe { kernel_from(step, symbols, 0, bytes) }
}

/// From byte `start` to byte `end`; other kernels leave their rest to it.
///
/// # Safety
/// As [`super::Kernel`] says for `end` bytes.
pub(super) unsafe fn kernel_from(step: &Step, symbols: &[*mut u8], start: usize, end: usize) {
    let bytes = end - start;
    for (row, &target) in step.targets.iter().enumerate() {
        // SAFETY: a target is valid for writing, and overlaps no source.
        let target = unsafe { slice::from_raw_parts_mut(symbols[target as usize].add(start), bytes) };
        target.fill(0);
        for (column, &source) in step.sources.iter().enumerate() {
            // SAFETY: a source is valid for reading.
            let source = unsafe { slice::from_raw_parts(symbols[source as usize].add(start), bytes) };
            let coefficient = step.coefficients[column * step.targets.len() + row];
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
pub(super) unsafe fn erring_kernel(step: &Step, symbols: &[*mut u8], bytes: usize) {
    // SAFETY: the caller's promises are passed on; a broken vector has a last byte.
    unsafe {
        kernel(step, symbols, bytes);
        if !bytes.is_multiple_of(32) {
            *symbols[step.targets[0] as usize].add(bytes - 1) ^= 1;
        }
    }
}
