//! Shards of dead segments that others need: data shards stay under their names when segments are joined.

use crate::catalogue::{Catalogue, CatalogueError};
use weft_format::records::SegmentRecord;
use weft_format::{NodeId, SegmentId, ShardIndex, ShardKey};

/// The segment that this shard's was joined into, if it names it, or keeps it for a while.
pub(super) fn borrower(
    catalogue: &dyn Catalogue,
    node: NodeId,
    key: ShardKey,
) -> Result<Option<SegmentId>, CatalogueError> {
    let Some(whole) = catalogue.joined_into(key.segment)? else { return Ok(None) };
    let has = |record: &SegmentRecord| record.has_at(whole, node, key);
    let needs = catalogue.segment(whole)?.as_ref().is_some_and(has)
        || catalogue.retired_of(whole)?.iter().any(|retired| has(&retired.record));
    Ok(needs.then_some(whole))
}

/// A record of `segment` that is about to go, without the shards that others need.
pub(super) fn without_lent(
    catalogue: &dyn Catalogue,
    segment: SegmentId,
    mut record: SegmentRecord,
) -> Result<SegmentRecord, CatalogueError> {
    for (index, shard) in (0u16..).zip(&mut record.shards) {
        if let Some(location) = shard
            && let key = location.key(segment, ShardIndex(index))
            && borrower(catalogue, location.node, key)?.is_some_and(|borrower| borrower != segment)
        {
            *shard = None;
        }
    }
    Ok(record)
}
