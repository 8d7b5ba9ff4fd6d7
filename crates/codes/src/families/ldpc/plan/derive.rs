//! From blocks read to blocks wanted: peeling, then elimination of what stops it.

use super::{Budget, Planner};
use crate::families::sums::{Sum, needed};
use crate::row::{Bits, Row, reduced};
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec;
use alloc::vec::Vec;

impl Planner {
    /// Sums from these blocks to the targets, each needed; `None` if the targets do not follow. Numbers from the block
    /// count on name intermediate sums.
    pub(super) fn derive(&self, reads: &[usize], targets: &[usize], budget: &mut Budget) -> Option<Vec<Sum>> {
        let mut known = vec![false; self.block_count()];
        let mut sums = self.peel(reads, &mut known, budget);
        if !targets.iter().all(|&block| known[block]) {
            sums.extend(self.eliminate(targets, &mut known, budget));
        }
        targets.iter().all(|&block| known[block]).then(|| needed(sums, targets))
    }

    /// As long as an equation has one unknown block, that one is the sum of the others.
    fn peel(&self, reads: &[usize], known: &mut [bool], budget: &mut Budget) -> Vec<Sum> {
        let mut sums = Vec::new();
        let mut unknown_counts: Vec<usize> = self.equations.iter().map(Vec::len).collect();
        budget.spend(unknown_counts.len());
        let mut ready: VecDeque<usize> = VecDeque::new();
        let mut learn = |block: usize, known: &mut [bool], ready: &mut VecDeque<usize>, budget: &mut Budget| {
            known[block] = true;
            budget.spend(self.equations_of[block].len());
            for &equation in &self.equations_of[block] {
                unknown_counts[equation] -= 1;
                if unknown_counts[equation] == 1 {
                    ready.push_back(equation);
                }
            }
        };
        reads.iter().for_each(|&block| learn(block, known, &mut ready, budget));
        while let Some(equation) = ready.pop_front() {
            let equation = &self.equations[equation];
            budget.spend(equation.len());
            // Another equation may have given it in the meantime.
            let Some(&block) = equation.iter().find(|&&block| !known[block]) else {
                continue;
            };
            sums.push(Sum { name: block, of: equation.iter().copied().filter(|&other| other != block).collect() });
            learn(block, known, &mut ready, budget);
        }
        sums
    }

    /// Solves the equations that peeling left for the unknown blocks that they determine. The known blocks of each
    /// equation are summed once, and solutions are sums of those sums.
    ///
    /// An unknown check that is not wanted is in one equation, which says only what the check would be. So only
    /// equations of known and of wanted checks are used, and of blocks only those in them.
    fn eliminate(&self, targets: &[usize], known: &mut [bool], budget: &mut Budget) -> Vec<Sum> {
        let is_of_use = |equation: &usize| {
            let check = self.data_count + equation;
            let has_unknown = self.equations[*equation].iter().any(|&block| !known[block]);
            has_unknown && (known[check] || targets.contains(&check))
        };
        let left: Vec<usize> = (0..self.equations.len()).filter(is_of_use).collect();
        let mut unknown: Vec<usize> = left.iter().flat_map(|&equation| &self.equations[equation]).copied().collect();
        budget.spend(self.equations.len() + unknown.len());
        unknown.retain(|&block| !known[block]);
        unknown.sort_unstable();
        unknown.dedup();
        let mut place = vec![None; known.len()];
        unknown.iter().enumerate().for_each(|(index, &block)| place[block] = Some(index));
        // A row per equation: its unknown blocks, then the equations that were added up.
        let width = unknown.len() + left.len();
        let row = |(index, &equation): (usize, &usize)| {
            let mut row = Bits::zeros(width);
            self.equations[equation].iter().filter_map(|&block| place[block]).for_each(|place| row.set(place));
            row.set(unknown.len() + index);
            row
        };
        let (rows, pivots) = reduced(left.iter().enumerate().map(row).collect(), unknown.len());

        let mut sums = Vec::new();
        let mut sum_of: BTreeMap<usize, usize> = BTreeMap::new();
        for (row, pivot) in rows.iter().zip(pivots) {
            if (pivot + 1..unknown.len()).any(|other| row.at(other) == 1) {
                continue;
            }
            let added = (0..left.len()).filter(|index| row.at(unknown.len() + index) == 1).map(|index| left[index]);
            let mut summed = Vec::new();
            for equation in added {
                let next = self.block_count() + sum_of.len();
                let sum = *sum_of.entry(equation).or_insert_with(|| {
                    let blocks = self.equations[equation].iter().copied().filter(|&block| place[block].is_none());
                    sums.push(Sum { name: next, of: blocks.collect() });
                    next
                });
                summed.push(sum);
            }
            sums.push(Sum { name: unknown[pivot], of: summed });
            known[unknown[pivot]] = true;
        }
        sums
    }
}
