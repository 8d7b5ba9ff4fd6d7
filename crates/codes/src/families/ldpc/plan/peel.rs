//! The cheapest derivation of every block by single equations, found in the order of growing price (Dijkstra's algorithm on a
//! hypergraph, Knuth 1977). A derivation that uses a block twice counts it twice, so this is the best for one target and no
//! overlap, and good otherwise.

use super::choose::Answer;
use super::{Budget, Planner, Prices};
use crate::code::Price;
use crate::families::sums::{self, Sum};
use alloc::collections::BinaryHeap;
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;

/// A block that may be settled: its price, the equation it follows from (none where it is read), and the block.
type Open = Reverse<(Price, Option<usize>, usize)>;

/// How a block is had, once that is settled.
#[derive(Clone, Copy)]
struct Settled {
    /// The so-manieth that was settled: what a block follows from comes before it.
    order: usize,
    by: Option<usize>,
}

/// Operations of adding to a heap of some hundred or taking from it.
const HEAP_OPERATIONS: usize = 8;

impl Planner {
    /// What single equations give; `None` where they do not give every target.
    pub(super) fn peeled(&self, targets: &[usize], prices: &Prices, budget: &mut Budget) -> Option<Answer> {
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
        Some(Answer::new(sums::reads(&sums, targets), sums, prices))
    }

    /// By block: how it is had for the least, as far as that had to be found out for the targets.
    fn settled(&self, targets: &[usize], prices: &Prices, budget: &mut Budget) -> Vec<Option<Settled>> {
        let mut settled: Vec<Option<Settled>> = vec![None; prices.len()];
        let mut is_target = vec![false; prices.len()];
        targets.iter().for_each(|&target| is_target[target] = true);
        let mut targets_left = is_target.iter().filter(|&&is_target| is_target).count();
        // By equation: how many of its blocks are not settled, and what the others cost.
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
