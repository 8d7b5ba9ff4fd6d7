//! Shards that others need than the segment in their name: data shards stay under their names when segments are joined, and what the
//! parts were is kept for a while beside the whole.

use crate::catalogue::{Catalogue, CatalogueError};
use std::collections::HashMap;
use std::rc::Rc;
use weft_format::records::{Borrowers, SegmentRecord};
use weft_format::{NodeId, SegmentId, ShardIndex, ShardKey};

/// A segment whose record names this shard, or that keeps it for a while, among what its own was joined into or together with.
pub(super) fn borrower(
    catalogue: &dyn Catalogue,
    node: NodeId,
    key: ShardKey,
) -> Result<Option<SegmentId>, CatalogueError> {
    Ok(catalogue.borrowers(key.segment)?.and_then(|borrowers| borrowers.of(node, key, None)))
}

/// Who borrows shards, each asked for once for all parts of a whole. True of the moment at which it was asked: to be made anew for
/// whatever is about to be removed.
pub(super) struct Lending<'c> {
    catalogue: &'c dyn Catalogue,
    known: HashMap<SegmentId, Option<Rc<Borrowers>>>,
}

impl<'c> Lending<'c> {
    pub fn of(catalogue: &'c dyn Catalogue) -> Self {
        Self { catalogue, known: HashMap::new() }
    }

    /// A record of `segment` without the shards that others need.
    pub fn without_lent(
        &mut self,
        segment: SegmentId,
        mut record: SegmentRecord,
    ) -> Result<SegmentRecord, CatalogueError> {
        for (index, shard) in (0u16..).zip(&mut record.shards) {
            let Some(location) = shard else { continue };
            let key = location.key(segment, ShardIndex(index));
            let borrowers = self.borrowers(key.segment)?;
            if borrowers.is_some_and(|borrowers| borrowers.of(location.node, key, Some(segment)).is_some()) {
                *shard = None;
            }
        }
        Ok(record)
    }

    fn borrowers(&mut self, part: SegmentId) -> Result<Option<Rc<Borrowers>>, CatalogueError> {
        if let Some(known) = self.known.get(&part) {
            return Ok(known.clone());
        }
        let borrowers = self.catalogue.borrowers(part)?.map(Rc::new);
        for (part, _) in borrowers.iter().flat_map(|borrowers| &borrowers.parts) {
            self.known.insert(*part, borrowers.clone());
        }
        self.known.insert(part, borrowers.clone());
        Ok(borrowers)
    }
}

/// A record of `segment` that is about to go, without the shards that others need now.
pub(super) fn without_lent(
    catalogue: &dyn Catalogue,
    segment: SegmentId,
    record: SegmentRecord,
) -> Result<SegmentRecord, CatalogueError> {
    Lending::of(catalogue).without_lent(segment, record)
}

/// The record of a dead segment, without the shards that others need or that are kept for a while.
pub(super) fn without_kept(
    catalogue: &dyn Catalogue,
    segment: SegmentId,
    mut record: SegmentRecord,
) -> Result<SegmentRecord, CatalogueError> {
    // This first: who takes back what is kept here is a borrower from the same moment on.
    for retired in catalogue.retired_of(segment)? {
        for (index, shard) in record.shards.iter_mut().enumerate() {
            shard.take_if(|location| retired.record.names(index, location));
        }
    }
    without_lent(catalogue, segment, record)
}
