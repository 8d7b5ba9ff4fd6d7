//! Removing what no name leads to any more.

use std::ops::Range;

use weft_format::Ino;
use weft_format::records::Timestamp;
use weft_format::removal::{Item, Removable};

use super::mapping::Changes;
use super::txn::Txn;
use super::{Store, milliseconds};
use crate::MetaError;
use crate::keys::{Key, Table, after, of_ino, unreferenced_inodes};

/// Extents, attributes or pages that one step removes; an extent may cost four keys.
const STEP_PAIRS: usize = 128;

/// Orphans read at once.
const LIST_PAIRS: usize = 1024;

impl Store {
    /// Up to `limit` inodes that have no name any more; those still open are among them.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn orphans(&self, limit: usize) -> Result<Vec<Ino>, MetaError> {
        self.view(|txn| {
            let mut orphans = Vec::new();
            let mut range = unreferenced_inodes();
            loop {
                let wanted = LIST_PAIRS.min(limit - orphans.len());
                let pairs = txn.scan(&range, wanted)?;
                orphans.extend(pairs.iter().filter_map(|(key, _)| match Key::parse(key) {
                    Some(Key::UnreferencedInode(ino)) => Some(ino),
                    _ => None,
                }));
                match pairs.last().filter(|_| pairs.len() == wanted && orphans.len() < limit) {
                    Some((last, _)) => range = after(range, Key::parse(last)),
                    None => return Ok(orphans),
                }
            }
        })
    }

    /// Removes inodes, and what belongs to them, as far as one transaction takes it: answers how many of the first are gone, or held by
    /// another process. Call it again with the others. Nothing that still has a name is touched; an inode that is gone is gone.
    ///
    /// # Errors
    /// `Invalid` (one has a name, or is no inode).
    pub fn reclaim(&self, unused: &[Removable], now: Timestamp) -> Result<usize, MetaError> {
        let is_shared = self.is_shared();
        self.transact(|txn| {
            txn.free_room();
            for (index, unused) in unused.iter().enumerate() {
                let Item::Inode(ino) = unused.item() else {
                    return Err(MetaError::Invalid { what: "only inodes are reclaimed" });
                };
                if index > 0 && txn.is_full(STEP_PAIRS) || !txn.reclaim(ino, now, is_shared)? {
                    return Ok(index);
                }
            }
            Ok(unused.len())
        })
    }
}

impl Txn<'_> {
    /// Removes an orphan, or a bounded part of what it has: false if there is more.
    fn reclaim(&mut self, ino: Ino, now: Timestamp, is_shared: bool) -> Result<bool, MetaError> {
        let Some(mut attributes) = self.find_inode(ino)? else {
            if self.get(Key::UnreferencedInode(ino))?.is_some() {
                self.remove(Key::UnreferencedInode(ino));
            }
            return Ok(true);
        };
        if attributes.nlink > 0 {
            return Err(MetaError::Invalid { what: "an inode that has a name is not reclaimed" });
        }
        if is_shared && self.is_held(ino)? {
            return Ok(true);
        }
        let mut changes = Changes::default();
        let emptied = self.cut_extents(ino, 0..u64::MAX, STEP_PAIRS, &mut changes)? == u64::MAX
            && self.remove_all(of_ino(Table::Xattr, ino))?
            && self.remove_all(of_ino(Table::Journal, ino))?;
        attributes.allocated_bytes = changes.take_allocated(ino, attributes.allocated_bytes)?;
        self.forget_users(ino, &mut changes)?;
        self.settle(changes, |_| false, milliseconds(now))?;
        if emptied {
            self.remove(Key::Inode(ino));
            self.remove(Key::UnreferencedInode(ino));
            self.remove(Key::Symlink(ino));
            if is_shared {
                self.remove(Key::Locks(ino));
            }
            self.change_usage(-1, 0);
        } else {
            self.put_inode(&attributes);
        }
        Ok(emptied)
    }

    /// Removes what is in `range`, at most one step's worth: true if nothing is left.
    fn remove_all(&mut self, range: Range<Vec<u8>>) -> Result<bool, MetaError> {
        let pairs = self.scan(&range, STEP_PAIRS)?;
        for key in pairs.iter().filter_map(|(key, _)| Key::parse(key)) {
            self.remove(key);
        }
        Ok(pairs.len() < STEP_PAIRS)
    }
}

#[cfg(test)]
#[path = "reclaim_tests.rs"]
mod tests;
