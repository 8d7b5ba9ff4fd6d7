//! Dead segments: shards first, record last.

use super::Options;
use super::lent::without_kept;
use super::sightings::Unneeded;
use crate::catalogue::{Catalogue, CatalogueError, Trashed};
use crate::census::CareError;
use crate::job::Job;
use crate::roster::Roster;
use serde::Serialize;
use weft_format::records::SegmentRecord;
use weft_transfer::Transfer;

/// Entries read at once.
const PAGE: usize = 512;

/// What became of dead segments.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Trash {
    /// Segments whose shards and record are gone (or would be, in a dry run).
    pub segment_count: u64,
    /// Bytes of shards removed.
    pub bytes: u64,
    /// Segments still within their grace time.
    pub young_count: u64,
    /// Segments that stay for a later run because a node did not say that its shard is gone.
    pub kept_count: u64,
}

pub(super) async fn empty(
    catalogue: &dyn Catalogue,
    transfer: &Transfer,
    roster: &Roster,
    job: &Job,
    options: Options<'_>,
    now_ms: u64,
) -> Result<Trash, CareError> {
    let mut trash = Trash::default();
    job.begin("emptying trash", 0, 0);
    // What died at this moment is past a grace time of nothing.
    let due_before_ms = now_ms.saturating_sub(options.grace_ms).saturating_add(1);
    let mut after: Option<Trashed> = None;
    loop {
        let page = catalogue.trash(u64::MAX, after.as_ref(), PAGE)?;
        let Some(last) = page.last() else { break };
        after = Some(last.clone());
        let (due, young): (Vec<Trashed>, Vec<Trashed>) = page.into_iter().partition(|trashed| match options.in_use {
            Some(beside) => beside.see(Unneeded::Dead(trashed.segment)) >= options.grace_ms,
            None => trashed.since_ms < due_before_ms,
        });
        trash.young_count += young.len() as u64;
        if !due.is_empty() && !options.dry_run {
            // Otherwise a crash could bring back a file whose shards are gone.
            catalogue.flush()?;
        }
        for trashed in due {
            job.checkpoint().await?;
            let Some(record) = catalogue.segment(trashed.segment)? else { continue };
            // Looked at again at the last moment: what lives is not removed, whatever the trash says.
            if catalogue.live_bytes(trashed.segment)? > 0 {
                continue;
            }
            let own = without_kept(catalogue, trashed.segment, record.clone())?;
            if options.dry_run || remove_shards(transfer, roster, &trashed, &own).await {
                if !options.dry_run {
                    match catalogue.drop_segment(trashed.segment, &record) {
                        // A repair gave it another record meanwhile: its shards are found by a later run.
                        Err(CatalogueError::Changed(_)) => {
                            trash.kept_count += 1;
                            continue;
                        }
                        other => other?,
                    }
                    if let Some(beside) = options.in_use {
                        beside.forget(Unneeded::Dead(trashed.segment));
                    }
                }
                trash.segment_count += 1;
                trash.bytes += own.stored_bytes();
                job.update(|progress| progress.segments_done += 1);
            } else {
                trash.kept_count += 1;
            }
        }
    }
    if let Some(beside) = options.in_use {
        beside.forget_others(|what| matches!(what, Unneeded::Dead(_)));
    }
    Ok(trash)
}

/// Are all shards gone, or on nodes that were given up? One that merely does not answer may come back with them.
async fn remove_shards(transfer: &Transfer, roster: &Roster, trashed: &Trashed, record: &SegmentRecord) -> bool {
    let removal = transfer.remove(trashed.segment, record).await;
    removal.unknown.iter().all(|failure| roster.given_up(failure.node))
}
