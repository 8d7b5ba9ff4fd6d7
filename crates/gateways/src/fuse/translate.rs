//! Between the kernel's words and the volume's: pure functions.

use fuser::{FileAttr, FileHandle, FileType, FopenFlags, INodeNo, TimeOrNow};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use weft_format::records::{Attributes, Kind, Timestamp};
use weft_meta::{Owner, RenameFlags, XattrMode};
use weft_vfs::{Handle, SetTime};

/// What `stat` shows as the preferred size of a request. Programs that buffer by it (stdio, Python) then write 64 KiB at
/// a time instead of 4 KiB: each write is a round trip to us. More would make them read too much for small seeks.
const PREFERRED_IO_BYTES: u32 = 64 << 10;

/// Set in the handles of files that go around the page cache; the volume counts its handles from 1.
const DIRECT: u64 = 1 << 63;

/// `st_blocks` counts in these, whatever the block size.
const STAT_BLOCK_BYTES: u64 = 512;

pub(super) fn file_type(kind: Kind) -> FileType {
    match kind {
        Kind::File => FileType::RegularFile,
        Kind::Directory => FileType::Directory,
        Kind::Symlink => FileType::Symlink,
        Kind::Fifo => FileType::NamedPipe,
        Kind::Socket => FileType::Socket,
        Kind::CharDevice => FileType::CharDevice,
        Kind::BlockDevice => FileType::BlockDevice,
    }
}

/// What mknod(2) asks for by the type bits of its mode; `None`: not a type that mknod makes.
pub(super) fn node_kind(mode: u32) -> Option<Kind> {
    match mode & libc::S_IFMT {
        // mknod(2): a type of zero means a regular file.
        0 | libc::S_IFREG => Some(Kind::File),
        libc::S_IFIFO => Some(Kind::Fifo),
        libc::S_IFSOCK => Some(Kind::Socket),
        libc::S_IFCHR => Some(Kind::CharDevice),
        libc::S_IFBLK => Some(Kind::BlockDevice),
        _ => None,
    }
}

/// Permission bits, setuid, setgid and sticky.
pub(super) fn mode_bits(mode: u32) -> u16 {
    (mode & 0o7777) as u16
}

pub(super) fn file_attr(attributes: &Attributes) -> FileAttr {
    FileAttr {
        ino: INodeNo(attributes.ino.0),
        size: attributes.size,
        blocks: attributes.allocated_bytes.div_ceil(STAT_BLOCK_BYTES),
        atime: system_time(attributes.atime),
        mtime: system_time(attributes.mtime),
        ctime: system_time(attributes.ctime),
        crtime: system_time(attributes.btime),
        kind: file_type(attributes.kind),
        perm: attributes.mode,
        nlink: attributes.nlink,
        uid: attributes.uid,
        gid: attributes.gid,
        rdev: attributes.rdev,
        blksize: PREFERRED_IO_BYTES,
        flags: 0,
    }
}

/// The answer to a lookup that the kernel may remember: inode 0 says that there is no such name.
pub(super) fn no_entry() -> FileAttr {
    FileAttr {
        ino: INodeNo(0),
        size: 0,
        blocks: 0,
        atime: UNIX_EPOCH,
        mtime: UNIX_EPOCH,
        ctime: UNIX_EPOCH,
        crtime: UNIX_EPOCH,
        kind: FileType::RegularFile,
        perm: 0,
        nlink: 0,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: 0,
        flags: 0,
    }
}

/// A time beyond what this machine can express becomes the epoch.
fn system_time(time: Timestamp) -> SystemTime {
    let whole = Duration::from_secs(time.seconds.unsigned_abs());
    let seconds = if time.seconds < 0 { UNIX_EPOCH.checked_sub(whole) } else { UNIX_EPOCH.checked_add(whole) };
    let nanoseconds = Duration::from_nanos(u64::from(time.nanoseconds));
    seconds.and_then(|seconds| seconds.checked_add(nanoseconds)).unwrap_or(UNIX_EPOCH)
}

/// The inverse of what fuser 0.18 makes of the kernel's (seconds, nanoseconds). Before the epoch it subtracts the
/// nanoseconds where it should add them (`time.rs`, `system_time_from_time`): undone here, so that times before 1970 keep
/// their nanoseconds.
pub(super) fn timestamp(time: SystemTime) -> Timestamp {
    let seconds = |duration: Duration| i64::try_from(duration.as_secs()).unwrap_or(i64::MAX);
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => Timestamp { seconds: seconds(after), nanoseconds: after.subsec_nanos() },
        Err(before) => {
            let before = before.duration();
            Timestamp { seconds: -seconds(before), nanoseconds: before.subsec_nanos() }
        }
    }
}

pub(super) fn set_time(time: TimeOrNow) -> SetTime {
    match time {
        TimeOrNow::Now => SetTime::Now,
        TimeOrNow::SpecificTime(time) => SetTime::To(timestamp(time)),
    }
}

/// `None`: a flag that renameat2(2) does not have. A whiteout is to have this owner.
pub(super) fn rename_flags(flags: fuser::RenameFlags, owner: Owner) -> Option<RenameFlags> {
    let known = fuser::RenameFlags::RENAME_NOREPLACE
        | fuser::RenameFlags::RENAME_EXCHANGE
        | fuser::RenameFlags::RENAME_WHITEOUT;
    known.contains(flags).then(|| RenameFlags {
        no_replace: flags.contains(fuser::RenameFlags::RENAME_NOREPLACE),
        exchange: flags.contains(fuser::RenameFlags::RENAME_EXCHANGE),
        whiteout: flags.contains(fuser::RenameFlags::RENAME_WHITEOUT).then_some(owner),
    })
}

/// `None`: flags that setxattr(2) refuses.
pub(super) fn xattr_mode(flags: i32) -> Option<XattrMode> {
    match flags {
        0 => Some(XattrMode::Any),
        libc::XATTR_CREATE => Some(XattrMode::Create),
        libc::XATTR_REPLACE => Some(XattrMode::Replace),
        _ => None,
    }
}

/// Who else changes the volume while it is mounted here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Others {
    /// Nobody: this kernel's caches are right, whatever is opened when.
    Nobody,
    /// Its owner; this mount only reads.
    Owner,
    /// Other mounts, as this one does.
    Mounts,
}

/// How the kernel treats an open file.
///
/// Where nobody else changes the volume its page cache outlives the file (`KEEP_CACHE`); otherwise each open begins anew. `O_DIRECT` goes
/// around it, with writes within the file in parallel, and so does `O_APPEND` where others append, too: the kernel does not know where the
/// end is. A file opened for reading has nothing to report at close (`NOFLUSH`), but for locks that others wait for.
pub(super) fn open_reply(open_flags: i32, others: Others) -> FopenFlags {
    let cache = if open_flags & libc::O_DIRECT != 0 {
        FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES
    } else if appends(open_flags, others) {
        FopenFlags::FOPEN_DIRECT_IO
    } else if others == Others::Nobody {
        FopenFlags::FOPEN_KEEP_CACHE
    } else {
        FopenFlags::empty()
    };
    let has_nothing_to_say = open_flags & libc::O_ACCMODE == libc::O_RDONLY && others != Others::Mounts;
    if has_nothing_to_say { cache | FopenFlags::FOPEN_NOFLUSH } else { cache }
}

/// Do its writes go to the end of the file, wherever other mounts have put it?
pub(super) fn appends(open_flags: i32, others: Others) -> bool {
    let writes = open_flags & libc::O_ACCMODE != libc::O_RDONLY;
    others == Others::Mounts && writes && open_flags & libc::O_APPEND != 0
}

/// The volume's handle as the kernel gets it; whether the file goes around the page cache is told by it later.
pub(super) fn file_handle(handle: Handle, open_flags: i32, others: Others) -> FileHandle {
    let is_direct = open_reply(open_flags, others).contains(FopenFlags::FOPEN_DIRECT_IO);
    FileHandle(if is_direct { handle.0 | DIRECT } else { handle.0 })
}

/// The inverse of [`file_handle`].
pub(super) fn handle(handle: FileHandle) -> Handle {
    Handle(handle.0 & !DIRECT)
}

/// Was it opened so that reads and writes go around the page cache?
pub(super) fn is_direct(handle: FileHandle) -> bool {
    handle.0 & DIRECT != 0
}

/// Is a file opened so that its access time is due?
pub(super) fn counts_as_read(open_flags: i32) -> bool {
    open_flags & libc::O_ACCMODE != libc::O_WRONLY && open_flags & libc::O_NOATIME == 0
}

#[cfg(test)]
#[path = "translate_tests.rs"]
mod tests;
