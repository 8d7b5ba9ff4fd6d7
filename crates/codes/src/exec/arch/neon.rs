//! NEON: a multiplication by a constant is two `tbl` per 16 bytes, one for each half of every byte.

use super::kernels::{DoublingVector, Vector, entry_points, p_and_q_kernel};
use super::{Isa, Kernels, NIBBLES, Step};
use core::arch::aarch64::*;
use core::arch::asm;

pub(super) const ISA: Isa = Isa {
    name: "neon",
    is_available: || has_feature!("neon"),
    kernels: Kernels { p_and_q: P_AND_Q, ..KERNELS },
    stores_lines: false,
    // There are no streaming stores here; plain ones stand for them.
    fence: || (),
};

// Four vectors share the loads of tables; from four targets on the 32 registers hold only two.
entry_points!(Bytes16, "neon", [4, 4, 4, 2, 2, 2, 2, 2]);

p_and_q_kernel!(Bytes16, "neon");

#[derive(Clone, Copy)]
struct Bytes16(uint8x16_t);

/// Products with the low and with the high halves of bytes.
#[derive(Clone, Copy)]
struct Nibbles(uint8x16_t, uint8x16_t);

impl Vector for Bytes16 {
    const BYTES: usize = 16;
    type Factor = Nibbles;
    /// The low and the high halves of bytes.
    type Operand = (uint8x16_t, uint8x16_t);
    const ADDS_THREE: bool = false;
    const UNROLLS: bool = false;

    #[inline(always)]
    unsafe fn zero() -> Bytes16 {
        // SAFETY: as the trait says.
        Bytes16(unsafe { vdupq_n_u8(0) })
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Bytes16 {
        // SAFETY: as the trait says.
        Bytes16(unsafe { vld1q_u8(from) })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: as the trait says.
        unsafe { vst1q_u8(to, self.0) }
    }

    #[inline(always)]
    unsafe fn stream(self, to: *mut u8) {
        // SAFETY: as the trait says.
        unsafe { self.store(to) }
    }

    #[inline(always)]
    unsafe fn xor(self, a: Bytes16) -> Bytes16 {
        // SAFETY: as the trait says.
        Bytes16(unsafe { veorq_u8(self.0, a.0) })
    }

    #[inline(always)]
    unsafe fn xor3(self, a: Bytes16, b: Bytes16) -> Bytes16 {
        // SAFETY: as the trait says.
        unsafe { self.xor(a.xor(b)) }
    }

    #[inline(always)]
    unsafe fn xor_masked(self, a: Bytes16, mask: Bytes16) -> Bytes16 {
        // SAFETY: as the trait says.
        Bytes16(unsafe { veorq_u8(self.0, vandq_u8(a.0, mask.0)) })
    }

    #[inline(always)]
    unsafe fn mask(step: &Step, index: usize) -> Bytes16 {
        // SAFETY: as the trait says.
        Bytes16(unsafe { vreinterpretq_u8_u64(vdupq_n_u64(*step.affine.as_ptr().add(index))) })
    }

    #[inline(always)]
    unsafe fn factor(step: &Step, index: usize) -> Nibbles {
        // SAFETY: there is a coefficient of this index, and a table has 16 products of each half.
        unsafe {
            let products = NIBBLES[*step.coefficients.get_unchecked(index) as usize].as_ptr();
            Nibbles(vld1q_u8(products), vld1q_u8(products.add(16)))
        }
    }

    #[inline(always)]
    unsafe fn operand(self) -> (uint8x16_t, uint8x16_t) {
        // SAFETY: as the trait says.
        unsafe { (vandq_u8(self.0, vdupq_n_u8(0x0f)), vshrq_n_u8::<4>(self.0)) }
    }

    #[inline(always)]
    unsafe fn product((low, high): (uint8x16_t, uint8x16_t), factor: Nibbles) -> Bytes16 {
        // SAFETY: as the trait says.
        Bytes16(unsafe { veorq_u8(vqtbl1q_u8(factor.0, low), vqtbl1q_u8(factor.1, high)) })
    }

    #[inline(always)]
    unsafe fn prefetch(from: *const u8) {
        // SAFETY: a hint, whatever the address.
        unsafe { asm!("prfm pldl1keep, [{from}]", from = in(reg) from, options(nostack, preserves_flags, readonly)) }
    }
}

impl DoublingVector for Bytes16 {
    #[inline(always)]
    unsafe fn doubled(self) -> Bytes16 {
        // SAFETY: as the trait says. Bytes that lose their highest bit get the rest of the polynomial, x^8, for it.
        unsafe {
            let has_highest = vcltzq_s8(vreinterpretq_s8_u8(self.0));
            Bytes16(veorq_u8(vshlq_n_u8::<1>(self.0), vandq_u8(has_highest, vdupq_n_u8(0x1d))))
        }
    }
}
