//! Stage 1: what the segment will look like, before a byte is moved.

use super::WriteRequest;
use crate::algebra::{Algebra, LoadedCode};
use crate::error::WriteError;
use bytes::Bytes;
use std::sync::Arc;
use weft_cluster::View;
use weft_codes::Shape;
use weft_format::geometry::{CELL_BYTES_TARGET, Geometry};
use weft_format::shard::{FRAME_PAYLOAD_BYTES, object_bytes};
use weft_format::{Generation, SegmentId, ShardIndex, ShardKey};

/// A segment cut, not yet encoded.
pub(crate) struct Split {
    pub(crate) segment: SegmentId,
    pub(crate) generation: Generation,
    pub(crate) code: Arc<LoadedCode>,
    pub(crate) geometry: Geometry,
    /// With this many durable shards silence of the others is not waited for long.
    pub(crate) quorum: usize,
    /// With fewer it is not.
    pub(crate) least: usize,
    /// With so many it is, too, whatever keeps the others from being stored; otherwise only nodes that are away excuse that.
    pub(crate) has_margin: bool,
    pub(crate) data: Vec<Bytes>,
}

impl Split {
    pub(crate) fn key(&self, index: usize) -> ShardKey {
        ShardKey { segment: self.segment, generation: self.generation, index: ShardIndex(index as u16) }
    }

    /// Shards of it that one failure domain may hold.
    pub(crate) fn unit_shards(&self, view: &View) -> usize {
        view.rule.unit_shards_of(self.code.shape().tolerance)
    }

    /// Length of one stored shard.
    pub(crate) fn object_bytes(&self) -> u64 {
        object_bytes(self.geometry.payload_bytes())
    }
}

pub(super) fn split(algebra: &Algebra, request: WriteRequest) -> Result<Split, WriteError> {
    let WriteRequest { segment, code: spec, write_margin, cell_bytes, data } = request;
    let code = algebra.load(&spec).map_err(|detail| WriteError::Code { code: spec, detail })?;
    let shape = code.shape();
    let data_bytes = data.iter().map(|piece| piece.len() as u64).sum();
    let geometry = geometry_with(shape, segment, data_bytes, cell_bytes)?;
    let margin = usize::from(write_margin.unwrap_or(0));
    let quorum = with_margin(shape.n, shape.tolerance, margin.max(1));
    let least = with_margin(shape.n, shape.tolerance, margin);
    Ok(Split {
        segment,
        generation: Generation::FIRST,
        code,
        geometry,
        quorum,
        least,
        has_margin: write_margin.is_some(),
        data,
    })
}

/// A segment that is there, under another code and new names; every shard is wanted.
pub(crate) fn split_as(
    algebra: &Algebra,
    segment: SegmentId,
    generation: Generation,
    code: &str,
    data: Vec<Bytes>,
) -> Result<Split, WriteError> {
    let request = WriteRequest { segment, code: code.into(), write_margin: Some(u16::MAX), cell_bytes: None, data };
    Ok(Split { generation, ..split(algebra, request)? })
}

/// How `data_bytes` lie in the shards of a code.
pub(crate) fn geometry(shape: &Shape, segment: SegmentId, data_bytes: u64) -> Result<Geometry, WriteError> {
    geometry_with(shape, segment, data_bytes, None)
}

/// The same with cells of about this length.
fn geometry_with(
    shape: &Shape,
    segment: SegmentId,
    data_bytes: u64,
    cell_bytes: Option<u32>,
) -> Result<Geometry, WriteError> {
    let alpha = shape.alpha as u32;
    let (native_count, alignment_bytes) = (shape.native_count as u32, shape.symbol_alignment_bytes as u32);
    Geometry::new(data_bytes, native_count, alpha, alignment_bytes, cell_bytes_target(alpha, cell_bytes))
        .map_err(|error| WriteError::Size { segment, detail: error.to_string() })
}

/// How a segment that lies like `geometry` lies under a code of this shape as one of `count` sources, with the bytes of plain shards as
/// they are; `None`: there is no such layout.
pub(crate) fn recut(geometry: &Geometry, new: &Shape, count: u32) -> Option<Geometry> {
    let merged = geometry.merged(count);
    let (native_count, alpha) = (new.native_count as u32, new.alpha as u32);
    let alignment_bytes = new.symbol_alignment_bytes as u32;
    let symbol_bytes = if (merged.alpha, merged.alignment_bytes) == (alpha, alignment_bytes) {
        merged.symbol_bytes
    } else if geometry.source().native_count == geometry.alpha {
        // A source in one shard is its data in their order, however they are cut.
        symbol_bytes(alpha, None)
    } else {
        let cell_bytes = merged.symbol_bytes.checked_mul(merged.alpha)?;
        // Symbols of whole frames, as writers cut them: a repair that reads some of a shard's symbols would read others with them.
        let is_whole =
            cell_bytes.is_multiple_of(alpha) && (cell_bytes / alpha).is_multiple_of(FRAME_PAYLOAD_BYTES as u32);
        is_whole.then_some(cell_bytes / alpha)?
    };
    let recut = Geometry { native_count, alpha, symbol_bytes, alignment_bytes, ..merged };
    let product = |native_count: u32, alpha: u32| u64::from(native_count) * u64::from(alpha);
    let is_as_wide = product(merged.native_count, alpha) == product(native_count, merged.alpha);
    // The last cells may be padded unlike.
    (is_as_wide && recut.validate().is_ok() && recut.payload_bytes() == geometry.payload_bytes()).then_some(recut)
}

/// Data bytes of a full stripe.
pub(crate) fn full_stripe_bytes(shape: &Shape) -> u64 {
    u64::from(symbol_bytes(shape.alpha as u32, None)) * shape.native_count as u64
}

fn cell_bytes_target(alpha: u32, chosen: Option<u32>) -> u32 {
    symbol_bytes(alpha, chosen).saturating_mul(alpha)
}

/// Symbols of whole frames: a repair that reads some of a shard's symbols must not read frames that others begin in.
fn symbol_bytes(alpha: u32, cell_bytes: Option<u32>) -> u32 {
    (cell_bytes.unwrap_or(CELL_BYTES_TARGET) / alpha.max(1)).max(1).next_multiple_of(FRAME_PAYLOAD_BYTES as u32)
}

/// Any `n - tolerance` shards decode; `margin` more, but never more than n.
fn with_margin(n: usize, tolerance: usize, margin: usize) -> usize {
    (n - tolerance).saturating_add(margin).min(n)
}

#[cfg(test)]
mod tests {
    use super::with_margin;

    #[test]
    fn a_margin_is_on_top_of_what_decodes_and_never_beyond_n() {
        assert_eq!(with_margin(6, 2, 0), 4);
        assert_eq!(with_margin(6, 2, 1), 5);
        assert_eq!(with_margin(6, 2, 9), 6);
        assert_eq!(with_margin(3, 2, 1), 2);
        assert_eq!(with_margin(4, 0, 1), 4);
    }
}
