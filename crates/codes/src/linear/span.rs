//! The span of some rows, grown one row at a time, that remembers how everything in it follows from its members.

use crate::gf;

/// Independent rows and their span.
pub(super) struct Span {
    columns: usize,
    members: Vec<usize>,
    echelon: Vec<Step>,
}

/// A row with a 1 at its pivot and zeros at the pivots of all earlier steps.
struct Step {
    pivot: usize,
    row: Vec<u8>,
    /// The row as a combination of members.
    combination: Vec<u8>,
}

impl Span {
    /// The span of nothing, in a space of so many columns.
    pub(super) fn new(columns: usize) -> Span {
        Span { columns, members: Vec::new(), echelon: Vec::new() }
    }

    /// Names of the rows taken in, in that order.
    pub(super) fn members(&self) -> &[usize] {
        &self.members
    }

    /// Takes the row in if it is not in the span yet.
    pub(super) fn insert(&mut self, name: usize, row: &[u8]) {
        if self.members.len() == self.columns {
            return;
        }
        let (mut residual, mut combination) = self.reduce(row);
        let Some(pivot) = residual.iter().position(|&element| element != 0) else {
            return;
        };
        combination[self.members.len()] = 1;
        if let Some(inverse) = gf::inverse(residual[pivot]) {
            gf::scale(&mut residual, inverse);
            gf::scale(&mut combination, inverse);
        }
        self.members.push(name);
        self.echelon.push(Step { pivot, row: residual, combination });
    }

    /// Coefficients over the members that give this row; `None` if it is not in the span.
    pub(super) fn express(&self, row: &[u8]) -> Option<Vec<u8>> {
        let (residual, mut combination) = self.reduce(row);
        combination.truncate(self.members.len());
        residual.iter().all(|&element| element == 0).then_some(combination)
    }

    /// What is left of the row after subtracting a combination of members, and that combination.
    fn reduce(&self, row: &[u8]) -> (Vec<u8>, Vec<u8>) {
        let mut residual = row.to_vec();
        let mut combination = vec![0; self.columns];
        for step in &self.echelon {
            let factor = residual[step.pivot];
            if factor != 0 {
                gf::add_multiple(&mut residual, &step.row, factor);
                gf::add_multiple(&mut combination, &step.combination, factor);
            }
        }
        (residual, combination)
    }
}
