//! Shards that no record names, found by listing nodes.
//!
//! A shard is an orphan if no record of its segment in the catalogue, previous generations included, names it *at this node* when asked
//! again. `weft_format::removal` says when it may go.

use super::owned::Owners;
use super::unreferenced::Witness;
use crate::catalogue::{Catalogue, CatalogueError};
use crate::census::CareError;
use crate::job::Job;
use crate::roster::Roster;
use serde::Serialize;
use weft_env::planted::{Planted, has_planted};
use weft_format::records::{Fate, OPENINGS, OpeningsRecord, is_replica};
use weft_format::removal::{Candidate, Evidence, Item, Verdict, may_remove};
use weft_format::{NodeId, SegmentId, ShardKey};
use weft_nodes::{Node, NodeError, NodeErrorKind};
use weft_transfer::Transfer;

/// Keys listed at once.
const PAGE: usize = 1024;

/// Keys accepted from one node: more than any disk can hold, and few enough for memory. A node that lists more is faulty.
const KEYS_MAX: usize = 1 << 26;

/// The outcome for shards that no record names.
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
    /// Shards stored by other metadata of the volume, unknown to this metadata: never touched.
    pub unknown_count: u64,
    /// Objects whose names are no shard names: never touched.
    pub foreign_count: u64,
    /// Nodes from which nothing was removed because they could not be listed: name and reason.
    pub skipped_nodes: Vec<(String, String)>,
    /// Orphans that could not be removed, and why.
    pub failures: Vec<String>,
}

impl Orphans {
    /// Shards that stay, and why.
    fn count_left(&mut self, verdict: Verdict) {
        match verdict {
            Verdict::Wait => self.young_count += 1,
            Verdict::Unknown => self.unknown_count += 1,
            Verdict::Remove(_) | Verdict::Mark(_) | Verdict::Keep => {}
        }
    }
}

pub(super) async fn remove(
    catalogue: &dyn Catalogue,
    transfer: &Transfer,
    roster: &Roster,
    job: &Job,
    witness: Witness<'_>,
    dry_run: bool,
    repair_runs: bool,
) -> Result<Orphans, CareError> {
    let mut orphans = Orphans::default();
    job.begin("looking for orphans", 0, 0);
    for (id, facts) in &roster.nodes {
        let Some(node) = transfer.fleet().get(*id) else { continue };
        if roster.given_up(*id) && !facts.answers() {
            continue;
        }
        // Read before the shard's record: if a shard is settled here and no record names it then, no record will ever name it.
        let openings = catalogue.openings()?;
        match list(&*node, &facts.record.name, KEYS_MAX, job, &mut orphans.foreign_count).await? {
            // An incomplete list proves nothing, so nothing of it is used.
            Err(error) => orphans.skipped_nodes.push((facts.record.name.clone(), error.to_string())),
            Ok(mut keys) => {
                keys.retain(|key| key.segment != OPENINGS && !is_replica(key.segment));
                orphans.listed_count += keys.len() as u64;
                let node = &*node;
                let sweep = Sweep { catalogue, transfer, node, openings, id: *id, job, witness, dry_run, repair_runs };
                sweep.run(&keys, &mut orphans).await?;
            }
        }
    }
    witness.forget_others(|item| matches!(item, Item::Shard(..)));
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
        // Each page must continue after the previous one, or the listing would never end.
        let goes_on = keys.last().into_iter().chain(&page.keys).is_sorted_by(|one, next| one < next);
        keys.extend(page.keys);
        if !goes_on || keys.len() > keys_max {
            let detail = "its list of shards does not ascend, or never ends: check the program that runs there";
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
    witness: Witness<'s>,
    dry_run: bool,
    /// A repair may store a shard that an interrupted one stored before it, long ago, and commit it in a moment.
    repair_runs: bool,
}

impl Sweep<'_> {
    /// The segment that the shard belongs to, whether it has a record, and whether that or a previous generation names the shard here.
    fn naming(&self, key: ShardKey) -> Result<(SegmentId, bool, bool), CatalogueError> {
        let owner = Owners::of(self.catalogue).owner(key)?;
        let record = self.catalogue.segment(owner)?;
        let is_known = record.is_some();
        let previous = self.catalogue.retained_of(owner)?.into_iter().map(|retained| retained.record);
        let is_named = record.into_iter().chain(previous).any(|record| record.has_at(owner, self.id, key));
        Ok((owner, is_known, is_named))
    }

    /// Removes the shards whose grace time is over.
    async fn run(&self, keys: &[ShardKey], orphans: &mut Orphans) -> Result<(), CareError> {
        for key in keys {
            self.job.checkpoint().await?;
            self.look_at(*key, orphans).await?;
        }
        Ok(())
    }

    async fn look_at(&self, key: ShardKey, orphans: &mut Orphans) -> Result<(), CareError> {
        let item = Item::Shard(self.id, key);
        // Read for each key when it is its turn, so after the node was listed: a record committed in between is seen.
        let (_, is_known, is_named) = self.naming(key)?;
        if is_named {
            return Ok(());
        }
        let fate = self.openings.fate(key);
        let may_be_a_repairs = self.repair_runs && is_known;
        let trusts_silence = has_planted(Planted::CollectorTrustsSilence) || has_planted(Planted::OrphanInOneLook);
        let (fate, may_be_a_repairs) = if trusts_silence { (Fate::Over, false) } else { (fate, may_be_a_repairs) };
        let candidate = Candidate::Shard { node: self.id, key, is_named, fate, may_be_a_repairs };
        if fate != Fate::Over {
            // Its grace time begins when no writer can commit it any more.
            orphans.count_left(may_remove(candidate, Evidence::Beside { seen_ms: 0 }));
            return Ok(());
        }
        // Before it is looked at: its time goes on while it cannot be.
        let seen = self.witness.evidence(item, 0);
        let stat = match self.node.stat(key).await {
            Ok(stat) => stat,
            Err(error) if error.kind == NodeErrorKind::NotFound => return Ok(()),
            Err(error) => {
                orphans.failures.push(error.to_string());
                return Ok(());
            }
        };
        let by = match self.witness {
            Witness::Alone { now_ms, grace_ms } => {
                Evidence::alone(youngest_ms(key, stat.modified_ms), now_ms, grace_ms)
            }
            Witness::Owner(_) | Witness::Beside(_) if has_planted(Planted::OrphanInOneLook) => {
                Evidence::Beside { seen_ms: u64::MAX }
            }
            Witness::Owner(_) | Witness::Beside(_) => seen,
        };
        let verdict = may_remove(candidate, by);
        let Verdict::Remove(shard) = verdict else {
            orphans.count_left(verdict);
            return Ok(());
        };
        if !self.dry_run {
            tracing::info!(shard = %key, node = %self.id, "removing a shard that no record names");
            match self.transfer.remove_shard(shard).await {
                Ok(()) => self.witness.forget(item),
                Err(error) if error.kind == NodeErrorKind::NotFound => return Ok(()),
                Err(error) => {
                    orphans.failures.push(error.to_string());
                    return Ok(());
                }
            }
        }
        orphans.removed_count += 1;
        orphans.removed_bytes += stat.bytes;
        // If a process commits it at this very moment, against all grace times, that process must learn that the shard is gone.
        if let (owner, true, true) = self.naming(key)? {
            self.catalogue.mark_damaged(owner)?;
        }
        Ok(())
    }
}

/// Since when a shard may exist: the later of its own time and its segment's.
fn youngest_ms(key: ShardKey, modified_ms: u64) -> u64 {
    key.segment.created_ms().max(modified_ms)
}

#[cfg(test)]
#[path = "orphans_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "endless_tests.rs"]
mod endless_tests;
