//! Reed-Solomon with ISA-L's Cauchy matrix. It reads and writes what users of its `gf_gen_cauchy1_matrix` store, and
//! users of klauspost/reedsolomon's `WithCauchyMatrix`, which is the same.
//!
//! ```text
//! parity r = sum of D_j / ((k + r) ^ j)      in GF(2^8), ^ is XOR of the indices
//! ```
//!
//! Every square submatrix of a Cauchy matrix is non-singular, so any `m` shards may be lost, up to n = 256. It differs
//! from [`rs`] in that columns are not normalised, so no parity is a plain sum. For new data, [`rs`] is faster.
//! Cost: `(k + m) / k` bytes stored per byte; a repair reads `k` shards, even of one loss with products.
//! Cost: `(k + m) / k` bytes stored per byte; a repair reads `k` shards and multiplies even for one loss.
//! Source: Bloemer et al.: An XOR-based erasure-resilient coding scheme (1995); ISA-L's `gf_gen_cauchy1_matrix`.
//!
//! ```
//! let code = weft_codes::parse("rs-cauchy:10+4")?;
//! assert_eq!((code.shape().n, code.shape().tolerance), (14, 4));
//! assert_eq!(weft_codes::parse("rs-cauchy:2+1")?.encode().to_matrix()?.row(0), [142, 244]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use super::parameters::{Problem, data_and_parity};
use super::{Family, rs};
use crate::code::Code;
use crate::linear::LinearCode;
use alloc::format;
use alloc::sync::Arc;

pub(super) const FAMILY: Family = Family {
    name: "rs-cauchy",
    syntax: "rs-cauchy:data+parity",
    example: "rs-cauchy:10+4",
    description: "Reed-Solomon, ISA-L's Cauchy matrix as it is; any `parity` shards may be lost",
    source: "Bloemer et al.: An XOR-based erasure-resilient coding scheme (1995); ISA-L's gf_gen_cauchy1_matrix",
    build,
};

fn build(parameters: &str) -> Result<Arc<dyn Code>, Problem> {
    let (k, m) = data_and_parity(parameters)?;
    rs::check_counts(k, m)?;
    Ok(Arc::new(LinearCode::systematic_mds(format!("rs-cauchy:{k}+{m}"), &rs::isal_cauchy(k, m))))
}
