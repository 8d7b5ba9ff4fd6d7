//! Stage 1: what the segment will look like, before a byte is moved.

use super::WriteRequest;
use crate::algebra::{Algebra, LoadedCode};
use crate::error::WriteError;
use bytes::Bytes;
use std::sync::Arc;
use weft_format::geometry::{CELL_BYTES_TARGET, Geometry};
use weft_format::shard::object_bytes;
use weft_format::{Generation, SegmentId, ShardIndex, ShardKey};

/// The generation of a segment's first shards; 0 is what a missing field decodes as.
pub(crate) const FIRST_GENERATION: Generation = Generation(1);

/// A segment cut, not yet encoded.
pub(crate) struct Split {
    pub(crate) segment: SegmentId,
    pub(crate) code: Arc<LoadedCode>,
    pub(crate) geometry: Geometry,
    /// Shards that must be durable before the write is acknowledged.
    pub(crate) quorum: usize,
    pub(crate) data: Vec<Bytes>,
}

impl Split {
    pub(crate) fn key(&self, index: usize) -> ShardKey {
        ShardKey { segment: self.segment, generation: FIRST_GENERATION, index: ShardIndex(index as u16) }
    }

    /// Length of one stored shard.
    pub(crate) fn object_bytes(&self) -> u64 {
        object_bytes(self.geometry.payload_bytes())
    }
}

pub(super) fn split(algebra: &Algebra, request: WriteRequest) -> Result<Split, WriteError> {
    let WriteRequest { segment, code: spec, write_margin, data } = request;
    let code = algebra.load(&spec).map_err(|detail| WriteError::Code { code: spec, detail })?;
    let shape = code.shape();
    let data_bytes = data.iter().map(|piece| piece.len() as u64).sum();
    let geometry = Geometry::new(
        data_bytes,
        shape.native_count as u32,
        shape.alpha as u32,
        shape.symbol_alignment_bytes as u32,
        CELL_BYTES_TARGET,
    );
    let geometry = geometry.map_err(|error| WriteError::Size { segment, detail: error.to_string() })?;
    let quorum = quorum(shape.n, shape.tolerance, usize::from(write_margin));
    Ok(Split { segment, code, geometry, quorum, data })
}

/// Any `n - tolerance` shards decode; one more at least, so that an acknowledged write survives a loss; never more than n.
fn quorum(n: usize, tolerance: usize, margin: usize) -> usize {
    (n - tolerance).saturating_add(margin.max(1)).min(n)
}

#[cfg(test)]
mod tests {
    use super::quorum;

    #[test]
    fn a_quorum_is_what_decodes_and_one_more_where_there_is_one() {
        assert_eq!(quorum(6, 2, 0), 5);
        assert_eq!(quorum(6, 2, 1), 5);
        assert_eq!(quorum(6, 2, 2), 6);
        assert_eq!(quorum(6, 2, 9), 6);
        assert_eq!(quorum(3, 2, 1), 2);
        assert_eq!(quorum(5, 1, 0), 5);
        assert_eq!(quorum(4, 0, 0), 4);
    }
}
