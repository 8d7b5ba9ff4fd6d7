//! Segments, for those who care for them: repair, collection, status. All of it may be called beside an owner, and
//! writes only tables that are shared.

use std::collections::BTreeMap;
use std::ops::{Range, RangeInclusive};

use weft_env::planted::{Planted, has_planted};
use weft_format::records::{DamageRecord, DamagedShard, RetainedRecord, SegmentRecord, Succession};
use weft_format::removal::{Expired, Item, Queued, Removable};
use weft_format::{Ino, NodeId, SegmentId};

use super::Store;
use super::leases::Fence;
use super::mapping::parse_extent;
use super::txn::Txn;
use super::values::{self, damaged};
use crate::MetaError;
use crate::keys::{Key, Table, after, generations_of, of_ino, on_node, printable, unreferenced_shards, users_of};
use crate::types::SurveyedSegment;

/// A job's state, as every value.
const MAX_JOB_BYTES: usize = 64 << 10;

/// Retained generations of one segment: each takes a change of the segment within the time that they are kept.
const MAX_RETAINED: usize = 10_000;

/// Whoever removes one thing by what was decided of another.
const OF_ANOTHER_KIND: MetaError = MetaError::Invalid { what: "the item to remove is of another kind" };

/// Pairs read at once where a whole table or file is read.
pub(super) const READ_PAIRS: usize = 1024;

impl Store {
    /// A segment's record; `None` if there is none (any more).
    ///
    /// # Errors
    /// Those of the engine, and damage.
    pub fn segment(&self, segment: SegmentId) -> Result<Option<SegmentRecord>, MetaError> {
        self.view(|txn| txn.segment(segment))
    }

    /// Up to `limit` segments after `after_segment`, dead ones included, by id.
    ///
    /// # Errors
    /// Those of the engine, and damage.
    pub fn segments(
        &self,
        after_segment: Option<SegmentId>,
        limit: usize,
    ) -> Result<Vec<(SegmentId, SegmentRecord)>, MetaError> {
        self.list(after(Table::Segment.range(), after_segment.map(Key::Segment)), limit, |key, value| match key {
            Key::Segment(segment) => Some(decode_segment(&key, value).map(|record| (segment, record))),
            _ => None,
        })
    }

    /// The same, each with its live bytes and what is noted of its shards, all as of one moment. It takes three scans, however many there
    /// are: to ask for each takes two questions, which go to a server one after the other.
    ///
    /// # Errors
    /// Those of the engine, and damage.
    pub fn survey_segments(
        &self,
        after_segment: Option<SegmentId>,
        limit: usize,
    ) -> Result<Vec<SurveyedSegment>, MetaError> {
        let range = after(Table::Segment.range(), after_segment.map(Key::Segment));
        self.view(|txn| {
            let found = txn.list(&range, limit, |key, value| match key {
                Key::Segment(segment) => Some(decode_segment(&key, value).map(|record| (segment, record))),
                _ => None,
            })?;
            let (Some((first, _)), Some((last, _))) = (found.first(), found.last()) else { return Ok(Vec::new()) };
            let live = txn.of_segments(*first..=*last, Key::Live, values::decode_number)?;
            let mut damage = txn.of_segments(*first..=*last, Key::Damaged, decode_damage)?;
            let surveyed = |(segment, record)| SurveyedSegment {
                segment,
                record,
                live_bytes: live.get(&segment).copied().unwrap_or(0),
                damage: damage.remove(&segment),
            };
            Ok(found.into_iter().map(surveyed).collect())
        })
    }

    /// Bytes of the segment that files refer to; 0 for one that is dead or unknown.
    ///
    /// # Errors
    /// Those of the engine, and damage.
    pub fn live_bytes(&self, segment: SegmentId) -> Result<u64, MetaError> {
        self.view(|txn| Ok(txn.live(segment)?.unwrap_or(0)))
    }

    /// Up to `limit` living segments after `after_segment` and their live bytes, by id: what a collector chooses from.
    ///
    /// # Errors
    /// Those of the engine, and damage.
    pub fn segments_by_live(
        &self,
        after_segment: Option<SegmentId>,
        limit: usize,
    ) -> Result<Vec<(SegmentId, u64)>, MetaError> {
        self.list(after(Table::Live.range(), after_segment.map(Key::Live)), limit, |key, value| match key {
            Key::Live(segment) => Some(values::decode_number(&key, value).map(|live| (segment, live))),
            _ => None,
        })
    }

    /// Up to `limit` segments after `after_segment` that have a shard on `node`, by id.
    ///
    /// # Errors
    /// Those of the engine, and damage.
    pub fn segments_on_node(
        &self,
        node: NodeId,
        after_segment: Option<SegmentId>,
        limit: usize,
    ) -> Result<Vec<SegmentId>, MetaError> {
        let range = after(on_node(node), after_segment.map(|segment| Key::OnNode(node, segment)));
        self.list(range, limit, |key, _| match key {
            Key::OnNode(_, segment) => Some(Ok(segment)),
            _ => None,
        })
    }

    /// Puts `new` in the place of `expected`, with what follows from it: the index of nodes, and a mark of damage if a
    /// shard is missing. A mark that is there stays; see [`Store::replace_damage`]. What is retained is kept from the same
    /// moment on, what is restored is no longer.
    ///
    /// # Errors
    /// `SegmentChanged` (the record is not `expected`, or what is to be restored is going, or not kept any more, or a node that gets a shard
    /// has left), `Fenced`.
    pub fn replace_segment(
        &self,
        segment: SegmentId,
        expected: &SegmentRecord,
        new: &SegmentRecord,
        succession: &Succession,
        fence: Option<&Fence>,
    ) -> Result<(), MetaError> {
        self.transact_shared(|txn| {
            let is_unchecked = has_planted(Planted::LateWriter);
            txn.check(fence.filter(|_| !is_unchecked))?;
            if txn.segment(segment)?.as_ref() != Some(expected) && !is_unchecked {
                return Err(MetaError::SegmentChanged(segment));
            }
            // What is restored lies where it was, and is migrated from there.
            if succession.restored.is_none() && txn.comes_to_leaving(new, &[expected])? {
                return Err(MetaError::SegmentChanged(segment));
            }
            if let Some(restored) = &succession.restored {
                // What is going may have lost shards, whoever knows it.
                if restored.is_going {
                    return Err(MetaError::SegmentChanged(segment));
                }
                let key = txn.find_retained(segment, restored)?;
                txn.remove(key);
            }
            if let Some(retained) = &succession.retained {
                txn.put(Key::UnreferencedGeneration(segment, retained.record.generation), retained.encode());
            }
            for location in expected.shards.iter().flatten() {
                txn.remove(Key::OnNode(location.node, segment));
            }
            txn.put_segment(segment, new)?;
            txn.note_replaced(expected, Some(new));
            txn.forget_aliases(segment, expected)?;
            succession.restored.iter().try_for_each(|restored| txn.forget_aliases(segment, &restored.record))
        })
    }

    /// Notes that something about a segment's shards is not as it should be, until a repair has looked at it. One that
    /// is gone needs no mark.
    ///
    /// # Errors
    /// Those of the engine, and damage.
    pub fn mark_damaged(&self, segment: SegmentId) -> Result<(), MetaError> {
        self.note_damage(segment, &[])
    }

    /// The same, with what was found wrong, which is added to what was noted before; where that is nothing, every shard is to be read.
    ///
    /// # Errors
    /// Those of the engine, and damage.
    pub fn note_damage(&self, segment: SegmentId, found: &[DamagedShard]) -> Result<(), MetaError> {
        self.transact_shared(|txn| {
            if txn.segment(segment)?.is_none() {
                return Ok(());
            }
            let before = txn.damage(segment)?;
            let mut damage = before.clone().unwrap_or_default();
            damage.add(found.iter().cloned());
            damage.is_suspected |= found.is_empty();
            if before.as_ref() != Some(&damage) {
                txn.put(Key::Damaged(segment), damage.encode());
            }
            Ok(())
        })
    }

    /// After the shards of a segment were looked at: puts `after` in the place of the note `before`, which was there before the look. `None`:
    /// nothing is noted, as all are sound, or no file refers to the segment. A living one whose record misses a shard keeps its mark.
    ///
    /// False: another note is there by now, which stays. Who made it has seen what this look may not have.
    ///
    /// # Errors
    /// Those of the engine, and damage.
    pub fn replace_damage(
        &self,
        segment: SegmentId,
        before: Option<&DamageRecord>,
        after: Option<&DamageRecord>,
    ) -> Result<bool, MetaError> {
        self.transact_shared(|txn| {
            if txn.damage(segment)?.as_ref() != before {
                return Ok(false);
            }
            let record = txn.segment(segment)?;
            match after {
                Some(damage) if record.is_some() => txn.put(Key::Damaged(segment), damage.encode()),
                Some(_) => {}
                None => {
                    txn.free_room();
                    let is_living = txn.live(segment)?.is_some_and(|bytes| bytes > 0);
                    let misses_one = record.is_some_and(|record| record.shards.iter().any(Option::is_none));
                    if before.is_some() && !(is_living && misses_one) {
                        txn.remove(Key::Damaged(segment));
                    }
                }
            }
            Ok(true)
        })
    }

    /// What is noted of a segment's shards; `None`: nothing is.
    ///
    /// # Errors
    /// Those of the engine, and damage.
    pub fn damage(&self, segment: SegmentId) -> Result<Option<DamageRecord>, MetaError> {
        self.view(|txn| txn.damage(segment))
    }

    /// Up to `limit` marked segments after `after_segment`, by id.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn damaged(&self, after_segment: Option<SegmentId>, limit: usize) -> Result<Vec<SegmentId>, MetaError> {
        self.list(after(Table::Damaged.range(), after_segment.map(Key::Damaged)), limit, |key, _| match key {
            Key::Damaged(segment) => Some(Ok(segment)),
            _ => None,
        })
    }

    /// The files with bytes in the segment, each checked on its extents, by number.
    ///
    /// # Errors
    /// Those of the engine, and damage.
    pub fn files_of_segment(&self, segment: SegmentId) -> Result<Vec<Ino>, MetaError> {
        self.view(|txn| {
            let mut files = Vec::new();
            let mut range = users_of(segment);
            loop {
                let pairs = txn.scan(&range, READ_PAIRS)?;
                // A large file has many segments, and most have no other user: its extents are not looked through for each of them.
                if files.is_empty()
                    && let [(key, _)] = &pairs[..]
                    && let Some(Key::UsedBy(_, ino)) = Key::parse(key)
                    && txn.live(segment)?.unwrap_or(0) > 0
                {
                    return Ok(vec![ino]);
                }
                for (key, _) in &pairs {
                    if let Some(Key::UsedBy(_, ino)) = Key::parse(key)
                        && txn.uses(ino, segment)?
                    {
                        files.push(ino);
                    }
                }
                match pairs.last().filter(|_| pairs.len() == READ_PAIRS) {
                    Some((last, _)) => range = after(range, Key::parse(last)),
                    None => return Ok(files),
                }
            }
        })
    }

    /// Up to `limit` dead segments and previous generations after `after_item`: segments first, each by its id.
    ///
    /// # Errors
    /// Those of the engine, and damage.
    pub fn unreferenced(&self, after_item: Option<Item>, limit: usize) -> Result<Vec<Queued>, MetaError> {
        let after_key = match after_item {
            Some(Item::Segment(segment)) => Some(Key::UnreferencedSegment(segment)),
            Some(Item::Generation(segment, generation)) => Some(Key::UnreferencedGeneration(segment, generation)),
            _ => None,
        };
        self.list(after(unreferenced_shards(), after_key), limit, |key, value| match key {
            Key::UnreferencedSegment(segment) => {
                Some(values::decode_number(&key, value).map(|since_ms| Queued::Segment { segment, since_ms }))
            }
            Key::UnreferencedGeneration(segment, _) => {
                Some(decode_retained(&key, value).map(|retained| Queued::Generation { segment, retained }))
            }
            _ => None,
        })
    }

    /// Forgets a dead segment, after its shards were removed. One that is forgotten already is no error.
    ///
    /// # Errors
    /// `SegmentChanged`: the record is not `expected`, the segment is not dead, or files refer to it after all; `Fenced`; `Invalid`
    /// (it is no segment).
    pub fn drop_segment(
        &self,
        dead: Removable,
        expected: &SegmentRecord,
        fence: Option<&Fence>,
    ) -> Result<(), MetaError> {
        let Item::Segment(segment) = dead.item() else { return Err(OF_ANOTHER_KIND) };
        // A dead segment never lives again, so files need not be looked through within the transaction.
        if !self.files_of_segment(segment)?.is_empty() {
            return Err(MetaError::SegmentChanged(segment));
        }
        self.transact_shared(|txn| {
            txn.free_room();
            txn.check(fence)?;
            let key = Key::UnreferencedSegment(segment);
            let is_dead = txn.get(key)?.is_some();
            let (Some(record), true, None) = (txn.segment(segment)?, is_dead, txn.live(segment)?) else {
                return match txn.segment(segment)? {
                    None if !is_dead => Ok(()),
                    _ => Err(MetaError::SegmentChanged(segment)),
                };
            };
            if record != *expected {
                return Err(MetaError::SegmentChanged(segment));
            }
            for location in record.shards.iter().flatten() {
                txn.remove(Key::OnNode(location.node, segment));
            }
            txn.remove(Key::Segment(segment));
            txn.note_replaced(&record, None);
            txn.remove(Key::Damaged(segment));
            txn.remove(key);
            txn.forget_aliases(segment, &record)
        })
    }

    /// What is retained of one segment, the oldest generation first.
    ///
    /// # Errors
    /// Those of the engine, and damage.
    pub fn retained_of(&self, segment: SegmentId) -> Result<Vec<RetainedRecord>, MetaError> {
        self.view(|txn| txn.retained_of(segment))
    }

    /// Marks a previous generation: from now on it can be restored no more, and its shards are removed.
    ///
    /// # Errors
    /// `SegmentChanged` (it is not `expected` any more), `Fenced`, `Invalid` (it is no generation).
    pub fn mark_going(
        &self,
        expired: Expired,
        expected: &RetainedRecord,
        fence: Option<&Fence>,
    ) -> Result<RetainedRecord, MetaError> {
        let Item::Generation(segment, _) = expired.item() else { return Err(OF_ANOTHER_KIND) };
        let going = RetainedRecord { is_going: true, ..expected.clone() };
        self.transact_shared(|txn| {
            txn.free_room();
            txn.check(fence)?;
            let key = txn.find_retained(segment, expected)?;
            txn.put(key, going.encode());
            Ok(going.clone())
        })
    }

    /// Forgets a previous generation, after its shards were removed.
    ///
    /// # Errors
    /// `SegmentChanged` (it is not `expected` any more), `Fenced`, `Invalid` (it is no generation).
    pub fn drop_generation(
        &self,
        going: Removable,
        expected: &RetainedRecord,
        fence: Option<&Fence>,
    ) -> Result<(), MetaError> {
        let Item::Generation(segment, _) = going.item() else { return Err(OF_ANOTHER_KIND) };
        self.transact_shared(|txn| {
            txn.free_room();
            txn.check(fence)?;
            let key = txn.find_retained(segment, expected)?;
            txn.remove(key);
            txn.forget_aliases(segment, &expected.record)
        })
    }

    /// What a job noted of itself.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn job(&self, name: &str) -> Result<Option<Vec<u8>>, MetaError> {
        self.view(|txn| txn.get(Key::Job(name.as_bytes())))
    }

    /// Notes, or with `None` forgets, a job's state of at most 64 KiB.
    ///
    /// # Errors
    /// `Invalid` (a longer state).
    pub fn set_job(&self, name: &str, state: Option<&[u8]>) -> Result<(), MetaError> {
        state.map_or(Ok(()), check_job)?;
        self.transact_shared(|txn| {
            txn.free_room();
            match state {
                Some(state) => txn.put(Key::Job(name.as_bytes()), state.to_vec()),
                None => txn.remove(Key::Job(name.as_bytes())),
            }
            Ok(())
        })
    }

    /// Notes a job's state in place of `expected`; false: another process has changed it.
    ///
    /// # Errors
    /// As [`Self::set_job`].
    pub fn replace_job(&self, name: &str, expected: Option<&[u8]>, state: &[u8]) -> Result<bool, MetaError> {
        check_job(state)?;
        self.transact_shared(|txn| {
            txn.free_room();
            let key = Key::Job(name.as_bytes());
            if txn.get(key)?.as_deref() != expected {
                return Ok(false);
            }
            txn.put(key, state.to_vec());
            Ok(true)
        })
    }

    pub(super) fn list<T>(
        &self,
        range: Range<Vec<u8>>,
        limit: usize,
        parse: impl Fn(Key<'_>, &[u8]) -> Option<Result<T, MetaError>>,
    ) -> Result<Vec<T>, MetaError> {
        self.view(|txn| txn.list(&range, limit, &parse))
    }
}

fn decode_segment(key: &Key<'_>, bytes: &[u8]) -> Result<SegmentRecord, MetaError> {
    SegmentRecord::decode(bytes).map_err(|error| damaged(key, error))
}

impl SurveyedSegment {
    /// What is at its keys: its record, its live bytes and its damage. `None`: it has no record.
    pub(super) fn decode(segment: SegmentId, found: &[Option<Vec<u8>>]) -> Result<Option<Self>, MetaError> {
        let [Some(record), live, damage] = found else { return Ok(None) };
        let live_key = Key::Live(segment);
        let live_bytes = live.as_ref().map(|bytes| values::decode_number(&live_key, bytes)).transpose()?;
        let damage = damage.as_ref().map(|bytes| decode_damage(&Key::Damaged(segment), bytes)).transpose()?;
        let record = decode_segment(&Key::Segment(segment), record)?;
        Ok(Some(Self { segment, record, live_bytes: live_bytes.unwrap_or(0), damage }))
    }
}

fn decode_retained(key: &Key<'_>, bytes: &[u8]) -> Result<RetainedRecord, MetaError> {
    RetainedRecord::decode(bytes).map_err(|error| damaged(key, error))
}

fn decode_damage(key: &Key<'_>, bytes: &[u8]) -> Result<DamageRecord, MetaError> {
    DamageRecord::decode(bytes).map_err(|error| damaged(key, error))
}

impl Txn<'_> {
    /// What a table has of a run of segments.
    fn of_segments<T>(
        &mut self,
        segments: RangeInclusive<SegmentId>,
        key: fn(SegmentId) -> Key<'static>,
        decode: impl Fn(&Key<'_>, &[u8]) -> Result<T, MetaError>,
    ) -> Result<BTreeMap<SegmentId, T>, MetaError> {
        let mut all = BTreeMap::new();
        let mut range = key(*segments.start()).encode()..after(Range::default(), Some(key(*segments.end()))).start;
        loop {
            let page = self.list(&range, READ_PAIRS, |key, value| match key {
                Key::Live(segment) | Key::Damaged(segment) => Some(decode(&key, value).map(|value| (segment, value))),
                _ => None,
            })?;
            let next = page.last().filter(|_| page.len() == READ_PAIRS).map(|(segment, _)| key(*segment));
            all.extend(page);
            match next {
                Some(last) => range = after(range, Some(last)),
                None => return Ok(all),
            }
        }
    }

    fn list<T>(
        &mut self,
        range: &Range<Vec<u8>>,
        limit: usize,
        parse: impl Fn(Key<'_>, &[u8]) -> Option<Result<T, MetaError>>,
    ) -> Result<Vec<T>, MetaError> {
        let wrong = |key: &[u8]| MetaError::Damaged { key: printable(key), detail: "it is no key of its table".into() };
        let pairs = self.scan(range, limit)?;
        let parsed = pairs
            .iter()
            .map(|(key, value)| Key::parse(key).and_then(|key| parse(key, value)).unwrap_or_else(|| Err(wrong(key))));
        parsed.collect()
    }

    pub(super) fn retained_of(&mut self, segment: SegmentId) -> Result<Vec<RetainedRecord>, MetaError> {
        self.list(&generations_of(segment), MAX_RETAINED, |key, value| Some(decode_retained(&key, value)))
    }

    /// The key of a previous generation that is as expected.
    fn find_retained(&mut self, segment: SegmentId, expected: &RetainedRecord) -> Result<Key<'static>, MetaError> {
        let key = Key::UnreferencedGeneration(segment, expected.record.generation);
        let found = self.get(key)?.map(|bytes| decode_retained(&key, &bytes)).transpose()?;
        if found.as_ref() == Some(expected) { Ok(key) } else { Err(MetaError::SegmentChanged(segment)) }
    }

    fn damage(&mut self, segment: SegmentId) -> Result<Option<DamageRecord>, MetaError> {
        let key = Key::Damaged(segment);
        self.get(key)?.map(|bytes| decode_damage(&key, &bytes)).transpose()
    }

    pub(super) fn segment(&mut self, segment: SegmentId) -> Result<Option<SegmentRecord>, MetaError> {
        let key = Key::Segment(segment);
        self.get(key)?.map(|bytes| decode_segment(&key, &bytes)).transpose()
    }

    /// Has the file an extent in the segment?
    pub(super) fn uses(&mut self, ino: Ino, segment: SegmentId) -> Result<bool, MetaError> {
        let mut range = of_ino(Table::Extent, ino);
        loop {
            let pairs = self.scan(&range, READ_PAIRS)?;
            for (key, value) in &pairs {
                if parse_extent(key, value)?.segment == segment {
                    return Ok(true);
                }
            }
            match pairs.last().filter(|_| pairs.len() == READ_PAIRS) {
                Some((last, _)) => range = after(range, Key::parse(last)),
                None => return Ok(false),
            }
        }
    }
}

fn check_job(state: &[u8]) -> Result<(), MetaError> {
    match state.len() > MAX_JOB_BYTES {
        true => Err(MetaError::Invalid { what: "a job's state has at most 64 KiB" }),
        false => Ok(()),
    }
}

#[cfg(test)]
#[path = "segments_tests.rs"]
mod tests;
