//! What is known of shards that others have taken the place of.

use super::segment::SegmentRecord;
use super::{RecordError, VERSION, damaged, decode_message};
use prost::Message as _;

const WHAT: &str = "retained shards";

/// Shards that a segment no longer names and that are kept for a while: for those who read by the previous record, and for
/// whoever thinks better of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetainedRecord {
    /// The previous record, with those shards only that are retained by it; the others are `None`. Its generation tells it from others
    /// of the same segment: it was the newest when others took its place.
    pub record: SegmentRecord,
    /// Since when nothing names them, milliseconds since the Unix epoch.
    pub since_ms: u64,
    /// How long they are kept at least, beyond what the collector leaves alone anyway.
    pub keep_ms: u64,
    /// They are being removed: some may be gone already, and none may be named again.
    pub is_going: bool,
}

/// What becomes of shards when a segment gets a new record; by default nothing, and what the previous one alone named is left to
/// whoever collects what nothing names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Succession {
    /// Kept for a while from now on.
    pub retained: Option<RetainedRecord>,
    /// Was kept, and is named by the new record again.
    pub restored: Option<RetainedRecord>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Message {
    #[prost(uint32, tag = "1")]
    version: u32,
    #[prost(bytes = "vec", tag = "2")]
    record: Vec<u8>,
    #[prost(uint64, tag = "3")]
    since_ms: u64,
    #[prost(uint64, tag = "4")]
    keep_ms: u64,
    #[prost(bool, tag = "5")]
    is_going: bool,
}

impl RetainedRecord {
    /// What of `previous` is retained when `new` takes its place; `None`: `new` names every shard of it.
    pub fn of(previous: &SegmentRecord, new: &SegmentRecord, since_ms: u64, keep_ms: u64) -> Option<Self> {
        let mut record = previous.clone();
        for (index, shard) in record.shards.iter_mut().enumerate() {
            if shard.as_ref().is_some_and(|location| new.names(index, location)) {
                *shard = None;
            }
        }
        let retains = record.shards.iter().any(Option::is_some);
        retains.then_some(Self { record, since_ms, keep_ms, is_going: false })
    }

    /// Protocol-buffer bytes; FORMAT.md has the fields.
    pub fn encode(&self) -> Vec<u8> {
        let Self { record, since_ms, keep_ms, is_going } = self;
        let (record, since_ms, keep_ms, is_going) = (record.encode(), *since_ms, *keep_ms, *is_going);
        Message { version: VERSION, record, since_ms, keep_ms, is_going }.encode_to_vec()
    }

    /// The inverse of [`Self::encode`].
    ///
    /// # Errors
    /// Unknown version; a segment record that cannot be; one without a shard.
    pub fn decode(bytes: &[u8]) -> Result<Self, RecordError> {
        let Message { record, since_ms, keep_ms, is_going, .. } = decode_message(WHAT, bytes)?;
        let record = SegmentRecord::decode(&record)?;
        if record.shards.iter().all(Option::is_none) {
            return Err(damaged(WHAT, "it names no shard"));
        }
        Ok(Self { record, since_ms, keep_ms, is_going })
    }
}
