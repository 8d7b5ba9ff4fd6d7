//! Decoders that are nobody else's business, for `crates/fuzz`.

pub use crate::block::fuzzing::{block, block_seeds};
#[cfg(feature = "foreign")]
pub use crate::foreign::fuzzing::{block_locations, block_locations_seeds};
