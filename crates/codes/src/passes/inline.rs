//! Joins chains of XORs into XORs of many symbols, so that intermediate results are not stored and read back.

use crate::program::{Op, Program, SymbolId};
use alloc::vec;
use alloc::vec::Vec;

/// Replaces each temporary that is a sum, and that only one other sum reads, by its summands.
#[must_use]
pub fn inline(program: Program) -> Program {
    inline_where(program, |_, read_count| read_count == 1)
}

/// Undoes sharing that saves XORs but costs time: replaces a temporary by its summands wherever it is read, if loading
/// them there is less work than storing it and loading it again.
#[must_use]
pub fn unshare(program: Program) -> Program {
    // Processors load twice as much at a time as they store.
    const STORE_LOADS: usize = 2;
    let is_cheaper = |summands: usize, read_count: usize| summands * read_count < summands + STORE_LOADS + read_count;
    inline_where(program, is_cheaper)
}

/// Inlines temporaries that only sums read, where the rule allows it for their number of summands and of reads.
fn inline_where(mut program: Program, rule: impl Fn(usize, usize) -> bool) -> Program {
    crate::work::spend(program.access_count() + program.symbol_count());
    let first_temporary = program.outputs().end;
    let mut read_counts = vec![0; program.symbol_count()];
    let mut is_summand = vec![true; program.symbol_count()];
    for op in &program.ops {
        for &source in op.sources() {
            read_counts[source] += 1;
            is_summand[source] &= matches!(op, Op::Xor { .. });
        }
    }
    let mut sums: Vec<Option<Vec<SymbolId>>> = vec![None; program.symbol_count()];
    for op in &mut program.ops {
        if let Op::Xor { from, to } = op {
            if from.iter().any(|source| sums[*source].is_some()) {
                let summands = from.iter().flat_map(|source| match &sums[*source] {
                    Some(summands) => &summands[..],
                    None => core::slice::from_ref(source),
                });
                *from = summands.copied().collect();
            }
            remove_pairs(from);
            if *to >= first_temporary && is_summand[*to] && rule(from.len(), read_counts[*to]) {
                sums[*to] = Some(from.clone());
            }
        }
    }
    // Nothing reads them any more. (Products stay even if unread: networks compute them on the way.)
    program.ops.retain(|op| !matches!(op, Op::Xor { to, .. } if sums[*to].is_some()));
    program
}

/// Sorts the summands, without those that cancel.
fn remove_pairs(summands: &mut Vec<SymbolId>) {
    summands.sort_unstable();
    if summands.array_windows().any(|[a, b]| a == b) {
        *summands =
            summands.chunk_by(|a, b| a == b).filter(|equal| equal.len() % 2 == 1).map(|equal| equal[0]).collect();
    }
}
