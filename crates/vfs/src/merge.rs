//! Merging: files that refer to several segments refer to the one that was made of them. Which segments, and what is stored for it,
//! is care's affair; the owner changes where files look, and only it may. Where nobody has the volume that is a short-lived owner
//! (`weft_meta::Access::ShortLived`).

use crate::error::VfsError;
use crate::extents::each_extent;
use crate::request::now;
use crate::volume::Volume;
use std::collections::{BTreeMap, BTreeSet};
use weft_format::records::SegmentRecord;
use weft_format::{Ino, SegmentId};
use weft_meta::{Extent, ExtentMove, Fence, MERGE_MOVES_MAX, MetaError, Store};

/// Files in a segment that is merged: of eight sources, with a piece of each file, two thirds of what one transaction moves.
const FILES_MAX: usize = 8;

impl Volume {
    /// As [`merge`], while files are in use: they wait meanwhile.
    ///
    /// # Errors
    /// As there.
    pub fn merge(
        &self,
        sources: &[(SegmentId, SegmentRecord)],
        merged: &(SegmentId, SegmentRecord),
        fence: Option<&Fence>,
    ) -> Result<(), VfsError> {
        let inos = files_of(&self.store, sources)?;
        Ok(self.with_files_locked(&inos, || merge_files(&self.store, &inos, sources, merged, fence))?)
    }
}

/// Do so few files lie in the segment that it may be merged with others in one step?
///
/// # Errors
/// Metadata cannot be read.
pub fn may_merge(store: &Store, segment: SegmentId) -> Result<bool, MetaError> {
    store.has_few_users(segment, FILES_MAX)
}

/// Lets files refer to the new segment `merged` instead of `sources`, which are its data in this order. The owner's, while nobody uses
/// the files.
///
/// # Errors
/// `SegmentChanged`: a source has another record than here, or files changed meanwhile, or there are too many pieces for one step;
/// nothing was done. Others of metadata.
pub fn merge(
    store: &Store,
    sources: &[(SegmentId, SegmentRecord)],
    merged: &(SegmentId, SegmentRecord),
    fence: Option<&Fence>,
) -> Result<(), MetaError> {
    merge_files(store, &files_of(store, sources)?, sources, merged, fence)
}

fn merge_files(
    store: &Store,
    inos: &BTreeSet<Ino>,
    sources: &[(SegmentId, SegmentRecord)],
    merged: &(SegmentId, SegmentRecord),
    fence: Option<&Fence>,
) -> Result<(), MetaError> {
    let mut end = 0;
    let mut begin = |(source, record): &(SegmentId, SegmentRecord)| {
        let begin = end;
        end += record.geometry.data_bytes;
        (*source, begin)
    };
    let begins: BTreeMap<SegmentId, u64> = sources.iter().map(&mut begin).collect();
    let mut moves = Vec::new();
    for ino in inos.iter().copied() {
        each_extent(store, ino, |from| {
            if let Some(begin) = begins.get(&from.segment) {
                let to = Extent { segment: merged.0, segment_offset: begin + from.segment_offset, ..from };
                moves.push(ExtentMove { ino, from, to });
            }
        })?;
    }
    if moves.len() > MERGE_MOVES_MAX {
        return Err(MetaError::SegmentChanged(merged.0));
    }
    store.merge_segments(sources, merged, &moves, fence, now(store.env()))
}

fn files_of(store: &Store, sources: &[(SegmentId, SegmentRecord)]) -> Result<BTreeSet<Ino>, MetaError> {
    let mut inos = BTreeSet::new();
    for (source, _) in sources {
        inos.extend(store.files_of_segment(*source)?);
    }
    Ok(inos)
}
