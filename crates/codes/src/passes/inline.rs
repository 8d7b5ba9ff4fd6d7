//! Joins chains of XORs into XORs of many symbols, so that what lies between them need not be stored and read back.

use crate::program::{Op, Program, SymbolId};
use alloc::vec;
use alloc::vec::Vec;

/// Puts the summands of each temporary that is a sum, and that one other sum alone reads, in its place.
#[must_use]
pub fn inline(mut program: Program) -> Program {
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
            let summands = from.iter().flat_map(|&source| sums[source].take().unwrap_or_else(|| vec![source]));
            *from = without_pairs(summands.collect());
            if *to >= first_temporary && read_counts[*to] == 1 && is_summand[*to] {
                sums[*to] = Some(from.clone());
            }
        }
    }
    program
}

/// The summands in ascending order, less those that cancel out.
fn without_pairs(mut summands: Vec<SymbolId>) -> Vec<SymbolId> {
    summands.sort_unstable();
    summands.chunk_by(|a, b| a == b).filter(|equal| equal.len() % 2 == 1).map(|equal| equal[0]).collect()
}
