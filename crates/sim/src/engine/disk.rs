//! What a crash leaves of a store's files: what was synced, and of the rest what chance says, block by block.
//!
//! The files are real ones. Next to each the disk has the bytes that are durable. A killed process leaves the files as they are. A power cut
//! leaves of what was not synced all, nothing, a beginning, an end, or any blocks. Names that were not synced may be missing or back.
//!
//! What is left goes into a new folder: the dead process's connections keep their locks on the old files.

use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use weft_env::{Rng, SeededRng};

/// What a disk writes whole.
const BLOCK_BYTES: usize = 512;
/// The witness at the head of this file names the store's inode.
const OWNER: &str = "volume-owner";
/// SQLite's log, its index, and the table.
const LOG: &str = "volume-wal";
const INDEX: &str = "volume-shm";
const TABLE: &str = "volume";
/// The head of SQLite's log.
const LOG_HEAD_BYTES: usize = 32;
/// The line of a witness (FORMAT.md).
const WITNESS_BYTES: usize = 256;

/// How a life ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The process is killed.
    Kill,
    /// The machine has no power.
    PowerCut,
    /// The same, and nothing is left of what was not synced.
    Bare,
    /// It was closed, and the one file is taken elsewhere.
    Moved,
}

/// The files of one store.
pub struct Disk {
    root: PathBuf,
    folder: PathBuf,
    lives: u64,
    /// What is synced of each file.
    durable: BTreeMap<String, Vec<u8>>,
    /// The names that are.
    names: BTreeSet<String>,
}

type Files = BTreeMap<String, Vec<u8>>;

impl Disk {
    /// Has the store that is in `root`, all of it durable.
    ///
    /// # Errors
    /// The real disk's.
    pub fn begin(root: &Path) -> io::Result<Self> {
        let mut disk = Self {
            root: root.to_owned(),
            folder: root.to_owned(),
            lives: 0,
            durable: BTreeMap::new(),
            names: BTreeSet::new(),
        };
        disk.durable = disk.files()?;
        disk.names = disk.durable.keys().cloned().collect();
        Ok(disk)
    }

    /// The store's path in this life.
    #[must_use]
    pub fn store(&self) -> PathBuf {
        self.folder.join(TABLE)
    }

    /// The bytes of this file are durable.
    ///
    /// # Errors
    /// The real disk's.
    pub fn synced(&mut self, file: &Path) -> io::Result<()> {
        self.see_end_of_log()?;
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        // SQLite syncs the name of a log that it has made.
        if name == LOG {
            self.names.insert(name.clone());
        }
        let bytes = std::fs::read(self.folder.join(&name))?;
        self.durable.insert(name, bytes);
        Ok(())
    }

    /// The names are durable.
    ///
    /// # Errors
    /// The real disk's.
    pub fn names_synced(&mut self) -> io::Result<()> {
        self.see_end_of_log()?;
        self.names = self.names_now()?;
        let Self { names, durable, .. } = self;
        durable.retain(|name, _| names.contains(name));
        Ok(())
    }

    /// SQLite removes its log when the last connection is closed and the table is synced.
    fn see_end_of_log(&mut self) -> io::Result<()> {
        if self.names.contains(LOG) && !self.folder.join(LOG).exists() {
            self.durable.insert(TABLE.into(), std::fs::read(self.store())?);
        }
        Ok(())
    }

    fn names_now(&self) -> io::Result<BTreeSet<String>> {
        Ok(files_in(&self.folder)?.into_iter().filter(|name| name != INDEX).collect())
    }

    fn files(&self) -> io::Result<Files> {
        let names = self.names_now()?.into_iter();
        names.map(|name| std::fs::read(self.folder.join(&name)).map(|bytes| (name, bytes))).collect()
    }

    /// A life is over; the next one finds what is left. `seed` decides what a power cut leaves.
    ///
    /// # Errors
    /// The real disk's.
    pub fn end(&mut self, end: End, seed: u64) -> io::Result<()> {
        self.see_end_of_log()?;
        let now = self.files()?;
        let left = match end {
            End::Kill => now,
            End::PowerCut => self.after_power_cut(&now, &SeededRng::new(seed)),
            End::Bare => self.synced_alone(),
            End::Moved => self.durable.clone().into_iter().filter(|(name, _)| name == TABLE).collect(),
        };
        let old = identity(&self.store())?;
        let old_folder = self.folder.clone();
        self.lives += 1;
        self.folder = self.root.join(format!("life-{}", self.lives));
        std::fs::create_dir(&self.folder)?;
        std::fs::write(self.store(), &left[TABLE])?;
        let new = identity(&self.store())?;
        let rehomed = |(name, bytes): (String, Vec<u8>)| {
            let bytes = if name == OWNER { rehome(bytes, old, new) } else { bytes };
            (name, bytes)
        };
        let left: Files = left.into_iter().map(rehomed).collect();
        for (name, bytes) in left.iter().filter(|(name, _)| *name != TABLE) {
            std::fs::write(self.folder.join(name), bytes)?;
        }
        match end {
            End::Kill => self.durable = std::mem::take(&mut self.durable).into_iter().map(rehomed).collect(),
            End::PowerCut | End::Bare | End::Moved => {
                self.names = left.keys().cloned().collect();
                self.durable = left;
            }
        }
        // What still has them open keeps them.
        for name in files_in(&old_folder)? {
            std::fs::remove_file(old_folder.join(name))?;
        }
        Ok(())
    }

    fn synced_alone(&self) -> Files {
        let bytes = |name: &String| self.durable.get(name).cloned().unwrap_or_default();
        self.names.iter().map(|name| (name.clone(), bytes(name))).collect()
    }

    fn after_power_cut(&self, now: &Files, rng: &dyn Rng) -> Files {
        let mut left = Files::new();
        let names: BTreeSet<&String> = now.keys().chain(self.durable.keys()).collect();
        for name in names {
            let (is_named, is_there) = (self.names.contains(name), now.contains_key(name));
            let (draw, blocks) = (rng.next_u64(), rng.next_u64());
            let is_left = if is_named == is_there { is_there } else { draw.is_multiple_of(2) };
            if is_left {
                let none = Vec::new();
                let durable = self.durable.get(name).unwrap_or(&none);
                let now = now.get(name).unwrap_or(durable);
                let head = |bytes: &[u8]| bytes[..LOG_HEAD_BYTES.min(bytes.len())].to_vec();
                // Of a log that it begins again SQLite syncs the head first: no frame of the new one follows the old head.
                let bytes = if name != LOG || head(durable) == head(now) {
                    mixed(durable, now, draw >> 8, blocks)
                } else if draw & 6 == 0 {
                    durable.clone()
                } else {
                    let begun = [head(now), durable.get(LOG_HEAD_BYTES..).unwrap_or_default().to_vec()].concat();
                    mixed(&begun, now, draw >> 8, blocks)
                };
                left.insert(name.clone(), bytes);
            }
        }
        left
    }
}

fn files_in(folder: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    Ok(names)
}

/// What is left of a file with these `durable` bytes, of which others were written since.
fn mixed(durable: &[u8], now: &[u8], kind: u64, seed: u64) -> Vec<u8> {
    let blocks = durable.len().max(now.len()).div_ceil(BLOCK_BYTES);
    let block = |bytes: &[u8], index: usize| {
        let at = (index * BLOCK_BYTES).min(bytes.len());
        bytes[at..(at + BLOCK_BYTES).min(bytes.len())].to_vec()
    };
    let changed: Vec<usize> = (0..blocks).filter(|index| block(durable, *index) != block(now, *index)).collect();
    let cut = (seed % (changed.len() as u64 + 1)) as usize;
    let is_new = |place: usize, index: usize| match kind % 6 {
        0 => false,
        1 => true,
        2 => place < cut,
        3 => place >= cut,
        // Each by itself, so that how many there are changes nothing.
        _ => SeededRng::new(seed ^ index as u64).next_u64().is_multiple_of(2),
    };
    let taken: BTreeSet<usize> =
        changed.iter().enumerate().filter(|(place, index)| is_new(*place, **index)).map(|(_, index)| *index).collect();
    let mut left = Vec::new();
    for index in 0..blocks {
        let bytes = block(if taken.contains(&index) { now } else { durable }, index);
        // What follows is there: nothing was written here.
        if !bytes.is_empty() {
            left.resize(index * BLOCK_BYTES, 0);
            left.extend(bytes);
        }
    }
    left
}

/// Inode, and when it was made in nanoseconds since 1970.
type Identity = (u64, u128);

fn identity(path: &Path) -> io::Result<Identity> {
    let found = statx(CWD, path, AtFlags::empty(), StatxFlags::INO | StatxFlags::BTIME)?;
    let (seconds, nanoseconds) = (found.stx_btime.tv_sec, found.stx_btime.tv_nsec);
    let birth_ns = u128::from(seconds.cast_unsigned()) * 1_000_000_000 + u128::from(nanoseconds);
    let has_birth = found.stx_mask & StatxFlags::BTIME.bits() != 0;
    Ok((found.stx_ino, if has_birth { birth_ns } else { 0 }))
}

/// The disk stays what it is, and its files have other inodes here: the witness names the store that it named (FORMAT.md has its line).
fn rehome(mut bytes: Vec<u8>, old: Identity, new: Identity) -> Vec<u8> {
    let name = |(inode, birth_ns): Identity| format!("weft store inode {inode} born {birth_ns} commits ");
    let Some(line) = bytes.get(..WITNESS_BYTES).and_then(|line| str::from_utf8(line).ok()) else { return bytes };
    let Some((rest, _)) = line.strip_prefix(&name(old)).and_then(|rest| rest.split_once("sum ")) else { return bytes };
    let mut renamed = format!("{}{rest}sum ", name(new));
    let sum = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc64Nvme, renamed.as_bytes());
    renamed += &format!("{sum:016x}");
    let renamed = format!("{renamed:<width$}\n", width = WITNESS_BYTES - 1);
    bytes[..WITNESS_BYTES].copy_from_slice(renamed.as_bytes());
    bytes
}

#[cfg(test)]
#[path = "disk_tests.rs"]
mod tests;
