//! From blocks read to blocks wanted: peeling, then elimination.

use super::Question;
use crate::families::sums::{Sum, needed};
use crate::row::{Bits, Row, reduced};
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec;
use alloc::vec::Vec;

impl Question<'_> {
    /// Sums from these blocks to the targets, each needed; `None` if the targets do not follow. Numbers from the block
    /// count on name what is needed only on the way.
    pub(super) fn derive(&self, reads: &[usize]) -> Option<Vec<Sum>> {
        let mut known = vec![false; self.graph.block_count()];
        reads.iter().for_each(|&block| known[block] = true);
        let mut sums = self.peel(&mut known);
        if !self.targets.iter().all(|&block| known[block]) {
            sums.extend(self.eliminate(&mut known));
        }
        self.targets.iter().all(|&block| known[block]).then(|| needed(sums, &self.targets))
    }

    /// As long as an equation has one unknown block, that one is the sum of the others.
    fn peel(&self, known: &mut [bool]) -> Vec<Sum> {
        let mut sums = Vec::new();
        let mut unknown_counts: Vec<usize> =
            self.equations.iter().map(|equation| equation.iter().filter(|&&block| !known[block]).count()).collect();
        let mut ready: VecDeque<usize> = (0..self.equations.len()).filter(|&e| unknown_counts[e] == 1).collect();
        while let Some(equation) = ready.pop_front() {
            let equation = &self.equations[equation];
            // Another equation may have given it in the meantime.
            let Some(&block) = equation.iter().find(|&&block| !known[block]) else {
                continue;
            };
            known[block] = true;
            sums.push(Sum { name: block, of: equation.iter().copied().filter(|&other| other != block).collect() });
            for &other in &self.equations_of[block] {
                unknown_counts[other] -= 1;
                if unknown_counts[other] == 1 {
                    ready.push_back(other);
                }
            }
        }
        sums
    }

    /// Solves the equations that peeling left, for the unknown blocks that they determine. What each equation knows is
    /// summed once; solutions are sums of those sums.
    fn eliminate(&self, known: &mut [bool]) -> Vec<Sum> {
        let left: Vec<usize> = (0..self.equations.len())
            .filter(|&equation| self.equations[equation].iter().any(|&block| !known[block]))
            .collect();
        let unknown: Vec<usize> = (0..known.len()).filter(|&block| !known[block]).collect();
        let mut place = vec![None; known.len()];
        unknown.iter().enumerate().for_each(|(index, &block)| place[block] = Some(index));
        // A row per equation: its unknown blocks, then which equations were added up.
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
                let next = self.graph.block_count() + sum_of.len();
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
