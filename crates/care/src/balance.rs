//! Balance: each node comes to hold its share, as nodes come, grow and change their weights.
//!
//! `count the bytes of all nodes -> is one out of its band? -> choose shards -> move them, one byte read for one written -> look at the moved
//! shards`. [`weft_transfer::Balance`] decides which shards move, and how far. A move is the mending of a misplaced shard. The choice is
//! not stored: a run after a crash counts again and finds the rest.

use crate::catalogue::{Catalogue, CatalogueError, Surveyed, Walk};
use crate::census::CareError;
use crate::clock::JobClock;
use crate::job::Job;
use crate::mend::{Look, Mender};
use crate::queue::Event;
use crate::record::{BALANCE, JobRecord};
use crate::roster::Roster;
use crate::run::{Failure, Run, Sums, Work};
use serde::Serialize;
use std::collections::BTreeSet;
use std::sync::Arc;
use weft_format::records::NodeState;
use weft_format::{NodeId, SegmentId};
use weft_transfer::{Balance, Holdings, PASSES, Transfer};

/// Segments in hand at once, as of a repair.
const WORKERS: usize = 4;

/// A node that takes new shards.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Load {
    /// Its name.
    pub node: String,
    /// Bytes of shards that it holds.
    pub held_bytes: u64,
    /// Bytes that are its share.
    pub share_bytes: u64,
}

/// The work of a balance, as far as the records tell.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Estimate {
    /// Is a node so far from its share that anything is to be moved?
    pub is_out: bool,
    /// Segments of which shards are to be moved. None, though `is_out`: no move that may be brings that node nearer to its share.
    pub segment_count: u64,
    /// Bytes of shards to be moved.
    pub bytes_to_move: u64,
    /// Bytes that must move at least for each node to hold its share.
    pub least_bytes: u64,
    /// The bytes that each node holds and should hold, by name.
    pub loads: Vec<Load>,
}

/// How balancing ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Shards moved in this run.
    pub moved_count: u64,
    /// Bytes that nodes sent in this run.
    pub bytes_read: u64,
    /// Bytes stored in this run.
    pub bytes_written: u64,
    /// Bytes that had to move at least.
    pub least_bytes: u64,
    /// Why shards could not be moved.
    pub failures: Vec<Failure>,
}

/// The work and the cost of a balance. Changes nothing. `given_up`: nodes that are taken for lost unless they answer.
///
/// # Errors
/// The catalogue cannot be read.
pub async fn estimate(
    catalogue: &dyn Catalogue,
    transfer: &Transfer,
    given_up: &BTreeSet<NodeId>,
) -> Result<Estimate, CatalogueError> {
    // People wait for it.
    Ok(look(catalogue, transfer, given_up, Roster::look(catalogue, transfer).await?)?.2)
}

/// Moves shards until each node holds its share. Nodes that do not answer neither give nor take.
///
/// # Errors
/// The catalogue fails, or the job is cancelled. Moved shards stay where they are, and a later run continues from
/// there. Shards that cannot be moved are no error: the report counts them.
pub async fn balance(
    catalogue: Arc<dyn Catalogue>,
    transfer: &Transfer,
    job: &Job,
    given_up: &BTreeSet<NodeId>,
    now_ms: u64,
) -> Result<Report, CareError> {
    job.begin("counting", 0, 0);
    let roster = Roster::probe(&*catalogue, transfer).await?;
    let (roster, mut work, estimate) = look(&*catalogue, transfer, given_up, roster)?;
    let moving: Vec<SegmentId> = work.relocations.keys().copied().collect();
    let record = JobRecord::resume(&*catalogue, BALANCE, now_ms)?;
    let mender = Mender {
        catalogue: catalogue.clone(),
        transfer: transfer.clone(),
        roster: Arc::new(roster),
        clock: JobClock::new(job.clock(), now_ms),
    };
    let mut run = Run { name: BALANCE, mender, job, workers: WORKERS, record, sums: Sums::default() };
    job.begin("moving", estimate.segment_count, estimate.bytes_to_move);
    run.drain(&mut work).await?;
    // A moved shard is reported as there only after a look.
    for segment in moving.into_iter().filter(|segment| !work.failed.contains_key(segment)).collect::<Vec<_>>() {
        work.looks.insert(segment, Look::Lengths);
        work.queue.apply(Event::Found { segment, margin: 0 });
    }
    job.begin("checking moved shards", work.queue.waiting_count() as u64, 0);
    run.drain(&mut work).await?;
    let (Sums { moved_count, bytes_read, bytes_written, .. }, failures) = run.end(&work)?;
    Ok(Report { moved_count, bytes_read, bytes_written, least_bytes: estimate.least_bytes, failures })
}

fn look(
    catalogue: &dyn Catalogue,
    transfer: &Transfer,
    given_up: &BTreeSet<NodeId>,
    mut roster: Roster,
) -> Result<(Roster, Work, Estimate), CatalogueError> {
    roster.presume_lost(given_up);
    let (work, estimate) = plan(catalogue, transfer, &roster)?;
    Ok((roster, work, estimate))
}

fn plan(catalogue: &dyn Catalogue, transfer: &Transfer, roster: &Roster) -> Result<(Work, Estimate), CatalogueError> {
    let mut view = (*transfer.fleet().view()).clone();
    for (id, member) in &mut view.members {
        if roster.given_up(*id) {
            member.state = NodeState::Lost;
        }
    }
    let silent: BTreeSet<NodeId> = view.members.keys().copied().filter(|id| !roster.answers(*id)).collect();
    let mut holdings = Holdings::default();
    for entry in Walk::living(catalogue) {
        let record = entry?.record;
        holdings.add(&view, record.nodes(), record.shard_bytes());
    }
    let mut balance = Balance::new(&view, &holdings, &silent);
    let load = |(id, load): (NodeId, &weft_transfer::Load)| Load {
        node: roster.name(id),
        held_bytes: load.held_bytes as u64,
        share_bytes: load.share_bytes as u64,
    };
    let mut loads: Vec<Load> = balance.loads().map(load).collect();
    loads.sort_by(|a, b| a.node.cmp(&b.node));
    let (is_out, least_bytes) = (balance.is_out(), balance.least_bytes());
    let mut estimate = Estimate { is_out, least_bytes, loads, ..Estimate::default() };
    let mut work = Work::default();
    for pass in PASSES.into_iter().filter(|_| is_out) {
        for entry in Walk::living(catalogue) {
            let Surveyed { segment, record, .. } = entry?;
            let shard_bytes = record.shard_bytes();
            let nodes: Vec<Option<NodeId>> =
                record.shards.iter().map(|location| Some(location.as_ref()?.node)).collect();
            let mut chosen = work.relocations.remove(&segment).unwrap_or_default();
            while let Some(relocation) = balance.choose(segment, &nodes, &chosen, shard_bytes, pass) {
                estimate.bytes_to_move += shard_bytes;
                chosen.push(relocation);
            }
            if !chosen.is_empty() {
                work.relocations.insert(segment, chosen);
            }
        }
    }
    estimate.segment_count = work.relocations.len() as u64;
    for segment in work.relocations.keys() {
        // All survive the same before and after.
        work.queue.apply(Event::Found { segment: *segment, margin: 0 });
    }
    Ok((work, estimate))
}
