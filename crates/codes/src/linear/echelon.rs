//! Echelons: independent rows, each with a 1 at its pivot and zeros at the pivots of earlier rows. (`span.rs` also
//! remembers how rows were made.)

use crate::gf;
use crate::row::Row;
use alloc::vec::Vec;

/// The row modulo an echelon.
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

/// A residual as the next step of the echelon: pivot and row; `None` for zeros.
pub(super) fn step<R: Row>(mut row: R) -> Option<(usize, R)> {
    let pivot = row.first_nonzero()?;
    if let Some(inverse) = gf::inverse(row.at(pivot)) {
        row.scale(inverse);
    }
    Some((pivot, row))
}

/// The steps that the rows add to an echelon.
pub(super) fn added<'a, R: Row + 'a>(echelon: &[(usize, R)], rows: impl IntoIterator<Item = &'a R>) -> Vec<(usize, R)> {
    let mut all = Vec::new();
    for row in rows {
        all.extend(step(residual(&all, &residual(echelon, row))));
    }
    all
}

/// Are all these rows in the span of an echelon?
pub(super) fn spans<'a, R: Row + 'a>(echelon: &[(usize, R)], rows: impl IntoIterator<Item = &'a R>) -> bool {
    rows.into_iter().all(|row| residual(echelon, row).first_nonzero().is_none())
}
