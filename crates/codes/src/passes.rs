//! Program -> program: each pass leaves what is computed as it is (tests prove it by [`Program::to_matrix`]) and makes
//! it cheaper to run. Passes take valid programs.

mod drop_dead;
mod fuse;
mod inline;
mod schedule;
mod share;
mod simplify;

pub use drop_dead::{drop_dead, drop_unread};
pub use fuse::fuse;
pub use inline::{inline, unshare};
pub use schedule::schedule;
pub use share::share;
pub use simplify::simplify;

use crate::exec::MOST_TARGETS;
use crate::program::{Op, Program};

/// All passes, in the order that lets each profit from the one before: first what multiplies, then what only adds.
#[must_use]
pub fn optimise(program: Program) -> Program {
    let simple = simplify(fuse(drop_dead(program)));
    simplify(schedule(drop_dead(inline(share(simple)))))
}

#[cfg(test)]
#[path = "passes_tests.rs"]
mod tests;

/// What a load or store of a symbol takes beside a product: with 8 the costs of decoding msr:5+5,d=9, 6+6,d=11 and 8+8,d=15 by a
/// matrix and in steps are to each other as times in cache were (1.0, 0.8, 0.56).
const ACCESS_COST: usize = 8;

/// What to run the program takes of each vector, in products. Only good for comparing programs that compute the same.
#[must_use]
pub fn cost(program: &Program) -> usize {
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
