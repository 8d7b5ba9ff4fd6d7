//! Reading a range of a segment: locate -> plan -> fetch -> decode -> deliver.
//!
//! While every shard asked for answers, a read takes the wanted bytes from the data shards, checks their frames, and copies
//! them out; no algebra. A shard that fails in whatever way is an erasure: the read plans anew with what is left, keeping
//! what it has. Long ranges go batch by batch, so a read holds little whatever its length.

pub(crate) mod decode;
mod deliver;
pub(crate) mod fetch;
pub(crate) mod held;
pub(crate) mod locate;
pub(crate) mod plan;

use crate::cache::Block;
use crate::error::{ReadError, SuspectKind};
use crate::scheduler::{Arrived, Plans, SetShape};
use crate::transfer::{Inner, Transfer};
use bytes::Bytes;
use fetch::Download;
use locate::{Batch, Located};
use plan::{ReadPlan, ShardOffers};
use std::ops::Range;
use std::sync::Arc;
use weft_format::records::SegmentRecord;
use weft_format::{SegmentId, ShardIndex};

/// A shard that was asked for and could not be used; care looks after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Suspect {
    /// Which shard of the segment.
    pub index: ShardIndex,
    /// What was wrong.
    pub kind: SuspectKind,
}

/// How a read went.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadReport {
    /// Bytes that nodes sent; 0 where the cache had everything.
    pub bytes_fetched: u64,
    /// Was anything computed from other shards?
    pub degraded: bool,
    /// Shards that failed on the way.
    pub suspects: Vec<Suspect>,
}

impl ReadReport {
    fn add(&mut self, other: &ReadReport) {
        self.bytes_fetched += other.bytes_fetched;
        self.degraded |= other.degraded;
        for suspect in &other.suspects {
            if !self.suspects.contains(suspect) {
                self.suspects.push(*suspect);
            }
        }
    }
}

impl Transfer {
    /// Reads data bytes `range` of a segment into `out`, which is as long as the range.
    ///
    /// Fast for any length where the range is not cached: one copy from what nodes send to `out`. Blocks that
    /// [`Self::prefetch`] has brought are copied from the cache, and one that is being brought is waited for.
    ///
    /// # Errors
    /// [`ReadError`]; what `out` holds then means nothing.
    pub async fn read(
        &self,
        segment: SegmentId,
        record: &Arc<SegmentRecord>,
        range: Range<u64>,
        out: &mut [u8],
    ) -> Result<ReadReport, ReadError> {
        locate::check(segment, record, &range, out.len())?;
        let mut report = ReadReport::default();
        let (mut at, mut rest) = (range.start, out);
        while at < range.end {
            // What the cache has or is being brought comes from there; a run of what it has not is read in one go.
            let (part, block) = self.inner.cache.next(segment, at..range.end).await;
            let (head, tail) = rest.split_at_mut((part.end - part.start) as usize);
            match block {
                Some(block) => {
                    head.copy_from_slice(&block.bytes);
                    report.add(&block.report);
                }
                None => report.add(&self.inner.read_direct(segment, record, part.clone(), head).await?),
            }
            (at, rest) = (part.end, tail);
        }
        Ok(report)
    }

    /// Reads like [`Self::read`], and gives the bytes. Fast where the range lies within one block that was prefetched: the
    /// bytes are a slice of the cached block, not a copy. Otherwise a new buffer is filled.
    ///
    /// # Errors
    /// [`ReadError`].
    pub async fn read_bytes(
        &self,
        segment: SegmentId,
        record: &Arc<SegmentRecord>,
        range: Range<u64>,
    ) -> Result<(Bytes, ReadReport), ReadError> {
        let length = range.end.saturating_sub(range.start) as usize;
        locate::check(segment, record, &range, length)?;
        if let (part, Some(block)) = self.inner.cache.next(segment, range.clone()).await
            && part == range
        {
            return Ok((block.bytes, (*block.report).clone()));
        }
        let mut out = vec![0; length];
        let report = self.read(segment, record, range, &mut out).await?;
        Ok((out.into(), report))
    }

    /// Fills the cache with the blocks that `range` touches, in the background. A read that needs one of them waits for it
    /// instead of reading it again; a block that cannot be had is left to the read to report.
    pub fn prefetch(&self, segment: SegmentId, record: &Arc<SegmentRecord>, range: Range<u64>) {
        for promise in self.inner.cache.promise(segment, range, record.geometry.data_bytes) {
            let (inner, record) = (self.inner.clone(), record.clone());
            self.inner.runtime.spawn(async move {
                let mut out = vec![0; (promise.range.end - promise.range.start) as usize];
                match inner.read_direct(segment, &record, promise.range.clone(), &mut out).await {
                    Ok(report) => {
                        let report = Arc::new(ReadReport { bytes_fetched: 0, ..report });
                        promise.keep(Block { bytes: out.into(), report });
                    }
                    Err(error) => tracing::debug!(%error, "read-ahead failed"),
                }
            });
        }
    }
}

impl Inner {
    /// Reads from nodes, past the cache. The range is within the segment and `out` is as long.
    pub(crate) async fn read_direct(
        &self,
        segment: SegmentId,
        record: &SegmentRecord,
        range: Range<u64>,
        out: &mut [u8],
    ) -> Result<ReadReport, ReadError> {
        let located = locate::locate(&self.algebra, segment, record, range)?;
        let batches: Vec<Batch> = located.batches().collect();
        let sets: Vec<SetShape> = batches.iter().map(|batch| batch.shape(&located)).collect();
        let window_bytes = batches.iter().map(|batch| batch.bytes_at_most(&located)).max().unwrap_or(0);
        let open_at_most = sets.iter().scan(0, |open, set| {
            *open += set.data_bytes;
            Some(*open)
        });
        let open_at_most = open_at_most.take_while(|open| *open <= self.settings.profile.window_bytes).count().max(1);
        let _reserved = self.reserve(window_bytes * open_at_most as u64).await;
        let mut outs = split_by(out, &batches);
        let sources = fetch::Sources::new(self, segment, record, located.code.shape(), &[]);
        let mut download = Download::new(self, sources, sets, ReadPlans { located: &located, batches: &batches });
        while let Some((set, plan)) = download.next().await? {
            deliver::deliver(&located, download.held(set), &plan, &batches[set], &mut outs[set]);
            download.delivered(set);
        }
        Ok(download.finish())
    }
}

/// The batches of a read, to be planned.
struct ReadPlans<'a> {
    located: &'a Located,
    batches: &'a [Batch],
}

impl Plans for ReadPlans<'_> {
    fn plan(&self, set: usize, offers: &ShardOffers, arrived: &Arrived) -> Option<ReadPlan> {
        plan::plan_read(self.located, &self.batches[set], offers, arrived)
    }
}

/// `out`, cut as the batches are.
fn split_by<'a>(out: &'a mut [u8], batches: &[Batch]) -> Vec<&'a mut [u8]> {
    let mut rest = out;
    let mut cut = |batch: &Batch| {
        let (head, tail) = std::mem::take(&mut rest).split_at_mut(batch.data_bytes());
        rest = tail;
        head
    };
    batches.iter().map(&mut cut).collect()
}
