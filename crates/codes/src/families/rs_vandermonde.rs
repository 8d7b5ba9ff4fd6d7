//! Reed-Solomon with ISA-L's Vandermonde-like matrix. It reads and writes what users of ISA-L store.
//!
//! ```text
//! parity r = sum of 2^(r j) D_j      in GF(2^8)
//! ```
//!
//! The first row is the XOR of the data, the second the Q of RAID-6. The matrix is systematic without elimination, so
//! it is MDS only within limits, which were found by trying all square submatrices. Other parameters are refused; `rs:`
//! has no such limits.
//!
//! Cost: `(k + m) / k` bytes stored per byte; a repair reads `k` shards.
//!
//! Source: ISA-L's `gf_gen_rs_matrix`.
//!
//! ```
//! let code = weft_codes::parse("rs-vandermonde:10+3")?;
//! assert_eq!((code.shape().n, code.shape().tolerance), (13, 3));
//! assert!(weft_codes::parse("rs-vandermonde:22+4").is_err());
//! # Ok::<(), weft_codes::SpecError>(())
//! ```

use super::parameters::{Problem, data_and_parity, require};
use super::{Family, rs};
use crate::code::Code;
use crate::gf;
use crate::linear::LinearCode;
use crate::matrix::Matrix;
use alloc::format;
use alloc::sync::Arc;

pub(super) const FAMILY: Family = Family {
    name: "rs-vandermonde",
    syntax: "rs-vandermonde:data+parity",
    example: "rs-vandermonde:10+3",
    description: "Reed-Solomon, ISA-L's Vandermonde matrix where that is MDS (mostly parity <= 3)",
    source: "ISA-L's gf_gen_rs_matrix",
    build,
};

fn build(parameters: &str) -> Result<Arc<dyn Code>, Problem> {
    let (k, m) = data_and_parity(parameters)?;
    rs::check_counts(k, m)?;
    let most = most_data_shards(m);
    require(k <= most, || match most {
        0 => format!("with {m} parities this matrix is not known to be MDS, rs:{k}+{m} is"),
        _ => format!("with {m} parities this matrix is MDS only up to {most} data shards, rs:{k}+{m} always is"),
    })?;
    Ok(Arc::new(LinearCode::systematic_mds(format!("rs-vandermonde:{k}+{m}"), &isal_vandermonde(k, m))))
}

/// The most data shards for which any `m` losses can be decoded.
fn most_data_shards(m: usize) -> usize {
    match m {
        0..=3 => 255,
        4 => 21,
        5 => 5,
        6..=8 => 4,
        _ => 0,
    }
}

/// The coding rows of ISA-L's `gf_gen_rs_matrix`: 2^(r * j).
#[must_use]
pub(crate) fn isal_vandermonde(k: usize, m: usize) -> Matrix {
    Matrix::from_fn(m, k, |row, column| gf::power_of_two(row * column))
}
