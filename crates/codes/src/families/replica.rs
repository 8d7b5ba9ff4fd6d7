//! Replication: `r` shards, each a plain copy of the one native symbol.
//!
//! ```text
//! shard i = the native symbol      for every i
//! ```
//!
//! Cost: `r` bytes stored per byte; a repair reads one copy.
//!
//! Source: folklore.
//!
//! ```
//! let code = weft_codes::parse("replica:3")?;
//! assert_eq!((code.shape().n, code.shape().tolerance), (3, 2));
//! assert!(code.encode().ops.is_empty());
//! # Ok::<(), weft_codes::SpecError>(())
//! ```

use super::Family;
use super::parameters::{Problem, count, require};
use crate::code::Code;
use crate::linear::LinearCode;
use crate::matrix::Matrix;
use alloc::format;
use alloc::sync::Arc;
use alloc::vec::Vec;

pub(super) const FAMILY: Family = Family {
    name: "replica",
    syntax: "replica:copies",
    example: "replica:3",
    description: "plain copies; any one of them is enough",
    source: "folklore",
    build,
};

/// More copies than this are a typing error.
const MOST_COPIES: usize = 256;

fn build(parameters: &str) -> Result<Arc<dyn Code>, Problem> {
    let copies = count(parameters)?;
    require((1..=MOST_COPIES).contains(&copies), || format!("there are 1 to {MOST_COPIES} copies, not {copies}"))?;
    let generator = Matrix::from_fn(copies, 1, |_, _| 1);
    Ok(Arc::new(LinearCode::new(format!("replica:{copies}"), 1, 1, copies - 1, Vec::new(), generator)))
}
