//! Shards that no record names.
//!
//! A shard is an orphan when the catalogue, asked anew, has no record that names it *at this node*, none of a former generation
//! that is kept either, and segment, shard and
//! the first sight of it are all older than the grace time. First sights outlive the run: a clock that jumps between
//! storing and listing removes nothing before it has been seen twice.

use super::Options;
use crate::catalogue::{Catalogue, CatalogueError};
use crate::census::CareError;
use crate::job::Job;
use crate::roster::Roster;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use weft_format::records::SegmentRecord;
use weft_format::{NodeId, ShardKey};
use weft_nodes::{Node, NodeError, NodeErrorKind};
use weft_transfer::Transfer;

/// Keys listed at once.
const PAGE: usize = 1024;

/// Candidates in one note; a note has at most 64 KiB, a candidate at most 90 bytes.
const CANDIDATES_PER_NOTE: usize = 500;

/// The version of a note; others are refused.
const VERSION: u32 = 1;

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
    /// Objects whose names are no shard names: never touched.
    pub foreign_count: u64,
    /// Nodes of which nothing was removed because they could not be listed: name, and what is the matter.
    pub skipped_nodes: Vec<(String, String)>,
    /// Orphans that could not be removed, and why.
    pub failures: Vec<String>,
}

/// First sights of one node's candidates.
type FirstSeen = BTreeMap<ShardKey, u64>;

pub(super) async fn remove(
    catalogue: &dyn Catalogue,
    transfer: &Transfer,
    roster: &Roster,
    job: &Job,
    options: Options,
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
        let before = load(catalogue, *id)?;
        match list(&*node, job, &mut orphans.foreign_count).await? {
            // An incomplete list proves nothing, so nothing of it is used.
            Err(error) => orphans.skipped_nodes.push((facts.record.name.clone(), error.to_string())),
            Ok(keys) => {
                orphans.listed_count += keys.len() as u64;
                let sweep = Sweep { catalogue, node: &*node, id: *id, job, options, repair_runs, now_ms };
                let candidates = sweep.run(&keys, &before, &mut orphans).await?;
                if !options.dry_run {
                    store(catalogue, *id, &candidates)?;
                }
            }
        }
    }
    Ok(orphans)
}

async fn list(
    node: &dyn Node,
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
        keys.extend(page.keys);
        if !more {
            return Ok(Ok(keys));
        }
    }
}

/// The second look at one node's shards.
struct Sweep<'s> {
    catalogue: &'s dyn Catalogue,
    node: &'s dyn Node,
    id: NodeId,
    job: &'s Job,
    options: Options,
    /// A repair may store a shard that an interrupted one stored before it, long ago, and commit it in a moment.
    repair_runs: bool,
    now_ms: u64,
}

impl Sweep<'_> {
    /// Is it of a former generation that has its own time?
    fn is_kept(&self, key: ShardKey) -> Result<bool, CatalogueError> {
        let retired = self.catalogue.retired_of(key.segment)?;
        Ok(retired.iter().any(|retired| is_named(Some(&retired.record), self.id, key)))
    }

    /// Removes what is ripe; the candidates that remain.
    async fn run(&self, keys: &[ShardKey], before: &FirstSeen, orphans: &mut Orphans) -> Result<FirstSeen, CareError> {
        let mut candidates = FirstSeen::new();
        for key in keys {
            self.job.checkpoint().await?;
            // Read for each key when it is its turn, so after the node was listed: a record committed in between is seen.
            let record = self.catalogue.segment(key.segment)?;
            if is_named(record.as_ref(), self.id, *key) || self.is_kept(*key)? {
                continue;
            }
            let first_seen_ms = before.get(key).copied().unwrap_or(self.now_ms);
            let stat = match self.node.stat(*key).await {
                Ok(stat) => stat,
                Err(error) if error.kind == NodeErrorKind::NotFound => continue,
                Err(error) => {
                    candidates.insert(*key, first_seen_ms);
                    orphans.failures.push(error.to_string());
                    continue;
                }
            };
            let may_be_a_repairs = self.repair_runs && record.is_some();
            let ripe = is_ripe(*key, stat.modified_ms, first_seen_ms, self.options.grace_ms, self.now_ms);
            if may_be_a_repairs || !ripe {
                candidates.insert(*key, first_seen_ms);
                orphans.young_count += 1;
                continue;
            }
            if !self.options.dry_run {
                tracing::info!(shard = %key, node = %self.id, "removing a shard that no record names");
                match self.node.remove(*key).await {
                    Ok(()) => {}
                    Err(error) if error.kind == NodeErrorKind::NotFound => continue,
                    Err(error) => {
                        candidates.insert(*key, first_seen_ms);
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
        }
        Ok(candidates)
    }
}

/// Does the record say that this very shard is at this node?
fn is_named(record: Option<&SegmentRecord>, node: NodeId, key: ShardKey) -> bool {
    let Some(record) = record else { return false };
    let location = record.shards.get(key.index.as_usize()).and_then(Option::as_ref);
    location.is_some_and(|location| location.node == node && location.generation == key.generation)
}

/// Is all that is known of the shard's age older than the grace time? A time in the future is no age at all.
fn is_ripe(key: ShardKey, modified_ms: u64, first_seen_ms: u64, grace_ms: u64, now_ms: u64) -> bool {
    let youngest_ms = key.segment.created_ms().max(modified_ms).max(first_seen_ms);
    youngest_ms.checked_add(grace_ms).is_some_and(|ripe_ms| ripe_ms <= now_ms)
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Note {
    version: u32,
    /// Shard name and first sight, milliseconds since the Unix epoch.
    first_seen_ms: Vec<(String, u64)>,
}

fn note_name(node: NodeId, number: usize) -> String {
    format!("orphans/{node}/{number}")
}

/// First sights of earlier runs. A note that cannot be used is as if there were none: everything is seen for the first time.
fn load(catalogue: &dyn Catalogue, node: NodeId) -> Result<FirstSeen, CatalogueError> {
    let mut seen = FirstSeen::new();
    for number in 0.. {
        let Some(bytes) = catalogue.job(&note_name(node, number))? else { break };
        let note = serde_json::from_slice::<Note>(&bytes).ok().filter(|note| note.version == VERSION);
        let sights = note.map_or(Vec::new(), |note| note.first_seen_ms);
        seen.extend(sights.into_iter().filter_map(|(key, at_ms)| Some((key.parse().ok()?, at_ms))));
    }
    Ok(seen)
}

fn store(catalogue: &dyn Catalogue, node: NodeId, candidates: &FirstSeen) -> Result<(), CatalogueError> {
    let all: Vec<(String, u64)> = candidates.iter().map(|(key, at_ms)| (key.to_string(), *at_ms)).collect();
    let mut number = 0;
    for chunk in all.chunks(CANDIDATES_PER_NOTE) {
        let note = Note { version: VERSION, first_seen_ms: chunk.to_vec() };
        let bytes = serde_json::to_vec(&note).map_err(|error| CatalogueError::Failed(error.to_string()))?;
        catalogue.set_job(&note_name(node, number), Some(&bytes))?;
        number += 1;
    }
    // Notes of an earlier run beyond the new ones.
    while catalogue.job(&note_name(node, number))?.is_some() {
        catalogue.set_job(&note_name(node, number), None)?;
        number += 1;
    }
    Ok(())
}

#[cfg(test)]
#[path = "orphans_tests.rs"]
mod tests;
