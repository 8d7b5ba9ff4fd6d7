//! AVX2: a multiplication by a constant is two `vpshufb` per 32 bytes, one for each half of every byte.

use super::{Isa, Step, portable};
use crate::gf::mul;
use std::arch::x86_64::*;

pub(super) const ISA: Isa = Isa { name: "avx2", is_available: || is_x86_feature_detected!("avx2"), kernel };

/// Bytes of a vector.
const VECTOR_BYTES: usize = 32;

/// For each coefficient its products with 0..16, then with 0, 16, .. 240.
static NIBBLES: [[u8; 32]; 256] = nibble_table();

const fn nibble_table() -> [[u8; 32]; 256] {
    let mut table = [[0; 32]; 256];
    let mut coefficient = 0;
    while coefficient < 256 {
        let mut nibble = 0;
        while nibble < 16 {
            table[coefficient][nibble] = mul(coefficient as u8, nibble as u8);
            table[coefficient][16 + nibble] = mul(coefficient as u8, (nibble << 4) as u8);
            nibble += 1;
        }
        coefficient += 1;
    }
    table
}

/// # Safety
/// As [`super::Kernel`] says.
unsafe fn kernel(step: &Step, symbols: &[*mut u8], bytes: usize) {
    let whole_bytes = bytes - bytes % VECTOR_BYTES;
    // Two vectors at a time share the loads of tables; with five and six targets the 16 registers hold but one.
    // SAFETY: the caller's promises are passed on; the rest begins after the whole vectors.
    unsafe {
        match (step.targets.len(), step.first_is_sum) {
            (1, true) => combine::<1, 2, true>(step, symbols, whole_bytes),
            (2, true) => combine::<2, 2, true>(step, symbols, whole_bytes),
            (3, true) => combine::<3, 2, true>(step, symbols, whole_bytes),
            (4, true) => combine::<4, 2, true>(step, symbols, whole_bytes),
            (5, true) => combine::<5, 1, true>(step, symbols, whole_bytes),
            (6, true) => combine::<6, 1, true>(step, symbols, whole_bytes),
            (1, false) => combine::<1, 2, false>(step, symbols, whole_bytes),
            (2, false) => combine::<2, 2, false>(step, symbols, whole_bytes),
            (3, false) => combine::<3, 2, false>(step, symbols, whole_bytes),
            (4, false) => combine::<4, 2, false>(step, symbols, whole_bytes),
            (5, false) => combine::<5, 1, false>(step, symbols, whole_bytes),
            (6, false) => combine::<6, 1, false>(step, symbols, whole_bytes),
            (targets, _) => unreachable!("Step::new admits at most six targets, not {targets}"),
        }
        portable::kernel_from(step, symbols, whole_bytes, bytes);
    }
}

/// # Safety
/// As [`super::Kernel`] says; `bytes` is a multiple of [`VECTOR_BYTES`], the step has `TARGETS` targets, and `SUM` only
/// if the first is the plain sum.
#[target_feature(enable = "avx2")]
unsafe fn combine<const TARGETS: usize, const VECTORS: usize, const SUM: bool>(
    step: &Step,
    symbols: &[*mut u8],
    bytes: usize,
) {
    let mut at = 0;
    // SAFETY: `at + VECTORS * VECTOR_BYTES <= bytes`, and then `at + VECTOR_BYTES <= bytes`.
    unsafe {
        while at + VECTORS * VECTOR_BYTES <= bytes {
            combine_at::<TARGETS, VECTORS, SUM>(step, symbols, at);
            at += VECTORS * VECTOR_BYTES;
        }
        while at < bytes {
            combine_at::<TARGETS, 1, SUM>(step, symbols, at);
            at += VECTOR_BYTES;
        }
    }
}

/// `VECTORS` vectors of all targets, from byte `at`.
///
/// # Safety
/// As [`super::Kernel`] says, for these bytes.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn combine_at<const TARGETS: usize, const VECTORS: usize, const SUM: bool>(
    step: &Step,
    symbols: &[*mut u8],
    at: usize,
) {
    let low_nibble = _mm256_set1_epi8(0x0f);
    let mut sums = [[_mm256_setzero_si256(); VECTORS]; TARGETS];
    for (source, coefficients) in step.sources.iter().zip(step.coefficients.chunks_exact(TARGETS)) {
        // SAFETY: ids are in range, and every source is valid for these bytes.
        let values: [__m256i; VECTORS] = std::array::from_fn(|vector| unsafe {
            let start = symbols.get_unchecked(*source as usize).add(at + vector * VECTOR_BYTES);
            _mm256_loadu_si256(start.cast())
        });
        for (target, sum) in sums.iter_mut().enumerate() {
            if SUM && target == 0 {
                for vector in 0..VECTORS {
                    sum[vector] = _mm256_xor_si256(sum[vector], values[vector]);
                }
                continue;
            }
            let products = NIBBLES[coefficients[target] as usize].as_ptr();
            // SAFETY: a table has 16 products of each half.
            let (of_low, of_high) = unsafe {
                let table = |start: *const u8| _mm256_broadcastsi128_si256(_mm_loadu_si128(start.cast()));
                (table(products), table(products.add(16)))
            };
            for vector in 0..VECTORS {
                let low = _mm256_and_si256(values[vector], low_nibble);
                let high = _mm256_and_si256(_mm256_srli_epi64::<4>(values[vector]), low_nibble);
                let product = _mm256_xor_si256(_mm256_shuffle_epi8(of_low, low), _mm256_shuffle_epi8(of_high, high));
                sum[vector] = _mm256_xor_si256(sum[vector], product);
            }
        }
    }
    for (target, sum) in step.targets.iter().zip(&sums) {
        for (vector, &value) in sum.iter().enumerate() {
            // SAFETY: ids are in range, and every target is valid for these bytes.
            unsafe {
                let start = symbols.get_unchecked(*target as usize).add(at + vector * VECTOR_BYTES);
                _mm256_storeu_si256(start.cast(), value);
            }
        }
    }
}
