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

use crate::program::Program;

/// All passes, in the order that lets each profit from the one before: first what multiplies, then what only adds.
#[must_use]
pub fn optimise(program: Program) -> Program {
    let simple = simplify(fuse(drop_dead(program)));
    simplify(schedule(drop_dead(inline(share(simple)))))
}

#[cfg(test)]
#[path = "passes_tests.rs"]
mod tests;
