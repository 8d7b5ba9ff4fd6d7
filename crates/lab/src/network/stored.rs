//! A file in erasure-coded sets, encoded once and kept in memory: every server of every network serves the same shards.

use bytes::Bytes;
use std::sync::Arc;
use weft_format::geometry::{Geometry, MAX_SEGMENT_BYTES};
use weft_format::records::{SegmentRecord, ShardLocation};
use weft_format::shard::Digest;
use weft_format::{Generation, NodeId, SegmentId, ShardIndex, ShardKey, VolumeId};
use weft_nodes::{MemoryNode, Node, NodeIdentity};
use weft_transfer::objects::Coder;

/// A block of the study, 1 MB in whole frames.
pub const BLOCK_BYTES: u64 = 1 << 20;

pub(super) const VOLUME: VolumeId = VolumeId(1);

/// The probe's segment comes before those of the file.
const PROBE: SegmentId = SegmentId(1);
const FIRST_SET: u128 = 2;

/// A set: a segment of one stripe.
pub(super) struct StoredSet {
    pub(super) segment: SegmentId,
    pub(super) geometry: Geometry,
    /// Of the file's shards, the number of this set's first.
    first_shard: usize,
}

/// A file as servers store it.
pub struct StoredFile {
    code: String,
    shard_count: usize,
    pub(super) sets: Vec<StoredSet>,
    probe: StoredSet,
    pub(super) storage: Arc<MemoryNode>,
}

impl StoredFile {
    /// Encodes a file of `blocks` blocks in sets of as many as the code has data blocks. The last set has what is left, in
    /// shorter blocks; a set that is longer than a segment may be is two, of blocks of half the length.
    ///
    /// # Errors
    /// A sentence, where the code is none or the file cannot be stored.
    pub fn encode(spec: &str, blocks: usize) -> Result<StoredFile, String> {
        let coder = Coder::new(spec).map_err(|error| error.to_string())?;
        let shard_count = coder.shape().n;
        let identity = NodeIdentity { volume: VOLUME, node: NodeId(0) };
        let storage = Arc::new(MemoryNode::new("storage", identity, u64::MAX));
        let runtime = tokio::runtime::Builder::new_current_thread().build().map_err(|error| error.to_string())?;
        let mut sets = Vec::new();
        for (index, (data_bytes, cell_bytes)) in lengths(blocks, coder.shape().k).into_iter().enumerate() {
            let segment = SegmentId(FIRST_SET + index as u128);
            let data = Bytes::from(vec![data_byte(index); data_bytes as usize]);
            let geometry = runtime.block_on(store(&storage, &coder, segment, data, cell_bytes))?;
            sets.push(StoredSet { segment, geometry, first_shard: index * shard_count });
        }
        let plain = Coder::new("replica:1").map_err(|error| error.to_string())?;
        let data = Bytes::from(vec![0; BLOCK_BYTES as usize]);
        let geometry = runtime.block_on(store(&storage, &plain, PROBE, data, BLOCK_BYTES))?;
        let probe = StoredSet { segment: PROBE, geometry, first_shard: 0 };
        Ok(StoredFile { code: coder.spec().to_owned(), shard_count, sets, probe, storage })
    }

    /// Data bytes of the file.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.sets.iter().map(|set| set.geometry.data_bytes).sum()
    }

    /// Bytes of a block of this set.
    #[must_use]
    pub fn block_bytes(&self, set: usize) -> u64 {
        self.sets[set].geometry.payload_bytes()
    }

    /// The records of the sets, whose shards are striped over `servers` in this order.
    pub(super) fn records(&self, servers: &[NodeId]) -> Vec<SegmentRecord> {
        let record = |set: &StoredSet| {
            let shards = (0..self.shard_count).map(|shard| servers[(set.first_shard + shard) % servers.len()]);
            record(&self.code, set, shards)
        };
        self.sets.iter().map(record).collect()
    }

    /// The record of a block that only `server` has.
    pub(super) fn probe(&self, server: NodeId) -> (SegmentId, SegmentRecord) {
        (self.probe.segment, record("replica:1", &self.probe, std::iter::once(server)))
    }
}

/// By set: its data bytes, and those of a full block.
fn lengths(blocks: usize, set_blocks: usize) -> Vec<(u64, u64)> {
    let mut lengths = Vec::new();
    for first in (0..blocks).step_by(set_blocks) {
        let set_bytes = set_blocks.min(blocks - first) as u64 * BLOCK_BYTES;
        let parts = set_bytes.div_ceil(MAX_SEGMENT_BYTES);
        lengths.extend((0..parts).map(|_| (set_bytes / parts, BLOCK_BYTES / parts)));
    }
    lengths
}

/// What a set's data is.
pub(super) fn data_byte(set: usize) -> u8 {
    set as u8
}

async fn store(
    storage: &MemoryNode,
    coder: &Coder,
    segment: SegmentId,
    data: Bytes,
    cell_bytes: u64,
) -> Result<Geometry, String> {
    let shape = coder.shape();
    let numbers = (shape.native_count as u32, shape.alpha as u32, shape.symbol_alignment_bytes as u32);
    let geometry = Geometry::new(data.len() as u64, numbers.0, numbers.1, numbers.2, cell_bytes as u32)
        .map_err(|error| error.to_string())?;
    let objects = coder.encode(VOLUME, segment, geometry, data).map_err(|error| error.to_string())?;
    for (index, (object, _)) in objects.into_iter().enumerate() {
        let key = ShardKey { segment, index: ShardIndex(index as u16), generation: Generation::FIRST };
        storage.put(key, &[object]).await.map_err(|error| error.to_string())?;
    }
    Ok(geometry)
}

fn record(code: &str, set: &StoredSet, shards: impl Iterator<Item = NodeId>) -> SegmentRecord {
    // Reads check frames, not digests.
    let location = |node| ShardLocation { node, generation: Generation::FIRST, digest: Digest([0; 32]), origin: None };
    SegmentRecord {
        code: code.to_owned(),
        geometry: set.geometry,
        generation: Generation::FIRST,
        shards: shards.map(|node| Some(location(node))).collect(),
    }
}
