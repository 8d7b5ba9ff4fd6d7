//! What a member has, in memory: by name, by hash and by version. Pure.

use crate::question::{Found, FoundRecord, FoundShard, Listed, ListedName};
use crate::tree::Leaf;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Bound, RangeInclusive};
use std::sync::Arc;
use weft_env::planted::{Planted, has_planted};
use weft_format::records::{ObjectId, ObjectRecord, ObjectState, Stamp, data_segment, name_hash, record_key};
use weft_format::{Generation, ShardIndex, ShardKey};

/// A longer record does not come along with an answer.
const RECORD_BYTES_ALONG: usize = 16 << 10;

/// Most names in an answer.
pub const LISTED_MAX: usize = 1000;

/// The shards and records of one member.
#[derive(Debug, Default)]
pub struct Index {
    shards: BTreeSet<ShardKey>,
    records: BTreeMap<ShardKey, Arc<ObjectRecord>>,
    /// Records that cannot be read.
    damaged: BTreeSet<ShardKey>,
    /// The versions of each name that have a record; of uploads that were given up the name is not known.
    names: BTreeMap<String, BTreeSet<Stamp>>,
}

impl Index {
    /// It has this shard of data.
    pub fn add_shard(&mut self, key: ShardKey) {
        self.shards.insert(key);
    }

    /// It has a record of this name, which is damaged.
    pub fn add_damaged(&mut self, key: ShardKey) {
        self.damaged.insert(key);
    }

    /// The records that cannot be read.
    pub fn damaged(&self) -> Vec<ShardKey> {
        self.damaged.iter().copied().collect()
    }

    /// It has this record.
    pub fn add_record(&mut self, key: ShardKey, record: ObjectRecord) {
        self.damaged.remove(&key);
        if record.state != ObjectState::GivenUp {
            self.names.entry(record.name.clone()).or_default().insert(record.stamp);
        }
        self.records.insert(key, Arc::new(record));
    }

    /// It has no more what was stored under this name.
    pub fn forget(&mut self, key: ShardKey) {
        self.shards.remove(&key);
        self.damaged.remove(&key);
        let Some(record) = self.records.remove(&key) else { return };
        if let Some(stamps) = self.names.get_mut(&record.name) {
            stamps.remove(&record.stamp);
            if stamps.is_empty() {
                self.names.remove(&record.name);
            }
        }
    }

    /// A version's record.
    pub fn record(&self, hash: u64, stamp: Stamp) -> Option<&Arc<ObjectRecord>> {
        self.records.get(&record_key(hash, stamp))
    }

    /// All that it has of names with this hash. What has come of a version after it was given up is as good as removed: nobody is to count on it.
    pub fn find(&self, hash: u64) -> Found {
        let records = self.records.range(keys_of(hash, false)).map(|(_, record)| FoundRecord {
            stamp: record.stamp.0,
            record: Some(record.encode()).filter(|bytes| bytes.len() <= RECORD_BYTES_ALONG),
        });
        let is_given_up =
            |id: ObjectId| self.record(id.hash, id.stamp).is_some_and(|record| record.state == ObjectState::GivenUp);
        let shards = self.shards.range(keys_of(hash, true)).filter(|key| !is_given_up(ObjectId::of(key.segment)));
        Found { records: records.collect(), shards: shards.map(|key| FoundShard::of(*key)).collect() }
    }

    /// Names that begin with `prefix`, after `after`, each with its newest version.
    pub fn list(&self, prefix: &str, after: &str, limit: usize) -> Listed {
        let from = if after < prefix { prefix } else { after };
        let names = self.names.range(from.to_owned()..).filter(|(name, _)| name.as_str() > after || after.is_empty());
        let mut names = names.take_while(|(name, _)| name.starts_with(prefix)).filter_map(|(name, stamps)| {
            let stamp = *stamps.last()?;
            let bytes = self.record(name_hash(name), stamp)?.contents().map(|contents| contents.bytes);
            Some(ListedName { name: name.clone(), stamp: stamp.0, bytes })
        });
        let listed: Vec<ListedName> = names.by_ref().take(limit.clamp(1, LISTED_MAX)).collect();
        let more = names.next().is_some();
        Listed { names: listed, more }
    }

    /// The newest version of each name.
    pub fn newest(&self) -> impl Iterator<Item = &Arc<ObjectRecord>> {
        self.names.iter().filter_map(|(name, stamps)| self.record(name_hash(name), *stamps.last()?))
    }

    /// The same as leaves of a tree.
    pub fn leaves(&self) -> impl Iterator<Item = (Leaf, u16)> {
        let is_told =
            |record: &&Arc<ObjectRecord>| record.contents().is_some() || !has_planted(Planted::RemovalForgotten);
        self.newest()
            .filter(is_told)
            .map(|record| (Leaf { hash: name_hash(&record.name), stamp: record.stamp.0 }, record.width))
    }

    /// Is a later version of the same name there?
    pub fn has_newer(&self, record: &ObjectRecord) -> bool {
        self.names.get(&record.name).is_some_and(|stamps| stamps.last() > Some(&record.stamp))
    }

    /// Versions of which it has something: hash, stamp.
    pub fn versions(&self) -> BTreeSet<(u64, Stamp)> {
        let keys = self.shards.iter().chain(self.records.keys());
        keys.map(|key| ObjectId::of(key.segment)).map(|id| (id.hash, id.stamp)).collect()
    }

    /// Versions of which it has something, of names with this hash.
    pub fn stamps(&self, hash: u64) -> BTreeSet<Stamp> {
        let shards = self.shards.range(keys_of(hash, true));
        let keys = shards.chain(self.records.range(keys_of(hash, false)).map(|(key, _)| key));
        keys.map(|key| ObjectId::of(key.segment).stamp).collect()
    }

    /// The shards of data of a version that it has.
    pub fn shards_of(&self, hash: u64, stamp: Stamp) -> Vec<ShardKey> {
        let keys = self.shards.range(keys_of(hash, true));
        keys.copied().filter(|key| ObjectId::of(key.segment).stamp == stamp).collect()
    }

    /// The first shard of data after one; `None`: there is none.
    pub fn shard_after(&self, key: ShardKey) -> Option<ShardKey> {
        self.shards.range((Bound::Excluded(key), Bound::Unbounded)).next().copied()
    }

    /// How many records and shards there are.
    pub fn counts(&self) -> (usize, usize) {
        (self.records.len(), self.shards.len())
    }
}

/// All keys that records or data of names with this hash can have.
fn keys_of(hash: u64, is_data: bool) -> RangeInclusive<ShardKey> {
    let first = match is_data {
        true => data_segment(hash, Stamp(0), 0),
        false => record_key(hash, Stamp(0)).segment,
    };
    let last = ObjectId { is_data, hash, number: u32::MAX, stamp: Stamp(u64::MAX) }.segment();
    let key =
        |segment, generation, index| ShardKey { segment, generation: Generation(generation), index: ShardIndex(index) };
    key(first, 0, 0)..=key(last, u32::MAX, u16::MAX)
}

#[cfg(test)]
#[path = "index_tests.rs"]
mod tests;
