//! Sums over all segments, so that nobody has to read all of them to say how many there are, or how many lack a shard while a node is away.
//!
//! Two records have them, since who writes one does not wait for who writes the other: the owner adds the segments that it makes to
//! `sums`, and who replaces or drops a segment notes in `sum-changes` what that changes, by the record that it reads and checks. Both together
//! are the sums over all segments that have a record. Dead ones count until they are dropped: who kills a segment need not read its record.

use std::collections::BTreeSet;
use std::ops::Range;

use weft_format::records::{SegmentRecord, SumsRecord};
use weft_format::{NodeId, SegmentId};

use super::Store;
use super::segments::READ_PAIRS;
use super::txn::Txn;
use super::values::damaged;
use crate::MetaError;
use crate::deltas::Delta;
use crate::keys::{Key, Table, after, dead_segments, on_node};
use crate::types::{Summed, SurveyedSegment};

/// One segment that is read by its keys takes as long as some in a scan of all, and those read are held in memory. So no more than this
/// part of all are read so, ...
const PART_READ: u64 = 8;
/// ... at most this number, which takes some 70 MB, ...
const READ_MAX: u64 = 100_000;
/// ... and this number in any case.
const READ_MIN: u64 = 1024;

/// Segments read at once.
const READ_SEGMENTS: usize = 512;

impl Store {
    /// Sums over all segments that have a record, dead ones included.
    ///
    /// # Errors
    /// Those of the engine, and damage.
    pub fn sums(&self) -> Result<SumsRecord, MetaError> {
        self.view(|txn| txn.sums())
    }

    /// Sums over all segments, and those segments that are to be looked at one by one: each that is dead or marked, or has a shard on one of
    /// these nodes. Of the others on the node of `listed`, the first ones are listed, at most that number. All as of one moment. `None`:
    /// there are too many to be looked at, and a walk over all is as good.
    ///
    /// # Errors
    /// Those of the engine, and damage.
    pub fn summed(
        &self,
        apart_on: &BTreeSet<NodeId>,
        listed: Option<(NodeId, usize)>,
    ) -> Result<Option<Summed>, MetaError> {
        self.view(|txn| {
            let sums = txn.sums()?;
            let all = sums.by_code().map(|(_, sum)| u64::try_from(sum.segment_count).unwrap_or(0)).sum::<u64>();
            let most = (all / PART_READ).clamp(READ_MIN, READ_MAX);
            let Some(apart) = txn.apart(apart_on, most)? else { return Ok(None) };
            let listed = match listed {
                Some((node, limit)) => txn.others_on_node(node, &apart, limit)?,
                None => Vec::new(),
            };
            let apart: Vec<SegmentId> = apart.into_iter().collect();
            let mut segments = Vec::with_capacity(apart.len());
            for some in apart.chunks(READ_SEGMENTS) {
                segments.extend(txn.survey_some(some)?);
            }
            Ok(Some(Summed { sums, apart: segments, listed }))
        })
    }
}

impl Txn<'_> {
    fn sums(&mut self) -> Result<SumsRecord, MetaError> {
        let mut all = SumsRecord::default();
        for key in [Key::Sums, Key::SumChanges] {
            let bytes = self.get(key)?.ok_or_else(|| damaged(&key, "it is missing"))?;
            let some = SumsRecord::decode(&bytes).map_err(|error| damaged(&key, error))?;
            all = all.plus(&some).ok_or_else(|| damaged(&key, "it counts more than there can be"))?;
        }
        Ok(all)
    }

    /// The segments that are dead or marked, or have a shard on one of these nodes; `None`: more than `most`.
    fn apart(&mut self, nodes: &BTreeSet<NodeId>, most: u64) -> Result<Option<BTreeSet<SegmentId>>, MetaError> {
        let of_nodes = nodes.iter().copied().map(on_node);
        let ranges = [dead_segments(), Table::Damaged.range()].into_iter().chain(of_nodes);
        let mut apart = BTreeSet::new();
        for range in ranges {
            if !self.add_segments(range, most, &mut apart)? {
                return Ok(None);
            }
        }
        Ok(Some(apart))
    }

    /// The first `limit` segments with a shard on the node that are not among `apart`.
    fn others_on_node(
        &mut self,
        node: NodeId,
        apart: &BTreeSet<SegmentId>,
        limit: usize,
    ) -> Result<Vec<SegmentId>, MetaError> {
        let (mut others, mut range) = (Vec::new(), on_node(node));
        loop {
            let pairs = self.scan(&range, READ_PAIRS)?;
            others.extend(pairs.iter().filter_map(|(key, _)| match Key::parse(key) {
                Some(Key::OnNode(_, segment)) if !apart.contains(&segment) => Some(segment),
                _ => None,
            }));
            match pairs.last().filter(|_| pairs.len() == READ_PAIRS && others.len() < limit) {
                Some((last, _)) => range = after(range, Key::parse(last)),
                None => break,
            }
        }
        others.truncate(limit);
        Ok(others)
    }

    /// Adds the segments that the keys of a range name; false: there are more than `most`.
    fn add_segments(
        &mut self,
        mut range: Range<Vec<u8>>,
        most: u64,
        segments: &mut BTreeSet<SegmentId>,
    ) -> Result<bool, MetaError> {
        loop {
            let pairs = self.scan(&range, READ_PAIRS)?;
            segments.extend(pairs.iter().filter_map(|(key, _)| match Key::parse(key) {
                Some(Key::UnreferencedSegment(segment) | Key::Damaged(segment) | Key::OnNode(_, segment)) => {
                    Some(segment)
                }
                _ => None,
            }));
            if segments.len() as u64 > most {
                return Ok(false);
            }
            match pairs.last().filter(|_| pairs.len() == READ_PAIRS) {
                Some((last, _)) => range = after(range, Key::parse(last)),
                None => return Ok(true),
            }
        }
    }

    /// Those of these segments that have a record.
    fn survey_some(&mut self, segments: &[SegmentId]) -> Result<Vec<SurveyedSegment>, MetaError> {
        let keys = |segment: &SegmentId| [Key::Segment(*segment), Key::Live(*segment), Key::Damaged(*segment)];
        let found = self.look_at(&segments.iter().flat_map(keys).collect::<Vec<_>>())?;
        let surveyed = segments.iter().zip(found.chunks_exact(3));
        surveyed.filter_map(|(segment, found)| SurveyedSegment::decode(*segment, found).transpose()).collect()
    }

    /// Writes a new segment's records.
    pub(super) fn make_segment(&mut self, segment: SegmentId, record: &SegmentRecord) -> Result<(), MetaError> {
        self.put_segment(segment, record)?;
        self.change_sums(Key::Sums, |sums| sums.add(record));
        Ok(())
    }

    /// A segment's record was replaced by another, or dropped.
    pub(super) fn note_replaced(&mut self, before: &SegmentRecord, after: Option<&SegmentRecord>) {
        self.change_sums(Key::SumChanges, |sums| {
            sums.subtract(before);
            after.into_iter().for_each(|after| sums.add(after));
        });
    }

    fn change_sums(&mut self, key: Key<'static>, change: impl FnOnce(&mut SumsRecord)) {
        let mut sums = match self.take_delta(key) {
            Some(Delta::Segments(sums)) => sums,
            _ => SumsRecord::default(),
        };
        change(&mut sums);
        if !sums.is_empty() {
            self.put_delta(key, Delta::Segments(sums));
        }
    }
}

#[cfg(test)]
#[path = "sums_tests.rs"]
mod tests;
