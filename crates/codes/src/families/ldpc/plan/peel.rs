//! The cheapest derivation of every block by single equations, found in the order of growing price (Dijkstra's
//! algorithm on a hypergraph, Knuth 1977). A derivation that uses a block twice counts it twice, so the result is the
//! best for one target and no overlap, and good otherwise.

use super::choose::Candidate;
use super::{Budget, Planner, Prices};
use crate::code::Price;
use crate::families::sums::{self, Sum};
use alloc::collections::BinaryHeap;
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;

/// A block that may be settled: its price, the equation it follows from (none if it is read), and the block.
type Open = Reverse<(Price, Option<usize>, usize)>;

/// How a settled block is obtained.
#[derive(Clone, Copy)]
struct Settled {
    /// Its rank in the order of settling: a block follows from blocks of lower rank.
    order: usize,
    by: Option<usize>,
}

/// Operations of adding to or taking from a heap of some hundred.
const HEAP_OPERATIONS: usize = 8;

impl Planner {
    /// The reads and equations of the targets; `None` if single equations do not give all of them.
    pub(super) fn peeled(&self, targets: &[usize], prices: &Prices, budget: &mut Budget) -> Option<Candidate> {
        let settled = self.settled(targets, prices, budget);
        let mut derived = Vec::new();
        let mut is_met = vec![false; prices.len()];
        let mut to_visit = targets.to_vec();
        while let Some(block) = to_visit.pop() {
            if core::mem::replace(&mut is_met[block], true) {
                continue;
            }
            let Settled { order, by } = settled[block]?;
            if let Some(equation) = by {
                let others = self.equations[equation].iter().copied().filter(|&other| other != block);
                let sum = Sum { name: block, of: others.collect() };
                budget.spend(sum.of.len() + 1);
                to_visit.extend(&sum.of);
                derived.push((order, sum));
            }
        }
        derived.sort_unstable_by_key(|(order, _)| *order);
        let sums: Vec<Sum> = derived.into_iter().map(|(_, sum)| sum).collect();
        Some(Candidate::new(sums::reads(&sums, targets), sums, prices))
    }

    /// By block: its cheapest derivation, as far as the targets need it.
    fn settled(&self, targets: &[usize], prices: &Prices, budget: &mut Budget) -> Vec<Option<Settled>> {
        let mut settled: Vec<Option<Settled>> = vec![None; prices.len()];
        let mut is_target = vec![false; prices.len()];
        targets.iter().for_each(|&target| is_target[target] = true);
        let mut targets_left = is_target.iter().filter(|&&is_target| is_target).count();
        // By equation: the number of its blocks that are not settled, and the price of the others.
        let mut sums: Vec<(usize, Price)> = self.equations.iter().map(|equation| (equation.len(), 0)).collect();
        let read = |block: usize| Some(Reverse((prices[block]?, None, block)));
        let mut open: BinaryHeap<Open> = (0..prices.len()).filter_map(read).collect::<Vec<_>>().into();
        budget.spend(prices.len() + self.equations.len());
        let mut order = 0;
        while targets_left > 0
            && let Some(Reverse((price, by, block))) = open.pop()
        {
            budget.spend(HEAP_OPERATIONS + self.equations_of[block].len());
            if settled[block].is_some() {
                continue;
            }
            order += 1;
            settled[block] = Some(Settled { order, by });
            targets_left -= usize::from(is_target[block]);
            for &equation in &self.equations_of[block] {
                let (unsettled, sum) = &mut sums[equation];
                *unsettled -= 1;
                *sum = sum.saturating_add(price);
                if *unsettled == 1
                    && let Some(&last) = self.equations[equation].iter().find(|&&other| settled[other].is_none())
                {
                    budget.spend(HEAP_OPERATIONS + self.equations[equation].len());
                    open.push(Reverse((*sum, Some(equation), last)));
                }
            }
        }
        settled
    }
}
