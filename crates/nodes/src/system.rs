//! What nodes on this machine's disks share: reading by system calls, and what their failures mean.

use crate::error::{NodeError, NodeErrorKind};
use rustix::fd::AsFd;
use rustix::io::Errno;
use std::path::Path;

/// Up to `length` bytes from `offset` on; fewer only where the file ends.
pub(crate) fn read_at(file: impl AsFd, offset: u64, length: usize) -> rustix::io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(length);
    while bytes.len() < length {
        let at = offset + bytes.len() as u64;
        // The allocation may be longer than asked; what is read beyond `length` is cut off below.
        match rustix::io::pread(&file, rustix::buffer::spare_capacity(&mut bytes), at) {
            Ok(0) => break,
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    bytes.truncate(length);
    Ok(bytes)
}

/// What a system call's failure means for node `name` at `path`, for all but missing files.
pub(crate) fn failure(name: &str, path: &Path, errno: Errno, doing: &str) -> NodeError {
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
