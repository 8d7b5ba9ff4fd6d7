//! Records of the metadata that more than one crate reads. Protocol-buffer encoded (they evolve), but for [`Attributes`],
//! which every lookup decodes and which is therefore a fixed little-endian layout. Each starts with a version, and an
//! unknown version is refused with a sentence, never skipped.

mod attributes;
mod damage;
mod lease;
mod node;
mod object;
mod openings;
mod placement;
mod policy;
mod replica;
mod retained;
mod segment;
mod sums;
mod volume;

use prost::Message as _;

pub use attributes::{Attributes, Kind, Timestamp};
pub use damage::{DamageRecord, DamagedShard};
pub use lease::LeaseRecord;
pub use node::{NodeLimits, NodeRecord, NodeState, Secret};
pub use object::{
    Alternate, Contents, OBJECT_SEGMENTS_MAX, ObjectId, ObjectNameError, ObjectRecord, ObjectSegment, ObjectState,
    Stamp, check_object_name, data_segment, name_hash, record_key,
};
pub use openings::{Fate, Latest, NOBODY_COMMITS, OPENINGS, Opening, OpeningsRecord, opening_key};
pub use placement::PlacementRule;
pub use policy::{CELL_BYTES, Later, PolicyRecord, SEGMENT_BYTES, Sizes, Wanted, wanted};
pub use replica::{Reached, Replica, ReplicaHeader, ReplicaKind, ReplicaSlot, first_replica, is_replica, replica_id};
pub use retained::{RetainedRecord, Succession};
pub use segment::{Origin, SegmentRecord, ShardLocation};
pub use sums::{SegmentSum, SumsRecord};
pub use volume::VolumeRecord;

/// Bytes that are not the record they should be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// Written by a newer program, or not a record at all.
    #[error(
        "the {what} record has version {version}, this program reads version {newest}: use the program that wrote it"
    )]
    UnknownVersion {
        /// Which record.
        what: &'static str,
        /// The version found; 0 where there is none.
        version: u32,
        /// The newest version this program reads.
        newest: u32,
    },
    /// The version is known and the rest does not fit it.
    #[error("the {what} record is damaged ({detail}): restore it from a copy")]
    Damaged {
        /// Which record.
        what: &'static str,
        /// What does not fit.
        detail: String,
    },
}

fn damaged(what: &'static str, detail: impl ToString) -> RecordError {
    RecordError::Damaged { what, detail: detail.to_string() }
}

/// Every protocol-buffer record is of version 1, but for merged segments.
const VERSION: u32 = 1;

/// The version is field 1 of every record and is read before all else: the other fields of a newer version may mean, or
/// be typed, otherwise.
#[derive(Clone, PartialEq, prost::Message)]
struct VersionOnly {
    #[prost(uint32, tag = "1")]
    version: u32,
}

fn decode_message<M: prost::Message + Default>(what: &'static str, bytes: &[u8]) -> Result<M, RecordError> {
    decode_versions(what, VERSION, bytes)
}

/// A record of which there are versions from 1 to `newest`.
fn decode_versions<M: prost::Message + Default>(
    what: &'static str,
    newest: u32,
    bytes: &[u8],
) -> Result<M, RecordError> {
    let found = VersionOnly::decode(bytes).map_err(|error| damaged(what, error))?.version;
    if !(1..=newest).contains(&found) {
        return Err(RecordError::UnknownVersion { what, version: found, newest });
    }
    M::decode(bytes).map_err(|error| damaged(what, error))
}

fn sixteen(what: &'static str, field: &str, bytes: &[u8]) -> Result<[u8; 16], RecordError> {
    bytes.try_into().map_err(|_| damaged(what, format!("{field} has {} bytes instead of 16", bytes.len())))
}

fn check_code(what: &'static str, code: &str) -> Result<(), RecordError> {
    crate::shard::check_code(code).map_err(|error| damaged(what, error))
}

#[cfg(test)]
#[path = "records_tests.rs"]
mod tests;
