//! From blocks read to blocks wanted: peeling, then elimination.

use super::Question;
use crate::program::{Op, Program, SymbolId};
use crate::row::{Bits, Row, reduced};
use std::collections::{HashMap, VecDeque};

/// `block` = the XOR of `from`. Numbers from the block count on are sums needed only on the way.
#[derive(Clone, Debug)]
pub(super) struct Step {
    block: usize,
    from: Vec<usize>,
}

impl Question<'_> {
    /// Steps from these blocks to the targets, each needed; `None` if the targets do not follow.
    pub(super) fn derive(&self, reads: &[usize]) -> Option<Vec<Step>> {
        let mut known = vec![false; self.graph.block_count()];
        reads.iter().for_each(|&block| known[block] = true);
        let mut steps = self.peel(&mut known);
        if !self.targets.iter().all(|&block| known[block]) {
            steps.extend(self.eliminate(&mut known));
        }
        self.targets.iter().all(|&block| known[block]).then(|| self.needed(steps))
    }

    /// As long as an equation has one unknown block, that one is the sum of the others.
    fn peel(&self, known: &mut [bool]) -> Vec<Step> {
        let mut steps = Vec::new();
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
            steps.push(Step { block, from: equation.iter().copied().filter(|&other| other != block).collect() });
            for &other in &self.equations_of[block] {
                unknown_counts[other] -= 1;
                if unknown_counts[other] == 1 {
                    ready.push_back(other);
                }
            }
        }
        steps
    }

    /// Solves the equations that peeling left, for the unknown blocks that they determine. What each equation knows is
    /// summed once; solutions are sums of those sums.
    fn eliminate(&self, known: &mut [bool]) -> Vec<Step> {
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

        let mut steps = Vec::new();
        let mut sums: HashMap<usize, usize> = HashMap::new();
        for (row, pivot) in rows.iter().zip(pivots) {
            if (pivot + 1..unknown.len()).any(|other| row.at(other) == 1) {
                continue;
            }
            let added = (0..left.len()).filter(|index| row.at(unknown.len() + index) == 1).map(|index| left[index]);
            let mut from = Vec::new();
            for equation in added {
                let next = self.graph.block_count() + sums.len();
                let sum = *sums.entry(equation).or_insert_with(|| {
                    let blocks = self.equations[equation].iter().copied().filter(|&block| place[block].is_none());
                    steps.push(Step { block: next, from: blocks.collect() });
                    next
                });
                from.push(sum);
            }
            steps.push(Step { block: unknown[pivot], from });
            known[unknown[pivot]] = true;
        }
        steps
    }

    /// The steps that the targets depend on.
    fn needed(&self, steps: Vec<Step>) -> Vec<Step> {
        let most = steps.iter().map(|step| step.block + 1).fold(self.graph.block_count(), usize::max);
        let mut needed = vec![false; most];
        self.targets.iter().for_each(|&block| needed[block] = true);
        let mut kept: Vec<Step> = Vec::with_capacity(steps.len());
        for step in steps.into_iter().rev() {
            if needed[step.block] {
                step.from.iter().for_each(|&block| needed[block] = true);
                kept.push(step);
            }
        }
        kept.reverse();
        kept
    }
}

/// Of these reads, those that the steps or the targets use.
pub(super) fn used(reads: &[usize], steps: &[Step], targets: &[usize]) -> Vec<usize> {
    let most =
        reads.iter().chain(targets).chain(steps.iter().flat_map(|step| &step.from)).max().map_or(0, |&last| last + 1);
    let mut is_used = vec![false; most];
    steps.iter().flat_map(|step| &step.from).chain(targets).for_each(|&block| is_used[block] = true);
    reads.iter().copied().filter(|&block| is_used[block]).collect()
}

/// The program of these steps: an input per read, an output per target.
pub(super) fn program(reads: &[usize], steps: &[Step], targets: &[usize]) -> Program {
    let mut symbols: HashMap<usize, SymbolId> =
        reads.iter().enumerate().map(|(input, &block)| (block, input)).collect();
    let mut copies = Vec::new();
    for (output, &block) in targets.iter().enumerate().map(|(index, block)| (reads.len() + index, block)) {
        match symbols.get(&block) {
            Some(&from) => copies.push(Op::Copy { from, to: output }),
            None => {
                symbols.insert(block, output);
            }
        }
    }
    let mut next = reads.len() + targets.len();
    let mut ops = Vec::with_capacity(steps.len() + copies.len());
    for step in steps {
        let from: Vec<SymbolId> = step.from.iter().filter_map(|block| symbols.get(block).copied()).collect();
        let to = *symbols.entry(step.block).or_insert_with(|| {
            next += 1;
            next - 1
        });
        ops.push(match from[..] {
            [from] => Op::Copy { from, to },
            _ => Op::Xor { from, to },
        });
    }
    ops.extend(copies);
    let temporary_count = next - reads.len() - targets.len();
    Program { input_count: reads.len(), output_count: targets.len(), temporary_count, ops }
}
