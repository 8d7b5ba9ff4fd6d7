//! Objects of a store without a catalogue: how their shards are named, and the record that each member with shards of one keeps beside them.
//!
//! An object is a name and whole contents. Each put makes a version of its own, known by a [`Stamp`]: no two versions, and no two attempts,
//! have a name of a shard in common. The contents are cut into segments; their shards are ordinary ones, named by [`data_segment`]. The
//! record ([`ObjectRecord`]) says code, geometry, and the digests of all shards. It lies at each member that holds shards of the version, always
//! under the same name ([`record_key`]), and is stored after all of them: a version without a record is half an upload.
//!
//! A member decides once about a version: its place for the record holds either the record, or that the upload was given up
//! ([`ObjectState::GivenUp`]). No node replaces what it stores, so a put that was paused for long and a keeper that removes its leftovers cannot
//! both succeed at one member.

use super::{RecordError, VERSION, check_code, damaged, decode_message, sixteen};
use crate::geometry::Geometry;
use crate::ids::{Generation, NodeId, SegmentId, ShardIndex, ShardKey, VolumeId};
use crate::shard::{Digest, ShardBuilder, ShardHeader, ShardIdentity, verify_object};
use bytes::Bytes;
use prost::Message as _;
use std::fmt;

const WHAT: &str = "object";

/// Longest name of an object.
pub const OBJECT_NAME_BYTES_MAX: usize = 1024;

/// Most segments of an object.
pub const OBJECT_SEGMENTS_MAX: u32 = 1 << 16;

/// A record is one copy by itself.
const RECORD_CODE: &str = "replica:1";

const HASH_BITS: u32 = 43;
const NUMBER_BITS: u32 = 20;
const STAMP_BITS: u32 = 64;
/// Milliseconds since the Unix epoch in a stamp: until the year 2527.
const TIME_BITS: u32 = 44;
const RANDOM_BITS: u32 = STAMP_BITS - TIME_BITS;

/// Which version of an object: the later one counts. Its time is that of the clock of the client that put it, or one millisecond after the newest
/// version that was found then, whichever is later; random bits tell puts of one millisecond apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stamp(pub u64);

impl Stamp {
    /// That of a version put at `now_ms` when `newest` was the newest one known. Of `random` the upper 20 bits count.
    #[must_use]
    pub fn after(newest: Option<Stamp>, now_ms: u64, random: u64) -> Self {
        let least_ms = newest.map_or(0, |newest| newest.at_ms() + 1);
        let time_ms = now_ms.max(least_ms).min((1 << TIME_BITS) - 1);
        Self(time_ms << RANDOM_BITS | random >> TIME_BITS)
    }

    /// When it was put, milliseconds since the Unix epoch.
    #[must_use]
    pub fn at_ms(self) -> u64 {
        self.0 >> RANDOM_BITS
    }
}

impl fmt::Display for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// A text that cannot name an object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` cannot name an object: a name is 1 to {OBJECT_NAME_BYTES_MAX} bytes of UTF-8 without control characters"
)]
pub struct ObjectNameError {
    text: String,
}

/// # Errors
/// It is empty, too long, or has control characters.
pub fn check_object_name(name: &str) -> Result<(), ObjectNameError> {
    let fits = (1..=OBJECT_NAME_BYTES_MAX).contains(&name.len()) && !name.chars().any(char::is_control);
    let shown = || name.chars().take(64).filter(|c| !c.is_control()).collect();
    if fits { Ok(()) } else { Err(ObjectNameError { text: shown() }) }
}

/// Where the name lies among all names: 43 bits. Names that share it share nothing else.
#[must_use]
pub fn name_hash(name: &str) -> u64 {
    let [a, b, c, d, e, f, g, h, ..] = *blake3::hash(name.as_bytes()).as_bytes();
    u64::from_be_bytes([a, b, c, d, e, f, g, h]) >> (u64::BITS - HASH_BITS)
}

/// What the id of a segment of an object says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectId {
    /// Is it a segment of data, and not a record?
    pub is_data: bool,
    /// Of the object's name.
    pub hash: u64,
    /// Which of the version's segments; 0 for a record.
    pub number: u32,
    /// Of which version.
    pub stamp: Stamp,
}

impl ObjectId {
    /// As the id of a segment. The last bits are random ones, as nodes expect.
    #[must_use]
    pub fn segment(self) -> SegmentId {
        let Self { is_data, hash, number, stamp } = self;
        let upper = u128::from(is_data) << HASH_BITS | u128::from(hash & ((1 << HASH_BITS) - 1));
        let number = u128::from(number & ((1 << NUMBER_BITS) - 1));
        SegmentId((upper << NUMBER_BITS | number) << STAMP_BITS | u128::from(stamp.0))
    }

    /// What an id says.
    #[must_use]
    pub fn of(segment: SegmentId) -> Self {
        let upper = (segment.0 >> STAMP_BITS) as u64;
        Self {
            is_data: segment.0 >> 127 == 1,
            hash: upper >> NUMBER_BITS & ((1 << HASH_BITS) - 1),
            number: upper as u32 & ((1 << NUMBER_BITS) - 1),
            stamp: Stamp(segment.0 as u64),
        }
    }

    /// Where the record of the same version lies.
    #[must_use]
    pub fn record_key(self) -> ShardKey {
        record_key(self.hash, self.stamp)
    }
}

/// The segment `number` of a version of the object whose name has this hash.
#[must_use]
pub fn data_segment(hash: u64, stamp: Stamp, number: u32) -> SegmentId {
    ObjectId { is_data: true, hash, number, stamp }.segment()
}

/// The name of the record of a version, the same at each member.
#[must_use]
pub fn record_key(hash: u64, stamp: Stamp) -> ShardKey {
    let segment = ObjectId { is_data: false, hash, number: 0, stamp }.segment();
    ShardKey { segment, generation: Generation::FIRST, index: ShardIndex(0) }
}

/// A version of an object, as each member that holds shards of it knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectRecord {
    /// The object's name; empty where the upload was given up by a member that knew no name.
    pub name: String,
    /// Which version.
    pub stamp: Stamp,
    /// How many members are to have the record: as many as the code has shards.
    pub width: u16,
    /// What the version is.
    pub state: ObjectState,
}

/// What a version is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ObjectState {
    /// Contents.
    Stored(Contents),
    /// From this version on there is no such object.
    Removed,
    /// Its upload was not finished in time: this member has removed its shards and takes no record of it.
    GivenUp,
}

/// The contents of a version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contents {
    /// Canonical spec of the code.
    pub code: String,
    /// Length.
    pub bytes: u64,
    /// BLAKE3 of all of it.
    pub digest: [u8; 32],
    /// In order.
    pub segments: Vec<ObjectSegment>,
    /// Shards that were not stored at the member that the placement wanted.
    pub alternates: Vec<Alternate>,
}

/// A part of the contents, encoded by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectSegment {
    /// How it lies in its shards.
    pub geometry: Geometry,
    /// BLAKE3 of its data.
    pub digest: [u8; 32],
    /// Digests of all shards, by index.
    pub shards: Vec<Digest>,
}

/// A shard that was stored elsewhere than the placement wanted, when it was put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alternate {
    /// Of which segment.
    pub segment: u32,
    /// Which shard.
    pub index: ShardIndex,
    /// Where it was stored; `None`: nowhere.
    pub node: Option<NodeId>,
}

impl ObjectRecord {
    /// A member's word that it takes no record of this version.
    #[must_use]
    pub fn given_up(stamp: Stamp) -> Self {
        Self { name: String::new(), stamp, width: 1, state: ObjectState::GivenUp }
    }

    /// The contents, if it has any.
    #[must_use]
    pub fn contents(&self) -> Option<&Contents> {
        match &self.state {
            ObjectState::Stored(contents) => Some(contents),
            ObjectState::Removed | ObjectState::GivenUp => None,
        }
    }

    /// The object that is stored under `key`: a shard like any other, whose data the record is.
    ///
    /// # Errors
    /// It is longer than a segment.
    pub fn seal(&self, volume: VolumeId, key: ShardKey) -> Result<Bytes, RecordError> {
        let record = self.encode();
        let cell_bytes = u32::try_from(record.len()).unwrap_or(u32::MAX);
        let geometry = Geometry::new(record.len() as u64, 1, 1, 1, cell_bytes).map_err(|error| damaged(WHAT, error))?;
        let header = ShardHeader { identity: ShardIdentity { volume, key }, code: RECORD_CODE.to_owned(), geometry };
        let mut builder = ShardBuilder::new(&header).map_err(|error| damaged(WHAT, error))?;
        builder.write(0, &record).map_err(|error| damaged(WHAT, error))?;
        Ok(builder.finish().0)
    }

    /// The inverse of [`Self::seal`].
    ///
    /// # Errors
    /// Its bytes are damaged, or it lies under the name of another version.
    pub fn unseal(volume: VolumeId, key: ShardKey, object: &[u8]) -> Result<Self, RecordError> {
        let verified = verify_object(&ShardIdentity { volume, key }, object).map_err(|error| damaged(WHAT, error))?;
        let geometry = &verified.header.geometry;
        if geometry.data_bytes > geometry.payload_bytes() {
            return Err(damaged(WHAT, "it is one shard of several"));
        }
        // What fills the last cell is behind it.
        let mut bytes = vec![0; geometry.data_bytes as usize];
        verified.frames.copy_into(0..bytes.len() as u64, &mut bytes).map_err(|error| damaged(WHAT, error))?;
        let record = Self::decode(&bytes)?;
        let id = ObjectId::of(key.segment);
        let hash = if record.name.is_empty() { id.hash } else { name_hash(&record.name) };
        if record_key(hash, record.stamp) != key {
            return Err(damaged(WHAT, "it lies under the name of another"));
        }
        Ok(record)
    }

    /// Protocol-buffer bytes; FORMAT.md has the fields.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let (state, contents) = match &self.state {
            ObjectState::Stored(contents) => (STORED, Some(contents)),
            ObjectState::Removed => (REMOVED, None),
            ObjectState::GivenUp => (GIVEN_UP, None),
        };
        Message {
            version: VERSION,
            name: self.name.clone(),
            stamp: self.stamp.0,
            state,
            width: self.width.into(),
            contents: contents.map(ContentsMessage::of),
        }
        .encode_to_vec()
    }

    /// The inverse of [`Self::encode`].
    ///
    /// # Errors
    /// Unknown version; a name, code, geometry or digest that cannot be.
    pub fn decode(bytes: &[u8]) -> Result<Self, RecordError> {
        let Message { name, stamp, state, width, contents, .. } = decode_message(WHAT, bytes)?;
        let width = u16::try_from(width).ok().filter(|width| *width > 0);
        let width = width.ok_or_else(|| damaged(WHAT, "no number of members"))?;
        let state = match (state, contents) {
            (STORED, Some(contents)) => ObjectState::Stored(contents.contents(width)?),
            (REMOVED, None) => ObjectState::Removed,
            (GIVEN_UP, None) => ObjectState::GivenUp,
            (state, _) => return Err(damaged(WHAT, format!("a version of state {state}"))),
        };
        if !(name.is_empty() && state == ObjectState::GivenUp) {
            check_object_name(&name).map_err(|error| damaged(WHAT, error))?;
        }
        Ok(Self { name, stamp: Stamp(stamp), width, state })
    }
}

const STORED: u32 = 1;
const REMOVED: u32 = 2;
const GIVEN_UP: u32 = 3;

#[derive(Clone, PartialEq, prost::Message)]
struct Message {
    #[prost(uint32, tag = "1")]
    version: u32,
    #[prost(string, tag = "2")]
    name: String,
    #[prost(fixed64, tag = "3")]
    stamp: u64,
    #[prost(uint32, tag = "4")]
    state: u32,
    #[prost(uint32, tag = "5")]
    width: u32,
    #[prost(message, optional, tag = "6")]
    contents: Option<ContentsMessage>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct ContentsMessage {
    #[prost(string, tag = "1")]
    code: String,
    #[prost(uint64, tag = "2")]
    bytes: u64,
    #[prost(bytes = "vec", tag = "3")]
    digest: Vec<u8>,
    #[prost(message, repeated, tag = "4")]
    segments: Vec<SegmentMessage>,
    #[prost(message, repeated, tag = "5")]
    alternates: Vec<AlternateMessage>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct SegmentMessage {
    #[prost(uint64, tag = "1")]
    data_bytes: u64,
    #[prost(uint32, tag = "2")]
    native_count: u32,
    #[prost(uint32, tag = "3")]
    alpha: u32,
    #[prost(uint32, tag = "4")]
    symbol_bytes: u32,
    #[prost(uint32, tag = "5")]
    alignment_bytes: u32,
    #[prost(bytes = "vec", tag = "6")]
    digest: Vec<u8>,
    /// 32 bytes a shard.
    #[prost(bytes = "vec", tag = "7")]
    shards: Vec<u8>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct AlternateMessage {
    #[prost(uint32, tag = "1")]
    segment: u32,
    #[prost(uint32, tag = "2")]
    index: u32,
    /// Empty: nowhere.
    #[prost(bytes = "vec", tag = "3")]
    node: Vec<u8>,
}

impl ContentsMessage {
    fn of(contents: &Contents) -> Self {
        let segment = |segment: &ObjectSegment| SegmentMessage {
            data_bytes: segment.geometry.data_bytes,
            native_count: segment.geometry.native_count,
            alpha: segment.geometry.alpha,
            symbol_bytes: segment.geometry.symbol_bytes,
            alignment_bytes: segment.geometry.alignment_bytes,
            digest: segment.digest.to_vec(),
            shards: segment.shards.iter().flat_map(|digest| digest.0).collect(),
        };
        let alternate = |alternate: &Alternate| AlternateMessage {
            segment: alternate.segment,
            index: alternate.index.0.into(),
            node: alternate.node.map_or(Vec::new(), |node| node.to_bytes().to_vec()),
        };
        Self {
            code: contents.code.clone(),
            bytes: contents.bytes,
            digest: contents.digest.to_vec(),
            segments: contents.segments.iter().map(segment).collect(),
            alternates: contents.alternates.iter().map(alternate).collect(),
        }
    }

    fn contents(self, width: u16) -> Result<Contents, RecordError> {
        check_code(WHAT, &self.code)?;
        if self.segments.len() > OBJECT_SEGMENTS_MAX as usize {
            return Err(damaged(WHAT, format!("{} segments", self.segments.len())));
        }
        let segments: Vec<ObjectSegment> =
            self.segments.into_iter().map(|segment| segment.segment(width)).collect::<Result<_, _>>()?;
        let bytes: u64 = segments.iter().map(|segment| segment.geometry.data_bytes).sum();
        if bytes != self.bytes {
            return Err(damaged(WHAT, "its segments are not as long as it is"));
        }
        let alternates = self.alternates.into_iter().map(AlternateMessage::alternate).collect::<Result<_, _>>()?;
        Ok(Contents { code: self.code, bytes, digest: digest(&self.digest)?, segments, alternates })
    }
}

impl SegmentMessage {
    fn segment(self, width: u16) -> Result<ObjectSegment, RecordError> {
        let geometry = Geometry {
            data_bytes: self.data_bytes,
            native_count: self.native_count,
            alpha: self.alpha,
            symbol_bytes: self.symbol_bytes,
            alignment_bytes: self.alignment_bytes,
            source_count: 1,
        };
        geometry.validate().map_err(|error| damaged(WHAT, error))?;
        let (shards, rest) = self.shards.as_chunks::<32>();
        if !rest.is_empty() || shards.len() != usize::from(width) {
            return Err(damaged(WHAT, "it has not one digest for each shard"));
        }
        Ok(ObjectSegment {
            geometry,
            digest: digest(&self.digest)?,
            shards: shards.iter().map(|digest| Digest(*digest)).collect(),
        })
    }
}

impl AlternateMessage {
    fn alternate(self) -> Result<Alternate, RecordError> {
        let index = u16::try_from(self.index).map_err(|_| damaged(WHAT, format!("a shard of index {}", self.index)))?;
        let node = match &self.node[..] {
            [] => None,
            bytes => Some(NodeId::from_bytes(sixteen(WHAT, "a node id", bytes)?)),
        };
        Ok(Alternate { segment: self.segment, index: ShardIndex(index), node })
    }
}

fn digest(bytes: &[u8]) -> Result<[u8; 32], RecordError> {
    bytes.try_into().map_err(|_| damaged(WHAT, "a digest that has not 32 bytes"))
}

#[cfg(test)]
#[path = "object_tests.rs"]
mod tests;
