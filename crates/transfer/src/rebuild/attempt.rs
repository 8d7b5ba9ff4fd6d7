//! How attempts to rebuild shards from combinations end.

use super::helpers::Helper;
use crate::algebra::CombinedRecipe;
use crate::suspect::Suspect;
use crate::write::encode::Object;
use std::sync::Arc;
use weft_nodes::Combination;

/// How an attempt ended.
#[derive(Default)]
pub(super) struct Attempt {
    /// The lost shards, as the record's digests say; none where combining brings nothing, or did not lead to them.
    pub(super) objects: Option<Vec<Object>>,
    /// Bytes that nodes sent, here or to each other.
    pub(super) bytes_read: u64,
    /// Bytes of these that came here.
    pub(super) bytes_received: u64,
    /// Bytes that nodes read to send those.
    pub(super) bytes_read_by_nodes: u64,
    /// Helpers that failed.
    pub(super) suspects: Vec<Suspect>,
    /// Answers from which no shard that matches its digest was rebuilt.
    pub(super) mismatched: Vec<Answer>,
    /// A chain's sum of which the same is true.
    pub(super) mismatched_sum: Option<MismatchedSum>,
}

/// A combination that a node sent.
pub(super) struct Answer {
    pub(super) shard: usize,
    pub(super) combination: Combination,
    pub(super) digest: blake3::Hash,
}

/// A chain's result that does not match the digests, and the helpers that were asked.
pub(super) struct MismatchedSum {
    pub(super) objects: Vec<Object>,
    pub(super) recipe: Arc<CombinedRecipe>,
    pub(super) helpers: Vec<Option<Helper>>,
}
