//! Program -> program: each pass leaves what is computed as it is (tests prove it by [`Program::to_matrix`]) and makes
//! it cheaper to run. Passes take valid programs.

mod drop_dead;
mod fuse;
mod simplify;

pub use drop_dead::drop_dead;
pub use fuse::fuse;
pub use simplify::simplify;

use crate::program::Program;

/// All passes, in the order that lets each profit from the one before.
#[must_use]
pub fn optimise(program: Program) -> Program {
    simplify(fuse(drop_dead(program)))
}

#[cfg(test)]
#[path = "passes_tests.rs"]
mod tests;
