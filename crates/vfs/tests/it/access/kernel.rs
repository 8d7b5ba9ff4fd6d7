//! A local file system, and system calls on it by a thread that has become the caller.

use super::{Answer, Call, Facts, PUNCH, Then, Tree, join, set_mtime};
use rustix::fs::{
    self, Access, AtFlags, CWD, Dir, FallocateFlags, FileType, Mode, OFlags, ResolveFlags, Timespec, Timestamps,
    XattrFlags,
};
use rustix::io::Errno;
use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_change, unmount};
use rustix::process::{Gid, Uid};
use rustix::thread::{self, CapabilitySet, CapabilitySets, UnshareFlags};
use std::os::fd::{AsFd, OwnedFd};
use weft_format::records::Kind;
use weft_meta::XattrMode;
use weft_vfs::{Caller, SetTime, Wanted};

pub fn must_be_root() {
    assert!(rustix::process::geteuid().is_root(), "this test needs root: it becomes other users and mounts a tmpfs");
}

/// `fs.protected_hardlinks`, which is the whole machine's.
pub fn protects_hard_links() -> bool {
    let setting = std::fs::read_to_string("/proc/sys/fs/protected_hardlinks").expect("a Linux kernel");
    setting.trim() != "0"
}

/// Runs on a thread whose mounts, working directory and umask are its own, and those of the threads that it starts.
pub fn in_own_namespace<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    let alone = || {
        #[expect(deprecated, reason = "only with UnshareFlags::FILES is it unsafe")]
        thread::unshare(UnshareFlags::NEWNS | UnshareFlags::FS).expect("root may");
        mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC).expect("root may");
        rustix::process::umask(Mode::empty());
        work()
    };
    let outcome = std::thread::scope(|scope| scope.spawn(alone).join());
    outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// An empty tmpfs, which is the working directory and goes with its namespace.
pub struct Local {
    folder: tempfile::TempDir,
}

impl Drop for Local {
    fn drop(&mut self) {
        rustix::process::chdir("/").expect("root may");
        unmount(self.folder.path(), UnmountFlags::DETACH).expect("root may");
    }
}

impl Local {
    pub fn mount() -> Local {
        let folder = tempfile::tempdir().expect("a folder");
        mount("access", folder.path(), "tmpfs", MountFlags::empty(), c"mode=755").expect("root may mount a tmpfs");
        rustix::process::chdir(folder.path()).expect("root may");
        Local { folder }
    }

    /// A system call by the caller.
    pub fn call_as(&self, caller: &Caller, call: &Call) -> Result<Answer, i32> {
        let by_caller = || {
            become_caller(caller);
            run(call).map_err(Errno::raw_os_error)
        };
        std::thread::scope(|scope| scope.spawn(by_caller).join()).expect("system calls do not panic")
    }

    pub fn tree(&self) -> Tree {
        let mut tree = Tree::from([(".".to_owned(), facts("."))]);
        let mut left = vec![".".to_owned()];
        while let Some(directory) = left.pop() {
            for name in names(open_directory(&directory).expect("root may")).expect("root may") {
                let path = join(&directory, &String::from_utf8(name).expect("the test's own"));
                if path.ends_with('.') {
                    continue;
                }
                let facts = facts(&path);
                if facts.kind == Kind::Directory {
                    left.push(path.clone());
                }
                tree.insert(path, facts);
            }
        }
        tree
    }
}

/// This thread has the caller's identity from now on, for the kernel.
fn become_caller(caller: &Caller) {
    let groups: Vec<Gid> = caller.groups.iter().map(|gid| Gid::from_raw(*gid)).collect();
    let (uid, gid) = (Uid::from_raw(caller.uid), Gid::from_raw(caller.gid));
    thread::set_thread_groups(&groups).expect("root may");
    thread::set_thread_res_gid(gid, gid, gid).expect("root may");
    thread::set_keep_capabilities(true).expect("root may");
    thread::set_thread_res_uid(uid, uid, uid).expect("root may");
    let has = CapabilitySet::from_bits_retain(caller.capabilities.bits());
    let sets = CapabilitySets { effective: has, permitted: has, inheritable: CapabilitySet::empty() };
    thread::set_capabilities(None, sets).expect("they are kept");
}

fn open_directory(path: &str) -> Result<OwnedFd, Errno> {
    fs::openat(CWD, path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
}

fn names(directory: OwnedFd) -> Result<Vec<Vec<u8>>, Errno> {
    let mut names = Vec::new();
    for entry in Dir::new(directory)? {
        names.push(entry?.file_name().to_bytes().to_vec());
    }
    names.sort();
    Ok(names)
}

fn kind(mode: u32) -> Kind {
    match FileType::from_raw_mode(mode) {
        FileType::RegularFile => Kind::File,
        FileType::Directory => Kind::Directory,
        FileType::Symlink => Kind::Symlink,
        FileType::Fifo => Kind::Fifo,
        FileType::Socket => Kind::Socket,
        FileType::CharacterDevice => Kind::CharDevice,
        FileType::BlockDevice => Kind::BlockDevice,
        FileType::Unknown => panic!("mode {mode:o}"),
    }
}

fn xattr_names(path: &str) -> Result<Vec<Vec<u8>>, Errno> {
    let mut list = vec![0; 4096];
    let length = fs::llistxattr(path, &mut list[..])?;
    let mut names: Vec<Vec<u8>> =
        list[..length].split(|byte| *byte == 0).filter(|name| !name.is_empty()).map(<[u8]>::to_vec).collect();
    names.sort();
    Ok(names)
}

fn xattr(path: &str, name: &[u8]) -> Result<Vec<u8>, Errno> {
    let mut value = vec![0; 100];
    let length = fs::lgetxattr(path, name, &mut value[..])?;
    value.truncate(length);
    Ok(value)
}

fn facts(path: &str) -> Facts {
    let stat = fs::statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW).expect("root may");
    let kind = kind(stat.st_mode);
    let target = match kind {
        Kind::Symlink => fs::readlinkat(CWD, path, Vec::new()).expect("root may").into_bytes(),
        _ => Vec::new(),
    };
    let names = xattr_names(path).expect("root may");
    Facts {
        kind,
        mode: (stat.st_mode & 0o7777) as u16,
        uid: stat.st_uid,
        gid: stat.st_gid,
        nlink: u32::try_from(stat.st_nlink).expect("few"),
        rdev: u32::try_from(stat.st_rdev).expect("small"),
        size: if kind == Kind::File { stat.st_size as u64 } else { 0 },
        mtime: set_mtime(stat.st_mtime),
        target,
        xattrs: names.into_iter().map(|name| (name.clone(), xattr(path, &name).expect("root may"))).collect(),
    }
}

fn timespec(time: Option<SetTime>) -> Timespec {
    match time {
        None => Timespec { tv_sec: 0, tv_nsec: fs::UTIME_OMIT },
        Some(SetTime::Now) => Timespec { tv_sec: 0, tv_nsec: fs::UTIME_NOW },
        Some(SetTime::To(to)) => Timespec { tv_sec: to.seconds, tv_nsec: to.nanoseconds.into() },
    }
}

fn use_file(file: impl AsFd, then: Then) -> Result<Answer, Errno> {
    match then {
        Then::Read => {
            let mut bytes = vec![0; 100];
            let length = rustix::io::pread(&file, &mut bytes, 0)?;
            bytes.truncate(length);
            return Ok(Answer::Bytes(bytes));
        }
        Then::Write => drop(rustix::io::pwrite(&file, b"abc", 0)?),
        Then::WriteNothing => drop(rustix::io::pwrite(&file, b"", 0)?),
        Then::Cut(size) => fs::ftruncate(&file, size)?,
        Then::Punch => fs::fallocate(&file, FallocateFlags::from_bits_retain(PUNCH.cast_unsigned()), 1, 5)?,
        Then::Close => {}
    }
    Ok(Answer::Done)
}

fn run(call: &Call) -> Result<Answer, Errno> {
    let mode = |mode: &u16| Mode::from_bits_retain((*mode).into());
    let no_follow = AtFlags::SYMLINK_NOFOLLOW;
    let done = |()| Answer::Done;
    match call {
        Call::Resolve { path } => {
            let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::IN_ROOT;
            let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            fs::openat2(CWD, path, flags, Mode::empty(), resolve).map(|_| Answer::Done)
        }
        Call::Stat { path } => fs::statat(CWD, path, no_follow).map(|_| Answer::Done),
        Call::Access { path, wanted } => {
            let mut access = Access::EXISTS;
            access.set(Access::READ_OK, wanted.contains(Wanted::READ));
            access.set(Access::WRITE_OK, wanted.contains(Wanted::WRITE));
            access.set(Access::EXEC_OK, wanted.contains(Wanted::EXECUTE));
            fs::accessat(CWD, path, access, AtFlags::EACCESS | no_follow).map(done)
        }
        Call::Readlink { path } => {
            fs::readlinkat(CWD, path, Vec::new()).map(|target| Answer::Bytes(target.into_bytes()))
        }
        Call::List { path } => names(open_directory(path)?).map(Answer::Names),
        Call::Create { path, mode: bits } => {
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
            let file = fs::openat(CWD, path, flags, mode(bits))?;
            rustix::io::pwrite(&file, b"new", 0).map(|_| Answer::Done)
        }
        Call::Make { path, kind: Kind::Directory, mode: bits, .. } => fs::mkdirat(CWD, path, mode(bits)).map(done),
        Call::Make { path, kind, mode: bits, rdev } => {
            let file_type = match kind {
                Kind::Fifo => FileType::Fifo,
                Kind::Socket => FileType::Socket,
                Kind::CharDevice => FileType::CharacterDevice,
                Kind::BlockDevice => FileType::BlockDevice,
                _ => FileType::RegularFile,
            };
            fs::mknodat(CWD, path, file_type, mode(bits), (*rdev).into()).map(done)
        }
        Call::Symlink { path, target } => fs::symlinkat(target, CWD, path).map(done),
        Call::Link { from, to } => fs::linkat(CWD, from, CWD, to, AtFlags::empty()).map(done),
        Call::Unlink { path } => fs::unlinkat(CWD, path, AtFlags::empty()).map(done),
        Call::RemoveDirectory { path } => fs::unlinkat(CWD, path, AtFlags::REMOVEDIR).map(done),
        Call::Rename { from, to, flags } => {
            let mut bits = fs::RenameFlags::empty();
            bits.set(fs::RenameFlags::NOREPLACE, flags.no_replace);
            bits.set(fs::RenameFlags::EXCHANGE, flags.exchange);
            bits.set(fs::RenameFlags::WHITEOUT, flags.whiteout.is_some());
            fs::renameat_with(CWD, from, CWD, to, bits).map(done)
        }
        Call::ChangeMode { path, mode: bits } => fs::chmodat(CWD, path, mode(bits), AtFlags::empty()).map(done),
        Call::ChangeOwner { path, uid, gid } => {
            fs::chownat(CWD, path, uid.map(Uid::from_raw), gid.map(Gid::from_raw), no_follow).map(done)
        }
        Call::ChangeTimes { path, atime, mtime } => {
            let times = Timestamps { last_access: timespec(*atime), last_modification: timespec(*mtime) };
            fs::utimensat(CWD, path, &times, no_follow).map(done)
        }
        Call::Cut { path, size } => {
            // truncate(2) asks for the same right.
            let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            fs::ftruncate(fs::openat(CWD, path, flags, Mode::empty())?, *size).map(done)
        }
        Call::Open { path, flags, then } => {
            let flags = OFlags::from_bits_retain(flags.cast_unsigned()) | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            use_file(fs::openat(CWD, path, flags, Mode::empty())?, *then)
        }
        Call::GetXattr { path, name } => xattr(path, name.as_bytes()).map(Answer::Bytes),
        Call::SetXattr { path, name, value, mode } => {
            let flags = match mode {
                XattrMode::Any => XattrFlags::empty(),
                XattrMode::Create => XattrFlags::CREATE,
                XattrMode::Replace => XattrFlags::REPLACE,
            };
            fs::lsetxattr(path, name, value, flags).map(done)
        }
        Call::ListXattrs { path } => xattr_names(path).map(Answer::Names),
        Call::RemoveXattr { path, name } => fs::lremovexattr(path, name).map(done),
        Call::Statfs { path } => fs::statfs(path.as_str()).map(|_| Answer::Done),
    }
}
