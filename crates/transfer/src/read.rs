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
pub(crate) mod part;
pub(crate) mod plan;
pub(crate) mod report;
mod through;

use crate::arrived::Arrived;
use crate::cache::{Block, Look, Promise};
use crate::error::ReadError;
use crate::in_flight::Call;
use crate::read_plan::{ReadPlan, ShardOffers};
use crate::salvage;
use crate::scheduler::Plans;
use crate::transfer::{Inner, Transfer};
use bytes::Bytes;
use fetch::{Download, Sources};
use locate::{Batch, Located};
use std::ops::Range;
use std::sync::Arc;
use weft_format::SegmentId;
use weft_format::records::SegmentRecord;
use weft_nodes::Class;

pub use crate::suspect::Suspect;
pub use part::ReadPart;
pub use report::ReadReport;

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
        let reports = self.read_parts(vec![ReadPart { segment, record, range, out }]).await?;
        Ok(reports.into_iter().next().unwrap_or_default())
    }

    /// Reads parts of any segments like [`Self::read`], what is not cached in one download: nodes that have shards of several are
    /// asked for all of them at once. A report a part. Of a code that stores no data plainly the whole stripe is brought to the cache,
    /// as by [`Self::prefetch`]: the next read of it then computes nothing.
    ///
    /// # Errors
    /// [`ReadError`]; what the parts' bytes are then means nothing.
    pub fn read_parts<'a>(&'a self, parts: Vec<ReadPart<'a>>) -> Call<'a, Result<Vec<ReadReport>, ReadError>> {
        Box::pin(async move {
            let inner = &self.inner;
            let mut reports = vec![ReadReport::default(); parts.len()];
            let (mut absent, mut coming) = (Vec::new(), Vec::new());
            for (index, part) in parts.into_iter().enumerate() {
                locate::check(part.segment, part.record, &part.range, part.out.len())?;
                if self.decodes(part.record) {
                    self.prefetch(part.segment, &Arc::new(part.record.clone()), part.range.clone());
                }
                let mut rest = part;
                while !rest.range.is_empty() {
                    let (range, look) = inner.cache.look(rest.segment, rest.range.clone());
                    let (piece, after) = rest.split_at(range.end);
                    rest = after;
                    match look {
                        Look::Kept(block) => piece.copy(&block, &mut reports[index]),
                        Look::Coming(promised) => coming.push((index, piece, promised)),
                        Look::Absent => absent.push((index, piece)),
                    }
                }
            }
            inner.fetch_into(absent, &mut reports).await?;
            // Meanwhile these have come, most likely; what has not is read like the others.
            let mut absent = Vec::new();
            for (index, piece, promised) in coming {
                match inner.cache.wait(promised, piece.segment, piece.range.clone()).await {
                    Some(block) => piece.copy(&block, &mut reports[index]),
                    None => absent.push((index, piece)),
                }
            }
            inner.fetch_into(absent, &mut reports).await?;
            Ok(reports)
        })
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
        let (part, look) = self.inner.cache.look(segment, range.clone());
        let block = match look {
            Look::Kept(block) if part == range => Some(block),
            Look::Coming(promised) if part == range => self.inner.cache.wait(promised, segment, part).await,
            _ => None,
        };
        if let Some(block) = block {
            return Ok((block.bytes, (*block.report).clone()));
        }
        let mut out = vec![0; length];
        let report = self.read(segment, record, range, &mut out).await?;
        Ok((out.into(), report))
    }

    /// Has the segment's code no plain data?
    fn decodes(&self, record: &SegmentRecord) -> bool {
        self.inner.algebra.load_for(record).is_ok_and(|code| code.stores_nothing_plainly())
    }

    /// Fills the cache with the blocks that `range` touches, in the background. A read that needs one of them waits for it
    /// instead of reading it again; a block that cannot be had is left to the read to report.
    ///
    /// Of a code that stores no data plainly whole stripes come, each in one download: a part of a stripe takes almost as many
    /// symbols as all of it (24 MiB of `mojette:layout-2,nonsystematic` block by block: 262 MiB from nodes).
    pub fn prefetch(&self, segment: SegmentId, record: &Arc<SegmentRecord>, range: Range<u64>) {
        let decodes = self.decodes(record);
        let range = if decodes { record.geometry.whole_stripes(range) } else { range };
        for promises in runs(self.inner.cache.promise(segment, range, record.geometry.data_bytes), decodes) {
            let (inner, record) = (self.inner.clone(), record.clone());
            self.inner.runtime.spawn(async move {
                let Some((first, last)) = promises.first().zip(promises.last()) else { return };
                let range = first.range.start..last.range.end;
                let mut out = vec![0; (range.end - range.start) as usize];
                let part = ReadPart { segment, record: &record, range: range.clone(), out: &mut out };
                match inner.fetch(vec![part]).await {
                    Ok(reports) => {
                        let report = reports.into_iter().next().unwrap_or_default();
                        let report = Arc::new(ReadReport { bytes_fetched: 0, ..report });
                        let within = |block: &Range<u64>| {
                            (block.start - range.start) as usize..(block.end - range.start) as usize
                        };
                        let bytes = Bytes::from(out);
                        for promise in promises {
                            let bytes = match bytes.slice(within(&promise.range)) {
                                block if block.len() == bytes.len() => block,
                                // A copy, so that what is dropped from the cache gives its memory back.
                                block => Bytes::copy_from_slice(&block),
                            };
                            promise.keep(Block { bytes, report: report.clone() });
                        }
                    }
                    Err(error) => tracing::debug!(%error, "read-ahead failed"),
                }
            });
        }
    }
}

/// Promises that are kept by one download: one each, or those that follow each other where they are better fetched `together`.
fn runs(promises: Vec<Promise>, together: bool) -> Vec<Vec<Promise>> {
    let mut runs: Vec<Vec<Promise>> = Vec::new();
    for promise in promises {
        match runs.last_mut() {
            Some(run) if together && run.last().is_some_and(|last| last.range.end == promise.range.start) => {
                run.push(promise);
            }
            _ => runs.push(vec![promise]),
        }
    }
    runs
}

impl Inner {
    /// Reads past the cache in memory, and adds to the report of each part's owner.
    async fn fetch_into(&self, parts: Vec<(usize, ReadPart<'_>)>, reports: &mut [ReadReport]) -> Result<(), ReadError> {
        if parts.is_empty() {
            return Ok(());
        }
        let (owners, parts): (Vec<usize>, Vec<ReadPart<'_>>) = parts.into_iter().unzip();
        for (owner, report) in owners.into_iter().zip(self.fetch(parts).await?) {
            reports[owner].add(&report);
        }
        Ok(())
    }

    /// Reads past the cache in memory, from the disk cache as far as it has the bytes. A report a part.
    async fn fetch(&self, parts: Vec<ReadPart<'_>>) -> Result<Vec<ReadReport>, ReadError> {
        match self.disk.as_ref().filter(|_| self.class == Class::Foreground) {
            Some(disk) => self.fetch_through(disk, parts).await,
            None => self.download(parts).await,
        }
    }

    /// Reads from nodes, all parts in one download; where shards with damage do not suffice for one, its stripes are pieced together
    /// of what is sound of them. A report a part.
    pub(crate) async fn download(&self, mut parts: Vec<ReadPart<'_>>) -> Result<Vec<ReadReport>, ReadError> {
        match self.download_plainly(parts.iter_mut().map(ReadPart::reborrow).collect()).await {
            Err(ReadError::Unrecoverable { failures, .. }) if salvage::may_help(&failures) => {}
            outcome => return outcome,
        }
        let mut reports = Vec::new();
        for mut part in parts {
            match self.download_plainly(vec![part.reborrow()]).await {
                Err(ReadError::Unrecoverable { failures, .. }) if salvage::may_help(&failures) => {
                    reports.push(salvage::read(self, part, &failures).await?);
                }
                outcome => reports.extend(outcome?),
            }
        }
        Ok(reports)
    }

    async fn download_plainly(&self, parts: Vec<ReadPart<'_>>) -> Result<Vec<ReadReport>, ReadError> {
        let locate = |part: &ReadPart<'_>| locate::locate(&self.algebra, part.segment, part.record, part.range.clone());
        let located = parts.iter().map(locate).collect::<Result<Vec<Located>, _>>()?;
        let batches: Vec<(usize, Batch)> = (located.iter().enumerate())
            .flat_map(|(index, located)| located.batches().map(move |batch| (index, batch)))
            .collect();
        let sets = batches.iter().map(|(index, batch)| batch.shape(*index, &located[*index])).collect();
        let wanted_bytes = parts.iter().map(|part| part.range.end - part.range.start).sum();
        let nodes = parts.iter().flat_map(|part| part.record.nodes());
        let _admitted = self.admit(nodes, self.window_bytes(&located, &batches), wanted_bytes).await;
        let sources = (parts.iter().zip(&located))
            .map(|(part, located)| Sources::new(self, part.segment, part.record, located.code.shape(), &[]))
            .collect();
        let mut outs = split_by(parts, &batches);
        let mut download = Download::new(
            self,
            sources,
            sets,
            ReadPlans { located: &located, batches: &batches },
            self.hedge_budget.allowance_bytes(),
        );
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

/// The parts' places, cut as the batches are.
fn split_by<'a>(parts: Vec<ReadPart<'a>>, batches: &[(usize, Batch)]) -> Vec<&'a mut [u8]> {
    let mut rests: Vec<&'a mut [u8]> = parts.into_iter().map(|part| part.out).collect();
    let mut cut = |(index, batch): &(usize, Batch)| {
        let (head, tail) = std::mem::take(&mut rests[*index]).split_at_mut(batch.data_bytes());
        rests[*index] = tail;
        head
    };
    batches.iter().map(&mut cut).collect()
}
