//! A count by the records and by sums: only segments that may have a defect are read one by one, all others are of few kinds by code.
//!
//! A segment that is not marked, all of whose shards are on nodes that answer, each in a failure unit of its own, is whole, and survives what its
//! code does. One that lacks a shard since its node is away is degraded; where it makes no difference which shard that is, all of a code
//! are so in the same way. Sums say how many segments have a shard on each node. So the segments of one node that is away need not be read; where
//! several are away, those of all but one must be: how many have shards on two of them is not in the sums.
//!
//! Where nodes share a unit, which of them share segments is not in the sums, either: they suffice if it makes no difference, as where a segment
//! needs all nodes that there are; else all segments are read.

use crate::catalogue::{Catalogue, CatalogueError, Summed, Surveyed, Walk};
use crate::census::{Alike, DEGRADED_NAMED, Dead, Tally, count_noted};
use crate::margin::Margins;
use crate::roster::Roster;
use crate::standing::standing;
use std::collections::{BTreeMap, BTreeSet};
use weft_format::records::{SegmentSum, SumsRecord};
use weft_format::{NodeId, SegmentId};

/// Counts by the records and by which nodes answer; asks no node for a shard.
///
/// # Errors
/// The catalogue cannot be read.
pub fn glance(catalogue: &dyn Catalogue, roster: &Roster) -> Result<Tally, CatalogueError> {
    glance_with_dead(catalogue, roster).map(|(tally, _)| tally)
}

/// The same, and a count of the dead segments: by sums, or in one walk over all records.
///
/// # Errors
/// The catalogue cannot be read.
pub fn glance_with_dead(catalogue: &dyn Catalogue, roster: &Roster) -> Result<(Tally, Dead), CatalogueError> {
    match glance_by_sums(catalogue, roster)? {
        Some(counted) => Ok(counted),
        None => glance_at_all(catalogue, roster),
    }
}

/// The same by a walk.
fn glance_at_all(catalogue: &dyn Catalogue, roster: &Roster) -> Result<(Tally, Dead), CatalogueError> {
    let (mut tally, mut dead, mut margins) = (Tally::default(), Dead::default(), Margins::default());
    for entry in Walk::new(catalogue, None) {
        count_noted(entry?, roster, catalogue, &mut margins, (&mut tally, &mut dead))?;
    }
    Ok((tally, dead))
}

/// Counts by the records, as a walk over all does; `None`: that is needed.
///
/// # Errors
/// The catalogue cannot be read.
fn glance_by_sums(catalogue: &dyn Catalogue, roster: &Roster) -> Result<Option<(Tally, Dead)>, CatalogueError> {
    let mut margins = Margins::default();
    let sums = catalogue.sums()?;
    let away = counted_node(&sums, roster, &mut margins);
    let apart_on = nodes_away(&sums, roster).into_iter().filter(|node| Some(*node) != away).collect();
    let summed = catalogue.summed(&apart_on, away.map(|node| (node, DEGRADED_NAMED)))?;
    let Some(Summed { mut sums, apart, listed }) = summed else { return Ok(None) };
    apart.iter().for_each(|surveyed| sums.subtract(&surveyed.record));
    let Some(rest) = rest(&sums, away, roster, &mut margins) else { return Ok(None) };
    let degraded_count =
        rest.by_code.iter().filter_map(|(_, alike)| alike.degraded).map(|(count, _)| count).sum::<u64>();
    // Otherwise sums are wrong, which fsck says.
    if listed.len() as u64 != degraded_count.min(DEGRADED_NAMED as u64) {
        return Ok(None);
    }

    let (mut tally, mut dead) = (Tally::default(), Dead::default());
    let unlisted_count = degraded_count - listed.len() as u64;
    // By id, as in a walk: the first ones that are degraded are named.
    let mut segments: BTreeMap<SegmentId, Option<Surveyed>> =
        listed.into_iter().map(|segment| (segment, None)).collect();
    segments.extend(apart.into_iter().map(|surveyed| (surveyed.segment, Some(surveyed))));
    for (segment, surveyed) in segments {
        match surveyed {
            Some(surveyed) => count_noted(surveyed, roster, catalogue, &mut margins, (&mut tally, &mut dead))?,
            None => tally.count_wanting(segment, catalogue, false)?,
        }
    }
    tally.degraded_count += unlisted_count;
    rest.by_code.iter().for_each(|(code, alike)| tally.add_alike(code, alike));
    rest.by_node.iter().for_each(|(node, count)| tally.count_shards(&standing(*node, roster, None), *count));
    Ok(Some((tally, dead)))
}

/// The segments that are not read.
struct Rest<'s> {
    by_code: Vec<(&'s str, Alike)>,
    /// Shards on each node.
    by_node: BTreeMap<NodeId, u64>,
}

/// What there is to say of segments by their sums, of which those with a shard on `away` lack it; `None`: the sums do not say enough.
fn rest<'s>(sums: &'s SumsRecord, away: Option<NodeId>, roster: &Roster, margins: &mut Margins) -> Option<Rest<'s>> {
    // Since the first look some may have come to another.
    if nodes_away(sums, roster).into_iter().any(|node| Some(node) != away) {
        return None;
    }
    let by_code = sums.by_code().map(|(code, sum)| Some((code, alike(code, sum, away, roster, margins)?)));
    let by_code = by_code.collect::<Option<_>>()?;
    let by_node = shards_by_node(sums).into_iter().map(|(node, count)| Some((node, u64::try_from(count).ok()?)));
    Some(Rest { by_code, by_node: by_node.collect::<Option<_>>()? })
}

/// Segments with a shard on each node: as many as shards, where no segment has several on one.
fn shards_by_node(sums: &SumsRecord) -> BTreeMap<NodeId, i64> {
    let mut by_node: BTreeMap<NodeId, i64> = BTreeMap::new();
    for (node, count) in sums.by_code().flat_map(|(_, sum)| &sum.on_node) {
        let all = by_node.entry(*node).or_default();
        *all = all.saturating_add(*count);
    }
    by_node
}

/// Is a shard there that is on this node, going by the node?
fn is_well(node: NodeId, roster: &Roster) -> bool {
    standing(node, roster, None).is_well()
}

/// The nodes whose segments lack a shard.
fn nodes_away(sums: &SumsRecord, roster: &Roster) -> BTreeSet<NodeId> {
    sums.nodes().into_iter().filter(|node| !is_well(*node, roster)).collect()
}

/// The node whose segments are counted by sums though it is away: that with the most, if it makes no difference which shard they lack.
fn counted_node(sums: &SumsRecord, roster: &Roster, margins: &mut Margins) -> Option<NodeId> {
    let by_node = shards_by_node(sums).into_iter().filter(|(node, _)| !is_well(*node, roster));
    let (node, _) = by_node.max_by_key(|(_, count)| *count)?;
    let mut of_node = sums.by_code().filter(|(_, sum)| sum.on_node.contains_key(&node));
    of_node.all(|(code, sum)| alike(code, sum, Some(node), roster, margins).is_some()).then_some(node)
}

/// What there is to say of segments of one code that have no defect but that those with a shard on `away` lack it; `None`: they are of
/// more kinds than these two.
fn alike(code: &str, sum: &SegmentSum, away: Option<NodeId>, roster: &Roster, margins: &mut Margins) -> Option<Alike> {
    let degraded_count = away.and_then(|node| sum.on_node.get(&node)).copied().unwrap_or(0);
    let whole_count = sum.segment_count.checked_sub(degraded_count)?;
    let numbers = [whole_count, degraded_count, sum.data_bytes, sum.stored_bytes].map(u64::try_from);
    // Below 0 they are wrong, which fsck says.
    let ([Ok(whole_count), Ok(degraded_count), Ok(data_bytes), Ok(stored_bytes)], 0) = (numbers, sum.doubled_count)
    else {
        return None;
    };
    let units_there = units(sum, None, roster);
    let even_load = |shard_count| roster.even_load(shard_count);
    // Only a program that knows the code can say what it survives.
    let whole = match whole_count {
        0 => None,
        count => Some((count, margins.of_whole(code, &units_there, even_load)?)),
    };
    let degraded = match degraded_count {
        0 => None,
        count => Some((count, margins.of_degraded(code, &units(sum, away, roster), &units_there, even_load)?)),
    };
    Some(Alike { data_bytes, stored_bytes, whole, degraded })
}

/// How many nodes each failure unit has, of those with shards of these segments that are there, and of `away`.
fn units(sum: &SegmentSum, away: Option<NodeId>, roster: &Roster) -> Vec<usize> {
    let mut units: BTreeMap<&str, usize> = BTreeMap::new();
    let nodes = sum.on_node.keys().filter(|node| Some(**node) == away || is_well(**node, roster));
    nodes.filter_map(|node| roster.unit(*node)).for_each(|unit| *units.entry(unit).or_default() += 1);
    units.into_values().collect()
}

#[cfg(test)]
#[path = "glance_tests.rs"]
mod tests;
