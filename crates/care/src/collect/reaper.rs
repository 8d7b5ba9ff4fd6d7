//! The reaper goes through the queue of unreferenced items, dead segments and previous generations, and removes those that may be removed.
//!
//! ```text
//! evidence (since when, seen by whom) -> may_remove? -> make the findings durable -> look again -> mark, if it can be restored
//!   -> remove the shards that belong to it -> forget it
//! ```
//!
//! A crash at any step leaves an entry for the next run: marked items stay marked, and dead segments stay dead.

use super::owned::Owners;
use super::unreferenced::Witness;
use crate::catalogue::{Catalogue, CatalogueError};
use crate::census::CareError;
use crate::job::Job;
use crate::openings;
use crate::roster::Roster;
use parking_lot::Mutex;
use serde::Serialize;
use std::time::{Duration, Instant};
use weft_format::SegmentId;
use weft_format::records::{RetainedRecord, SegmentRecord};
use weft_format::removal::{Item, Queued, Removable, Verdict, may_remove};
use weft_transfer::Transfer;

/// Entries read at once.
const PAGE: usize = 512;

/// Who removes shards has asked the nodes within this time whether the metadata is still the volume's. A restore names shards that this one
/// takes for trash.
const ASK_AGAIN_AFTER: Duration = Duration::from_secs(5);

/// The outcome for dead segments.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Trash {
    /// Segments whose shards and record are gone (or would be, in a dry run).
    pub segment_count: u64,
    /// Bytes of shards removed.
    pub bytes: u64,
    /// Segments still within their grace time.
    pub young_count: u64,
    /// Segments that stay for a later run because a node did not say that its shard is gone.
    pub kept_count: u64,
}

/// The outcome for previous generations.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Retained {
    /// Generations whose shards are gone (or would be, in a dry run).
    pub generation_count: u64,
    /// Bytes of shards removed.
    pub bytes: u64,
    /// Generations whose time is not over.
    pub young_count: u64,
    /// Bytes of their shards.
    pub young_bytes: u64,
    /// Generations that stay for a later run because a node did not say that its shard is gone.
    pub kept_count: u64,
}

/// The outcome for the queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Reaped {
    pub trash: Trash,
    pub retained: Retained,
}

/// The outcome for one entry.
enum Outcome {
    /// Its shards, of so many bytes, are gone, and it is forgotten.
    Gone(u64),
    /// It stays for a later run.
    Kept,
    /// It is needed, or gone already.
    Nothing,
}

/// A run through the queue.
pub(super) struct Reaper<'r> {
    catalogue: &'r dyn Catalogue,
    transfer: &'r Transfer,
    roster: &'r Roster,
    job: &'r Job,
    witness: Witness<'r>,
    dry_run: bool,
    /// When the nodes were asked last.
    asked_at: Mutex<Option<Instant>>,
}

impl<'r> Reaper<'r> {
    pub fn new(
        (catalogue, transfer): (&'r dyn Catalogue, &'r Transfer),
        roster: &'r Roster,
        job: &'r Job,
        witness: Witness<'r>,
        dry_run: bool,
    ) -> Self {
        Self { catalogue, transfer, roster, job, witness, dry_run, asked_at: Mutex::default() }
    }

    /// Asks the nodes again, if the last answer is too old.
    async fn make_sure(&self) -> Result<(), CatalogueError> {
        let clock = &self.transfer.fleet().env().clock;
        let asked_at = *self.asked_at.lock();
        if asked_at.is_none_or(|asked_at| clock.elapsed(asked_at) > ASK_AGAIN_AFTER) {
            // The answers may be as old as the question.
            let now = clock.now();
            openings::check(self.catalogue, self.transfer).await?;
            *self.asked_at.lock() = Some(now);
        }
        Ok(())
    }

    pub async fn run(&self) -> Result<Reaped, CareError> {
        let mut reaped = Reaped::default();
        self.job.begin("removing unreferenced shards", 0, 0);
        let mut after = None;
        loop {
            let page = self.catalogue.unreferenced(after, PAGE)?;
            let Some(last) = page.last() else { break };
            after = Some(last.item());
            let due: Vec<Queued> = page.into_iter().filter(|entry| self.is_due(entry, &mut reaped)).collect();
            let is_to_be_durable = due.iter().any(|entry| matches!(entry, Queued::Segment { .. }));
            if is_to_be_durable && !self.dry_run {
                // Otherwise a crash could bring back a file whose shards are gone.
                self.catalogue.flush()?;
            }
            for entry in due {
                self.job.checkpoint().await?;
                let outcome = self.reap(&entry).await?;
                self.count(&entry, outcome, &mut reaped);
            }
        }
        self.witness.forget_others(|item| matches!(item, Item::Segment(_) | Item::Generation(..)));
        Ok(reaped)
    }

    /// Is its grace time over according to the queue? Counts the entry if not.
    fn is_due(&self, entry: &Queued, reaped: &mut Reaped) -> bool {
        let evidence = self.witness.evidence(entry.item(), entry.since_ms());
        let verdict = may_remove(entry.candidate(0), evidence);
        match (verdict, entry) {
            (Verdict::Wait, Queued::Segment { .. }) => reaped.trash.young_count += 1,
            (Verdict::Wait, Queued::Generation { retained, .. }) => {
                reaped.retained.young_count += 1;
                reaped.retained.young_bytes += retained.record.stored_bytes();
            }
            _ => {}
        }
        matches!(verdict, Verdict::Remove(_) | Verdict::Mark(_))
    }

    /// Looks at an entry again, and removes it if it may still go.
    async fn reap(&self, entry: &Queued) -> Result<Outcome, CatalogueError> {
        let (Queued::Segment { segment, .. } | Queued::Generation { segment, .. }) = entry;
        let record = self.catalogue.segment(*segment)?;
        let live_bytes = self.catalogue.live_bytes(*segment)?;
        let evidence = self.witness.evidence(entry.item(), entry.since_ms());
        match (may_remove(entry.candidate(live_bytes), evidence), entry) {
            (Verdict::Remove(dead), Queued::Segment { .. }) => {
                let Some(record) = record else { return Ok(Outcome::Nothing) };
                let Some(bytes) = self.remove_shards(dead, &record, None).await? else { return Ok(Outcome::Kept) };
                self.forgotten(bytes, || self.catalogue.drop_segment(dead, &record))
            }
            (Verdict::Remove(going), Queued::Generation { segment, retained }) => {
                self.remove_generation(going, *segment, retained).await
            }
            (Verdict::Mark(_), Queued::Generation { retained, .. }) if self.dry_run => {
                Ok(Outcome::Gone(retained.record.stored_bytes()))
            }
            (Verdict::Mark(expired), Queued::Generation { segment, retained }) => {
                let retained = match self.catalogue.mark_going(expired, retained) {
                    Ok(marked) => marked,
                    // Another process has restored it, or is removing it.
                    Err(CatalogueError::Changed(_)) => return Ok(Outcome::Kept),
                    Err(error) => return Err(error),
                };
                let marked = Queued::Generation { segment: *segment, retained: retained.clone() };
                match may_remove(marked.candidate(live_bytes), evidence) {
                    Verdict::Remove(going) => self.remove_generation(going, *segment, &retained).await,
                    _ => Ok(Outcome::Kept),
                }
            }
            _ => Ok(Outcome::Nothing),
        }
    }

    /// A marked entry: nothing names it. It is checked once more, because a mistake would lose data.
    async fn remove_generation(
        &self,
        going: Removable,
        segment: SegmentId,
        retained: &RetainedRecord,
    ) -> Result<Outcome, CatalogueError> {
        let present = self.catalogue.segment(segment)?;
        let removed = self.remove_shards(going, &retained.record, present.as_ref()).await?;
        let Some(bytes) = removed else { return Ok(Outcome::Kept) };
        self.forgotten(bytes, || self.catalogue.drop_generation(going, retained))
    }

    /// Bytes of the shards that are gone, or on nodes that were given up; `None`: one may be there still. A node that merely does not
    /// answer may come back with it.
    async fn remove_shards(
        &self,
        what: Removable,
        record: &SegmentRecord,
        present: Option<&SegmentRecord>,
    ) -> Result<Option<u64>, CatalogueError> {
        let mut owners = Owners::of(self.catalogue);
        let shards = what.shards(record, present, |key| owners.owner(key))?;
        let bytes = shards.len() as u64 * record.shard_bytes();
        if self.dry_run {
            return Ok(Some(bytes));
        }
        self.make_sure().await?;
        let removal = self.transfer.remove(shards).await;
        let is_over = removal.unknown.iter().all(|failure| self.roster.given_up(failure.node));
        Ok(is_over.then_some(bytes))
    }

    fn forgotten(
        &self,
        bytes: u64,
        forget: impl FnOnce() -> Result<(), CatalogueError>,
    ) -> Result<Outcome, CatalogueError> {
        if self.dry_run {
            return Ok(Outcome::Gone(bytes));
        }
        match forget() {
            Ok(()) => Ok(Outcome::Gone(bytes)),
            // A repair gave it another record meanwhile: its shards are found by a later run.
            Err(CatalogueError::Changed(_)) => Ok(Outcome::Kept),
            Err(error) => Err(error),
        }
    }

    fn count(&self, entry: &Queued, outcome: Outcome, reaped: &mut Reaped) {
        let (count, sum_bytes, kept_count) = match entry {
            Queued::Segment { .. } => {
                let Trash { segment_count, bytes, kept_count, .. } = &mut reaped.trash;
                (segment_count, bytes, kept_count)
            }
            Queued::Generation { .. } => {
                let Retained { generation_count, bytes, kept_count, .. } = &mut reaped.retained;
                (generation_count, bytes, kept_count)
            }
        };
        match outcome {
            Outcome::Gone(bytes) => {
                *count += 1;
                *sum_bytes += bytes;
                self.job.update(|progress| progress.segments_done += 1);
                if !self.dry_run {
                    self.witness.forget(entry.item());
                }
            }
            Outcome::Kept => *kept_count += 1,
            Outcome::Nothing => {}
        }
    }
}

/// Previous generations that are kept at this moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Kept {
    /// How many.
    pub generation_count: u64,
    /// Bytes of their shards.
    pub bytes: u64,
}

/// The room that previous generations take.
///
/// # Errors
/// The catalogue cannot be read.
pub fn kept(catalogue: &dyn Catalogue) -> Result<Kept, CatalogueError> {
    let mut kept = Kept::default();
    let mut after = Some(Item::BEFORE_GENERATIONS);
    loop {
        let page = catalogue.unreferenced(after, PAGE)?;
        let Some(last) = page.last() else { return Ok(kept) };
        after = Some(last.item());
        for entry in page {
            if let Queued::Generation { retained, .. } = entry {
                kept.generation_count += 1;
                kept.bytes += retained.record.stored_bytes();
            }
        }
    }
}
