//! RAID-5: `n - 1` data shards and their XOR. Parity stays on the last shard; placement rotates shards over nodes.
//!
//! ```text
//! P = D_0 + D_1 + ... + D_(n-2)
//! ```
//!
//! Cost: `n / (n - 1)` bytes stored per byte; a repair reads the `n - 1` others.
//!
//! Source: Patterson, Gibson, Katz: A case for redundant arrays of inexpensive disks (SIGMOD 1988).
//!
//! ```
//! let code = weft_codes::parse("raid5:5")?;
//! assert_eq!((code.shape().n, code.shape().tolerance), (5, 1));
//! assert!(code.encode().to_string().ends_with("o0 = i0 + i1 + i2 + i3\n"));
//! # Ok::<(), weft_codes::SpecError>(())
//! ```

use super::Family;
use super::parameters::{Problem, count, require};
use crate::code::Code;
use crate::linear::LinearCode;
use crate::matrix::Matrix;
use alloc::format;
use alloc::sync::Arc;

pub(super) const FAMILY: Family = Family {
    name: "raid5",
    syntax: "raid5:n",
    example: "raid5:5",
    description: "n - 1 data shards and their XOR; any one may be lost",
    source: "Patterson, Gibson, Katz: A case for redundant arrays of inexpensive disks (SIGMOD 1988)",
    build,
};

/// As for all codes over GF(2^8); XOR itself would allow more.
const MOST_SHARDS: usize = 256;

fn build(parameters: &str) -> Result<Arc<dyn Code>, Problem> {
    let n = count(parameters)?;
    require((3..=MOST_SHARDS).contains(&n), || format!("RAID-5 has 3 to {MOST_SHARDS} shards, not {n}"))?;
    let coding = Matrix::from_fn(1, n - 1, |_, _| 1);
    Ok(Arc::new(LinearCode::systematic_mds(format!("raid5:{n}"), &coding)))
}
