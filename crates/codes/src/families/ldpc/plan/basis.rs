//! A basis of all blocks that changes one member at a time. Every other block is a sum of members, stored as a bit per
//! member.
//!
//! It begins with the data blocks, of which every check is the sum that the graph says. So a few losses cost a few
//! exchanges and not an elimination of everything. Exchanging a member for a block whose sum contains it takes a row
//! operation for each other block whose sum contains it.

use super::Budget;
use crate::families::ldpc::graph::Graph;
use alloc::vec;
use alloc::vec::Vec;

/// Independent blocks that determine all others.
#[derive(Clone)]
pub(super) struct Basis {
    /// Words of a row.
    words: usize,
    /// By slot, which is the index of a bit: the member.
    members: Vec<usize>,
    /// By block: the slot of a member.
    slots: Vec<Option<usize>>,
    /// By block, `words` each: the members that it is the sum of. Rows of members are not kept.
    rows: Vec<u64>,
    /// The other blocks whose rows are kept.
    others: Vec<usize>,
}

impl Basis {
    pub(super) fn of_data(graph: &Graph) -> Basis {
        let (data_count, block_count) = (graph.data_count(), graph.block_count());
        let words = data_count.div_ceil(64);
        let mut rows = vec![0; block_count * words];
        for (block, check) in (data_count..).zip(graph.checks()) {
            check.iter().for_each(|data| rows[block * words + data / 64] |= 1 << (data % 64));
        }
        let slots = (0..block_count).map(|block| (block < data_count).then_some(block)).collect();
        Basis { words, members: (0..data_count).collect(), slots, rows, others: (data_count..block_count).collect() }
    }

    /// Words of a row.
    pub(super) fn words(&self) -> usize {
        self.words
    }

    /// Drops the rows of blocks that are not members.
    pub(super) fn retain_others(&mut self, is_kept: impl Fn(usize) -> bool) {
        self.others.retain(|&block| is_kept(block));
    }

    /// The blocks that are not members.
    pub(super) fn others(&self) -> &[usize] {
        &self.others
    }

    /// By slot: the member.
    pub(super) fn members(&self) -> &[usize] {
        &self.members
    }

    /// The slot of a member.
    pub(super) fn slot(&self, block: usize) -> Option<usize> {
        self.slots[block]
    }

    /// The members that a block is the sum of, if it is not a member.
    pub(super) fn row(&self, other: usize) -> &[u64] {
        &self.rows[other * self.words..(other + 1) * self.words]
    }

    /// The members that any block is the sum of.
    pub(super) fn sum_of(&self, block: usize) -> Vec<u64> {
        match self.slots[block] {
            None => self.row(block).to_vec(),
            Some(slot) => {
                let mut sum = vec![0; self.words];
                sum[slot / 64] |= 1 << (slot % 64);
                sum
            }
        }
    }

    /// Does the sum of another block contain the member in that slot?
    pub(super) fn is_in(&self, slot: usize, other: usize) -> bool {
        self.rows[other * self.words + slot / 64] >> (slot % 64) & 1 == 1
    }

    /// Exchanges the member in that slot for `incoming`, whose sum contains it.
    pub(super) fn exchange(&mut self, slot: usize, incoming: usize, budget: &mut Budget) {
        let outgoing = core::mem::replace(&mut self.members[slot], incoming);
        (self.slots[outgoing], self.slots[incoming]) = (None, Some(slot));
        let row = self.row(incoming).to_vec();
        budget.spend(self.others.len() + self.words);
        for place in 0..self.others.len() {
            let other = self.others[place];
            if other == incoming {
                self.others[place] = outgoing;
            } else if self.is_in(slot, other) {
                let words = &mut self.rows[other * self.words..(other + 1) * self.words];
                words.iter_mut().zip(&row).for_each(|(word, added)| *word ^= added);
                // The bit stood for the outgoing member, and stands now for the incoming one, which was in the sum that
                // is added.
                words[slot / 64] |= 1 << (slot % 64);
                budget.spend(self.words);
            }
        }
        // incoming = outgoing + rest, so outgoing = incoming + rest.
        self.rows[outgoing * self.words..(outgoing + 1) * self.words].copy_from_slice(&row);
    }
}

/// The places of the bits that are set.
pub(super) fn ones(words: &[u64]) -> impl Iterator<Item = usize> + '_ {
    words.iter().enumerate().flat_map(|(index, &word)| {
        let mut left = word;
        core::iter::from_fn(move || {
            let place = (left != 0).then(|| 64 * index + left.trailing_zeros() as usize);
            left &= left.wrapping_sub(1);
            place
        })
    })
}

/// How many bits are set.
pub(super) fn count_ones(words: &[u64]) -> u32 {
    words.iter().map(|word| word.count_ones()).sum()
}
