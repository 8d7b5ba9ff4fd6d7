//! A member's care for objects, without any catalogue: it compares records with other members, rebuilds what is missing, and removes what is
//! needless at its own place. Never at another's: what a member removes it has decided itself.

mod copies;
mod leftovers;
mod scrub;

use crate::care::{Matter, Observed, Uploads, is_crowded, is_due, is_short, missing, needless, rebuild_after, targets};
use crate::closest::closest;
use crate::host::Host;
use crate::question::{Answer, Question};
use crate::store::{MemberAt, ObjectStore, fleet_of};
use crate::tree::{Leaf, difference};
use crate::versions::{Findings, Version, located, places, versions};
use copies::Heat;
use std::collections::{BTreeMap, BTreeSet};
use std::num::{NonZeroU32, NonZeroU64};
use std::sync::Arc;
use std::time::Duration;
use weft_cluster::gossip::Liveness;
use weft_env::planted::{Planted, has_planted};
use weft_env::{Env, Runtime};
use weft_format::records::{
    ObjectId, ObjectRecord, ObjectState, ShardLocation, Stamp, data_segment, name_hash, record_key,
};
use weft_format::removal::{Candidate, Evidence, Needless, Verdict, may_remove};
use weft_format::{Generation, NodeId, ShardIndex, ShardKey};
use weft_nodes::node::SHARD_BYTES_MAX;
use weft_nodes::{NodeErrorKind, Rate};
use weft_transfer::{Rebuilt, Settings, Transfer};

/// Members that are compared with in one round.
const COMPARED_MAX: usize = 8;

/// Branches compared with one member in one round: what differs beyond that is found in the next.
const BRANCHES_MAX: usize = 4096;

/// Who the members are.
pub trait Neighbourhood: Send + Sync {
    /// As they are known now, this one included.
    fn members(&self) -> Vec<MemberAt>;
}

/// How a keeper works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeeperSettings {
    /// For how long a shard is to be found nowhere before it is rebuilt.
    pub rebuild_after: Duration,
    /// For how long shards without a record are kept: longer than any put takes.
    pub leftover_grace: Duration,
    /// For how long a version is kept after a newer one: longer than a read of it takes.
    pub superseded_grace: Duration,
    /// Time between rounds.
    pub pause: Duration,
    /// Shard bytes sent and received for rebuilds and copies, all together; `None`: as fast as it goes beside users.
    pub bytes_per_second: Option<NonZeroU64>,
    /// Bytes of own shards that are read and checked.
    pub scrub_bytes_per_second: u64,
    /// A shard that a member gives away so often is copied elsewhere, and once more for each time as often.
    pub hot_reads_per_minute: NonZeroU32,
}

impl Default for KeeperSettings {
    fn default() -> Self {
        Self {
            rebuild_after: Duration::from_secs(600),
            leftover_grace: Duration::from_secs(3600),
            superseded_grace: Duration::from_secs(600),
            pause: Duration::from_secs(30),
            bytes_per_second: NonZeroU64::new(32 << 20),
            // A disk of 4 TB in six days, and a tenth of what it can do.
            scrub_bytes_per_second: 8 << 20,
            // Each shard once a second: a copy, which is read and written once, is made good in moments.
            hot_reads_per_minute: const { NonZeroU32::new(60).unwrap() },
        }
    }
}

/// What a round did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Round {
    /// Members that records were compared with.
    pub compared: usize,
    /// Records that were missing here, and came from others.
    pub pulled: usize,
    /// Records that were missing elsewhere, and were given.
    pub pushed: usize,
    /// Shards that are nowhere and whose time has not come, or that have no place.
    pub missing: usize,
    /// Shards that were rebuilt.
    pub rebuilt: usize,
    /// Uploads that were given up.
    pub given_up: usize,
    /// Shards and records that were removed here.
    pub removed: usize,
    /// Bytes of shards that were read here and checked.
    pub scrubbed_bytes: u64,
    /// Shards that were damaged here, and are replaced.
    pub mended: usize,
    /// Copies that were made of shards that are read much.
    pub copied: usize,
    /// Copies that were made of shards that lie in one domain with another, and take their place.
    pub moved: usize,
    /// Bytes that members sent for rebuilds, to replace damaged shards included.
    pub bytes_read: u64,
    /// Bytes of shards that were stored by rebuilds.
    pub bytes_written: u64,
}

/// The keeper of one member.
pub struct Keeper {
    host: Arc<Host>,
    neighbourhood: Arc<dyn Neighbourhood>,
    settings: KeeperSettings,
    env: Env,
    runtime: Runtime,
    observed: Observed,
    uploads: Uploads,
    /// Versions that were given up here and count elsewhere, by the hash of their names. Records of older ones are neither taken nor given:
    /// two members that have both removed one would give it to each other for ever.
    newer_elsewhere: BTreeMap<u64, Stamp>,
    rounds: u64,
    /// The shard that was checked last.
    scrubbed: Option<ShardKey>,
    heat: Heat,
    /// One for all rebuilds and copies: each has a transfer of its own, and what it moves is paid for by the next.
    rate: Option<Arc<Rate>>,
}

impl Keeper {
    /// The keeper of `host`.
    #[must_use]
    pub fn new(
        host: Arc<Host>,
        neighbourhood: Arc<dyn Neighbourhood>,
        settings: KeeperSettings,
        env: &Env,
        runtime: impl Into<Runtime>,
    ) -> Self {
        let (env, runtime) = (env.clone(), runtime.into());
        Self {
            host,
            neighbourhood,
            settings,
            env,
            runtime,
            observed: Observed::default(),
            uploads: Uploads::default(),
            newer_elsewhere: BTreeMap::new(),
            rounds: 0,
            scrubbed: None,
            heat: Heat::default(),
            rate: settings.bytes_per_second.map(|bytes_per_second| Arc::new(Rate::new(bytes_per_second))),
        }
    }

    /// Works until it is dropped.
    pub async fn run(mut self) {
        loop {
            let round = self.round().await;
            tracing::debug!(?round, "looked after the objects");
            self.env.clock.sleep(self.settings.pause).await;
        }
    }

    /// One round.
    pub async fn round(&mut self) -> Round {
        if let Err(error) = self.host.look_at_place().await {
            tracing::warn!("this member's place cannot be used: {error}");
            return Round::default();
        }
        self.host.look_for_unsure().await;
        let (volume, members) = (self.host.identity().volume, self.neighbourhood.members());
        let store = ObjectStore::new(volume, members, transfer_settings(), &self.env, &self.runtime);
        self.host.set_view(Arc::clone(store.view()));
        let mut round = Round::default();
        self.compare(&store, &mut round).await;
        self.look_after(&store, &mut round).await;
        self.clear_leftovers(&store, &mut round).await;
        self.restore_records(&store, &mut round).await;
        self.scrub(&store, &mut round).await;
        self.copy_hot(&store, &mut round).await;
        self.observed.end_round();
        self.rounds += 1;
        round
    }

    fn own(&self) -> NodeId {
        self.host.identity().node
    }

    /// Exchanges records with other members, until both have the newest version of each name that is to lie at both.
    async fn compare(&self, store: &ObjectStore, round: &mut Round) {
        let is_there = |member: &&MemberAt| member.liveness == Liveness::Alive && member.id != self.own();
        let mut others: Vec<NodeId> = store.members().values().filter(is_there).map(|member| member.id).collect();
        // Each round others, where there are many.
        if others.len() > COMPARED_MAX {
            let by = (self.env.rng.next_u64() % others.len() as u64) as usize;
            others.rotate_left(by);
            others.truncate(COMPARED_MAX);
        }
        for other in others {
            if self.compare_with(store, other, round).await.is_some() {
                round.compared += 1;
            }
        }
    }

    /// `None`: it did not answer all.
    async fn compare_with(&self, store: &ObjectStore, other: NodeId, round: &mut Round) -> Option<()> {
        let own = self.host.shared_with(store.view(), other);
        let mut paths = vec![Vec::new()];
        for _ in 0..BRANCHES_MAX {
            let Some(path) = paths.pop() else { break };
            let question = Question::Compare { asker: self.own().0, path: path.clone() };
            let Ok(Answer::Compared(told)) = store.ask(other, &question).await else { return None };
            let found = difference(&own, &path, &told);
            paths.extend(found.below);
            for leaf in found.theirs {
                round.pulled += usize::from(self.pull(store, other, leaf).await);
            }
            for leaf in found.ours {
                round.pushed += usize::from(self.push(store, other, leaf).await);
            }
        }
        Some(())
    }

    /// Takes over the newest version of a name from another member, unless a newer one is here.
    async fn pull(&self, store: &ObjectStore, other: NodeId, leaf: Leaf) -> bool {
        let key = record_key(leaf.hash, leaf.stamp());
        match store.fetch(other, key).await {
            Ok(record) if record.state != ObjectState::GivenUp => self.adopt(store, key, &record).await,
            _ => false,
        }
    }

    /// Stores a record here. One that is older than what is here, or that was given up here, is not taken.
    async fn adopt(&self, store: &ObjectStore, key: ShardKey, record: &ObjectRecord) -> bool {
        let is_new = self
            .host
            .read(|index| index.record(name_hash(&record.name), record.stamp).is_none() && !index.has_newer(record));
        let is_wanted = is_new && !self.is_replaced_elsewhere(record);
        is_wanted && self.keep_record(store, key, record).await
    }

    /// Stores a record here, also in place of one that is damaged: of that nothing can be known.
    async fn keep_record(&self, store: &ObjectStore, key: ShardKey, record: &ObjectRecord) -> bool {
        let (node, volume) = (self.host.node_of_keeper(), self.host.identity().volume);
        let Ok(sealed) = record.seal(volume, key) else { return false };
        match node.put(key, std::slice::from_ref(&sealed)).await {
            Ok(()) => true,
            Err(error) if error.kind == NodeErrorKind::Exists => {
                let Ok(held) = node.get(key, 0..SHARD_BYTES_MAX).await else { return false };
                if ObjectRecord::unseal(volume, key, &held).is_ok() {
                    return false;
                }
                tracing::warn!(object = record.name, record = %key, "a record is damaged here, and is replaced by that of another member");
                let removed = self.remove(store, key, Needless::Replaced, Duration::ZERO, Duration::ZERO).await;
                removed && node.put(key, &[sealed]).await.is_ok()
            }
            Err(_) => false,
        }
    }

    fn is_replaced_elsewhere(&self, record: &ObjectRecord) -> bool {
        self.newer_elsewhere.get(&name_hash(&record.name)).is_some_and(|newer| *newer > record.stamp)
    }

    async fn push(&self, store: &ObjectStore, other: NodeId, leaf: Leaf) -> bool {
        // What the other has may have been newer: then that is here by now.
        let record = self.host.read(|index| {
            let record = index.record(leaf.hash, leaf.stamp())?;
            (!index.has_newer(record)).then(|| Arc::clone(record))
        });
        let Some(record) = record.filter(|record| !self.is_replaced_elsewhere(record)) else { return false };
        !store.put_record(&record, leaf.hash, BTreeSet::from([other])).await.0.is_empty()
    }

    /// Looks at the newest version of each name that is here.
    async fn look_after(&mut self, store: &ObjectStore, round: &mut Round) {
        let newest: Vec<Arc<ObjectRecord>> = self.host.read(|index| index.newest().cloned().collect());
        for record in newest {
            let hash = name_hash(&record.name);
            let near = closest(store.view(), hash, usize::from(record.width));
            let position = near.all().position(|node| node == self.own()).unwrap_or(usize::MAX);
            let (mut record, mut older) = (Arc::clone(&record), self.older(hash, &record));
            if has_planted(Planted::RemovalForgotten) && record.contents().is_none() {
                older.push(record.stamp);
            }
            if !is_due(self.rounds, position) && older.is_empty() {
                self.observed.keep(|matter| match matter {
                    Matter::Missing(of, ..) | Matter::Void(of, _) | Matter::Superseded(of, _) => *of == hash,
                    Matter::Copy(key) | Matter::Crowded(key) => ObjectId::of(key.segment).hash == hash,
                    Matter::Unreadable(..) => false,
                });
                continue;
            }
            let mut findings = store.find(hash, usize::from(record.width)).await;
            if is_short(&record, &findings) || is_crowded(store.view(), &record, &findings) {
                // Members that came later are closer now. What they do not have is not lost: it stays where it was put.
                store.find_further(hash, &mut findings).await;
            }
            let found = versions(&record.name, &findings);
            // What is newer elsewhere comes here first. Comparison does not bring it to a member that is not close any more.
            let Some(newest) = found.first().filter(|newest| newest.stamp >= record.stamp) else { continue };
            if newest.stamp > record.stamp {
                if self.pull_from_any(store, hash, newest).await {
                    round.pulled += 1;
                    continue;
                }
                // It was given up here, and others have it: it counts all the same.
                let is_given_up = newest.given_up.contains(&self.own());
                let theirs = store.record(&record.name, newest).await.ok().filter(|_| is_given_up);
                let Some(theirs) = theirs else { continue };
                self.newer_elsewhere.insert(hash, theirs.stamp);
                older = self.older(hash, &theirs);
                record = Arc::new(theirs);
            }
            let refused = newest.given_up.clone();
            if !refused.is_empty() && self.clear_void(store, &record, &findings, round).await {
                // The version before it counts.
                self.newer_elsewhere.remove(&hash);
                continue;
            }
            let is_whole = match record.contents() {
                None => true,
                Some(_) => self.restore(store, &record, &findings, &refused, position, round).await,
            };
            self.spread(store, &record, &findings, &refused, position, round).await;
            self.clear_copies(store, &record, &findings, round).await;
            if is_whole || has_planted(Planted::OlderGoneEarly) {
                self.clear_older(store, hash, older, round).await;
            }
        }
    }

    /// Takes over a version's record from one of those that have it.
    async fn pull_from_any(&self, store: &ObjectStore, hash: u64, version: &Version) -> bool {
        let leaf = Leaf { hash, stamp: version.stamp.0 };
        for holder in &version.holders {
            if self.pull(store, *holder, leaf).await {
                return true;
            }
        }
        false
    }

    /// Versions of the same name that are here and older.
    fn older(&self, hash: u64, record: &ObjectRecord) -> Vec<Stamp> {
        self.host.read(|index| {
            let stamps = index.stamps(hash).into_iter().filter(|stamp| *stamp < record.stamp);
            let is_same = |stamp: &Stamp| {
                let held = index.record(hash, *stamp);
                held.is_some_and(|held| held.name == record.name || held.state == ObjectState::GivenUp)
            };
            stamps.filter(is_same).collect()
        })
    }

    /// Rebuilds the shards of a version that are missing for long enough; can it be read with a margin now?
    async fn restore(
        &mut self,
        store: &ObjectStore,
        record: &ObjectRecord,
        findings: &Findings,
        refused: &BTreeSet<NodeId>,
        position: usize,
        round: &mut Round,
    ) -> bool {
        let Some(contents) = record.contents() else { return true };
        let Ok(code) = weft_codes::parse(&contents.code) else { return false };
        let (hash, width) = (name_hash(&record.name), usize::from(record.width));
        let least = (width - code.shape().tolerance.min(width) + 1).min(width);
        let mut is_whole = true;
        for number in 0..contents.segments.len() as u32 {
            let there = places(hash, record.stamp, number, findings);
            let gone = missing(width, &there);
            is_whole &= width - gone.len() >= least;
            let now = self.env.clock.now();
            let limit = rebuild_after(self.settings.rebuild_after, position);
            let due: Vec<ShardIndex> = gone
                .iter()
                .copied()
                .filter(|index| self.observed.see(Matter::Missing(hash, record.stamp, number, *index), now) >= limit)
                .collect();
            let rebuilt = match due.is_empty() {
                true => None,
                false => self.rebuild(store, record, number, findings, refused, &due).await,
            };
            if let Some(rebuilt) = &rebuilt {
                self.count(rebuilt, round);
            }
            let rebuilt = rebuilt.map_or(0, |rebuilt| rebuilt.placed.len());
            round.rebuilt += rebuilt;
            round.missing += gone.len() - rebuilt;
        }
        is_whole
    }

    /// Rebuilds shards at members that hold none of the segment.
    async fn rebuild(
        &self,
        store: &ObjectStore,
        record: &ObjectRecord,
        number: u32,
        findings: &Findings,
        refused: &BTreeSet<NodeId>,
        due: &[ShardIndex],
    ) -> Option<Rebuilt> {
        let (hash, width) = (name_hash(&record.name), usize::from(record.width));
        // Where several have the same, the one that stays counts. The others give theirs up, and have room for another.
        let needless = needless(&places(hash, record.stamp, number, findings));
        let mut segment = located(record, hash, number, findings, |_| 0, &needless)?;
        let holders: BTreeSet<NodeId> = segment.nodes().collect();
        let refused: BTreeSet<NodeId> = refused.iter().chain(findings.silent.keys()).copied().collect();
        let near = closest(store.view(), hash, width);
        let chosen = targets(store.view(), &near, &holders, &refused, due);
        let nodes: BTreeSet<NodeId> = chosen.iter().map(|(_, node)| *node).collect();
        // The record first: a shard without one is a leftover.
        let (accepted, _) = store.put_record(record, hash, nodes).await;
        let chosen: Vec<_> = chosen.into_iter().filter(|(_, node)| accepted.contains(node)).collect();
        if chosen.is_empty() {
            return None;
        }
        let digests = record.contents().and_then(|contents| contents.segments.get(number as usize));
        for (index, node) in &chosen {
            let digest = digests.and_then(|segment| segment.shards.get(index.as_usize()));
            let place = |digest: &_| ShardLocation {
                node: *node,
                generation: Generation::FIRST,
                digest: *digest,
                origin: None,
            };
            segment.shards[index.as_usize()] = digest.map(place);
        }
        let transfer = self.paid_transfer(store, holders.union(&accepted));
        let lost: Vec<ShardIndex> = chosen.iter().map(|(index, _)| *index).collect();
        match transfer.rebuild(data_segment(hash, record.stamp, number), &segment, &lost).await {
            Ok(rebuilt) => {
                tracing::info!(
                    object = record.name,
                    number,
                    shards = rebuilt.placed.len(),
                    "rebuilt shards that were missing"
                );
                Some(rebuilt)
            }
            Err(error) => {
                tracing::warn!(object = record.name, number, "missing shards were not rebuilt: {error}");
                None
            }
        }
    }

    /// Transfer that has no other places to choose from, and lets users go first.
    fn transfer_among<'a>(&self, store: &ObjectStore, nodes: impl Iterator<Item = &'a NodeId>) -> Transfer {
        let members: Vec<&MemberAt> = nodes.filter_map(|node| store.members().get(node)).collect();
        let fleet = fleet_of(&members, &self.env);
        Transfer::new(self.host.identity().volume, fleet, transfer_settings(), &self.runtime).in_background()
    }

    /// The same for rebuilds and copies, which keep to the rate.
    fn paid_transfer<'a>(&self, store: &ObjectStore, nodes: impl Iterator<Item = &'a NodeId>) -> Transfer {
        self.transfer_among(store, nodes).with_rate(self.rate.clone())
    }

    /// Counts what a rebuild moved.
    fn count(&self, rebuilt: &Rebuilt, round: &mut Round) {
        round.bytes_read += rebuilt.bytes_read;
        round.bytes_written += rebuilt.bytes_written;
        self.host.count_rebuilt(rebuilt);
    }

    /// Removes one shard or record here, if that may be.
    async fn remove(&self, store: &ObjectStore, key: ShardKey, why: Needless, seen: Duration, keep: Duration) -> bool {
        let ms = |time: Duration| time.as_millis() as u64;
        let candidate = Candidate::Object { node: self.own(), key, why, keep_ms: ms(keep) };
        let Verdict::Remove(shard) = may_remove(candidate, Evidence::Beside { seen_ms: ms(seen) }) else {
            return false;
        };
        match store.transfer().remove_shard(shard).await {
            Ok(()) => true,
            Err(error) if error.kind == NodeErrorKind::NotFound => false,
            Err(error) => {
                tracing::warn!(shard = %key, %error, "a needless shard was not removed: it is tried again");
                false
            }
        }
    }
}

/// Nothing is read twice here.
fn transfer_settings() -> Settings {
    Settings { cache_bytes: 0, ..Settings::default() }
}
