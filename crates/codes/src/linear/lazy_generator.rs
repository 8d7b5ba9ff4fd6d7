//! Generator matrices of codes that are not given by one.

use super::generator;
use crate::code::Code;
use crate::matrix::Matrix;
use crate::once::OnceLock;

/// A code's generator matrix, computed when it is first needed: families whose own rules mostly suffice seldom do.
pub(crate) struct LazyGenerator {
    matrix: OnceLock<Matrix>,
}

impl LazyGenerator {
    pub(crate) const fn new() -> LazyGenerator {
        LazyGenerator { matrix: OnceLock::new() }
    }

    /// The matrix of this code, whose own this is.
    pub(crate) fn of(&self, code: &dyn Code) -> &Matrix {
        self.matrix.get_or_init(|| generator(code).expect("the encode program is valid"))
    }
}
