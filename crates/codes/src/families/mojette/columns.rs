//! Sets of columns of a row, in words of 64, so that planners shift whole rows along a direction at once.

use alloc::vec;
use alloc::vec::Vec;

/// Bits of a word.
const WORD: usize = u64::BITS as usize;

/// Some of the columns `0..count`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Columns {
    count: usize,
    words: Vec<u64>,
}

impl Columns {
    /// None of `count` columns.
    pub(super) fn none(count: usize) -> Columns {
        Columns { count, words: vec![0; count.div_ceil(WORD)] }
    }

    /// Adds an existing column.
    pub(super) fn add(&mut self, column: usize) {
        self.words[column / WORD] |= 1 << (column % WORD);
    }

    /// Is this existing column among them?
    pub(super) fn has(&self, column: usize) -> bool {
        self.words[column / WORD] >> (column % WORD) & 1 == 1
    }

    /// The number of columns.
    pub(super) fn len(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Adds the columns of another set of the same row length, shifted by `by`; columns beyond the row are dropped.
    pub(super) fn add_moved(&mut self, others: &Columns, by: isize) {
        let (words, bits) = (by.unsigned_abs() / WORD, by.unsigned_abs() % WORD);
        let at = |index: Option<usize>| index.and_then(|index| others.words.get(index)).copied().unwrap_or(0);
        for (index, word) in self.words.iter_mut().enumerate() {
            let (near, far) = if by >= 0 {
                let from = index.checked_sub(words);
                (at(from) << bits, at(from.and_then(|from| from.checked_sub(1))).checked_shr((WORD - bits) as u32))
            } else {
                (at(Some(index + words)) >> bits, at(Some(index + words + 1)).checked_shl((WORD - bits) as u32))
            };
            *word |= near | far.unwrap_or(0);
        }
        if let Some(last) = self.words.last_mut()
            && !self.count.is_multiple_of(WORD)
        {
            *last &= (1 << (self.count % WORD)) - 1;
        }
    }

    /// The number of words: the cost of a pass over all columns.
    pub(super) fn word_count(&self) -> usize {
        self.words.len()
    }
}

#[cfg(test)]
#[path = "columns_tests.rs"]
mod tests;
