//! The work itself: plain system calls relative to the folder's descriptor. Everything here may wait for the device, but
//! for [`get_cached`].
//!
//! A put: unnamed temporary file -> write -> fsync -> link under its name, which fails if the name is taken -> fsync of
//! the directory. Until the link the shard does not exist; when the put fails, the kernel drops the file.

use super::place::{Owner, Place, Root, open_beneath};
use crate::error::{NodeError, NodeErrorKind};
use crate::node::{ShardStat, Space};
use crate::system::shard_files::{ShardFile, require_file};
use crate::system::{cut, read_at, read_cached_at};
use bytes::Bytes;
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, RenameFlags, ResolveFlags};
use rustix::io::Errno;
use std::io::IoSlice;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use weft_format::ShardKey;

/// Shards are for the user this runs as and for nobody else.
const FILE_MODE: Mode = Mode::RUSR.union(Mode::WUSR);

/// Most parts handed to the kernel at once; it takes up to 1024.
const PARTS_PER_WRITE: usize = 64;

/// The subfolder of a shard: the last two digits of its segment's id, which are random, so that all fill alike.
pub(crate) fn subfolder(key: ShardKey) -> String {
    format!("{:02x}", key.segment.0 as u8)
}

fn file_path(key: ShardKey) -> String {
    format!("{:02x}/{key}", key.segment.0 as u8)
}

pub(super) fn put(place: &Place, key: ShardKey, parts: &[Bytes]) -> Result<(), NodeError> {
    let root = place.attached()?;
    let failed = |errno| match errno {
        // The subfolder is made where it is missing, so the whole folder is.
        Errno::NOENT => place.absent_folder(&root),
        errno => place.failure(errno, &format!("storing shard {key}")),
    };
    let folder = open_or_make_subfolder(&root, &subfolder(key)).map_err(failed)?;
    let name = key.to_string();
    match write_new(&folder, &name, parts, Some(root.owner)) {
        // While it was written the folder may have been deleted, and this subfolder made anew in what is no node any more.
        Ok(()) => match place.attached() {
            Ok(now) if Arc::ptr_eq(&now, &root) => Ok(()),
            Ok(_) => Err(place.absent_folder(&root)),
            Err(error) => Err(error),
        },
        Err(Errno::EXIST) => {
            if !holds(&folder, &name, parts).map_err(failed)? {
                let detail = format!("shard {key} exists with other bytes; names are never used twice");
                return Err(place.error(NodeErrorKind::Exists, detail));
            }
            // Whoever linked it may not have come to make the link durable.
            rustix::fs::fsync(&folder).map_err(failed)
        }
        Err(errno) => Err(failed(errno)),
    }
}

fn open_or_make_subfolder(root: &Root, name: &str) -> rustix::io::Result<OwnedFd> {
    let open = || open_beneath(&root.dir, name, OFlags::RDONLY | OFlags::DIRECTORY, ResolveFlags::empty());
    match open() {
        Err(Errno::NOENT) => {
            match rustix::fs::mkdirat(&root.dir, name, Mode::RWXU) {
                Ok(()) | Err(Errno::EXIST) => rustix::fs::fsync(&root.dir)?,
                Err(errno) => return Err(errno),
            }
            let made = open()?;
            hand_over(&made, root.owner)?;
            Ok(made)
        }
        opened => opened,
    }
}

/// Gives what root has made in a user's node to that user, whose own mount could not read it otherwise.
fn hand_over(made: &OwnedFd, (user, group): Owner) -> rustix::io::Result<()> {
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

/// What the names of unfinished files begin with; no shard's name does.
pub(crate) const TEMPORARY_PREFIX: &str = "unfinished-";

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

fn holds(folder: &OwnedFd, name: &str, parts: &[Bytes]) -> rustix::io::Result<bool> {
    let file = open_beneath(folder, name, OFlags::RDONLY | OFlags::NONBLOCK, ResolveFlags::empty())?;
    let stat = rustix::fs::fstat(&file)?;
    if stat.st_size as u64 != parts.iter().map(|part| part.len() as u64).sum::<u64>() {
        return Ok(false);
    }
    let mut offset = 0;
    for part in parts {
        if read_at(&file, offset, part.len())? != *part {
            return Ok(false);
        }
        offset += part.len() as u64;
    }
    // Its first writer has done so before linking; a file copied in by hand has not.
    rustix::fs::fsync(&file)?;
    Ok(true)
}

pub(super) fn get(place: &Place, key: ShardKey, range: &Range<u64>) -> Result<Bytes, NodeError> {
    let root = place.attached()?;
    let failed = |errno| failure_of(place, &root, key, "reading", errno);
    let (shard, size) = open_shard(&root, key, ResolveFlags::empty()).map_err(failed)?;
    let (offset, length) = cut(range, size);
    read_at(&shard.file, offset, length).map(Bytes::from).map_err(failed)
}

/// The same, if it can be had without waiting for the device; `None` if not.
pub(super) fn get_cached(place: &Place, key: ShardKey, range: &Range<u64>) -> Option<Result<Bytes, NodeError>> {
    let root = match place.attached() {
        Ok(root) => root,
        Err(error) => return Some(Err(error)),
    };
    let read = || {
        let (shard, size) = open_shard(&root, key, ResolveFlags::CACHED)?;
        let (offset, length) = cut(range, size);
        read_cached_at(&shard.file, offset, length).map(Bytes::from)
    };
    match read() {
        Ok(bytes) => Some(Ok(bytes)),
        // Any doubt is for the way that may wait: it also tells a missing shard from a missing folder.
        Err(_) => None,
    }
}

/// The open file of a shard and its length. An open file kept from before counts only while the shard's name still
/// leads to it: it may have been removed, replaced or swapped.
fn open_shard(root: &Root, key: ShardKey, resolve: ResolveFlags) -> rustix::io::Result<(Arc<ShardFile>, u64)> {
    if let Some(shard) = root.shard_files.find(key) {
        match rustix::fs::statat(&root.dir, file_path(key), AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) if shard.is(&stat) => return Ok((shard, stat.st_size as u64)),
            _ => root.shard_files.forget(key),
        }
    }
    let file = match open_file(root, key, resolve) {
        Err(Errno::MFILE | Errno::NFILE) => {
            root.shard_files.clear();
            open_file(root, key, resolve)?
        }
        opened => opened?,
    };
    let (shard, size) = ShardFile::new(file, root.medium)?;
    let shard = Arc::new(shard);
    root.shard_files.keep(key, Arc::clone(&shard));
    Ok((shard, size))
}

fn open_file(root: &Root, key: ShardKey, resolve: ResolveFlags) -> rustix::io::Result<OwnedFd> {
    // Non-blocking, so that a pipe somebody put there does not hang the call.
    open_beneath(&root.dir, &file_path(key), OFlags::RDONLY | OFlags::NONBLOCK, resolve)
}

/// The shard's file, opened anew: what its user sets on it concerns nobody else.
pub(super) fn open_for_reading(place: &Place, key: ShardKey) -> Result<OwnedFd, NodeError> {
    let root = place.attached()?;
    open_file(&root, key, ResolveFlags::empty()).map_err(|errno| failure_of(place, &root, key, "opening it", errno))
}

pub(super) fn stat(place: &Place, key: ShardKey) -> Result<ShardStat, NodeError> {
    let root = place.attached()?;
    let stat = rustix::fs::statat(&root.dir, file_path(key), AtFlags::SYMLINK_NOFOLLOW)
        .and_then(|stat| require_file(&stat).map(|()| stat))
        .map_err(|errno| failure_of(place, &root, key, "looking at", errno))?;
    let seconds = u64::try_from(stat.st_mtime).unwrap_or(0);
    let modified_ms = seconds.saturating_mul(1000).saturating_add(stat.st_mtime_nsec as u64 / 1_000_000);
    Ok(ShardStat { bytes: stat.st_size as u64, modified_ms })
}

pub(super) fn remove(place: &Place, key: ShardKey) -> Result<(), NodeError> {
    let root = place.attached()?;
    let failed = |errno| failure_of(place, &root, key, "removing", errno);
    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
    let folder = open_beneath(&root.dir, &subfolder(key), flags, ResolveFlags::empty()).map_err(failed)?;
    rustix::fs::unlinkat(&folder, key.to_string(), AtFlags::empty()).map_err(failed)?;
    root.shard_files.forget(key);
    rustix::fs::fsync(&folder).map_err(failed)
}

pub(super) fn space(place: &Place) -> Result<Space, NodeError> {
    // Reads real bytes of the store, not only its directory.
    place.identity()?;
    let root = place.attached()?;
    let failed = |errno| place.failure(errno, "asking for its space");
    let found = rustix::fs::fstatvfs(&root.dir).map_err(failed)?;
    let disk = rustix::fs::fstat(&root.dir).map_err(failed)?.st_dev;
    // What is kept for the administrator counts for nobody else, as `df` has it.
    Ok(Space {
        total_bytes: found.f_frsize.saturating_mul(found.f_blocks - (found.f_bfree - found.f_bavail)),
        free_bytes: found.f_frsize.saturating_mul(found.f_bavail),
        disk: Some(disk),
    })
}

fn failure_of(place: &Place, root: &Arc<Root>, key: ShardKey, doing: &str, errno: Errno) -> NodeError {
    match errno {
        Errno::NOENT => place.absent(root, format!("there is no shard {key}")),
        errno => place.failure(errno, &format!("{doing} shard {key}")),
    }
}
