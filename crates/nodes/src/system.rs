//! What nodes on this machine's disks share: open files, reading by system calls, and what their failures mean.

pub mod medium;
pub mod shard_files;

use crate::error::{NodeError, NodeErrorKind};
use rustix::fd::OwnedFd;
use rustix::io::{Errno, ReadWriteFlags};
use std::io::IoSliceMut;
use std::ops::Range;
use std::path::Path;

/// Longest read done on the caller's thread, about as long as handing it over: a quarter of a 1 MiB block and its frames.
pub const INLINE_READ_BYTES: u64 = 320 << 10;

/// Up to `length` bytes from `offset` on; fewer only where the file ends.
pub fn read_at(file: &OwnedFd, offset: u64, length: usize) -> rustix::io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(length);
    while bytes.len() < length {
        let at = offset + bytes.len() as u64;
        // The allocation may be longer than asked; what is read beyond `length` is cut off below.
        match rustix::io::pread(file, rustix::buffer::spare_capacity(&mut bytes), at) {
            Ok(0) => break,
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    bytes.truncate(length);
    Ok(bytes)
}

/// The same, if it can be had without waiting for the device.
pub fn read_cached_at(file: &OwnedFd, offset: u64, length: usize) -> rustix::io::Result<Vec<u8>> {
    let mut bytes = vec![0; length];
    let mut filled = 0;
    while filled < length {
        let mut rest = [IoSliceMut::new(&mut bytes[filled..])];
        match rustix::io::preadv2(file, &mut rest, offset + filled as u64, ReadWriteFlags::NOWAIT)? {
            // Cut short since its length was read; fewer bytes are the honest answer.
            0 => break,
            count => filled += count,
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}

/// Offset and length of `range` within `size` bytes.
pub fn cut(range: &Range<u64>, size: u64) -> (u64, usize) {
    let end = range.end.min(size);
    let start = range.start.min(end);
    (start, (end - start) as usize)
}

/// What a system call's failure means for node `name` at `path`, for all but missing files.
pub fn failure(name: &str, path: &Path, errno: Errno, doing: &str) -> NodeError {
    let (kind, mend) = match errno {
        Errno::NOSPC | Errno::DQUOT => (NodeErrorKind::Full, "free some space there"),
        Errno::ACCESS | Errno::PERM | Errno::ROFS => {
            (NodeErrorKind::Denied, "make it readable and writable for the user this runs as")
        }
        Errno::MFILE | Errno::NFILE => (NodeErrorKind::Unavailable, "allow more open files (ulimit -n)"),
        Errno::STALE | Errno::NODEV | Errno::NXIO | Errno::NOTCONN | Errno::HOSTDOWN | Errno::HOSTUNREACH => {
            (NodeErrorKind::Unavailable, "attach or mount its disk")
        }
        Errno::TIMEDOUT => (NodeErrorKind::TimedOut, "see whether its server or disk answers"),
        _ => (NodeErrorKind::Io, "look into the kernel's log and at the health of its disk"),
    };
    NodeError::new(kind, name, format!("{}: {doing} failed ({errno}): {mend}", path.display()))
}
