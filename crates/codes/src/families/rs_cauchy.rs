//! Reed-Solomon with ISA-L's Cauchy matrix, for reading and writing what users of its `gf_gen_cauchy1_matrix` store, and
//! those of klauspost/reedsolomon's `WithCauchyMatrix`, which is the same.
//!
//! ```text
//! parity r = sum of D_j / ((k + r) ^ j)      in GF(2^8), ^ is XOR of the indices
//! ```
//!
//! Every square submatrix of a Cauchy matrix is non-singular, so any `m` shards may be lost, up to n = 256. It is [`rs`]
//! without that one's normalised columns, so that no parity is a plain sum; for data of one's own, [`rs`] is faster.
//!
//! Cost: `(k + m) / k` bytes stored per byte; a repair reads `k` shards, even of one loss with products.
//!
//! Source: Bloemer et al.: An XOR-based erasure-resilient coding scheme (1995); ISA-L's `gf_gen_cauchy1_matrix`.
//!
//! ```
//! let code = weft_codes::parse("rs-cauchy:10+4")?;
//! assert_eq!((code.shape().n, code.shape().tolerance), (14, 4));
//! assert_eq!(weft_codes::families::rs::isal_cauchy(2, 1).row(0), [142, 244]);
//! # Ok::<(), weft_codes::SpecError>(())
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
