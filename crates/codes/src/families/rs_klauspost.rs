//! Reed-Solomon with the matrix that klauspost/reedsolomon makes by default, for reading and writing the shards of MinIO,
//! SeaweedFS and others that stand on it or on Backblaze's JavaReedSolomon, from which it comes.
//!
//! The data are the values at the points 0 .. k - 1 of a polynomial of degree less than `k` over GF(2^8), and parity `r` is
//! its value at `k + r`. Those libraries compute the coding matrix as the Vandermonde matrix `i^j` of all points times the
//! inverse of its first `k` rows; by Lagrange's formula its elements are
//!
//! ```text
//! C[r][j] = product over i < k, i != j of ((k + r) ^ i) / (j ^ i)      in GF(2^8), ^ is XOR of the indices
//! ```
//!
//! which is the Cauchy matrix `1 / ((k + r) ^ j)` with rows and columns scaled, so that any `m` shards may be lost, up to
//! n = 256. No parity is a plain sum, and those of `k+m` are those of `k+(m+1)` without the last.
//!
//! What lies around the code is each system's own: how it cuts objects into shards, and the checksums that it puts between.
//!
//! Cost: `(k + m) / k` bytes stored per byte; a repair reads `k` shards, even of one loss with products.
//!
//! Source: github.com/klauspost/reedsolomon, `buildMatrix`; Backblaze: JavaReedSolomon (2015).
//!
//! ```
//! let code = weft_codes::parse("rs-klauspost:10+4")?;
//! assert_eq!((code.shape().n, code.shape().tolerance), (14, 4));
//! assert_eq!(weft_codes::families::rs_klauspost::klauspost(2, 1).row(0), [3, 2]);
//! # Ok::<(), weft_codes::SpecError>(())
//! ```

use super::parameters::{Problem, data_and_parity};
use super::{Family, rs};
use crate::code::Code;
use crate::gf;
use crate::linear::LinearCode;
use crate::matrix::Matrix;
use alloc::format;
use alloc::sync::Arc;

pub(super) const FAMILY: Family = Family {
    name: "rs-klauspost",
    syntax: "rs-klauspost:data+parity",
    example: "rs-klauspost:10+4",
    description: "Reed-Solomon, bytes as klauspost/reedsolomon's default (MinIO, SeaweedFS); any `parity` shards may be lost",
    source: "github.com/klauspost/reedsolomon, buildMatrix; Backblaze: JavaReedSolomon (2015)",
    build,
};

fn build(parameters: &str) -> Result<Arc<dyn Code>, Problem> {
    let (k, m) = data_and_parity(parameters)?;
    rs::check_counts(k, m)?;
    Ok(Arc::new(LinearCode::systematic_mds(format!("rs-klauspost:{k}+{m}"), &klauspost(k, m))))
}

/// The coding rows of `rs-klauspost:k+m`: `m` rows, `k` columns. Panics where `k + m` is more than 256.
#[must_use]
pub fn klauspost(k: usize, m: usize) -> Matrix {
    assert!(k + m <= rs::MOST_SHARDS, "GF(2^8) has 256 points");
    // The product of the distances of a point to all of the first k points but this one.
    let distances = |point: usize, but: usize| {
        (0..k).filter(|&other| other != but).fold(1, |product, other| gf::mul(product, (point ^ other) as u8))
    };
    Matrix::from_fn(m, k, |row, column| gf::divide(distances(k + row, column), distances(column, column)).unwrap_or(0))
}

#[cfg(test)]
#[path = "rs_klauspost_tests.rs"]
mod tests;
