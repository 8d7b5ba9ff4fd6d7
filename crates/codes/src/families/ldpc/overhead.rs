//! How many blocks a graph needs: exactly for small graphs, sampled for large ones.
//!
//! Blocks are drawn in random order until all data follow; every block drawn counts. With `u(s)` undecodable sets among
//! the `C(N, s)` sets of `s` blocks, more than `s` draws are needed with probability `u(s) / C(N, s)`, and the mean is the
//! sum of these over `s = 0 .. N`.
//!
//! Counting looks at all `2^N` sets, 64 a word. For one choice of data and check blocks at hand, with `D` the data known:
//!
//! - peeling decodes when some check at hand has one unknown data block `u` only, and peeling decodes `D + u`;
//! - elimination fails when some unknown data, added up, is seen by no check at hand: that is when it fails for the
//!   unknown data without one of them, or when the sum of all unknown data is not seen.
//!
//! So each set of data follows from the sets that have one more (or less), for 64 sets of checks at once.

use super::graph::Graph;
use crate::analysis::binomial;
#[cfg(feature = "std")]
use crate::random::Random;
use crate::row::{Bits, Row};
use alloc::vec;
use alloc::vec::Vec;

/// How data are derived from blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decoder {
    /// Only by checks of which all data blocks but one are known.
    Peeling,
    /// By any combination of checks: what can be decoded at all.
    Elimination,
}

/// Counts over all sets of blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    /// By number of blocks at hand, `0 ..= block count`: how many sets of so many do not give all data.
    pub undecodable: Vec<u64>,
}

/// Beyond this many blocks counting takes minutes, beyond this many checks or data blocks its tables grow too large.
pub(super) const MOST_COUNTED_BLOCKS: usize = 32;
pub(super) const MOST_COUNTED_OF_A_KIND: usize = 20;

/// Check sets are counted by words of 2^6.
const WORD_CHECKS: usize = 6;

/// Counts the undecodable sets of blocks; `None` for more than 32 blocks, or more than 20 data blocks or checks.
#[must_use]
pub fn profile(graph: &Graph, decoder: Decoder) -> Option<Profile> {
    let fits = graph.block_count() <= MOST_COUNTED_BLOCKS
        && graph.data_count().max(graph.checks().len()) <= MOST_COUNTED_OF_A_KIND;
    fits.then(|| Counter::new(graph).count(decoder))
}

impl Profile {
    /// The mean number of blocks drawn until all data follow.
    #[must_use]
    pub fn mean_blocks(&self) -> f64 {
        let block_count = self.undecodable.len() - 1;
        let share = |(drawn, &sets): (usize, &u64)| sets as f64 / binomial(block_count, drawn) as f64;
        self.undecodable.iter().enumerate().map(share).sum()
    }

    /// Any so many lost blocks can be borne.
    #[must_use]
    pub fn losses_survived(&self) -> usize {
        self.undecodable.iter().rev().take_while(|&&sets| sets == 0).count().saturating_sub(1)
    }

    /// The chance that the data survive when each block is there with this probability, independently.
    #[cfg(feature = "std")]
    #[must_use]
    pub fn availability(&self, block_availability: f64) -> f64 {
        let block_count = self.undecodable.len() as i32 - 1;
        let failure = |(there, &sets): (usize, &u64)| {
            let lost = block_count - there as i32;
            sets as f64 * block_availability.powi(there as i32) * (1.0 - block_availability).powi(lost)
        };
        1.0 - self.undecodable.iter().enumerate().map(failure).sum::<f64>()
    }
}

/// A graph as masks.
pub(super) struct Counter {
    data_count: usize,
    /// By check: the data blocks it sums.
    checks: Vec<u32>,
    /// By check within a word: the sets that have it.
    with_check: [u64; WORD_CHECKS],
    /// By set of data, for the words of one choice of the further checks.
    table: Vec<u64>,
}

impl Counter {
    pub(super) fn new(graph: &Graph) -> Counter {
        let mask = |check: &Vec<usize>| check.iter().fold(0, |mask, data| mask | 1 << data);
        Counter::of_masks(graph.data_count(), graph.checks().iter().map(mask).collect())
    }

    /// By check the data blocks it sums; at most 20 of each.
    pub(super) fn of_masks(data_count: usize, checks: Vec<u32>) -> Counter {
        let with_check = core::array::from_fn(|check| {
            (0..64).filter(|set| set >> check & 1 == 1).fold(0, |sets, set| sets | 1u64 << set)
        });
        Counter { data_count, checks, with_check, table: vec![0; 1 << data_count] }
    }

    #[cfg(feature = "std")]
    pub(super) fn checks_mut(&mut self) -> &mut [u32] {
        &mut self.checks
    }

    /// Counts undecodable sets by size.
    pub(super) fn count(&mut self, decoder: Decoder) -> Profile {
        let low_count = self.checks.len().min(WORD_CHECKS);
        let by_count: Vec<u64> = (0..=low_count).map(|ones| sets_of_size(low_count, ones)).collect();
        let mut undecodable = vec![0; self.data_count + self.checks.len() + 1];
        for further in 0u32..1 << (self.checks.len() - low_count) {
            match decoder {
                Decoder::Peeling => self.peel(further),
                Decoder::Elimination => self.eliminate(further),
            }
            for (data, &sets) in self.table.iter().enumerate() {
                let at_hand = (data.count_ones() + further.count_ones()) as usize;
                for (ones, of_size) in by_count.iter().enumerate() {
                    undecodable[at_hand + ones] += u64::from((sets & of_size).count_ones());
                }
            }
        }
        Profile { undecodable }
    }

    /// Fills the table: by known data, the sets of checks with which peeling fails.
    fn peel(&mut self, further: u32) {
        let all = self.table.len() - 1;
        self.table[all] = 0;
        let mut touching = vec![0; self.data_count];
        for known in (0..all).rev() {
            touching.fill(0);
            for (check, &mask) in self.checks.iter().enumerate() {
                let unknown = mask & !(known as u32);
                if unknown.is_power_of_two() {
                    touching[unknown.trailing_zeros() as usize] |= self.sets_with(check, further);
                }
            }
            let mut failing = !0;
            for (data, &helped) in touching.iter().enumerate() {
                if helped != 0 {
                    failing &= !helped | self.table[known | 1 << data];
                }
            }
            self.table[known] = failing;
        }
    }

    /// Fills the table: by known data, the sets of checks with which elimination fails.
    fn eliminate(&mut self, further: u32) {
        let all = self.table.len() - 1;
        self.table[all] = 0;
        for known in (0..all).rev() {
            let unknown = all & !known;
            let seeing = (0..self.checks.len()).filter(|&c| (self.checks[c] & unknown as u32).count_ones() % 2 == 1);
            let mut failing = !seeing.fold(0, |sets, check| sets | self.sets_with(check, further));
            let mut left = unknown;
            while left != 0 {
                failing |= self.table[known | left & left.wrapping_neg()];
                left &= left - 1;
            }
            self.table[known] = failing;
        }
    }

    /// The sets of a word that have this check: all or none for a check beyond the word.
    fn sets_with(&self, check: usize, further: u32) -> u64 {
        match check.checked_sub(WORD_CHECKS) {
            None => self.with_check[check],
            Some(beyond) => {
                if further >> beyond & 1 == 1 {
                    !0
                } else {
                    0
                }
            }
        }
    }
}

/// The sets of a word that have so many of the first `check_count` checks, and none of the others.
fn sets_of_size(check_count: usize, size: usize) -> u64 {
    (0u64..1 << check_count).filter(|set| set.count_ones() as usize == size).fold(0, |sets, set| sets | 1 << set)
}

/// A mean estimated by drawing.
#[cfg(feature = "std")]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampled {
    /// Mean of the samples.
    pub mean: f64,
    /// Its standard error: about two times in three the true mean is no farther away.
    pub standard_error: f64,
}

/// The mean number of blocks drawn until all data follow, from so many random orders (at least 2); equal seeds give equal
/// samples.
#[cfg(feature = "std")]
#[must_use]
pub fn sampled_blocks_needed(graph: &Graph, decoder: Decoder, samples: usize, seed: u64) -> Sampled {
    let mut random = Random::new(seed);
    let mut order: Vec<usize> = (0..graph.block_count()).collect();
    let samples = samples.max(2);
    let (mut sum, mut sum_of_squares) = (0.0, 0.0);
    for _ in 0..samples {
        random.shuffle(&mut order, graph.block_count());
        let needed = blocks_needed(graph, decoder, &order) as f64;
        sum += needed;
        sum_of_squares += needed * needed;
    }
    let count = samples as f64;
    let mean = sum / count;
    let variance = (sum_of_squares / count - mean * mean).max(0.0) * count / (count - 1.0);
    Sampled { mean, standard_error: (variance / count).sqrt() }
}

/// How many blocks of this order (of all blocks) the decoder takes to find all data.
#[must_use]
pub fn blocks_needed(graph: &Graph, decoder: Decoder, order: &[usize]) -> usize {
    match decoder {
        Decoder::Peeling => blocks_to_peel(graph, order),
        Decoder::Elimination => blocks_to_eliminate(graph, order),
    }
}

fn blocks_to_peel(graph: &Graph, order: &[usize]) -> usize {
    let data_count = graph.data_count();
    let mut known = vec![false; data_count];
    let mut known_count = 0;
    let mut is_drawn = vec![false; graph.checks().len()];
    // By check: how many of its data blocks are unknown, and their XOR, which names the last one.
    let mut unknown: Vec<(usize, usize)> =
        graph.checks().iter().map(|check| (check.len(), check.iter().fold(0, |sum, data| sum ^ data))).collect();
    let mut checks_of = vec![Vec::new(); data_count];
    for (index, check) in graph.checks().iter().enumerate() {
        check.iter().for_each(|&data| checks_of[data].push(index));
    }
    let mut found = Vec::new();
    for (drawn, &block) in order.iter().enumerate() {
        match block.checked_sub(data_count) {
            None => found.push(block),
            Some(check) => {
                is_drawn[check] = true;
                if unknown[check].0 == 1 {
                    found.push(unknown[check].1);
                }
            }
        }
        while let Some(data) = found.pop() {
            if core::mem::replace(&mut known[data], true) {
                continue;
            }
            known_count += 1;
            for &check in &checks_of[data] {
                unknown[check].0 -= 1;
                unknown[check].1 ^= data;
                if unknown[check].0 == 1 && is_drawn[check] {
                    found.push(unknown[check].1);
                }
            }
        }
        if known_count == data_count {
            return drawn + 1;
        }
    }
    order.len()
}

/// The first so many that span the data.
fn blocks_to_eliminate(graph: &Graph, order: &[usize]) -> usize {
    let data_count = graph.data_count();
    // By leading element: a row that begins there.
    let mut rows: Vec<Option<Bits>> = vec![None; data_count];
    let mut rank = 0;
    for (drawn, &block) in order.iter().enumerate() {
        let mut row = graph.row(block);
        while let Some(leading) = row.first_nonzero() {
            match &rows[leading] {
                Some(other) => row.add_multiple(other, 1),
                None => {
                    rows[leading] = Some(row);
                    rank += 1;
                    break;
                }
            }
        }
        if rank == data_count {
            return drawn + 1;
        }
    }
    order.len()
}
