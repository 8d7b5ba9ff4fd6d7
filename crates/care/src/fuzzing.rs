//! Decoders that are nobody else's business, for `crates/fuzz`.

pub use crate::record::fuzzing::{record, record_seeds};
