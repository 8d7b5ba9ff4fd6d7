//! Is every shard of a segment where it should be, and sound?

use crate::transfer::Transfer;
use weft_format::SegmentId;
use weft_format::records::SegmentRecord;
use weft_nodes::NodeErrorKind;

/// The state of one shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShardHealth {
    /// There, and as the record says: all of it after [`Transfer::verify`], its length after [`Transfer::census`].
    Sound,
    /// The record has no place for it, or its node is up and has no such shard.
    Missing,
    /// Its node could not be asked, so nothing is known of it.
    Unknown(NodeErrorKind),
    /// There, and not as the record says; the detail says how.
    Damaged(String),
}

/// The state of a segment's shards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentHealth {
    /// By shard index.
    pub shards: Vec<ShardHealth>,
    /// Bytes read and checked; 0 after a census.
    pub bytes_verified: u64,
}

#[allow(unused_variables)]
impl Transfer {
    /// Reads every shard whole and checks header, frames and digest.
    pub async fn verify(&self, segment: SegmentId, record: &SegmentRecord) -> SegmentHealth {
        unimplemented!()
    }

    /// Asks every node for its shard's length; reads nothing.
    pub async fn census(&self, segment: SegmentId, record: &SegmentRecord) -> SegmentHealth {
        unimplemented!()
    }
}
