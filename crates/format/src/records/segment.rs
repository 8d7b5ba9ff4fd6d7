//! What metadata knows of a segment.

use super::{RecordError, VERSION, check_code, damaged, decode_message, sixteen};
use crate::geometry::Geometry;
use crate::ids::{Generation, NodeId, SegmentId, ShardIndex, ShardKey};
use crate::shard::Digest;
use prost::Message as _;

const WHAT: &str = "segment";

/// Where one shard of a segment is, and what it must hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardLocation {
    /// The node that stores it.
    pub node: NodeId,
    /// The generation in the shard's name and header.
    pub generation: Generation,
    /// Digest of the shard's payload: the same for the same bytes whatever the generation.
    pub digest: Digest,
}

/// What metadata knows of a segment. One decode uses the shards that one such record names, and no others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentRecord {
    /// Canonical spec of the code, e.g. `rs:4+2`.
    pub code: String,
    /// How the segment's bytes lie in its shards.
    pub geometry: Geometry,
    /// Highest generation ever given out for this segment.
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
}

impl SegmentRecord {
    /// The name under which shard `index` lies on its node, if it has one.
    pub fn shard_key(&self, segment: SegmentId, index: ShardIndex) -> Option<ShardKey> {
        let location = self.shards.get(index.as_usize())?.as_ref()?;
        Some(ShardKey { segment, generation: location.generation, index })
    }

    /// The nodes that have its shards; one that has several comes as often.
    pub fn nodes(&self) -> impl Iterator<Item = NodeId> {
        self.shards.iter().flatten().map(|location| location.node)
    }

    /// Does it say that shard `index` is at this very place?
    pub fn names(&self, index: usize, place: &ShardLocation) -> bool {
        let named = self.shards.get(index).and_then(Option::as_ref);
        named.is_some_and(|named| (named.node, named.generation) == (place.node, place.generation))
    }

    /// Protocol-buffer bytes; FORMAT.md has the fields.
    pub fn encode(&self) -> Vec<u8> {
        let location = |shard: &Option<ShardLocation>| match shard {
            None => LocationMessage::default(),
            Some(shard) => LocationMessage {
                node: shard.node.to_bytes().to_vec(),
                generation: shard.generation.0,
                digest: shard.digest.0.to_vec(),
            },
        };
        Message {
            version: VERSION,
            code: self.code.clone(),
            geometry: GeometryMessage {
                data_bytes: self.geometry.data_bytes,
                native_count: self.geometry.native_count,
                alpha: self.geometry.alpha,
                symbol_bytes: self.geometry.symbol_bytes,
                alignment_bytes: self.geometry.alignment_bytes,
            },
            generation: self.generation.0,
            shards: self.shards.iter().map(location).collect(),
        }
        .encode_to_vec()
    }

    /// The inverse of [`Self::encode`].
    ///
    /// # Errors
    /// Unknown version; a code, geometry, id or digest that cannot be; a shard of a generation that was never given out.
    pub fn decode(bytes: &[u8]) -> Result<Self, RecordError> {
        let message: Message = decode_message(WHAT, bytes)?;
        check_code(WHAT, &message.code)?;
        let geometry = Geometry {
            data_bytes: message.geometry.data_bytes,
            native_count: message.geometry.native_count,
            alpha: message.geometry.alpha,
            symbol_bytes: message.geometry.symbol_bytes,
            alignment_bytes: message.geometry.alignment_bytes,
        };
        geometry.validate().map_err(|error| damaged(WHAT, error))?;
        if message.shards.is_empty() || message.shards.len() > usize::from(u16::MAX) {
            return Err(damaged(WHAT, format!("{} shards", message.shards.len())));
        }
        let shards = message.shards.into_iter().map(|shard| shard.location(message.generation));
        Ok(Self {
            code: message.code,
            geometry,
            generation: Generation(message.generation),
            shards: shards.collect::<Result<_, _>>()?,
        })
    }
}

impl LocationMessage {
    fn location(self, newest_generation: u32) -> Result<Option<ShardLocation>, RecordError> {
        if self == Self::default() {
            return Ok(None);
        }
        if self.generation > newest_generation {
            let detail = format!("a shard of generation {} where {newest_generation} is the newest", self.generation);
            return Err(damaged(WHAT, detail));
        }
        let digest = self.digest.as_slice().try_into();
        Ok(Some(ShardLocation {
            node: NodeId::from_bytes(sixteen(WHAT, "a node id", &self.node)?),
            generation: Generation(self.generation),
            digest: Digest(digest.map_err(|_| damaged(WHAT, "a digest that has not 32 bytes"))?),
        }))
    }
}
