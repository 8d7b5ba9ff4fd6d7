//! Writing a segment.

use crate::error::WriteError;
use crate::transfer::Transfer;
use bytes::Bytes;
use weft_format::records::SegmentRecord;
use weft_format::{SegmentId, ShardIndex};

/// A segment to be written.
#[derive(Clone, Debug)]
pub struct WriteRequest {
    /// A new id, never used before.
    pub segment: SegmentId,
    /// Spec of the code, e.g. `rs:4+2`.
    pub code: String,
    /// How many shards beyond k must be durable; never fewer than one unless the code has none to spare, never more than n - k.
    pub write_margin: u16,
    /// The data, in pieces of any length; 1 byte to `MAX_SEGMENT_BYTES` in all.
    pub data: Vec<Bytes>,
}

/// What a write leaves behind: commit `record` and the segment exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// Where the shards are. A missing shard is `None`.
    pub record: SegmentRecord,
    /// Shards that were not stored; queue them for repair.
    pub missing: Vec<ShardIndex>,
    /// Bytes that nodes have acknowledged, headers and checksums included.
    pub bytes_written: u64,
}

#[allow(unused_variables)]
impl Transfer {
    /// Encodes a segment and stores its shards on nodes of distinct domains.
    ///
    /// # Errors
    /// [`WriteError`]; nothing is visible then.
    pub async fn write(&self, request: WriteRequest) -> Result<Receipt, WriteError> {
        unimplemented!()
    }
}
