//! Records of the metadata that more than one crate reads. Protocol-buffer encoded (they evolve); each starts its life
//! with a version field, and an unknown version is refused with a sentence, never skipped.

use crate::ids::{Generation, NodeId, ShardIndex};

/// Where one shard of a segment is, and what it must hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardLocation {
    /// The node that stores it.
    pub node: NodeId,
    /// The generation in the shard's name and header.
    pub generation: Generation,
    /// Digest of the shard's payload (`shard::Digest`): the same for the same bytes whatever the generation.
    pub digest: crate::shard::Digest,
}

/// What metadata knows of a segment. One decode uses the shards that one such record names, and no others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentRecord {
    /// Canonical spec of the code, e.g. `rs:4+2`.
    pub code: String,
    /// How the segment's bytes lie in its shards.
    pub geometry: crate::geometry::Geometry,
    /// Highest generation ever given out for this segment.
    pub generation: Generation,
    /// n entries by shard index; `None`: this shard is known to be missing (a short write, a lost shard given up) and
    /// waits for repair.
    pub shards: Vec<Option<ShardLocation>>,
}

impl SegmentRecord {
    /// The name under which shard `index` lies on its node, if it has one.
    pub fn shard_key(&self, segment: crate::ids::SegmentId, index: ShardIndex) -> Option<crate::ids::ShardKey> {
        let location = self.shards.get(index.as_usize())?.as_ref()?;
        Some(crate::ids::ShardKey { segment, generation: location.generation, index })
    }
}

/// Whether a node takes new shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeState {
    /// Reads and writes.
    Active,
    /// Reads only: shards are being moved away.
    Draining,
    /// Its folder or device was given up; what it held is to be rebuilt elsewhere.
    Lost,
}

/// What metadata knows of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeRecord {
    /// The user's name for it, unique in the volume.
    pub name: String,
    /// Where it is: a URL; folders are `file:///absolute/path`.
    pub url: String,
    /// Does it take new shards?
    pub state: NodeState,
    /// What fails together: `host`, `rack`, ... innermost last; by default the node itself is its domain.
    pub domain: String,
    /// Relative weight for placement; by default the node's capacity in GiB, at least 1.
    pub weight: u64,
}
