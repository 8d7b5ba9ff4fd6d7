//! Repair: every lost shard is rebuilt from the others, the segments most at risk first.
//!
//! `probe nodes -> survey the records -> mend by risk -> count every shard -> mend what that found -> count again`. The
//! end is told by the last count, not by the absence of errors.

use crate::catalogue::{Catalogue, CatalogueError, Surveyed, Walk};
use crate::census::{CareError, Tally, census};
use crate::clock::JobClock;
use crate::damage::noted_standings;
use crate::job::Job;
use crate::margin::Margins;
use crate::marks::{Marks, look_at};
use crate::mend::{Look, Mender};
use crate::queue::Event;
use crate::record::{JobRecord, REPAIR};
use crate::roster::{Away, Roster};
use crate::run::{Failure, Run, Sums, Work};
use crate::standing::{Loss, Standing};
use crate::state::state;
use serde::Serialize;
use std::collections::BTreeSet;
use std::sync::Arc;
use weft_format::{NodeId, SegmentId};
use weft_transfer::{Fleet, Transfer};

/// Counts and mends at most this often: losses during a repair are found by the next count, but a node that loses shards
/// as fast as they are rebuilt must not keep the repair from telling so.
const ROUNDS: usize = 3;

/// How to repair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Count by reading every shard instead of asking for its length.
    pub verify: bool,
    /// Segments mended at once.
    pub workers: usize,
    /// Nodes that are taken for lost unless they answer.
    pub presumed_lost: BTreeSet<NodeId>,
}

impl Default for Options {
    /// Four at once keep two cores and the nodes busy, and few enough segments in memory.
    fn default() -> Self {
        Self { verify: false, workers: 4, presumed_lost: BTreeSet::new() }
    }
}

/// The work of a repair, as far as the records tell.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Estimate {
    /// Segments to be mended.
    pub segment_count: u64,
    /// Shards to be rebuilt.
    pub lost_shard_count: u64,
    /// Sound shards to be brought elsewhere.
    pub misplaced_shard_count: u64,
    /// Marked segments: every shard of them is read first.
    pub marked_count: u64,
    /// Segments that have lost shards and cannot be read from those within reach.
    pub unreadable_count: u64,
    /// Shards on nodes that do not answer and were not given up: they are not rebuilt.
    pub silent_shard_count: u64,
    /// Bytes that nodes will send.
    pub bytes_to_read: u64,
    /// Bytes that will be stored.
    pub bytes_to_write: u64,
    /// Nodes that cannot be asked and were not given up.
    pub out_of_reach: Vec<Away>,
}

/// How a repair ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// When the repair began, milliseconds since the Unix epoch; earlier than this run if one was interrupted.
    pub started_ms: u64,
    /// Segments dealt with in this run.
    pub segment_count: u64,
    /// Shards rebuilt in this run.
    pub rebuilt_count: u64,
    /// Sound shards moved in this run.
    pub moved_count: u64,
    /// Bytes that nodes sent in this run.
    pub bytes_read: u64,
    /// Bytes that nodes read in this run; more than they sent where they combine.
    pub bytes_read_by_nodes: u64,
    /// Bytes stored in this run.
    pub bytes_written: u64,
    /// Why segments could not be mended.
    pub failures: Vec<Failure>,
    /// Lost and emptied nodes that no segment refers to any more and that were therefore dropped.
    pub forgotten_nodes: Vec<String>,
    /// Nodes that do not answer and were not given up: name and reason.
    pub out_of_reach: Vec<Away>,
    /// Segments that the last count found and that were not mended: they wait for the next repair.
    pub waiting_count: u64,
    /// The count at the end.
    pub census: Tally,
}

/// The work and the cost of a repair. Changes nothing.
///
/// # Errors
/// The catalogue cannot be read.
pub async fn estimate(
    catalogue: &dyn Catalogue,
    transfer: &Transfer,
    options: &Options,
) -> Result<Estimate, CatalogueError> {
    let mut roster = Roster::probe(catalogue, transfer).await?;
    roster.presume_lost(&options.presumed_lost);
    Ok(survey(catalogue, &roster, transfer.fleet())?.2)
}

/// Repairs all there is to repair.
///
/// # Errors
/// The catalogue fails, or the job is cancelled. Segments mended until then stay mended, and a later repair continues from
/// there. Segments that cannot be mended are no error: the report counts them.
pub async fn repair(
    catalogue: Arc<dyn Catalogue>,
    transfer: &Transfer,
    job: &Job,
    options: Options,
    now_ms: u64,
) -> Result<Report, CareError> {
    job.begin("looking", 0, 0);
    unmark_dead(&*catalogue)?;
    let mut roster = Roster::probe(&*catalogue, transfer).await?;
    roster.take_back(&*catalogue)?;
    roster.presume_lost(&options.presumed_lost);
    let roster = Arc::new(roster);
    let (mut work, living_count, estimate) = survey(&*catalogue, &roster, transfer.fleet())?;
    let record = JobRecord::resume(&*catalogue, REPAIR, now_ms)?;
    let started_ms = record.started_ms;
    let mut bytes_total = estimate.bytes_to_write;
    let (of_mender, clock) = (catalogue.clone(), JobClock::new(job.clock(), now_ms));
    let mender = Mender { catalogue: of_mender, transfer: transfer.clone(), roster: roster.clone(), clock };
    let look = if options.verify { Look::Everything } else { Look::Lengths };
    let mut run = Run { name: REPAIR, mender, job, workers: options.workers, record, sums: Sums::default() };
    let (mut tried, mut round) = (BTreeSet::new(), 0);
    let census = loop {
        job.begin("rebuilding", work.queue.waiting_count() as u64, bytes_total);
        run.drain(&mut work).await?;
        tried.extend(work.failed.keys().copied());
        job.begin("counting", living_count, 0);
        let counted = census(&*catalogue, transfer, &roster, look, job).await?;
        round += 1;
        for (segment, margin) in counted.wanting {
            if !tried.contains(&segment) {
                work.looks.insert(segment, look);
                work.queue.apply(Event::Found { segment, margin });
            }
        }
        if work.queue.waiting_count() == 0 || round == ROUNDS {
            break counted.tally;
        }
        // How many bytes these are is not known before they are looked at.
        bytes_total = 0;
    };
    let waiting_count = work.queue.waiting_count() as u64;
    let (sums, failures) = run.end(&work)?;
    Ok(Report {
        started_ms,
        segment_count: sums.segment_count,
        rebuilt_count: sums.rebuilt_count,
        moved_count: sums.moved_count,
        bytes_read: sums.bytes_read,
        bytes_read_by_nodes: sums.bytes_read_by_nodes,
        bytes_written: sums.bytes_written,
        failures,
        forgotten_nodes: forget_left_nodes(&*catalogue)?,
        out_of_reach: roster.out_of_reach(),
        waiting_count,
        census,
    })
}

/// What is to be mended, and how many segments files refer to.
fn survey(catalogue: &dyn Catalogue, roster: &Roster, fleet: &Fleet) -> Result<(Work, u64, Estimate), CatalogueError> {
    let computes = |id: &NodeId| fleet.get(*id).is_some_and(|node| node.capability().combines);
    let computing: BTreeSet<NodeId> = roster.nodes.keys().copied().filter(computes).collect();
    let (mut work, mut living_count, mut margins) = (Work::default(), 0, Margins::default());
    let mut estimate = Estimate { out_of_reach: roster.out_of_reach(), ..Estimate::default() };
    let marked = marked(catalogue)?;
    for entry in Walk::living(catalogue) {
        let Surveyed { segment, record, damage: noted, .. } = entry?;
        let is_marked = marked.contains(&segment);
        let verdicts = noted_standings(segment, &record, roster, &noted);
        let chosen = |wanted: fn(&Standing) -> bool| -> Vec<usize> {
            (0..verdicts.len()).filter(|index| wanted(&verdicts[*index])).collect()
        };
        let lost = chosen(|verdict| matches!(verdict, Standing::Lost(_)));
        let misplaced = chosen(|verdict| matches!(verdict, Standing::Misplaced(_)));
        living_count += 1;
        estimate.silent_shard_count += chosen(Standing::is_silent).len() as u64;
        if lost.is_empty() && misplaced.is_empty() && !is_marked {
            continue;
        }
        let there: Vec<bool> = verdicts.iter().map(Standing::is_there).collect();
        let survives = state(&record, &verdicts, roster, &mut margins).survives();
        estimate.unreadable_count += u64::from(survives.is_none());
        let margin = match survives {
            Some(survives) => survives.shards,
            // The note may be outdated, so the shards are looked at.
            None if is_marked && !noted.shards().is_empty() => 0,
            None => continue,
        };
        let shard_bytes = record.shard_bytes();
        // Damaged ones are read as well, to see what is left of them.
        let is_read = |verdict: &Standing| verdict.is_there() || matches!(verdict, Standing::Lost(Loss::Damaged(_)));
        let all_read_bytes = shard_bytes * chosen(is_read).len() as u64;
        estimate.segment_count += 1;
        estimate.lost_shard_count += lost.len() as u64;
        estimate.misplaced_shard_count += misplaced.len() as u64;
        estimate.bytes_to_write += shard_bytes * (lost.len() + misplaced.len()) as u64;
        if !lost.is_empty() {
            // Combinations are asked for only where all that is rebuilt has a digest to compare with.
            let helps = |shard: usize| record.shards[shard].as_ref().is_some_and(|at| computing.contains(&at.node));
            let can_combine = lost.iter().all(|shard| record.shards[*shard].is_some())
                && (0..there.len()).all(|shard| !there[shard] || helps(shard));
            // Where whole shards do not suffice, stripes are pieced together from all there is.
            let planned_bytes = margins.repair_bytes(&record, &there, &lost, can_combine);
            estimate.bytes_to_read += planned_bytes.unwrap_or(all_read_bytes);
        }
        // They are read as they are.
        estimate.bytes_to_read += shard_bytes * misplaced.len() as u64;
        if is_marked {
            let look = look_at(&noted, &verdicts);
            estimate.marked_count += 1;
            estimate.bytes_to_read += if look == Look::Everything { all_read_bytes } else { 0 };
            work.looks.insert(segment, look);
        }
        work.queue.apply(Event::Found { segment, margin });
    }
    work.marks = Some(Marks::new(marked));
    Ok((work, living_count, estimate))
}

/// Nothing is mended of a segment that no file refers to any more.
fn unmark_dead(catalogue: &dyn Catalogue) -> Result<(), CatalogueError> {
    for segment in marked(catalogue)? {
        if catalogue.live_bytes(segment)? == 0 {
            let noted = catalogue.damage(segment)?;
            catalogue.replace_damage(segment, noted.as_ref(), None)?;
        }
    }
    Ok(())
}

fn marked(catalogue: &dyn Catalogue) -> Result<BTreeSet<SegmentId>, CatalogueError> {
    const PAGE: usize = 1024;
    let mut marked = BTreeSet::new();
    loop {
        let page = catalogue.damaged(marked.last().copied(), PAGE)?;
        let ended = page.len() < PAGE;
        marked.extend(page);
        if ended {
            return Ok(marked);
        }
    }
}

/// Drops lost and emptied nodes that nothing refers to any more; the names of those dropped.
pub(crate) fn forget_left_nodes(catalogue: &dyn Catalogue) -> Result<Vec<String>, CatalogueError> {
    let mut leaving = catalogue.nodes()?;
    leaving.retain(|(_, record)| record.state.is_leaving());
    for (node, _) in &leaving {
        catalogue.forget_node(*node)?;
    }
    let left: BTreeSet<NodeId> = catalogue.nodes()?.into_iter().map(|(id, _)| id).collect();
    leaving.retain(|(id, _)| !left.contains(id));
    Ok(leaving.into_iter().map(|(_, record)| record.name).collect())
}
