//! What was deleted and is kept for a while, to be brought back.
//!
//! A kept inode has no name and is not reclaimed: `unreferenced/file/<when>/<ino>` says where it was. From there it goes back to its
//! name, or becomes an inode without a name like any other. Nothing is kept unless the volume says for how long.

use weft_format::Ino;
use weft_format::records::{Attributes, Kind, Timestamp};
use weft_format::removal::{Expired, Item};

use super::names::admit_subdirectory;
use super::txn::Txn;
use super::values::{self, Dirent, damaged};
use super::{Store, milliseconds};
use crate::MetaError;
use crate::keys::{Counter, Key, after, unreferenced_files};
use crate::types::Deleted;

impl Store {
    /// For how many milliseconds deleted files are kept; 0: not at all, which is so until it is said.
    ///
    /// # Errors
    /// Those of the engine, and damage.
    pub fn keep_ms(&self) -> Result<u64, MetaError> {
        self.view(|txn| txn.keep_ms())
    }

    /// Says so, for what is deleted from now on and what is kept already.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn set_keep_ms(&self, keep_ms: u64) -> Result<(), MetaError> {
        self.transact_shared(|txn| {
            txn.free_room();
            txn.put(Key::Keep, values::number(keep_ms));
            Ok(())
        })
    }

    /// Up to `limit` kept inodes after `after_entry` (when it was deleted, its number), the oldest deletion first.
    ///
    /// # Errors
    /// Those of the engine, and damage.
    pub fn deleted(&self, after_entry: Option<(u64, Ino)>, limit: usize) -> Result<Vec<Deleted>, MetaError> {
        self.view(|txn| {
            let mut range = after(
                unreferenced_files(),
                after_entry.map(|(deleted_ms, ino)| Key::UnreferencedFile(deleted_ms, ino)),
            );
            let mut deleted = Vec::new();
            loop {
                let asked = limit - deleted.len();
                let pairs = txn.scan(&range, asked)?;
                for (key, value) in &pairs {
                    deleted.extend(txn.deleted_inode(key, value)?);
                }
                match pairs.last().filter(|_| pairs.len() == asked && deleted.len() < limit) {
                    Some((last, _)) => range = after(range, Key::parse(last)),
                    None => break,
                }
            }
            Ok(deleted)
        })
    }

    /// Gives a kept inode its name back, and says which.
    ///
    /// # Errors
    /// `NotFound` (it is not kept any more, or its directory is deleted too: bring that back first), `Exists` (the name is another's
    /// now), `TooManyLinks`.
    pub fn restore(&self, deleted_ms: u64, ino: Ino, now: Timestamp) -> Result<Deleted, MetaError> {
        let cookie = self.allocate(Counter::Cookie, &self.cookies)?;
        self.transact(|txn| {
            let key = Key::UnreferencedFile(deleted_ms, ino);
            let value = txn.get(key)?.ok_or(MetaError::NotFound)?;
            let (parent, name) = values::decode_entry(&key, &value)?;
            let directory = txn.live_directory(parent)?;
            if txn.dirent(parent, name)?.is_some() {
                return Err(MetaError::Exists);
            }
            let mut attributes = txn.inode(ino)?;
            if attributes.nlink > 0 {
                return Err(damaged(&key, "it has a name"));
            }
            attributes.nlink = if attributes.kind == Kind::Directory { 2 } else { 1 };
            attributes.parent = parent;
            attributes.ctime = now;
            let is_directory = attributes.kind == Kind::Directory;
            if is_directory {
                admit_subdirectory(&directory)?;
            }
            txn.touch(parent, now, is_directory.into());
            txn.put_inode(&attributes);
            txn.put_name(parent, name, &Dirent { ino, kind: attributes.kind, cookie });
            txn.remove(key);
            Ok(Deleted { attributes, deleted_ms, parent, name: name.to_vec() })
        })
    }

    /// Keeps a file no longer: it is an inode without a name until [`Store::reclaim`]. One that is not kept any more is left as it is:
    /// false.
    ///
    /// # Errors
    /// Those of the engine; `Invalid` (it is no kept file).
    pub fn let_go(&self, expired: Expired) -> Result<bool, MetaError> {
        let Item::File(deleted_ms, ino) = expired.item() else {
            return Err(MetaError::Invalid { what: "only kept files are let go" });
        };
        self.transact(|txn| {
            txn.free_room();
            let key = Key::UnreferencedFile(deleted_ms, ino);
            let is_kept = txn.get(key)?.is_some();
            if is_kept {
                txn.remove(key);
                txn.put(Key::UnreferencedInode(ino), values::mark());
            }
            Ok(is_kept)
        })
    }
}

impl Txn<'_> {
    /// What a record of the list says; none if its inode cannot be read. `weft fsck` names that; the others can be brought back, or let go.
    fn deleted_inode(&mut self, key: &[u8], value: &[u8]) -> Result<Option<Deleted>, MetaError> {
        let Some(key @ Key::UnreferencedFile(deleted_ms, ino)) = Key::parse(key) else {
            return Err(MetaError::Damaged {
                key: crate::keys::printable(key),
                detail: "it is no deleted inode".into(),
            });
        };
        // The same form as a directory entry's: a number and a name.
        let (parent, name) = values::decode_entry(&key, value)?;
        match self.inode(ino) {
            Ok(attributes) => Ok(Some(Deleted { attributes, deleted_ms, parent, name: name.to_vec() })),
            Err(error @ (MetaError::Damaged { .. } | MetaError::NotFound)) => {
                tracing::warn!("a deleted file is passed over: {error}");
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Not among the transaction's checks: a batch that depends on a key that other processes change is written through and waits for
    /// the disk, and a deletion need not wait. A deletion that begins after the time was set sees it.
    fn keep_ms(&mut self) -> Result<u64, MetaError> {
        Ok(self.look(Key::Keep)?.map(|bytes| values::decode_number(&Key::Keep, &bytes)).transpose()?.unwrap_or(0))
    }

    /// Keeps an inode that has just become an orphan, if the volume keeps any: true.
    pub(super) fn keep(
        &mut self,
        attributes: &Attributes,
        parent: Ino,
        name: &[u8],
        now: Timestamp,
    ) -> Result<bool, MetaError> {
        if self.keep_ms()? == 0 {
            return Ok(false);
        }
        self.remove(Key::UnreferencedInode(attributes.ino));
        self.put(Key::UnreferencedFile(milliseconds(now), attributes.ino), values::entry(parent, name));
        Ok(true)
    }
}

#[cfg(test)]
#[path = "deleted_tests.rs"]
mod tests;
