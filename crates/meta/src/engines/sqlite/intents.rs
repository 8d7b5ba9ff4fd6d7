//! The intent log: what a flush makes durable before the file has it.
//!
//! A transaction of SQLite writes 4 to 9 pages for an fsync of 4 KiB; the log takes the same changes as one record, and one sync. The
//! file gets them later, many at once. The log is two halves of one file, `<metadata>-intents`. Records go to one half until
//! the writer begins to file what is pending; from then on they go to the other, and when the file has what was pending, the first half is
//! free again. So a flush never waits for the file. Records are numbered without gaps over the life of a store; the file says up
//! to which one it has them, and the next owner of a store that was not closed files the rest.
//!
//! It never decides when to log or to file (`commit.rs`, `writer.rs`). Start reading at [`IntentLog::append`], then [`Found::unfiled`].
//!
//! ```text
//! header  "WEFTINTS", id of the store's log (u64), CRC-64 of both           one block
//! record  CRC-64 of the id and of all that follows, number (u64), commits of the file that it follows (u64),
//!         length of the changes (u32), changes                             from a multiple of 512 bytes
//! change  length of the key (u32), length of the value (u32, 2^32 - 1 for a removal), key, value
//! ```

use super::file;
use crate::engines::memtable::Shared;
use crate::owner::open_beside;
use crc_fast::{CrcAlgorithm, Digest};
use rustix::fs::{FallocateFlags, FlockOperation, fallocate, flock};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use weft_env::planted::{Planted, has_planted};
use weft_env::steps;

/// What the log's name adds to that of the metadata.
const INTENTS: &str = "-intents";
const MAGIC: &[u8; 8] = b"WEFTINTS";
/// A block of any disk: nothing else is written there.
const HEADER_BYTES: u64 = 4096;
/// What filing leaves pending at most, twice: a flush of that much fits beside what was logged before.
const HALF_BYTES: u64 = 8 << 20;
/// No record shares a sector with another: writing one cannot harm the one before.
pub(super) const ALIGNMENT_BYTES: usize = 512;
/// Checksum, number, commits, length.
pub(super) const HEAD_BYTES: usize = 28;
/// The length of a value that is a removal.
const REMOVED: u32 = u32::MAX;

/// A key's new value, or its removal.
pub(super) type Change = (Shared, Option<Shared>);

/// The changes of one flush.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub number: u64,
    /// The file had as many commits, or more, when it was written.
    pub commits: u64,
    pub changes: Vec<Change>,
}

impl Record {
    /// The record that begins at `offset`, and where the next one does; `None`: there is none.
    fn read(file: &File, id: u64, offset: u64, end: u64) -> io::Result<Option<(Self, u64)>> {
        let mut head = [0; HEAD_BYTES];
        if offset + HEAD_BYTES as u64 > end || !read_exact(file, &mut head, offset)? {
            return Ok(None);
        }
        let number = |at: usize| u64::from_le_bytes(std::array::from_fn(|index| head[at + index]));
        let length = u32::from_le_bytes(std::array::from_fn(|index| head[24 + index])) as usize;
        // So that no length that was never written makes a large buffer.
        if offset + (HEAD_BYTES + length) as u64 > end {
            return Ok(None);
        }
        let mut bytes = head.to_vec();
        bytes.resize(HEAD_BYTES + length, 0);
        if !read_exact(file, &mut bytes[HEAD_BYTES..], offset + HEAD_BYTES as u64)?
            || checksum(id, &bytes[8..]) != number(0)
        {
            return Ok(None);
        }
        let Some(changes) = changes(&bytes[HEAD_BYTES..]) else { return Ok(None) };
        let next = offset + bytes.len().next_multiple_of(ALIGNMENT_BYTES) as u64;
        Ok(Some((Self { number: number(8), commits: number(16), changes }, next)))
    }
}

/// A record's bytes, filled up to a multiple of the alignment; `None`: it is too large to be one.
pub(super) fn encode(id: u64, number: u64, commits: u64, changes: &[Change]) -> Option<Vec<u8>> {
    let length = |bytes: &[u8]| u32::try_from(bytes.len()).ok().filter(|length| *length != REMOVED);
    let mut bytes = vec![0; HEAD_BYTES];
    for (key, value) in changes {
        bytes.extend_from_slice(&length(key)?.to_le_bytes());
        bytes.extend_from_slice(&value.as_deref().map_or(Some(REMOVED), length)?.to_le_bytes());
        bytes.extend_from_slice(key);
        bytes.extend_from_slice(value.as_deref().unwrap_or_default());
    }
    let changes_length = u32::try_from(bytes.len() - HEAD_BYTES).ok()?;
    bytes[8..16].copy_from_slice(&number.to_le_bytes());
    bytes[16..24].copy_from_slice(&commits.to_le_bytes());
    bytes[24..HEAD_BYTES].copy_from_slice(&changes_length.to_le_bytes());
    let sum = checksum(id, &bytes[8..]);
    bytes[..8].copy_from_slice(&sum.to_le_bytes());
    bytes.resize(bytes.len().next_multiple_of(ALIGNMENT_BYTES), 0);
    Some(bytes)
}

fn changes(mut bytes: &[u8]) -> Option<Vec<Change>> {
    let mut changes = Vec::new();
    while !bytes.is_empty() {
        let (lengths, rest) = bytes.split_first_chunk::<8>()?;
        let length = |at: usize| u32::from_le_bytes(std::array::from_fn(|index| lengths[at + index]));
        let (key, rest) = rest.split_at_checked(length(0) as usize)?;
        let value_length = if length(4) == REMOVED { 0 } else { length(4) as usize };
        let (value, rest) = rest.split_at_checked(value_length)?;
        changes.push((key.into(), (length(4) != REMOVED).then(|| value.into())));
        bytes = rest;
    }
    Some(changes)
}

pub(super) fn checksum(id: u64, bytes: &[u8]) -> u64 {
    let mut digest = Digest::new(CrcAlgorithm::Crc64Nvme);
    digest.update(&id.to_le_bytes());
    digest.update(bytes);
    digest.finalize()
}

/// False: the file ends before.
fn read_exact(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<bool> {
    match file.read_exact_at(bytes, offset) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

pub(super) fn header(id: u64) -> Vec<u8> {
    let mut header = [&MAGIC[..], &id.to_le_bytes()].concat();
    header.extend_from_slice(&checksum(id, MAGIC).to_le_bytes());
    header.resize(HEADER_BYTES as usize, 0);
    header
}

/// Where a half begins and ends.
pub(super) fn bounds(half: usize) -> (u64, u64) {
    let half_bytes = steps::bound(HALF_BYTES);
    let begin = HEADER_BYTES + half as u64 * half_bytes;
    (begin, begin + half_bytes)
}

/// What a log has, as it is read.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    id: u64,
    /// Ascending.
    records: Vec<Record>,
}

impl Found {
    /// The log of the store at `path`; empty if there is none. Beside its owner it may lack the record that is being written.
    pub fn read(path: &Path) -> io::Result<Self> {
        let file = match File::open(log_path(path)) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(error),
        };
        Self::of(&file)
    }

    /// What the file has; empty if it is no log.
    pub(super) fn of(file: &File) -> io::Result<Self> {
        let mut found = vec![0; HEADER_BYTES as usize];
        if !read_exact(file, &mut found, 0)? {
            return Ok(Self::default());
        }
        let id = u64::from_le_bytes(std::array::from_fn(|index| found[MAGIC.len() + index]));
        if found != header(id) {
            return Ok(Self::default());
        }
        let mut halves = Vec::new();
        for half in 0..2 {
            let (mut offset, end) = bounds(half);
            let mut records: Vec<Record> = Vec::new();
            while let Some((record, next)) = Record::read(file, id, offset, end)? {
                // What follows is from an earlier turn of this half.
                if records.last().is_some_and(|last| last.number.checked_add(1) != Some(record.number)) {
                    break;
                }
                records.push(record);
                offset = next;
            }
            halves.push(records);
        }
        halves.sort_by_key(|records| records.first().map(|record| record.number));
        Ok(Self { id, records: halves.concat() })
    }

    /// The number of the last record, if this is the log with that id.
    pub fn last(&self, id: u64) -> Option<u64> {
        self.records.last().filter(|_| self.id == id).map(|record| record.number)
    }

    /// What a file lacks that has the records up to `filed` and `commits` commits.
    ///
    /// # Errors
    /// The number of the last record, if others before it are missing.
    pub fn unfiled(self, id: u64, filed: u64, commits: u64) -> Result<Vec<Record>, u64> {
        let unfiled: Vec<Record> =
            self.records.into_iter().filter(|record| self.id == id && record.number > filed).collect();
        let is_next =
            |(index, record): (usize, &Record)| record.number - filed == 1 + index as u64 && record.commits <= commits;
        match unfiled.last() {
            Some(last) if !unfiled.iter().enumerate().all(is_next) => Err(last.number),
            _ => Ok(unfiled),
        }
    }
}

/// Is nobody there? Asked with a descriptor of the log's file that has no lock.
fn is_nobody(file: &File) -> bool {
    match flock(file, FlockOperation::NonBlockingLockExclusive) {
        // A process that comes just now waits for this moment.
        Ok(()) => flock(file, FlockOperation::Unlock).is_ok(),
        Err(Errno::WOULDBLOCK) => false,
        Err(error) => {
            tracing::debug!(%error, "nobody knows who is there");
            false
        }
    }
}

pub(super) fn log_path(path: &Path) -> PathBuf {
    file::beside(path, INTENTS)
}

/// The log's file, made if it is not there. All users who may read the store may read it, as with SQLite's own log.
pub(super) fn open_log(path: &Path) -> io::Result<File> {
    open_beside(path, INTENTS, |mode| mode & 0o666)
}

/// The log of a store's owner.
pub(super) struct IntentLog {
    file: File,
    path: PathBuf,
    id: u64,
    /// Of the last record.
    last: u64,
    /// Where records go.
    half: usize,
    /// The next record's offset.
    offset: u64,
    /// The last record in the other half.
    last_in_other: u64,
    /// The last record that is durable, here or in the file.
    synced: u64,
    /// Writing has not failed.
    is_usable: bool,
}

/// Why a record is not durable.
#[derive(Debug)]
pub(super) enum Refused {
    /// The file must have what is logged first.
    NoRoom,
    /// The disk.
    Io(io::Error),
}

impl IntentLog {
    /// The log of a store that has all records up to `filed`; its names and its room are durable.
    pub fn open(path: &Path, id: u64, filed: u64) -> io::Result<Self> {
        let file = open_log(path)?;
        // The process that filed the records may have been killed before it was durable that the file has them.
        if !has_planted(Planted::LogCutEarly) {
            file::sync_log(path)?;
        }
        // What a power cut left behind a record that it took must not come to follow one with the same number.
        file.set_len(0)?;
        match fallocate(&file, FallocateFlags::empty(), 0, bounds(1).1) {
            // Such a file system keeps no room for a file: an append may find none, and then the file takes the changes.
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => {}
            Err(error) => {
                file.set_len(0)?;
                return Err(error.into());
            }
        }
        file.write_all_at(&header(id), 0)?;
        file.sync_all()?;
        let path_of_log = log_path(path);
        steps::synced(&path_of_log);
        file::sync_folder(path)?;
        let (offset, _) = bounds(0);
        Ok(Self {
            file,
            path: path_of_log,
            id,
            last: filed,
            half: 0,
            offset,
            last_in_other: filed,
            synced: filed,
            is_usable: true,
        })
    }

    /// Writes a record. It is durable after the next [`Self::sync`].
    pub fn append(&mut self, changes: &[Change], commits: u64) -> Result<(), Refused> {
        if changes.is_empty() {
            return Ok(());
        }
        let number = self.last + 1;
        let bytes = encode(self.id, number, commits, changes).filter(|_| self.is_usable).ok_or(Refused::NoRoom)?;
        let end = self.offset + bytes.len() as u64;
        let (begin, half_end) = bounds(self.half);
        if end > half_end {
            return Err(Refused::NoRoom);
        }
        // A power cut may take what is not synced in any order, and between the halves that would be a gap.
        if self.offset == begin && self.synced < self.last && !has_planted(Planted::HalvesUnordered) {
            self.sync()?;
        }
        // Whatever becomes of it, its number is used.
        self.last = number;
        self.file.write_all_at(&bytes, self.offset).map_err(|error| self.give_up(error))?;
        self.offset = end;
        Ok(())
    }

    /// All records are durable; answers the number of the last.
    pub fn sync(&mut self) -> Result<u64, Refused> {
        if !has_planted(Planted::RecordNotSynced) {
            self.file.sync_data().map_err(|error| self.give_up(error))?;
            steps::synced(&self.path);
        }
        self.synced = self.last;
        Ok(self.last)
    }

    /// The file has the records up to `filed`, durably: they need no sync.
    pub fn note_filed(&mut self, filed: u64) {
        self.synced = self.synced.max(filed);
    }

    /// The file has all of it: its bytes go, and what others lock stays.
    pub fn close(&mut self) -> io::Result<()> {
        self.is_usable = false;
        self.file.set_len(0)
    }

    /// Has nobody else the store open?
    pub fn is_alone(&self) -> bool {
        is_nobody(&self.file)
    }

    /// Nothing may follow a record that may be lost.
    fn give_up(&mut self, error: io::Error) -> Refused {
        self.is_usable = false;
        Refused::Io(error)
    }

    /// Everything logged so far is about to be filed: records go to the other half from now on, if the file has what is
    /// there (`filed`). Answers the number of the last record.
    pub fn turn_over(&mut self, filed: u64) -> u64 {
        let (begin, _) = bounds(self.half);
        let is_free = self.last_in_other <= filed || has_planted(Planted::HalfUsedEarly);
        if is_free && self.offset > begin {
            self.last_in_other = self.last;
            self.half = 1 - self.half;
            self.offset = bounds(self.half).0;
        }
        self.last
    }
}

#[cfg(test)]
#[path = "intents_tests.rs"]
mod tests;
