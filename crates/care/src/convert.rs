//! Conversion: segments get the code that the policies of their files want now.
//!
//! ```text
//! look (which living segments are to have another code) -> for each: recode (write, verify) -> commit -> the previous shards wait
//!   or, where several can be one under the new code: merge (write parities, verify) -> commit -> all but their data goes
//! ```
//!
//! A commit makes a new generation. The previous one is retained for a while, so that readers can finish, and so that its shards are used
//! again if the previous policy is set again. The collector removes them later. A run that was cut off
//! leaves nothing but shards that no record names: the next one looks again.
//!
//! A segment whose files want unlike codes is divided by the volume's owner (`weft_vfs`'s compaction), not here.

mod converter;

use crate::catalogue::{Catalogue, CatalogueError, Surveyed, Walk};
use crate::census::CareError;
use crate::clock::JobClock;
use crate::job::Job;
use crate::record::{ConvertRecord, Requests};
use crate::run::{Batch, Failure, InHand, by_reason, drain};
use converter::{Converted, Converter, Outcome};
use serde::Serialize;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::Arc;
use weft_format::SegmentId;
use weft_format::records::Wanted;
use weft_transfer::{Recoded, Transfer};

pub use weft_format::removal::RESTORABLE_MS as KEEP_MS;

/// Both generations take room for a while: of the volume's room this part is left to writers.
const LEFT_SHARE: u64 = 10;

/// Segments looked at between two moments at which others may run.
const LOOKED_AT_ONCE: usize = 64;

/// Why it ends before all is converted.
const NO_ROOM: &str =
    "there is too little room for both generations of more segments; it goes on when previous shards are gone";

/// How to convert.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Segments converted at once.
    pub workers: usize,
    /// How long previous generations are kept, in milliseconds.
    pub keep_ms: u64,
    /// Which request for a conversion this answers.
    pub request_count: u64,
}

impl Default for Options {
    /// Two at once: one is computed while the other travels, and hardly more memory is taken than by a writer.
    fn default() -> Self {
        Self { workers: 2, keep_ms: KEEP_MS, request_count: 0 }
    }
}

/// The work of this run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Segments that have their code now.
    pub segment_count: u64,
    /// Those of them whose previous shards were still there.
    pub restored_count: u64,
    /// Those of them that were merged with others.
    pub merged_count: u64,
    /// Data bytes in them.
    pub data_bytes: u64,
    /// Bytes that nodes sent to compute from.
    pub bytes_read: u64,
    /// Bytes read back and checked before they were relied on.
    pub bytes_verified: u64,
    /// Bytes stored.
    pub bytes_written: u64,
    /// Bytes saved, compared with reading the data of each segment once and writing every shard.
    pub bytes_saved: u64,
    /// Segments shared by files that want unlike codes.
    pub divided_count: u64,
    /// Why segments could not be converted.
    pub failures: Vec<Failure>,
}

/// For people; empty where there was nothing to do.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { segment_count, restored_count, merged_count, bytes_read, bytes_written, bytes_saved, .. } = self;
        let mut parts = Vec::new();
        if *segment_count > 0 {
            parts.push(format!(
                "{segment_count} segments converted, {restored_count} of them by restoring their previous shards and {merged_count} merged \
                 into wider ones; {bytes_read} bytes read and {bytes_written} written, {bytes_saved} saved"
            ));
        }
        if self.divided_count > 0 {
            let divided_count = self.divided_count;
            parts.push(format!("{divided_count} segments of files with different codes remain to be divided"));
        }
        parts.extend(self.failures.iter().map(|failure| format!("{} left: {}", failure.segment_count, failure.reason)));
        write!(f, "{}", parts.join("; "))
    }
}

/// Is a conversion asked for, or was one cut off, or could not do all of it?
///
/// # Errors
/// The catalogue cannot be read.
pub fn is_asked(catalogue: &dyn Catalogue, requests: &Requests) -> Result<bool, CatalogueError> {
    let last = ConvertRecord::load(catalogue)?;
    let answered_count = last.as_ref().map_or(0, |last| last.request_count);
    let is_left = |last: ConvertRecord| last.ended_ms.is_none() || last.failure_count > 0;
    Ok(requests.convert_count > answered_count || last.is_some_and(is_left))
}

/// Converts all that is to be converted.
///
/// # Errors
/// The catalogue fails, or the job is cancelled; segments converted until then stay converted. Segments that cannot be converted are no
/// error: the report counts them.
pub async fn convert(
    catalogue: Arc<dyn Catalogue>,
    transfer: &Transfer,
    job: &Job,
    options: Options,
    now_ms: u64,
) -> Result<Report, CareError> {
    job.begin("looking", 0, 0);
    let record = ConvertRecord::resume(&*catalogue, options.request_count, now_ms)?;
    let converter = Converter::new(catalogue, transfer.clone(), options.keep_ms);
    let clock = JobClock::new(job.clock(), now_ms);
    let (report, failed) = (Report::default(), BTreeMap::new());
    let waiting = VecDeque::new();
    let mut run = Run { converter, job, clock, record, report, failed, waiting, room_bytes: 0 };
    let (segment_count, bytes) = run.look().await?;
    if run.is_waiting() {
        transfer.fleet().refresh_space().await;
        let (total_bytes, free_bytes) = transfer.fleet().view().room_bytes();
        run.room_bytes = free_bytes.saturating_sub(total_bytes / LEFT_SHARE);
        job.begin("converting", segment_count, bytes);
        drain(&mut run, job, transfer.runtime(), options.workers).await?;
    }
    Ok(run.end()?)
}

/// One run.
struct Run<'r> {
    converter: Converter,
    job: &'r Job,
    clock: JobClock,
    record: ConvertRecord,
    report: Report,
    failed: BTreeMap<SegmentId, String>,
    /// Segments that may be merged, or one alone.
    waiting: VecDeque<Vec<SegmentId>>,
    /// The bytes that it may write.
    room_bytes: u64,
}

impl Run<'_> {
    /// Finds the segments to convert; how many, and the data bytes in them.
    async fn look(&mut self) -> Result<(u64, u64), CareError> {
        let (mut segment_count, mut bytes) = (0, 0);
        let mut candidates = self.converter.transfer.merge_candidates();
        for (count, entry) in Walk::new(&*self.converter.catalogue, None).enumerate() {
            let Surveyed { segment, record, .. } = entry?;
            if count % LOOKED_AT_ONCE == 0 {
                self.job.checkpoint().await?;
                tokio::task::yield_now().await;
            }
            match self.converter.catalogue.wanted_code(segment, self.clock.now_ms())? {
                Wanted::AsIs => {}
                Wanted::Divided => self.report.divided_count += 1,
                Wanted::Code(code) => {
                    segment_count += 1;
                    bytes += record.geometry.data_bytes;
                    if self.converter.may_merge(segment, &code)? {
                        self.waiting.extend(candidates.offer(segment, record, &code));
                    } else {
                        self.waiting.push_back(vec![segment]);
                    }
                }
            }
            self.job.update(|progress| progress.segments_done += 1);
        }
        self.waiting.extend(candidates.rest().map(|segment| vec![segment]));
        Ok((segment_count, bytes))
    }

    fn count(&mut self, segment: SegmentId, outcome: Outcome) {
        let converted = match outcome {
            Outcome::Converted(converted) => converted,
            Outcome::Alone(segments) => {
                segments.into_iter().rev().for_each(|segment| self.waiting.push_front(vec![segment]));
                return;
            }
            Outcome::Left => {
                self.job.update(|progress| progress.segments_done += 1);
                return;
            }
            Outcome::Failed(why) => {
                tracing::warn!(%segment, %why, "a segment could not be converted");
                self.job.update(|progress| progress.segments_done += 1);
                self.fail(segment, why);
                return;
            }
        };
        let Converted { segment_count, data_bytes, recoded, is_restored } = converted;
        let merged_count = if segment_count > 1 { segment_count } else { 0 };
        let (report, record) = (&mut self.report, &mut self.record);
        report.segment_count += segment_count;
        report.restored_count += u64::from(is_restored);
        report.merged_count += merged_count;
        report.data_bytes += data_bytes;
        record.segment_count += segment_count;
        record.merged_count += merged_count;
        self.job.update(|progress| {
            progress.segments_done += segment_count;
            progress.bytes_done += data_bytes;
        });
        let Recoded { bytes_read, bytes_verified, bytes_written, bytes_saved, .. } = recoded;
        report.bytes_read += bytes_read;
        report.bytes_verified += bytes_verified;
        report.bytes_written += bytes_written;
        report.bytes_saved += bytes_saved;
        record.bytes_read += bytes_read;
        record.bytes_verified += bytes_verified;
        record.bytes_written += bytes_written;
        record.bytes_saved += bytes_saved;
        self.job.update(|progress| {
            progress.bytes_read += bytes_read + bytes_verified;
            progress.bytes_written += bytes_written;
        });
    }

    fn fail(&mut self, segment: SegmentId, why: String) {
        self.job.update(|progress| progress.failures += 1);
        self.failed.insert(segment, why);
    }

    fn end(mut self) -> Result<Report, CatalogueError> {
        self.record.failure_count = self.failed.len() as u64;
        self.record.divided_count = self.report.divided_count;
        self.record.ended_ms = Some(self.clock.now_ms());
        self.note()?;
        self.report.failures = by_reason(&self.failed);
        Ok(self.report)
    }
}

impl Batch for Run<'_> {
    type Outcome = Outcome;

    fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    fn next(&mut self) -> Option<InHand<Outcome>> {
        // Conversions that write nothing, because they use previous shards again, continue without any room.
        if self.report.bytes_written > self.room_bytes {
            let left = std::mem::take(&mut self.waiting).into_iter().flatten();
            left.for_each(|segment| self.fail(segment, NO_ROOM.into()));
        }
        let segments = self.waiting.pop_front()?;
        let segment = *segments.first()?;
        let (converter, clock) = (self.converter.clone(), self.clock.clone());
        let work = async move {
            match &segments[..] {
                [segment] => converter.convert(*segment, &clock).await,
                _ => converter.merge(segments, &clock).await,
            }
        };
        Some((segment, Box::pin(work)))
    }

    fn ended(&mut self, segment: SegmentId, outcome: Result<Outcome, CatalogueError>) -> Result<(), CatalogueError> {
        self.count(segment, outcome?);
        Ok(())
    }

    fn note(&mut self) -> Result<(), CatalogueError> {
        self.record.updated_ms = self.clock.now_ms();
        self.record.store(&*self.converter.catalogue)
    }
}
