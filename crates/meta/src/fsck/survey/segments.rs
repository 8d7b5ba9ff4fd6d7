//! Segments, the indices of them, and whose each shard is.

use std::collections::{BTreeMap, BTreeSet};

use weft_format::records::{DamageRecord, RetainedRecord, SegmentRecord};
use weft_format::{NodeId, SegmentId, ShardKey};

use super::columns::{Keyed as _, Segment};
use super::lane::Lane;
use super::{Finding, PAGE_PAIRS, Survey, Writes, put, remove};
use crate::MetaError;
use crate::keys::{Key, Table, dead_segments, generations_of, on_node};
use crate::store::aliased;
use crate::store::values::{self, damaged};

/// Keys of the index of nodes that are held at once, of all nodes together ...
const MARKS_HELD: usize = 1 << 16;
/// ... and of one node at least.
const MARKS_MIN: usize = 16;

/// What is read beside the table of segments.
struct Indices {
    dead: Lane,
    damaged: Lane,
    on_node: BTreeMap<NodeId, Lane>,
}

impl Survey<'_> {
    pub(super) fn read_segments(&mut self) -> Result<(), MetaError> {
        let mut beside = Indices {
            dead: Lane::new(dead_segments(), PAGE_PAIRS),
            damaged: Lane::new(Table::Damaged.range(), PAGE_PAIRS),
            on_node: self.index_of_nodes()?,
        };
        self.each(Table::Segment.range(), |survey, key, value| survey.segment(key, value, &mut beside))?;
        beside.dead.finish(self, Survey::number)?;
        beside.damaged.finish(self, Survey::damaged)?;
        beside.on_node.into_values().try_for_each(|lane| lane.finish(self, Survey::stray_mark))
    }

    /// The index of nodes, a lane for each that is in it.
    fn index_of_nodes(&mut self) -> Result<BTreeMap<NodeId, Lane>, MetaError> {
        let (mut nodes, mut rest) = (Vec::new(), Table::OnNode.range());
        while let Some((key, value)) = self.snapshot.scan(&rest.start, &rest.end, 1)?.pop() {
            if let Some(Key::OnNode(node, _)) = Key::parse(&key) {
                rest.start = on_node(node).end;
                nodes.push((node, key..rest.start.clone()));
            } else {
                self.see(&key, &value, Survey::stray_mark)?;
                rest.start = [key, vec![0]].concat();
            }
        }
        let page_pairs = (MARKS_HELD / nodes.len().max(1)).clamp(MARKS_MIN.min(PAGE_PAIRS), PAGE_PAIRS);
        Ok(nodes.into_iter().map(|(node, range)| (node, Lane::new(range, page_pairs))).collect())
    }

    fn segment(&mut self, key: Key<'_>, value: &[u8], beside: &mut Indices) -> Result<(), MetaError> {
        let Key::Segment(segment) = key else { return Ok(()) };
        let record = SegmentRecord::decode(value).map_err(|error| {
            self.unreadable_segments.insert(segment);
            damaged(&key, error)
        })?;
        // Nothing is mended of a dead one, and nobody needs its shards.
        let dead_key = Key::UnreferencedSegment(segment);
        let died = beside.dead.at(dead_key, self, Survey::number)?;
        let is_dead = died.is_some();
        let died = died.map(|bytes| values::decode_number(&dead_key, &bytes)).transpose();
        self.note(died)?;
        for node in record.nodes().collect::<BTreeSet<_>>() {
            if !is_dead && !self.nodes.contains(&node) {
                self.report(Finding::UnknownNode { segment, node }, Writes::new());
            }
            let mark_key = Key::OnNode(node, segment);
            let lane = beside.on_node.get_mut(&node);
            match lane.map(|lane| lane.at(mark_key, self, Survey::stray_mark)).transpose()?.flatten() {
                Some(mark) => drop(self.note(values::decode_mark(&mark_key, &mark))?),
                None => self.missing(mark_key, values::mark()),
            }
        }
        let damaged_key = Key::Damaged(segment);
        match beside.damaged.at(damaged_key, self, Survey::damaged)? {
            Some(mark) => {
                let mark = DamageRecord::decode(&mark).map_err(|error| damaged(&damaged_key, error));
                self.note(mark)?;
            }
            None if !is_dead && record.shards.iter().any(Option::is_none) => {
                self.missing(damaged_key, DamageRecord::suspicion().encode());
            }
            None => {}
        }
        if aliased(segment, &record).next().is_some() {
            self.with_aliases.push(segment);
        }
        self.sums.add(&record);
        self.segments.push(Segment::new(segment, record.geometry.data_bytes, is_dead));
        Ok(())
    }

    pub(super) fn has_segment(&self, segment: SegmentId) -> bool {
        self.segments.has(segment) || self.unreadable_segments.contains(&segment)
    }

    fn is_living(&self, segment: SegmentId) -> bool {
        self.segments.get(segment).is_some_and(|segment| segment.live_bytes > 0)
    }

    /// A key of the index of nodes that no segment has.
    fn stray_mark(&mut self, key: Key<'_>, value: &[u8]) -> Result<(), MetaError> {
        values::decode_mark(&key, value)?;
        if let Key::OnNode(_, segment) = key
            && !self.unreadable_segments.contains(&segment)
        {
            self.stray(key);
        }
        Ok(())
    }

    fn damaged(&mut self, key: Key<'_>, value: &[u8]) -> Result<(), MetaError> {
        DamageRecord::decode(value).map_err(|error| damaged(&key, error))?;
        if let Key::Damaged(segment) = key
            && !self.has_segment(segment)
        {
            self.stray(key);
        }
        Ok(())
    }

    /// Every segment is either referred to and alive, with the right count, or dead and in the trash.
    pub(super) fn read_lives(&mut self) -> Result<(), MetaError> {
        let mut lives = Lane::new(Table::Live.range(), PAGE_PAIRS);
        for place in 0..self.segments.len() {
            let segment = self.segments.at(place);
            let (live_key, dead_key) = (Key::Live(segment.key()), Key::UnreferencedSegment(segment.key()));
            let live = lives.at(live_key, self, Survey::number)?;
            let live = live.map(|bytes| values::decode_number(&live_key, &bytes)).transpose();
            let Some(live) = self.note(live)? else { continue };
            let died = if segment.is_in_trash { self.get(dead_key)? } else { None };
            // It was found with the segment.
            let Ok(died_ms) = died.map(|bytes| values::decode_number(&dead_key, &bytes)).transpose() else { continue };
            self.life(segment, live, died_ms);
        }
        lives.finish(self, Survey::number)
    }

    fn life(&mut self, segment: Segment, live: Option<u64>, died_ms: Option<u64>) {
        let (segment, counted) = (segment.key(), segment.live_bytes);
        let (live_key, dead_key) = (Key::Live(segment), Key::UnreferencedSegment(segment));
        match (counted, died_ms) {
            (1.., Some(_)) => {
                let mend = vec![put(live_key, values::number(counted)), remove(dead_key)];
                self.report(Finding::LiveInTrash { segment, counted }, mend);
            }
            (1.., None) if live != Some(counted) => {
                let mend = vec![put(live_key, values::number(counted))];
                self.report(Finding::WrongLiveBytes { segment, stored: live.unwrap_or(0), counted }, mend);
            }
            (0, died) if live.is_some() || died.is_none() => {
                let died_ms = died.unwrap_or(self.now_ms);
                let mend = vec![remove(live_key), put(dead_key, values::number(died_ms))];
                self.report(Finding::DeadOutsideTrash { segment }, mend);
            }
            _ => {}
        }
    }

    /// A number of no segment that can be read.
    fn number(&mut self, key: Key<'_>, value: &[u8]) -> Result<(), MetaError> {
        values::decode_number(&key, value)?;
        if let Key::Live(segment) | Key::UnreferencedSegment(segment) = key
            && !self.has_segment(segment)
        {
            self.stray(key);
        }
        Ok(())
    }

    pub(super) fn used_by(&mut self, key: Key<'_>, value: &[u8]) -> Result<(), MetaError> {
        values::decode_mark(&key, value)?;
        if let Key::UsedBy(segment, _) = key {
            // Of a living segment it may name files that do not use it any more.
            let is_dead = self.segments.get(segment).is_some_and(|segment| segment.live_bytes == 0);
            if is_dead || !self.has_segment(segment) {
                self.stray(key);
            }
        }
        Ok(())
    }

    /// A previous generation. It outlives its segment: what is in it is removed in its own time.
    pub(super) fn retained(&mut self, key: Key<'_>, value: &[u8]) -> Result<(), MetaError> {
        let retained = RetainedRecord::decode(value).map_err(|error| damaged(&key, error))?;
        if let Key::UnreferencedGeneration(segment, _) = key {
            self.own_aliases(&[(segment, retained.record)])?;
        }
        Ok(())
    }

    /// An alias is kept as long as its owner names the shard, and no longer; and what a living segment names under another's name is its own.
    pub(super) fn read_aliases(&mut self) -> Result<(), MetaError> {
        self.each_page(Table::Alias.range(), |survey, pairs| {
            let mut aliases: Vec<(ShardKey, SegmentId)> = Vec::new();
            for (key, value) in pairs {
                survey.see(key, value, |_, key, value| {
                    let owner = values::decode_segment(&key, value)?;
                    if let Key::Alias(shard) = key {
                        aliases.push((shard, owner));
                    }
                    Ok(())
                })?;
            }
            let records = survey.get_many(aliases.iter().map(|(_, owner)| Key::Segment(*owner)))?;
            let mut aliases = aliases.into_iter().zip(records);
            aliases.try_for_each(|((shard, owner), record)| survey.alias(shard, owner, record.as_deref()))
        })?;
        for some in std::mem::take(&mut self.with_aliases).chunks(PAGE_PAIRS) {
            let records = self.get_many(some.iter().map(|segment| Key::Segment(*segment)))?;
            let decoded = |(segment, record): (&SegmentId, Option<Vec<u8>>)| {
                Some((*segment, SegmentRecord::decode(&record?).ok()?))
            };
            self.own_aliases(&some.iter().zip(records).filter_map(decoded).collect::<Vec<_>>())?;
        }
        Ok(())
    }

    fn alias(&mut self, shard: ShardKey, owner: SegmentId, record: Option<&[u8]>) -> Result<(), MetaError> {
        let names = |record: &SegmentRecord| aliased(owner, record).any(|named| named == shard);
        let is_named =
            record.and_then(|record| SegmentRecord::decode(record).ok()).is_some_and(|record| names(&record));
        if is_named || self.unreadable_segments.contains(&owner) {
            return Ok(());
        }
        let mut generations = generations_of(owner);
        loop {
            let retained = self.page(&mut generations, PAGE_PAIRS)?;
            let record = |value: &[u8]| RetainedRecord::decode(value).ok().map(|retained| retained.record);
            if retained.iter().filter_map(|(_, value)| record(value)).any(|record| names(&record)) {
                return Ok(());
            }
            if retained.is_empty() {
                self.stray(Key::Alias(shard));
                return Ok(());
            }
        }
    }

    /// Each shard that one of these records of living segments names under another's name has its alias.
    fn own_aliases(&mut self, records: &[(SegmentId, SegmentRecord)]) -> Result<(), MetaError> {
        let living = records.iter().filter(|(owner, _)| self.is_living(*owner));
        let of_record = |(owner, record): &(SegmentId, SegmentRecord)| {
            aliased(*owner, record).map(|shard| (shard, *owner)).collect::<Vec<_>>()
        };
        let wanted: Vec<(ShardKey, SegmentId)> = living.flat_map(of_record).collect();
        let found = self.get_many(wanted.iter().map(|(shard, _)| Key::Alias(*shard)))?;
        for ((shard, owner), found) in wanted.into_iter().zip(found) {
            let alias = values::segment(owner);
            if found.as_ref() != Some(&alias) && self.without_alias.insert((shard, owner)) {
                self.missing(Key::Alias(shard), alias);
            }
        }
        Ok(())
    }
}
