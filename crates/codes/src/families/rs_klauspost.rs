//! Reed-Solomon with klauspost/reedsolomon's default matrix. It reads and writes the shards of MinIO, SeaweedFS and
//! other users of that library or of Backblaze's JavaReedSolomon, from which it comes.
//!
//! The data are the values of a polynomial of degree less than `k` over GF(2^8) at the points 0 .. k - 1, and parity
//! `r` is its value at `k + r`. Those libraries compute the coding matrix as the Vandermonde matrix `i^j` of all points
//! times the inverse of its first `k` rows. By Lagrange's formula its elements are
//!
//! ```text
//! C[r][j] = product over i < k, i != j of ((k + r) ^ i) / (j ^ i)      in GF(2^8), ^ is XOR of the indices
//! ```
//!
//! which is the Cauchy matrix `1 / ((k + r) ^ j)` with scaled rows and columns. So any `m` shards may be lost, up to n
//! = 256. No parity is a plain sum, and the parities of `k+m` are those of `k+(m+1)` without the last.
//!
//! The code is not the whole format of those systems: each cuts objects into shards and adds checksums in its own way.
//!
//! Cost: `(k + m) / k` bytes stored per byte; a repair reads `k` shards and multiplies even for one loss.
//!
//! Source: github.com/klauspost/reedsolomon, `buildMatrix`; Backblaze: JavaReedSolomon (2015).
//!
//! ```
//! let code = weft_codes::parse("rs-klauspost:10+4")?;
//! assert_eq!((code.shape().n, code.shape().tolerance), (14, 4));
//! assert_eq!(weft_codes::parse("rs-klauspost:2+1")?.encode().to_matrix()?.row(0), [3, 2]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
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

/// The coding rows of `rs-klauspost:k+m`: `m` rows, `k` columns. Panics if `k + m` is more than 256.
#[must_use]
fn klauspost(k: usize, m: usize) -> Matrix {
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
