//! One run over queued segments: several at once, the most urgent first. It notes its progress.
//!
//! Repair and balance share it; they differ in the segments that they queue. A conversion has its own work and shares [`drain`].

use crate::catalogue::CatalogueError;
use crate::census::CareError;
use crate::job::Job;
use crate::marks::{Marked, Marks};
use crate::mend::{Look, Mended, Mender};
use crate::queue::{Event, Queue};
use crate::record::JobRecord;
use serde::Serialize;
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;
use weft_env::{Runtime, TaskSet};
use weft_format::SegmentId;
use weft_transfer::Relocation;

/// How often a running job notes how far it is.
const NOTE_EVERY: Duration = Duration::from_secs(1);

/// The segments to be mended.
#[derive(Default)]
pub(crate) struct Work {
    pub queue: Queue,
    /// How closely to look at segments that are not judged by their record.
    pub looks: BTreeMap<SegmentId, Look>,
    /// Sound shards that are to move.
    pub relocations: BTreeMap<SegmentId, Vec<Relocation>>,
    /// Why segments could not be mended.
    pub failed: BTreeMap<SegmentId, String>,
    /// What is marked meanwhile is mended as well; `None`: it is left to others.
    pub marks: Option<Marks>,
}

/// A reason that holds segments back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Failure {
    /// The failure of the first of them.
    pub reason: String,
    /// How many failed in this way.
    pub segment_count: u64,
}

/// The work of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sums {
    pub segment_count: u64,
    pub rebuilt_count: u64,
    pub moved_count: u64,
    pub bytes_read: u64,
    pub bytes_read_by_nodes: u64,
    pub bytes_written: u64,
}

/// One run.
pub(crate) struct Run<'r> {
    /// Its name in the catalogue.
    pub name: &'static str,
    pub mender: Mender,
    pub job: &'r Job,
    /// Segments mended at once.
    pub workers: usize,
    pub record: JobRecord,
    pub sums: Sums,
}

impl Run<'_> {
    /// Mends until the queue is empty. Unfinished segments are finished, too, if the job is cancelled or the catalogue fails.
    pub async fn drain(&mut self, work: &mut Work) -> Result<(), CareError> {
        let (job, workers) = (self.job, self.workers);
        let runtime = self.mender.transfer.runtime().clone();
        drain(&mut Mending { run: self, work }, job, &runtime, workers).await
    }

    fn count(&mut self, segment: SegmentId, mended: Mended, work: &mut Work) {
        let sums = &mut self.sums;
        sums.segment_count += 1;
        sums.rebuilt_count += mended.rebuilt_count;
        sums.moved_count += mended.moved_count;
        sums.bytes_read += mended.bytes_read;
        sums.bytes_read_by_nodes += mended.bytes_read_by_nodes;
        sums.bytes_written += mended.bytes_written;
        self.record.segment_count += 1;
        self.record.bytes += mended.bytes_written;
        self.record.finding_count += mended.rebuilt_count + mended.moved_count;
        if let Some(why) = &mended.failure {
            tracing::warn!(%segment, %why, "a segment could not be repaired");
        }
        self.job.update(|progress| {
            progress.segments_done += 1;
            progress.bytes_done += mended.bytes_written;
            progress.bytes_read += mended.bytes_read;
            progress.bytes_verified += mended.bytes_verified;
            progress.bytes_written += mended.bytes_written;
            progress.failures += u64::from(mended.failure.is_some());
        });
        match mended.failure {
            Some(why) => work.failed.insert(segment, why),
            None => work.failed.remove(&segment),
        };
    }

    fn note(&mut self) -> Result<(), CatalogueError> {
        self.record.updated_ms = self.mender.clock.now_ms();
        self.record.store(&*self.mender.catalogue, self.name)
    }

    /// Notes its end. Returns its work, and why segments could not be mended.
    pub fn end(mut self, work: &Work) -> Result<(Sums, Vec<Failure>), CatalogueError> {
        self.record.failure_count = work.failed.len() as u64;
        self.record.ended_ms = Some(self.record.updated_ms);
        self.record.store(&*self.mender.catalogue, self.name)?;
        Ok((self.sums, by_reason(&work.failed)))
    }
}

/// A run at its work.
struct Mending<'m, 'r> {
    run: &'m mut Run<'r>,
    work: &'m mut Work,
}

impl Batch for Mending<'_, '_> {
    type Outcome = Mended;

    fn is_waiting(&self) -> bool {
        self.work.queue.waiting_count() > 0
    }

    fn next(&mut self) -> Option<InHand<Mended>> {
        let segment = self.work.queue.next()?;
        self.work.marks.iter_mut().for_each(|marks| marks.taken(segment));
        let mender = self.run.mender.clone();
        let look = self.work.looks.get(&segment).copied().unwrap_or(Look::Record);
        let relocations = self.work.relocations.remove(&segment).unwrap_or_default();
        Some((segment, Box::pin(async move { mender.mend(segment, look, true, &relocations).await })))
    }

    fn ended(&mut self, segment: SegmentId, outcome: Result<Mended, CatalogueError>) -> Result<(), CatalogueError> {
        self.work.queue.apply(Event::Ended(segment));
        self.run.count(segment, outcome?, self.work);
        Ok(())
    }

    fn note(&mut self) -> Result<(), CatalogueError> {
        self.run.note()
    }

    fn look_out(&mut self) -> Result<(), CatalogueError> {
        let Some(marks) = &mut self.work.marks else { return Ok(()) };
        let Mender { catalogue, roster, .. } = &self.run.mender;
        let before = self.work.queue.waiting_count();
        for Marked { segment, margin, look } in marks.next(&**catalogue, roster)? {
            self.work.looks.insert(segment, look);
            self.work.queue.apply(Event::Found { segment, margin });
        }
        let more = self.work.queue.waiting_count() - before;
        self.run.job.update(|progress| progress.segments_total += more as u64);
        Ok(())
    }
}

/// A segment, and the work to be done for it.
pub(crate) type InHand<T> = (SegmentId, Pin<Box<dyn Future<Output = Result<T, CatalogueError>> + Send>>);

/// Segments to process, several at once.
pub(crate) trait Batch: Send {
    /// The outcome for one.
    type Outcome: Send + 'static;

    /// Does one wait?
    fn is_waiting(&self) -> bool;

    /// The next one; `None`: none waits any more.
    fn next(&mut self) -> Option<InHand<Self::Outcome>>;

    /// Takes in the outcome for one.
    fn ended(
        &mut self,
        segment: SegmentId,
        outcome: Result<Self::Outcome, CatalogueError>,
    ) -> Result<(), CatalogueError>;

    /// Notes its progress in the catalogue.
    fn note(&mut self) -> Result<(), CatalogueError>;

    /// Queues what others have found meanwhile.
    fn look_out(&mut self) -> Result<(), CatalogueError> {
        Ok(())
    }
}

/// Processes all of them. Unfinished segments are finished, too, if the job is cancelled or the catalogue fails.
pub(crate) async fn drain(
    batch: &mut impl Batch,
    job: &Job,
    runtime: &Runtime,
    workers: usize,
) -> Result<(), CareError> {
    let mut noted = job.clock().now();
    let mut in_hand = TaskSet::new(runtime);
    let mut stop: Option<CareError> = None;
    // Before the first shard is stored: the collector leaves a running job's shards alone.
    batch.note()?;
    loop {
        while stop.is_none() && in_hand.len() < workers.max(1) && batch.is_waiting() {
            if let Err(cancelled) = job.checkpoint().await {
                stop = Some(cancelled.into());
                break;
            }
            let Some((segment, work)) = batch.next() else { break };
            job.take(segment);
            in_hand.spawn(async move { (segment, work.await) });
        }
        let Some(ended) = in_hand.join_next().await else { break };
        let (segment, outcome) = match ended {
            Ok(ended) => ended,
            Err(stopped) => stopped.go_on(),
        };
        job.leave(segment);
        if let Err(error) = batch.ended(segment, outcome) {
            stop = stop.or(Some(error.into()));
        }
        if job.clock().elapsed(noted) >= NOTE_EVERY {
            noted = job.clock().now();
            batch.note()?;
            batch.look_out()?;
        }
    }
    batch.note()?;
    stop.map_or(Ok(()), Err)
}

/// Reasons that differ only in the segment and in numbers count as one.
pub(crate) fn by_reason(failed: &BTreeMap<SegmentId, String>) -> Vec<Failure> {
    let mut reasons: BTreeMap<String, Failure> = BTreeMap::new();
    for (segment, why) in failed {
        let alike = why.replace(&segment.to_string(), "").replace(|c: char| c.is_ascii_digit(), "");
        let failure = Failure { reason: why.clone(), segment_count: 0 };
        reasons.entry(alike).or_insert(failure).segment_count += 1;
    }
    reasons.into_values().collect()
}
