//! Collection: removes items that nothing refers to, and nothing else. `weft_format::removal` has the rules.
//!
//! `reaper.rs` goes through the queue of unreferenced items: dead segments and previous generations. `orphans.rs` lists nodes to find shards
//! that no record names. Both fail closed: an error or a silence removes nothing. `unreferenced.rs` has the evidence: since when this process
//! has seen each item unreferenced. `owned.rs` says which segment a shard belongs to.

mod orphans;
mod owned;
mod reaper;
mod unreferenced;

use crate::catalogue::{Catalogue, CatalogueError, Surveyed, Walk};
use crate::census::CareError;
use crate::job::Job;
use crate::record::{BALANCE, ConvertRecord, JobRecord, REPAIR, SCRUB};
use crate::roster::Roster;
use reaper::{Reaped, Reaper};
use serde::Serialize;
use std::sync::Arc;
use unreferenced::Witness;
use weft_transfer::Transfer;
use weft_transfer::worth::{Small, by_live_share, is_thin};

pub use orphans::Orphans;
pub use reaper::{Kept, Retained, Trash, kept};
pub use unreferenced::{Beside, UnreferencedSince};
pub use weft_format::removal::GRACE_MS;

/// A repair, scrub, balance or conversion that noted something this short a time ago is taken to be running.
const RUNNING_MS: u64 = 60 * 1000;

/// How to collect.
#[derive(Clone, Copy, Debug)]
pub struct Options<'s> {
    /// Keep items younger than this, if no other process can use the volume.
    pub grace_ms: u64,
    /// Set if a mount or another process may read or write meanwhile. Then only items seen in earlier looks are removed, and the grace time
    /// is [`GRACE_MS`]. `None`: no other process may.
    pub in_use: Option<Beside<'s>>,
    /// Remove nothing, and report what would be removed.
    pub dry_run: bool,
}

/// A living segment of which little is still needed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Thin {
    /// The segment, as text.
    pub segment: String,
    /// Bytes that files refer to.
    pub live_bytes: u64,
    /// Bytes in all.
    pub data_bytes: u64,
}

/// Thin segments named, thinnest first.
const THIN_NAMED: usize = 1000;

/// How a collection ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The grace time that was kept, in milliseconds.
    pub grace_ms: u64,
    /// Were only items removed that earlier looks had seen, because others may use the volume?
    pub in_use: bool,
    /// The outcome for dead segments.
    pub trash: Trash,
    /// The outcome for previous generations of living segments.
    pub retained: Retained,
    /// The outcome for shards that no record names.
    pub orphans: Orphans,
    /// Living segments of which little is needed, thinnest first; at most some hundreds.
    pub thin: Vec<Thin>,
    /// How many there are.
    pub thin_count: u64,
    /// Dead bytes of data in them, which compacting them would free.
    pub thin_dead_bytes: u64,
    /// Living segments that are small and have enough of their like to be merged; some may also be thin.
    pub small_count: u64,
}

/// Removes dead segments and orphans past their grace time, and tells of segments that are worth compacting. Compacting
/// itself moves extents of files, which only the volume's owner may do.
///
/// # Errors
/// The catalogue fails, or the job is cancelled. Failures of nodes are no errors: the report counts what was left.
pub async fn collect(
    catalogue: Arc<dyn Catalogue>,
    transfer: &Transfer,
    job: &Job,
    options: Options<'_>,
    now_ms: u64,
) -> Result<Report, CareError> {
    let repair_runs = job_runs(&*catalogue, now_ms)?;
    let nothing_seen = UnreferencedSince::default();
    let in_use = options.in_use.or(repair_runs.then_some(Beside { unreferenced_since: &nothing_seen, at_ms: 0 }));
    let (grace_ms, witness) = match in_use {
        Some(beside) => (GRACE_MS, Witness::Beside(beside)),
        None => (options.grace_ms, Witness::Alone { now_ms, grace_ms: options.grace_ms }),
    };
    let dry_run = options.dry_run;
    let roster = Roster::probe(&*catalogue, transfer).await?;
    let reaper = Reaper::new((&*catalogue, transfer), &roster, job, witness, dry_run);
    let Reaped { trash, retained } = reaper.run().await?;
    let orphans = orphans::remove(&*catalogue, transfer, &roster, job, witness, dry_run, repair_runs).await?;
    let mut report = Report { grace_ms, in_use: in_use.is_some(), trash, retained, orphans, ..Report::default() };
    find_thin(&*catalogue, &mut report)?;
    Ok(report)
}

/// Removes dead segments only, which the owner of the volume has seen dead for its own, shorter grace time.
///
/// # Errors
/// As [`collect`].
pub async fn empty_trash(
    catalogue: Arc<dyn Catalogue>,
    transfer: &Transfer,
    job: &Job,
    beside: Beside<'_>,
) -> Result<Trash, CareError> {
    Ok(reap(&*catalogue, transfer, job, Witness::Owner(beside)).await?.trash)
}

/// Removes items of the queue whose grace time is over: previous generations and dead segments.
///
/// # Errors
/// As [`collect`].
pub async fn discard(
    catalogue: &dyn Catalogue,
    transfer: &Transfer,
    job: &Job,
    beside: Beside<'_>,
) -> Result<(Trash, Retained), CareError> {
    let Reaped { trash, retained } = reap(catalogue, transfer, job, Witness::Beside(beside)).await?;
    Ok((trash, retained))
}

async fn reap(
    catalogue: &dyn Catalogue,
    transfer: &Transfer,
    job: &Job,
    witness: Witness<'_>,
) -> Result<Reaped, CareError> {
    let roster = Roster::probe(catalogue, transfer).await?;
    Reaper::new((catalogue, transfer), &roster, job, witness, false).run().await
}

/// Does another process repair, scrub, balance or convert? Its shards are stored before they are committed.
fn job_runs(catalogue: &dyn Catalogue, now_ms: u64) -> Result<bool, CatalogueError> {
    let is_recent =
        |ended_ms: Option<u64>, updated_ms: u64| ended_ms.is_none() && now_ms.saturating_sub(updated_ms) < RUNNING_MS;
    for name in [REPAIR, SCRUB, BALANCE] {
        if JobRecord::load(catalogue, name)?.is_some_and(|record| is_recent(record.ended_ms, record.updated_ms)) {
            return Ok(true);
        }
    }
    let conversion = ConvertRecord::load(catalogue)?;
    Ok(conversion.is_some_and(|record| is_recent(record.ended_ms, record.updated_ms)))
}

fn find_thin(catalogue: &dyn Catalogue, report: &mut Report) -> Result<(), CatalogueError> {
    let (mut small, mut thinnest) = (Small::default(), Vec::new());
    for entry in Walk::living(catalogue) {
        let Surveyed { segment, record, live_bytes, .. } = entry?;
        let data_bytes = record.geometry.data_bytes;
        small.count(&record.code, data_bytes);
        if is_thin(live_bytes, data_bytes) {
            report.thin_count += 1;
            report.thin_dead_bytes += data_bytes - live_bytes;
            thinnest.push(Thin { segment: segment.to_string(), live_bytes, data_bytes });
            // Not at each, so that to sort them costs little.
            if thinnest.len() == 2 * THIN_NAMED {
                keep_thinnest(&mut thinnest);
            }
        }
    }
    keep_thinnest(&mut thinnest);
    report.thin = thinnest;
    report.small_count = small.worthwhile_count();
    Ok(())
}

fn keep_thinnest(thin: &mut Vec<Thin>) {
    thin.sort_by(|a, b| {
        let order = by_live_share((a.live_bytes, a.data_bytes), (b.live_bytes, b.data_bytes));
        order.then_with(|| a.segment.cmp(&b.segment))
    });
    thin.truncate(THIN_NAMED);
}
