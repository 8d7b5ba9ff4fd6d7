//! Values (and absences) of hot owner-only keys as the file has them, so that a lookup need not go through SQLite.

use crate::engines::memtable::Shared;
use quick_cache::Weighter;
use quick_cache::sync::Cache;

/// Some 200,000 inodes or names; the kernel and the volume cache the hottest above it.
const CAPACITY_BYTES: u64 = 64 << 20;
/// How many entries that is, about: the cache remembers so many keys that it has dropped, to keep those that come back.
const ENTRIES: usize = 250_000;
/// Key, value and entry headers, rounded up.
const ENTRY_BYTES: usize = 128;

/// A value of the file, and the first epoch that has it. It holds in every later epoch as long as it is in the cache.
#[derive(Clone)]
struct Entry {
    since: u64,
    value: Option<Shared>,
}

#[derive(Clone)]
struct ByBytes;

impl Weighter<Shared, Entry> for ByBytes {
    fn weight(&self, key: &Shared, entry: &Entry) -> u64 {
        (ENTRY_BYTES + key.len() + entry.value.as_ref().map_or(0, |value| value.len())) as u64
    }
}

pub(super) struct ValueCache(Cache<Shared, Entry, ByBytes>);

impl ValueCache {
    pub fn new() -> Self {
        Self(Cache::with_weighter(ENTRIES, CAPACITY_BYTES, ByBytes))
    }

    /// What the file has of `key` in `epoch`, if it is known.
    pub fn get(&self, key: &[u8], epoch: u64) -> Option<Option<Shared>> {
        self.0.get(key).filter(|entry| entry.since <= epoch).map(|entry| entry.value)
    }

    /// From epoch `since` on, the file has `value`.
    pub fn put(&self, key: Shared, since: u64, value: Option<Shared>) {
        self.0.insert(key, Entry { since, value });
    }

    pub fn forget(&self, key: &[u8]) {
        self.0.remove(key);
    }
}
