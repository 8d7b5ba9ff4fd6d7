//! Plain Rust for every machine, and the oracle of the other kernels: one table look-up per byte.

use super::{Form, Isa, Kernel, Kernels, MOST_POINTS, MOST_SUMMANDS, MOST_TARGETS, NETWORK_SIZES, Step, Stores};
use crate::gf::{MUL, mul};
use core::slice;

pub(super) const ISA: Isa = isa("portable", kernel);

/// Errs in the last byte of broken vectors only.
#[cfg(test)]
pub(super) const ERRING_ISA: Isa = isa("erring", erring_kernel);

const fn isa(name: &'static str, kernel: Kernel) -> Isa {
    let kernels = Kernels {
        sums: [kernel; MOST_SUMMANDS + 1],
        combinations: [[kernel; 2]; MOST_TARGETS],
        butterflies: [[[kernel; 2]; 2]; NETWORK_SIZES],
    };
    Isa { name, is_available: || true, least_bytes: 0, kernels, fence: || () }
}

/// # Safety
/// As [`super::Kernel`] says.
unsafe fn kernel(step: &Step, symbols: *const *mut u8, bytes: usize, _: Stores) {
    if let Form::Butterflies { is_inverse, .. } = step.form {
        // SAFETY: the caller's promises are passed on.
        return unsafe { butterflies(step, is_inverse, symbols, bytes) };
    }
    // SAFETY: there is a pointer for each source, then for each target.
    let start = |index: usize| unsafe { *symbols.add(index) };
    for row in 0..step.targets.len() {
        // SAFETY: a target is valid for writing, and overlaps no source.
        let target = unsafe { slice::from_raw_parts_mut(start(step.sources.len() + row), bytes) };
        target.fill(0);
        for column in 0..step.sources.len() {
            // SAFETY: a source is valid for reading.
            let source = unsafe { slice::from_raw_parts(start(column), bytes) };
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
/// As [`super::Kernel`] says; the step is a network.
unsafe fn butterflies(step: &Step, is_inverse: bool, symbols: *const *mut u8, bytes: usize) {
    let points = step.targets.len();
    let (factors, scales) = step.coefficients.split_at(points - 1);
    let levels = points.ilog2();
    let scale =
        |values: &mut [u8]| values.iter_mut().zip(scales).for_each(|(value, &scale)| *value = mul(*value, scale));
    for at in 0..bytes {
        let mut values = [0; MOST_POINTS];
        let values = &mut values[..points];
        for (point, value) in values.iter_mut().enumerate() {
            // SAFETY: there is a pointer for each source, valid for `bytes` bytes.
            *value = unsafe { *(*symbols.add(point)).add(at) };
        }
        if is_inverse {
            scale(values);
        }
        for level in 0..levels {
            let half = if is_inverse { 1 << level } else { points >> (level + 1) };
            let block_count = points / (2 * half);
            for (block, values) in values.chunks_exact_mut(2 * half).enumerate() {
                let factor = factors[block_count - 1 + block];
                let (a, b) = values.split_at_mut(half);
                for (a, b) in a.iter_mut().zip(b) {
                    if is_inverse {
                        *b ^= *a;
                        *a ^= mul(*b, factor);
                    } else {
                        *a ^= mul(*b, factor);
                        *b ^= *a;
                    }
                }
            }
        }
        if !is_inverse {
            scale(values);
        }
        for (point, value) in values.iter().enumerate() {
            // SAFETY: there is a pointer for each target after as many sources, valid for writing `bytes` bytes.
            unsafe { *(*symbols.add(points + point)).add(at) = *value };
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
            *(*symbols.add(step.sources.len())).add(bytes - 1) ^= 1;
        }
    }
}
