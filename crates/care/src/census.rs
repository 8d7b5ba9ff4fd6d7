//! Counting every segment: what is whole, what is degraded, what is lost, and how many more nodes every file survives.
//!
//! [`Tally`] is pure; [`census`] and [`glance`] feed it. A job says that it is done only after a census of its own.

use crate::catalogue::{Catalogue, CatalogueError, Walk};
use crate::job::{Cancelled, Job};
use crate::margin::Margins;
use crate::mend::{Look, by_shard};
use crate::roster::Roster;
use crate::standing::{Standing, standings};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use weft_format::records::SegmentRecord;
use weft_format::{NodeId, SegmentId};
use weft_transfer::Transfer;

/// Paths of degraded files kept for show: finding a path reads directories. Those of lost files are kept all: their owner must know each.
const DEGRADED_PATHS: usize = 1000;

/// Segments looked at together: hides the nodes' latencies.
const TOGETHER: usize = 8;

/// Why a job over all segments ended early.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CareError {
    /// The catalogue cannot be read or written.
    #[error(transparent)]
    Catalogue(#[from] CatalogueError),
    /// Its starter ended it.
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
}

/// Segments of one code.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CodeTally {
    /// Segments.
    pub segment_count: u64,
    /// Bytes of data in them.
    pub data_bytes: u64,
    /// Bytes of their shards where all are stored.
    pub stored_bytes: u64,
    /// Segments that are not whole.
    pub degraded_count: u64,
}

/// The sums over all segments that files refer to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Tally {
    /// Segments.
    pub segment_count: u64,
    /// Segments with every shard sound, in its place and within reach.
    pub whole_count: u64,
    /// Segments that can be read and are not whole.
    pub degraded_count: u64,
    /// Segments that cannot be read now and could be if silent nodes came back.
    pub out_of_reach_count: u64,
    /// Segments that cannot be read even then.
    pub lost_count: u64,
    /// Shards that are lost: to be rebuilt.
    pub lost_shard_count: u64,
    /// Shards on nodes that do not answer.
    pub silent_shard_count: u64,
    /// Sound shards that should be elsewhere.
    pub misplaced_shard_count: u64,
    /// The smallest number of further losses of nodes that every segment survives which can be read now, a silent node
    /// counted as lost; `None` where there is no such segment.
    pub margin: Option<usize>,
    /// How many of the segments that can be read now survive so many further losses of nodes, and no more.
    pub margins: BTreeMap<usize, u64>,
    /// Bytes read and checked against the metadata.
    pub bytes_verified: u64,
    /// By code.
    pub codes: BTreeMap<String, CodeTally>,
    /// Files with bytes in lost segments.
    pub lost_paths: BTreeSet<String>,
    /// Files with bytes in segments that are out of reach.
    pub out_of_reach_paths: BTreeSet<String>,
    /// Files with bytes in degraded segments; at most a thousand.
    pub degraded_paths: BTreeSet<String>,
}

impl Tally {
    /// Is every segment whole?
    pub fn is_whole(&self) -> bool {
        self.whole_count == self.segment_count
    }

    /// Counts a segment, given the verdicts on its shards.
    ///
    /// # Errors
    /// The catalogue cannot be asked for paths.
    pub fn add(
        &mut self,
        segment: SegmentId,
        record: &SegmentRecord,
        verdicts: &[Standing],
        margins: &mut Margins,
        catalogue: &dyn Catalogue,
    ) -> Result<(), CatalogueError> {
        let there: Vec<bool> = verdicts.iter().map(Standing::is_there).collect();
        let not_lost: Vec<bool> = verdicts.iter().map(|verdict| !matches!(verdict, Standing::Lost(_))).collect();
        let whole = verdicts.iter().all(|verdict| *verdict == Standing::Sound);
        let count = |wanted: fn(&Standing) -> bool| verdicts.iter().filter(|verdict| wanted(verdict)).count() as u64;

        self.segment_count += 1;
        self.lost_shard_count += count(|verdict| matches!(verdict, Standing::Lost(_)));
        self.silent_shard_count += count(|verdict| *verdict == Standing::OutOfReach);
        self.misplaced_shard_count += count(|verdict| matches!(verdict, Standing::Misplaced(_)));
        let of_code = self.codes.entry(record.code.clone()).or_default();
        of_code.segment_count += 1;
        of_code.data_bytes += record.geometry.data_bytes;
        of_code.stored_bytes += record.shard_bytes() * record.shards.len() as u64;
        of_code.degraded_count += u64::from(!whole);

        match margins.margin(record, &there) {
            Some(shards) => {
                let nodes = nodes_survived(record, &there, shards);
                self.margin = Some(self.margin.map_or(nodes, |margin| margin.min(nodes)));
                *self.margins.entry(nodes).or_default() += 1;
                if whole {
                    self.whole_count += 1;
                } else {
                    self.degraded_count += 1;
                    let room = DEGRADED_PATHS.saturating_sub(self.degraded_paths.len());
                    self.degraded_paths.extend(catalogue.paths(segment, room)?);
                }
            }
            None if margins.margin(record, &not_lost).is_some() => {
                self.out_of_reach_count += 1;
                self.out_of_reach_paths.extend(catalogue.paths(segment, usize::MAX)?);
            }
            None => {
                self.lost_count += 1;
                self.lost_paths.extend(catalogue.paths(segment, usize::MAX)?);
            }
        }
        Ok(())
    }
}

/// How many nodes may go when any `shards` shards may: fewer, where a node holds several.
fn nodes_survived(record: &SegmentRecord, there: &[bool], mut shards: usize) -> usize {
    let mut held: BTreeMap<NodeId, usize> = BTreeMap::new();
    for (location, there) in record.shards.iter().zip(there) {
        if let (Some(location), true) = (location, there) {
            *held.entry(location.node).or_default() += 1;
        }
    }
    let mut counts: Vec<usize> = held.into_values().collect();
    counts.sort_unstable_by(|a, b| b.cmp(a));
    let mut nodes = 0;
    for count in counts {
        let Some(rest) = shards.checked_sub(count) else { break };
        shards = rest;
        nodes += 1;
    }
    nodes
}

/// Counts by the records and by which nodes answer; asks no node for a shard.
///
/// # Errors
/// The catalogue cannot be read.
pub fn glance(catalogue: &dyn Catalogue, roster: &Roster) -> Result<Tally, CatalogueError> {
    let (mut tally, mut margins) = (Tally::default(), Margins::default());
    for entry in Walk::living(catalogue) {
        let (segment, record) = entry?;
        tally.add(segment, &record, &standings(&record, roster, &[]), &mut margins, catalogue)?;
    }
    Ok(tally)
}

/// A census, and the segments it found wanting that somebody can do something about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counted {
    pub tally: Tally,
    /// Further losses that each survives.
    pub wanting: BTreeMap<SegmentId, usize>,
}

/// Looks at every shard, by its length or by every byte of it, and counts.
///
/// # Errors
/// The catalogue cannot be read; the job was cancelled.
pub(crate) async fn census(
    catalogue: &dyn Catalogue,
    transfer: &Transfer,
    roster: &Roster,
    look: Look,
    job: &Job,
) -> Result<Counted, CareError> {
    let (mut counted, mut margins) = (Counted::default(), Margins::default());
    let mut walk = Walk::living(catalogue);
    loop {
        job.checkpoint().await?;
        let group = walk.by_ref().take(TOGETHER).collect::<Result<Vec<_>, _>>()?;
        if group.is_empty() {
            return Ok(counted);
        }
        let mut looks = tokio::task::JoinSet::new();
        for (segment, record) in group {
            let transfer = transfer.clone();
            looks.spawn(async move {
                let health = match look {
                    Look::Everything => transfer.verify(segment, &record).await,
                    Look::Record | Look::Lengths => transfer.census(segment, &record).await,
                };
                (segment, record, health)
            });
        }
        for (segment, record, health) in looks.join_all().await {
            counted.tally.bytes_verified += health.bytes_verified;
            let verdicts = standings(&record, roster, &by_shard(health));
            let there: Vec<bool> = verdicts.iter().map(Standing::is_there).collect();
            let wanting = verdicts.iter().any(|verdict| matches!(verdict, Standing::Lost(_) | Standing::Misplaced(_)));
            if let (true, Some(margin)) = (wanting, margins.margin(&record, &there)) {
                counted.wanting.insert(segment, margin);
            }
            counted.tally.add(segment, &record, &verdicts, &mut margins, catalogue)?;
            job.update(|progress| progress.segments_done += 1);
        }
    }
}

#[cfg(test)]
#[path = "census_tests.rs"]
mod tests;
