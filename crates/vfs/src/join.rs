//! Joining: files that refer to several segments refer to the one that was made of them, or the other way. Which segments, and
//! what is stored for it, is care's affair; the owner changes where files look, and only it may. Where nobody has the volume that is
//! whoever owns it in passing (`weft_meta::Access::Passing`).

use crate::error::VfsError;
use crate::extents::each_extent;
use crate::request::now;
use crate::volume::Volume;
use std::collections::BTreeSet;
use std::ops::Range;
use weft_format::records::{RetiredRecord, SegmentRecord, Unjoined};
use weft_format::{Ino, SegmentId};
use weft_meta::{Extent, ExtentMove, Fence, JOIN_MOVES_MAX, MetaError, Store};

/// Files in a segment that is joined: of eight parts, with a piece of each file, two thirds of what one transaction moves.
const FILES_MAX: usize = 8;

impl Volume {
    /// As [`join`], while files are in use: they wait meanwhile.
    ///
    /// # Errors
    /// As there.
    pub fn join(
        &self,
        parts: &[(SegmentId, RetiredRecord)],
        whole: &(SegmentId, SegmentRecord),
        fence: Option<&Fence>,
    ) -> Result<(), VfsError> {
        let inos = files_of(&self.store, parts.iter().map(|(part, _)| *part))?;
        Ok(self.with_files_locked(&inos, || join_files(&self.store, &inos, parts, whole, fence))?)
    }

    /// As [`unjoin`], while files are in use: they wait meanwhile.
    ///
    /// # Errors
    /// As there.
    pub fn unjoin(
        &self,
        whole: &(SegmentId, SegmentRecord),
        parts: &[Unjoined],
        fence: Option<&Fence>,
    ) -> Result<(), VfsError> {
        let inos = files_of(&self.store, [whole.0])?;
        Ok(self.with_files_locked(&inos, || unjoin_files(&self.store, &inos, whole, parts, fence))?)
    }
}

/// Do so few files lie in the segment that it may be joined with others in one step?
///
/// # Errors
/// Metadata cannot be read.
pub fn may_join(store: &Store, segment: SegmentId) -> Result<bool, MetaError> {
    store.has_few_users(segment, FILES_MAX)
}

/// Lets files refer to the new segment `whole` instead of `parts`, which are its data in this order, and kept as given. The owner's,
/// while nobody uses the files.
///
/// # Errors
/// `SegmentChanged`: a part has another record than here, or files changed meanwhile, or there are too many pieces for one step;
/// nothing was done. Others of metadata.
pub fn join(
    store: &Store,
    parts: &[(SegmentId, RetiredRecord)],
    whole: &(SegmentId, SegmentRecord),
    fence: Option<&Fence>,
) -> Result<(), MetaError> {
    let inos = files_of(store, parts.iter().map(|(part, _)| *part))?;
    join_files(store, &inos, parts, whole, fence)
}

fn join_files(
    store: &Store,
    inos: &BTreeSet<Ino>,
    parts: &[(SegmentId, RetiredRecord)],
    whole: &(SegmentId, SegmentRecord),
    fence: Option<&Fence>,
) -> Result<(), MetaError> {
    let mut steps = Vec::new();
    let mut end = 0;
    for (part, kept) in parts {
        let data_bytes = kept.record.geometry.data_bytes;
        steps.push(Step { from: *part, range: 0..data_bytes, to: whole.0, at: end });
        end += data_bytes;
    }
    let moves = moves(store, &steps, inos, whole.0)?;
    store.join_segments(parts, whole, &moves, fence, now())
}

/// Lets files refer to the new segments of `parts` instead of the whole that these were joined into. What no file refers to stays
/// retired. The owner's, while nobody uses the files.
///
/// # Errors
/// As [`join`]; a former segment is not kept any more.
pub fn unjoin(
    store: &Store,
    whole: &(SegmentId, SegmentRecord),
    parts: &[Unjoined],
    fence: Option<&Fence>,
) -> Result<(), MetaError> {
    unjoin_files(store, &files_of(store, [whole.0])?, whole, parts, fence)
}

fn unjoin_files(
    store: &Store,
    inos: &BTreeSet<Ino>,
    whole: &(SegmentId, SegmentRecord),
    parts: &[Unjoined],
    fence: Option<&Fence>,
) -> Result<(), MetaError> {
    let of = |part: &Unjoined| Step { from: whole.0, range: part.range(), to: part.segment.0, at: 0 };
    let steps: Vec<Step> = parts.iter().map(of).collect();
    let moves = moves(store, &steps, inos, whole.0)?;
    let is_used = |part: &&Unjoined| moves.iter().any(|step| step.to.segment == part.segment.0);
    let used: Vec<Unjoined> = parts.iter().filter(is_used).cloned().collect();
    store.unjoin_segment(whole, &used, &moves, fence, now())
}

fn files_of(store: &Store, segments: impl IntoIterator<Item = SegmentId>) -> Result<BTreeSet<Ino>, MetaError> {
    let mut inos = BTreeSet::new();
    for segment in segments {
        inos.extend(store.files_of_segment(segment)?);
    }
    Ok(inos)
}

/// Bytes of one segment that are to be another's.
struct Step {
    from: SegmentId,
    range: Range<u64>,
    to: SegmentId,
    /// Where the range begins there.
    at: u64,
}

impl Step {
    /// What of an extent it is about.
    fn of(&self, ino: Ino, extent: Extent) -> Option<ExtentMove> {
        let start = extent.segment_offset.max(self.range.start);
        let end = (extent.segment_offset + extent.length).min(self.range.end);
        if extent.segment != self.from || start >= end {
            return None;
        }
        let file_offset = extent.file_offset + (start - extent.segment_offset);
        let from = Extent { file_offset, length: end - start, segment: self.from, segment_offset: start };
        let to = Extent { segment: self.to, segment_offset: self.at + (start - self.range.start), ..from };
        Some(ExtentMove { ino, from, to })
    }
}

/// What of these files the steps are about; no more than one transaction moves, of `whole`.
fn moves(store: &Store, steps: &[Step], inos: &BTreeSet<Ino>, whole: SegmentId) -> Result<Vec<ExtentMove>, MetaError> {
    let mut moves = Vec::new();
    for ino in inos.iter().copied() {
        each_extent(store, ino, |extent| moves.extend(steps.iter().filter_map(|step| step.of(ino, extent))))?;
    }
    if moves.len() > JOIN_MOVES_MAX { Err(MetaError::SegmentChanged(whole)) } else { Ok(moves) }
}
