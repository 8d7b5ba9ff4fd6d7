//! Locks of programs on files, across all processes that change a volume. As on NFS, flock(2) is a lock of the whole file, and excludes
//! byte-range locks of others.

use std::collections::BTreeMap;

use weft_format::Ino;

use super::Store;
use super::values;
use crate::MetaError;
use crate::keys::{Key, Table};
use crate::locks::{FileLock, in_the_way, lock, unlock};

/// A file has no more: its record must stay small.
const LOCKS_MAX: usize = 1000;

impl Store {
    /// This process's session as locks have it; 0 where there is none.
    pub fn lock_session(&self) -> i64 {
        self.session.unwrap_or(0)
    }

    /// The locks of a file.
    ///
    /// # Errors
    /// Those of the engine, and damage.
    pub fn locks(&self, ino: Ino) -> Result<Vec<FileLock>, MetaError> {
        self.view(|txn| {
            let key = Key::Locks(ino);
            txn.get(key)?.map_or(Ok(Vec::new()), |bytes| values::decode_locks(&key, &bytes))
        })
    }

    /// How many locks each session has.
    ///
    /// # Errors
    /// Those of the engine, and damage.
    pub fn lock_counts(&self) -> Result<BTreeMap<i64, u64>, MetaError> {
        let mut counts = BTreeMap::new();
        for (key, value) in self.all_pairs(Table::Locks)? {
            let Some(key) = Key::parse(&key) else { continue };
            for lock in values::decode_locks(&key, &value)? {
                *counts.entry(lock.session).or_default() += 1;
            }
        }
        Ok(counts)
    }

    /// Gives a lock, or says which one is in the way.
    ///
    /// # Errors
    /// `Invalid`: the file has too many locks.
    pub fn lock(&self, ino: Ino, wanted: FileLock) -> Result<Option<FileLock>, MetaError> {
        let mut obstacle = None;
        self.change_locks(ino, |locks| {
            obstacle = in_the_way(locks, &wanted).copied();
            if obstacle.is_none() {
                lock(locks, wanted);
            }
        })?;
        Ok(obstacle)
    }

    /// Takes away what the owner of `part` has within it.
    ///
    /// # Errors
    /// Those of the engine, and damage.
    pub fn unlock(&self, ino: Ino, part: &FileLock) -> Result<(), MetaError> {
        self.change_locks(ino, |locks| unlock(locks, part))
    }

    pub(super) fn change_locks(&self, ino: Ino, mut change: impl FnMut(&mut Vec<FileLock>)) -> Result<(), MetaError> {
        self.transact_by_key(|txn| {
            let key = Key::Locks(ino);
            let found = txn.get(key)?.map_or(Ok(Vec::new()), |bytes| values::decode_locks(&key, &bytes))?;
            let mut locks = found.clone();
            change(&mut locks);
            if locks.len() > LOCKS_MAX {
                return Err(MetaError::TooManyLocks(ino));
            }
            if locks.is_empty() && !found.is_empty() {
                txn.remove(key);
            } else if locks != found {
                txn.put(key, values::locks(&locks));
            }
            Ok(())
        })
    }
}

#[cfg(test)]
#[path = "locks_tests.rs"]
mod tests;
