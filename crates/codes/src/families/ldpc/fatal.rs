//! The smallest fatal loss: the fewest lost blocks that can cost data, with any decoder.
//!
//! Lost blocks are fatal exactly when some non-zero data looks like zeros in every block that is left. Give each block
//! a column: to a check its unit vector, to a data block the sum of the unit vectors of its checks. Such data is then a
//! set of lost blocks whose columns add up to zero, so the smallest fatal loss is the smallest dependent set of columns
//! (the minimum distance of the code). To find it, sets of growing size are split in halves: a set of size `t` is two
//! equal sums of about `t / 2` columns.

use super::graph::Graph;
use crate::analysis::binomial;
use crate::random::Random;
use alloc::vec;
use alloc::vec::Vec;

/// What is known about the smallest fatal loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FatalLoss {
    /// No smaller loss is fatal.
    pub at_least: usize,
    /// A loss of `at_least` blocks is fatal, too.
    pub is_exact: bool,
}

/// Finds the smallest fatal loss, unless that takes more than `most_sums` sums of one size; then returns what is
/// proved.
#[must_use]
pub fn smallest_fatal_loss(graph: &Graph, most_sums: u64) -> FatalLoss {
    let columns = columns(graph);
    // A data block that is lost with all its checks is lost for good.
    let degree = |data: usize| graph.checks().iter().filter(|check| check.contains(&data)).count();
    let surely_fatal = (0..graph.data_count()).map(|data| 1 + degree(data)).min().unwrap_or(1);
    for size in 1..surely_fatal {
        if binomial(columns.len(), size.div_ceil(2)) > most_sums {
            return FatalLoss { at_least: size, is_exact: false };
        }
        if some_set_is_dependent(&columns, size) {
            return FatalLoss { at_least: size, is_exact: true };
        }
    }
    FatalLoss { at_least: surely_fatal, is_exact: true }
}

/// A column per block. Up to 128 checks the columns are as the module says; beyond, each check has a random word
/// instead of its unit vector. Sums that are zero stay zero, so no dependent set is missed. A false one, which occurs
/// once in 2^100 or so, would make the promise smaller, never wrong.
fn columns(graph: &Graph) -> Vec<u128> {
    let check_count = graph.checks().len();
    let mut random = Random::new(check_count as u64);
    let word_of_check = |check: usize| {
        if check_count <= u128::BITS as usize {
            return 1 << check;
        }
        u128::from(random.next()) << 64 | u128::from(random.next())
    };
    let words: Vec<u128> = (0..check_count).map(word_of_check).collect();
    let mut columns = vec![0; graph.data_count()];
    for (check, word) in graph.checks().iter().zip(&words) {
        check.iter().for_each(|&data| columns[data] ^= word);
    }
    columns.extend(words);
    columns
}

/// Do some `size` columns add up to zero? Assumes that no fewer do.
fn some_set_is_dependent(columns: &[u128], size: usize) -> bool {
    let mut small = Vec::new();
    each_sum(columns, size / 2, 0, &mut |sum| small.push(sum));
    small.sort_unstable();
    if size.is_multiple_of(2) {
        return small.windows(2).any(|pair| pair[0] == pair[1]);
    }
    // Most sums are found missing by one bit.
    let place = |sum: u128| {
        let mixed = (sum as u64 ^ (sum >> 64) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 42;
        (mixed as usize / 64, mixed % 64)
    };
    let mut seen = vec![0u64; 1 << 16];
    for &sum in &small {
        let (word, bit) = place(sum);
        seen[word] |= 1 << bit;
    }
    let mut is_dependent = false;
    each_sum(columns, size - size / 2, 0, &mut |sum| {
        let (word, bit) = place(sum);
        is_dependent |= seen[word] >> bit & 1 == 1 && small.binary_search(&sum).is_ok();
    });
    is_dependent
}

/// The sum of every `size` of the columns, each added to `sum`.
fn each_sum(columns: &[u128], size: usize, sum: u128, found: &mut impl FnMut(u128)) {
    if size == 0 {
        return found(sum);
    }
    for (index, column) in columns.iter().enumerate() {
        each_sum(&columns[index + 1..], size - 1, sum ^ column, found);
    }
}
