//! Joining: files that refer to several segments refer to the one that was made of them. Which segments, and what is stored for
//! it, is care's affair; the owner changes where files look, and only it may.

use crate::error::VfsError;
use crate::extents::each_extent;
use crate::request::now;
use crate::volume::Volume;
use std::collections::{BTreeMap, BTreeSet};
use weft_format::records::SegmentRecord;
use weft_format::{Ino, SegmentId};
use weft_meta::{Extent, ExtentMove, Fence, JOIN_MOVES_MAX, MetaError};

/// Files in a segment that is joined: of eight parts, with a piece of each file, two thirds of what one transaction moves.
const FILES_MAX: usize = 8;

impl Volume {
    /// Do so few files lie in the segment that it may be joined with others in one step?
    ///
    /// # Errors
    /// Metadata cannot be read.
    pub fn may_join(&self, segment: SegmentId) -> Result<bool, VfsError> {
        Ok(self.store.has_few_users(segment, FILES_MAX)?)
    }

    /// Lets files refer to the new segment `whole` instead of `parts`, which are its data in this order. Their files wait meanwhile.
    ///
    /// # Errors
    /// `SegmentChanged`: a part has another record than here, or files changed meanwhile, or there are too many pieces for one step;
    /// nothing was done. Others of metadata.
    pub fn join(
        &self,
        parts: &[(SegmentId, SegmentRecord)],
        whole: &(SegmentId, SegmentRecord),
        fence: Option<&Fence>,
    ) -> Result<(), VfsError> {
        let mut inos = BTreeSet::new();
        for (part, _) in parts {
            inos.extend(self.store.files_of_segment(*part)?);
        }
        self.with_files_locked(&inos, || {
            let moves = self.moves(parts, whole.0, &inos)?;
            if moves.len() > JOIN_MOVES_MAX {
                return Err(MetaError::SegmentChanged(whole.0).into());
            }
            Ok(self.store.join_segments(parts, whole, &moves, fence, now())?)
        })
    }

    /// What of these files lies in the parts, and where in the whole that is.
    fn moves(
        &self,
        parts: &[(SegmentId, SegmentRecord)],
        whole: SegmentId,
        inos: &BTreeSet<Ino>,
    ) -> Result<Vec<ExtentMove>, VfsError> {
        let (mut before, mut end) = (BTreeMap::new(), 0);
        for (part, record) in parts {
            before.insert(*part, end);
            end += record.geometry.data_bytes;
        }
        let mut moves = Vec::new();
        for ino in inos.iter().copied() {
            each_extent(&self.store, ino, |from| {
                if let Some(before) = before.get(&from.segment) {
                    let segment_offset = before + from.segment_offset;
                    moves.push(ExtentMove { ino, from, to: Extent { segment: whole, segment_offset, ..from } });
                }
            })?;
        }
        Ok(moves)
    }
}
