//! Reed-Solomon with a normalised Cauchy matrix: `k` data shards, `m` parities, any `m` may be lost.
//!
//! A persistent format, pinned by golden bytes. The element of the coding matrix at parity row `r`, column `j` is
//!
//! ```text
//! (k ^ j) / ((k + r) ^ j)      in GF(2^8), ^ is XOR of the indices
//! ```
//!
//! This is ISA-L's Cauchy matrix `1 / ((k + r) ^ j)` with every column divided by its first element. Scaling columns
//! keeps every square submatrix non-singular, so the code stays MDS up to n = 256. It makes the first parity the plain
//! XOR of the data: encoding is faster, and the repair of one loss needs no multiplication. `rs:k+m` is a prefix of
//! `rs:k+(m+1)`: adding parities changes none that exist.
//!
//! Any shard follows from any k others in closed form, as a sum over a Cauchy matrix (`rs/plan.rs`). A few such sums
//! are computed by the matrix. Many, from about 16+16 on, are computed by additive Fourier transforms in O(n log n),
//! with the same result (`rs/transform.rs`): the parities of wide stripes, and many lost shards if these or the shards
//! read are rows of neighbours. If lost and read shards are mixed, transforms help from about 64+64 on.
//!
//! Cost: `(k + m) / k` bytes stored per byte; a repair reads `k` shards.
//!
//! Source: Bloemer et al.: An XOR-based erasure-resilient coding scheme (1995), as in ISA-L, columns normalised.
//!
//! ```
//! let code = weft_codes::parse("rs:4+2")?;
//! assert_eq!((code.shape().n, code.shape().tolerance), (6, 2));
//! assert_eq!(code.encode().to_matrix()?.row(0), [1, 1, 1, 1]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod plan;
mod transform;

use super::Family;
use super::parameters::{Problem, data_and_parity, require};
use crate::code::{Code, Offers, Plan, PlanError, Shape, Wanted};
use crate::gf;
use crate::linear::{self, LinearCode};
use crate::matrix::Matrix;
use crate::program::Program;
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::sync::Arc;
use alloc::vec::Vec;
use plan::Planner;

pub(super) const FAMILY: Family = Family {
    name: "rs",
    syntax: "rs:data+parity",
    example: "rs:4+2",
    description: "Reed-Solomon, Cauchy matrix, first parity an XOR; any `parity` shards may be lost",
    source: "Bloemer et al.: An XOR-based erasure-resilient coding scheme (1995), as in ISA-L, columns normalised",
    build,
};

/// A Cauchy matrix over GF(2^8) needs k + m distinct elements.
pub(super) const MOST_SHARDS: usize = 256;

fn build(parameters: &str) -> Result<Arc<dyn Code>, Problem> {
    let (k, m) = data_and_parity(parameters)?;
    check_counts(k, m)?;
    let spec = format!("rs:{k}+{m}");
    let planner = Planner::new(k, m);
    let linear = match planner.transform() {
        Some(transform) => LinearCode::systematic(spec, k, 1, m, Vec::new(), transform),
        None => LinearCode::systematic_mds(spec, &normalised_cauchy(k, m)),
    };
    // With a single data shard, parities may be copies; the generic engine uses that.
    if k == 1 {
        return Ok(Arc::new(linear));
    }
    Ok(Arc::new(ReedSolomon { planner, linear }))
}

/// A code with at least two data shards.
#[derive(Debug)]
struct ReedSolomon {
    linear: LinearCode,
    planner: Planner,
}

impl Code for ReedSolomon {
    fn spec(&self) -> &str {
        self.linear.spec()
    }

    fn shape(&self) -> &Shape {
        self.linear.shape()
    }

    fn encode(&self) -> &Program {
        self.linear.encode()
    }

    fn plan(&self, wanted: &Wanted, have: &Offers) -> Result<Plan, PlanError> {
        linear::check(self, wanted, have)?;
        match self.planner.plan(wanted, have) {
            Some(plan) => Ok(plan),
            // It has no plan either, and its error says what is missing.
            None => self.linear.plan(wanted, have),
        }
    }
}

/// Refuses counts that no Reed-Solomon code over GF(2^8) has.
pub(super) fn check_counts(k: usize, m: usize) -> Result<(), Problem> {
    require(k >= 1, || "at least 1 data shard is needed".to_owned())?;
    require(m >= 1, || "at least 1 parity shard is needed".to_owned())?;
    require(k + m <= MOST_SHARDS, || format!("GF(2^8) allows {MOST_SHARDS} shards in all, not {}", k + m))
}

/// The coding matrix of `rs:k+m`: `m` rows, `k` columns; needs `k + m <= 256`.
#[must_use]
pub(crate) fn normalised_cauchy(k: usize, m: usize) -> Matrix {
    assert!(k + m <= MOST_SHARDS, "a Cauchy matrix over GF(2^8) has at most 256 rows and columns together");
    Matrix::from_fn(m, k, |row, column| coefficient(k, row, column))
}

/// One element of [`normalised_cauchy`].
fn coefficient(k: usize, row: usize, column: usize) -> u8 {
    gf::divide((k ^ column) as u8, ((k + row) ^ column) as u8).unwrap_or(0)
}

/// The coding rows of ISA-L's `gf_gen_cauchy1_matrix`: `1 / ((k + r) ^ j)`; needs `k + m <= 256`.
#[must_use]
pub(super) fn isal_cauchy(k: usize, m: usize) -> Matrix {
    assert!(k + m <= MOST_SHARDS, "a Cauchy matrix over GF(2^8) has at most 256 rows and columns together");
    // Rows and columns are distinct elements below 256, so no sum is zero.
    Matrix::from_fn(m, k, |row, column| gf::inverse(((k + row) ^ column) as u8).unwrap_or(0))
}

#[cfg(test)]
#[path = "rs_tests.rs"]
mod tests;
