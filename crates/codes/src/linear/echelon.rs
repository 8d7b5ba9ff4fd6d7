//! Echelons: independent rows, each with a 1 at its pivot and zeros at the pivots of earlier ones. (`span.rs` remembers
//! how they came about, too.)

use crate::gf;
use crate::row::Row;
use alloc::vec::Vec;

/// What is left of the row modulo an echelon.
pub(super) fn residual<R: Row>(echelon: &[(usize, R)], row: &R) -> R {
    let mut residual = row.clone();
    for (pivot, step) in echelon {
        let factor = residual.at(*pivot);
        if factor != 0 {
            residual.add_multiple(step, factor);
        }
    }
    residual
}

/// The row, a residual, as the next step of the echelon: pivot and row; `None` for zeros.
pub(super) fn step<R: Row>(mut row: R) -> Option<(usize, R)> {
    let pivot = row.first_nonzero()?;
    if let Some(inverse) = gf::inverse(row.at(pivot)) {
        row.scale(inverse);
    }
    Some((pivot, row))
}

/// What the rows add to the span of an echelon, reduced by it.
pub(super) fn added<R: Row>(echelon: &[(usize, R)], rows: &[R]) -> Vec<R> {
    let mut all: Vec<(usize, R)> = Vec::with_capacity(rows.len());
    for row in rows {
        let row = residual(&all, &residual(echelon, row));
        all.extend(step(row));
    }
    all.into_iter().map(|(_, row)| row).collect()
}
