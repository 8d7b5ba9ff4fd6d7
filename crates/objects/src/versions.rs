//! Which versions of a name there are, by what members have answered. Pure.

use crate::question::Found;
use std::collections::{BTreeMap, BTreeSet};
use weft_format::records::{ObjectRecord, ObjectState, SegmentRecord, ShardLocation, Stamp, data_segment};
use weft_format::{Generation, NodeId, ShardIndex, ShardKey};
use weft_nodes::{NodeError, NodeErrorKind};

/// What members have said of a name.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    /// By member.
    pub answers: BTreeMap<NodeId, Found>,
    /// Members that did not answer, and why.
    pub silent: BTreeMap<NodeId, NodeError>,
}

impl Findings {
    /// What else was found out.
    pub fn add(&mut self, more: Findings) {
        self.answers.extend(more.answers);
        self.silent.extend(more.silent);
        self.silent.retain(|node, _| !self.answers.contains_key(node));
    }

    /// Why one of the silent members did not answer.
    #[must_use]
    pub fn why_silent(&self) -> String {
        self.silent.values().next().map_or_else(|| "there is none".to_owned(), ToString::to_string)
    }

    /// Members that are there and were too slow or too busy to answer: what they have is unknown, and they may say so later.
    #[must_use]
    pub fn late(&self) -> Vec<NodeId> {
        let is_late = |error: &NodeError| matches!(error.kind, NodeErrorKind::TimedOut | NodeErrorKind::Busy);
        self.silent.iter().filter(|(_, error)| is_late(error)).map(|(node, _)| *node).collect()
    }
}

/// A version of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// Which.
    pub stamp: Stamp,
    /// Its record; `None`: it is long, and to be fetched from a holder.
    pub record: Option<ObjectRecord>,
    /// Members that have the record.
    pub holders: BTreeSet<NodeId>,
    /// Members that have given the upload up.
    pub given_up: BTreeSet<NodeId>,
}

/// The versions of `name` that have a record, the newest first. Of records of one version that differ the one that most members have counts.
#[must_use]
pub fn versions(name: &str, findings: &Findings) -> Vec<Version> {
    let mut copies: BTreeMap<Stamp, BTreeMap<Option<Vec<u8>>, BTreeSet<NodeId>>> = BTreeMap::new();
    let mut given_up: BTreeMap<Stamp, BTreeSet<NodeId>> = BTreeMap::new();
    for (node, found) in &findings.answers {
        for held in &found.records {
            match held.decoded() {
                Some(record) if record.state == ObjectState::GivenUp => {
                    given_up.entry(held.stamp()).or_default().insert(*node);
                    continue;
                }
                // Another name with the same hash, or no record at all.
                Some(record) if record.name != name => continue,
                None if held.record.is_some() => continue,
                Some(_) | None => {}
            }
            copies.entry(held.stamp()).or_default().entry(held.record.clone()).or_default().insert(*node);
        }
    }
    let version = |(stamp, copies): (Stamp, BTreeMap<Option<Vec<u8>>, BTreeSet<NodeId>>)| {
        let (bytes, holders) = copies.into_iter().max_by_key(|(_, holders)| holders.len())?;
        let record = bytes.and_then(|bytes| ObjectRecord::decode(&bytes).ok());
        Some(Version { stamp, record, holders, given_up: given_up.get(&stamp).cloned().unwrap_or_default() })
    };
    copies.into_iter().rev().filter_map(version).collect()
}

/// Where shards of segment `number` of a version are: each index with the names under which members hold it.
#[must_use]
pub fn places(
    hash: u64,
    stamp: Stamp,
    number: u32,
    findings: &Findings,
) -> BTreeMap<ShardIndex, Vec<(NodeId, ShardKey)>> {
    let segment = data_segment(hash, stamp, number);
    let mut places: BTreeMap<ShardIndex, Vec<(NodeId, ShardKey)>> = BTreeMap::new();
    for (node, found) in &findings.answers {
        for key in found.shards.iter().map(|shard| shard.key()).filter(|key| key.segment == segment) {
            places.entry(key.index).or_default().push((*node, key));
        }
    }
    places
}

/// The record of segment `number` as transfer reads it, with each shard where it was found; of several copies of a shard the one at the member
/// of least `cost`, and none that is `refused`. Shards that were found nowhere have no place.
#[must_use]
pub fn located<C: Ord>(
    record: &ObjectRecord,
    hash: u64,
    number: u32,
    findings: &Findings,
    cost: impl Fn(NodeId) -> C,
    refused: &BTreeSet<(NodeId, ShardKey)>,
) -> Option<SegmentRecord> {
    let contents = record.contents()?;
    let segment = contents.segments.get(number as usize)?;
    let places = places(hash, record.stamp, number, findings);
    let shard = |(index, digest)| {
        let copies = places.get(&ShardIndex(index))?.iter().filter(|copy| !refused.contains(copy));
        let (node, key) = copies.min_by_key(|(node, _)| (cost(*node), *node))?;
        Some(ShardLocation { node: *node, generation: key.generation, digest, origin: None })
    };
    Some(SegmentRecord {
        code: contents.code.clone(),
        geometry: segment.geometry,
        generation: Generation::FIRST,
        shards: (0u16..).zip(segment.shards.iter().copied()).map(shard).collect(),
    })
}

#[cfg(test)]
#[path = "versions_tests.rs"]
mod tests;
