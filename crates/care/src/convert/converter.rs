//! Converts one segment, or merges several into one: recode or merge, commit, report.

use crate::catalogue::{Catalogue, CatalogueError};
use crate::clock::JobClock;
use crate::mend::withdraw_late_if_planted;
use parking_lot::Mutex;
use std::sync::Arc;
use weft_format::SegmentId;
use weft_format::records::{RetainedRecord, SegmentRecord, Succession, Wanted};
use weft_transfer::{Recoded, Transfer};

/// A segment whose record changes under its conversion is tried so often: repairs change one once or twice.
const ATTEMPTS: usize = 4;

/// An owner that does not end soon keeps the volume for a while. Until this time is over each segment is converted by itself.
const ASK_AGAIN_MS: u64 = 60_000;

/// The outcome for one segment.
pub(super) enum Outcome {
    Converted(Converted),
    /// It is gone, or has the code that is wanted.
    Left,
    Failed(String),
    /// These cannot be merged after all: each is to be converted by itself.
    Alone(Vec<SegmentId>),
}

pub(super) struct Converted {
    /// More than one: they were merged.
    pub segment_count: u64,
    pub data_bytes: u64,
    pub recoded: Recoded,
    /// Its previous shards were still there.
    pub is_restored: bool,
}

/// Segments that may be merged.
type Sources = Vec<(SegmentId, SegmentRecord)>;

/// The context of a conversion, shared by all segments of a run.
#[derive(Clone)]
pub(super) struct Converter {
    pub catalogue: Arc<dyn Catalogue>,
    pub transfer: Transfer,
    keep_ms: u64,
    /// When this process was refused an action that only the owner may do.
    refused_ms: Arc<Mutex<Option<u64>>>,
}

impl Converter {
    pub fn new(catalogue: Arc<dyn Catalogue>, transfer: Transfer, keep_ms: u64) -> Self {
        Self { catalogue, transfer, keep_ms, refused_ms: Arc::default() }
    }

    /// Gives one segment the code that is wanted now.
    ///
    /// # Errors
    /// The catalogue cannot be read or written. A failure of the segment is part of the answer.
    pub async fn convert(&self, segment: SegmentId, clock: &JobClock) -> Result<Outcome, CatalogueError> {
        for _ in 0..ATTEMPTS {
            let Some(record) = self.catalogue.segment(segment)? else { return Ok(Outcome::Left) };
            let Wanted::Code(code) = self.catalogue.wanted_code(segment, clock.now_ms())? else {
                return Ok(Outcome::Left);
            };
            let previous = previous(&self.catalogue.retained_of(segment)?, &code);
            let of_previous = previous.as_ref().map(|previous| &previous.record);
            let recoded = match self.transfer.recode(segment, &record, &code, of_previous).await {
                Ok(recoded) => recoded,
                Err(error) => return Ok(Outcome::Failed(error.to_string())),
            };
            let retained = RetainedRecord::of(&record, &recoded.record, clock.now_ms(), self.keep_ms);
            let restored = previous.filter(|previous| is_named_again(&previous.record, &recoded.record));
            let is_restored = restored.is_some();
            let succession = Succession { retained, restored };
            let replaced = self.catalogue.replace_segment(segment, &record, &recoded.record, &succession);
            if replaced.is_err() {
                withdraw_late_if_planted(&self.transfer, segment, &record, &recoded.record).await;
            }
            match replaced {
                Ok(()) => {
                    let data_bytes = record.geometry.data_bytes;
                    return Ok(Outcome::Converted(Converted { segment_count: 1, data_bytes, recoded, is_restored }));
                }
                // A repair was quicker, or the previous shards are being removed: the shards stored here are orphans.
                Err(CatalogueError::Changed(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Outcome::Failed(format!("segment {segment} changes faster than it can be converted; it is retried later")))
    }

    /// May it be merged with others? Whose previous shards are still there goes back to these.
    pub fn may_merge(&self, segment: SegmentId, code: &str) -> Result<bool, CatalogueError> {
        Ok(self.catalogue.may_merge(segment)? && previous(&self.catalogue.retained_of(segment)?, code).is_none())
    }

    /// Makes one segment of several, under the code that they all want.
    ///
    /// # Errors
    /// As [`Self::convert`].
    pub async fn merge(&self, segments: Vec<SegmentId>, clock: &JobClock) -> Result<Outcome, CatalogueError> {
        if !self.is_owner(clock)? {
            return Ok(Outcome::Alone(segments));
        }
        let Some((sources, code)) = self.sources(&segments, clock)? else { return Ok(Outcome::Alone(segments)) };
        // As old as the youngest, so that no rule takes it for new.
        let created_ms = segments.iter().map(|segment| segment.created_ms()).max().unwrap_or_default();
        let merged = self.catalogue.new_segment(created_ms);
        let recoded = match self.transfer.merge(merged, &sources, &code).await {
            Ok(recoded) => recoded,
            Err(error) => {
                tracing::info!(%error, "segments cannot be merged: converting each by itself");
                return Ok(Outcome::Alone(segments));
            }
        };
        let merged = (merged, recoded.record.clone());
        match self.as_owner(clock, |catalogue| catalogue.merge(&sources, &merged)) {
            Ok(()) => {
                let (segment_count, data_bytes) = (segments.len() as u64, recoded.record.geometry.data_bytes);
                Ok(Outcome::Converted(Converted { segment_count, data_bytes, recoded, is_restored: false }))
            }
            // A writer, a repair or another owner was quicker: the shards stored here are orphans.
            Err(CatalogueError::Changed(_) | CatalogueError::NotOwner) => Ok(Outcome::Alone(segments)),
            Err(error) => Err(error),
        }
    }

    /// May this process change now where files refer to? To be asked before anything is stored for such a change.
    fn is_owner(&self, clock: &JobClock) -> Result<bool, CatalogueError> {
        if !is_to_be_asked(*self.refused_ms.lock(), clock.now_ms()) {
            return Ok(false);
        }
        match self.as_owner(clock, |catalogue| catalogue.check_owner()) {
            Err(CatalogueError::NotOwner) => Ok(false),
            other => other.map(|()| true),
        }
    }

    /// Does something that only the owner may do. It may wait for files, and for other short-lived owners.
    fn as_owner(
        &self,
        clock: &JobClock,
        task: impl FnOnce(&dyn Catalogue) -> Result<(), CatalogueError>,
    ) -> Result<(), CatalogueError> {
        let done = task(&*self.catalogue);
        if done == Err(CatalogueError::NotOwner) {
            *self.refused_ms.lock() = Some(clock.now_ms());
        }
        done
    }

    /// The records of segments, if all want one code still.
    fn sources(&self, segments: &[SegmentId], clock: &JobClock) -> Result<Option<(Sources, String)>, CatalogueError> {
        let (mut sources, mut codes) = (Vec::new(), Vec::new());
        for segment in segments {
            let wanted = self.catalogue.wanted_code(*segment, clock.now_ms())?;
            let (Some(record), Wanted::Code(code)) = (self.catalogue.segment(*segment)?, wanted) else {
                return Ok(None);
            };
            sources.push((*segment, record));
            codes.push(code);
        }
        codes.dedup();
        Ok(codes.pop().filter(|_| codes.is_empty()).map(|code| (sources, code)))
    }
}

/// Is it time to try again to become the owner, after a refusal at `refused_ms`?
fn is_to_be_asked(refused_ms: Option<u64>, now_ms: u64) -> bool {
    refused_ms.is_none_or(|refused_ms| now_ms.saturating_sub(refused_ms) >= ASK_AGAIN_MS)
}

/// The latest generation with this code that is kept and may be named again.
fn previous(retained: &[RetainedRecord], code: &str) -> Option<RetainedRecord> {
    retained.iter().rev().find(|retained| retained.record.code == code && !retained.is_going).cloned()
}

/// Does the new record name a shard that was retained?
fn is_named_again(retained: &SegmentRecord, new: &SegmentRecord) -> bool {
    retained.shards.iter().enumerate().any(|(index, shard)| shard.as_ref().is_some_and(|place| new.names(index, place)))
}

#[cfg(test)]
#[path = "converter_tests.rs"]
mod tests;
