//! Values, and absences, of keys that only the owner changes: an owner reads what it has read or written before without the server.
//!
//! A cached value is the one on the server, because only this process changes it, and takes it out first. A key falls into one of
//! some buckets by chance. A bucket counts the changes that began or ended in it, so that a view can tell whether what it has read from
//! here still holds when the server answers its next question.

use super::failure::Failure;
use super::fresh::Fresh;
use crate::deltas::Delta;
use crate::keys::SHARED;
use crate::kv::Batch;
use quick_cache::Weighter;
use quick_cache::sync::Cache as Values;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use weft_env::sync::Mutex;

/// Some 200,000 inodes or names.
const CAPACITY_BYTES: u64 = 64 << 20;
/// How many entries that is, about.
const ENTRIES: usize = 250_000;
/// Key, value and entry headers, rounded up.
const ENTRY_BYTES: usize = 128;
const BUCKETS: usize = 1024;

type Value = Option<Arc<[u8]>>;

#[derive(Clone)]
struct ByBytes;

impl Weighter<Vec<u8>, Value> for ByBytes {
    fn weight(&self, key: &Vec<u8>, value: &Value) -> u64 {
        (ENTRY_BYTES + key.len() + value.as_ref().map_or(0, |value| value.len())) as u64
    }
}

#[derive(Default)]
struct Bucket {
    /// Commits under way that change a key of it. One whose outcome is not known stays for ever.
    changing: u32,
    /// Commits that began or ended.
    version: u64,
}

/// A bucket as it was when a value of it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engines) struct Seen {
    bucket: usize,
    version: u64,
}

/// A moment at which no commit was under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engines) struct Quiet(u64);

pub(in crate::engines) struct Cache {
    values: Values<Vec<u8>, Value, ByBytes>,
    buckets: Vec<Mutex<Bucket>>,
    fresh: Mutex<Fresh>,
    /// Commits that began, and that ended.
    begun: AtomicU64,
    ended: AtomicU64,
}

/// What a commit will change.
pub(in crate::engines) struct Changes {
    writes: Vec<(Vec<u8>, Value)>,
    /// Of values that were cached before it.
    deltas: Vec<(Vec<u8>, Delta, Option<Value>)>,
    /// With the version of each if nothing else changed it when this began.
    buckets: BTreeMap<usize, Option<u64>>,
}

/// How a commit ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engines) enum Outcome {
    Done,
    NotDone,
    Unknown,
}

fn is_own(key: &[u8]) -> bool {
    !SHARED.iter().any(|shared| key.starts_with(shared.prefix))
}

fn hash_of(key: &[u8]) -> u64 {
    crc_fast::checksum(crc_fast::CrcAlgorithm::Crc64Nvme, key)
}

fn bucket_at(hash: u64) -> usize {
    (hash % BUCKETS as u64) as usize
}

fn bucket_of(key: &[u8]) -> usize {
    bucket_at(hash_of(key))
}

/// Commits a batch while what it changes is not cached.
///
/// # Errors
/// Those of the commit.
pub(in crate::engines) fn during(
    cache: Option<&Cache>,
    batch: Batch,
    commit: impl FnOnce(Batch) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let Some(cache) = cache else { return commit(batch) };
    let read: Vec<Vec<u8>> = batch.keys().cloned().collect();
    let changes = cache.begin(&batch);
    let committed = commit(batch);
    let outcome = match &committed {
        Ok(()) => Outcome::Done,
        Err(Failure::Lost(_) | Failure::Failed(_) | Failure::Fenced | Failure::Full) => Outcome::Unknown,
        Err(_) => Outcome::NotDone,
    };
    cache.end(changes, outcome);
    if committed.is_err() {
        cache.doubt(&read);
    }
    committed
}

impl Cache {
    pub fn new() -> Self {
        Self {
            values: Values::with_weighter(ENTRIES, CAPACITY_BYTES, ByBytes),
            buckets: (0..BUCKETS).map(|_| Mutex::default()).collect(),
            fresh: Mutex::default(),
            begun: AtomicU64::new(0),
            ended: AtomicU64::new(0),
        }
    }

    /// What there is at `key`, if that is known.
    pub fn get(&self, key: &[u8]) -> Option<(Option<Vec<u8>>, Seen)> {
        let hash = hash_of(key);
        let index = bucket_at(hash);
        let bucket = self.buckets[index].lock();
        let value = match self.values.get(key) {
            Some(value) => value,
            None if self.fresh.lock().lacks(key, hash) => None,
            None => return None,
        };
        (bucket.changing == 0)
            .then(|| (value.map(|value| value.to_vec()), Seen { bucket: index, version: bucket.version }))
    }

    /// No key of the domain of `key` is on the server.
    pub fn begin_domain(&self, key: &[u8]) {
        if is_own(key) {
            self.fresh.lock().begin(key);
        }
    }

    /// Does it still hold?
    pub fn holds(&self, seen: &Seen) -> bool {
        self.buckets[seen.bucket].lock().version == seen.version
    }

    /// Before the server is asked; `None`: its answers are not to be kept.
    pub fn quiet(&self) -> Option<Quiet> {
        let ended = self.ended.load(Ordering::SeqCst);
        (self.begun.load(Ordering::SeqCst) == ended).then_some(Quiet(ended))
    }

    /// The server answered a question that was asked after `since`.
    pub fn fill(&self, key: &[u8], value: Option<&[u8]>, since: Quiet) {
        if !is_own(key) {
            return;
        }
        let bucket = self.buckets[bucket_of(key)].lock();
        // A commit that begins after this takes the key out again.
        if bucket.changing == 0 && self.begun.load(Ordering::SeqCst) == since.0 {
            self.values.insert(key.to_vec(), value.map(Into::into));
        }
    }

    /// A commit begins: what it changes is cached no more.
    pub fn begin(&self, batch: &Batch) -> Changes {
        self.begun.fetch_add(1, Ordering::SeqCst);
        let writes = batch.writes.iter().map(|(key, value)| (key.clone(), value.as_deref().map(Into::into)));
        let mut fresh = self.fresh.lock();
        let bucket = |key: &Vec<u8>| {
            let hash = hash_of(key);
            fresh.note(key, hash);
            (bucket_at(hash), None)
        };
        let buckets = batch.changed_keys().map(bucket).collect();
        drop(fresh);
        let mut changes = Changes { writes: writes.collect(), deltas: Vec::new(), buckets };
        for (index, alone) in &mut changes.buckets {
            let mut bucket = self.buckets[*index].lock();
            bucket.version += 1;
            *alone = (bucket.changing == 0).then_some(bucket.version);
            bucket.changing += 1;
        }
        for (key, delta) in &batch.deltas {
            let before = self.values.remove(key).map(|(_, value)| value);
            changes.deltas.push((key.clone(), delta.clone(), before));
        }
        for (key, _) in &batch.writes {
            self.values.remove(key);
        }
        changes
    }

    /// A commit failed in a check: what it has read here may be of before a change that was believed not done.
    pub fn doubt(&self, keys: &[Vec<u8>]) {
        for key in keys {
            let _bucket = self.buckets[bucket_of(key)].lock();
            self.values.remove(key);
        }
    }

    pub fn end(&self, changes: Changes, outcome: Outcome) {
        let Changes { writes, deltas, buckets } = changes;
        let applied = deltas.into_iter().filter_map(|(key, delta, before)| {
            let value = delta.apply(Some(&before??)).ok()?;
            Some((key, Some(value.into())))
        });
        let values: Vec<(Vec<u8>, Value)> = match outcome {
            Outcome::Done => writes.into_iter().filter(|(key, _)| is_own(key)).chain(applied).collect(),
            Outcome::NotDone | Outcome::Unknown => Vec::new(),
        };
        for (key, value) in values {
            let index = bucket_of(&key);
            let bucket = self.buckets[index].lock();
            // Of two that change one key at the same time nobody knows here which was last.
            if buckets[&index] == Some(bucket.version) {
                self.values.insert(key, value);
            }
        }
        for index in buckets.into_keys() {
            let mut bucket = self.buckets[index].lock();
            bucket.version += 1;
            if outcome != Outcome::Unknown {
                bucket.changing -= 1;
            }
        }
        self.ended.fetch_add(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
#[path = "cache_tests.rs"]
mod tests;
