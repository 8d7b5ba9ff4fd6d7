//! A count by the records and by sums: only segments that may have a defect are read one by one, all others are of one kind by code.
//!
//! A segment that is not marked, all of whose shards are on nodes that answer and keep what they have, each in a failure unit of its own, is whole,
//! and survives what its code does. Where nodes share a unit, which of them share segments is not in the sums: they suffice if it makes no
//! difference, as where a segment needs all nodes that there are; else all segments are read.

use crate::catalogue::{Catalogue, CatalogueError, Summed, Walk};
use crate::census::{Dead, Tally, count_noted};
use crate::margin::{Margins, Survives};
use crate::roster::{NodeFacts, Roster};
use std::collections::{BTreeMap, BTreeSet};
use weft_format::NodeId;
use weft_format::records::{NodeState, SegmentSum};

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

/// Are shards on the node where they should be, and within reach?
fn is_sound(facts: &NodeFacts) -> bool {
    facts.answers() && matches!(facts.record.state, NodeState::Active | NodeState::ReadOnly)
}

/// Counts by the records, as a walk over all does; `None`: that is needed.
///
/// # Errors
/// The catalogue cannot be read.
fn glance_by_sums(catalogue: &dyn Catalogue, roster: &Roster) -> Result<Option<(Tally, Dead)>, CatalogueError> {
    let sound: BTreeSet<NodeId> = roster.nodes.iter().filter(|(_, facts)| is_sound(facts)).map(|(id, _)| *id).collect();
    let mut units: BTreeMap<&str, usize> = BTreeMap::new();
    sound.iter().filter_map(|node| roster.unit(*node)).for_each(|unit| *units.entry(unit).or_default() += 1);
    let units: Vec<usize> = units.into_values().collect();
    let Some(Summed { mut sums, apart }) = catalogue.sums(&sound)? else { return Ok(None) };
    let (mut tally, mut dead, mut margins) = (Tally::default(), Dead::default(), Margins::default());
    for surveyed in apart {
        sums.subtract(&surveyed.record);
        count_noted(surveyed, roster, catalogue, &mut margins, (&mut tally, &mut dead))?;
    }
    for (code, sum) in sums.by_code() {
        // Only a program that knows the code can say what it survives.
        let survives = margins.of_whole(code, &units, |shard_count| roster.even_load(shard_count));
        let Some(()) = survives.and_then(|survives| add_whole(&mut tally, code, sum, survives)) else {
            return Ok(None);
        };
    }
    Ok(Some((tally, dead)))
}

/// Counts segments of one code that have no defect; `None`: they are not all of one kind.
fn add_whole(tally: &mut Tally, code: &str, sum: SegmentSum, survives: Survives) -> Option<()> {
    let SegmentSum { segment_count, data_bytes, stored_bytes, doubled_count: 0 } = sum else { return None };
    let numbers = [segment_count, data_bytes, stored_bytes].map(u64::try_from);
    // Below 0 they are wrong, which fsck says.
    let [Ok(segment_count), Ok(data_bytes), Ok(stored_bytes)] = numbers else { return None };
    tally.add_whole(code, (segment_count, data_bytes, stored_bytes), survives);
    Some(())
}

#[cfg(test)]
#[path = "glance_tests.rs"]
mod tests;
