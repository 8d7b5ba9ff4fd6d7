//! Decoders that are nobody else's business, for `crates/fuzz`.

pub use crate::disk_cache::fuzzing::{entries, entries_seeds};
