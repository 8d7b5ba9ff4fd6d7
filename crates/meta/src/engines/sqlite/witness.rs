//! The witness beside the store: which file the store is, and how far it had come.
//!
//! Metadata that was not closed cleanly is in three files, the store and its two logs, which are found by name. Under
//! another name, as a copy, or without a log the store is an older one that looks whole. The witness tells: it has
//! the inode of the store and the numbers of a commit and of a record of the intent log that were durable. It is never ahead of the
//! disk: it is written after each, and not synced. It is the first line of `<metadata>-owner`.

use crate::owner::WITNESS_BYTES;
use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Which file the store is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    pub inode: u64,
    /// When it was made, in nanoseconds since 1970; 0 where the file system does not say. Inode numbers are used again.
    pub birth_ns: u128,
}

impl Identity {
    pub fn of(path: &Path) -> io::Result<Self> {
        let found = statx(CWD, path, AtFlags::empty(), StatxFlags::INO | StatxFlags::BTIME)?;
        let has_birth = found.stx_mask & StatxFlags::BTIME.bits() != 0;
        let (seconds, nanoseconds) = (found.stx_btime.tv_sec, found.stx_btime.tv_nsec);
        let birth_ns = u128::from(u64::try_from(seconds).unwrap_or(0)) * 1_000_000_000 + u128::from(nanoseconds);
        Ok(Self { inode: found.stx_ino, birth_ns: if has_birth { birth_ns } else { 0 } })
    }
}

/// What the witness says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Testimony {
    pub identity: Identity,
    /// This commit was durable.
    pub commits: u64,
    /// So was this record of the intent log.
    pub intents: u64,
}

impl Testimony {
    /// `weft store inode 12 born 1700000000000000000 commits 345 intents 67 sum 0123456789abcdef`, filled with spaces, and a line's end.
    pub fn to_line(self) -> Vec<u8> {
        let Self { identity: Identity { inode, birth_ns }, commits, intents } = self;
        let mut line = format!("weft store inode {inode} born {birth_ns} commits {commits} intents {intents} sum ");
        let sum = checksum(line.as_bytes());
        line += &format!("{sum:016x}");
        format!("{line:<width$}\n", width = WITNESS_BYTES - 1).into_bytes()
    }

    pub fn from_line(line: &[u8]) -> Option<Self> {
        let text = str::from_utf8(line).ok()?.trim_end();
        let (body, sum) = text.split_at_checked(text.len().checked_sub(16)?)?;
        if u64::from_str_radix(sum, 16).ok()? != checksum(body.as_bytes()) {
            return None;
        }
        let mut words = body.split(' ').skip(3).step_by(2);
        let inode = words.next()?.parse().ok()?;
        let birth_ns = words.next()?.parse().ok()?;
        let commits = words.next()?.parse().ok()?;
        let intents = words.next()?.parse().ok()?;
        Some(Self { identity: Identity { inode, birth_ns }, commits, intents })
    }

    /// What the file says; `None`: nothing that can be believed.
    pub fn read(file: &File) -> io::Result<Option<Self>> {
        let mut line = [0; WITNESS_BYTES];
        match file.read_exact_at(&mut line, 0) {
            Ok(()) => Ok(Self::from_line(&line)),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub fn write(self, file: &File) -> io::Result<()> {
        file.write_all_at(&self.to_line(), 0)
    }
}

fn checksum(bytes: &[u8]) -> u64 {
    crc_fast::checksum(crc_fast::CrcAlgorithm::Crc64Nvme, bytes)
}

/// Whether a store may be written, by itself and by what its witness says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is where it was left, as it was left.
    Home,
    /// It was closed cleanly, and is a whole by itself: it may have been moved.
    Whole,
    /// It was not closed cleanly, and there is no witness.
    Unknown,
    /// It was not closed cleanly, and the witness is of another file.
    Copy,
    /// More commits were durable than are there.
    Older {
        /// The last durable commit that is known.
        durable: u64,
    },
    /// More records of the intent log were durable than are there.
    Cut {
        /// The last durable record that is known.
        durable: u64,
    },
}

/// How far a store has come, its logs included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reach {
    pub commits: u64,
    /// Records of the intent log, filed or still to be filed.
    pub intents: u64,
    /// All of it is in the one file.
    pub is_clean: bool,
}

/// Compares them.
pub(super) fn judge(reach: Reach, identity: Identity, testimony: Option<Testimony>) -> Verdict {
    match testimony {
        Some(known) if known.identity == identity && known.commits > reach.commits => {
            Verdict::Older { durable: known.commits }
        }
        Some(known) if known.identity == identity && known.intents > reach.intents => {
            Verdict::Cut { durable: known.intents }
        }
        Some(known) if known.identity == identity => Verdict::Home,
        _ if reach.is_clean => Verdict::Whole,
        Some(_) => Verdict::Copy,
        None => Verdict::Unknown,
    }
}

#[cfg(test)]
#[path = "witness_tests.rs"]
mod tests;
