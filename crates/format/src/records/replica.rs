//! Pieces of the metadata's replica on the volume's nodes.
//!
//! A piece is part of a *snapshot* (pairs of the whole store, read page by page) or of a *change set* (the keys that some transactions
//! changed, with the values that they had at one moment). Metadata is rebuilt from one snapshot and the change sets after it, see
//! [`ReplicaHeader`]. Nodes hold a piece as the data of a segment whose id no file's segment has ([`replica_id`]), and which no record
//! names: the piece itself says what it is.

use super::{RecordError, VERSION, damaged, decode_message};
use crate::ids::SegmentId;
use prost::Message as _;
use prost::encoding::{decode_varint, encode_varint};

const WHAT: &str = "metadata replica";

/// The time in the ids of pieces, in milliseconds since the Unix epoch: the last but one that an id can have.
const MARK_MS: u64 = (1 << 48) - 2;

/// Longest header: a few numbers.
const HEADER_BYTES_MAX: usize = 1024;

/// Bits of an id for the transaction: at ten a second half a century, ...
const UPTO_BITS: u32 = 34;
/// ... and for what tells pieces of the same transaction apart: the parts of a snapshot of 32 GiB.
const NONCE_BITS: u32 = 14;

/// The id of a new piece of this moment ([`ReplicaHeader::upto`]), stored by a process of this opening: ids ascend as openings and moments do. `nonce`
/// tells it from others of the same moment.
#[must_use]
pub fn replica_id(opening: u32, upto: u64, nonce: u64) -> SegmentId {
    let low = |number: u64, bits: u32| u128::from(number & ((1 << bits) - 1));
    let moment = low(upto, UPTO_BITS) << NONCE_BITS | low(nonce, NONCE_BITS);
    SegmentId::new(MARK_MS, u128::from(opening) << (UPTO_BITS + NONCE_BITS) | moment)
}

/// How far metadata has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reached {
    /// Whose transactions are counted.
    pub lineage: u64,
    /// The last opening whose process could store pieces.
    pub opening: u32,
    /// The last transaction.
    pub last: u64,
    /// Up to where nodes had its changes when it was found to be set back; `None`: it was not.
    pub later: Option<u64>,
}

impl Reached {
    /// Pieces of a later moment have greater ids.
    #[must_use]
    pub fn last_id(&self) -> SegmentId {
        replica_id(self.opening, self.last, u64::MAX)
    }

    /// Is this piece of a later moment? Nodes are given none before its moment is durable in the metadata, which was set back then.
    #[must_use]
    pub fn is_before(&self, piece: &ReplicaHeader) -> bool {
        piece.lineage == self.lineage && piece.upto > self.last
    }

    /// Why the metadata changes nothing when nodes have its changes up to a later transaction; with the mend.
    #[must_use]
    pub fn refusal(&self, later: u64) -> String {
        format!(
            "this is the volume's metadata as it was earlier: it ends with transaction {}, and nodes have its changes up to {later}; it may be read and \
             changes nothing: bring the later state back with `weft recover`, or continue from this one with `weft restore`",
            self.last
        )
    }
}

/// Is it the id of a piece?
#[must_use]
pub fn is_replica(segment: SegmentId) -> bool {
    segment.created_ms() == MARK_MS
}

/// No piece has a smaller id.
#[must_use]
pub fn first_replica() -> SegmentId {
    SegmentId::new(MARK_MS, 0)
}

/// What a piece is part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ReplicaKind {
    /// All pairs of the store.
    Snapshot,
    /// Changed keys.
    Changes,
}

/// What a piece is. Transactions of a store are numbered, and a copy of a store counts for itself: its *lineage* is another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplicaHeader {
    /// Whose transactions are counted.
    pub lineage: u64,
    /// The opening of the process that stored it.
    pub opening: u32,
    /// What it is part of, ...
    pub kind: ReplicaKind,
    /// ... and which; random.
    pub set: u64,
    /// Its place among the parts, from 0.
    pub part: u32,
    /// Is it the last part?
    pub is_last: bool,
    /// Of a change set: it has what the transactions after this one changed. Of a snapshot: no part was read before this transaction.
    pub after: u64,
    /// Of a change set: values are of the moment of this transaction. Of a snapshot: the part was read at this transaction; with the
    /// changes from `after` up to the last part's `upto` it is the store at that moment.
    pub upto: u64,
    /// When it was read, in milliseconds since the Unix epoch; for people.
    pub at_ms: u64,
    /// Bytes of its keys and values.
    pub bytes: u64,
}

/// A key, and its value if it has one.
pub type ReplicaSlot = (Vec<u8>, Option<Vec<u8>>);

/// A piece.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replica {
    /// What it is.
    pub header: ReplicaHeader,
    /// Keys, ascending.
    pub slots: Vec<ReplicaSlot>,
}

impl Replica {
    /// The header's length (4 bytes, little-endian), the header, then for each slot the key's length, the key, the value's length and 1,
    /// or 0 without a value, and the value. Lengths of slots are varints.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let header = self.header.message().encode_to_vec();
        let mut bytes = (header.len() as u32).to_le_bytes().to_vec();
        bytes.extend_from_slice(&header);
        for (key, value) in &self.slots {
            encode_varint(key.len() as u64, &mut bytes);
            bytes.extend_from_slice(key);
            encode_varint(value.as_ref().map_or(0, |value| value.len() as u64 + 1), &mut bytes);
            bytes.extend_from_slice(value.as_deref().unwrap_or_default());
        }
        bytes
    }

    /// The inverse of [`Self::encode`].
    ///
    /// # Errors
    /// Unknown version; lengths that do not fit; keys in no order.
    pub fn decode(bytes: &[u8]) -> Result<Self, RecordError> {
        let (header, mut rest) = split(bytes)?;
        let mut slots: Vec<ReplicaSlot> = Vec::new();
        while !rest.is_empty() {
            let length = varint(&mut rest)?;
            let key = take(&mut rest, length)?;
            let value = match varint(&mut rest)? {
                0 => None,
                length => Some(take(&mut rest, length - 1)?),
            };
            if slots.last().is_some_and(|(last, _)| *last >= key) {
                return Err(damaged(WHAT, "its keys are in no order"));
            }
            slots.push((key, value));
        }
        Ok(Self { header, slots })
    }
}

impl ReplicaHeader {
    /// That of the piece that begins with these bytes.
    ///
    /// # Errors
    /// As [`Replica::decode`]; it is longer than these bytes.
    pub fn decode(start: &[u8]) -> Result<Self, RecordError> {
        Ok(split(start)?.0)
    }

    fn message(&self) -> HeaderMessage {
        let Self { lineage, opening, kind, set, part, is_last, after, upto, at_ms, bytes } = *self;
        let is_snapshot = kind == ReplicaKind::Snapshot;
        HeaderMessage { version: VERSION, lineage, opening, is_snapshot, set, part, is_last, after, upto, at_ms, bytes }
    }
}

fn split(bytes: &[u8]) -> Result<(ReplicaHeader, &[u8]), RecordError> {
    let short = || damaged(WHAT, "it is too short");
    let (length, rest) = bytes.split_first_chunk().ok_or_else(short)?;
    let length = u32::from_le_bytes(*length) as usize;
    if length > HEADER_BYTES_MAX {
        return Err(damaged(WHAT, "its header is too long"));
    }
    let (header, rest) = rest.split_at_checked(length).ok_or_else(short)?;
    let HeaderMessage { lineage, opening, is_snapshot, set, part, is_last, after, upto, at_ms, bytes, .. } =
        decode_message(WHAT, header)?;
    if upto < after {
        return Err(damaged(WHAT, "it ends before it begins"));
    }
    let kind = if is_snapshot { ReplicaKind::Snapshot } else { ReplicaKind::Changes };
    Ok((ReplicaHeader { lineage, opening, kind, set, part, is_last, after, upto, at_ms, bytes }, rest))
}

fn varint(rest: &mut &[u8]) -> Result<u64, RecordError> {
    decode_varint(rest).map_err(|error| damaged(WHAT, error))
}

fn take(rest: &mut &[u8], length: u64) -> Result<Vec<u8>, RecordError> {
    let taken = usize::try_from(length).ok().and_then(|length| rest.split_at_checked(length));
    let (taken, left) = taken.ok_or_else(|| damaged(WHAT, "a slot is cut"))?;
    *rest = left;
    Ok(taken.to_vec())
}

#[derive(Clone, PartialEq, prost::Message)]
struct HeaderMessage {
    #[prost(uint32, tag = "1")]
    version: u32,
    #[prost(fixed64, tag = "2")]
    lineage: u64,
    #[prost(uint32, tag = "3")]
    opening: u32,
    #[prost(bool, tag = "4")]
    is_snapshot: bool,
    #[prost(fixed64, tag = "5")]
    set: u64,
    #[prost(uint32, tag = "6")]
    part: u32,
    #[prost(bool, tag = "7")]
    is_last: bool,
    #[prost(uint64, tag = "8")]
    after: u64,
    #[prost(uint64, tag = "9")]
    upto: u64,
    #[prost(uint64, tag = "10")]
    at_ms: u64,
    #[prost(uint64, tag = "11")]
    bytes: u64,
}

#[cfg(test)]
#[path = "replica_tests.rs"]
mod tests;
