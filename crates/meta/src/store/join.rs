//! Several segments become one: from one moment on files refer to the whole, and its parts are dead.
//!
//! The whole names shards of its parts under their names. Whoever is about to remove a shard of a dead part asks
//! [`Store::joined_into`] which segment may still need it.

use weft_format::SegmentId;
use weft_format::records::{SegmentRecord, Timestamp};

use super::commit::{Cursor, NewSegments, check_moves, move_step};
use super::leases::Fence;
use super::txn::Txn;
use super::values;
use super::{Store, milliseconds};
use crate::MetaError;
use crate::keys::{Key, parts_of, users_of};
use crate::types::ExtentMove;

/// Extents that one joining moves, in one transaction: three keys for each leave room for the parts' own.
pub const JOIN_MOVES_MAX: usize = 100;

/// A code's data shards, each of which may have been a segment, and those of its parts before it.
const PARTS_MAX: usize = 512;

impl Store {
    /// Lets all files that refer to `parts` refer to the new segment `whole` instead, in one transaction, after which the parts are
    /// dead. `moves` are those of every extent in them, at most [`JOIN_MOVES_MAX`].
    ///
    /// # Errors
    /// `SegmentChanged` (a part has another record than here, is dead, or has extents that do not move), `Invalid`, `TooLarge`, `Fenced`.
    /// Nothing is applied then.
    pub fn join_segments(
        &self,
        parts: &[(SegmentId, SegmentRecord)],
        whole: &(SegmentId, SegmentRecord),
        moves: &[ExtentMove],
        fence: Option<&Fence>,
        now: Timestamp,
    ) -> Result<(), MetaError> {
        let segments = NewSegments::new(std::slice::from_ref(whole));
        check_moves(moves, &segments)?;
        if moves.len() > JOIN_MOVES_MAX {
            return Err(MetaError::Invalid { what: "a joining moves at most 100 extents" });
        }
        let whole = whole.0;
        self.transact(|txn| {
            txn.check(fence)?;
            for (part, expected) in parts {
                // A dead one may be losing its shards at this moment.
                if txn.segment(*part)?.as_ref() != Some(expected) || txn.live(*part)?.is_none() {
                    return Err(MetaError::SegmentChanged(*part));
                }
            }
            let (mut cursor, mut moved_bytes) = (Cursor::default(), 0);
            let is_done = move_step(txn, &segments, moves, &mut cursor, &mut moved_bytes, milliseconds(now))?;
            if !is_done || moved_bytes == 0 {
                return Err(MetaError::SegmentChanged(whole));
            }
            for (part, _) in parts {
                if txn.live(*part)?.is_some() {
                    return Err(MetaError::SegmentChanged(*part));
                }
                txn.note_joined(*part, whole)?;
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

    /// The segment that a dead one was joined into, which may name shards of it; `None`: none, or one that is gone.
    ///
    /// # Errors
    /// Those of the engine, and damage.
    pub fn joined_into(&self, segment: SegmentId) -> Result<Option<SegmentId>, MetaError> {
        let key = Key::Joined(segment);
        self.view(|txn| txn.get(key)?.map(|bytes| values::decode_segment_id(&key, &bytes)).transpose())
    }
}

impl Txn<'_> {
    /// What was joined into `part` before is from now on in `whole`, too.
    fn note_joined(&mut self, part: SegmentId, whole: SegmentId) -> Result<(), MetaError> {
        let before = self.parts_of(part)?;
        for segment in before.iter().copied().chain([part]) {
            self.put(Key::Joined(segment), values::segment_id(whole));
            self.put(Key::Parts(whole, segment), values::mark());
        }
        for segment in before {
            self.remove(Key::Parts(part, segment));
        }
        Ok(())
    }

    /// What was joined into `segment`.
    pub(super) fn parts_of(&mut self, segment: SegmentId) -> Result<Vec<SegmentId>, MetaError> {
        let part = |(key, _): (Vec<u8>, Vec<u8>)| match Key::parse(&key) {
            Some(Key::Parts(_, part)) => Some(part),
            _ => None,
        };
        Ok(self.scan(&parts_of(segment), PARTS_MAX)?.into_iter().filter_map(part).collect())
    }
}

#[cfg(test)]
#[path = "join_tests.rs"]
mod tests;
