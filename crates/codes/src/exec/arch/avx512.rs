//! AVX-512 with GFNI: a multiplication by a constant is one `gf2p8affineqb` per 64 bytes.

use super::kernels::{BitVector, Vector, bit_slices, entry_points};
use super::{Isa, Kernels, MIRROR, Step, fence};
use core::arch::x86_64::*;

pub(super) const ISA: Isa = Isa {
    name: "avx512-gfni",
    is_available,
    kernels: Kernels { bit_slices: BIT_SLICES, ..KERNELS },
    stores_lines: true,
    fence,
};

fn is_available() -> bool {
    has_feature!("avx512f") && has_feature!("avx512bw") && has_feature!("gfni")
}

// Four vectors at a time share the loads of coefficients. From four targets on the registers suffice for three, then
// two.
entry_points!(Bytes64, "avx512f,avx512bw,gfni", [4, 4, 4, 3, 3, 3, 2, 2]);

bit_slices!(Bytes64, "avx512f,avx512bw,gfni");

/// Truth table of `a ^ b ^ c` for `vpternlog`.
const XOR3: i32 = 0x96;

/// Truth table of `a ^ b & c`.
const XOR_AND: i32 = 0x78;

/// The mask of the first `bytes` bytes, fewer than a vector has.
#[inline(always)]
fn first(bytes: usize) -> __mmask64 {
    (1 << bytes) - 1
}

#[derive(Clone, Copy)]
struct Bytes64(__m512i);

impl Vector for Bytes64 {
    const BYTES: usize = 64;
    type Factor = __m512i;
    type Operand = Bytes64;
    const ADDS_THREE: bool = true;
    const UNROLLS: bool = true;

    #[inline(always)]
    unsafe fn zero() -> Bytes64 {
        // SAFETY: as the trait says.
        Bytes64(unsafe { _mm512_setzero_si512() })
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Bytes64 {
        // SAFETY: as the trait says.
        Bytes64(unsafe { _mm512_loadu_si512(from.cast()) })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: as the trait says.
        unsafe { _mm512_storeu_si512(to.cast(), self.0) }
    }

    #[inline(always)]
    unsafe fn load_part(from: *const u8, bytes: usize) -> Bytes64 {
        // SAFETY: as the trait says; what the mask leaves out is not touched.
        Bytes64(unsafe { _mm512_maskz_loadu_epi8(first(bytes), from.cast()) })
    }

    #[inline(always)]
    unsafe fn store_part(self, to: *mut u8, bytes: usize) {
        // SAFETY: as the trait says; what the mask leaves out is not touched.
        unsafe { _mm512_mask_storeu_epi8(to.cast(), first(bytes), self.0) }
    }

    #[inline(always)]
    unsafe fn stream(self, to: *mut u8) {
        // SAFETY: as the trait says.
        unsafe { _mm512_stream_si512(to.cast(), self.0) }
    }

    #[inline(always)]
    unsafe fn xor(self, a: Bytes64) -> Bytes64 {
        // SAFETY: as the trait says.
        Bytes64(unsafe { _mm512_xor_si512(self.0, a.0) })
    }

    #[inline(always)]
    unsafe fn xor3(self, a: Bytes64, b: Bytes64) -> Bytes64 {
        // SAFETY: as the trait says.
        Bytes64(unsafe { _mm512_ternarylogic_epi64::<XOR3>(self.0, a.0, b.0) })
    }

    #[inline(always)]
    unsafe fn xor_masked(self, a: Bytes64, mask: Bytes64) -> Bytes64 {
        // SAFETY: as the trait says.
        Bytes64(unsafe { _mm512_ternarylogic_epi64::<XOR_AND>(self.0, a.0, mask.0) })
    }

    #[inline(always)]
    unsafe fn mask(step: &Step, index: usize) -> Bytes64 {
        // SAFETY: as the trait says.
        Bytes64(unsafe { _mm512_set1_epi64(*step.affine.as_ptr().add(index) as i64) })
    }

    #[inline(always)]
    unsafe fn factor(step: &Step, index: usize) -> __m512i {
        // SAFETY: as the trait says.
        unsafe { _mm512_set1_epi64(*step.affine.as_ptr().add(index) as i64) }
    }

    #[inline(always)]
    unsafe fn operand(self) -> Bytes64 {
        self
    }

    #[inline(always)]
    unsafe fn product(operand: Bytes64, factor: __m512i) -> Bytes64 {
        // SAFETY: as the trait says.
        Bytes64(unsafe { _mm512_gf2p8affine_epi64_epi8::<0>(operand.0, factor) })
    }

    #[inline(always)]
    unsafe fn prefetch(from: *const u8) {
        // SAFETY: as the trait says.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(from.cast()) }
    }
}

impl BitVector for Bytes64 {
    #[inline(always)]
    unsafe fn interleaved(self, other: Bytes64) -> [Bytes64; 2] {
        // SAFETY: as the trait says.
        unsafe { [Bytes64(_mm512_unpacklo_epi8(self.0, other.0)), Bytes64(_mm512_unpackhi_epi8(self.0, other.0))] }
    }

    #[inline(always)]
    unsafe fn mirrored(self) -> Bytes64 {
        // SAFETY: as the trait says.
        Bytes64(unsafe { _mm512_gf2p8affine_epi64_epi8::<0>(_mm512_set1_epi64(MIRROR), self.0) })
    }
}
