//! One attempt at a transaction: reads through to a snapshot, writes held back.

use std::collections::BTreeMap;
use std::ops::Range;

use weft_format::Ino;
use weft_format::records::Attributes;

use super::values::{self, Dirent, Usage};
use crate::MetaError;
use crate::keys::Key;
use crate::kv::{Batch, Pair, Snapshot};

/// An operation that would write more goes in several transactions: some engines take no more than 1,000 keys and a
/// megabyte at once, and one item may add some hundreds of keys after this is asked.
const FULL_KEYS: usize = 400;
const FULL_BYTES: usize = 256 << 10;

const NANOSECONDS_PER_SECOND: u32 = 1_000_000_000;

/// Permission bits, setuid, setgid, sticky.
const MODE_MASK: u16 = 0o7777;

pub(super) struct Txn<'s> {
    snapshot: &'s (dyn Snapshot + 's),
    /// What was read and what it was, where that is to be checked at commit.
    reads: Option<BTreeMap<Vec<u8>, Option<Vec<u8>>>>,
    writes: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
    write_bytes: usize,
    /// A record was written that could not be read again.
    invalid: Option<&'static str>,
    /// It is to succeed where there is no space for others.
    frees_room: bool,
}

impl<'s> Txn<'s> {
    /// For an operation that commits.
    pub(super) fn writing(snapshot: &'s (dyn Snapshot + 's)) -> Self {
        Txn {
            snapshot,
            reads: Some(BTreeMap::new()),
            writes: BTreeMap::new(),
            write_bytes: 0,
            invalid: None,
            frees_room: false,
        }
    }

    /// For an operation that only reads.
    pub(super) fn reading(snapshot: &'s (dyn Snapshot + 's)) -> Self {
        Txn { snapshot, reads: None, writes: BTreeMap::new(), write_bytes: 0, invalid: None, frees_room: false }
    }

    /// The operation frees room, or something that does needs it: it may use the engine's reserve.
    pub(super) fn free_room(&mut self) {
        self.frees_room = true;
    }

    pub(super) fn frees_room(&self) -> bool {
        self.frees_room
    }

    /// # Errors
    /// `Invalid` if an argument would have made a damaged record.
    pub(super) fn into_batch(self) -> Result<Batch, MetaError> {
        if let Some(what) = self.invalid {
            return Err(MetaError::Invalid { what });
        }
        let checks = self.reads.unwrap_or_default().into_iter().collect();
        Ok(Batch { checks, writes: self.writes.into_iter().collect() })
    }

    pub(super) fn get(&mut self, key: Key<'_>) -> Result<Option<Vec<u8>>, MetaError> {
        let key = key.encode();
        if let Some(written) = self.writes.get(&key) {
            return Ok(written.clone());
        }
        let Some(reads) = &mut self.reads else { return Ok(self.snapshot.get(&key)?) };
        if let Some(read) = reads.get(&key) {
            return Ok(read.clone());
        }
        let value = self.snapshot.get(&key)?;
        reads.insert(key, value.clone());
        Ok(value)
    }

    /// The value in the snapshot. A change of it before the commit is no conflict: the operation counts as done at the moment of its
    /// snapshot. For a setting that other processes change, if nothing else depends on it.
    pub(super) fn look(&self, key: Key<'_>) -> Result<Option<Vec<u8>>, MetaError> {
        Ok(self.snapshot.get(&key.encode())?)
    }

    /// Writes nothing after all.
    pub(super) fn give_up(&mut self) {
        self.writes.clear();
        self.write_bytes = 0;
    }

    pub(super) fn put(&mut self, key: Key<'_>, value: Vec<u8>) {
        let key = key.encode();
        self.write_bytes += key.len() + value.len();
        self.writes.insert(key, Some(value));
    }

    pub(super) fn remove(&mut self, key: Key<'_>) {
        let key = key.encode();
        self.write_bytes += key.len();
        self.writes.insert(key, None);
    }

    /// The first `limit` pairs of `range`, as this transaction would leave them.
    pub(super) fn scan(&mut self, range: &Range<Vec<u8>>, limit: usize) -> Result<Vec<Pair>, MetaError> {
        if range.start >= range.end || limit == 0 {
            return Ok(Vec::new());
        }
        if self.writes.range(range.clone()).next().is_none() {
            return Ok(self.snapshot.scan(&range.start, &range.end, limit)?);
        }
        let mut found = Vec::new();
        let mut start = range.start.clone();
        loop {
            let stored = self.snapshot.scan(&start, &range.end, limit)?;
            let last_key = (stored.len() == limit).then(|| stored[limit - 1].0.clone());
            let end = last_key.as_ref().map_or_else(
                || range.end.clone(),
                |last| {
                    let mut next = last.clone();
                    next.push(0);
                    next
                },
            );
            let mut merged: BTreeMap<_, _> = stored.into_iter().collect();
            for (key, value) in self.writes.range(start..end.clone()) {
                match value {
                    Some(value) => merged.insert(key.clone(), value.clone()),
                    None => merged.remove(key),
                };
            }
            found.extend(merged.into_iter().take(limit - found.len()));
            if found.len() == limit || last_key.is_none() {
                return Ok(found);
            }
            start = end;
        }
    }

    /// Should the operation stop here and go on in another transaction? `pending_keys` are those it will still write.
    pub(super) fn is_full(&self, pending_keys: usize) -> bool {
        self.writes.len() + pending_keys >= FULL_KEYS || self.write_bytes >= FULL_BYTES
    }

    pub(super) fn write_count(&self) -> usize {
        self.writes.len()
    }

    pub(super) fn find_inode(&mut self, ino: Ino) -> Result<Option<Attributes>, MetaError> {
        self.get(Key::Inode(ino))?.map(|bytes| decode_inode(ino, &bytes)).transpose()
    }

    /// Several inodes by one read of the snapshot, which is no check at commit: for operations that only read.
    pub(super) fn look_at_inodes(&self, inos: &[Ino]) -> Result<Vec<Option<Attributes>>, MetaError> {
        let keys: Vec<Vec<u8>> = inos.iter().map(|ino| Key::Inode(*ino).encode()).collect();
        let found = self.snapshot.get_many(&keys)?;
        inos.iter().zip(found).map(|(ino, bytes)| bytes.map(|bytes| decode_inode(*ino, &bytes)).transpose()).collect()
    }

    pub(super) fn inode(&mut self, ino: Ino) -> Result<Attributes, MetaError> {
        self.find_inode(ino)?.ok_or(MetaError::NotFound)
    }

    pub(super) fn put_inode(&mut self, attributes: &Attributes) {
        let times = [attributes.atime, attributes.mtime, attributes.ctime, attributes.btime];
        if times.iter().any(|time| time.nanoseconds >= NANOSECONDS_PER_SECOND) {
            self.invalid = Some("a time has less than 10^9 nanoseconds");
        }
        if attributes.mode > MODE_MASK {
            self.invalid = Some("a mode has permission, setuid, setgid and sticky bits only");
        }
        self.put(Key::Inode(attributes.ino), attributes.encode().to_vec());
    }

    pub(super) fn dirent(&mut self, parent: Ino, name: &[u8]) -> Result<Option<Dirent>, MetaError> {
        let key = Key::Dirent(parent, name);
        self.get(key)?.map(|bytes| Dirent::decode(&key, &bytes)).transpose()
    }

    /// Writes both directions of a name.
    pub(super) fn put_name(&mut self, parent: Ino, name: &[u8], dirent: &Dirent) {
        self.put(Key::Dirent(parent, name), dirent.encode());
        self.put(Key::Entry(parent, dirent.cookie), values::entry(dirent.ino, name));
    }

    pub(super) fn remove_name(&mut self, parent: Ino, name: &[u8], dirent: &Dirent) {
        self.remove(Key::Dirent(parent, name));
        self.remove(Key::Entry(parent, dirent.cookie));
    }

    pub(super) fn usage(&mut self) -> Result<Usage, MetaError> {
        let bytes = self.get(Key::Usage)?.ok_or_else(|| values::damaged(&Key::Usage, "it is missing"))?;
        Usage::decode(&bytes)
    }

    pub(super) fn change_usage(&mut self, inodes: i64, live_bytes: i64) -> Result<(), MetaError> {
        if inodes == 0 && live_bytes == 0 {
            return Ok(());
        }
        let usage = self.usage()?;
        let wrong = || values::damaged(&Key::Usage, "it counts less than there is");
        let usage = Usage {
            inodes: usage.inodes.checked_add_signed(inodes).ok_or_else(wrong)?,
            live_bytes: usage.live_bytes.checked_add_signed(live_bytes).ok_or_else(wrong)?,
        };
        self.put(Key::Usage, usage.encode());
        Ok(())
    }
}

fn decode_inode(ino: Ino, bytes: &[u8]) -> Result<Attributes, MetaError> {
    Attributes::decode(bytes).map_err(|error| values::damaged(&Key::Inode(ino), error))
}

#[cfg(test)]
#[path = "txn_tests.rs"]
mod tests;
