//! Which file systems make a caller wait.

use rustix::fd::AsFd;

/// Where a file's bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Medium {
    /// In memory (tmpfs, ramfs): nothing waits.
    Memory,
    /// On a local device under the page cache: a read of cached pages does not wait, and the kernel says when it would.
    Cached,
    /// Anything else (NFS, FUSE, unknown): every call may wait.
    Waiting,
}

impl Medium {
    /// By the file system of an open file.
    pub fn of(file: impl AsFd) -> rustix::io::Result<Self> {
        // From linux/magic.h.
        Ok(match rustix::fs::fstatfs(file)?.f_type as u64 {
            // tmpfs, ramfs
            0x0102_1994 | 0x8584_58f6 => Self::Memory,
            // ext2-4, xfs, btrfs, f2fs, bcachefs
            0xef53 | 0x5846_5342 | 0x9123_683e | 0xf2f5_2010 | 0xca45_1a4e => Self::Cached,
            _ => Self::Waiting,
        })
    }
}
