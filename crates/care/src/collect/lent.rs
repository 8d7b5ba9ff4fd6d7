//! Shards that others need than the segment in their name: data shards stay under their names when segments are joined, and what the
//! parts were is kept for a while beside the whole.

use crate::catalogue::{Catalogue, CatalogueError};
use weft_format::records::SegmentRecord;
use weft_format::{NodeId, SegmentId, ShardIndex, ShardKey};

/// A segment whose record names this shard, or that keeps it for a while, among what its own was joined into or together with;
/// `except`: one that counts for nothing.
pub(super) fn borrower(
    catalogue: &dyn Catalogue,
    node: NodeId,
    key: ShardKey,
    except: Option<SegmentId>,
) -> Result<Option<SegmentId>, CatalogueError> {
    let counts = |segment: &SegmentId| Some(*segment) != except;
    let names = |segment: SegmentId, record: &SegmentRecord| record.has_at(segment, node, key);
    let mut seen = catalogue.joined_into(key.segment)?;
    while let Some(whole) = seen {
        if counts(&whole) && catalogue.segment(whole)?.is_some_and(|record| names(whole, &record)) {
            return Ok(Some(whole));
        }
        let parts = catalogue.parts_of(whole)?.into_iter().map(|(part, _)| part);
        for segment in std::iter::once(whole).chain(parts).filter(counts) {
            if catalogue.retired_of(segment)?.iter().any(|retired| names(segment, &retired.record)) {
                return Ok(Some(segment));
            }
        }
        // Whoever joined that one, or took it apart, between two of these looks has made others borrowers.
        seen = catalogue.joined_into(key.segment)?.filter(|now| *now != whole);
    }
    Ok(None)
}

/// A record of `segment` that is about to go, without the shards that others need.
pub(super) fn without_lent(
    catalogue: &dyn Catalogue,
    segment: SegmentId,
    mut record: SegmentRecord,
) -> Result<SegmentRecord, CatalogueError> {
    for (index, shard) in (0u16..).zip(&mut record.shards) {
        if let Some(location) = shard
            && borrower(catalogue, location.node, location.key(segment, ShardIndex(index)), Some(segment))?.is_some()
        {
            *shard = None;
        }
    }
    Ok(record)
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
