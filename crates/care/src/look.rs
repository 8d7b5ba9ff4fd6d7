//! A look at the shards of a segment: how close it is, and what it finds.

use weft_transfer::{SegmentHealth, ShardHealth};

/// How closely to look at a segment's shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Look {
    /// At the record and at which nodes answer: no I/O.
    Record,
    /// Also ask each node for its shard's length.
    Lengths,
    /// Also read every shard and check it against the metadata's digest.
    Everything,
}

/// What a look found, by the index of the shard.
pub(crate) fn by_shard(health: SegmentHealth) -> Vec<Option<ShardHealth>> {
    health.shards.into_iter().map(Some).collect()
}
