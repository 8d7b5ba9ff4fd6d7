//! Joins operations that read the same symbols, so that the symbols are read once.
//!
//! Plain sums are not joined with each other: they take no multiplication, and [`super::share`] computes what they have
//! in common once.

use crate::matrix::Matrix;
use crate::program::{Op, Program, SymbolId};
use crate::work::spend;
use alloc::vec::Vec;

/// Joins each XOR and dot product into an earlier one that reads at least the same symbols.
#[must_use]
pub fn fuse(mut program: Program) -> Program {
    let mut fused: Vec<Op> = Vec::with_capacity(program.ops.len());
    for op in program.ops {
        match fused.iter_mut().find(|earlier| joinable(earlier, &op)) {
            Some(earlier) => *earlier = join(earlier, &op),
            None => fused.push(op),
        }
    }
    program.ops = fused;
    program
}

/// `op` reads no symbol that `earlier` does not read, so it can run as early as `earlier`. The work per output must be
/// about equal: a copy or a short sum is not worth a row of mostly zeros.
fn joinable(earlier: &Op, op: &Op) -> bool {
    spend(1);
    let (wide, narrow) = (earlier.sources(), op.sources());
    // Below three quarters, reading the narrow one's symbols again costs less than multiplying by zeros.
    let comparable = 4 * narrow.len() >= 3 * wide.len() && narrow.len() > 1;
    let holds = |source| {
        spend(wide.len());
        wide.contains(source)
    };
    comparable && !(is_sum(earlier) && is_sum(op)) && narrow.iter().all(holds)
}

fn is_sum(op: &Op) -> bool {
    match op {
        Op::Copy { .. } | Op::Xor { .. } => true,
        Op::Dot { to, coefficients, .. } => {
            to.len() == 1 && coefficients.row(0).iter().all(|&coefficient| coefficient == 1)
        }
    }
}

fn join(earlier: &Op, op: &Op) -> Op {
    let from = earlier.sources().to_vec();
    let to: Vec<SymbolId> = earlier.targets().iter().chain(op.targets()).copied().collect();
    let narrow = op.coefficients();
    let widened = Matrix::from_fn(narrow.rows(), from.len(), |row, column| {
        // A symbol may be named more than once; its coefficients are added and go to its first place.
        if from[..column].contains(&from[column]) {
            return 0;
        }
        let named = op.sources().iter().enumerate().filter(|&(_, source)| *source == from[column]);
        named.fold(0, |sum, (index, _)| sum ^ narrow.at(row, index))
    });
    Op::Dot { from, to, coefficients: earlier.coefficients().stack(&widened) }
}
