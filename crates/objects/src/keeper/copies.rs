//! Copies of shards that are read much or lie too close to others, and the end of those that nobody needs.
//!
//! A member that gives a shard away more often than it should stores a copy at a member that holds nothing of the segment. Clients read the copy
//! whose member has the least to do. A copy is a shard like any other: of several that hold the same, all but the first may go, in an order
//! that all members agree on whatever they know of each other. So no two members remove theirs because of each other.
//!
//! Two shards of a segment may come to lie at one member alone: it had a copy of one, took another that was missing, and then the first one's
//! other copies were lost. The later of the two is copied to a member that holds none, under an earlier name. So the copy is the one that
//! stays, and the member removes its own as any other copy.

use super::{Keeper, Matter, Round};
use crate::care::{crowded, first_of, needless, own_place, rebuild_after, targets};
use crate::closest::closest;
use crate::host::Reads;
use crate::store::ObjectStore;
use crate::versions::{Findings, located, places};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};
use weft_env::planted::{Planted, has_planted};
use weft_format::records::{ObjectId, ObjectRecord, Stamp, data_segment, name_hash};
use weft_format::removal::Needless;
use weft_format::{NodeId, ShardIndex, ShardKey};
use weft_transfer::ShardHealth;

/// The most copies of one shard.
const COPIES_MAX: usize = 4;

/// Copies made in one round: what is missing elsewhere does not wait for copies of a long object.
const ROUND_MAX: usize = 32;

/// What was read is forgotten by half in this time.
const HALF_LIFE: Duration = Duration::from_secs(60);

/// How much each version is read here.
#[derive(Debug, Default)]
pub(super) struct Heat {
    /// Bytes, the older the less.
    bytes: BTreeMap<(u64, Stamp), f64>,
    noted: Option<Instant>,
}

impl Heat {
    /// Takes in what was read since the last time.
    fn note(&mut self, reads: Reads, now: Instant) {
        let passed = self.noted.replace(now).map_or(Duration::ZERO, |noted| now.saturating_duration_since(noted));
        let left = 0.5f64.powf(passed.as_secs_f64() / HALF_LIFE.as_secs_f64());
        self.bytes.values_mut().for_each(|bytes| *bytes *= left);
        for (version, bytes) in reads {
            *self.bytes.entry(version).or_default() += bytes as f64;
        }
        self.bytes.retain(|_, bytes| *bytes >= 1.0);
    }

    fn bytes_per_minute(&self, hash: u64, stamp: Stamp) -> f64 {
        // What comes evenly adds up to a mean life's worth, which is longer than the half-life by 1/ln 2.
        let bytes = self.bytes.get(&(hash, stamp)).copied().unwrap_or(0.0);
        bytes * std::f64::consts::LN_2 * 60.0 / HALF_LIFE.as_secs_f64()
    }
}

impl Keeper {
    /// Stores copies of shards that are read more often here than they should be.
    pub(super) async fn copy_hot(&mut self, store: &ObjectStore, round: &mut Round) {
        self.heat.note(self.host.take_reads(), self.env.clock.now());
        let versions: Vec<(u64, Stamp)> = self.heat.bytes.keys().copied().collect();
        for (hash, stamp) in versions {
            if round.copied >= ROUND_MAX {
                break;
            }
            let record = self.host.read(|index| {
                let record = index.record(hash, stamp)?;
                (!index.has_newer(record)).then(|| Arc::clone(record))
            });
            let Some(record) = record else { continue };
            let wanted = COPIES_MAX.min(1 + self.rush(&record) as usize);
            if wanted > 1 {
                self.copy_version(store, &record, wanted, round).await;
            }
        }
    }

    /// How often this member gives its shards of a version away, as parts of how often is much.
    fn rush(&self, record: &ObjectRecord) -> f64 {
        let hash = name_hash(&record.name);
        let keys = self.host.read(|index| index.shards_of(hash, record.stamp));
        let bytes: u64 =
            keys.iter().filter_map(|key| own_place(record, self.own(), *key)).map(|of| of.shard_bytes()).sum();
        let reads = self.heat.bytes_per_minute(hash, record.stamp) / bytes.max(1) as f64;
        reads / f64::from(self.settings.hot_reads_per_minute.get())
    }

    async fn copy_version(&self, store: &ObjectStore, record: &ObjectRecord, wanted: usize, round: &mut Round) {
        let (hash, width) = (name_hash(&record.name), usize::from(record.width));
        let findings = store.find(hash, width).await;
        let near = closest(store.view(), hash, width);
        for key in self.host.read(|index| index.shards_of(hash, record.stamp)) {
            if round.copied >= ROUND_MAX {
                return;
            }
            let number = ObjectId::of(key.segment).number;
            let there = places(hash, record.stamp, number, &findings);
            if there.get(&key.index).is_none_or(|copies| copies.len() >= wanted) {
                continue;
            }
            let holders: BTreeSet<NodeId> = there.values().flatten().map(|(node, _)| *node).collect();
            let silent = findings.silent.keys().copied().collect();
            let Some((_, to)) = targets(store.view(), &near, &holders, &silent, &[key.index]).pop() else { continue };
            let Some(segment) = self.located_with(record, key, &findings) else { continue };
            // The record first: a shard without one is a leftover.
            if store.put_record(record, hash, BTreeSet::from([to])).await.0.is_empty() {
                continue;
            }
            let transfer = self.paid_transfer(store, holders.iter().chain([&to]));
            match transfer.relocate(key.segment, &segment, key.index, Some(to)).await {
                Ok(_) => {
                    tracing::info!(object = record.name, shard = %key, to = store.address(to), "copied a shard that is read much");
                    round.copied += 1;
                }
                Err(error) => tracing::debug!(object = record.name, shard = %key, "a shard was not copied: {error}"),
            }
        }
    }

    /// Copies shards that have lain in one domain with another for long enough.
    pub(super) async fn spread(
        &mut self,
        store: &ObjectStore,
        record: &ObjectRecord,
        findings: &Findings,
        refused: &BTreeSet<NodeId>,
        position: usize,
        round: &mut Round,
    ) {
        let count = record.contents().map_or(0, |contents| contents.segments.len()) as u32;
        let (hash, width) = (name_hash(&record.name), usize::from(record.width));
        let limit = rebuild_after(self.settings.rebuild_after, position);
        for number in 0..count {
            let there = places(hash, record.stamp, number, findings);
            let now = self.env.clock.now();
            let mut due = crowded(store.view(), &there);
            due.retain(|key| self.observed.see(Matter::Crowded(*key), now) >= limit);
            // What is missing has a place first.
            if due.is_empty() || there.len() < width || has_planted(Planted::TwoAtOneMember) {
                continue;
            }
            let needless = needless(&there);
            let Some(segment) = located(record, hash, number, findings, |_| 0, &needless) else { continue };
            let holders: BTreeSet<NodeId> = segment.nodes().collect();
            let refused: BTreeSet<NodeId> = refused.iter().chain(findings.silent.keys()).copied().collect();
            let near = closest(store.view(), hash, width);
            let indices: Vec<ShardIndex> = due.iter().map(|key| key.index).collect();
            for (index, to) in targets(store.view(), &near, &holders, &refused, &indices) {
                // The record first: a shard without one is a leftover.
                if store.put_record(record, hash, BTreeSet::from([to])).await.0.is_empty() {
                    continue;
                }
                let transfer = self.paid_transfer(store, holders.iter().chain([&to]));
                match transfer.copy_before(data_segment(hash, record.stamp, number), &segment, index, to).await {
                    Ok(Some(_)) => {
                        tracing::info!(object = record.name, number, %index, to = store.address(to), "copied a shard that lay beside another");
                        round.moved += 1;
                    }
                    // Its member mends it first.
                    Ok(None) => {}
                    Err(error) => {
                        tracing::debug!(object = record.name, number, %index, "a shard was not copied: {error}")
                    }
                }
            }
        }
    }

    /// Removes own shards that others hold, too, unless they are read much.
    pub(super) async fn clear_copies(
        &mut self,
        store: &ObjectStore,
        record: &ObjectRecord,
        findings: &Findings,
        round: &mut Round,
    ) {
        let hash = name_hash(&record.name);
        // It has a part of the readers only: without it the others would have them all again.
        if self.rush(record) * COPIES_MAX as f64 >= 1.0 {
            return;
        }
        for key in self.host.read(|index| index.shards_of(hash, record.stamp)) {
            let there = places(hash, record.stamp, ObjectId::of(key.segment).number, findings);
            let copies = there.get(&key.index).map_or(&[][..], Vec::as_slice);
            let is_other = |copy: &(NodeId, ShardKey)| *copy != (self.own(), key);
            let first = match has_planted(Planted::CopiesOfEachOther) {
                true => copies.iter().copied().find(is_other),
                false => first_of(copies).filter(is_other),
            };
            let Some(first) = first else { continue };
            let (seen, grace) =
                (self.observed.see(Matter::Copy(key), self.env.clock.now()), self.settings.superseded_grace);
            if seen >= grace
                && (has_planted(Planted::CopiesOfEachOther)
                    || matches!(self.verify_copy(store, record, first).await, Some((ShardHealth::Sound, _))))
            {
                round.removed += usize::from(self.remove(store, key, Needless::Copy, seen, grace).await);
            }
        }
    }
}

#[cfg(test)]
#[path = "copies_tests.rs"]
mod tests;
