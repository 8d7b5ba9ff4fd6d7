//! An open of a file, which a handle stands for.

use crate::files::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use weft_env::sync::Mutex;
use weft_format::Ino;
use weft_transfer::Readahead;

/// One open of one file.
pub(crate) struct OpenFile {
    pub file: Arc<File>,
    /// As open(2) had them. A kernel minds the access mode itself.
    pub open_flags: i32,
    /// Every write is followed by an fsync (`O_SYNC`, `O_DSYNC`).
    pub sync: bool,
    pub readahead: Mutex<Readahead>,
    /// Of how many failures to write the file it was told.
    pub failures_told: AtomicU64,
}

impl OpenFile {
    pub fn ino(&self) -> Ino {
        self.file.ino
    }

    pub fn reads(&self) -> bool {
        matches!(self.open_flags & libc::O_ACCMODE, libc::O_RDONLY | libc::O_RDWR)
    }

    pub fn writes(&self) -> bool {
        matches!(self.open_flags & libc::O_ACCMODE, libc::O_WRONLY | libc::O_RDWR)
    }

    /// May a program change the file by a mapping? That takes both.
    pub fn is_mappable(&self) -> bool {
        self.open_flags & libc::O_ACCMODE == libc::O_RDWR
    }

    /// May programs that have the file open by other handles change it by mappings?
    pub fn may_be_mapped_beside(&self) -> bool {
        self.file.mappable_count.load(Ordering::Relaxed) > u32::from(self.is_mappable())
    }
}
