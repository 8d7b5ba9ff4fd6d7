//! Several segments become one: from one moment on files refer to the merged segment, and its sources are dead.
//!
//! The merged segment keeps shards of its sources under their names. A shard belongs to one segment: the one in its name, or, where
//! an alias says so, the merged one. The alias is made in the transaction that kills the source, and goes with the last record of its
//! owner that names the shard. Whoever removes shards asks [`Store::aliases`] first.

use weft_format::records::{SegmentRecord, Timestamp};
use weft_format::{SegmentId, ShardKey};

use super::commit::{Cursor, NewSegments, check_moves, move_step};
use super::leases::Fence;
use super::txn::Txn;
use super::values;
use super::{Store, milliseconds};
use crate::MetaError;
use crate::keys::{Key, aliases_of, users_of};
use crate::types::ExtentMove;

/// Extents that one merge moves, in one transaction: three keys for each leave room for the sources' own and the aliases.
pub const MERGE_MOVES_MAX: usize = 100;

/// Shards of one name's segment that may be another's: every shard of the widest code, once.
const ALIASES_MAX: usize = 1 << 16;

impl Store {
    /// Lets all files that refer to `sources` refer to the new segment `merged` instead, in one transaction, after which the sources
    /// are dead and `merged` owns the shards of theirs that it names. `moves` are those of every extent in them, at most
    /// [`MERGE_MOVES_MAX`].
    ///
    /// # Errors
    /// `SegmentChanged` (a source has another record than here, is dead, or has extents that do not move), `Invalid`, `TooLarge`,
    /// `Fenced`. Nothing is applied then.
    pub fn merge_segments(
        &self,
        sources: &[(SegmentId, SegmentRecord)],
        merged: &(SegmentId, SegmentRecord),
        moves: &[ExtentMove],
        fence: Option<&Fence>,
        now: Timestamp,
    ) -> Result<(), MetaError> {
        let segments = NewSegments::new(std::slice::from_ref(merged));
        if moves.len() > MERGE_MOVES_MAX {
            return Err(MetaError::Invalid { what: "a merge moves at most 100 extents" });
        }
        check_moves(moves, &segments)?;
        let (merged, record) = merged;
        self.transact(|txn| {
            txn.check(fence)?;
            for (source, expected) in sources {
                // A dead one may be losing its shards at this moment.
                if txn.segment(*source)?.as_ref() != Some(expected) || txn.live(*source)?.is_none() {
                    return Err(MetaError::SegmentChanged(*source));
                }
            }
            let before: Vec<&SegmentRecord> = sources.iter().map(|(_, source)| source).collect();
            if txn.comes_to_leaving(record, &before)? {
                return Err(MetaError::SegmentChanged(*merged));
            }
            let (mut cursor, mut moved_bytes) = (Cursor::default(), 0);
            let is_done = move_step(txn, &segments, moves, &mut cursor, &mut moved_bytes, milliseconds(now))?;
            if !is_done || moved_bytes == 0 {
                return Err(MetaError::SegmentChanged(*merged));
            }
            for (source, _) in sources {
                if txn.live(*source)?.is_some() {
                    return Err(MetaError::SegmentChanged(*source));
                }
            }
            for key in aliased(*merged, record) {
                txn.put(Key::Alias(key), values::segment(*merged));
            }
            Ok(())
        })
    }

    /// Have at most so many files, or few that had, bytes in the segment?
    ///
    /// # Errors
    /// Those of the engine.
    pub fn has_few_users(&self, segment: SegmentId, most: usize) -> Result<bool, MetaError> {
        self.view(|txn| Ok(txn.scan(&users_of(segment), most + 1)?.len() <= most))
    }

    /// The shards that bear this segment's name and are another's, each with whose.
    ///
    /// # Errors
    /// Those of the engine, and damage.
    pub fn aliases(&self, segment: SegmentId) -> Result<Vec<(ShardKey, SegmentId)>, MetaError> {
        self.list(aliases_of(segment), ALIASES_MAX, |key, value| match key {
            Key::Alias(shard) => Some(values::decode_segment(&key, value).map(|owner| (shard, owner))),
            _ => None,
        })
    }
}

/// The shards of a segment's record that bear another segment's name.
pub(crate) fn aliased(segment: SegmentId, record: &SegmentRecord) -> impl Iterator<Item = ShardKey> {
    record.located(segment).map(|(_, key, _)| key).filter(move |key| key.segment != segment)
}

impl Txn<'_> {
    /// A record of `segment` is gone: so are the aliases of its shards, unless another record of the segment names them.
    pub(super) fn forget_aliases(&mut self, segment: SegmentId, gone: &SegmentRecord) -> Result<(), MetaError> {
        let aliases: Vec<ShardKey> = aliased(segment, gone).collect();
        if aliases.is_empty() {
            return Ok(());
        }
        let mut left: Vec<SegmentRecord> = self.segment(segment)?.into_iter().collect();
        left.extend(self.retained_of(segment)?.into_iter().map(|retained| retained.record));
        let named: Vec<ShardKey> = left.iter().flat_map(|record| aliased(segment, record)).collect();
        for shard in aliases.into_iter().filter(|shard| !named.contains(shard)) {
            let key = Key::Alias(shard);
            let owner = self.get(key)?.map(|bytes| values::decode_segment(&key, &bytes)).transpose()?;
            if owner == Some(segment) {
                self.remove(key);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "merge_tests.rs"]
mod tests;
