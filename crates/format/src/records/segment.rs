//! What metadata knows of a segment.

use super::{RecordError, VERSION, check_code, damaged, decode_versions, sixteen};
use crate::geometry::Geometry;
use crate::ids::{Generation, NodeId, SegmentId, ShardIndex, ShardKey};
use crate::shard::{Digest, object_bytes};
use prost::Message as _;

const WHAT: &str = "segment";

/// Of a record with several sources or with origins.
const MERGED_VERSION: u32 = 2;

/// Whose name a shard bears: that of a segment that was merged into this one, where the shard was kept as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The segment in its name.
    pub segment: SegmentId,
    /// The index in its name.
    pub index: ShardIndex,
}

/// Where one shard of a segment is, and what it must hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardLocation {
    /// The node that stores it.
    pub node: NodeId,
    /// The generation in the shard's name and header: which attempt stored it.
    pub generation: Generation,
    /// Digest of the shard's payload: the same for the same bytes whatever the generation.
    pub digest: Digest,
    /// Whose name it bears, where that is another's.
    pub origin: Option<Origin>,
}

impl ShardLocation {
    /// The name under which it lies on its node, as shard `index` of `segment`.
    pub fn key(&self, segment: SegmentId, index: ShardIndex) -> ShardKey {
        let Origin { segment, index } = self.origin.unwrap_or(Origin { segment, index });
        ShardKey { segment, generation: self.generation, index }
    }
}

/// What metadata knows of a segment. One decode uses the shards that one such record names, and no others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentRecord {
    /// Canonical spec of the code, e.g. `rs:4+2`.
    pub code: String,
    /// How the segment's bytes lie in its shards.
    pub geometry: Geometry,
    /// Counts the records that the segment has had. It orders them, and says nothing of the names of shards.
    pub generation: Generation,
    /// n entries by shard index; `None`: this shard is known to be missing (a short write, a lost shard given up) and
    /// waits for repair.
    pub shards: Vec<Option<ShardLocation>>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Message {
    #[prost(uint32, tag = "1")]
    version: u32,
    #[prost(string, tag = "2")]
    code: String,
    #[prost(message, required, tag = "3")]
    geometry: GeometryMessage,
    #[prost(uint32, tag = "4")]
    generation: u32,
    #[prost(message, repeated, tag = "5")]
    shards: Vec<LocationMessage>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct GeometryMessage {
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
    /// 0: one.
    #[prost(uint32, tag = "6")]
    source_count: u32,
}

/// A missing shard is an empty message.
#[derive(Clone, PartialEq, prost::Message)]
struct LocationMessage {
    #[prost(bytes = "vec", tag = "1")]
    node: Vec<u8>,
    #[prost(uint32, tag = "2")]
    generation: u32,
    #[prost(bytes = "vec", tag = "3")]
    digest: Vec<u8>,
    /// Empty: the segment's own.
    #[prost(bytes = "vec", tag = "4")]
    origin_segment: Vec<u8>,
    #[prost(uint32, tag = "5")]
    origin_index: u32,
}

impl SegmentRecord {
    /// The name under which shard `index` lies on its node, if it has one.
    pub fn shard_key(&self, segment: SegmentId, index: ShardIndex) -> Option<ShardKey> {
        Some(self.shards.get(index.as_usize())?.as_ref()?.key(segment, index))
    }

    /// The shards that it names, as that of `segment`: which each is, the name under which it lies, and where.
    pub fn located(&self, segment: SegmentId) -> impl Iterator<Item = (ShardIndex, ShardKey, &ShardLocation)> {
        let shards = (0u16..).map(ShardIndex).zip(&self.shards);
        shards.filter_map(move |(index, location)| {
            location.as_ref().map(|location| (index, location.key(segment, index), location))
        })
    }

    /// Does it say that the shard of this name is at this node?
    pub fn has_at(&self, segment: SegmentId, node: NodeId, key: ShardKey) -> bool {
        self.located(segment).any(|(_, own, location)| location.node == node && own == key)
    }

    /// Stored bytes of each of its shards.
    pub fn shard_bytes(&self) -> u64 {
        object_bytes(self.geometry.payload_bytes())
    }

    /// Bytes of the shards that it names.
    pub fn stored_bytes(&self) -> u64 {
        self.shards.iter().flatten().count() as u64 * self.shard_bytes()
    }

    /// Was it merged, or are shards of others in it?
    fn is_merged(&self) -> bool {
        self.geometry.source_count > 1 || self.shards.iter().flatten().any(|location| location.origin.is_some())
    }

    /// The nodes that have its shards; one that has several comes as often.
    pub fn nodes(&self) -> impl Iterator<Item = NodeId> {
        self.shards.iter().flatten().map(|location| location.node)
    }

    /// Does it say that shard `index` is at this very place?
    pub fn names(&self, index: usize, place: &ShardLocation) -> bool {
        let named = self.shards.get(index).and_then(Option::as_ref);
        let lies = |location: &ShardLocation| (location.node, location.generation, location.origin);
        named.is_some_and(|named| lies(named) == lies(place))
    }

    /// The same record with those shards only that `before` does not name: what one attempt has stored.
    #[must_use]
    pub fn beyond(&self, before: &Self) -> Self {
        let mut beyond = self.clone();
        for (index, shard) in beyond.shards.iter_mut().enumerate() {
            shard.take_if(|shard| before.names(index, shard));
        }
        beyond
    }

    /// Protocol-buffer bytes; FORMAT.md has the fields.
    pub fn encode(&self) -> Vec<u8> {
        let location = |shard: &Option<ShardLocation>| match shard {
            None => LocationMessage::default(),
            Some(shard) => LocationMessage {
                node: shard.node.to_bytes().to_vec(),
                generation: shard.generation.0,
                digest: shard.digest.0.to_vec(),
                origin_segment: shard.origin.map_or(Vec::new(), |origin| origin.segment.to_bytes().to_vec()),
                origin_index: shard.origin.map_or(0, |origin| origin.index.0.into()),
            },
        };
        Message {
            version: if self.is_merged() { MERGED_VERSION } else { VERSION },
            code: self.code.clone(),
            geometry: GeometryMessage {
                data_bytes: self.geometry.data_bytes,
                native_count: self.geometry.native_count,
                alpha: self.geometry.alpha,
                symbol_bytes: self.geometry.symbol_bytes,
                alignment_bytes: self.geometry.alignment_bytes,
                source_count: if self.geometry.source_count == 1 { 0 } else { self.geometry.source_count },
            },
            generation: self.generation.0,
            shards: self.shards.iter().map(location).collect(),
        }
        .encode_to_vec()
    }

    /// The inverse of [`Self::encode`].
    ///
    /// # Errors
    /// Unknown version; a code, geometry, id or digest that cannot be.
    pub fn decode(bytes: &[u8]) -> Result<Self, RecordError> {
        let message: Message = decode_versions(WHAT, MERGED_VERSION, bytes)?;
        check_code(WHAT, &message.code)?;
        let geometry = Geometry {
            data_bytes: message.geometry.data_bytes,
            native_count: message.geometry.native_count,
            alpha: message.geometry.alpha,
            symbol_bytes: message.geometry.symbol_bytes,
            alignment_bytes: message.geometry.alignment_bytes,
            source_count: message.geometry.source_count.max(1),
        };
        geometry.validate().map_err(|error| damaged(WHAT, error))?;
        if message.shards.is_empty() || message.shards.len() > usize::from(u16::MAX) {
            return Err(damaged(WHAT, format!("{} shards", message.shards.len())));
        }
        let shards = message.shards.into_iter().map(LocationMessage::location);
        let record = Self {
            code: message.code,
            geometry,
            generation: Generation(message.generation),
            shards: shards.collect::<Result<_, _>>()?,
        };
        if message.version == VERSION && record.is_merged() {
            return Err(damaged(WHAT, "several sources, or shards of others, in a record of version 1"));
        }
        Ok(record)
    }
}

impl LocationMessage {
    fn location(self) -> Result<Option<ShardLocation>, RecordError> {
        if self == Self::default() {
            return Ok(None);
        }
        let digest = self.digest.as_slice().try_into();
        let origin = match (&self.origin_segment[..], self.origin_index) {
            ([], 0) => None,
            (segment, index) => Some(Origin {
                segment: SegmentId::from_bytes(sixteen(WHAT, "the segment in a shard's name", segment)?),
                index: ShardIndex(
                    u16::try_from(index).map_err(|_| damaged(WHAT, format!("a shard of index {index}")))?,
                ),
            }),
        };
        Ok(Some(ShardLocation {
            node: NodeId::from_bytes(sixteen(WHAT, "a node id", &self.node)?),
            generation: Generation(self.generation),
            digest: Digest(digest.map_err(|_| damaged(WHAT, "a digest that has not 32 bytes"))?),
            origin,
        }))
    }
}
