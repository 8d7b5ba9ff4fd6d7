//! Files of an open folder: plain system calls relative to its descriptor, whatever kind of folder it is.

use super::layout::TEMPORARY_PREFIX;
use bytes::Bytes;
use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags, RenameFlags, ResolveFlags};
use rustix::io::Errno;
use rustix::process::{Gid, Uid};
use std::ffi::CString;
use std::io::IoSlice;
use std::sync::atomic::{AtomicU64, Ordering};

/// Shards are for the user this runs as and for nobody else.
const FILE_MODE: Mode = Mode::RUSR.union(Mode::WUSR);

/// Most parts handed to the kernel at once; it takes up to 1024.
const PARTS_PER_WRITE: usize = 64;

/// User and group of a file.
pub(super) type Owner = (Uid, Gid);

/// Opens `path` within the folder, through no symbolic link and never outside.
pub(super) fn open_beneath(
    dir: impl AsFd,
    path: &str,
    flags: OFlags,
    resolve: ResolveFlags,
) -> rustix::io::Result<OwnedFd> {
    let resolve = resolve | ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    rustix::fs::openat2(dir, path, flags | OFlags::CLOEXEC, Mode::empty(), resolve)
}

/// The names in a folder, without `.` and `..`. Its own descriptor, so that scans side by side do not share a position.
pub(super) fn names(folder: impl AsFd) -> rustix::io::Result<Vec<CString>> {
    let own: OwnedFd = open_beneath(folder, ".", OFlags::RDONLY | OFlags::DIRECTORY, ResolveFlags::empty())?;
    let mut names = Vec::new();
    for entry in Dir::new(own)? {
        let entry = entry?;
        if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
            names.push(entry.file_name().to_owned());
        }
    }
    Ok(names)
}

/// Gives what root has made in a user's node to that user, whose own mount could not read it otherwise.
pub(super) fn hand_over(made: &OwnedFd, (user, group): Owner) -> rustix::io::Result<()> {
    // Where a server takes root for somebody else, nothing can be given away, and nothing is root's.
    let is_roots = !user.is_root() && rustix::process::geteuid().is_root() && rustix::fs::fstat(made)?.st_uid == 0;
    if is_roots { rustix::fs::fchown(made, Some(user), Some(group)) } else { Ok(()) }
}

/// Writes a file that must not exist yet, durably; on any error there is no file of that name that was not there before. It is the
/// owner's, if one is given, though root writes it.
pub(super) fn write_new(folder: &OwnedFd, name: &str, parts: &[Bytes], owner: Option<Owner>) -> rustix::io::Result<()> {
    let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
    match rustix::fs::openat(folder, ".", flags, FILE_MODE) {
        Ok(file) => {
            owner.map_or(Ok(()), |owner| hand_over(&file, owner))?;
            write_durably(&file, parts)?;
            link(&file, folder, name)?;
        }
        // EISDIR is how kernels and file systems that do not know O_TMPFILE read it.
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => write_named(folder, name, parts, owner)?,
        Err(errno) => return Err(errno),
    }
    rustix::fs::fsync(folder).inspect_err(|_| {
        // Not durable, so not stored; if this fails too, an unreferenced shard stays for the collector.
        let _ = rustix::fs::unlinkat(folder, name, AtFlags::empty());
    })
}

/// After a failed fsync nothing is known of the file's pages, and asking again may lie: the file is given up.
fn write_durably(file: &OwnedFd, parts: &[Bytes]) -> rustix::io::Result<()> {
    for parts in parts.chunks(PARTS_PER_WRITE) {
        let mut slices: Vec<_> = parts.iter().map(|part| IoSlice::new(part)).collect();
        let mut slices = slices.as_mut_slice();
        // Skips empty parts, so that a count of 0 below means that nothing more can be written.
        IoSlice::advance_slices(&mut slices, 0);
        while !slices.is_empty() {
            match rustix::io::writev(file, slices) {
                Ok(0) => return Err(Errno::NOSPC),
                Ok(count) => IoSlice::advance_slices(&mut slices, count),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
    }
    rustix::fs::fsync(file)
}

fn link(file: &OwnedFd, folder: &OwnedFd, name: &str) -> rustix::io::Result<()> {
    match rustix::fs::linkat(file, "", folder, name, AtFlags::EMPTY_PATH) {
        // Without privilege, before Linux 6.10, only the way by /proc is open.
        Err(Errno::NOENT) => {
            let path = format!("/proc/self/fd/{}", file.as_raw_fd());
            rustix::fs::linkat(CWD, path, folder, name, AtFlags::SYMLINK_FOLLOW)
        }
        linked => linked,
    }
}

/// For file systems without unnamed files: a file of a name that is no shard's, renamed when it is whole.
pub(super) fn write_named(
    folder: &OwnedFd,
    name: &str,
    parts: &[Bytes],
    owner: Option<Owner>,
) -> rustix::io::Result<()> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let process = rustix::process::getpid().as_raw_nonzero();
    let temporary = format!("{TEMPORARY_PREFIX}{process}-{count}-{name}");
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = rustix::fs::openat(folder, &temporary, flags, FILE_MODE)?;
    let moved = owner.map_or(Ok(()), |owner| hand_over(&file, owner));
    let moved =
        moved.and_then(|()| write_durably(&file, parts)).and_then(|()| move_into_place(folder, &temporary, name));
    if moved.is_err() {
        let _ = rustix::fs::unlinkat(folder, &temporary, AtFlags::empty());
    }
    moved
}

fn move_into_place(folder: &OwnedFd, temporary: &str, name: &str) -> rustix::io::Result<()> {
    match rustix::fs::renameat_with(folder, temporary, folder, name, RenameFlags::NOREPLACE) {
        // NFS has no such rename, but it has links, which do not replace either.
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
            rustix::fs::linkat(folder, temporary, folder, name, AtFlags::empty())?;
            rustix::fs::unlinkat(folder, temporary, AtFlags::empty())
        }
        renamed => renamed,
    }
}
