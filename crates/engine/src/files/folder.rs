//! A folder of this machine as a tree: any folder, or the mount of a volume.
//!
//! Each path is opened anew beneath the folder, through no symbolic link, and what was opened is what is changed: whatever is
//! moved or linked meanwhile, nothing outside of the folder is reached.

use super::error::{refused, system};
use super::{Attributes, Entry, FilesError, Result, Sink, Tree};
use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags, Stat, Timespec, Timestamps, XattrFlags};
use rustix::io::Errno;
use rustix::process::{Gid, Uid};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use weft_format::Ino;
use weft_format::records::{Kind, Timestamp};
use weft_vfs::{POLICY_XATTR, PURGE_XATTR, RESTORE_XATTR, SYNC_XATTR, deleted_value};

/// The longest text of a policy that is read back.
const POLICY_BYTES_MAX: usize = 1024;

/// New files are their owner's alone until they get their mode.
const NEW_FILE_MODE: Mode = Mode::RUSR.union(Mode::WUSR);
const NEW_DIRECTORY_MODE: Mode = Mode::RWXU;

/// The files below a folder.
pub struct FolderTree {
    folder: OwnedFd,
    /// Its path, for messages.
    root: PathBuf,
    is_volume: bool,
}

impl FolderTree {
    /// The files below `root`, which is `/` in their paths.
    ///
    /// # Errors
    /// It is no directory that this user may enter.
    pub fn of_folder(root: PathBuf) -> Result<Self> {
        Self::open(root, false)
    }

    /// The files of the volume that is mounted at `root`.
    ///
    /// # Errors
    /// It is no directory that this user may enter.
    pub fn of_mount(root: PathBuf) -> Result<Self> {
        Self::open(root, true)
    }

    fn open(root: PathBuf, is_volume: bool) -> Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = rustix::fs::open(&root, flags, Mode::empty());
        let folder = folder.map_err(|errno| system(&root, errno))?;
        Ok(Self { folder, root, is_volume })
    }

    /// As people know it.
    fn full(&self, path: &Path) -> PathBuf {
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }

    fn failure(&self, path: &Path, errno: Errno) -> FilesError {
        let full = self.full(path);
        match errno {
            Errno::LOOP => {
                let full = full.display();
                FilesError::Refused(format!("{full}: the path has a symbolic link, which is not followed"))
            }
            errno => system(&full, errno),
        }
    }

    fn open_beneath(&self, path: &Path, flags: OFlags, mode: Mode) -> rustix::io::Result<OwnedFd> {
        let below = path.strip_prefix("/").unwrap_or(path);
        let below = if below == Path::new("") { Path::new(".") } else { below };
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        rustix::fs::openat2(&self.folder, below, flags | OFlags::CLOEXEC, mode, resolve)
    }

    /// The kind of the entry at a path, without opening it: a symbolic link itself, a pipe without waiting.
    fn handle(&self, path: &Path) -> Result<Handle> {
        let opened = self.open_beneath(path, OFlags::PATH | OFlags::NOFOLLOW, Mode::empty());
        opened.map(Handle).map_err(|errno| self.failure(path, errno))
    }

    /// The directory that a path's last name is in, and that name.
    fn parent<'p>(&self, path: &'p Path) -> Result<(OwnedFd, &'p OsStr)> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return refused(format!("{} itself cannot be changed: name an entry in it", self.root.display()));
        };
        let flags = OFlags::PATH | OFlags::DIRECTORY;
        let opened = self.open_beneath(parent, flags, Mode::empty());
        Ok((opened.map_err(|errno| self.failure(parent, errno))?, name))
    }

    /// Waits until everything that was written to the mount before is on the nodes, names included.
    ///
    /// # Errors
    /// It cannot be written, or nodes do not take it; the mount's log says why.
    pub fn sync(&self) -> Result<()> {
        self.tell(SYNC_XATTR, "")
    }

    /// Tells a mount to do something that is no call of a file system.
    fn tell(&self, request: &[u8], value: &str) -> Result<()> {
        let name = std::str::from_utf8(request).unwrap_or_default();
        let root = self.handle(Path::new("/"))?;
        let told = rustix::fs::setxattr(root.path(), name, value.as_bytes(), XattrFlags::empty());
        told.map_err(|errno| FilesError::Stream(errno.into()))
    }

    /// The name under which setxattr(2) and the like know the policy.
    fn policy_name() -> &'static str {
        std::str::from_utf8(POLICY_XATTR).unwrap_or_default()
    }
}

/// Something that was found, whatever happens to its name.
struct Handle(OwnedFd);

impl Handle {
    /// A path that leads to it and nothing else, for calls that take only paths.
    fn path(&self) -> String {
        path_of(&self.0)
    }
}

fn path_of(file: impl AsFd) -> String {
    format!("/proc/self/fd/{}", file.as_fd().as_raw_fd())
}

/// Sets attributes of an open entry, also of one opened by path only.
fn set(file: impl AsFd, attributes: &Attributes) -> rustix::io::Result<()> {
    let file = file.as_fd();
    // Changing the owner clears bits of the mode.
    if let Some((uid, gid)) = attributes.owner {
        let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
        rustix::fs::chownat(file, "", Some(uid), Some(gid), AtFlags::EMPTY_PATH)?;
    }
    if attributes.kind != Kind::Symlink {
        let mode = Mode::from_raw_mode(attributes.mode.into());
        match rustix::fs::fchmod(file, mode) {
            // It was only found, not opened.
            Err(Errno::BADF) => rustix::fs::chmodat(CWD, path_of(file), mode, AtFlags::empty())?,
            set => set?,
        }
    }
    let Timestamp { seconds, nanoseconds } = attributes.modified;
    let unchanged = Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_OMIT };
    let modified = Timespec { tv_sec: seconds, tv_nsec: nanoseconds.into() };
    let times = Timestamps { last_access: unchanged, last_modification: modified };
    rustix::fs::utimensat(file, "", &times, AtFlags::EMPTY_PATH)
}

impl Tree for FolderTree {
    fn entry(&self, path: &Path) -> Result<Option<Entry>> {
        let stat = || rustix::fs::fstat(self.open_beneath(path, OFlags::PATH | OFlags::NOFOLLOW, Mode::empty())?);
        match stat() {
            Ok(stat) => Ok(Some(entry(&stat))),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(self.failure(path, errno)),
        }
    }

    fn list(&self, directory: &Path) -> Result<Vec<(OsString, Entry)>> {
        let list = || {
            let opened = self.open_beneath(directory, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty())?;
            let mut directory = Dir::read_from(&opened)?;
            let mut entries = Vec::new();
            while let Some(child) = directory.read().transpose()? {
                let name = child.file_name();
                if matches!(name.to_bytes(), b"." | b"..") {
                    continue;
                }
                match rustix::fs::statat(&opened, name, AtFlags::SYMLINK_NOFOLLOW) {
                    Ok(stat) => entries.push((OsString::from_vec(name.to_bytes().to_vec()), entry(&stat))),
                    // Removed this very moment.
                    Err(Errno::NOENT) => {}
                    Err(errno) => return Err(errno),
                }
            }
            entries.sort_by(|a, b| a.0.cmp(&b.0));
            Ok(entries)
        };
        list().map_err(|errno| self.failure(directory, errno))
    }

    fn read_link(&self, path: &Path) -> Result<PathBuf> {
        let target = rustix::fs::readlinkat(&self.handle(path)?.0, "", Vec::new());
        let target = target.map_err(|errno| self.failure(path, errno))?;
        Ok(OsStr::from_bytes(target.to_bytes()).into())
    }

    fn read(&self, path: &Path) -> Result<Box<dyn Read + '_>> {
        // Without waiting for a pipe that was put there.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW;
        let open = || {
            let file = self.open_beneath(path, flags, Mode::empty())?;
            let kind = FileType::from_raw_mode(rustix::fs::fstat(&file)?.st_mode);
            Ok((File::from(file), kind))
        };
        let (file, kind) = open().map_err(|errno| self.failure(path, errno))?;
        let full = self.full(path);
        if kind != FileType::RegularFile {
            return refused(format!("{} is not a file any more: try again", full.display()));
        }
        Ok(Box::new(FileSource { file, full }))
    }

    fn make_file(&self, path: &Path) -> Result<Box<dyn Sink + '_>> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        let file = self.open_beneath(path, flags, NEW_FILE_MODE).map_err(|errno| self.failure(path, errno))?;
        Ok(Box::new(FileSink { file: file.into(), full: self.full(path) }))
    }

    fn make_directory(&self, path: &Path) -> Result<()> {
        let (parent, name) = self.parent(path)?;
        rustix::fs::mkdirat(&parent, name, NEW_DIRECTORY_MODE).map_err(|errno| self.failure(path, errno))
    }

    fn make_link(&self, path: &Path, target: &Path) -> Result<()> {
        let (parent, name) = self.parent(path)?;
        rustix::fs::symlinkat(target, &parent, name).map_err(|errno| self.failure(path, errno))
    }

    fn make_special(&self, path: &Path, kind: Kind) -> Result<()> {
        if kind != Kind::Fifo {
            return refused(format!(
                "{}: devices and sockets are not copied: leave them out",
                self.full(path).display()
            ));
        }
        let (parent, name) = self.parent(path)?;
        let made = rustix::fs::mknodat(&parent, name, FileType::Fifo, NEW_FILE_MODE, 0);
        made.map_err(|errno| self.failure(path, errno))
    }

    fn set(&self, path: &Path, attributes: &Attributes) -> Result<()> {
        let handle = self.handle(path)?;
        let found = rustix::fs::fstat(&handle.0).map_err(|errno| self.failure(path, errno))?;
        if kind(&found) != attributes.kind {
            return refused(format!("{} was replaced by something else: try again", self.full(path).display()));
        }
        set(&handle.0, attributes).map_err(|errno| self.failure(path, errno))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        let ((from_parent, from_name), (to_parent, to_name)) = (self.parent(from)?, self.parent(to)?);
        let renamed = rustix::fs::renameat(&from_parent, from_name, &to_parent, to_name);
        renamed.map_err(|errno| self.failure(to, errno))
    }

    fn remove(&self, path: &Path, kind: Kind) -> Result<()> {
        let (parent, name) = self.parent(path)?;
        let flags = if kind == Kind::Directory { AtFlags::REMOVEDIR } else { AtFlags::empty() };
        rustix::fs::unlinkat(&parent, name, flags).map_err(|errno| self.failure(path, errno))
    }

    fn policy(&self, path: &Path) -> Result<String> {
        let handle = self.handle(path)?;
        let mut policy = vec![0; POLICY_BYTES_MAX];
        let length = rustix::fs::getxattr(handle.path(), Self::policy_name(), &mut policy[..])
            .map_err(|errno| self.failure(path, errno))?;
        policy.truncate(length);
        String::from_utf8(policy).map_err(|_| self.failure(path, Errno::ILSEQ))
    }

    fn set_policy(&self, path: &Path, policy: &str) -> Result<()> {
        let handle = self.handle(path)?;
        rustix::fs::setxattr(handle.path(), Self::policy_name(), policy.as_bytes(), XattrFlags::empty())
            .map_err(|errno| self.failure(path, errno))
    }

    fn restore(&self, deleted_ms: u64, ino: Ino) -> Result<()> {
        self.tell(RESTORE_XATTR, &deleted_value(deleted_ms, ino))
    }

    fn purge(&self, deleted_ms: u64, ino: Ino) -> Result<()> {
        self.tell(PURGE_XATTR, &deleted_value(deleted_ms, ino))
    }

    fn is_volume(&self) -> bool {
        self.is_volume
    }

    fn close(self: Box<Self>) -> Result<()> {
        // Names too: each file was synced as it was finished.
        let root = self.open_beneath(Path::new("/"), OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty());
        root.and_then(rustix::fs::fsync).map_err(|errno| self.failure(Path::new("/"), errno))
    }
}

/// A file being read; its errors say which.
struct FileSource {
    file: File,
    full: PathBuf,
}

impl Read for FileSource {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.file.read(buffer).map_err(|error| named(&self.full, error))
    }
}

/// A file being written; its errors say which.
struct FileSink {
    file: File,
    full: PathBuf,
}

impl Write for FileSink {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.file.write(bytes).map_err(|error| named(&self.full, error))
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.file.flush()
    }
}

impl Sink for FileSink {
    fn skip(&mut self, bytes: u64) -> Result<()> {
        let end = self.file.stream_position()? + bytes;
        self.file.set_len(end).map_err(|error| named(&self.full, error))?;
        self.file.seek(SeekFrom::Start(end))?;
        Ok(())
    }

    fn finish(self: Box<Self>, attributes: &Attributes) -> Result<()> {
        let finished = set(&self.file, attributes).map_err(std::io::Error::from).and_then(|()| self.file.sync_all());
        Ok(finished.map_err(|error| named(&self.full, error))?)
    }
}

/// The kind stays: some ends are no failures.
fn named(full: &Path, error: std::io::Error) -> std::io::Error {
    std::io::Error::new(error.kind(), format!("{}: {error}", full.display()))
}

fn kind(stat: &Stat) -> Kind {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => Kind::Directory,
        FileType::Symlink => Kind::Symlink,
        FileType::Fifo => Kind::Fifo,
        FileType::Socket => Kind::Socket,
        FileType::CharacterDevice => Kind::CharDevice,
        FileType::BlockDevice => Kind::BlockDevice,
        _ => Kind::File,
    }
}

fn entry(stat: &Stat) -> Entry {
    Entry {
        id: (stat.st_dev, stat.st_ino),
        kind: kind(stat),
        mode: (stat.st_mode & 0o7777) as u16,
        uid: stat.st_uid,
        gid: stat.st_gid,
        nlink: stat.st_nlink as u32,
        size: stat.st_size as u64,
        modified: Timestamp { seconds: stat.st_mtime, nanoseconds: stat.st_mtime_nsec as u32 },
    }
}

#[cfg(test)]
#[path = "folder_tests.rs"]
mod tests;
