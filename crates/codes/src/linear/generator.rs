//! Generator matrices of codes that are not given by one.

use crate::code::{Code, Content};
use crate::exec::OnceLock;
use crate::matrix::Matrix;
use crate::program::ProgramError;
use alloc::vec::Vec;

/// The generator matrix that follows from a code's shape and encode program: a row per stored symbol, a column per
/// native symbol. With it the engine is an oracle also for codes that are not given by a matrix.
///
/// # Errors
/// The encode program is invalid.
pub fn generator(code: &dyn Code) -> Result<Matrix, ProgramError> {
    let coded = code.encode().to_matrix()?;
    let plain = Matrix::identity(code.shape().native_count);
    let mut coded_before = 0;
    let row_of = |content: &Content| match content {
        Content::Native(native) => *native,
        Content::Coded => {
            coded_before += 1;
            plain.rows() + coded_before - 1
        }
    };
    let rows: Vec<usize> = code.shape().contents.iter().map(row_of).collect();
    Ok(plain.stack(&coded).select_rows(&rows))
}

/// A code's generator matrix, computed when it is first needed. Families whose own planners mostly suffice seldom need
/// it.
pub(crate) struct LazyGenerator {
    matrix: OnceLock<Matrix>,
}

impl LazyGenerator {
    pub(crate) const fn new() -> LazyGenerator {
        LazyGenerator { matrix: OnceLock::new() }
    }

    /// The matrix of the code that owns this.
    pub(crate) fn of(&self, code: &dyn Code) -> &Matrix {
        self.matrix.get_or_init(|| generator(code).expect("the encode program is valid"))
    }
}
