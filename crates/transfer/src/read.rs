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
use crate::scheduler::{Arrived, Plans};
use crate::transfer::{Inner, Transfer};
use bytes::Bytes;
use fetch::{Download, Sources};
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

    /// Reads parts of any segments in one download, one after another into `out`, which is as long as all of them. Nodes that
    /// have shards of several are asked for all of them at once. Past the cache: what is read ahead is not looked for.
    ///
    /// # Errors
    /// [`ReadError`]; what `out` holds then means nothing.
    pub async fn read_parts(&self, parts: &[ReadPart<'_>], out: &mut [u8]) -> Result<Vec<ReadReport>, ReadError> {
        let mut rest_bytes = out.len();
        for (index, part) in parts.iter().enumerate() {
            let part_bytes = part.range.end.saturating_sub(part.range.start) as usize;
            let out_bytes = if index + 1 == parts.len() { rest_bytes } else { part_bytes.min(rest_bytes) };
            locate::check(part.segment, part.record, &part.range, out_bytes)?;
            rest_bytes -= out_bytes;
        }
        self.inner.download(parts, out).await
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
        let reports = self.download(&[ReadPart { segment, record, range }], out).await?;
        Ok(reports.into_iter().next().unwrap_or_default())
    }

    /// Reads parts of segments, all in one download, one after another into `out`. A report a part.
    async fn download(&self, parts: &[ReadPart<'_>], out: &mut [u8]) -> Result<Vec<ReadReport>, ReadError> {
        let locate = |part: &ReadPart<'_>| locate::locate(&self.algebra, part.segment, part.record, part.range.clone());
        let located = parts.iter().map(locate).collect::<Result<Vec<Located>, _>>()?;
        let batches: Vec<(usize, Batch)> = (located.iter().enumerate())
            .flat_map(|(index, located)| located.batches().map(move |batch| (index, batch)))
            .collect();
        let sets = batches.iter().map(|(index, batch)| batch.shape(*index, &located[*index])).collect();
        let wanted_bytes = parts.iter().map(|part| part.range.end - part.range.start).sum();
        let nodes = parts.iter().flat_map(|part| part.record.nodes());
        let _admitted = self.admit(nodes, self.window_bytes(&located, &batches), wanted_bytes).await;
        let mut outs = split_by(out, &batches);
        let sources = (parts.iter().zip(&located))
            .map(|(part, located)| Sources::new(self, part.segment, part.record, located.code.shape(), &[]))
            .collect();
        let mut download = Download::new(self, sources, sets, ReadPlans { located: &located, batches: &batches });
        while let Some((set, plan)) = download.next().await? {
            let (index, batch) = &batches[set];
            deliver::deliver(&located[*index], download.held(set), &plan, batch, &mut *outs[set]);
            download.delivered(set);
        }
        let reports = download.finish();
        self.charge(reports.iter().map(|report| report.bytes_fetched).sum::<u64>().saturating_sub(wanted_bytes));
        Ok(reports)
    }

    /// What a download may hold at one time.
    fn window_bytes(&self, located: &[Located], batches: &[(usize, Batch)]) -> u64 {
        let mut open_bytes = 0;
        let within = batches.iter().enumerate().take_while(|(position, (_, batch))| {
            open_bytes += batch.data_bytes() as u64;
            *position == 0 || open_bytes <= self.settings.profile.window_bytes
        });
        within.map(|(_, (index, batch))| batch.bytes_at_most(&located[*index])).sum()
    }
}

/// A part of a segment to be read.
#[derive(Clone, Debug)]
pub struct ReadPart<'a> {
    /// Which segment.
    pub segment: SegmentId,
    /// Its record.
    pub record: &'a SegmentRecord,
    /// Which data bytes.
    pub range: Range<u64>,
}

/// The batches of a download, each with its part, to be planned.
struct ReadPlans<'a> {
    located: &'a [Located],
    batches: &'a [(usize, Batch)],
}

impl Plans for ReadPlans<'_> {
    fn plan(&self, set: usize, offers: &ShardOffers, arrived: &Arrived) -> Option<ReadPlan> {
        let (index, batch) = &self.batches[set];
        plan::plan_read(&self.located[*index], batch, offers, arrived)
    }
}

/// `out`, cut as the batches are.
fn split_by<'a>(out: &'a mut [u8], batches: &[(usize, Batch)]) -> Vec<&'a mut [u8]> {
    let mut rest = out;
    let mut cut = |(_, batch): &(usize, Batch)| {
        let (head, tail) = std::mem::take(&mut rest).split_at_mut(batch.data_bytes());
        rest = tail;
        head
    };
    batches.iter().map(&mut cut).collect()
}
