//! A rebuild: which shards of which segment, and what their bytes must be.

use crate::algebra::LoadedCode;
use crate::error::{ReadError, RebuildError};
use crate::scheduler::SetShape;
use crate::transfer::Inner;
use crate::write::encode::Object;
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;
use weft_format::geometry::Geometry;
use weft_format::records::SegmentRecord;
use weft_format::shard::{ShardBuilder, ShardHeader, ShardIdentity};
use weft_format::{Generation, SegmentId, ShardIndex, ShardKey};

/// What is being rebuilt.
pub(crate) struct Job<'a> {
    pub(crate) segment: SegmentId,
    pub(crate) record: &'a SegmentRecord,
    pub(crate) code: Arc<LoadedCode>,
    pub(super) geometry: Geometry,
    /// In the names of the rebuilt shards.
    pub(super) attempt: Generation,
    /// Of the next record.
    pub(super) next: Generation,
    /// Ascending, each once.
    pub(crate) lost: Vec<usize>,
}

/// The rebuild of these shards of a segment.
pub(super) fn job<'a>(
    inner: &Inner,
    segment: SegmentId,
    record: &'a SegmentRecord,
    lost: &[ShardIndex],
) -> Result<Job<'a>, RebuildError> {
    let refused = |detail| RebuildError::Read(ReadError::Record { segment, detail });
    let code = inner.algebra.load_for(record).map_err(refused)?;
    let lost: BTreeSet<usize> = lost.iter().map(|index| index.as_usize()).collect();
    if let Some(beyond) = lost.iter().find(|index| **index >= record.shards.len()) {
        return Err(RebuildError::NoSuchShard { segment, index: *beyond, count: record.shards.len() });
    }
    let next = record.generation.0.checked_add(1).ok_or_else(|| refused("its generations are used up".into()))?;
    let (geometry, next, attempt) = (record.geometry, Generation(next), inner.new_attempt(record));
    Ok(Job { segment, record, code, geometry, attempt, next, lost: lost.into_iter().collect() })
}

impl Job<'_> {
    pub(super) fn key(&self, shard: usize) -> ShardKey {
        ShardKey { segment: self.segment, generation: self.attempt, index: ShardIndex(shard as u16) }
    }

    pub(super) fn mismatch(&self, shard: usize, against: &'static str) -> RebuildError {
        RebuildError::Mismatch { segment: self.segment, index: ShardIndex(shard as u16), against }
    }

    /// The shape, for the scheduler, of stripes that are computed together.
    pub(super) fn shape(&self, stripes: &Range<u32>) -> SetShape {
        let stripe_bytes = u64::from(self.geometry.native_count) * u64::from(self.geometry.symbol_bytes);
        let data_bytes = u64::from(stripes.end - stripes.start) * stripe_bytes;
        let block_bytes = data_bytes / self.code.shape().k.max(1) as u64;
        SetShape { segment: 0, data_bytes, payload_bytes: self.geometry.payload_bytes(), block_bytes }
    }

    /// Stripes to compute together: at most `data_bytes` of data, or one.
    pub(crate) fn batches(&self, data_bytes: u64) -> impl Iterator<Item = Range<u32>> + use<> {
        let stripe_bytes = u64::from(self.geometry.native_count) * u64::from(self.geometry.symbol_bytes);
        let step = (data_bytes / stripe_bytes).max(1) as usize;
        let count = self.geometry.stripe_count();
        (0..count).step_by(step).map(move |first| first..first.saturating_add(step as u32).min(count))
    }
}

/// The lost shards, to be filled.
pub(super) fn new_shards(inner: &Inner, job: &Job<'_>) -> Result<Vec<ShardBuilder>, RebuildError> {
    let builder = |shard: &usize| {
        let identity = ShardIdentity { volume: inner.volume, key: job.key(*shard) };
        ShardBuilder::new(&ShardHeader { identity, code: job.record.code.clone(), geometry: job.geometry })
    };
    let builders: Result<Vec<ShardBuilder>, _> = job.lost.iter().map(builder).collect();
    let refused = |detail: String| RebuildError::Read(ReadError::Record { segment: job.segment, detail });
    builders.map_err(|error| refused(error.to_string()))
}

/// Are the shards what the record says?
pub(super) fn compare(job: &Job<'_>, objects: &[Object]) -> Result<(), RebuildError> {
    let differs = |(shard, (_, digest)): &(&usize, &Object)| {
        job.record.shards[**shard].as_ref().is_some_and(|location| location.digest != *digest)
    };
    match job.lost.iter().zip(objects).find(differs) {
        Some((shard, _)) => Err(job.mismatch(*shard, "the digest in the record")),
        None => Ok(()),
    }
}
