//! Cauchy Reed-Solomon with XOR only. The elements of the field are matrices of bits, and a cell has `w` strips.
//!
//! Let `w` be 8 (or 4, for up to 16 shards) and `C` the coding matrix below over GF(2^w). Coded strip `l` of parity `r`
//! is the XOR of all strips `b` of data shards `j` for which bit `l` of `C[r][j] * 2^b` is one. `C` is Jerasure's
//! optimised ("good") Cauchy matrix, which has few ones:
//!
//! ```text
//! C[r][j] = 1 / (r ^ (m + j)),
//! ```
//!
//! Each column is divided by its first element, so that parity 0 is the plain XOR of the data. Then each other row is
//! divided by that element of it which leaves the fewest ones in its bit matrices (by none if the row itself has the
//! fewest; by the first of several). For `m` = 2 the second row is instead the `k` elements with the fewest ones,
//! ascending by ones, then by value. Neither makes a square submatrix singular, so any `m` shards may be lost, up to `k
//! + m = 2^w`.
//!
//! Programs compute once what several strips have in common. XORs of an encoding, direct, by Jerasure's smart schedule
//! and here:
//!
//! | | 4+2 | 6+3 | 8+4 | 10+4 | 4+4 | 6+6 | 8+8 | 12+4 |
//! |---|---|---|---|---|---|---|---|---|
//! | direct | 60 | 338 | 659 | 856 | 283 | 713 | 1482 | 1055 |
//! | smart | 60 | 283 | 576 | 779 | 240 | 620 | 1274 | 944 |
//! | shared | 55 | 180 | 331 | 432 | 161 | 352 | 693 | 515 |
//!
//! Cost: `(k + m) / k` bytes stored per byte; a repair reads `k` shards. On machines that multiply bytes as fast as
//! they add them, [`super::rs`] is faster.
//!
//! Source: Bloemer et al.: An XOR-based erasure-resilient coding scheme (1995); Plank, Xu: Optimizing Cauchy Reed-Solomon
//! codes for fault-tolerant network storage applications (2006); matrices as in Jerasure 2.0.
//!
//! ```
//! let code = weft_codes::parse("crs:8+4")?;
//! assert_eq!((code.shape().alpha, code.shape().tolerance), (8, 4));
//! assert!(code.encode().xor_count() < 576);
//! # Ok::<(), weft_codes::SpecError>(())
//! ```

use super::Family;
use super::parameters::{Problem, data_and_parity, named_count, require};
use crate::code::Code;
use crate::linear::LinearCode;
use crate::matrix::Matrix;
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

pub(super) const FAMILY: Family = Family {
    name: "crs",
    syntax: "crs:data+parity or crs:data+parity,w=4",
    example: "crs:4+2",
    description: "Cauchy Reed-Solomon by XOR of strips alone; any `parity` shards may be lost",
    source: "Plank, Xu: Optimizing Cauchy Reed-Solomon codes (2006), matrices of Jerasure 2.0",
    build,
};

fn build(parameters: &str) -> Result<Arc<dyn Code>, Problem> {
    let (counts, bits) = match parameters.split_once(',') {
        Some((counts, bits)) => (counts, named_count(bits, "w")?),
        None => (parameters, 8),
    };
    let (k, m) = data_and_parity(counts)?;
    require(k >= 1, || "at least 1 data shard is needed".to_owned())?;
    require(m >= 1, || "at least 1 parity shard is needed".to_owned())?;
    require(bits == 4 || bits == 8, || format!("a symbol has w = 4 or 8 strips, not {bits}"))?;
    require(k + m <= 1 << bits, || format!("w = {bits} allows {} shards in all, not {}", 1 << bits, k + m))?;
    let field = Field::new(bits);
    let coding = field.bit_matrix(&field.good_cauchy(k, m));
    let spec = format!("crs:{k}+{m}{}", if bits == 8 { "" } else { ",w=4" });
    let generator = Matrix::identity(k * bits).stack(&coding);
    Ok(Arc::new(LinearCode::new(spec, k, bits, m, Vec::new(), generator)))
}

/// GF(2^4) or GF(2^8) by logarithms to base 2.
#[derive(Debug)]
struct Field {
    bits: usize,
    /// Powers of 2.
    powers: Vec<u8>,
    /// By element; meaningless for 0.
    logarithms: Vec<usize>,
}

impl Field {
    /// The field with 2^4 elements, polynomial x^4 + x + 1, or with 2^8, polynomial 0x11d.
    fn new(bits: usize) -> Field {
        let polynomial = if bits == 4 { 0x13 } else { 0x11d };
        let order = (1 << bits) - 1;
        let doubled =
            |&element: &usize| Some(if element << 1 > order { element << 1 ^ polynomial } else { element << 1 });
        let powers: Vec<u8> =
            core::iter::successors(Some(1), doubled).map(|element| element as u8).take(order).collect();
        let mut logarithms = vec![0; order + 1];
        powers.iter().enumerate().for_each(|(logarithm, &power)| logarithms[usize::from(power)] = logarithm);
        Field { bits, powers, logarithms }
    }

    fn multiply(&self, a: u8, b: u8) -> u8 {
        let logarithm = |element: u8| self.logarithms[usize::from(element)];
        if a == 0 || b == 0 { 0 } else { self.powers[(logarithm(a) + logarithm(b)) % self.powers.len()] }
    }

    /// `a / b`; `b` is not 0.
    fn divide(&self, a: u8, b: u8) -> u8 {
        let inverse = (self.powers.len() - self.logarithms[usize::from(b)]) % self.powers.len();
        self.multiply(a, self.powers[inverse])
    }

    /// The number of ones in the element's bit matrix.
    fn ones(&self, element: u8) -> u32 {
        (0..self.bits).map(|bit| self.multiply(element, 1 << bit).count_ones()).sum()
    }

    /// Jerasure's `cauchy_good_general_coding_matrix`: `m` rows, `k` columns.
    fn good_cauchy(&self, k: usize, m: usize) -> Matrix {
        if m == 2 {
            let mut best: Vec<u8> = (1..=self.powers.len()).map(|element| element as u8).collect();
            best.sort_by_key(|&element| (self.ones(element), element));
            return Matrix::from_fn(2, k, |row, column| if row == 0 { 1 } else { best[column] });
        }
        let original = |row: usize, column: usize| self.divide(1, (row ^ (m + column)) as u8);
        let mut good = Matrix::from_fn(m, k, |row, column| self.divide(original(row, column), original(0, column)));
        let ones: Vec<u32> = (0..=self.powers.len()).map(|element| self.ones(element as u8)).collect();
        for row in 1..m {
            let divided = |divisor: u8| good.row(row).iter().map(move |&element| self.divide(element, divisor));
            let total = |&divisor: &u8| divided(divisor).map(|element| ones[usize::from(element)]).sum::<u32>();
            let best = core::iter::once(1).chain(good.row(row).iter().copied()).min_by_key(total).unwrap_or(1);
            let best: Vec<u8> = divided(best).collect();
            good.row_mut(row).copy_from_slice(&best);
        }
        good
    }

    /// Each element as a `w` by `w` matrix: column `b` is the element times 2^b, bit `l` in row `l`.
    fn bit_matrix(&self, matrix: &Matrix) -> Matrix {
        Matrix::from_fn(matrix.rows() * self.bits, matrix.columns() * self.bits, |row, column| {
            let element = matrix.at(row / self.bits, column / self.bits);
            self.multiply(element, 1 << (column % self.bits)) >> (row % self.bits) & 1
        })
    }
}

#[cfg(test)]
#[path = "crs_tests.rs"]
mod tests;
