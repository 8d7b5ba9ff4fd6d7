//! Plain Rust for every machine, and the oracle of the other kernels: one table look-up per byte.

use super::{
    First, Form, Isa, Kernel, Kernels, MOST_POINTS, MOST_SUMMANDS, MOST_TARGETS, NETWORK_SIZES, Step, Stores, Symbols,
};
use crate::gf::{MUL, mul};
use core::slice;

pub(super) const ISA: Isa = isa("portable", kernel);

/// Errs only in the last byte of partial vectors.
#[cfg(test)]
pub(super) const ERRING_ISA: Isa = isa("erring", erring_kernel);

const fn isa(name: &'static str, kernel: Kernel) -> Isa {
    let kernels = Kernels {
        sums: [kernel; MOST_SUMMANDS + 1],
        combinations: [[kernel; First::ALL.len()]; MOST_TARGETS],
        pairs: kernel,
        butterflies: [[[kernel; 2]; 2]; NETWORK_SIZES],
        p_and_q: None,
        bit_slices: None,
    };
    Isa { name, is_available: || true, kernels, stores_lines: false, fence: || () }
}

/// # Safety
/// As [`super::Kernel`] says.
unsafe fn kernel(step: &Step, symbols: Symbols<'_>, bytes: usize, _: Stores) {
    if let Form::Butterflies { is_inverse, .. } = step.form {
        // SAFETY: the caller's promises are passed on.
        return unsafe { butterflies(step, is_inverse, symbols, bytes) };
    }
    if step.form == Form::Pairs {
        // SAFETY: the caller's promises are passed on.
        return unsafe { pairs(step, symbols, bytes) };
    }
    let multiplied_count = step.sources.len() - step.addend_count;
    let coefficient = |row: usize, column: usize| match column {
        _ if column >= multiplied_count => u8::from(column - multiplied_count == row),
        _ if step.is_sum() => 1,
        _ => step.coefficients[column * step.targets.len() + row],
    };
    // A block of all targets is computed before any is written, because a target may be a source.
    for at in (0..bytes).step_by(BLOCK_BYTES) {
        let block_bytes = BLOCK_BYTES.min(bytes - at);
        // SAFETY: there is a symbol for each source, then for each target, and they have `bytes` bytes.
        let start = |index: usize| unsafe { symbols.at(index).add(at) };
        let mut sums = [[0; BLOCK_BYTES]; MOST_TARGETS];
        for column in 0..step.sources.len() {
            // SAFETY: a source is valid for reading.
            let source = unsafe { slice::from_raw_parts(start(column).cast_const(), block_bytes) };
            for (row, sum) in sums.iter_mut().enumerate().take(step.targets.len()) {
                match coefficient(row, column) {
                    0 => {}
                    1 => sum.iter_mut().zip(source).for_each(|(t, s)| *t ^= s),
                    coefficient => {
                        let products = &MUL[coefficient as usize];
                        sum.iter_mut().zip(source).for_each(|(t, s)| *t ^= products[*s as usize]);
                    }
                }
            }
        }
        for (row, sum) in sums.iter().enumerate().take(step.targets.len()) {
            // SAFETY: a target is valid for writing.
            unsafe { start(step.sources.len() + row).copy_from_nonoverlapping(sum.as_ptr(), block_bytes) };
        }
    }
}

/// Bytes of each target that are computed together.
const BLOCK_BYTES: usize = 256;

/// # Safety
/// As [`super::Kernel`] says; the step is one of pairs.
unsafe fn pairs(step: &Step, symbols: Symbols<'_>, bytes: usize) {
    let count = step.targets.len();
    for first in (0..count).step_by(2) {
        for at in 0..bytes {
            // SAFETY: there is a symbol for each source, then for each target, valid for `bytes` bytes.
            let byte = |index: usize| unsafe { symbols.at(index).add(at) };
            // SAFETY: as above.
            let (a, b) = unsafe { (*byte(first), *byte(first + 1)) };
            for target in first..first + 2 {
                let (by_a, by_b) = (step.coefficients[2 * target], step.coefficients[2 * target + 1]);
                // SAFETY: as above; targets are valid for writing.
                unsafe { *byte(count + target) = mul(a, by_a) ^ mul(b, by_b) };
            }
        }
    }
}

/// # Safety
/// As [`super::Kernel`] says; the step is a network.
unsafe fn butterflies(step: &Step, is_inverse: bool, symbols: Symbols<'_>, bytes: usize) {
    let points = step.targets.len();
    let (factors, scales) = step.coefficients.split_at(points - 1);
    let levels = points.ilog2();
    let scale =
        |values: &mut [u8]| values.iter_mut().zip(scales).for_each(|(value, &scale)| *value = mul(*value, scale));
    for at in 0..bytes {
        let mut values = [0; MOST_POINTS];
        let values = &mut values[..points];
        for (point, value) in values.iter_mut().enumerate() {
            // SAFETY: there is a symbol for each source, valid for `bytes` bytes.
            *value = unsafe { *symbols.at(point).add(at) };
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
            // SAFETY: there is a symbol for each target after as many sources, valid for writing `bytes` bytes.
            unsafe { *symbols.at(points + point).add(at) = *value };
        }
    }
}

/// # Safety
/// As [`super::Kernel`] says.
#[cfg(test)]
unsafe fn erring_kernel(step: &Step, symbols: Symbols<'_>, bytes: usize, stores: Stores) {
    // SAFETY: the caller's promises are passed on; a broken vector has a last byte.
    unsafe {
        kernel(step, symbols, bytes, stores);
        if !bytes.is_multiple_of(32) {
            *symbols.at(step.sources.len()).add(bytes - 1) ^= 1;
        }
    }
}
