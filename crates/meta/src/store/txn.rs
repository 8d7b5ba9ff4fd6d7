//! One attempt at a transaction: reads through to a snapshot, writes held back.

use std::collections::BTreeMap;
use std::ops::Range;

use weft_env::planted::{Planted, has_planted};
use weft_format::Ino;
use weft_format::records::{Attributes, Kind, Timestamp};

use super::ATTEMPTS;
use super::values::{self, Dirent, Usage};
use crate::MetaError;
use crate::deltas::{Delta, Directory};
use crate::keys::{Key, Table, after, of_ino};
use crate::kv::{Batch, KvError, Link, Pair, Question, RangeCheck, Slot, Snapshot, Wanted, WantedRange};

/// An entry of a directory, and the inode that it leads to if that is there.
pub(super) type ListedEntry = (Pair, Option<Vec<u8>>);

/// An operation that would write more goes in several transactions: some engines take no more than 1,000 keys and a
/// megabyte at once, and one item may add some hundreds of keys after this is asked.
const FULL_KEYS: usize = 400;
const FULL_BYTES: usize = 256 << 10;

const NANOSECONDS_PER_SECOND: u32 = 1_000_000_000;

/// One operation changes a directory's names, or the directory.
const ONE_WAY: &str = "a directory and its names are not changed at once";

/// Permission bits, setuid, setgid, sticky.
const MODE_MASK: u16 = 0o7777;

/// What was read, to be checked at commit.
#[derive(Default)]
struct Reads {
    /// What each key had, ...
    values: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
    /// ... of directories whose times and links may be others by then, ...
    directories: BTreeMap<Vec<u8>, Vec<u8>>,
    /// ... and what scans found.
    ranges: Vec<RangeCheck>,
}

/// Who else changes the owner's tables in this process while an operation runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Company {
    /// Nobody, or nobody who changes what it scans: it may scan.
    Alone,
    /// Others that read by key, as it does.
    Beside,
}

impl Company {
    /// How often a transaction is tried.
    pub(super) fn attempts(self) -> u32 {
        match self {
            Company::Alone => ATTEMPTS,
            // After it, it is alone in its process.
            Company::Beside => ATTEMPTS / 4,
        }
    }
}

pub(super) struct Txn<'s> {
    snapshot: &'s (dyn Snapshot + 's),
    /// None: it commits nothing.
    reads: Option<Reads>,
    /// What was fetched before it was needed, and is not read yet.
    fetched: Vec<Slot>,
    writes: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
    deltas: BTreeMap<Vec<u8>, Delta>,
    write_bytes: usize,
    /// A record was written that could not be read again.
    invalid: Option<&'static str>,
    /// It is to succeed where there is no space for others.
    frees_room: bool,
    company: Company,
    has_tried_to_scan: bool,
}

/// How a name leads to its inode: `values.rs` says where in a directory entry its number is.
fn to_inode() -> Link {
    Link { table: Table::Inode as u8, at: Dirent::INO }
}

impl<'s> Txn<'s> {
    /// For an operation that commits.
    pub(super) fn writing(snapshot: &'s (dyn Snapshot + 's), company: Company) -> Self {
        Txn { reads: Some(Reads::default()), company, ..Self::reading(snapshot) }
    }

    /// Must it run again, alone?
    pub(super) fn must_be_alone(&self) -> bool {
        self.has_tried_to_scan
    }

    /// For an operation that only reads.
    pub(super) fn reading(snapshot: &'s (dyn Snapshot + 's)) -> Self {
        Txn {
            snapshot,
            reads: None,
            fetched: Vec::new(),
            writes: BTreeMap::new(),
            deltas: BTreeMap::new(),
            write_bytes: 0,
            invalid: None,
            frees_room: false,
            company: Company::Alone,
            has_tried_to_scan: false,
        }
    }

    /// Brings these keys, and the inodes that these names lead to, in one go. What is read later of them is read from what came.
    pub(super) fn fetch(&mut self, keys: &[Key<'_>], names: &[(Ino, &[u8])]) -> Result<(), MetaError> {
        if names.is_empty() {
            let keys: Vec<_> = keys.iter().map(Key::encode).collect();
            let values = self.snapshot.get_many(&keys)?;
            self.fetched.extend(keys.into_iter().zip(values));
            return Ok(());
        }
        let keys = keys.iter().map(|key| Wanted { key: key.encode(), link: None });
        let names = names
            .iter()
            .map(|(parent, name)| Wanted { key: Key::Dirent(*parent, name).encode(), link: Some(to_inode()) });
        let question = Question { keys: keys.chain(names).collect(), range: None };
        self.fetched.extend(self.snapshot.fetch(question)?.slots);
        Ok(())
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
        let Reads { values, directories, ranges } = self.reads.unwrap_or_default();
        Ok(Batch {
            directories: directories.into_iter().map(|(key, value)| Directory { key, value }).collect(),
            checks: values.into_iter().collect(),
            ranges,
            writes: self.writes.into_iter().collect(),
            deltas: self.deltas.into_iter().collect(),
        })
    }

    pub(super) fn get(&mut self, key: Key<'_>) -> Result<Option<Vec<u8>>, MetaError> {
        let key = key.encode();
        if let Some(written) = self.writes.get(&key) {
            return Ok(written.clone());
        }
        let value = self.stored(&key)?;
        if let Some(reads) = &mut self.reads {
            reads.values.entry(key).or_insert_with(|| value.clone());
        }
        Ok(value)
    }

    /// What the snapshot has. What is read twice comes from the reads: the second time it is not among what was fetched.
    fn stored(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, MetaError> {
        if let Some(reads) = &self.reads {
            if let Some(read) = reads.values.get(key) {
                return Ok(read.clone());
            }
            if let Some(read) = reads.directories.get(key) {
                return Ok(Some(read.clone()));
            }
        }
        match self.fetched.iter().position(|(fetched, _)| fetched == key) {
            Some(index) => Ok(self.fetched.swap_remove(index).1),
            None => Ok(self.snapshot.get(key)?),
        }
    }

    /// An inode. Of a directory others may change the times and links until the commit.
    pub(super) fn find_inode(&mut self, ino: Ino) -> Result<Option<Attributes>, MetaError> {
        let key = Key::Inode(ino).encode();
        if let Some(written) = self.writes.get(&key) {
            return written.as_ref().map(|bytes| decode_inode(ino, bytes)).transpose();
        }
        let value = self.stored(&key)?;
        let found = value.as_ref().map(|bytes| decode_inode(ino, bytes)).transpose()?;
        let delta = self.deltas.get(&key).cloned();
        if let Some(reads) = &mut self.reads {
            match (found, &value) {
                (Some(Attributes { kind: Kind::Directory, .. }), Some(value)) => {
                    reads.directories.entry(key).or_insert_with(|| value.clone());
                }
                _ => drop(reads.values.entry(key).or_insert_with(|| value.clone())),
            }
        }
        let Some(delta) = delta else { return Ok(found) };
        let merged = delta.apply(value.as_deref()).map_err(|detail| values::damaged(&Key::Inode(ino), detail))?;
        decode_inode(ino, &merged).map(Some)
    }

    /// The names of a directory that was read change now, and so many subdirectories come or go.
    pub(super) fn touch(&mut self, directory: Ino, now: Timestamp, subdirectories: i64) {
        let none = Delta::Names { changed: now, subdirectories: 0 };
        match self.deltas.entry(Key::Inode(directory).encode()).or_insert(none) {
            Delta::Names { changed, subdirectories: before } => {
                *changed = now.max(*changed);
                *before += subdirectories;
            }
            _ => self.invalid = Some(ONE_WAY),
        }
    }

    /// The value in the snapshot. A change of it before the commit is no conflict: the operation counts as done at the moment of its
    /// snapshot. For a setting that other processes change, if nothing else depends on it.
    pub(super) fn look(&mut self, key: Key<'_>) -> Result<Option<Vec<u8>>, MetaError> {
        self.stored(&key.encode())
    }

    /// Writes nothing after all.
    pub(super) fn give_up(&mut self) {
        self.writes.clear();
        self.deltas.clear();
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
        self.deltas.remove(&key);
        self.writes.insert(key, None);
    }

    /// The first `limit` pairs of `range` in the snapshot, which are no check at commit: for a search of a whole table.
    pub(super) fn look_through(&self, range: &Range<Vec<u8>>, limit: usize) -> Result<Vec<Pair>, MetaError> {
        Ok(self.snapshot.scan(&range.start, &range.end, limit)?)
    }

    /// The first `limit` pairs of `range`, as this transaction would leave them.
    pub(super) fn scan(&mut self, range: &Range<Vec<u8>>, limit: usize) -> Result<Vec<Pair>, MetaError> {
        if range.start >= range.end || limit == 0 {
            return Ok(Vec::new());
        }
        if self.company == Company::Beside {
            self.has_tried_to_scan = true;
            return Err(KvError::Conflict.into());
        }
        if self.writes.range(range.clone()).next().is_none() {
            let found = self.snapshot.scan(&range.start, &range.end, limit)?;
            if let Some(reads) = &mut self.reads {
                reads.ranges.push(RangeCheck { range: range.clone(), limit, found: found.clone() });
            }
            return Ok(found);
        }
        let mut found = Vec::new();
        let mut start = range.start.clone();
        loop {
            let stored = self.snapshot.scan(&start, &range.end, limit)?;
            if let Some(reads) = &mut self.reads {
                reads.ranges.push(RangeCheck { range: start.clone()..range.end.clone(), limit, found: stored.clone() });
            }
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

    /// The first `limit` entries of a directory after a place in it, each with its inode; the directory is fetched with them. No check at
    /// commit: for operations that only read.
    pub(super) fn fetch_entries(
        &mut self,
        directory: Ino,
        after_cookie: u64,
        limit: usize,
    ) -> Result<Vec<ListedEntry>, MetaError> {
        let range = after(of_ino(Table::Entry, directory), Some(Key::Entry(directory, after_cookie)));
        let link = Link { table: Table::Inode as u8, at: values::ENTRY_INO };
        let keys = vec![Wanted { key: Key::Inode(directory).encode(), link: None }];
        let answer = self.snapshot.fetch(Question { keys, range: Some(WantedRange { range, limit, link }) })?;
        self.fetched.extend(answer.slots);
        Ok(answer.pairs)
    }

    pub(super) fn inode(&mut self, ino: Ino) -> Result<Attributes, MetaError> {
        self.find_inode(ino)?.ok_or(MetaError::NotFound)
    }

    /// Writes an inode. Of a directory that was there others may change the links and times until the commit.
    pub(super) fn put_inode(&mut self, attributes: &Attributes) {
        let times = [attributes.atime, attributes.mtime, attributes.ctime, attributes.btime];
        if times.iter().any(|time| time.nanoseconds >= NANOSECONDS_PER_SECOND) {
            self.invalid = Some("a time has less than 10^9 nanoseconds");
        }
        if attributes.mode > MODE_MASK {
            self.invalid = Some("a mode has permission, setuid, setgid and sticky bits only");
        }
        let key = Key::Inode(attributes.ino);
        let encoded = key.encode();
        let read = self.reads.as_ref().and_then(|reads| reads.directories.get(&encoded));
        let Some(read) = read.filter(|_| !self.writes.contains_key(&encoded)) else {
            return self.put(key, attributes.encode().to_vec());
        };
        match Attributes::decode(read) {
            Ok(before) => {
                let delta = Delta::Attributes { before, after: *attributes };
                if let Some(Delta::Names { .. }) = self.deltas.insert(encoded, delta) {
                    self.invalid = Some(ONE_WAY);
                }
            }
            Err(_) => self.put(key, attributes.encode().to_vec()),
        }
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

    /// The values of these keys in the snapshot, which are no check at commit.
    pub(super) fn look_at(&self, keys: &[Key<'_>]) -> Result<Vec<Option<Vec<u8>>>, MetaError> {
        Ok(self.snapshot.get_many(&keys.iter().map(Key::encode).collect::<Vec<_>>())?)
    }

    /// What is to be changed at a key that nothing is read or written of.
    pub(super) fn put_delta(&mut self, key: Key<'_>, delta: Delta) {
        self.deltas.insert(key.encode(), delta);
    }

    /// The same, for one that takes its place.
    pub(super) fn take_delta(&mut self, key: Key<'_>) -> Option<Delta> {
        self.deltas.remove(&key.encode())
    }

    pub(super) fn usage(&mut self) -> Result<Usage, MetaError> {
        let bytes = self.get(Key::Usage)?.ok_or_else(|| values::damaged(&Key::Usage, "it is missing"))?;
        Usage::decode(&bytes)
    }

    pub(super) fn change_usage(&mut self, inodes: i64, live_bytes: i64) {
        let live_bytes = if has_planted(Planted::CounterDrifting) { live_bytes.max(0) } else { live_bytes };
        if inodes == 0 && live_bytes == 0 {
            return;
        }
        let none = Delta::Usage { inodes: 0, live_bytes: 0 };
        if let Delta::Usage { inodes: inodes_before, live_bytes: bytes_before } =
            self.deltas.entry(Key::Usage.encode()).or_insert(none)
        {
            *inodes_before += inodes;
            *bytes_before += live_bytes;
        }
    }
}

pub(super) fn decode_inode(ino: Ino, bytes: &[u8]) -> Result<Attributes, MetaError> {
    Attributes::decode(bytes).map_err(|error| values::damaged(&Key::Inode(ino), error))
}

#[cfg(test)]
#[path = "txn_tests.rs"]
mod tests;
