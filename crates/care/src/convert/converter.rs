//! What is done for one segment, or for those that become one: recode or join, commit, and what came of it.

use crate::catalogue::{Catalogue, CatalogueError};
use crate::clock::Clock;
use parking_lot::Mutex;
use std::sync::Arc;
use weft_format::SegmentId;
use weft_format::records::{RetiredRecord, SegmentRecord, Succession, Unjoined, Wanted};
use weft_transfer::{Recoded, Transfer};

/// A segment whose record changes under its conversion is tried so often: repairs change one once or twice.
const ATTEMPTS: usize = 4;

/// Whoever owns the volume and does not end soon has it for a while; until then each segment is converted by itself.
const ASK_AGAIN_MS: u64 = 60_000;

/// What became of one segment.
pub(super) enum Outcome {
    Converted(Converted),
    /// It is gone, or has the code that is wanted.
    Left,
    Failed(String),
    /// These cannot be joined after all: each is to be converted by itself.
    Alone(Vec<SegmentId>),
}

pub(super) struct Converted {
    /// More than one: they were joined.
    pub segment_count: u64,
    pub data_bytes: u64,
    /// Several: it was taken apart again.
    pub recoded: Vec<Recoded>,
    /// Its former shards were still there.
    pub is_revived: bool,
}

/// Segments that may be joined.
type Parts = Vec<(SegmentId, SegmentRecord)>;

/// What converting needs, shared by all segments of a run.
#[derive(Clone)]
pub(super) struct Converter {
    pub catalogue: Arc<dyn Catalogue>,
    pub transfer: Transfer,
    keep_ms: u64,
    /// When this process was refused what only the owner may do.
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
    pub async fn convert(&self, segment: SegmentId, clock: Clock) -> Result<Outcome, CatalogueError> {
        for _ in 0..ATTEMPTS {
            let Some(record) = self.catalogue.segment(segment)? else { return Ok(Outcome::Left) };
            let Wanted::Code(code) = self.catalogue.wanted_code(segment, clock.now_ms())? else {
                return Ok(Outcome::Left);
            };
            let former = former(&self.catalogue.retired_of(segment)?, &code);
            if former.is_none()
                && let Some(converted) = self.unjoin(segment, &record, &code, clock).await?
            {
                return Ok(Outcome::Converted(converted));
            }
            let of_former = former.as_ref().map(|former| &former.record);
            let recoded = match self.transfer.recode(segment, &record, &code, of_former).await {
                Ok(recoded) => recoded,
                Err(error) => return Ok(Outcome::Failed(error.to_string())),
            };
            let retired = RetiredRecord::of(&record, &recoded.record, clock.now_ms(), self.keep_ms);
            let revived = former.filter(|former| is_named_again(&former.record, &recoded.record));
            let is_revived = revived.is_some();
            let succession = Succession { retired, revived };
            match self.catalogue.replace_segment(segment, &record, &recoded.record, &succession) {
                Ok(()) => {
                    let data_bytes = record.geometry.data_bytes;
                    return Ok(Outcome::Converted(Converted {
                        segment_count: 1,
                        data_bytes,
                        recoded: vec![recoded],
                        is_revived,
                    }));
                }
                // A repair was quicker, or the former shards are being removed: what was stored here is an orphan.
                Err(CatalogueError::Changed(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Outcome::Failed(format!("segment {segment} changes faster than it can be converted; it is tried again")))
    }

    /// May it be joined with others? Whose former shards are still there goes back to these.
    pub fn may_join(&self, segment: SegmentId, record: &SegmentRecord, code: &str) -> Result<bool, CatalogueError> {
        Ok(self.catalogue.may_join(segment)?
            && former(&self.catalogue.retired_of(segment)?, code).is_none()
            && self.former_parts(segment, record, code)?.is_none())
    }

    /// Makes one segment of several, under the code that they all want.
    ///
    /// # Errors
    /// As [`Self::convert`].
    pub async fn join(&self, segments: Vec<SegmentId>, clock: Clock) -> Result<Outcome, CatalogueError> {
        if !self.is_owner(clock).await? {
            return Ok(Outcome::Alone(segments));
        }
        let Some((parts, code)) = self.parts(&segments, clock)? else { return Ok(Outcome::Alone(segments)) };
        // As old as the youngest, so that no rule takes it for new.
        let created_ms = segments.iter().map(|segment| segment.created_ms()).max().unwrap_or_default();
        let whole = self.catalogue.new_segment(created_ms);
        let recoded = match self.transfer.join(whole, &parts, &code).await {
            Ok(recoded) => recoded,
            Err(error) => {
                tracing::info!(%error, "segments are converted by themselves that might have been joined");
                return Ok(Outcome::Alone(segments));
            }
        };
        let joined = (whole, recoded.record.clone());
        let kept = |(part, record)| (part, RetiredRecord::whole(record, clock.now_ms(), self.keep_ms));
        let parts: Vec<_> = parts.into_iter().map(kept).collect();
        match self.as_owner(clock, move |catalogue| catalogue.join(&parts, &joined)).await {
            Ok(()) => {
                let (segment_count, data_bytes) = (segments.len() as u64, recoded.record.geometry.data_bytes);
                let recoded = vec![recoded];
                Ok(Outcome::Converted(Converted { segment_count, data_bytes, recoded, is_revived: false }))
            }
            // A writer, a repair or another owner was quicker: what was stored here is an orphan.
            Err(CatalogueError::Changed(_) | CatalogueError::NotOwner) => Ok(Outcome::Alone(segments)),
            Err(error) => Err(error),
        }
    }

    /// Makes a joined segment again what it was joined of, if that is still there; `None`: it cannot be done.
    async fn unjoin(
        &self,
        segment: SegmentId,
        record: &SegmentRecord,
        code: &str,
        clock: Clock,
    ) -> Result<Option<Converted>, CatalogueError> {
        let Some(formers) = self.former_parts(segment, record, code)? else { return Ok(None) };
        if !self.is_owner(clock).await? {
            return Ok(None);
        }
        let (mut parts, mut all) = (Vec::new(), Vec::new());
        for FormerPart { offset, segment: former, retired } in formers {
            // As old as it was, so that no rule takes it for new.
            let new = self.catalogue.new_segment(former.created_ms());
            let recoded = match self.transfer.unjoin(new, former, &retired.record).await {
                Ok(recoded) => recoded,
                Err(error) => {
                    tracing::info!(%error, "a joined segment is not taken apart again");
                    return Ok(None);
                }
            };
            parts.push(Unjoined { offset, former: (former, retired), segment: (new, recoded.record.clone()) });
            all.push(recoded);
        }
        let whole = (segment, record.clone());
        match self.as_owner(clock, move |catalogue| catalogue.unjoin(&whole, &parts)).await {
            Ok(()) => {
                let data_bytes = record.geometry.data_bytes;
                Ok(Some(Converted { segment_count: 1, data_bytes, recoded: all, is_revived: true }))
            }
            // What was stored here is an orphan.
            Err(CatalogueError::Changed(_) | CatalogueError::NotOwner) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The segments of this code that a segment was joined of, if they are kept, in their order.
    fn former_parts(
        &self,
        whole: SegmentId,
        record: &SegmentRecord,
        code: &str,
    ) -> Result<Option<Vec<FormerPart>>, CatalogueError> {
        let mut kept = Vec::new();
        for (segment, offset) in self.catalogue.parts_of(whole)? {
            if let (Some(offset), Some(retired)) = (offset, former(&self.catalogue.retired_of(segment)?, code)) {
                kept.push(FormerPart { offset, segment, retired });
            }
        }
        Ok(side_by_side(kept, record.geometry.data_bytes))
    }

    /// May this process change now where files refer to? To be asked before anything is stored for such a change.
    async fn is_owner(&self, clock: Clock) -> Result<bool, CatalogueError> {
        if !is_to_be_asked(*self.refused_ms.lock(), clock.now_ms()) {
            return Ok(false);
        }
        match self.as_owner(clock, |catalogue| catalogue.check_owner()).await {
            Err(CatalogueError::NotOwner) => Ok(false),
            other => other.map(|()| true),
        }
    }

    /// Does what only the owner may do, which may wait for files, and for others who own the volume for a moment.
    async fn as_owner(
        &self,
        clock: Clock,
        deed: impl FnOnce(&dyn Catalogue) -> Result<(), CatalogueError> + Send + 'static,
    ) -> Result<(), CatalogueError> {
        let catalogue = self.catalogue.clone();
        let done = tokio::task::spawn_blocking(move || deed(&*catalogue)).await;
        let done = done.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()));
        if done == Err(CatalogueError::NotOwner) {
            *self.refused_ms.lock() = Some(clock.now_ms());
        }
        done
    }

    /// The records of segments, if all want one code still.
    fn parts(&self, segments: &[SegmentId], clock: Clock) -> Result<Option<(Parts, String)>, CatalogueError> {
        let (mut parts, mut codes) = (Vec::new(), Vec::new());
        for segment in segments {
            let wanted = self.catalogue.wanted_code(*segment, clock.now_ms())?;
            let (Some(record), Wanted::Code(code)) = (self.catalogue.segment(*segment)?, wanted) else {
                return Ok(None);
            };
            parts.push((*segment, record));
            codes.push(code);
        }
        codes.dedup();
        Ok(codes.pop().filter(|_| codes.is_empty()).map(|code| (parts, code)))
    }
}

/// Is it worth asking whether this process may do now what only the owner may, after it was refused that at `refused_ms`?
fn is_to_be_asked(refused_ms: Option<u64>, now_ms: u64) -> bool {
    refused_ms.is_none_or(|refused_ms| now_ms.saturating_sub(refused_ms) >= ASK_AGAIN_MS)
}

/// What a joined segment was made of, or what that was made of.
#[derive(Clone, Debug, PartialEq, Eq)]
struct FormerPart {
    /// Where its data begins in the whole.
    offset: u64,
    segment: SegmentId,
    retired: RetiredRecord,
}

/// Those of the parts that lie side by side and have all data of a whole of so many bytes; `None`: there are no such.
fn side_by_side(mut parts: Vec<FormerPart>, whole_bytes: u64) -> Option<Vec<FormerPart>> {
    let bytes = |part: &FormerPart| part.retired.record.geometry.data_bytes;
    // Of those that begin at one place the widest first.
    parts.sort_by_key(|part| (part.offset, std::cmp::Reverse(bytes(part))));
    let mut end = 0;
    parts.retain(|part| {
        let is_next = part.offset == end;
        end += if is_next { bytes(part) } else { 0 };
        is_next
    });
    (end == whole_bytes).then_some(parts)
}

/// The latest generation with this code that is kept and may be named again.
fn former(retired: &[RetiredRecord], code: &str) -> Option<RetiredRecord> {
    retired.iter().rev().find(|retired| retired.record.code == code && !retired.is_going).cloned()
}

/// Does the new record name a shard that was retired?
fn is_named_again(retired: &SegmentRecord, new: &SegmentRecord) -> bool {
    retired.shards.iter().enumerate().any(|(index, shard)| shard.as_ref().is_some_and(|place| new.names(index, place)))
}

#[cfg(test)]
#[path = "converter_tests.rs"]
mod tests;
