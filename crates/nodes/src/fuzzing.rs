//! Decoders that are nobody else's business, for `crates/fuzz`.

pub use crate::block::fuzzing::{block, block_seeds};
