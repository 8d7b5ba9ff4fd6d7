//! Scrub: reads every shard whole, reports differences from the metadata, and repairs them.
//!
//! It goes through the segments by age and notes its position, so an interrupted scrub continues where it stopped.

use crate::catalogue::{Catalogue, CatalogueError, Surveyed, Walk};
use crate::census::CareError;
use crate::clock::JobClock;
use crate::job::Job;
use crate::mend::{Look, Mended, Mender};
use crate::record::{JobRecord, SCRUB};
use crate::roster::{Away, Roster};
use crate::standing::Standing;
use serde::Serialize;
use std::sync::Arc;
use std::time::Duration;
use weft_env::TaskSet;
use weft_format::SegmentId;
use weft_transfer::Transfer;

/// Paths listed with one finding.
const PATHS_NAMED: usize = 3;

/// How often a running scrub notes how far it is.
const NOTE_EVERY: Duration = Duration::from_secs(1);

/// How to scrub.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Repair the findings.
    pub repair: bool,
    /// Segments read at once.
    pub workers: usize,
}

impl Default for Options {
    /// As many at once as a repair.
    fn default() -> Self {
        Self { repair: true, workers: 4 }
    }
}

/// One shard that differs from the metadata.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The segment, as text.
    pub segment: String,
    /// Which of its shards.
    pub shard: u16,
    /// The name of the node that should have it.
    pub node: String,
    /// The defect.
    pub complaint: String,
    /// Some of the files with bytes in the segment.
    pub paths: Vec<String>,
    /// Was it made whole?
    pub repaired: bool,
}

/// How a scrub ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// When it began, milliseconds since the Unix epoch; earlier than this run if one was interrupted.
    pub started_ms: u64,
    /// Was an interrupted scrub continued?
    pub resumed: bool,
    /// Segments read in this run.
    pub segment_count: u64,
    /// Bytes read in this run and checked against the metadata.
    pub bytes_verified: u64,
    /// Shards found lost, damaged or misplaced in this run; silent ones are not counted.
    pub finding_count: u64,
    /// How many of these were repaired.
    pub repaired_count: u64,
    /// Shards on nodes that do not answer: nothing is known of them.
    pub silent_shard_count: u64,
    /// Shards on nodes that answer, and do not let this user read them.
    pub refused_shard_count: u64,
    /// Reasons why segments could not be made whole, in the order in which they were met.
    pub failures: Vec<String>,
    /// Nodes that do not answer and were not given up: name and reason.
    pub out_of_reach: Vec<Away>,
}

/// Scrubs all segments, or those that an interrupted scrub left. It calls `tell` with every finding.
///
/// # Errors
/// The catalogue fails, or the job is cancelled; a later scrub goes on from there.
pub async fn scrub(
    catalogue: Arc<dyn Catalogue>,
    transfer: &Transfer,
    job: &Job,
    options: Options,
    now_ms: u64,
    mut tell: impl FnMut(&Finding),
) -> Result<Report, CareError> {
    let roster = Arc::new(Roster::probe(&*catalogue, transfer).await?);
    let mut record = JobRecord::resume(&*catalogue, SCRUB, now_ms)?;
    let after = record.cursor.as_deref().and_then(|cursor| cursor.parse::<SegmentId>().ok());
    let mut report = Report {
        started_ms: record.started_ms,
        resumed: after.is_some(),
        out_of_reach: roster.out_of_reach(),
        ..Report::default()
    };
    measure(&*catalogue, after, job)?;
    let clock = JobClock::new(job.clock(), now_ms);
    let mender = Mender { catalogue: catalogue.clone(), transfer: transfer.clone(), roster, clock: clock.clone() };
    let mut noted = job.clock().now();
    let mut walk = Walk::new(&*catalogue, after);
    let ended = loop {
        if let Err(cancelled) = job.checkpoint().await {
            break Err(cancelled.into());
        }
        // A group is read together and noted together: the cursor never passes a segment that was not read.
        let group = walk.by_ref().take(options.workers.max(1)).collect::<Result<Vec<_>, _>>()?;
        let Some(last) = group.last().map(|surveyed| surveyed.segment) else { break Ok(()) };
        let mut in_hand = TaskSet::new(transfer.runtime());
        for Surveyed { segment, .. } in group {
            let mender = mender.clone();
            let heal = options.repair;
            job.take(segment);
            in_hand.spawn(async move { (segment, mender.mend(segment, Look::Everything, heal, &[]).await) });
        }
        for (segment, mended) in in_hand.join_all().await {
            let mended = mended?;
            job.leave(segment);
            // Consistent with the report at the end: a segment without files is not read.
            record.segment_count += u64::from(!mended.gone);
            record.bytes += mended.bytes_verified;
            job.update(|progress| {
                progress.segments_done += 1;
                progress.bytes_done += mended.bytes_verified;
                progress.bytes_read += mended.bytes_read;
                progress.bytes_verified += mended.bytes_verified;
                progress.bytes_written += mended.bytes_written;
                progress.failures += u64::from(mended.failure.is_some());
            });
            let findings = count(&*catalogue, segment, mended, options.repair, &mut report)?;
            record.finding_count += findings.len() as u64;
            record.failure_count += u64::from(findings.iter().any(|finding| !finding.repaired));
            findings.iter().for_each(&mut tell);
        }
        record.cursor = Some(last.to_string());
        if job.clock().elapsed(noted) >= NOTE_EVERY {
            noted = job.clock().now();
            record.updated_ms = clock.now_ms();
            record.store(&*catalogue, SCRUB)?;
        }
    };
    record.updated_ms = clock.now_ms();
    record.ended_ms = ended.is_ok().then_some(record.updated_ms);
    record.store(&*catalogue, SCRUB)?;
    ended.map(|()| report)
}

/// How much there is to read.
fn measure(catalogue: &dyn Catalogue, after: Option<SegmentId>, job: &Job) -> Result<(), CatalogueError> {
    let (mut segments, mut bytes) = (0, 0);
    for entry in Walk::new(catalogue, after) {
        segments += 1;
        bytes += entry?.record.stored_bytes();
    }
    job.begin("reading", segments, bytes);
    Ok(())
}

/// Adds a segment to the report, and returns its findings.
fn count(
    catalogue: &dyn Catalogue,
    segment: SegmentId,
    mended: Mended,
    repair: bool,
    report: &mut Report,
) -> Result<Vec<Finding>, CatalogueError> {
    report.segment_count += u64::from(!mended.gone);
    report.bytes_verified += mended.bytes_verified;
    let count = |wanted: fn(&Standing) -> bool| mended.found.iter().filter(|(_, _, it)| wanted(it)).count() as u64;
    report.silent_shard_count += count(|standing| *standing == Standing::OutOfReach);
    report.refused_shard_count += count(|standing| *standing == Standing::Refused);
    let repaired = repair && mended.failure.is_none();
    if let Some(failure) = mended.failure {
        report.failures.push(failure);
    }
    let wrong: Vec<_> = mended.found.into_iter().filter(|(_, _, standing)| !standing.is_silent()).collect();
    if wrong.is_empty() || mended.gone {
        return Ok(Vec::new());
    }
    if !repaired {
        catalogue.mark_damaged(segment)?;
    }
    let paths = catalogue.paths(segment, PATHS_NAMED)?;
    let finding = |(index, node, standing): (weft_format::ShardIndex, String, Standing)| Finding {
        segment: segment.to_string(),
        shard: index.0,
        node,
        complaint: standing.complaint().unwrap_or_default(),
        paths: paths.clone(),
        repaired,
    };
    let findings: Vec<Finding> = wrong.into_iter().map(finding).collect();
    report.finding_count += findings.len() as u64;
    report.repaired_count += if repaired { findings.len() as u64 } else { 0 };
    Ok(findings)
}
