//! What a keeper decides: what is missing of a segment, who makes it, where it goes, and what is needless. Pure; time is an argument.

use crate::closest::Closest;
use crate::versions::{Findings, places, versions};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};
use weft_cluster::View;
use weft_format::records::{ObjectId, ObjectRecord, SegmentRecord, ShardLocation, Stamp, name_hash};
use weft_format::{Generation, NodeId, ShardIndex, ShardKey};

/// What a keeper has seen to be so, and for how long: of its own observations, by a clock that never jumps.
#[derive(Debug, Default)]
pub struct Observed {
    since: BTreeMap<Matter, Instant>,
    /// Seen in this round.
    now: BTreeSet<Matter>,
}

/// What may have to be done about a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Matter {
    /// These shards of a segment are nowhere.
    Missing(u64, Stamp, u32, ShardIndex),
    /// A newer version can be read with a margin, or the object was removed.
    Superseded(u64, Stamp),
    /// This shard is here, and another member holds the same.
    Copy(ShardKey),
    /// This shard lies in one domain with another of its segment.
    Crowded(ShardKey),
    /// Too few of a version's shards are left at all members together, and some have given it up.
    Void(u64, Stamp),
    /// A record of this version cannot be read here, and no other member has one.
    Unreadable(u64, Stamp),
}

impl Observed {
    /// It is so at `now`; for how long already?
    pub fn see(&mut self, matter: Matter, now: Instant) -> Duration {
        self.now.insert(matter);
        now.saturating_duration_since(*self.since.entry(matter).or_insert(now))
    }

    /// It was not looked at in this round, and may still be so.
    pub fn keep(&mut self, matters: impl Fn(&Matter) -> bool) {
        let kept: Vec<Matter> = self.since.keys().copied().filter(|matter| matters(matter)).collect();
        self.now.extend(kept);
    }

    /// What was not seen in this round is so no longer.
    pub fn end_round(&mut self) {
        let seen = std::mem::take(&mut self.now);
        self.since.retain(|matter, _| seen.contains(matter));
    }
}

/// The shards of versions without a record, as members were seen to have them, and since when no more have come. While more come the upload
/// goes on, wherever they lie.
#[derive(Debug, Default)]
pub struct Uploads(BTreeMap<(u64, Stamp), (usize, Instant)>);

impl Uploads {
    /// All members together have `count` of them at `now`; for how long has there been none beyond the most that were seen? A member that does
    /// not answer makes them fewer, and makes no difference.
    pub fn see(&mut self, version: (u64, Stamp), count: usize, now: Instant) -> Duration {
        let (most, since) = self.0.entry(version).or_insert((count, now));
        if count > *most {
            (*most, *since) = (count, now);
        }
        now.saturating_duration_since(*since)
    }

    /// Others than these, which are in order, are not looked at any more.
    pub fn keep(&mut self, versions: &[(u64, Stamp)]) {
        self.0.retain(|version, _| versions.binary_search(version).is_ok());
    }
}

/// When the member at `position` among those closest to a name looks after it: the first in every round, the others the more seldom the
/// further away they are. What the first does not do, for whatever reason, another does later.
#[must_use]
pub fn is_due(round: u64, position: usize) -> bool {
    round.is_multiple_of(1 << position.min(6))
}

/// For how long something is missing before the member at `position` makes it.
#[must_use]
pub fn rebuild_after(least: Duration, position: usize) -> Duration {
    least * (1 + position.min(6) as u32)
}

/// The shards of a segment that were found nowhere.
#[must_use]
pub fn missing(width: usize, places: &BTreeMap<ShardIndex, Vec<(NodeId, ShardKey)>>) -> Vec<ShardIndex> {
    (0..width).map(|index| ShardIndex(index as u16)).filter(|index| !places.contains_key(index)).collect()
}

/// Do the members that answered have no version as new as this one, or less than all shards of it?
#[must_use]
pub fn is_short(record: &ObjectRecord, findings: &Findings) -> bool {
    let (hash, width) = (name_hash(&record.name), usize::from(record.width));
    let is_there = versions(&record.name, findings).first().is_some_and(|newest| newest.stamp >= record.stamp);
    let segments = 0..record.contents().map_or(0, |contents| contents.segments.len()) as u32;
    !is_there
        || segments.into_iter().any(|number| !missing(width, &places(hash, record.stamp, number, findings)).is_empty())
}

/// Members for shards that are missing, the closest first: none of a domain that holds a shard of the segment, and none that is `refused`.
/// Where there are too few the rest waits.
#[must_use]
pub fn targets(
    view: &View,
    closest: &Closest,
    holders: &BTreeSet<NodeId>,
    refused: &BTreeSet<NodeId>,
    missing: &[ShardIndex],
) -> Vec<(ShardIndex, NodeId)> {
    let domain = |node: &NodeId| view.members.get(node).map(|member| member.domain.as_str());
    let mut used: BTreeSet<&str> = holders.iter().filter_map(domain).collect();
    let free =
        closest.all().filter(|node| !refused.contains(node) && domain(node).is_some_and(|domain| used.insert(domain)));
    missing.iter().copied().zip(free).collect()
}

/// Of several copies of a shard the one that stays: that of the earliest attempt, and of the least member. It depends on nothing that two
/// members may see otherwise.
#[must_use]
pub fn first_of(copies: &[(NodeId, ShardKey)]) -> Option<(NodeId, ShardKey)> {
    copies.iter().copied().min_by_key(|(node, key)| (key.generation, *node))
}

/// Copies that give way to the first one of their shard: their members count as if they had none.
#[must_use]
pub fn needless(places: &BTreeMap<ShardIndex, Vec<(NodeId, ShardKey)>>) -> BTreeSet<(NodeId, ShardKey)> {
    let others = |copies: &Vec<(NodeId, ShardKey)>| {
        let first = first_of(copies);
        copies.iter().copied().filter(move |copy| Some(*copy) != first).collect::<Vec<_>>()
    };
    places.values().flat_map(others).collect()
}

/// Shards of a segment that lie in one domain with an earlier one: with that domain two are lost. Of copies the first one counts. What was put
/// there at first stays, as no copy of it can be earlier.
#[must_use]
pub fn crowded(view: &View, places: &BTreeMap<ShardIndex, Vec<(NodeId, ShardKey)>>) -> Vec<ShardKey> {
    let mut stay: Vec<(NodeId, ShardKey)> = places.values().filter_map(|copies| first_of(copies)).collect();
    stay.sort_by_key(|(_, key)| (key.generation, key.index));
    let mut used = BTreeSet::new();
    stay.retain(|(node, _)| view.members.get(node).is_some_and(|member| !used.insert(&member.domain)));
    stay.into_iter().map(|(_, key)| key).filter(|key| key.generation > Generation::FIRST).collect()
}

/// Does some segment of a version have a shard that is [`crowded`], as far as members answered?
#[must_use]
pub fn is_crowded(view: &View, record: &ObjectRecord, findings: &Findings) -> bool {
    let count = record.contents().map_or(0, |contents| contents.segments.len()) as u32;
    let places = |number| places(name_hash(&record.name), record.stamp, number, findings);
    (0..count).any(|number| !crowded(view, &places(number)).is_empty())
}

/// The record of a shard's segment, with no other place than that of this shard at `node`; `None`: the object's record has no such shard.
#[must_use]
pub fn own_place(record: &ObjectRecord, node: NodeId, key: ShardKey) -> Option<SegmentRecord> {
    let contents = record.contents()?;
    let segment = contents.segments.get(ObjectId::of(key.segment).number as usize)?;
    let digest = *segment.shards.get(key.index.as_usize())?;
    let mut shards = vec![None; segment.shards.len()];
    shards[key.index.as_usize()] = Some(ShardLocation { node, generation: key.generation, digest, origin: None });
    let (code, geometry) = (contents.code.clone(), segment.geometry);
    Some(SegmentRecord { code, geometry, generation: Generation::FIRST, shards })
}

#[cfg(test)]
#[path = "care_tests.rs"]
mod tests;
