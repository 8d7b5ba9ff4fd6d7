//! AVX2: a multiplication by a constant is one `gf2p8affineqb` per 32 bytes where the machine has GFNI, otherwise two
//! `vpshufb`, one for each half of every byte.

use super::kernels::{BitVector, DoublingVector, Vector};
use super::{Isa, Kernels, MIRROR, NIBBLES, Step, fence};
use core::arch::x86_64::*;

pub(super) const ISA: Isa = Isa {
    name: "avx2",
    is_available: || has_feature!("avx2"),
    kernels: Kernels { p_and_q: nibbles::P_AND_Q, ..nibbles::KERNELS },
    stores_lines: false,
    fence,
};

pub(super) const GFNI_ISA: Isa = Isa {
    name: "avx2-gfni",
    is_available: || has_feature!("avx2") && has_feature!("gfni"),

    kernels: Kernels { bit_slices: gfni::BIT_SLICES, ..gfni::KERNELS },
    stores_lines: false,
    fence,
};

mod nibbles {
    use super::super::kernels::{entry_points, p_and_q_kernel};
    use super::{Bytes32, Nibbles};

    // Four vectors at a time share the loads of tables. From three targets on the 16 registers hold two vectors of
    // each, from five on only one.
    entry_points!(Bytes32<Nibbles>, "avx2", [4, 4, 2, 2, 1, 1, 1, 1]);
    p_and_q_kernel!(Bytes32<Nibbles>, "avx2");
}

mod gfni {
    use super::super::kernels::{bit_slices, entry_points};
    use super::{Affine, Bytes32};

    // As many as leave one of 16 registers for a factor and one for a product; the loads of factors are shared.
    entry_points!(Bytes32<Affine>, "avx2,gfni", [4, 4, 2, 2, 2, 2, 1, 1]);
    bit_slices!(Bytes32<Affine>, "avx2,gfni");
}

/// x^8 in GF(2^8).
const POLYNOMIAL: i8 = 0x1d;

/// How to multiply.
///
/// # Safety
/// As [`Vector`] says.
trait Multiply: Copy {
    /// See [`Vector::Operand`].
    type Operand: Copy;
    /// See [`Vector::UNROLLS`].
    const UNROLLS: bool;

    unsafe fn factor(step: &Step, index: usize) -> Self;
    unsafe fn operand(bytes: __m256i) -> Self::Operand;
    unsafe fn product(self, operand: Self::Operand) -> __m256i;
}

/// Products with the low and with the high halves of bytes.
#[derive(Clone, Copy)]
struct Nibbles(__m256i, __m256i);

impl Multiply for Nibbles {
    /// The low and the high halves of bytes.
    type Operand = (__m256i, __m256i);
    const UNROLLS: bool = false;

    #[inline(always)]
    unsafe fn factor(step: &Step, index: usize) -> Nibbles {
        // SAFETY: as the trait says; a table is twice 16 bytes.
        unsafe {
            // A plain read: in large kernels the compiler leaves `_mm_loadu_si128` as a call.
            let products: *const __m128i = NIBBLES[*step.coefficients.get_unchecked(index) as usize].as_ptr().cast();
            let low = _mm256_broadcastsi128_si256(products.read_unaligned());
            Nibbles(low, _mm256_broadcastsi128_si256(products.add(1).read_unaligned()))
        }
    }

    #[inline(always)]
    unsafe fn operand(bytes: __m256i) -> (__m256i, __m256i) {
        // SAFETY: as the trait says.
        unsafe {
            let low_nibble = _mm256_set1_epi8(0x0f);
            (_mm256_and_si256(bytes, low_nibble), _mm256_and_si256(_mm256_srli_epi64::<4>(bytes), low_nibble))
        }
    }

    #[inline(always)]
    unsafe fn product(self, (low, high): (__m256i, __m256i)) -> __m256i {
        // SAFETY: as the trait says.
        unsafe { _mm256_xor_si256(_mm256_shuffle_epi8(self.0, low), _mm256_shuffle_epi8(self.1, high)) }
    }
}

/// The coefficient's bit matrix, four times.
#[derive(Clone, Copy)]
struct Affine(__m256i);

impl Multiply for Affine {
    type Operand = __m256i;
    const UNROLLS: bool = true;

    #[inline(always)]
    unsafe fn factor(step: &Step, index: usize) -> Affine {
        // SAFETY: as the trait says.
        Affine(unsafe { _mm256_set1_epi64x(*step.affine.as_ptr().add(index) as i64) })
    }

    #[inline(always)]
    unsafe fn operand(bytes: __m256i) -> __m256i {
        bytes
    }

    #[inline(always)]
    unsafe fn product(self, operand: __m256i) -> __m256i {
        // SAFETY: as the trait says.
        unsafe { _mm256_gf2p8affine_epi64_epi8::<0>(operand, self.0) }
    }
}

#[derive(Clone, Copy)]
struct Bytes32<M>(__m256i, core::marker::PhantomData<M>);

impl<M> Bytes32<M> {
    #[inline(always)]
    fn new(value: __m256i) -> Bytes32<M> {
        Bytes32(value, core::marker::PhantomData)
    }
}

impl<M: Multiply> Vector for Bytes32<M> {
    const BYTES: usize = 32;
    type Factor = M;
    type Operand = M::Operand;
    const ADDS_THREE: bool = false;
    const UNROLLS: bool = M::UNROLLS;

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: as the trait says.
        Bytes32::new(unsafe { _mm256_setzero_si256() })
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: as the trait says.
        Bytes32::new(unsafe { _mm256_loadu_si256(from.cast()) })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: as the trait says.
        unsafe { _mm256_storeu_si256(to.cast(), self.0) }
    }

    #[inline(always)]
    unsafe fn stream(self, to: *mut u8) {
        // SAFETY: as the trait says.
        unsafe { _mm256_stream_si256(to.cast(), self.0) }
    }

    #[inline(always)]
    unsafe fn xor(self, a: Self) -> Self {
        // SAFETY: as the trait says.
        Bytes32::new(unsafe { _mm256_xor_si256(self.0, a.0) })
    }

    #[inline(always)]
    unsafe fn xor3(self, a: Self, b: Self) -> Self {
        // SAFETY: as the trait says.
        unsafe { self.xor(a.xor(b)) }
    }

    #[inline(always)]
    unsafe fn xor_masked(self, a: Self, mask: Self) -> Self {
        // SAFETY: as the trait says.
        unsafe { self.xor(Bytes32::new(_mm256_and_si256(a.0, mask.0))) }
    }

    #[inline(always)]
    unsafe fn mask(step: &Step, index: usize) -> Self {
        // SAFETY: as the trait says.
        Bytes32::new(unsafe { _mm256_set1_epi64x(*step.affine.as_ptr().add(index) as i64) })
    }

    #[inline(always)]
    unsafe fn factor(step: &Step, index: usize) -> M {
        // SAFETY: as the trait says.
        unsafe { M::factor(step, index) }
    }

    #[inline(always)]
    unsafe fn operand(self) -> M::Operand {
        // SAFETY: as the trait says.
        unsafe { M::operand(self.0) }
    }

    #[inline(always)]
    unsafe fn product(operand: M::Operand, factor: M) -> Self {
        // SAFETY: as the trait says.
        Bytes32::new(unsafe { factor.product(operand) })
    }

    #[inline(always)]
    unsafe fn prefetch(from: *const u8) {
        // SAFETY: as the trait says.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(from.cast()) }
    }
}

impl DoublingVector for Bytes32<Nibbles> {
    #[inline(always)]
    unsafe fn doubled(self) -> Self {
        // SAFETY: as the trait says. Bytes that lose their highest bit get the rest of the polynomial for it.
        unsafe {
            let has_highest = _mm256_cmpgt_epi8(_mm256_setzero_si256(), self.0);
            let rest = _mm256_and_si256(has_highest, _mm256_set1_epi8(POLYNOMIAL));
            Bytes32::new(_mm256_xor_si256(_mm256_add_epi8(self.0, self.0), rest))
        }
    }
}

impl BitVector for Bytes32<Affine> {
    #[inline(always)]
    unsafe fn interleaved(self, other: Self) -> [Self; 2] {
        // SAFETY: as the trait says.
        unsafe {
            [Bytes32::new(_mm256_unpacklo_epi8(self.0, other.0)), Bytes32::new(_mm256_unpackhi_epi8(self.0, other.0))]
        }
    }

    #[inline(always)]
    unsafe fn mirrored(self) -> Self {
        // SAFETY: as the trait says.
        Bytes32::new(unsafe { _mm256_gf2p8affine_epi64_epi8::<0>(_mm256_set1_epi64x(MIRROR), self.0) })
    }
}
