//! Former generations: shards that a conversion or a move has replaced, and segments that were joined, kept until their time is over.
//!
//! `due? -> mark as going -> remove the shards -> forget`. Once marked none of them is ever named again, so whoever would take
//! the former generation back comes before the mark, or not at all. A crash in between leaves a mark, and the next run goes on.

use super::Options;
use super::lent::{Lending, without_lent};
use super::sightings::Unneeded;
use crate::catalogue::{Catalogue, CatalogueError};
use crate::census::CareError;
use crate::job::Job;
use crate::roster::Roster;
use serde::Serialize;
use weft_format::SegmentId;
use weft_format::records::RetiredRecord;
use weft_transfer::Transfer;

/// Entries read at once.
const PAGE: usize = 512;

/// What became of former generations.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Retired {
    /// Generations whose shards are gone (or would be, in a dry run).
    pub generation_count: u64,
    /// Bytes of shards removed.
    pub bytes: u64,
    /// Generations whose time is not over.
    pub young_count: u64,
    /// Bytes of their shards.
    pub young_bytes: u64,
    /// Generations that stay for a later run because a node did not say that its shard is gone.
    pub kept_count: u64,
}

/// Removes what is past its time.
pub(crate) async fn remove(
    catalogue: &dyn Catalogue,
    transfer: &Transfer,
    roster: &Roster,
    job: &Job,
    options: Options<'_>,
    now_ms: u64,
) -> Result<Retired, CareError> {
    let mut sum = Retired::default();
    job.begin("removing former generations", 0, 0);
    let mut after = None;
    loop {
        let page = catalogue.retired(after, PAGE)?;
        let Some((segment, last)) = page.last() else { break };
        after = Some((*segment, last.record.generation));
        let own_bytes = own_bytes(catalogue, &page)?;
        for ((segment, retired), bytes) in page.into_iter().zip(own_bytes) {
            job.checkpoint().await?;
            let known_ms = match options.in_use {
                Some(beside) => beside.see(Unneeded::Former(segment, retired.record.generation, retired.since_ms)),
                // A time in the future is no age.
                None => now_ms.saturating_sub(retired.since_ms),
            };
            if !is_due(&retired, options.grace_ms, known_ms) {
                sum.young_count += 1;
                sum.young_bytes += bytes;
                continue;
            }
            let removed_bytes = match options.dry_run {
                true => Some(bytes),
                false => remove_one(catalogue, transfer, roster, segment, &retired).await?,
            };
            if let Some(bytes) = removed_bytes {
                sum.generation_count += 1;
                sum.bytes += bytes;
                job.update(|progress| progress.segments_done += 1);
            } else {
                sum.kept_count += 1;
            }
        }
    }
    if let Some(beside) = options.in_use {
        beside.forget_others(|what| matches!(what, Unneeded::Former(..)));
    }
    Ok(sum)
}

/// Former generations that are kept at this moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Kept {
    /// How many.
    pub generation_count: u64,
    /// Bytes of their shards.
    pub bytes: u64,
}

/// What former generations take.
///
/// # Errors
/// The catalogue cannot be read.
pub fn kept(catalogue: &dyn Catalogue) -> Result<Kept, CatalogueError> {
    let mut kept = Kept::default();
    let mut after = None;
    loop {
        let page = catalogue.retired(after, PAGE)?;
        let Some((segment, last)) = page.last() else { return Ok(kept) };
        after = Some((*segment, last.record.generation));
        kept.generation_count += page.len() as u64;
        kept.bytes += own_bytes(catalogue, &page)?.iter().sum::<u64>();
    }
}

/// For each of these the bytes of its shards that nobody else has.
fn own_bytes(catalogue: &dyn Catalogue, page: &[(SegmentId, RetiredRecord)]) -> Result<Vec<u64>, CatalogueError> {
    let mut lending = Lending::of(catalogue);
    let of_one = |(segment, retired): &(SegmentId, RetiredRecord)| {
        Ok(lending.without_lent(*segment, retired.record.clone())?.stored_bytes())
    };
    page.iter().map(of_one).collect()
}

/// Is its time over, when it is known to be former for `known_ms`?
fn is_due(retired: &RetiredRecord, grace_ms: u64, known_ms: u64) -> bool {
    retired.is_going || known_ms >= retired.keep_ms.max(grace_ms)
}

/// The bytes of its shards, which are gone, and it is forgotten; `None`: it stays for a later run.
async fn remove_one(
    catalogue: &dyn Catalogue,
    transfer: &Transfer,
    roster: &Roster,
    segment: SegmentId,
    retired: &RetiredRecord,
) -> Result<Option<u64>, CatalogueError> {
    let going = RetiredRecord { is_going: true, ..retired.clone() };
    if going != *retired {
        match catalogue.replace_retired(segment, retired, Some(&going)) {
            // Somebody has taken it back, or is removing it.
            Err(CatalogueError::Changed(_)) => return Ok(None),
            other => other?,
        }
    }
    // Nothing that lives names what was marked, but what a mistake would cost is looked at once more. A joined part is dead, and its
    // record, which stays until trash is emptied, names all of it.
    let mut left = going.record.clone();
    if catalogue.live_bytes(segment)? > 0
        && let Some(now) = catalogue.segment(segment)?
    {
        for (index, shard) in left.shards.iter_mut().enumerate() {
            shard.take_if(|place| now.names(index, place));
        }
    }
    let left = without_lent(catalogue, segment, left)?;
    let removal = transfer.remove(segment, &left).await;
    if !removal.unknown.iter().all(|failure| roster.given_up(failure.node)) {
        return Ok(None);
    }
    match catalogue.replace_retired(segment, &going, None) {
        Err(CatalogueError::Changed(_)) => Ok(None),
        other => other.map(|()| Some(left.stored_bytes())),
    }
}

#[cfg(test)]
#[path = "retired_tests.rs"]
mod tests;
