//! Lists of sums of symbols, and the programs they make. Planners of XOR codes write down with them how symbols follow
//! from each other. A symbol's name is any number that the planner chooses.

use crate::program::{Op, Program, SymbolId};
use crate::work::spend;
use alloc::vec;
use alloc::vec::Vec;

/// The symbol `name` is the XOR of these, each named once; zeros if there are none.
#[derive(Clone, Debug)]
pub(super) struct Sum {
    pub(super) name: usize,
    pub(super) of: Vec<usize>,
}

impl Sum {
    /// The sum of nothing.
    pub(super) fn zero(name: usize) -> Sum {
        Sum { name, of: Vec::new() }
    }
}

/// The sums that the wanted symbols depend on, in the same order.
pub(super) fn needed(sums: Vec<Sum>, wanted: &[usize]) -> Vec<Sum> {
    let mut is_needed = Flags::of(wanted);
    let mut kept = Vec::with_capacity(sums.len());
    for sum in sums.into_iter().rev() {
        spend(1);
        if is_needed.at(sum.name) {
            spend(sum.of.len());
            sum.of.iter().for_each(|&name| is_needed.set(name));
            kept.push(sum);
        }
    }
    kept.reverse();
    kept
}

/// The symbols to read for these sums and the wanted symbols: all that no sum computes, ascending.
pub(super) fn reads(sums: &[Sum], wanted: &[usize]) -> Vec<usize> {
    let is_given = Flags::of(&sums.iter().map(|sum| sum.name).collect::<Vec<_>>());
    let named = sums.iter().flat_map(|sum| &sum.of).chain(wanted).copied();
    let mut reads: Vec<usize> = named.filter(|&name| !is_given.at(name)).collect();
    spend(sums.iter().map(|sum| sum.of.len() + 1).sum::<usize>() + wanted.len() + reads.len());
    reads.sort_unstable();
    reads.dedup();
    reads
}

/// The program of these sums: an input per read, an output per wanted symbol.
pub(super) fn program(reads: &[usize], sums: Vec<Sum>, wanted: &[usize]) -> Program {
    let most = reads.iter().chain(wanted).chain(sums.iter().map(|sum| &sum.name)).max().map_or(0, |&last| last + 1);
    let mut symbols: Vec<Option<SymbolId>> = vec![None; most];
    reads.iter().enumerate().for_each(|(input, &name)| symbols[name] = Some(input));
    let mut copies = Vec::new();
    for (output, &name) in wanted.iter().enumerate().map(|(index, name)| (reads.len() + index, name)) {
        match symbols[name] {
            Some(from) => copies.push(Op::Copy { from, to: output }),
            None => symbols[name] = Some(output),
        }
    }
    let mut next = reads.len() + wanted.len();
    let mut ops = Vec::with_capacity(sums.len() + copies.len());
    spend(reads.len() + wanted.len());
    for sum in sums {
        spend(sum.of.len() + 1);
        let mut from = sum.of;
        from.retain_mut(|name| symbols[*name].map(|symbol| *name = symbol).is_some());
        let to = *symbols[sum.name].get_or_insert_with(|| {
            next += 1;
            next - 1
        });
        ops.push(match from[..] {
            [from] => Op::Copy { from, to },
            _ => Op::Xor { from, to },
        });
    }
    ops.extend(copies);
    let temporary_count = next - reads.len() - wanted.len();
    Program { input_count: reads.len(), output_count: wanted.len(), temporary_count, ops }
}

/// A set of names.
struct Flags(Vec<bool>);

impl Flags {
    fn of(names: &[usize]) -> Flags {
        let mut flags = Flags(Vec::new());
        names.iter().for_each(|&name| flags.set(name));
        flags
    }

    fn set(&mut self, name: usize) {
        if name >= self.0.len() {
            self.0.resize(name + 1, false);
        }
        self.0[name] = true;
    }

    fn at(&self, name: usize) -> bool {
        self.0.get(name) == Some(&true)
    }
}
