//! The span of some rows, grown row by row. It remembers how everything in it follows from its members.

use crate::gf;
use crate::row::Row;
use alloc::vec::Vec;

/// Independent rows and their span.
pub(crate) struct Span<R> {
    columns: usize,
    members: Vec<usize>,
    echelon: Vec<Step<R>>,
}

/// A row with a 1 at its pivot and zeros at the pivots of all earlier steps.
struct Step<R> {
    pivot: usize,
    row: R,
    /// The row as a combination of members.
    combination: R,
}

impl<R: Row> Span<R> {
    /// The span of nothing, in a space of `columns` dimensions.
    pub(crate) fn new(columns: usize) -> Span<R> {
        Span { columns, members: Vec::new(), echelon: Vec::new() }
    }

    /// Names of the rows that were taken in, in that order.
    pub(crate) fn members(&self) -> &[usize] {
        &self.members
    }

    /// Takes the row in unless it is already in the span.
    pub(crate) fn insert(&mut self, name: usize, row: &R) {
        if self.members.len() == self.columns {
            return;
        }
        let (mut residual, mut combination) = self.reduce(row);
        let Some(pivot) = residual.first_nonzero() else {
            return;
        };
        combination.set(self.members.len());
        if let Some(inverse) = gf::inverse(residual.at(pivot)) {
            residual.scale(inverse);
            combination.scale(inverse);
        }
        self.members.push(name);
        self.echelon.push(Step { pivot, row: residual, combination });
    }

    /// Coefficients over the members that give this row; `None` if it is not in the span.
    pub(crate) fn express(&self, row: &R) -> Option<Vec<u8>> {
        let (residual, combination) = self.reduce(row);
        residual.first_nonzero().is_none().then(|| combination.elements(self.members.len()))
    }

    /// The row minus a combination of members, and that combination.
    fn reduce(&self, row: &R) -> (R, R) {
        let mut residual = row.clone();
        let mut combination = R::zeros(self.columns);
        for step in &self.echelon {
            let factor = residual.at(step.pivot);
            if factor != 0 {
                residual.add_multiple(&step.row, factor);
                combination.add_multiple(&step.combination, factor);
            }
        }
        (residual, combination)
    }
}
