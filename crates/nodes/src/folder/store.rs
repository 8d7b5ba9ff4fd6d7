//! The calls of a node, on files of its folder (`files.rs`). Everything here may wait for the device, but for [`get_cached`].
//!
//! A put: unnamed temporary file -> write -> fsync -> link under its name, which fails if the name is taken -> fsync of
//! the directory. Until the link the shard does not exist; when the put fails, the kernel drops the file.

use super::files::{hand_over, open_beneath, write_new};
use super::layout::{file_path, subfolder};
use super::place::{Place, Root};
use crate::error::{NodeError, NodeErrorKind};
use crate::node::{ShardStat, Space};
use crate::system::shard_files::{ShardFile, require_file};
use crate::system::{cut, read_at, read_cached_at};
use bytes::Bytes;
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use std::ops::Range;
use std::sync::Arc;
use weft_format::ShardKey;

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
