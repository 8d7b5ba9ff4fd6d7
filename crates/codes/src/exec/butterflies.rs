//! Dot products that are networks of butterflies: n log n products instead of n^2.
//!
//! The additive Fourier transforms of Lin, Chung and Han ("Novel polynomial basis and its application to Reed-Solomon
//! erasure codes", 2014, section 4) consist of such networks. A program does not mark them: it has dot products, and
//! this module recognises those that are networks.
//!
//! A network over 2^l values has l levels. A block of values has two halves `a` and `b`. A butterfly with the block's
//! factor `f` turns a value of each half into `a' = a + f b`, `b' = a' + b`; in an inverse network into `b' = a + b`,
//! `a' = a + f b'`. A network begins with the block of all values and goes on in both halves; an inverse network ends
//! with it. The outputs of a network, or the inputs of an inverse one, may be scaled.

use crate::gf;
use crate::matrix::Matrix;
use alloc::vec;
use alloc::vec::Vec;

/// The most values of a network: with their factors they fill 32 registers.
pub(super) const MOST_POINTS: usize = 16;

/// A network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Butterflies {
    pub(super) is_inverse: bool,
    /// One factor per block: the block of all values, then its halves, then their halves.
    pub(super) factors: Vec<u8>,
    /// One scale per value; empty if all are 1.
    pub(super) scales: Vec<u8>,
}

impl Butterflies {
    /// The network that multiplies by this matrix; `None` if there is none, or none that is faster.
    pub(super) fn of(matrix: &Matrix) -> Option<Butterflies> {
        let size = matrix.rows();
        // With two values, butterflies save a product and cost a sum.
        if size != matrix.columns() || !size.is_power_of_two() || !(4..=MOST_POINTS).contains(&size) {
            return None;
        }
        [false, true].into_iter().find_map(|is_inverse| Butterflies::find(matrix, is_inverse))
    }

    /// The matrix that the network multiplies by.
    pub(super) fn matrix(&self) -> Matrix {
        self.block_matrix(0, 0, self.factors.len() + 1)
    }

    /// The matrix of a block, given its number, first value and size.
    fn block_matrix(&self, block: usize, first: usize, size: usize) -> Matrix {
        let half = size / 2;
        if half == 0 {
            return Matrix::from_fn(1, 1, |_, _| self.scales.get(first).copied().unwrap_or(1));
        }
        let a = self.block_matrix(2 * block + 1, first, half);
        let b = self.block_matrix(2 * block + 2, first + half, half);
        let factor = self.factors[block];
        Matrix::from_fn(size, size, |row, column| {
            let (part, times) = match (self.is_inverse, row < half, column < half) {
                (false, true, true) => (&a, 1),
                (false, true, false) => (&a, factor),
                (false, false, true) => (&b, 1),
                (false, false, false) => (&b, factor ^ 1),
                (true, true, true) => (&a, factor ^ 1),
                (true, true, false) => (&b, factor),
                (true, false, true) => (&a, 1),
                (true, false, false) => (&b, 1),
            };
            gf::mul(part.at(row % half, column % half), times)
        })
    }

    fn find(matrix: &Matrix, is_inverse: bool) -> Option<Butterflies> {
        let size = matrix.rows();
        let mut network = Butterflies { is_inverse, factors: vec![0; size - 1], scales: vec![0; size] };
        network.fill(matrix, 0, 0)?;
        if network.scales.iter().all(|&scale| scale == 1) {
            network.scales.clear();
        }
        Some(network)
    }

    /// Fills in the factors of one block, the reverse of [`Butterflies::block_matrix`]; `None` if there is no such
    /// network.
    fn fill(&mut self, matrix: &Matrix, block: usize, first: usize) -> Option<()> {
        let half = matrix.rows() / 2;
        if half == 0 {
            self.scales[first] = matrix.at(0, 0);
            return (matrix.at(0, 0) != 0).then_some(());
        }
        let part = |row: usize, column: usize| Matrix::from_fn(half, half, |r, c| matrix.at(row + r, column + c));
        let times = |part: &Matrix, factor| Matrix::from_fn(half, half, |r, c| gf::mul(part.at(r, c), factor));
        let [top_left, top_right] = [part(0, 0), part(0, half)];
        let [bottom_left, bottom_right] = [part(half, 0), part(half, half)];
        let (whole, [a, b]) = match self.is_inverse {
            false => (&top_left, [&top_left, &bottom_left]),
            true => (&bottom_right, [&bottom_left, &bottom_right]),
        };
        let column = (0..half).find(|&column| whole.at(0, column) != 0)?;
        let factor = gf::divide(top_right.at(0, column), whole.at(0, column))?;
        let is_network = top_right == times(whole, factor)
            && match self.is_inverse {
                false => bottom_right == times(b, factor ^ 1),
                true => top_left == times(a, factor ^ 1),
            };
        self.factors[block] = factor;
        is_network.then_some(())?;
        self.fill(a, 2 * block + 1, first)?;
        self.fill(b, 2 * block + 2, first + half)
    }
}

#[cfg(test)]
#[path = "butterflies_tests.rs"]
mod tests;
