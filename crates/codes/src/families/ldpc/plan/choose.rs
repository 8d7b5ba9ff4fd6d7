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
//! In graphs of at most [`MOST_PROVED_BLOCKS`] blocks a search over all sets, cut short wherever it cannot get cheaper,
//! then proves the answer the cheapest or finds the one that is.

use super::{Prices, Question};
use crate::code::Price;
use crate::families::sums::{self, Sum};
use crate::linear::span::Span;
use crate::row::Bits;
use alloc::collections::BinaryHeap;
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;

/// Twice as many sets for each block more; so many take well below a millisecond.
const MOST_PROVED_BLOCKS: usize = 16;

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
        if best.price <= least_price || self.graph.block_count() > MOST_PROVED_BLOCKS {
            return Some(best);
        }
        let proved = Proof::new(self, prices, best.price).search();
        proved.and_then(|reads| self.answer(&reads, prices)).or(Some(best))
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

/// The search over all sets of reads, cheapest blocks first, a bit per data block.
struct Proof {
    /// (price, the data blocks it sums, block), ascending.
    offered: Vec<(Price, u32, usize)>,
    targets: Vec<u32>,
    /// Only what is cheaper is looked for.
    below: Price,
    best: Option<Vec<usize>>,
}

impl Proof {
    fn new(question: &Question<'_>, prices: &Prices, below: Price) -> Proof {
        let data_count = question.graph.data_count();
        let mask = |block: usize| match block.checked_sub(data_count) {
            None => 1 << block,
            Some(check) => question.graph.checks()[check].iter().fold(0, |mask, data| mask | 1 << data),
        };
        let offer = |block: usize| Some((prices[block]?, mask(block), block));
        let mut offered: Vec<(Price, u32, usize)> = (0..prices.len()).filter_map(offer).collect();
        offered.sort_unstable();
        Proof { offered, targets: question.targets.iter().map(|&block| mask(block)).collect(), below, best: None }
    }

    /// The cheapest set below the price given, if there is any.
    fn search(mut self) -> Option<Vec<usize>> {
        let targets = independent(&[], &self.targets);
        self.visit(0, 0, &mut Vec::new(), &targets, &mut Vec::new());
        self.best
    }

    /// `rows`: what was chosen, reduced; `missing`: what the targets add to it, reduced; `next`: the first block not yet
    /// decided on.
    fn visit(&mut self, next: usize, price: Price, rows: &mut Vec<u32>, missing: &[u32], chosen: &mut Vec<usize>) {
        if missing.is_empty() {
            (self.below, self.best) = (price, Some(chosen.clone()));
            return;
        }
        // Each further read makes one less missing, at best.
        let dues = self.offered[next..].iter().take(missing.len()).map(|offer| offer.0);
        let least = dues.fold(price, Price::saturating_add);
        if least >= self.below || self.offered.len() - next < missing.len() {
            return;
        }
        let (due, mask, block) = self.offered[next];
        let row = residual(rows, mask);
        if row != 0 {
            rows.push(row);
            chosen.push(block);
            let left = independent(rows, missing);
            self.visit(next + 1, price.saturating_add(due), rows, &left, chosen);
            chosen.pop();
            rows.pop();
        }
        self.visit(next + 1, price, rows, missing, chosen);
    }
}

/// What is left of the mask modulo these rows, of which each is zero at the leading ones of those before.
fn residual(rows: &[u32], mask: u32) -> u32 {
    rows.iter().fold(mask, |mask, &row| if mask >> row.ilog2() & 1 == 1 { mask ^ row } else { mask })
}

/// What the masks add to the span of the rows, reduced.
fn independent(rows: &[u32], masks: &[u32]) -> Vec<u32> {
    let mut all = rows.to_vec();
    for &mask in masks {
        let row = residual(&all, mask);
        if row != 0 {
            all.push(row);
        }
    }
    all.split_off(rows.len())
}
