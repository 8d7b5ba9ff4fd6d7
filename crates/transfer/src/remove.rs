//! Removing a segment's shards.

use crate::error::ShardFailure;
use crate::transfer::Transfer;
use weft_format::SegmentId;
use weft_format::records::SegmentRecord;

/// How a removal went.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Removal {
    /// Shards that are gone: removed now, or found to be absent.
    pub gone: usize,
    /// Shards whose node did not say so; try again later.
    pub unknown: Vec<ShardFailure>,
}

#[allow(unused_variables)]
impl Transfer {
    /// Removes every shard that the record names. The caller has committed that nothing refers to them.
    pub async fn remove(&self, segment: SegmentId, record: &SegmentRecord) -> Removal {
        unimplemented!()
    }
}
