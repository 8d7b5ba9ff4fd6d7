//! The number of blocks that a graph needs: exact for small graphs, sampled for large ones.
//!
//! Blocks are drawn in random order until all data follow; every block drawn counts. If `u(s)` of the `C(N, s)` sets of
//! `s` blocks are undecodable, more than `s` draws are needed with probability `u(s) / C(N, s)`, and the mean is the
//! sum of these over `s = 0 .. N`.
//!
//! Counting visits all `2^N` sets, up to 1,024 at a time: a row of bits for those that differ only in some checks. For
//! one choice of data and check blocks that are there, let `U` be the unknown data:
//!
//! - Peeling decodes if some check that is there sums only one block `u` of `U`, and peeling decodes `U - u`. Any such
//!   check gives the same result.
//! - Elimination fails if no check that is there sees the sum of some of `U`: that is if it fails for `U` without one
//!   of them, or if the sum of all of `U` is not seen.
//!
//! So each set of data follows from the sets with one block less, for many sets of checks at once. The checks that
//! matter to a set of data follow from those of the set without its first block. If one check decides that is there in
//! all sets of a row, peeling arrives at the row of a smaller set of data. Most sets refer to such a row, and take its
//! counts by size as they are.

use super::graph::Graph;
use crate::analysis::binomial;
use crate::exec::{Wide, widely};
#[cfg(feature = "std")]
use crate::random::Random;
use crate::row::{Bits, Row};
use alloc::vec;
use alloc::vec::Vec;

/// How data are derived from blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decoder {
    /// Only by checks whose data blocks are known except one.
    Peeling,
    /// By any combination of checks: everything that can be decoded at all.
    Elimination,
}

/// Counts over all sets of blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    /// By number of blocks that are there, `0 ..= block count`: how many sets of that size do not give all data.
    pub undecodable: Vec<u64>,
}

/// With more blocks than this counting takes minutes; with more checks or data blocks its tables are too large.
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

    /// Any this many lost blocks are survived.
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
    /// Buffers that are used again.
    narrow: Room<1>,
    wide: Room<16>,
}

/// Some check sets of a block: a bit each, smaller sets first.
type Sets<const WORDS: usize> = [u64; WORDS];

/// The number of sets of a block by their number of checks, at most 10.
type BySize = [u16; 16];

/// The undecodable check sets of a block.
#[derive(Default)]
struct Room<const WORDS: usize> {
    /// By set of unknown data: the index of its row. The index after all sets has the row in which all sets of a block
    /// fail.
    row_of: Vec<u32>,
    rows: Vec<Sets<WORDS>>,
    by_size: Vec<BySize>,
}

impl Counter {
    pub(super) fn new(graph: &Graph) -> Counter {
        let mask = |check: &Vec<usize>| check.iter().fold(0, |mask, data| mask | 1 << data);
        Counter::of_masks(graph.data_count(), graph.checks().iter().map(mask).collect())
    }

    /// By check: the data blocks it sums. At most 20 of each.
    pub(super) fn of_masks(data_count: usize, checks: Vec<u32>) -> Counter {
        Counter { data_count, checks, narrow: Room::default(), wide: Room::default() }
    }

    #[cfg(feature = "std")]
    pub(super) fn checks_mut(&mut self) -> &mut [u32] {
        &mut self.checks
    }

    /// Counts undecodable sets by size.
    pub(super) fn count(&mut self, decoder: Decoder) -> Profile {
        // The order of checks does not change the counts. The last checks are there in all sets of a block or in none.
        // Small checks, which more often have just one unknown, then decide about whole blocks.
        let mut checks = self.checks.clone();
        checks.sort_unstable_by_key(|check| core::cmp::Reverse(check.count_ones()));
        let looked_at = looked_at(self.data_count, &checks, decoder);
        let (data_count, checks, looked_at) = (self.data_count, &checks[..], &looked_at[..]);
        let undecodable = if checks.len() <= WORD_CHECKS {
            widely(Counting { data_count, checks, decoder, looked_at, room: &mut self.narrow })
        } else {
            widely(Counting { data_count, checks, decoder, looked_at, room: &mut self.wide })
        };
        Profile { undecodable }
    }
}

/// By set of unknown data: the checks that the decoder uses. Peeling uses those that sum just one of it, elimination
/// those that sum an odd number. Each set follows from the one without its first block.
fn looked_at(data_count: usize, checks: &[u32], decoder: Decoder) -> Vec<u32> {
    let checks_of = |data: usize| {
        let sums = |(index, check): (usize, &u32)| (check >> data & 1) << index;
        checks.iter().enumerate().map(sums).fold(0, |checks, check| checks | check)
    };
    let checks_of: Vec<u32> = (0..data_count).map(checks_of).collect();
    let mut looked_at = vec![0u32; 1 << data_count];
    let mut touched = vec![0u32; 1 << data_count];
    for unknown in 1..looked_at.len() {
        let (rest, checks) = (unknown & (unknown - 1), checks_of[unknown.trailing_zeros() as usize]);
        touched[unknown] = touched[rest] | checks;
        looked_at[unknown] = match decoder {
            Decoder::Peeling => looked_at[rest] & !checks | checks & !touched[rest],
            Decoder::Elimination => looked_at[rest] ^ checks,
        };
    }
    looked_at
}

/// The number of undecodable sets, by size.
struct Counting<'a, const WORDS: usize> {
    data_count: usize,
    checks: &'a [u32],
    decoder: Decoder,
    looked_at: &'a [u32],
    room: &'a mut Room<WORDS>,
}

impl<const WORDS: usize> Wide for Counting<'_, WORDS> {
    type Output = Vec<u64>;

    #[inline(always)]
    fn run(self) -> Vec<u64> {
        let Counting { data_count, checks, decoder, looked_at, room: Room { row_of, rows, by_size } } = self;
        let low_count = checks.len().min(WORD_CHECKS + WORDS.ilog2() as usize);
        let mut check_sets: Vec<usize> = (0..1 << low_count).collect();
        check_sets.sort_by_key(|set| set.count_ones());
        // By check of a block: the sets without it. By size: where the sets of that many checks lie.
        let of = |holds: &dyn Fn(usize) -> bool| sets(|place| check_sets.get(place).is_some_and(|&set| holds(set)));
        let without: Vec<Sets<WORDS>> = (0..low_count).map(|check| of(&|set| set >> check & 1 == 0)).collect();
        let mut of_size: Vec<(usize, usize, u64)> = Vec::new();
        for size in 0..=low_count {
            let sets: Sets<WORDS> = of(&|set| set.count_ones() as usize == size);
            of_size.extend((0..WORDS).filter(|&word| sets[word] != 0).map(|word| (size, word, sets[word])));
        }
        let counted = |failing: &Sets<WORDS>| {
            let mut by_size: BySize = [0; 16];
            for &(size, word, sets) in &of_size {
                by_size[size] += (failing[word] & sets).count_ones() as u16;
            }
            by_size
        };
        // If nothing is unknown nothing fails.
        let all_fail = looked_at.len();
        row_of.resize(all_fail, 0);
        rows.resize(all_fail + 1, [0; WORDS]);
        by_size.resize(all_fail + 1, [0; 16]);
        rows[all_fail] = of(&|_| true);
        by_size[all_fail] = counted(&rows[all_fail]);
        let mut undecodable = vec![0; data_count + checks.len() + 1];
        for further in 0u32..1 << (checks.len() - low_count) {
            // By number of unknown data.
            let mut found = vec![[0u32; 16]; data_count + 1];
            let is_there = further << low_count | ((1 << low_count) - 1);
            for unknown in 1..looked_at.len() {
                let checks_there = looked_at[unknown] & is_there;
                // A check that every set of the block has.
                let check_of_all = (checks_there >> low_count != 0).then(|| checks_there.ilog2() as usize);
                let after = |check: usize| row_of[unknown ^ (checks[check] as usize & unknown)] as usize;
                let row = match (decoder, check_of_all) {
                    // Peeling ends with the same data whatever it does first.
                    (Decoder::Peeling, Some(check)) => after(check),
                    (Decoder::Peeling, None) => {
                        let mut failing = rows[all_fail];
                        let mut row = all_fail;
                        for check in ones(checks_there).filter(|&check| after(check) != all_fail) {
                            let (known_more, without) = (&rows[after(check)], &without[check]);
                            (0..WORDS).for_each(|w| failing[w] &= without[w] | known_more[w]);
                            row = unknown;
                        }
                        rows[unknown] = failing;
                        row
                    }
                    (Decoder::Elimination, _) => {
                        let mut failing = if check_of_all.is_some() { [0; WORDS] } else { rows[all_fail] };
                        if check_of_all.is_none() {
                            ones(checks_there)
                                .for_each(|check| (0..WORDS).for_each(|w| failing[w] &= without[check][w]));
                        }
                        for data in ones(unknown as u32) {
                            let known_more = &rows[row_of[unknown ^ 1 << data] as usize];
                            (0..WORDS).for_each(|w| failing[w] |= known_more[w]);
                        }
                        rows[unknown] = failing;
                        unknown
                    }
                };
                row_of[unknown] = row as u32;
                if row == unknown {
                    by_size[unknown] = counted(&rows[unknown]);
                }
                // A copy, so that the compiler sees that the sum does not change it.
                let sets = by_size[row];
                let found = &mut found[unknown.count_ones() as usize];
                (0..sets.len()).for_each(|size| found[size] += u32::from(sets[size]));
            }
            for (unknown_count, found) in found.iter().enumerate() {
                let at_hand = data_count - unknown_count + further.count_ones() as usize;
                (0..=low_count).for_each(|size| undecodable[at_hand + size] += u64::from(found[size]));
            }
        }
        undecodable
    }
}

/// The sets of a block for which this holds.
fn sets<const WORDS: usize>(holds: impl Fn(usize) -> bool) -> Sets<WORDS> {
    let bit = |set: usize| if holds(set) { 1 << (set % 64) } else { 0 };
    core::array::from_fn(|word| (64 * word..64 * (word + 1)).map(bit).fold(0, |sets, bit| sets | bit))
}

/// The indices of the bits that are set.
fn ones(mask: u32) -> impl Iterator<Item = usize> {
    let mut left = mask;
    core::iter::from_fn(move || {
        let place = (left != 0).then(|| left.trailing_zeros() as usize);
        left &= left.wrapping_sub(1);
        place
    })
}

/// A mean estimated from random samples.
#[cfg(feature = "std")]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampled {
    /// Mean of the samples.
    pub mean: f64,
    /// Its standard error: the true mean is closer than this about two times in three.
    pub standard_error: f64,
}

/// The mean number of blocks drawn until all data follow, from `samples` random orders (at least 2). Equal seeds give
/// equal samples.
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

/// The number of blocks of this order (of all blocks) that the decoder takes to find all data.
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
    // By check: the number of its unknown data blocks, and their XOR, which is the last one.
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

/// The number of blocks at the beginning that span the data.
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

#[cfg(test)]
#[path = "overhead_tests.rs"]
mod tests;
