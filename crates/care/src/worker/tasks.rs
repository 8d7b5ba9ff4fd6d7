//! The tasks of a worker: each runs its job and reports the outcome.

use crate::balance;
use crate::catalogue::{Catalogue, Renewed};
use crate::census::CareError;
use crate::collect::{self, Beside, UnreferencedSince};
use crate::convert;
use crate::job::Job;
use crate::lease::alone;
use crate::openings;
use crate::record::{is_count_owed, note_counted, owe_count};
use crate::repair;
use crate::scrub;
use crate::watch::Task;
use std::collections::BTreeSet;
use std::sync::Arc;
use weft_format::NodeId;
use weft_transfer::Transfer;

/// How a task ended.
pub(super) struct Done {
    /// Is nothing left to be done of it?
    pub(super) is_well: bool,
    /// For people.
    pub(super) what: String,
}

/// The order to a task.
pub(super) struct Order {
    pub(super) task: Task,
    /// Nodes to be taken for lost.
    pub(super) given_up: BTreeSet<NodeId>,
    /// The latest request for a conversion.
    pub(super) request_count: u64,
    /// Now, milliseconds since the Unix epoch.
    pub(super) now_ms: u64,
    /// Now, by the worker's own clock.
    pub(super) at_ms: u64,
    /// Items that the worker has seen unreferenced.
    pub(super) unreferenced_since: Arc<UnreferencedSince>,
}

pub(super) fn name(task: Task) -> &'static str {
    match task {
        Task::Renew(_) => "renewal",
        Task::Repair => "repair",
        Task::Balance => "balance",
        Task::Discard => "removal of previous shards",
        Task::Convert => "conversion",
        Task::Scrub => "scrub",
        Task::Collect => "collection",
    }
}

/// Does the task while no other process works on the volume.
pub(super) async fn perform(
    catalogue: Arc<dyn Catalogue>,
    transfer: &Transfer,
    order: Order,
    holder: &str,
    job: &Job,
) -> Result<Done, CareError> {
    let Order { task, given_up, request_count, now_ms, at_ms, unreferenced_since } = order;
    let beside = Beside { unreferenced_since: &unreferenced_since, at_ms };
    let repair = repair::Options { presumed_lost: given_up.clone(), ..repair::Options::default() };
    if task == Task::Repair
        && let Some(done) = without_repair(&*catalogue, transfer, &repair).await?
    {
        return Ok(done);
    }
    if task == Task::Balance && balance::estimate(&*catalogue, transfer, &given_up).await?.segment_count == 0 {
        return Ok(Done { is_well: true, what: String::new() });
    }
    let waits = |other: &str| tracing::info!("{} waits for {other}", name(task));
    let work = async {
        match task {
            Task::Renew(node) => renew(catalogue.clone(), transfer, job, (node, repair), now_ms).await,
            Task::Repair => repair_all(catalogue.clone(), transfer, job, repair, now_ms).await,
            Task::Balance => balance_all(catalogue.clone(), transfer, job, &given_up, now_ms).await,
            Task::Discard => discard(&*catalogue, transfer, job, beside).await,
            Task::Convert => convert_all(catalogue.clone(), transfer, job, request_count, now_ms).await,
            Task::Scrub => scrub_all(catalogue.clone(), transfer, job, now_ms).await,
            Task::Collect => collect_all(catalogue.clone(), transfer, job, beside, now_ms).await,
        }
    };
    let guarded = openings::guarded(&*catalogue, transfer, job, work);
    alone(&*catalogue, holder, job, waits, guarded).await
}

async fn renew(
    catalogue: Arc<dyn Catalogue>,
    transfer: &Transfer,
    job: &Job,
    (node, mut repair): (NodeId, repair::Options),
    now_ms: u64,
) -> Result<Done, CareError> {
    let found = catalogue.nodes()?.into_iter().find(|(id, _)| *id == node);
    let name = found.map_or_else(|| node.to_string(), |(_, record)| record.name);
    let was_owed = is_count_owed(&*catalogue)?;
    // Before it answers again: from then on nothing else tells that it lacks some.
    owe_count(&*catalogue, now_ms)?;
    match catalogue.renew_node(node)? {
        Renewed::Anew => {
            if !was_owed {
                note_counted(&*catalogue)?;
            }
            Ok(Done { is_well: true, what: format!("node {name} had been deleted or emptied, and was made anew") })
        }
        Renewed::Itself => {
            // No record tells which of its shards are gone: the repair counts them, and rebuilds them there.
            repair.presumed_lost.remove(&node);
            let Done { is_well, what } = repair_all(catalogue, transfer, job, repair, now_ms).await?;
            Ok(Done { is_well, what: format!("node {name} had been deleted except some shards, and is back; {what}") })
        }
    }
}

/// The outcome of a repair that has nothing to do: it would only wait for other processes.
async fn without_repair(
    catalogue: &dyn Catalogue,
    transfer: &Transfer,
    options: &repair::Options,
) -> Result<Option<Done>, CareError> {
    if is_count_owed(catalogue)? {
        return Ok(None);
    }
    let estimate = repair::estimate(catalogue, transfer, options).await?;
    let is_leaving = catalogue.nodes()?.iter().any(|(_, record)| record.state.is_leaving());
    // Marks of dead segments count, too: a repair removes them.
    let is_marked = !catalogue.damaged(None, 1)?.is_empty();
    if estimate.segment_count > 0 || is_leaving || is_marked {
        return Ok(None);
    }
    let is_well = estimate.unreadable_count == 0;
    let what = if is_well { "" } else { "the lost shards cannot be rebuilt from the nodes that answer" };
    Ok(Some(Done { is_well, what: what.into() }))
}

async fn repair_all(
    catalogue: Arc<dyn Catalogue>,
    transfer: &Transfer,
    job: &Job,
    options: repair::Options,
    now_ms: u64,
) -> Result<Done, CareError> {
    let report = repair::repair(catalogue.clone(), transfer, job, options, now_ms).await?;
    note_counted(&*catalogue)?;
    // A node may lose what it has just taken: then shards are lost though none failed.
    let is_whole = report.failures.is_empty()
        && report.waiting_count == 0
        && report.census.lost_count == 0
        && report.census.lost_shard_count == 0;
    let repair::Report { rebuilt_count, moved_count, segment_count, bytes_read, bytes_written, .. } = report;
    // Segments marked meanwhile are left to the next repair. Those that this one could not mend wait longer each time.
    let is_well = is_whole && (rebuilt_count + moved_count > 0 || catalogue.damaged(None, 1)?.is_empty());
    let reason = report.failures.first().map_or(String::new(), |failure| format!("; {}", failure.reason));
    let what = match segment_count {
        0 if is_well => String::new(),
        _ => format!(
            "{rebuilt_count} shards rebuilt and {moved_count} moved of {segment_count} segments, {bytes_read} bytes read \
             and {bytes_written} written{reason}"
        ),
    };
    Ok(Done { is_well, what })
}

async fn balance_all(
    catalogue: Arc<dyn Catalogue>,
    transfer: &Transfer,
    job: &Job,
    given_up: &BTreeSet<NodeId>,
    now_ms: u64,
) -> Result<Done, CareError> {
    let report = balance::balance(catalogue, transfer, job, given_up, now_ms).await?;
    let reason = report.failures.first().map_or(String::new(), |failure| format!("; {}", failure.reason));
    let what = match (report.moved_count, &reason[..]) {
        (0, "") => String::new(),
        (moved_count, reason) => format!(
            "{moved_count} shards moved, {} bytes of at least {} that exact shares need{reason}",
            report.bytes_written, report.least_bytes
        ),
    };
    Ok(Done { is_well: report.failures.is_empty(), what })
}

async fn discard(
    catalogue: &dyn Catalogue,
    transfer: &Transfer,
    job: &Job,
    beside: Beside<'_>,
) -> Result<Done, CareError> {
    let (trash, retained) = collect::discard(catalogue, transfer, job, beside).await?;
    let mut done = Vec::new();
    if retained.generation_count > 0 {
        done.push(format!("{} previous generations removed, {} bytes", retained.generation_count, retained.bytes));
    }
    if trash.segment_count > 0 {
        done.push(format!("{} dead segments removed, {} bytes", trash.segment_count, trash.bytes));
    }
    Ok(Done { is_well: true, what: done.join("; ") })
}

async fn convert_all(
    catalogue: Arc<dyn Catalogue>,
    transfer: &Transfer,
    job: &Job,
    request_count: u64,
    now_ms: u64,
) -> Result<Done, CareError> {
    let options = convert::Options { request_count, ..convert::Options::default() };
    let report = convert::convert(catalogue, transfer, job, options, now_ms).await?;
    Ok(Done { is_well: report.failures.is_empty(), what: report.to_string() })
}

async fn scrub_all(
    catalogue: Arc<dyn Catalogue>,
    transfer: &Transfer,
    job: &Job,
    now_ms: u64,
) -> Result<Done, CareError> {
    let report = scrub::scrub(catalogue, transfer, job, scrub::Options::default(), now_ms, tell_finding).await?;
    let what = format!(
        "{} bytes verified, {} shards found lost or damaged, {} repaired",
        report.bytes_verified, report.finding_count, report.repaired_count
    );
    Ok(Done { is_well: report.failures.is_empty(), what })
}

async fn collect_all(
    catalogue: Arc<dyn Catalogue>,
    transfer: &Transfer,
    job: &Job,
    beside: Beside<'_>,
    now_ms: u64,
) -> Result<Done, CareError> {
    let options = collect::Options { grace_ms: collect::GRACE_MS, in_use: Some(beside), dry_run: false };
    let report = collect::collect(catalogue, transfer, job, options, now_ms).await?;
    let what = match (report.trash.segment_count, report.orphans.removed_count) {
        (0, 0) => String::new(),
        (segments, orphans) => format!("{segments} dead segments and {orphans} orphaned shards removed"),
    };
    Ok(Done { is_well: true, what })
}

fn tell_finding(finding: &scrub::Finding) {
    let scrub::Finding { segment, shard, node, complaint, repaired, .. } = finding;
    tracing::warn!(segment, shard, node, repaired, "scrub: {complaint}");
}
