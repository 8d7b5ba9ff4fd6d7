//! Choosing what to read.
//!
//! Three suggestions, of which the cheapest is taken:
//!
//! 1. *peeled*: the cheapest derivation of every block by single equations, found in the order of growing price
//!    (Dijkstra's algorithm on a hypergraph, Knuth 1977). A derivation that uses a block twice counts it twice, so this
//!    is the best for one target and no overlap, and good otherwise;
//! 2. *spanned*: the cheapest basis, taken greedily, without what the targets do not need. The best when all data are
//!    wanted, by the exchange property of matroids;
//! 3. 2, and the better of 1 and 2, again without one block that the best so far reads, as long as that helps.
//!
//! Where few blocks are offered, the generic engine then proves the answer the cheapest or finds the one that is.

use super::{Prices, Question};
use crate::code::Price;
use crate::families::sums::{self, Sum};
use crate::linear::span::Span;
use crate::row::Bits;
use alloc::collections::BinaryHeap;
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;

/// Blocks that are left out by way of trial, each at about a tenth of a millisecond in a graph of 100+100.
const MOST_TRIALS: usize = 200;

/// Reads that suffice, and what follows from them.
pub(super) struct Answer {
    pub(super) price: Price,
    /// Ascending, each used.
    pub(super) reads: Vec<usize>,
    pub(super) sums: Vec<Sum>,
}

impl Question<'_> {
    /// The cheapest answer found; `None` if there is none.
    pub(super) fn cheapest(&self, prices: &Prices) -> Option<Answer> {
        let mut best = self.spanned(prices)?;
        let least_price = self.least_price(prices);
        for suggest in [Self::spanned, Self::peeled_or_spanned] {
            if best.price > least_price
                && let Some(answer) = suggest(self, prices)
            {
                let answer = self.improved(answer, prices, suggest);
                best = if answer.price < best.price { answer } else { best };
            }
        }
        Some(best)
    }

    /// Is each target determined by what is offered?
    pub(super) fn determined(&self, prices: &Prices) -> Vec<bool> {
        let span = self.span((0..prices.len()).filter(|&block| prices[block].is_some()));
        self.targets.iter().map(|&target| span.express(&self.graph.row(target)).is_some()).collect()
    }

    fn span(&self, blocks: impl Iterator<Item = usize>) -> Span<Bits> {
        let mut span = Span::new(self.graph.data_count());
        blocks.for_each(|block| span.insert(block, &self.graph.row(block)));
        span
    }

    /// No answer is cheaper: independent targets need as many reads.
    fn least_price(&self, prices: &Prices) -> Price {
        let rank = self.span(self.targets.iter().copied()).members().len();
        let mut offered: Vec<Price> = prices.iter().flatten().copied().collect();
        offered.sort_unstable();
        offered.iter().take(rank).fold(0, |sum, &price| sum.saturating_add(price))
    }

    fn peeled_or_spanned(&self, prices: &Prices) -> Option<Answer> {
        let peeled = self.peeled_reads(prices).and_then(|reads| self.answer(&reads, prices));
        peeled.into_iter().chain(self.spanned(prices)).min_by_key(|answer| answer.price)
    }

    fn spanned(&self, prices: &Prices) -> Option<Answer> {
        self.answer(&self.spanned_reads(prices)?, prices)
    }

    fn improved(&self, mut best: Answer, prices: &Prices, suggest: fn(&Self, &Prices) -> Option<Answer>) -> Answer {
        let mut prices = prices.to_vec();
        for _ in 0..MOST_TRIALS.div_ceil(best.reads.len()) {
            let without = |&block: &usize| {
                let mut prices = prices.clone();
                prices[block] = None;
                Some((suggest(self, &prices)?, block))
            };
            match best.reads.iter().filter_map(without).min_by_key(|(answer, _)| answer.price) {
                Some((answer, block)) if answer.price < best.price => {
                    best = answer;
                    prices[block] = None;
                }
                _ => break,
            }
        }
        best
    }

    fn answer(&self, reads: &[usize], prices: &Prices) -> Option<Answer> {
        let sums = self.derive(reads)?;
        let reads = sums::reads(&sums, &self.targets);
        let price = reads.iter().filter_map(|&block| prices[block]).fold(0, Price::saturating_add);
        Some(Answer { price, reads, sums })
    }

    /// Reads of the cheapest derivations by peeling.
    fn peeled_reads(&self, prices: &Prices) -> Option<Vec<usize>> {
        // By block, once it is settled: the equation it follows from, or none where it is read.
        let mut settled: Vec<Option<Option<usize>>> = vec![None; prices.len()];
        let mut sums: Vec<(usize, Price)> = self.equations.iter().map(|equation| (equation.len(), 0)).collect();
        let read = |block: usize| Some(Reverse((prices[block]?, None, block)));
        let mut open: BinaryHeap<Reverse<(Price, Option<usize>, usize)>> = (0..prices.len()).filter_map(read).collect();
        while let Some(Reverse((price, by, block))) = open.pop() {
            if settled[block].is_some() {
                continue;
            }
            settled[block] = Some(by);
            for &equation in &self.equations_of[block] {
                let (unsettled, sum) = &mut sums[equation];
                *unsettled -= 1;
                *sum = sum.saturating_add(price);
                if *unsettled == 1
                    && let Some(&last) = self.equations[equation].iter().find(|&&other| settled[other].is_none())
                {
                    open.push(Reverse((*sum, Some(equation), last)));
                }
            }
        }
        let mut reads = Vec::new();
        let mut is_met = vec![false; prices.len()];
        let mut to_visit = self.targets.clone();
        while let Some(block) = to_visit.pop() {
            if core::mem::replace(&mut is_met[block], true) {
                continue;
            }
            match settled[block]? {
                None => reads.push(block),
                Some(equation) => to_visit.extend(self.equations[equation].iter().filter(|&&other| other != block)),
            }
        }
        Some(reads)
    }

    /// Reads of the greedy basis that the targets need.
    fn spanned_reads(&self, prices: &Prices) -> Option<Vec<usize>> {
        let wanted_first = |block: usize| Some((prices[block]?, !self.targets.contains(&block), block));
        let mut order: Vec<(Price, bool, usize)> = (0..prices.len()).filter_map(wanted_first).collect();
        order.sort_unstable();
        let span = self.span(order.into_iter().map(|(_, _, block)| block));
        let mut reads = Vec::new();
        for &target in &self.targets {
            let coefficients = span.express(&self.graph.row(target))?;
            let members = span.members().iter().zip(coefficients);
            reads.extend(members.filter(|&(_, coefficient)| coefficient != 0).map(|(&block, _)| block));
        }
        Some(reads)
    }
}
