//! Stage 1: which pieces of which stripes hold the range.

use crate::algebra::{Algebra, LoadedCode};
use crate::error::ReadError;
use crate::scheduler::SetShape;
use std::ops::Range;
use std::sync::Arc;
use weft_format::SegmentId;
use weft_format::geometry::{Geometry, Piece, Stripe};
use weft_format::records::SegmentRecord;

/// Data bytes read at a time: enough for long requests and programs, little enough that many readers fit in memory and that
/// one does not hold a thread for longer than a millisecond or two.
pub(crate) const BATCH_DATA_BYTES: u64 = 4 << 20;

/// A range found in its segment.
pub(crate) struct Located {
    pub(crate) code: Arc<LoadedCode>,
    pub(crate) geometry: Geometry,
    range: Range<u64>,
}

/// A part of the range, of whole stripes but for its ends.
pub(crate) struct Batch {
    pub(crate) range: Range<u64>,
    /// In order; `pieces[i]` begins at `pieces[i].data_offset - range.start` of the batch's output.
    pub(crate) pieces: Vec<Piece>,
}

/// Checks that the range is in the segment, and the output as long.
pub(super) fn check(
    segment: SegmentId,
    record: &SegmentRecord,
    range: &Range<u64>,
    out_bytes: usize,
) -> Result<(), ReadError> {
    let data_bytes = record.geometry.data_bytes;
    if range.start > range.end || range.end > data_bytes || range.end - range.start != out_bytes as u64 {
        return Err(ReadError::Range { segment, data_bytes, start: range.start, end: range.end, out_bytes });
    }
    Ok(())
}

pub(crate) fn locate(
    algebra: &Algebra,
    segment: SegmentId,
    record: &SegmentRecord,
    range: Range<u64>,
) -> Result<Located, ReadError> {
    let code = algebra.load_for(record).map_err(|detail| ReadError::Record { segment, detail })?;
    Ok(Located { code, geometry: record.geometry, range })
}

impl Located {
    /// The range in batches of at most [`BATCH_DATA_BYTES`], or one stripe where that is longer.
    pub(crate) fn batches(&self) -> impl Iterator<Item = Batch> + use<> {
        let (geometry, end) = (self.geometry, self.range.end);
        let (stripe_data, source_bytes) = (geometry.full_stripe_bytes(), geometry.source_bytes());
        let batch_data = (BATCH_DATA_BYTES / stripe_data).max(1) * stripe_data;
        let mut at = self.range.start;
        std::iter::from_fn(move || {
            // Of one part, so that its stripes follow each other.
            let (before, within) = (at / source_bytes * source_bytes, at % source_bytes);
            let within_end = ((within / batch_data + 1) * batch_data).min(source_bytes);
            let range = at..(before + within_end).min(end);
            at = range.end;
            (!range.is_empty()).then(|| Batch { pieces: geometry.pieces(range.clone()).collect(), range })
        })
    }

    /// Where stored symbol `stored` of `stripe` begins: (shard, payload offset).
    pub(crate) fn symbol(&self, stripe: &Stripe, stored: usize) -> (usize, u64) {
        let alpha = self.geometry.alpha as usize;
        (stored / alpha, self.geometry.symbol_range(stripe, (stored % alpha) as u32).start)
    }
}

impl Batch {
    pub(crate) fn data_bytes(&self) -> usize {
        (self.range.end - self.range.start) as usize
    }

    /// What the scheduler is told of it; `segment` counts those of the download.
    pub(crate) fn shape(&self, segment: usize, located: &Located) -> SetShape {
        let data_bytes = self.data_bytes() as u64;
        let k = located.code.shape().k.max(1) as u64;
        let widest = self.pieces.iter().map(|piece| piece.within_symbol.len() as u64).max().unwrap_or(0);
        SetShape {
            segment,
            data_bytes,
            payload_bytes: located.geometry.payload_bytes(),
            block_bytes: (data_bytes / k).max(widest),
        }
    }

    /// Bytes that reading it may hold, if every shard has to be asked for its columns.
    pub(crate) fn bytes_at_most(&self, located: &Located) -> u64 {
        let Some(widest) = self.pieces.iter().map(|piece| piece.within_symbol.len() as u64).max() else { return 0 };
        let first = self.pieces.first().map_or(0, |piece| piece.stripe);
        let last = self.pieces.last().map_or(0, |piece| piece.stripe);
        let shape = located.code.shape();
        widest * u64::from(last - first + 1) * (shape.n * shape.alpha) as u64
    }
}
