//! Shards that no record names.
//!
//! A shard is an orphan when the catalogue, asked anew, has no record that names it *at this node*, and none of a former generation
//! that is kept or of a segment that its own was joined into. Whoever stored it may be about to commit it, so it goes only when
//! its opening says that nobody will any more (`OpeningsRecord::fate`), however long a writer may be stopped, and when it has been
//! so for the grace time: seen so, while others use the volume; where nobody else can write, by the times that segment and shard
//! have. What is of openings that the metadata does not know was stored by other metadata, and is kept.

use super::Options;
use super::lent::borrower;
use super::sightings::Unneeded;
use crate::catalogue::{Catalogue, CatalogueError};
use crate::census::CareError;
use crate::job::Job;
use crate::roster::Roster;
use serde::Serialize;
use weft_format::records::{Fate, OPENINGS, OpeningsRecord, SegmentRecord};
use weft_format::{NodeId, ShardKey};
use weft_nodes::{Node, NodeError, NodeErrorKind};
use weft_transfer::Transfer;

/// Keys listed at once.
const PAGE: usize = 1024;

/// Keys believed of one node: more than any disk holds shards, and what they take in memory is bounded. A node that lists more lies.
const KEYS_MAX: usize = 1 << 26;

/// What became of shards that no record names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Orphans {
    /// Shards looked at.
    pub listed_count: u64,
    /// Orphans removed (or that would be, in a dry run).
    pub removed_count: u64,
    /// Bytes of them.
    pub removed_bytes: u64,
    /// Shards that no record names and that are still within their grace time.
    pub young_count: u64,
    /// Shards that other metadata of the volume stored, of which this one can say nothing: never touched.
    pub unknown_count: u64,
    /// Objects whose names are no shard names: never touched.
    pub foreign_count: u64,
    /// Nodes of which nothing was removed because they could not be listed: name, and what is the matter.
    pub skipped_nodes: Vec<(String, String)>,
    /// Orphans that could not be removed, and why.
    pub failures: Vec<String>,
}

pub(super) async fn remove(
    catalogue: &dyn Catalogue,
    transfer: &Transfer,
    roster: &Roster,
    job: &Job,
    options: Options<'_>,
    repair_runs: bool,
    now_ms: u64,
) -> Result<Orphans, CareError> {
    let mut orphans = Orphans::default();
    job.begin("looking for orphans", 0, 0);
    for (id, facts) in &roster.nodes {
        let Some(node) = transfer.fleet().get(*id) else { continue };
        if roster.given_up(*id) && !facts.answers() {
            continue;
        }
        // Read before a shard's record is: what is settled here and named nowhere then, nobody will name.
        let openings = catalogue.openings()?;
        match list(&*node, &facts.record.name, KEYS_MAX, job, &mut orphans.foreign_count).await? {
            // An incomplete list proves nothing, so nothing of it is used.
            Err(error) => orphans.skipped_nodes.push((facts.record.name.clone(), error.to_string())),
            Ok(mut keys) => {
                keys.retain(|key| key.segment != OPENINGS);
                orphans.listed_count += keys.len() as u64;
                let node = &*node;
                let sweep = Sweep { catalogue, transfer, node, openings, id: *id, job, options, repair_runs, now_ms };
                sweep.run(&keys, &mut orphans).await?;
            }
        }
    }
    if let Some(beside) = options.in_use {
        beside.forget_others(|what| matches!(what, Unneeded::Orphan(..)));
    }
    Ok(orphans)
}

async fn list(
    node: &dyn Node,
    name: &str,
    keys_max: usize,
    job: &Job,
    foreign_count: &mut u64,
) -> Result<Result<Vec<ShardKey>, NodeError>, CareError> {
    let mut keys: Vec<ShardKey> = Vec::new();
    loop {
        job.checkpoint().await?;
        let page = match node.list(keys.last().copied(), PAGE).await {
            Ok(page) => page,
            Err(error) => return Ok(Err(error)),
        };
        *foreign_count += page.foreign.len() as u64;
        let more = page.more && !page.keys.is_empty();
        // Each page goes on from the one before, or there is no end.
        let goes_on = keys.last().into_iter().chain(&page.keys).is_sorted_by(|one, next| one < next);
        keys.extend(page.keys);
        if !goes_on || keys.len() > keys_max {
            let detail = "its list of shards does not ascend, or never ends: see what runs there";
            return Ok(Err(NodeError::new(NodeErrorKind::WrongNode, name, detail)));
        }
        if !more {
            return Ok(Ok(keys));
        }
    }
}

/// A look at one node's shards.
struct Sweep<'s> {
    catalogue: &'s dyn Catalogue,
    transfer: &'s Transfer,
    node: &'s dyn Node,
    openings: OpeningsRecord,
    id: NodeId,
    job: &'s Job,
    options: Options<'s>,
    /// A repair may store a shard that an interrupted one stored before it, long ago, and commit it in a moment.
    repair_runs: bool,
    now_ms: u64,
}

impl Sweep<'_> {
    /// Is it of a former generation that has its own time, or needed by a segment that its own was joined into?
    fn is_kept(&self, key: ShardKey) -> Result<bool, CatalogueError> {
        let retired = self.catalogue.retired_of(key.segment)?;
        let is_former = retired.iter().any(|retired| is_named(Some(&retired.record), self.id, key));
        Ok(is_former || borrower(self.catalogue, self.id, key)?.is_some())
    }

    /// Removes what is ripe.
    async fn run(&self, keys: &[ShardKey], orphans: &mut Orphans) -> Result<(), CareError> {
        for key in keys {
            self.job.checkpoint().await?;
            // Read for each key when it is its turn, so after the node was listed: a record committed in between is seen.
            let record = self.catalogue.segment(key.segment)?;
            if is_named(record.as_ref(), self.id, *key) || self.is_kept(*key)? {
                continue;
            }
            match self.openings.fate(*key) {
                Fate::Over => {}
                Fate::Open => {
                    orphans.young_count += 1;
                    continue;
                }
                Fate::Unknown => {
                    orphans.unknown_count += 1;
                    continue;
                }
            }
            let seen_ms = self.options.in_use.map(|beside| beside.see(Unneeded::Orphan(self.id, *key)));
            let stat = match self.node.stat(*key).await {
                Ok(stat) => stat,
                Err(error) if error.kind == NodeErrorKind::NotFound => continue,
                Err(error) => {
                    orphans.failures.push(error.to_string());
                    continue;
                }
            };
            let may_be_a_repairs = self.repair_runs && record.is_some();
            let is_ripe = match seen_ms {
                Some(seen_ms) => seen_ms >= self.options.grace_ms,
                None => is_old(*key, stat.modified_ms, self.options.grace_ms, self.now_ms),
            };
            if may_be_a_repairs || !is_ripe {
                orphans.young_count += 1;
                continue;
            }
            if !self.options.dry_run {
                tracing::info!(shard = %key, node = %self.id, "removing a shard that no record names");
                match self.transfer.remove_shard(self.id, *key).await {
                    Ok(()) => {}
                    Err(error) if error.kind == NodeErrorKind::NotFound => continue,
                    Err(error) => {
                        orphans.failures.push(error.to_string());
                        continue;
                    }
                }
            }
            orphans.removed_count += 1;
            orphans.removed_bytes += stat.bytes;
            // Whoever committed it in this very moment, against all grace, must not be left believing that it is there.
            if is_named(self.catalogue.segment(key.segment)?.as_ref(), self.id, *key) {
                self.catalogue.mark_damaged(key.segment)?;
            }
            if let Some(whole) = borrower(self.catalogue, self.id, *key)? {
                self.catalogue.mark_damaged(whole)?;
            }
        }
        Ok(())
    }
}

/// Does the record say that this very shard is at this node?
fn is_named(record: Option<&SegmentRecord>, node: NodeId, key: ShardKey) -> bool {
    record.is_some_and(|record| record.has_at(key.segment, node, key))
}

/// Are segment and shard older than the grace time, by the times that they have? A time in the future is no age at all.
fn is_old(key: ShardKey, modified_ms: u64, grace_ms: u64, now_ms: u64) -> bool {
    let youngest_ms = key.segment.created_ms().max(modified_ms);
    youngest_ms.checked_add(grace_ms).is_some_and(|old_ms| old_ms <= now_ms)
}

#[cfg(test)]
#[path = "orphans_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "endless_tests.rs"]
mod endless_tests;
