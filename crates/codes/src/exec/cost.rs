//! What a program costs to run.

use super::arch::MOST_TARGETS;
use crate::program::{Op, Program};

/// Cost of loading or storing a symbol, in products. With 8 the costs of decoding msr:5+5,d=9, 6+6,d=11 and 8+8,d=15 by
/// a matrix and in steps compare as the times in cache do (1.0, 0.8, 0.56).
const ACCESS_COST: usize = 8;

/// Cost of running the program, in products of a vector. Only good for comparing programs that compute the same.
#[must_use]
pub(crate) fn cost(program: &Program) -> usize {
    let of_op = |op: &Op| {
        let (source_count, target_count) = (op.sources().len(), op.targets().len());
        let product_count = match op {
            Op::Dot { .. } => source_count * target_count,
            Op::Copy { .. } | Op::Xor { .. } => 0,
        };
        product_count + ACCESS_COST * (source_count * target_count.div_ceil(MOST_TARGETS) + target_count)
    };
    program.ops.iter().map(of_op).sum()
}
