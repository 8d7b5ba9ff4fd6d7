//! Choosing what to read.
//!
//! Two candidates, each improved within the budget, of which the cheaper is taken:
//!
//! 1. *peeled*: the cheapest derivations by single equations (`peel.rs`). It is the best for one target and no overlap,
//!    and good otherwise.
//! 2. *spanned*: the cheapest basis, without members that no target needs. It is the best when all data are wanted, by
//!    the exchange property of matroids; and it works where peeling fails.
//!
//! An improvement replaces a block that is read by any other block whose sum contains it. The cheapest basis is first
//! improved as the generic engine does, by leaving out one block after another, so no candidate is dearer than the
//! engine's. With few offered blocks, that engine then proves the candidate the cheapest or finds the one that is.

use super::basis::{Basis, count_ones, ones};
use super::{Budget, Planner, Prices};
use crate::code::Price;
use crate::families::sums::{self, Sum};
use alloc::vec;
use alloc::vec::Vec;

/// Reads that suffice, and what follows from them.
pub(super) struct Candidate {
    pub(super) price: Price,
    /// Ascending, each used.
    pub(super) reads: Vec<usize>,
    pub(super) sums: Vec<Sum>,
}

impl Candidate {
    pub(super) fn new(reads: Vec<usize>, sums: Vec<Sum>, prices: &Prices) -> Candidate {
        let price = reads.iter().filter_map(|&block| prices[block]).fold(0, Price::saturating_add);
        Candidate { price, reads, sums }
    }

    /// Symbols that the program touches.
    fn symbols_touched(&self) -> usize {
        self.reads.len() + self.sums.iter().map(|sum| sum.of.len() + 1).sum::<usize>()
    }
}

impl Planner {
    /// The cheapest candidate found. If the offers do not determine all targets: which of them they determine.
    pub(super) fn cheapest(&self, targets: &[usize], prices: &Prices) -> Result<Candidate, Vec<bool>> {
        let mut budget = Budget::new(prices.len());
        let mut distinct = targets.to_vec();
        distinct.sort_unstable();
        distinct.dedup();
        let data_wanted = distinct.partition_point(|&block| block < self.data_count);
        let peeled = self.peeled(&distinct, prices, &mut budget);
        if let Some(peeled) = &peeled {
            budget.allow(peeled.symbols_touched());
        }
        let least_price = least_price(data_wanted, prices, &mut budget);
        let is_settled = |peeled: &Candidate, budget: &Budget| peeled.price <= least_price || budget.is_spent();
        match peeled {
            Some(peeled) if is_settled(&peeled, &budget) => Ok(peeled),
            peeled => self.improved(peeled, targets, &distinct, prices, &mut budget),
        }
    }

    /// The cheaper of the candidate that follows from `peeled`, if there is one, and of the cheapest basis.
    fn improved(
        &self,
        peeled: Option<Candidate>,
        targets: &[usize],
        distinct: &[usize],
        prices: &Prices,
        budget: &mut Budget,
    ) -> Result<Candidate, Vec<bool>> {
        let wants_all_data = distinct.partition_point(|&block| block < self.data_count) == self.data_count;
        let mut best: Option<(Price, Vec<usize>)> = None;
        let mut suggest = |choice: &Choice| {
            if best.as_ref().is_none_or(|(price, _)| choice.price < *price) {
                best = Some((choice.price, choice.reads()));
            }
        };
        if let Some(peeled) = &peeled
            && !wants_all_data
        {
            let mut choice = Choice::of_reads(self, &peeled.reads, distinct, prices, budget);
            choice.improve(budget);
            suggest(&choice);
        }
        let ranks = Ranks::new(distinct, prices, budget);
        // If all data are wanted it is the best, whatever peeling finds.
        let is_needed = wants_all_data || peeled.is_none();
        match Choice::of_cheapest_basis(self, distinct, prices, &ranks, is_needed, budget) {
            Some(mut choice) if choice.suffices() => {
                if !wants_all_data {
                    choice.leave_out(&ranks, budget);
                    choice.improve(budget);
                }
                suggest(&choice);
            }
            Some(choice) if peeled.is_none() => return Err(choice.determined(targets)),
            _ => {}
        }
        let better = best.filter(|(price, _)| peeled.as_ref().is_none_or(|peeled| *price < peeled.price));
        match (peeled, better) {
            (Some(peeled), None) => Ok(peeled),
            (_, better) => {
                let reads = better.map_or_else(Vec::new, |(_, reads)| reads);
                let sums = self.derive(&reads, distinct, budget).expect("what the basis says gives the targets");
                Ok(Candidate::new(sums::reads(&sums, distinct), sums, prices))
            }
        }
    }
}

/// A lower bound on the price: independent targets need as many reads as there are targets.
fn least_price(independent: usize, prices: &Prices, budget: &mut Budget) -> Price {
    let mut offered: Vec<Price> = prices.iter().flatten().copied().collect();
    budget.spend(offered.len());
    let count = independent.max(1).min(offered.len());
    if count > 0 && count < offered.len() {
        offered.select_nth_unstable(count - 1);
    }
    offered[..count].iter().fold(0, |sum, &price| sum.saturating_add(price))
}

/// Blocks in the order of preference: cheap before dear; at equal prices wanted ones first, so that they are read and
/// not computed; blocks that are not offered last.
struct Ranks {
    blocks: Vec<usize>,
    /// By block: its place in that order.
    ranks: Vec<usize>,
}

impl Ranks {
    fn new(targets: &[usize], prices: &Prices, budget: &mut Budget) -> Ranks {
        let mut is_wanted = vec![false; prices.len()];
        targets.iter().for_each(|&target| is_wanted[target] = true);
        let mut blocks: Vec<usize> = (0..prices.len()).collect();
        blocks.sort_unstable_by_key(|&block| (prices[block].is_none(), prices[block], !is_wanted[block], block));
        let mut ranks = vec![0; blocks.len()];
        blocks.iter().enumerate().for_each(|(rank, &block)| ranks[block] = rank);
        budget.spend(blocks.len() * (blocks.len() | 1).ilog2() as usize);
        Ranks { blocks, ranks }
    }
}

/// A basis, and the targets as sums of its members. The members in these sums are read.
struct Choice<'a> {
    basis: Basis,
    prices: &'a Prices,
    targets: &'a [usize],
    /// By target: the members that it is the sum of.
    sums: Vec<Vec<u64>>,
    price: Price,
}

impl<'a> Choice<'a> {
    /// From a basis that contains these reads, as far as they are independent. They determine the targets.
    fn of_reads(
        planner: &Planner,
        reads: &[usize],
        targets: &'a [usize],
        prices: &'a Prices,
        budget: &mut Budget,
    ) -> Choice<'a> {
        let mut basis = usable_basis(planner, targets, prices, budget);
        let mut is_read = vec![false; prices.len()];
        reads.iter().for_each(|&block| is_read[block] = true);
        for &block in reads.iter().filter(|&&block| block >= planner.data_count) {
            let free = |slot: &usize| !is_read[basis.members()[*slot]];
            // Members that cannot be read are exchanged first.
            let slot = ones(basis.row(block)).filter(free).max_by_key(|&slot| {
                let price = prices[basis.members()[slot]];
                (price.is_none(), price)
            });
            if let Some(slot) = slot {
                basis.exchange(slot, block, budget);
            }
        }
        Choice::new(basis, targets, prices, budget)
    }

    /// From the basis of least price, found by removing the dearest members first (the reverse greedy choice). `None`
    /// if it is not `needed` and the budget does not suffice. If it is needed, it goes as far as targets need it.
    fn of_cheapest_basis(
        planner: &Planner,
        targets: &'a [usize],
        prices: &'a Prices,
        ranks: &Ranks,
        is_needed: bool,
        budget: &mut Budget,
    ) -> Option<Choice<'a>> {
        let mut basis = usable_basis(planner, targets, prices, budget);
        let mut is_allowed = false;
        // The cheapest block that is not a member: members that are cheaper stay.
        let mut cheapest_other = 0;
        for (rank, &block) in ranks.blocks.iter().enumerate().rev() {
            let Some(slot) = basis.slot(block) else { continue };
            if prices[block].is_some() && is_needed && !core::mem::replace(&mut is_allowed, true) {
                // The remaining steps only make it cheaper.
                let choice = Choice::new(basis, targets, prices, budget);
                if !choice.suffices() {
                    return Some(choice);
                }
                budget.allow(choice.reads().len() + targets.len());
                basis = choice.basis;
            }
            let may_stop = prices[block].is_some() || !is_needed;
            if may_stop && budget.is_spent() {
                if !is_needed {
                    return None;
                }
                break;
            }
            while cheapest_other < rank && basis.slot(ranks.blocks[cheapest_other]).is_some() {
                cheapest_other += 1;
            }
            if cheapest_other >= rank {
                break;
            }
            let may_replace =
                |other: &usize| prices[*other].is_some() && ranks.ranks[*other] < rank && basis.is_in(slot, *other);
            budget.spend(basis.others().len());
            let sparsest = basis
                .others()
                .iter()
                .copied()
                .filter(may_replace)
                .min_by_key(|&other| (count_ones(basis.row(other)), other));
            if let Some(other) = sparsest {
                basis.exchange(slot, other, budget);
            }
        }
        Some(Choice::new(basis, targets, prices, budget))
    }

    fn new(basis: Basis, targets: &'a [usize], prices: &'a Prices, budget: &mut Budget) -> Choice<'a> {
        let sums: Vec<Vec<u64>> = targets.iter().map(|&target| basis.sum_of(target)).collect();
        budget.spend(sums.len() * basis.words());
        let mut choice = Choice { basis, prices, targets, sums, price: 0 };
        choice.price = choice.price_of(&choice.used(), None, budget).unwrap_or(Price::MAX);
        choice
    }

    /// Are all members that targets need offered?
    fn suffices(&self) -> bool {
        ones(&self.used()).all(|slot| self.prices[self.basis.members()[slot]].is_some())
    }

    /// For each of these targets: does it follow from the offers?
    fn determined(&self, targets: &[usize]) -> Vec<bool> {
        let is_determined = |target: &usize| {
            let sum = self.targets.binary_search(target).ok().map(|place| &self.sums[place]);
            sum.is_some_and(|sum| ones(sum).all(|slot| self.prices[self.basis.members()[slot]].is_some()))
        };
        targets.iter().map(is_determined).collect()
    }

    /// The members that are in the sum of any target.
    fn used(&self) -> Vec<u64> {
        let mut used = vec![0; self.basis.words()];
        for sum in &self.sums {
            used.iter_mut().zip(sum).for_each(|(word, of_sum)| *word |= of_sum);
        }
        used
    }

    /// The reads, ascending.
    fn reads(&self) -> Vec<usize> {
        let mut reads: Vec<usize> = ones(&self.used()).map(|slot| self.basis.members()[slot]).collect();
        reads.sort_unstable();
        reads
    }

    /// The price of these members with one of them exchanged for another block; `None` if one is not offered.
    fn price_of(&self, used: &[u64], exchanged: Option<(usize, usize)>, budget: &mut Budget) -> Option<Price> {
        budget.spend(count_ones(used) as usize);
        let price = |slot| match exchanged {
            Some((of, incoming)) if of == slot => self.prices[incoming],
            _ => self.prices[self.basis.members()[slot]],
        };
        ones(used).try_fold(0, |sum: Price, slot| Some(sum.saturating_add(price(slot)?)))
    }

    /// The price with `incoming` in the place of the member in that slot, which is in its sum; `None` if the targets do
    /// not follow.
    fn price_after(&self, slot: usize, incoming: usize, budget: &mut Budget) -> Option<Price> {
        let row = self.basis.row(incoming);
        let mut used = vec![0; row.len()];
        for sum in &self.sums {
            if sum[slot / 64] >> (slot % 64) & 1 == 0 {
                used.iter_mut().zip(sum).for_each(|(word, of_sum)| *word |= of_sum);
            } else {
                used.iter_mut().zip(sum.iter().zip(row)).for_each(|(word, (of_sum, of_row))| *word |= of_sum ^ of_row);
            }
        }
        budget.spend(self.sums.len() * row.len());
        used[slot / 64] |= 1 << (slot % 64);
        self.price_of(&used, Some((slot, incoming)), budget)
    }

    /// Puts `incoming` in the place of the member in that slot.
    fn exchange(&mut self, slot: usize, incoming: usize, price: Price, budget: &mut Budget) {
        let row = self.basis.row(incoming);
        budget.spend(self.sums.len() * row.len());
        for sum in &mut self.sums {
            if sum[slot / 64] >> (slot % 64) & 1 == 1 {
                sum.iter_mut().zip(row).for_each(|(word, of_row)| *word ^= of_row);
                sum[slot / 64] |= 1 << (slot % 64);
            }
        }
        self.basis.exchange(slot, incoming, budget);
        self.price = price;
    }

    /// From a cheapest basis: leaves out one block after another, each time the one that saves the most, as long as the
    /// price falls. The cheapest possible block replaces it, so the basis stays the cheapest of the remaining blocks.
    fn leave_out(&mut self, ranks: &Ranks, budget: &mut Budget) {
        let mut is_left_out = vec![false; self.prices.len()];
        loop {
            let mut best: Option<(Price, usize, usize)> = None;
            for block in self.reads() {
                if budget.is_spent() {
                    return;
                }
                let Some(slot) = self.basis.slot(block) else { continue };
                let may_replace = |other: &usize| {
                    self.prices[*other].is_some() && !is_left_out[*other] && self.basis.is_in(slot, *other)
                };
                let others = self.basis.others().iter().copied();
                let next = others.filter(may_replace).min_by_key(|&other| ranks.ranks[other]);
                budget.spend(self.basis.others().len());
                if let Some(other) = next
                    && let Some(price) = self.price_after(slot, other, budget)
                    && best.is_none_or(|(least, ..)| price < least)
                {
                    best = Some((price, slot, other));
                }
            }
            match best {
                Some((price, slot, other)) if price < self.price => {
                    is_left_out[self.basis.members()[slot]] = true;
                    self.exchange(slot, other, price, budget);
                }
                _ => return,
            }
        }
    }

    /// Exchanges members as long as that makes the candidate cheaper and the budget lasts.
    fn improve(&mut self, budget: &mut Budget) {
        loop {
            let before = self.price;
            for slot in ones(&self.used()).collect::<Vec<_>>() {
                let mut best = None;
                for place in 0..self.basis.others().len() {
                    if budget.is_spent() {
                        return;
                    }
                    let other = self.basis.others()[place];
                    if self.prices[other].is_some() && self.basis.is_in(slot, other) {
                        let price = self.price_after(slot, other, budget);
                        best = best.into_iter().chain(price.map(|price| (price, other))).min();
                    }
                }
                budget.spend(self.basis.others().len());
                match best {
                    Some((price, other)) if price < self.price => self.exchange(slot, other, price, budget),
                    _ => {}
                }
            }
            if self.price >= before {
                return;
            }
        }
    }
}

/// The data blocks as a basis; of the other blocks those that are offered or wanted have rows.
fn usable_basis(planner: &Planner, targets: &[usize], prices: &Prices, budget: &mut Budget) -> Basis {
    let mut basis = planner.basis.clone();
    basis.retain_others(|block| prices[block].is_some() || targets.binary_search(&block).is_ok());
    budget.spend(prices.len());
    basis
}
