//! Room on the store's disk that is kept for deletions: a file beside the store, whose bytes are given up, slice by slice, when a
//! transaction finds no space, and taken again when there is some. Meanwhile only what frees room is committed.

use crate::owner::{companion_mode, open_beside};
use rustix::fs::{FallocateFlags, fallocate, statvfs};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use weft_env::steps;

/// Several times the log that pending changes make while room is short (`commit.rs`).
const RESERVE_BYTES: u64 = 16 << 20;
/// At most this part of a small disk.
const DISK_SHARE: u64 = 32;
/// Given up in so many slices: what is given up, others on the disk may take.
const SLICES: u64 = 8;
/// With less room than this, few changes may be pending.
const SHORT_BYTES: u64 = 64 << 20;

/// The reserve of a store.
pub(super) struct Reserve {
    store: PathBuf,
}

impl Reserve {
    pub fn of(store: &Path) -> Self {
        Self { store: store.to_path_buf() }
    }

    /// Takes the room, unless it is taken. False: there is none.
    pub fn take(&self) -> io::Result<bool> {
        let (file, bytes) = (self.open()?, self.bytes()?);
        let found = file.metadata()?;
        if bytes == 0 || found.len() >= bytes && found.blocks() * 512 >= bytes {
            return Ok(true);
        }
        match fallocate(&file, FallocateFlags::empty(), 0, bytes) {
            Ok(()) => Ok(true),
            Err(Errno::NOSPC | Errno::DQUOT) => {
                // Not the part that it has got just now, which it would take from deletions.
                file.set_len(found.len())?;
                Ok(false)
            }
            // Such a file system keeps no room for a file.
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(true),
            Err(error) => Err(error.into()),
        }
    }

    /// Gives a slice of the room up. False: there was none to give.
    pub fn give_up(&self) -> io::Result<bool> {
        let (file, bytes) = (self.open()?, self.bytes()?);
        let found = file.metadata()?.len();
        file.set_len(found.saturating_sub((bytes / SLICES).max(1)))?;
        Ok(found > 0)
    }

    fn bytes(&self) -> io::Result<u64> {
        let disk = statvfs(&self.store)?;
        Ok(steps::bound(RESERVE_BYTES).min(disk.f_blocks * disk.f_frsize / DISK_SHARE))
    }

    /// Is there little room left?
    pub fn is_short(&self) -> bool {
        statvfs(&self.store).is_ok_and(|disk| disk.f_bavail * disk.f_frsize < SHORT_BYTES)
    }

    fn open(&self) -> io::Result<File> {
        open_beside(&self.store, "-reserve", companion_mode)
    }
}
