//! What is left of versions that nobody needs, and of uploads that ended in the middle.

use super::{Keeper, Round};
use crate::care::Matter;
use crate::question::FoundShard;
use crate::store::ObjectStore;
use crate::versions::{Findings, places};
use std::sync::Arc;
use weft_env::planted::{Planted, has_planted};
use weft_format::records::{ObjectId, ObjectRecord, ObjectState, Stamp, name_hash, record_key};
use weft_format::removal::Needless;

impl Keeper {
    /// Removes versions that are older than one that can be read with a margin, after a while.
    pub(super) async fn clear_older(&mut self, store: &ObjectStore, hash: u64, older: Vec<Stamp>, round: &mut Round) {
        let now = self.env.clock.now();
        for stamp in older {
            let seen = self.observed.see(Matter::Superseded(hash, stamp), now);
            let mut keys = self.host.read(|index| index.shards_of(hash, stamp));
            // Its record last: what is left without one is a leftover.
            keys.push(record_key(hash, stamp));
            for key in keys {
                let grace = self.settings.superseded_grace;
                round.removed += usize::from(self.remove(store, key, Needless::Superseded, seen, grace).await);
            }
        }
    }

    /// Is nothing left of a version that could ever be read? An upload went on after members had given it up, and ended without success.
    /// After a while a member that took its record gives it up, too, so that the version before counts.
    pub(super) async fn clear_void(
        &mut self,
        store: &ObjectStore,
        record: &ObjectRecord,
        findings: &Findings,
        round: &mut Round,
    ) -> bool {
        let (hash, stamp) = (name_hash(&record.name), record.stamp);
        let Some(contents) = record.contents() else { return false };
        let Ok(code) = weft_codes::parse(&contents.code) else { return false };
        // What is silent may have the rest, also if it is dead by rumour.
        let mut findings = findings.clone();
        store.find_further(hash, &mut findings).await;
        let is_void = |number: usize| places(hash, stamp, number as u32, &findings).len() < code.shape().k;
        if !findings.silent.is_empty() || !(0..contents.segments.len()).any(is_void) {
            return false;
        }
        let (seen, grace) =
            (self.observed.see(Matter::Void(hash, stamp), self.env.clock.now()), self.settings.leftover_grace);
        let is_held =
            self.host.read(|index| index.record(hash, stamp).is_some_and(|held| held.state != ObjectState::GivenUp));
        if seen >= grace && is_held {
            let mut keys = self.host.read(|index| index.shards_of(hash, stamp));
            keys.push(record_key(hash, stamp));
            for key in keys {
                round.removed += usize::from(self.remove(store, key, Needless::GivenUp, seen, grace).await);
            }
            // Or it would take the record from those that have it still.
            round.given_up += usize::from(self.refuse_from_now_on(hash, stamp).await);
        }
        true
    }

    /// Gives up uploads of which no member has a record, and removes what is here of them; takes the record over where one has it.
    pub(super) async fn clear_leftovers(&mut self, store: &ObjectStore, round: &mut Round) {
        let (now, grace) = (self.env.clock.now(), self.settings.leftover_grace);
        let leftovers: Vec<(u64, Stamp)> = self.host.read(|index| {
            let is_known = |record: &Arc<ObjectRecord>| record.state != ObjectState::GivenUp;
            let versions = index.versions().into_iter();
            let without = versions.filter(|(hash, stamp)| !index.record(*hash, *stamp).is_some_and(is_known));
            without.filter(|(hash, stamp)| !index.shards_of(*hash, *stamp).is_empty()).collect()
        });
        self.uploads.keep(&leftovers);
        for (hash, stamp) in leftovers {
            let mut findings = store.find(hash, 1).await;
            let count = self.shard_count(hash, stamp, &findings);
            let seen = self.uploads.see((hash, stamp), count, now);
            if seen < grace || !self.give_up(store, hash, stamp, &mut findings, round).await {
                continue;
            }
            for key in self.host.read(|index| index.shards_of(hash, stamp)) {
                round.removed += usize::from(self.remove(store, key, Needless::GivenUp, seen, grace).await);
            }
        }
    }

    /// How many shards of a version are here and were found elsewhere.
    fn shard_count(&self, hash: u64, stamp: Stamp, findings: &Findings) -> usize {
        let others = findings.answers.iter().filter(|(node, _)| **node != self.own());
        let shards = others.flat_map(|(_, found)| &found.shards);
        let is_its = |shard: &&FoundShard| ObjectId::of(shard.key().segment).stamp == stamp;
        self.host.read(|index| index.shards_of(hash, stamp)).len() + shards.filter(is_its).count()
    }

    /// Has this member given the version up for good?
    async fn give_up(
        &self,
        store: &ObjectStore,
        hash: u64,
        stamp: Stamp,
        findings: &mut Findings,
        round: &mut Round,
    ) -> bool {
        let own = self.host.read(|index| index.record(hash, stamp).map(|record| record.state.clone()));
        if let Some(state) = own {
            return state == ObjectState::GivenUp;
        }
        let key = record_key(hash, stamp);
        // Those that came later are closer now.
        store.find_further(hash, findings).await;
        for (node, found) in &findings.answers {
            if !found.records.iter().any(|record| record.stamp() == stamp) {
                continue;
            }
            match store.fetch(*node, key).await {
                Ok(record) if record.state == ObjectState::GivenUp => {}
                Ok(record) => {
                    // Also where a newer version is here: then both are looked at together.
                    round.pulled += usize::from(self.keep_record(store, key, &record).await);
                    return false;
                }
                // It may have the record.
                Err(_) => return false,
            }
        }
        // Who hears nobody decides nothing.
        if findings.silent.len() >= findings.answers.len() {
            return false;
        }
        if has_planted(Planted::GiveUpForgotten) {
            return true;
        }
        let is_given_up = self.refuse_from_now_on(hash, stamp).await;
        round.given_up += usize::from(is_given_up);
        is_given_up
    }

    /// Keeps the word that this member takes no record of the version. Where one has come meanwhile it is refused: one of the two is here,
    /// and stays.
    async fn refuse_from_now_on(&self, hash: u64, stamp: Stamp) -> bool {
        let key = record_key(hash, stamp);
        let Ok(sealed) = ObjectRecord::given_up(stamp).seal(self.host.identity().volume, key) else { return false };
        self.host.node_of_keeper().put(key, &[sealed]).await.is_ok()
    }
}
