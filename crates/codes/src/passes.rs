//! Program -> program. Each pass keeps what is computed (tests prove it by [`Program::to_matrix`]) and makes the
//! program cheaper to run. Passes take valid programs.

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

use crate::matrix::Matrix;
use crate::program::{Op, Program, SymbolId};
use alloc::vec;
use alloc::vec::Vec;

/// All passes, ordered so that each profits from the one before: first those for products, then those for sums.
#[must_use]
pub fn optimise(program: Program) -> Program {
    let simple = simplify(fuse(drop_dead(program)));
    simplify(schedule(drop_dead(inline(share(simple)))))
}

impl Program {
    /// The program `outputs = matrix * inputs`, already optimised.
    #[must_use]
    pub fn from_matrix(matrix: &Matrix) -> Program {
        let input_count = matrix.columns();
        let ops = (0..matrix.rows())
            .map(|row| {
                let from: Vec<SymbolId> = (0..input_count).filter(|&input| matrix.at(row, input) != 0).collect();
                let to = input_count + row;
                if from.iter().all(|&input| matrix.at(row, input) == 1) {
                    return Op::Xor { from, to };
                }
                let coefficients = matrix.select_rows(&[row]).select_columns(&from);
                Op::Dot { from, to: vec![to], coefficients }
            })
            .collect();
        optimise(Program { input_count, output_count: matrix.rows(), temporary_count: 0, ops })
    }
}

#[cfg(test)]
#[path = "passes_tests.rs"]
mod tests;
