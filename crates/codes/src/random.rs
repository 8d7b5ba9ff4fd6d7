//! Reproducible pseudo-random numbers: equal seeds give equal numbers, on every machine and for ever.

use alloc::vec::Vec;

/// Steele, Lea, Flood: Fast splittable pseudorandom number generators (2014), SplitMix64: small, and good from any seed.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// The next 64 bits.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// A number of `0..bound`. Bounds are so small beside 2^64 that the remainder favours none noticeably.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    /// A number from 0 up to, not including, 1.
    #[cfg(feature = "std")]
    pub(crate) fn fraction(&mut self) -> f64 {
        // The bits of a double's mantissa.
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Puts the first `count` places in random order; each may get any item.
    pub(crate) fn shuffle(&mut self, items: &mut [usize], count: usize) {
        for place in 0..count {
            items.swap(place, place + self.below(items.len() - place));
        }
    }

    /// `count` of `0..n`, ascending.
    pub(crate) fn choice(&mut self, n: usize, count: usize) -> Vec<usize> {
        let mut all: Vec<usize> = (0..n).collect();
        self.shuffle(&mut all, count);
        all.truncate(count);
        all.sort_unstable();
        all
    }
}
