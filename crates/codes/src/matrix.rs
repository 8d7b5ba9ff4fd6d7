//! Dense matrices over GF(2^8).

use crate::gf;
use crate::work::spend;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;

/// A matrix over GF(2^8), stored row by row.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Matrix {
    columns: usize,
    rows: usize,
    elements: Vec<u8>,
}

impl Matrix {
    /// A matrix whose element at `(row, column)` is `element(row, column)`.
    pub fn from_fn(rows: usize, columns: usize, mut element: impl FnMut(usize, usize) -> u8) -> Matrix {
        spend(rows * columns);
        let elements = (0..rows * columns).map(|i| element(i / columns, i % columns)).collect();
        Matrix { columns, rows, elements }
    }

    /// All zeros.
    #[must_use]
    pub fn zero(rows: usize, columns: usize) -> Matrix {
        spend(rows * columns);
        Matrix { columns, rows, elements: vec![0; rows * columns] }
    }

    /// The identity.
    #[must_use]
    pub fn identity(size: usize) -> Matrix {
        Matrix::from_fn(size, size, |row, column| u8::from(row == column))
    }

    /// A matrix of these rows; `None` unless each has `columns` elements.
    pub fn from_rows<R: AsRef<[u8]>>(columns: usize, rows: &[R]) -> Option<Matrix> {
        let fits = rows.iter().all(|row| row.as_ref().len() == columns);
        let elements = rows.iter().flat_map(|row| row.as_ref()).copied().collect();
        fits.then_some(Matrix { columns, rows: rows.len(), elements })
    }

    /// Rows of this matrix, in the given order; panics on an index past the last row.
    #[must_use]
    pub fn select_rows(&self, indices: &[usize]) -> Matrix {
        spend(indices.len() * self.columns);
        let elements = indices.iter().flat_map(|&index| self.row(index)).copied().collect();
        Matrix { columns: self.columns, rows: indices.len(), elements }
    }

    /// Columns of this matrix, in the given order; panics on an index past the last column.
    #[must_use]
    pub fn select_columns(&self, indices: &[usize]) -> Matrix {
        Matrix::from_fn(self.rows, indices.len(), |row, column| self.at(row, indices[column]))
    }

    /// This matrix with the rows of `below` under it; panics unless both have equally many columns.
    #[must_use]
    pub fn stack(mut self, below: &Matrix) -> Matrix {
        assert_eq!(self.columns, below.columns, "stacked matrices have equally many columns");
        spend(below.elements.len());
        self.rows += below.rows;
        self.elements.extend_from_slice(&below.elements);
        self
    }

    /// This matrix with the columns of `right` after its own; panics unless both have equally many rows.
    #[must_use]
    pub fn beside(&self, right: &Matrix) -> Matrix {
        assert_eq!(self.rows, right.rows, "matrices side by side have equally many rows");
        spend(self.elements.len() + right.elements.len());
        let elements = (0..self.rows).flat_map(|row| [self.row(row), right.row(row)].concat()).collect();
        Matrix { columns: self.columns + right.columns, rows: self.rows, elements }
    }

    /// How many rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// How many columns.
    #[must_use]
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Row `index`; panics past the last.
    #[must_use]
    pub fn row(&self, index: usize) -> &[u8] {
        &self.elements[index * self.columns..(index + 1) * self.columns]
    }

    /// Row `index`, to change; panics past the last.
    pub fn row_mut(&mut self, index: usize) -> &mut [u8] {
        &mut self.elements[index * self.columns..(index + 1) * self.columns]
    }

    /// The element at `(row, column)`; panics outside.
    #[must_use]
    pub fn at(&self, row: usize, column: usize) -> u8 {
        self.row(row)[column]
    }

    /// Are all elements 0 or 1?
    #[must_use]
    pub fn is_binary(&self) -> bool {
        self.elements.iter().all(|&element| element <= 1)
    }

    /// `self * right`; panics unless `self` has as many columns as `right` has rows.
    #[must_use]
    pub fn multiply(&self, right: &Matrix) -> Matrix {
        assert_eq!(self.columns, right.rows, "inner sizes of a product are equal");
        let mut product = Matrix::zero(self.rows, right.columns);
        for row in 0..self.rows {
            for inner in (0..self.columns).filter(|&inner| self.at(row, inner) != 0) {
                spend(right.columns);
                gf::add_multiple(product.row_mut(row), right.row(inner), self.at(row, inner));
            }
        }
        product
    }

    /// The reduced row echelon form without its zero rows, and the pivot column of each row.
    #[must_use]
    pub fn reduced(&self) -> (Matrix, Vec<usize>) {
        let mut reduced = self.clone();
        let mut pivots = Vec::new();
        for column in 0..self.columns {
            let top = pivots.len();
            let Some(found) = (top..self.rows).find(|&row| reduced.at(row, column) != 0) else {
                continue;
            };
            reduced.swap_rows(top, found);
            if let Some(inverse) = gf::inverse(reduced.at(top, column)) {
                gf::scale(reduced.row_mut(top), inverse);
            }
            let pivot_row = reduced.row(top).to_vec();
            spend(self.rows);
            for row in (0..self.rows).filter(|&row| row != top) {
                let factor = reduced.at(row, column);
                if factor == 0 {
                    continue;
                }
                spend(self.columns);
                gf::add_multiple(reduced.row_mut(row), &pivot_row, factor);
            }
            pivots.push(column);
        }
        reduced.rows = pivots.len();
        reduced.elements.truncate(pivots.len() * self.columns);
        (reduced, pivots)
    }

    /// The rank.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.reduced().1.len()
    }

    /// The inverse; `None` for a singular matrix or one that is not square.
    #[must_use]
    pub fn inverse(&self) -> Option<Matrix> {
        let size = self.rows;
        if size != self.columns {
            return None;
        }
        let beside = self.beside(&Matrix::identity(size));
        let (reduced, pivots) = beside.reduced();
        let right: Vec<usize> = (size..2 * size).collect();
        pivots.iter().copied().eq(0..size).then(|| reduced.select_columns(&right))
    }

    fn swap_rows(&mut self, a: usize, b: usize) {
        for column in 0..self.columns {
            self.elements.swap(a * self.columns + column, b * self.columns + column);
        }
    }
}

/// `[1 1 1; 1 2 4]`, elements in decimal.
impl fmt::Display for Matrix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows: Vec<String> =
            (0..self.rows).map(|row| self.row(row).iter().map(u8::to_string).collect::<Vec<_>>().join(" ")).collect();
        write!(f, "[{}]", rows.join("; "))
    }
}

impl fmt::Debug for Matrix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
#[path = "matrix_tests.rs"]
mod tests;
