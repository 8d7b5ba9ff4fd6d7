//! Stage 5: what the caller commits.

use super::Receipt;
use super::encode::Object;
use super::split::Split;
use weft_format::records::{SegmentRecord, ShardLocation};
use weft_format::{NodeId, ShardIndex};

pub(crate) fn receipt(split: &Split, encoded: &[Object], stored: Vec<Option<NodeId>>) -> Receipt {
    let missing = stored.iter().enumerate().filter(|(_, node)| node.is_none());
    let missing: Vec<ShardIndex> = missing.map(|(index, _)| ShardIndex(index as u16)).collect();
    let written = stored.iter().zip(encoded).filter(|(node, _)| node.is_some());
    let bytes_written = written.map(|(_, (object, _))| object.len() as u64).sum();
    let location = |(node, (_, digest)): (Option<NodeId>, &Object)| {
        node.map(|node| ShardLocation { node, generation: split.generation, digest: *digest, origin: None })
    };
    let record = SegmentRecord {
        code: split.code.code.spec().into(),
        geometry: split.geometry,
        generation: split.generation,
        shards: stored.into_iter().zip(encoded).map(location).collect(),
    };
    let digests = encoded.iter().map(|(_, digest)| *digest).collect();
    Receipt { record, missing, digests, bytes_written }
}
