//! One method per request: translate, one call of the volume, translate back. Nothing else.
//!
//! The kernel keeps names and attributes long ([`KEEP`]) where this kernel makes every change to the volume: it drops what its own changes make
//! stale; `kernel.rs` has the exceptions. Where others change the volume, too, it keeps them as long as the user chose.

use super::kernel::KernelCache;
use super::locks;
use super::requests::{RequestKind, Requests};
use super::translate::{self, Others};
use fuser::{
    CopyFileRangeFlags, Errno, FileAttr, FileHandle, FopenFlags, Generation, INodeNo, InitFlags, KernelConfig,
    LockOwner, OpenFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty,
    ReplyEntry, ReplyLock, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};
use std::ffi::OsStr;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use weft_format::Ino;
use weft_format::records::{Attributes, Kind};
use weft_meta::Owner;
use weft_vfs::{AttributeChange, Caller, DirectoryEntry, Handle, RESTORE_XATTR, VfsError, Volume};

/// How long the kernel may answer for us from its caches. Nothing else changes the volume while it is mounted, so the
/// length is a matter of taste; a minute lets a forgotten mistake mend itself.
const KEEP: Duration = Duration::from_secs(60);

/// How long the kernel may say by itself that a name is absent. A restored name comes about without a request that says so:
/// the kernel is told, and this bounds the time if it was not. Compilers ask for an absent name many times within it.
const KEEP_ABSENT: Duration = Duration::from_secs(1);

/// What a mount shows that only reads, beside the owner who changes the volume, is this much old at most.
const KEEP_BESIDE_OWNER: Duration = Duration::from_secs(1);

/// Inode numbers are never used twice, so all are of the first generation.
const GENERATION: Generation = Generation(0);

/// The largest write request; the kernel allows no more without a raised `fs.fuse.max_pages_limit`.
const MAX_WRITE_BYTES: u32 = 1 << 20;

/// Read-ahead and asynchronous direct requests that may be under way at once.
const MAX_BACKGROUND: u16 = 64;

/// Entries asked of the volume at a time; the kernel's buffer (4 to 32 KiB as a rule) holds about 20 to 180 of them.
const ENTRIES_PER_CALL: usize = 64;

/// What we ask of the kernel, where it has it. Not among them, on purpose: `WRITEBACK_CACHE` (the kernel would become the
/// authority on size and times), `POSIX_ACL`, and `ATOMIC_O_TRUNC` (the kernel then sends an open that truncates before it looks whether the file
/// is being executed, and a running program loses its text; without it, it looks first and truncates by `setattr`).
const WANTED: [InitFlags; 10] = [
    InitFlags::FUSE_ASYNC_READ,
    InitFlags::FUSE_ASYNC_DIO,
    InitFlags::FUSE_BIG_WRITES,
    InitFlags::FUSE_EXPORT_SUPPORT,
    // Directories may be read and looked up in by several threads; the volume orders them.
    InitFlags::FUSE_PARALLEL_DIROPS,
    InitFlags::FUSE_DO_READDIRPLUS,
    InitFlags::FUSE_READDIRPLUS_AUTO,
    InitFlags::FUSE_CACHE_SYMLINKS,
    InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP,
    // The volume clears set-user-id and set-group-id bits, and removes `security.capability`. It saves the kernel a request for
    // `security.capability` before every write.
    InitFlags::FUSE_HANDLE_KILLPRIV_V2,
];

/// What is asked for besides where other mounts change the volume, too: locks hold in all of them, and pages of a file that another has
/// changed are dropped when the kernel learns of its new size or time. With one mount the kernel's own locks are right and free.
const WANTED_BESIDE_MOUNTS: [InitFlags; 3] =
    [InitFlags::FUSE_POSIX_LOCKS, InitFlags::FUSE_FLOCK_LOCKS, InitFlags::FUSE_AUTO_INVAL_DATA];

/// Answers the kernel's requests out of a volume.
pub(super) struct Adapter {
    volume: Arc<Volume>,
    kernel: KernelCache,
    /// Are access times noted?
    notes_access: bool,
    /// How long the kernel may answer by itself.
    keep: Duration,
    others: Others,
    requests: Arc<Requests>,
}

/// Attributes, and how long the kernel may show them.
struct Shown {
    attributes: FileAttr,
    keep: Duration,
}

/// A request's answer, or the errno to give instead.
type Answer<T> = Result<T, Errno>;

/// The kernel has checked the caller, and does not tell its supplementary groups and capabilities.
fn caller(request: &Request) -> Caller {
    Caller::new(request.uid(), request.gid())
}

/// The kernel says with each truncation whether the caller may keep set-user-id and set-group-id bits (has CAP_FSETID),
/// but fuser 0.18 does not pass it on. Root has it, others have not.
fn may_keep_suid(request: &Request) -> bool {
    request.uid() == 0
}

fn ino(ino: INodeNo) -> Ino {
    Ino(ino.0)
}

/// The volume's refusals are ordinary; what stands for a fault of nodes or metadata is worth a line in the log.
fn refused(request: RequestKind) -> impl Fn(VfsError) -> Errno {
    move |error| {
        let (request, errno) = (request.name(), error.errno());
        if matches!(errno, libc::EIO | libc::ENOSPC | libc::EROFS) {
            tracing::warn!(request, errno, "{error}");
        } else {
            tracing::trace!(request, errno, "{error}");
        }
        Errno::from_i32(errno)
    }
}

/// Defines how each kind of reply says its answer.
trait Reply<T>: Sized {
    fn send(self, answer: T);
    fn refuse(self, errno: Errno);

    fn give(self, answer: Answer<T>) {
        match answer {
            Ok(answer) => self.send(answer),
            Err(errno) => self.refuse(errno),
        }
    }
}

macro_rules! reply {
    ($reply:ty, $answer:ty, |$self:ident, $value:ident| $send:expr) => {
        impl Reply<$answer> for $reply {
            fn send($self, $value: $answer) {
                $send
            }
            fn refuse(self, errno: Errno) {
                self.error(errno);
            }
        }
    };
}

reply!(ReplyEmpty, (), |self, _nothing| self.ok());
reply!(ReplyEntry, Shown, |self, shown| self.entry(&shown.keep, &shown.attributes, GENERATION));
reply!(ReplyAttr, Shown, |self, shown| self.attr(&shown.keep, &shown.attributes));
reply!(ReplyWrite, u32, |self, bytes| self.written(bytes));
reply!(ReplyLseek, u64, |self, offset| self.offset(offset as i64));
reply!(ReplyOpen, (FileHandle, FopenFlags), |self, opened| self.opened(opened.0, opened.1));

/// Answers a request for an extended attribute's bytes: its length if asked with no room, ERANGE if there is too little.
fn give_xattr(reply: ReplyXattr, room_bytes: u32, answer: Answer<Vec<u8>>) {
    match answer {
        Ok(value) if room_bytes == 0 => reply.size(value.len() as u32),
        Ok(value) if value.len() > room_bytes as usize => reply.error(Errno::ERANGE),
        Ok(value) => reply.data(&value),
        Err(errno) => reply.error(errno),
    }
}

/// Answers a request for a lock, on a thread that may wait: what another mount wrote under its lock is not what the kernel has kept.
fn give_locked(kernel: &KernelCache, node: INodeNo, reply: ReplyEmpty, answer: Answer<()>) {
    if answer.is_ok() {
        kernel.forget_bytes(node, 0..i64::MAX as u64);
    }
    reply.give(answer);
}

impl Adapter {
    /// `keep_beside_mounts`: how long the kernel may answer by itself where other mounts change the volume, too.
    pub(super) fn new(
        volume: Arc<Volume>,
        kernel: KernelCache,
        notes_access: bool,
        keep_beside_mounts: Duration,
        requests: Arc<Requests>,
    ) -> Self {
        let (others, keep) = match (volume.is_read_only(), volume.is_shared()) {
            (true, _) => (Others::Owner, KEEP_BESIDE_OWNER),
            (false, true) => (Others::Mounts, keep_beside_mounts),
            (false, false) => (Others::Nobody, KEEP),
        };
        Self { volume, kernel, notes_access, keep, others, requests }
    }

    fn opened(&self, handle: Handle, flags: i32) -> (FileHandle, FopenFlags) {
        (translate::file_handle(handle, flags, self.others), translate::open_reply(flags, self.others))
    }

    /// Counts a request and answers it. A panic answers this one request with EIO (fuser sends it when the reply is dropped)
    /// and leaves the mount standing.
    fn serve(&self, request: RequestKind, work: impl FnOnce()) {
        self.requests.count(request);
        if catch_unwind(AssertUnwindSafe(work)).is_err() {
            let request = request.name();
            tracing::error!(request, "the request panicked; it was answered with an input/output error");
        }
    }

    fn now(&self) -> Instant {
        self.volume.store().env().clock.now()
    }

    /// How long the kernel may keep what the volume was asked for at this moment. Others may have changed it since: a server was slow, or this
    /// process was stopped before it answered.
    fn keep(&self, longest: Duration, asked: Instant) -> Duration {
        match self.others {
            Others::Mounts | Others::Owner => longest.saturating_sub(self.now().saturating_duration_since(asked)),
            Others::Nobody => longest,
        }
    }

    /// How long the kernel may keep a name in this directory.
    fn keep_name(&self, parent: INodeNo, asked: Instant) -> Duration {
        let longest = match self.others {
            Others::Mounts => self.keep.min(self.kernel.keep_name(parent, self.now())),
            Others::Nobody | Others::Owner => self.keep,
        };
        self.keep(longest, asked)
    }

    /// What the kernel learns of a name and its attributes, or the errno. Both are kept equally long.
    fn named(
        &self,
        request: RequestKind,
        parent: INodeNo,
        asked: Instant,
        found: Result<Attributes, VfsError>,
    ) -> Answer<Shown> {
        Ok(Shown { keep: self.keep_name(parent, asked), ..self.shown(request, asked, found)? })
    }

    /// What the kernel is told of attributes, or the errno.
    fn shown(&self, request: RequestKind, asked: Instant, found: Result<Attributes, VfsError>) -> Answer<Shown> {
        let shown = |found| Shown { attributes: translate::file_attr(&found), keep: self.keep(self.keep, asked) };
        found.map(shown).map_err(refused(request))
    }

    /// Something was read. The kernel tells of the first read of what it does not keep only, so a file counts as read when it
    /// is opened for reading.
    fn note_access(&self, node: INodeNo) {
        if self.notes_access && self.volume.note_access(ino(node)) {
            self.kernel.forget_attributes(node);
        }
    }

    /// Answers a write that went around the page cache, on a thread that may wait: the kernel must have dropped what others
    /// read into it meanwhile when the writer learns that the bytes are written.
    fn give_direct(&self, node: INodeNo, range: Range<u64>, is_direct: bool, reply: ReplyWrite, answer: Answer<u32>) {
        let kernel = self.kernel.clone();
        self.volume.runtime().spawn_blocking(move || {
            if is_direct {
                kernel.forget_bytes(node, range);
                reply.give(answer);
            } else {
                // O_DIRECT was set after opening: the kernel may fall back to its pages, and hold them until it has the answer.
                reply.give(answer);
                kernel.forget_bytes(node, range);
            }
        });
    }

    /// Gives what was deleted its name back. The kernel may know the name as absent, and holds the root directory until it is
    /// answered: it is told on another thread.
    fn restore(&self, caller: &Caller, value: &[u8]) -> Result<(), VfsError> {
        let restored = self.volume.restore_named(caller, value)?;
        let kernel = self.kernel.clone();
        self.volume.runtime().spawn_blocking(move || {
            kernel.forget_name(INodeNo(restored.parent.0), OsStr::from_bytes(&restored.name));
            kernel.forget_attributes(INodeNo(restored.attributes.ino.0));
        });
        Ok(())
    }

    /// `.` and `..` are asked for by file handles from outside (NFS, `open_by_handle_at`); the volume has no such names.
    fn look_up(&self, parent: Ino, name: &OsStr) -> Result<Attributes, VfsError> {
        let of = match name.as_bytes() {
            b"." => parent,
            b".." => self.volume.attributes(parent)?.parent,
            name => return self.volume.lookup(parent, name),
        };
        let attributes = self.volume.attributes(of)?;
        self.volume.reference(of);
        Ok(attributes)
    }

    /// Feeds `add` with entries after `after_cookie` until it is full (it says so by `true`) or the directory ends.
    fn list(
        &self,
        directory: INodeNo,
        mut after_cookie: u64,
        mut add: impl FnMut(&DirectoryEntry) -> bool,
    ) -> Result<(), VfsError> {
        loop {
            let entries = self.volume.read_directory(ino(directory), after_cookie, ENTRIES_PER_CALL)?;
            for entry in &entries {
                if add(entry) {
                    return Ok(());
                }
                after_cookie = entry.cookie;
            }
            if entries.is_empty() {
                return Ok(());
            }
        }
    }
}

impl fuser::Filesystem for Adapter {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        let beside: &[InitFlags] = if self.others == Others::Mounts { &WANTED_BESIDE_MOUNTS } else { &[] };
        for wanted in WANTED.into_iter().chain(beside.iter().copied()) {
            if config.add_capabilities(wanted).is_err() {
                tracing::debug!(?wanted, "this kernel does not have it");
            }
        }
        // What cannot be had is given as far as the kernel goes.
        let _ = config.set_max_write(MAX_WRITE_BYTES);
        let _ = config.set_max_background(MAX_BACKGROUND);
        Ok(())
    }

    fn lookup(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        self.serve(RequestKind::Lookup, || {
            let asked = self.now();
            match self.look_up(ino(parent), name) {
                // The kernel may remember that the name is not there.
                Err(error) if error.errno() == libc::ENOENT => {
                    let keep = self.keep_name(parent, asked).min(self.keep(KEEP_ABSENT, asked));
                    reply.entry(&keep, &translate::no_entry(), GENERATION);
                }
                answer => reply.give(self.named(RequestKind::Lookup, parent, asked, answer)),
            }
        });
    }

    fn forget(&self, _request: &Request, node: INodeNo, lookups: u64) {
        self.serve(RequestKind::Forget, || self.volume.forget(ino(node), lookups));
    }

    fn getattr(&self, _request: &Request, node: INodeNo, _handle: Option<FileHandle>, reply: ReplyAttr) {
        self.serve(RequestKind::Getattr, || {
            let asked = self.now();
            reply.give(self.shown(RequestKind::Getattr, asked, self.volume.attributes(ino(node))))
        });
    }

    fn setattr(
        &self,
        request: &Request,
        node: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        ctime: Option<SystemTime>,
        _handle: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<fuser::BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        self.serve(RequestKind::Setattr, || {
            let change = AttributeChange {
                mode: mode.map(translate::mode_bits),
                uid,
                gid,
                size,
                atime: atime.map(translate::set_time),
                mtime: mtime.map(translate::set_time),
                ctime: ctime.map(translate::timestamp),
                clear_suid: size.is_some() && !may_keep_suid(request),
            };
            let asked = self.now();
            reply.give(self.shown(RequestKind::Setattr, asked, self.volume.set_attributes(ino(node), &change)));
        });
    }

    fn readlink(&self, _request: &Request, node: INodeNo, reply: ReplyData) {
        self.serve(RequestKind::Readlink, || match self.volume.readlink(ino(node)) {
            Ok(target) => {
                self.note_access(node);
                reply.data(&target);
            }
            Err(error) => reply.error(refused(RequestKind::Readlink)(error)),
        });
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        rdev: u32,
        reply: ReplyEntry,
    ) {
        self.serve(RequestKind::Mknod, || {
            let Some(kind) = translate::node_kind(mode) else { return reply.error(Errno::EINVAL) };
            let mode = translate::mode_bits(mode);
            let asked = self.now();
            let answer = self.volume.make_node(&caller(request), ino(parent), name.as_bytes(), kind, mode, rdev);
            reply.give(self.named(RequestKind::Mknod, parent, asked, answer));
        });
    }

    fn mkdir(&self, request: &Request, parent: INodeNo, name: &OsStr, mode: u32, _umask: u32, reply: ReplyEntry) {
        self.serve(RequestKind::Mkdir, || {
            let mode = translate::mode_bits(mode);
            let kind = Kind::Directory;
            let asked = self.now();
            let answer = self.volume.make_node(&caller(request), ino(parent), name.as_bytes(), kind, mode, 0);
            reply.give(self.named(RequestKind::Mkdir, parent, asked, answer));
        });
    }

    fn unlink(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.serve(RequestKind::Unlink, || {
            let answer = self.volume.unlink(ino(parent), name.as_bytes());
            reply.give(answer.map_err(refused(RequestKind::Unlink)));
        });
    }

    fn rmdir(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.serve(RequestKind::Rmdir, || {
            let answer = self.volume.remove_directory(ino(parent), name.as_bytes());
            reply.give(answer.map_err(refused(RequestKind::Rmdir)));
        });
    }

    fn symlink(&self, request: &Request, parent: INodeNo, link_name: &OsStr, target: &Path, reply: ReplyEntry) {
        self.serve(RequestKind::Symlink, || {
            let target = target.as_os_str().as_bytes();
            let asked = self.now();
            let answer = self.volume.symlink(&caller(request), ino(parent), link_name.as_bytes(), target);
            reply.give(self.named(RequestKind::Symlink, parent, asked, answer));
        });
    }

    fn rename(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: fuser::RenameFlags,
        reply: ReplyEmpty,
    ) {
        self.serve(RequestKind::Rename, || {
            let owner = Owner { uid: request.uid(), gid: request.gid() };
            let Some(flags) = translate::rename_flags(flags, owner) else { return reply.error(Errno::EINVAL) };
            let (from, to) = (name.as_bytes(), new_name.as_bytes());
            let answer = self.volume.rename(ino(parent), from, ino(new_parent), to, flags);
            reply.give(answer.map_err(refused(RequestKind::Rename)));
        });
    }

    fn link(&self, _request: &Request, node: INodeNo, new_parent: INodeNo, new_name: &OsStr, reply: ReplyEntry) {
        self.serve(RequestKind::Link, || {
            let asked = self.now();
            let answer = self.volume.link(ino(node), ino(new_parent), new_name.as_bytes());
            reply.give(self.named(RequestKind::Link, new_parent, asked, answer));
        });
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        self.serve(RequestKind::Create, || {
            let (mode, asked) = (translate::mode_bits(mode), self.now());
            match self.volume.create(&caller(request), ino(parent), name.as_bytes(), mode, flags) {
                Ok((attributes, handle)) => {
                    let attributes = translate::file_attr(&attributes);
                    let (handle, opened) = self.opened(handle, flags);
                    reply.created(&self.keep_name(parent, asked), &attributes, GENERATION, handle, opened);
                }
                // Another mount has made it since the kernel looked: it looks again, and opens what it finds.
                Err(error)
                    if error.errno() == libc::EEXIST && self.others == Others::Mounts && flags & libc::O_EXCL == 0 =>
                {
                    reply.error(Errno::ESTALE);
                }
                Err(error) => reply.error(refused(RequestKind::Create)(error)),
            }
        });
    }

    fn open(&self, _request: &Request, node: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        self.serve(RequestKind::Open, || {
            let opened = self.volume.open(ino(node), flags.0).map_err(refused(RequestKind::Open));
            if opened.is_ok() && translate::counts_as_read(flags.0) {
                self.note_access(node);
            }
            if self.others == Others::Mounts {
                // The kernel would read no further than the size that it knows.
                self.kernel.forget_attributes(node);
            }
            reply.give(opened.map(|handle| self.opened(handle, flags.0)));
        });
    }

    fn read(
        &self,
        _request: &Request,
        _node: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        self.serve(RequestKind::Read, || match self.volume.read(translate::handle(handle), offset, size) {
            Ok(bytes) => reply.data(&bytes),
            Err(error) => reply.error(refused(RequestKind::Read)(error)),
        });
    }

    fn write(
        &self,
        _request: &Request,
        node: INodeNo,
        handle: FileHandle,
        offset: u64,
        data: &[u8],
        write_flags: WriteFlags,
        flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        self.serve(RequestKind::Write, || {
            let clear_suid = write_flags.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID);
            if translate::appends(flags.0, self.others) && !write_flags.contains(WriteFlags::FUSE_WRITE_CACHE) {
                let answer = self.volume.append(translate::handle(handle), data, clear_suid);
                // Where the bytes are now the kernel does not know.
                self.kernel.forget_attributes(node);
                let (answer, is_direct) = (answer.map_err(refused(RequestKind::Write)), translate::is_direct(handle));
                return self.give_direct(node, 0..i64::MAX as u64, is_direct, reply, answer);
            }
            let answer = self.volume.write(translate::handle(handle), offset, data, clear_suid);
            let answer = answer.map_err(refused(RequestKind::Write));
            if clear_suid {
                self.kernel.forget_attributes(node);
            }
            let is_direct = translate::is_direct(handle);
            let is_from_cache = write_flags.contains(WriteFlags::FUSE_WRITE_CACHE);
            if is_from_cache || !(is_direct || flags.0 & libc::O_DIRECT != 0) {
                return reply.give(answer);
            }
            self.give_direct(node, offset..offset.saturating_add(data.len() as u64), is_direct, reply, answer);
        });
    }

    fn flush(&self, _request: &Request, node: INodeNo, handle: FileHandle, lock_owner: LockOwner, reply: ReplyEmpty) {
        self.serve(RequestKind::Flush, || {
            // Who gets the lock then sees what was written under it.
            let flushed = self.volume.flush(translate::handle(handle));
            let unlocked = self.volume.unlock_all(ino(node), lock_owner.0);
            reply.give(flushed.and(unlocked).map_err(refused(RequestKind::Flush)));
        });
    }

    fn getlk(
        &self,
        _request: &Request,
        node: INodeNo,
        handle: FileHandle,
        lock_owner: LockOwner,
        start: u64,
        end: u64,
        kind: i32,
        pid: u32,
        reply: ReplyLock,
    ) {
        self.serve(RequestKind::Getlk, || {
            let part = locks::part(lock_owner, translate::handle(handle), start..=end);
            let Some(wanted) = locks::request(part, kind, pid) else {
                return reply.locked(start, end, libc::F_UNLCK, 0);
            };
            match self.volume.lock_in_the_way(ino(node), wanted) {
                Ok(None) => reply.locked(start, end, libc::F_UNLCK, 0),
                Ok(Some(lock)) => {
                    let kind = if lock.is_exclusive { libc::F_WRLCK } else { libc::F_RDLCK };
                    reply.locked(lock.first, lock.last.min(i64::MAX as u64), kind, lock.pid);
                }
                Err(error) => reply.error(refused(RequestKind::Getlk)(error)),
            }
        });
    }

    fn setlk(
        &self,
        request: &Request,
        node: INodeNo,
        handle: FileHandle,
        lock_owner: LockOwner,
        start: u64,
        end: u64,
        kind: i32,
        pid: u32,
        sleep: bool,
        reply: ReplyEmpty,
    ) {
        self.serve(RequestKind::Setlk, || {
            let refused = refused(RequestKind::Setlk);
            let part = locks::part(lock_owner, translate::handle(handle), start..=end);
            let Some(wanted) = locks::request(part, kind, pid) else {
                return reply.give(self.volume.unlock(ino(node), part).map_err(refused));
            };
            match self.volume.lock(ino(node), wanted) {
                Ok(None) => {
                    let kernel = self.kernel.clone();
                    self.volume.runtime().spawn_blocking(move || give_locked(&kernel, node, reply, Ok(())));
                }
                Ok(Some(_)) if sleep => {
                    let (kernel, volume, thread) = (self.kernel.clone(), self.volume.clone(), request.pid());
                    let wait = move || {
                        let given = locks::wait(&volume, ino(node), wanted, thread).map_err(|error| match error {
                            Some(error) => refused(error),
                            None => Errno::EINTR,
                        });
                        give_locked(&kernel, node, reply, given);
                    };
                    // A thread of its own: those that move data must not all wait for the program that has the lock, which needs them. Without one
                    // the request is answered by EIO, as its reply is dropped.
                    if let Err(error) = self.volume.store().env().spawner.thread("weft-lock", Box::new(wait)) {
                        tracing::warn!("nobody can wait for a lock: {error}");
                    }
                }
                Ok(Some(_)) => reply.error(Errno::EAGAIN),
                Err(error) => reply.error(refused(error)),
            }
        });
    }

    fn release(
        &self,
        _request: &Request,
        node: INodeNo,
        handle: FileHandle,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        self.serve(RequestKind::Release, || {
            let handle = translate::handle(handle);
            self.volume.release(handle);
            // The last descriptor of an open file is gone. The kernel tells of flock(2) and not of other locks of an open file.
            let unlocked = self.volume.unlock_released(ino(node), handle);
            reply.give(unlocked.map_err(refused(RequestKind::Release)));
        });
    }

    fn fsync(&self, _request: &Request, _node: INodeNo, handle: FileHandle, _data_only: bool, reply: ReplyEmpty) {
        self.serve(RequestKind::Fsync, || {
            let answer = self.volume.fsync(translate::handle(handle));
            reply.give(answer.map_err(refused(RequestKind::Fsync)));
        });
    }

    fn readdir(&self, _request: &Request, node: INodeNo, _handle: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        self.serve(RequestKind::Readdir, || {
            if offset == 0 {
                self.note_access(node);
            }
            let listed = self.list(node, offset, |entry| {
                let kind = translate::file_type(entry.attributes.kind);
                reply.add(INodeNo(entry.attributes.ino.0), entry.cookie, kind, OsStr::from_bytes(&entry.name))
            });
            match listed {
                Ok(()) => reply.ok(),
                Err(error) => reply.error(refused(RequestKind::Readdir)(error)),
            }
        });
    }

    fn readdirplus(
        &self,
        _request: &Request,
        node: INodeNo,
        _handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        self.serve(RequestKind::Readdirplus, || {
            if offset == 0 {
                self.note_access(node);
            }
            let asked = self.now();
            let listed = self.list(node, offset, |entry| {
                let attributes = translate::file_attr(&entry.attributes);
                let (name, keep) = (OsStr::from_bytes(&entry.name), self.keep_name(node, asked));
                let full = reply.add(attributes.ino, entry.cookie, name, &keep, &attributes, GENERATION);
                // Each delivered entry counts as a lookup, but for these two.
                if !full && name != "." && name != ".." {
                    self.volume.reference(entry.attributes.ino);
                }
                full
            });
            match listed {
                Ok(()) => reply.ok(),
                Err(error) => reply.error(refused(RequestKind::Readdirplus)(error)),
            }
        });
    }

    fn fsyncdir(&self, _request: &Request, node: INodeNo, _handle: FileHandle, _data_only: bool, reply: ReplyEmpty) {
        self.serve(RequestKind::Fsyncdir, || {
            reply.give(self.volume.sync_directory(ino(node)).map_err(refused(RequestKind::Fsyncdir)))
        });
    }

    fn statfs(&self, _request: &Request, _node: INodeNo, reply: ReplyStatfs) {
        self.serve(RequestKind::Statfs, || match self.volume.statfs() {
            Ok(all) => reply.statfs(
                all.blocks,
                all.blocks_free,
                all.blocks_available,
                all.files,
                all.files_free,
                all.block_bytes,
                all.name_bytes_max,
                all.block_bytes,
            ),
            Err(error) => reply.error(refused(RequestKind::Statfs)(error)),
        });
    }

    fn setxattr(
        &self,
        request: &Request,
        node: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _position: u32,
        reply: ReplyEmpty,
    ) {
        self.serve(RequestKind::Setxattr, || {
            let Some(mode) = translate::xattr_mode(flags) else { return reply.error(Errno::EINVAL) };
            let caller = caller(request);
            let answer = if ino(node) == Ino::ROOT && name.as_bytes() == RESTORE_XATTR {
                self.restore(&caller, value)
            } else {
                self.volume.set_xattr(&caller, ino(node), name.as_bytes(), value, mode)
            };
            reply.give(answer.map_err(refused(RequestKind::Setxattr)));
        });
    }

    fn getxattr(&self, _request: &Request, node: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        self.serve(RequestKind::Getxattr, || {
            let answer = self.volume.get_xattr(ino(node), name.as_bytes());
            give_xattr(reply, size, answer.map_err(refused(RequestKind::Getxattr)));
        });
    }

    fn listxattr(&self, _request: &Request, node: INodeNo, size: u32, reply: ReplyXattr) {
        self.serve(RequestKind::Listxattr, || {
            // Each name ends in a NUL.
            let names = self.volume.list_xattrs(ino(node));
            let answer = names.map(|names| names.into_iter().flat_map(|name| [name, vec![0]].concat()).collect());
            give_xattr(reply, size, answer.map_err(refused(RequestKind::Listxattr)));
        });
    }

    fn removexattr(&self, _request: &Request, node: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.serve(RequestKind::Removexattr, || {
            let answer = self.volume.remove_xattr(ino(node), name.as_bytes());
            reply.give(answer.map_err(refused(RequestKind::Removexattr)));
        });
    }

    fn fallocate(
        &self,
        request: &Request,
        node: INodeNo,
        handle: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        self.serve(RequestKind::Fallocate, || {
            // The kernel leaves it to us, and does not say what the caller may.
            let clear_suid = !may_keep_suid(request);
            let answer = self.volume.allocate(translate::handle(handle), offset, length, mode, clear_suid);
            if clear_suid {
                self.kernel.forget_attributes(node);
            }
            reply.give(answer.map_err(refused(RequestKind::Fallocate)));
        });
    }

    fn lseek(
        &self,
        _request: &Request,
        _node: INodeNo,
        handle: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        self.serve(RequestKind::Lseek, || {
            // The kernel refuses negative offsets itself.
            let Ok(offset) = u64::try_from(offset) else { return reply.error(Errno::ENXIO) };
            let answer = self.volume.seek(translate::handle(handle), offset, whence);
            reply.give(answer.map_err(refused(RequestKind::Lseek)));
        });
    }

    fn copy_file_range(
        &self,
        _request: &Request,
        _ino_in: INodeNo,
        _fh_in: FileHandle,
        _offset_in: u64,
        _ino_out: INodeNo,
        _fh_out: FileHandle,
        _offset_out: u64,
        _len: u64,
        _flags: CopyFileRangeFlags,
        reply: ReplyWrite,
    ) {
        // The kernel then copies through its page cache, and does not ask again.
        self.serve(RequestKind::CopyFileRange, || reply.error(Errno::ENOSYS));
    }
}
