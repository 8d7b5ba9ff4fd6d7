//! Scrub: a member reads its own shards, one after the other, and replaces those that are not what was put.
//!
//! A damaged shard stays until another with the right contents lies beside it, made from the other members' shards and from what is sound of
//! itself. So a shard that cannot be replaced is never less than it was.

use super::{Keeper, Matter, Round};
use crate::care::own_place;
use crate::index::Index;
use crate::question::Found;
use crate::store::ObjectStore;
use crate::versions::{Findings, located};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use weft_format::records::{ObjectId, ObjectRecord, ObjectState, SegmentRecord};
use weft_format::removal::Needless;
use weft_format::{Generation, NodeId, SegmentId, ShardIndex, ShardKey};
use weft_transfer::ShardHealth;

/// Before all shards that there are.
const FIRST: ShardKey = ShardKey { segment: SegmentId(0), generation: Generation(0), index: ShardIndex(0) };

impl Keeper {
    /// Replaces records that cannot be read by those of other members. Where none has one for so long that its upload was given up, this
    /// member takes none any more either: it may have said so in what it cannot read.
    pub(super) async fn restore_records(&mut self, store: &ObjectStore, round: &mut Round) {
        let now = self.env.clock.now();
        for key in self.host.read(Index::damaged) {
            let ObjectId { hash, stamp, .. } = ObjectId::of(key.segment);
            let has_it = |found: &&Found| found.records.iter().any(|record| record.stamp() == stamp);
            let mut findings = store.find(hash, 1).await;
            if !findings.answers.values().any(|found| has_it(&found)) {
                store.find_further(hash, &mut findings).await;
            }
            let holders = findings.answers.iter().filter(|(_, found)| has_it(found)).map(|(node, _)| *node);
            let mut record = None;
            for holder in holders.collect::<Vec<_>>() {
                record = store.fetch(holder, key).await.ok().filter(|record| record.state != ObjectState::GivenUp);
                if record.is_some() {
                    break;
                }
            }
            // Who hears nobody decides nothing.
            let is_heard = findings.silent.len() < findings.answers.len();
            if record.is_none()
                && is_heard
                && self.observed.see(Matter::Unreadable(hash, stamp), now) >= self.settings.leftover_grace
            {
                record = Some(ObjectRecord::given_up(stamp));
            }
            if let Some(record) = record {
                round.pulled += usize::from(self.keep_record(store, key, &record).await);
            }
        }
    }

    /// Checks the shards whose turn it is.
    pub(super) async fn scrub(&mut self, store: &ObjectStore, round: &mut Round) {
        let budget = (self.settings.scrub_bytes_per_second as f64 * self.settings.pause.as_secs_f64()) as u64;
        // A daemon that starts often comes to all of them in time.
        let mut after = self.scrubbed.unwrap_or_else(|| {
            let half = || u128::from(self.env.rng.next_u64());
            ShardKey { segment: SegmentId(half() << 64 | half()), ..FIRST }
        });
        while round.scrubbed_bytes < budget {
            let Some(key) = self.host.read(|index| index.shard_after(after)) else {
                after = FIRST;
                break;
            };
            after = key;
            let id = ObjectId::of(key.segment);
            // Of leftovers nobody knows what they should be.
            if let Some(record) = self.host.read(|index| index.record(id.hash, id.stamp).map(Arc::clone)) {
                self.scrub_shard(store, key, &record, round).await;
            }
        }
        self.scrubbed = Some(after);
    }

    async fn scrub_shard(&self, store: &ObjectStore, key: ShardKey, record: &ObjectRecord, round: &mut Round) {
        let object = &record.name;
        match self.look_at(store, key, record, round).await {
            ShardHealth::Sound | ShardHealth::Unknown(_) => return,
            ShardHealth::Missing => {
                tracing::warn!(object, shard = %key, "a shard is not here any more: it is made again like those of lost members");
                return self.host.forget(key);
            }
            ShardHealth::Damaged(damage) => {
                tracing::warn!(object, shard = %key, "a shard is damaged here: {}", damage.how);
            }
        }
        if !self.has_sound_twin(store, key, record, round).await
            && let Err(why) = self.make_again(store, key, record, round).await
        {
            tracing::warn!(object, shard = %key, "it is not replaced, and is kept as it is: {why}");
            return;
        }
        if self.remove(store, key, Needless::Replaced, Duration::ZERO, Duration::ZERO).await {
            tracing::info!(object, shard = %key, "replaced a damaged shard");
            round.mended += 1;
        }
    }

    async fn look_at(
        &self,
        store: &ObjectStore,
        key: ShardKey,
        record: &ObjectRecord,
        round: &mut Round,
    ) -> ShardHealth {
        // Of an upload that was given up, and of a removed object, nothing is put in order.
        let looked = self.verify_copy(store, record, (self.own(), key)).await;
        let (health, bytes) = looked.unwrap_or((ShardHealth::Sound, 0));
        round.scrubbed_bytes += bytes;
        health
    }

    /// How a shard at a member is, and how many bytes were read for it; `None`: the object's record has no such shard.
    pub(super) async fn verify_copy(
        &self,
        store: &ObjectStore,
        record: &ObjectRecord,
        (node, key): (NodeId, ShardKey),
    ) -> Option<(ShardHealth, u64)> {
        let segment = own_place(record, node, key)?;
        let mut health = self.transfer_among(store, [node].iter()).verify(key.segment, &segment).await;
        Some((health.shards.swap_remove(key.index.as_usize()), health.bytes_verified))
    }

    /// The record of a shard's segment, with all shards where they were found, and this one at this member.
    pub(super) fn located_with(
        &self,
        record: &ObjectRecord,
        key: ShardKey,
        findings: &Findings,
    ) -> Option<SegmentRecord> {
        let ObjectId { hash, number, .. } = ObjectId::of(key.segment);
        let mut segment = located(record, hash, number, findings, |_| 0, &BTreeSet::new())?;
        let index = key.index.as_usize();
        segment.shards[index] = own_place(record, self.own(), key)?.shards.swap_remove(index);
        Some(segment)
    }

    /// Is the same shard here under another name, as it should be? It was made again before, and this one was not removed then.
    async fn has_sound_twin(
        &self,
        store: &ObjectStore,
        key: ShardKey,
        record: &ObjectRecord,
        round: &mut Round,
    ) -> bool {
        let id = ObjectId::of(key.segment);
        let is_twin = |other: &ShardKey| other.segment == key.segment && other.index == key.index && *other != key;
        for twin in self.host.read(|index| index.shards_of(id.hash, id.stamp)).into_iter().filter(is_twin) {
            if self.look_at(store, twin, record, round).await == ShardHealth::Sound {
                return true;
            }
        }
        false
    }

    /// Makes a shard again, at this member and under a name of its own.
    async fn make_again(
        &self,
        store: &ObjectStore,
        key: ShardKey,
        record: &ObjectRecord,
        round: &mut Round,
    ) -> Result<(), String> {
        let (id, index) = (ObjectId::of(key.segment), key.index);
        let findings = store.find(id.hash, usize::from(record.width)).await;
        let segment = self.located_with(record, key, &findings).ok_or("its record is of no contents")?;
        let holders: BTreeSet<NodeId> = segment.nodes().collect();
        let transfer = self.paid_transfer(store, holders.iter());
        let rebuilt = transfer.rebuild(key.segment, &segment, &[index]).await.map_err(|error| error.to_string())?;
        self.count(&rebuilt, round);
        match rebuilt.placed.contains(&(index, self.own())) {
            true => Ok(()),
            false => Err("this member did not take it".into()),
        }
    }
}
