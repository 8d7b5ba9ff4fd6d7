//! Random numbers: the system's, or those of a seed.

use parking_lot::Mutex;
use rand::{RngCore, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// A source of random numbers that many threads share.
pub trait Rng: Send + Sync {
    /// 64 uniform bits.
    fn next_u64(&self) -> u64;
}

impl dyn Rng + '_ {
    /// 16 uniform bits.
    #[must_use]
    pub fn next_u16(&self) -> u16 {
        (self.next_u64() >> 48) as u16
    }

    /// 32 uniform bits.
    #[must_use]
    pub fn next_u32(&self) -> u32 {
        (self.next_u64() >> 32) as u32
    }

    /// Uniform bytes.
    #[must_use]
    pub fn bytes<const N: usize>(&self) -> [u8; N] {
        let mut bytes = [0; N];
        bytes.chunks_mut(8).for_each(|part| part.copy_from_slice(&self.next_u64().to_le_bytes()[..part.len()]));
        bytes
    }

    /// 128 uniform bits: the name of something that no other may have.
    #[must_use]
    pub fn next_u128(&self) -> u128 {
        (u128::from(self.next_u64()) << 64) | u128::from(self.next_u64())
    }
}

/// Numbers that nobody can foretell.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemRng;

impl Rng for SystemRng {
    #[expect(clippy::disallowed_methods, reason = "this is where it is called")]
    fn next_u64(&self) -> u64 {
        rand::random()
    }
}

/// The same numbers for the same seed, on every machine.
#[derive(Debug)]
pub struct SeededRng(Mutex<ChaCha8Rng>);

impl SeededRng {
    /// The numbers of `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(Mutex::new(ChaCha8Rng::seed_from_u64(seed)))
    }
}

impl Rng for SeededRng {
    fn next_u64(&self) -> u64 {
        self.0.lock().next_u64()
    }
}
