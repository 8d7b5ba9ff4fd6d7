//! Rebuilding lost shards.

use crate::error::RebuildError;
use crate::read::Suspect;
use crate::transfer::Transfer;
use weft_format::records::SegmentRecord;
use weft_format::{NodeId, SegmentId, ShardIndex};

/// What a rebuild leaves behind: commit `record`, and only then remove what it replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rebuilt {
    /// The record with the new locations; its generation, and that of every rebuilt shard, is one higher.
    pub record: SegmentRecord,
    /// Bytes that nodes sent.
    pub bytes_read: u64,
    /// Bytes stored, headers and checksums included.
    pub bytes_written: u64,
    /// Where the rebuilt shards are.
    pub placed: Vec<(ShardIndex, NodeId)>,
    /// Shards taken for survivors that turned out lost, damaged or out of reach.
    pub also_lost: Vec<Suspect>,
}

#[allow(unused_variables)]
impl Transfer {
    /// Rebuilds the shards `lost` from the others, checks them, and stores them on nodes of free domains under a new
    /// generation. Overwrites nothing, removes nothing.
    ///
    /// # Errors
    /// [`RebuildError`]; the segment is as it was.
    pub async fn rebuild(
        &self,
        segment: SegmentId,
        record: &SegmentRecord,
        lost: &[ShardIndex],
    ) -> Result<Rebuilt, RebuildError> {
        unimplemented!()
    }
}
