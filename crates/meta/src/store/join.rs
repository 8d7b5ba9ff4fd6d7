//! Several segments become one, and one of these several again: from one moment on files refer to the others, and what they
//! referred to is dead.
//!
//! The whole names shards of its parts under their names, and what the parts were is retired: kept for a while, for whoever
//! thinks better of it. Whoever is about to remove a shard of a dead part asks [`Store::borrowers`] who may still need it. A dead
//! segment never lives again: what becomes of a whole are new ones, with the shards of its parts.

use weft_format::SegmentId;
use weft_format::records::{Borrowers, RetiredRecord, SegmentRecord, Timestamp, Unjoined};

use super::commit::{Cursor, NewSegments, check_moves, move_step};
use super::leases::Fence;
use super::txn::Txn;
use super::values::{self, Joined};
use super::{Store, milliseconds};
use crate::MetaError;
use crate::keys::{Key, parts_of, users_of};
use crate::kv::Pair;
use crate::types::ExtentMove;

/// Extents that one joining, or its undoing, moves, in one transaction: three keys for each leave room for the parts' own.
pub const JOIN_MOVES_MAX: usize = 100;

/// Notes of parts that are read of one whole: more than one ever gets.
const PARTS_MAX: usize = 512;

/// Notes of parts that a joining writes at most, three keys each. So many extents as it moves lie in fewer parts, which were made of
/// fewer again; but what was taken apart and joined again keeps the notes of before, each time.
const NOTES_MAX: usize = 2 * JOIN_MOVES_MAX;

impl Store {
    /// Lets all files that refer to `parts` refer to the new segment `whole` instead, in one transaction, after which the parts are
    /// dead, and kept as given. `moves` are those of every extent in them, at most [`JOIN_MOVES_MAX`].
    ///
    /// # Errors
    /// `SegmentChanged` (a part has another record than here, is dead, has extents that do not move, or was joined and taken apart too
    /// often), `Invalid`, `TooLarge`, `Fenced`. Nothing is applied then.
    pub fn join_segments(
        &self,
        parts: &[(SegmentId, RetiredRecord)],
        whole: &(SegmentId, SegmentRecord),
        moves: &[ExtentMove],
        fence: Option<&Fence>,
        now: Timestamp,
    ) -> Result<(), MetaError> {
        let segments = NewSegments::new(std::slice::from_ref(whole));
        check_all(moves, &segments)?;
        let whole = whole.0;
        self.transact(|txn| {
            txn.check(fence)?;
            for (part, kept) in parts {
                // A dead one may be losing its shards at this moment.
                if txn.segment(*part)?.as_ref() != Some(&kept.record) || txn.live(*part)?.is_none() {
                    return Err(MetaError::SegmentChanged(*part));
                }
            }
            txn.move_all(&segments, moves, whole, now)?;
            let (mut offset, mut note_count) = (0, 0);
            for (part, kept) in parts {
                if txn.live(*part)?.is_some() {
                    return Err(MetaError::SegmentChanged(*part));
                }
                note_count += txn.note_joined(*part, whole, offset)?;
                if note_count > NOTES_MAX {
                    return Err(MetaError::SegmentChanged(*part));
                }
                txn.put(Key::Retired(*part, kept.record.generation), kept.encode());
                offset += kept.record.geometry.data_bytes;
            }
            Ok(())
        })
    }

    /// Lets all files that refer to `whole` refer to the new segments of `parts` instead, in one transaction, after which the whole is
    /// dead, and the former segments are kept no longer. `moves` are those of every extent in it, at most [`JOIN_MOVES_MAX`]; parts
    /// that none leads to are to be left out.
    ///
    /// # Errors
    /// `SegmentChanged` (the whole has another record than here, is dead, has extents that do not move, or is of a program that did not
    /// note where its parts lie; a former segment is not kept any more), and those of [`Self::join_segments`]. Nothing is applied then.
    pub fn unjoin_segment(
        &self,
        whole: &(SegmentId, SegmentRecord),
        parts: &[Unjoined],
        moves: &[ExtentMove],
        fence: Option<&Fence>,
        now: Timestamp,
    ) -> Result<(), MetaError> {
        let new: Vec<_> = parts.iter().map(|part| part.segment.clone()).collect();
        let segments = NewSegments::new(&new);
        check_all(moves, &segments)?;
        let (whole, expected) = whole;
        let changed = || Err(MetaError::SegmentChanged(*whole));
        self.transact(|txn| {
            txn.check(fence)?;
            if txn.segment(*whole)?.as_ref() != Some(expected) || txn.live(*whole)?.is_none() {
                return changed();
            }
            txn.move_all(&segments, moves, *whole, now)?;
            if txn.live(*whole)?.is_some() {
                return changed();
            }
            for Unjoined { former: (former, kept), .. } in parts {
                if kept.is_going {
                    return Err(MetaError::SegmentChanged(*former));
                }
                txn.replace_retired(*former, kept, None)?;
            }
            txn.note_unjoined(*whole, parts)
        })
    }

    /// Have at most so many files, or few that had, bytes in the segment?
    ///
    /// # Errors
    /// Those of the engine.
    pub fn has_few_users(&self, segment: SegmentId, most: usize) -> Result<bool, MetaError> {
        self.view(|txn| Ok(txn.scan(&users_of(segment), most + 1)?.len() <= most))
    }

    /// Who may name shards of this segment, a dead one that was joined into another, as of one moment; `None`: it was not, or what it
    /// was joined into is gone.
    ///
    /// # Errors
    /// Those of the engine, and damage.
    pub fn borrowers(&self, part: SegmentId) -> Result<Option<Borrowers>, MetaError> {
        self.view(|txn| {
            let Some(Joined { whole, .. }) = txn.joined(part)? else { return Ok(None) };
            let mut of_whole = txn.former_records(whole)?;
            of_whole.extend(txn.segment(whole)?);
            let parts = txn.part_ids(whole)?.into_iter();
            let parts = parts.map(|part| Ok((part, txn.former_records(part)?))).collect::<Result<_, MetaError>>()?;
            Ok(Some(Borrowers { whole: (whole, of_whole), parts }))
        })
    }

    /// The dead segments that were joined into `whole`, those of its parts among them, and from which byte of it on the data of each
    /// lie there, where that was noted.
    ///
    /// # Errors
    /// Those of the engine, and damage.
    pub fn parts_of(&self, whole: SegmentId) -> Result<Vec<(SegmentId, Option<u64>)>, MetaError> {
        self.view(|txn| txn.parts_of(whole))
    }
}

fn check_all(moves: &[ExtentMove], segments: &NewSegments<'_>) -> Result<(), MetaError> {
    if moves.len() > JOIN_MOVES_MAX {
        return Err(MetaError::Invalid { what: "a joining, or its undoing, moves at most 100 extents" });
    }
    check_moves(moves, segments)
}

impl Txn<'_> {
    /// All of them, and at least one; `whole` is what to name where that cannot be.
    fn move_all(
        &mut self,
        segments: &NewSegments<'_>,
        moves: &[ExtentMove],
        whole: SegmentId,
        now: Timestamp,
    ) -> Result<(), MetaError> {
        let (mut cursor, mut moved_bytes) = (Cursor::default(), 0);
        let is_done = move_step(self, segments, moves, &mut cursor, &mut moved_bytes, milliseconds(now))?;
        if is_done && moved_bytes > 0 { Ok(()) } else { Err(MetaError::SegmentChanged(whole)) }
    }

    fn joined(&mut self, segment: SegmentId) -> Result<Option<Joined>, MetaError> {
        let key = Key::Joined(segment);
        self.get(key)?.map(|bytes| Joined::decode(&key, &bytes)).transpose()
    }

    /// What was joined into `part` before is from now on in `whole`, too; how many notes that are.
    fn note_joined(&mut self, part: SegmentId, whole: SegmentId, offset: u64) -> Result<usize, MetaError> {
        let inner = self.parts_of(part)?;
        let note_count = inner.len() + 1;
        for (segment, before) in inner {
            let joined = Joined { whole, offset: before.map(|before| offset + before) };
            self.note(segment, joined);
            self.remove(Key::Parts(part, segment));
        }
        self.note(part, Joined { whole, offset: Some(offset) });
        Ok(note_count)
    }

    /// What was joined into `whole` is from now on in that of `parts` which has its data; the others stay with what is dead.
    fn note_unjoined(&mut self, whole: SegmentId, parts: &[Unjoined]) -> Result<(), MetaError> {
        for (segment, offset) in self.parts_of(whole)? {
            // Who needs its shards then could not be told.
            let offset = offset.ok_or(MetaError::SegmentChanged(whole))?;
            let Some(part) = parts.iter().find(|part| part.range().contains(&offset)) else { continue };
            self.note(segment, Joined { whole: part.segment.0, offset: Some(offset - part.offset) });
            self.remove(Key::Parts(whole, segment));
        }
        Ok(())
    }

    fn note(&mut self, segment: SegmentId, joined: Joined) {
        self.put(Key::Joined(segment), joined.encode());
        self.put(Key::Parts(joined.whole, segment), values::mark());
    }

    /// What was joined into `whole`, and where in it.
    pub(super) fn parts_of(&mut self, whole: SegmentId) -> Result<Vec<(SegmentId, Option<u64>)>, MetaError> {
        let parts = self.part_ids(whole)?.into_iter();
        parts.map(|part| Ok((part, self.joined(part)?.and_then(|joined| joined.offset)))).collect()
    }

    fn part_ids(&mut self, whole: SegmentId) -> Result<Vec<SegmentId>, MetaError> {
        let id = |(key, _): &Pair| match Key::parse(key) {
            Some(Key::Parts(_, part)) => Some(part),
            _ => None,
        };
        Ok(self.scan(&parts_of(whole), PARTS_MAX)?.iter().filter_map(id).collect())
    }

    fn former_records(&mut self, segment: SegmentId) -> Result<Vec<SegmentRecord>, MetaError> {
        Ok(self.retired_of(segment)?.into_iter().map(|retired| retired.record).collect())
    }
}

#[cfg(test)]
#[path = "join_tests.rs"]
mod tests;
