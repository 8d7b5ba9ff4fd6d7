//! AVX-512 with GFNI: a multiplication by a constant is one `gf2p8affineqb` per 64 bytes.

use super::{Isa, Step};
use std::arch::x86_64::*;

pub(super) const ISA: Isa = Isa { name: "avx512-gfni", is_available, kernel };

fn is_available() -> bool {
    is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw") && is_x86_feature_detected!("gfni")
}

/// Bytes of a vector.
const VECTOR_BYTES: usize = 64;

/// Truth table of `a ^ b ^ c` for `vpternlog`.
const XOR3: i32 = 0x96;

/// # Safety
/// As [`super::Kernel`] says.
unsafe fn kernel(step: &Step, symbols: &[*mut u8], bytes: usize) {
    // Four vectors at a time amortise the loads of coefficients; five and six targets leave registers for two.
    // SAFETY: the caller's promises are passed on.
    unsafe {
        match (step.targets.len(), step.first_is_sum) {
            (1, true) => combine::<1, 4, true>(step, symbols, bytes),
            (2, true) => combine::<2, 4, true>(step, symbols, bytes),
            (3, true) => combine::<3, 4, true>(step, symbols, bytes),
            (4, true) => combine::<4, 4, true>(step, symbols, bytes),
            (5, true) => combine::<5, 2, true>(step, symbols, bytes),
            (6, true) => combine::<6, 2, true>(step, symbols, bytes),
            (1, false) => combine::<1, 4, false>(step, symbols, bytes),
            (2, false) => combine::<2, 4, false>(step, symbols, bytes),
            (3, false) => combine::<3, 4, false>(step, symbols, bytes),
            (4, false) => combine::<4, 4, false>(step, symbols, bytes),
            (5, false) => combine::<5, 2, false>(step, symbols, bytes),
            (6, false) => combine::<6, 2, false>(step, symbols, bytes),
            (targets, _) => unreachable!("Step::new admits at most six targets, not {targets}"),
        }
    }
}

/// # Safety
/// As [`super::Kernel`] says; the step has `TARGETS` targets, and `SUM` only if the first is the plain sum.
#[target_feature(enable = "avx512f,avx512bw,gfni")]
unsafe fn combine<const TARGETS: usize, const VECTORS: usize, const SUM: bool>(
    step: &Step,
    symbols: &[*mut u8],
    bytes: usize,
) {
    // SAFETY: the step has `TARGETS` targets, and ids are in range.
    let targets: [*mut u8; TARGETS] =
        std::array::from_fn(|target| unsafe { *symbols.get_unchecked(*step.targets.get_unchecked(target) as usize) });
    let mut at = 0;
    // SAFETY: `at + VECTORS * VECTOR_BYTES <= bytes`, `at + VECTOR_BYTES <= bytes`, and the mask covers what is left.
    unsafe {
        while at + VECTORS * VECTOR_BYTES <= bytes {
            combine_at::<TARGETS, VECTORS, SUM>(step, symbols, &targets, at, !0);
            at += VECTORS * VECTOR_BYTES;
        }
        while at + VECTOR_BYTES <= bytes {
            combine_at::<TARGETS, 1, SUM>(step, symbols, &targets, at, !0);
            at += VECTOR_BYTES;
        }
        if at < bytes {
            combine_at::<TARGETS, 1, SUM>(step, symbols, &targets, at, (1 << (bytes - at)) - 1);
        }
    }
}

/// `VECTORS` vectors of all targets, from byte `at`; of each vector only the bytes in `mask`.
///
/// # Safety
/// As [`super::Kernel`] says, for the bytes so selected.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,gfni")]
unsafe fn combine_at<const TARGETS: usize, const VECTORS: usize, const SUM: bool>(
    step: &Step,
    symbols: &[*mut u8],
    targets: &[*mut u8; TARGETS],
    at: usize,
    mask: u64,
) {
    // SAFETY: ids are in range, and every symbol is valid for the selected bytes.
    let load = |source: u32| -> [__m512i; VECTORS] {
        let start = unsafe { symbols.get_unchecked(source as usize).add(at) };
        std::array::from_fn(|vector| unsafe { _mm512_maskz_loadu_epi8(mask, start.add(vector * VECTOR_BYTES).cast()) })
    };
    let mut sums = [[_mm512_setzero_si512(); VECTORS]; TARGETS];
    let mut pairs = step.sources.chunks_exact(2);
    let mut affine = step.affine.as_ptr();
    for pair in &mut pairs {
        let (a, b) = (load(pair[0]), load(pair[1]));
        for (target, sum) in sums.iter_mut().enumerate() {
            if SUM && target == 0 {
                for vector in 0..VECTORS {
                    sum[vector] = _mm512_ternarylogic_epi64::<XOR3>(sum[vector], a[vector], b[vector]);
                }
                continue;
            }
            // SAFETY: there is a matrix for each source and target.
            let (by_a, by_b) = unsafe { (*affine.add(target), *affine.add(TARGETS + target)) };
            let (by_a, by_b) = (_mm512_set1_epi64(by_a as i64), _mm512_set1_epi64(by_b as i64));
            for vector in 0..VECTORS {
                let a = _mm512_gf2p8affine_epi64_epi8::<0>(a[vector], by_a);
                let b = _mm512_gf2p8affine_epi64_epi8::<0>(b[vector], by_b);
                sum[vector] = _mm512_ternarylogic_epi64::<XOR3>(sum[vector], a, b);
            }
        }
        // SAFETY: at most one past the end.
        affine = unsafe { affine.add(2 * TARGETS) };
    }
    if let [last] = pairs.remainder() {
        let a = load(*last);
        for (target, sum) in sums.iter_mut().enumerate() {
            for vector in 0..VECTORS {
                let product = if SUM && target == 0 {
                    a[vector]
                } else {
                    // SAFETY: there is a matrix for each source and target.
                    let by_a = unsafe { _mm512_set1_epi64(*affine.add(target) as i64) };
                    _mm512_gf2p8affine_epi64_epi8::<0>(a[vector], by_a)
                };
                sum[vector] = _mm512_xor_si512(sum[vector], product);
            }
        }
    }
    for (target, sum) in targets.iter().zip(&sums) {
        for (vector, &value) in sum.iter().enumerate() {
            // SAFETY: every target is valid for the selected bytes.
            unsafe { _mm512_mask_storeu_epi8(target.add(at + vector * VECTOR_BYTES).cast(), mask, value) };
        }
    }
}
