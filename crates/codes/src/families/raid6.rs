//! RAID-6: `n - 2` data shards, P and Q. P is the XOR of the data, Q is the sum of 2^j times data shard j.
//!
//! ```text
//! P = D_0 + D_1 + ...          Q = D_0 + 2 D_1 + 4 D_2 + ...      in GF(2^8)
//! ```
//!
//! MDS because the powers of the generator 2 are distinct for j < 255: of two columns `(1, 2^i)`, `(1, 2^j)` the
//! determinant is 2^i + 2^j.
//!
//! Cost: `n / (n - 2)` bytes stored per byte; a repair reads `n - 2` shards, without Q if only one shard is lost and P
//! is there.
//!
//! Source: Anvin: The mathematics of RAID-6 (2004); bytes equal to Linux md and ISA-L's `pq_gen`.
//!
//! ```
//! let code = weft_codes::parse("raid6:6")?;
//! assert_eq!((code.shape().n, code.shape().tolerance), (6, 2));
//! assert!(code.encode().to_string().contains("o0, o1 = [1 1 1 1; 1 2 4 8] * (i0, i1, i2, i3)"));
//! # Ok::<(), weft_codes::SpecError>(())
//! ```

use super::Family;
use super::parameters::{Problem, count, require};
use crate::code::Code;
use crate::gf;
use crate::linear::LinearCode;
use crate::matrix::Matrix;
use alloc::format;
use alloc::sync::Arc;

pub(super) const FAMILY: Family = Family {
    name: "raid6",
    syntax: "raid6:n",
    example: "raid6:6",
    description: "n - 2 data shards, P (XOR) and Q (weighted sum); any two may be lost",
    source: "Anvin: The mathematics of RAID-6 (2004); bytes equal to Linux md and ISA-L's pq_gen",
    build,
};

/// 254 data shards would still have distinct powers of 2; GF(2^8) codes stop at 256 shards.
const MOST_SHARDS: usize = 256;

fn build(parameters: &str) -> Result<Arc<dyn Code>, Problem> {
    let n = count(parameters)?;
    require((4..=MOST_SHARDS).contains(&n), || format!("RAID-6 has 4 to {MOST_SHARDS} shards, not {n}"))?;
    Ok(Arc::new(LinearCode::systematic_mds(format!("raid6:{n}"), &coding(n - 2))))
}

/// P and Q over `k` data shards.
#[must_use]
pub(super) fn coding(k: usize) -> Matrix {
    Matrix::from_fn(2, k, |row, column| if row == 0 { 1 } else { gf::power_of_two(column) })
}
