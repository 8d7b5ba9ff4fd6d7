//! Reading a range of a segment.

use crate::error::{ReadError, SuspectKind};
use crate::transfer::Transfer;
use bytes::Bytes;
use std::ops::Range;
use std::sync::Arc;
use weft_format::records::SegmentRecord;
use weft_format::{SegmentId, ShardIndex};

/// A shard that was asked for and could not be used; care looks after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Suspect {
    /// Which shard of the segment.
    pub index: ShardIndex,
    /// What was wrong.
    pub kind: SuspectKind,
}

/// How a read went.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadReport {
    /// Bytes that nodes sent; 0 where the cache had everything.
    pub bytes_fetched: u64,
    /// Was anything computed from other shards?
    pub degraded: bool,
    /// Shards that failed on the way.
    pub suspects: Vec<Suspect>,
}

#[allow(unused_variables)]
impl Transfer {
    /// Reads data bytes `range` of a segment into `out`, which is as long as the range.
    ///
    /// # Errors
    /// [`ReadError`]; what `out` holds then means nothing.
    pub async fn read(
        &self,
        segment: SegmentId,
        record: &Arc<SegmentRecord>,
        range: Range<u64>,
        out: &mut [u8],
    ) -> Result<ReadReport, ReadError> {
        unimplemented!()
    }

    /// Reads like [`Self::read`], and gives the bytes: a slice of a cached block without copying where the range lies in
    /// one, otherwise a new buffer.
    ///
    /// # Errors
    /// [`ReadError`].
    pub async fn read_bytes(
        &self,
        segment: SegmentId,
        record: &Arc<SegmentRecord>,
        range: Range<u64>,
    ) -> Result<(Bytes, ReadReport), ReadError> {
        unimplemented!()
    }

    /// Fills the cache with the blocks that `range` touches, in the background. A read that needs one of them waits for it.
    pub fn prefetch(&self, segment: SegmentId, record: &Arc<SegmentRecord>, range: Range<u64>) {
        unimplemented!()
    }
}
