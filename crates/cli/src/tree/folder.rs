//! A folder of this machine as a tree: any folder, or the mount of a volume.

use super::{Entry, Sink, Tree};
use anyhow::{Context, Result, bail};
use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, XattrFlags};
use std::ffi::OsString;
use std::fs::{self, File, Metadata, Permissions};
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use weft_format::Ino;
use weft_format::records::{Kind, Timestamp};
use weft_vfs::{POLICY_XATTR, RESTORE_XATTR, restore_value};

/// The longest text of a policy that is read back.
const POLICY_BYTES_MAX: usize = 1024;

/// The files below a folder.
pub struct FolderTree {
    root: PathBuf,
}

impl FolderTree {
    /// All files of this machine, by their usual paths.
    pub fn whole() -> Self {
        Self { root: PathBuf::from("/") }
    }

    /// The files below `root`, which is `/` in their paths.
    pub fn at(root: PathBuf) -> Self {
        Self { root }
    }

    fn full(&self, path: &Path) -> PathBuf {
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// The name under which setxattr(2) and the like know the policy.
    fn policy_name() -> &'static str {
        std::str::from_utf8(POLICY_XATTR).unwrap_or_default()
    }
}

impl Tree for FolderTree {
    fn entry(&self, path: &Path) -> Result<Option<Entry>> {
        let full = self.full(path);
        match fs::symlink_metadata(&full) {
            Ok(metadata) => Ok(Some(entry(&metadata))),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).with_context(|| full.display().to_string()),
        }
    }

    fn list(&self, directory: &Path) -> Result<Vec<(OsString, Entry)>> {
        let full = self.full(directory);
        let list = || {
            let mut entries = Vec::new();
            for child in fs::read_dir(&full)? {
                let child = child?;
                entries.push((child.file_name(), entry(&child.metadata()?)));
            }
            entries.sort_by(|a, b| a.0.cmp(&b.0));
            std::io::Result::Ok(entries)
        };
        list().with_context(|| full.display().to_string())
    }

    fn read_link(&self, path: &Path) -> Result<PathBuf> {
        let full = self.full(path);
        fs::read_link(&full).with_context(|| full.display().to_string())
    }

    fn read(&self, path: &Path) -> Result<Box<dyn Read + '_>> {
        let full = self.full(path);
        let file = File::open(&full).with_context(|| full.display().to_string())?;
        Ok(Box::new(FileSource { file, full }))
    }

    fn write(&self, path: &Path) -> Result<Box<dyn Sink + '_>> {
        let full = self.full(path);
        let file = File::create(&full).with_context(|| full.display().to_string())?;
        Ok(Box::new(FileSink { file, full }))
    }

    fn make_directory(&self, path: &Path) -> Result<()> {
        let full = self.full(path);
        fs::create_dir(&full).with_context(|| full.display().to_string())
    }

    fn make_link(&self, path: &Path, target: &Path) -> Result<()> {
        let full = self.full(path);
        std::os::unix::fs::symlink(target, &full).with_context(|| full.display().to_string())
    }

    fn make_special(&self, path: &Path, entry: &Entry) -> Result<()> {
        let full = self.full(path);
        if entry.kind != Kind::Fifo {
            bail!("{}: devices and sockets are not copied: leave them out", full.display());
        }
        let mode = rustix::fs::Mode::from_raw_mode(u32::from(entry.mode));
        let made = rustix::fs::mknodat(CWD, &full, rustix::fs::FileType::Fifo, mode, 0);
        made.with_context(|| full.display().to_string())
    }

    fn set(&self, path: &Path, entry: &Entry) -> Result<()> {
        let full = self.full(path);
        let set = || {
            if entry.kind != Kind::Symlink {
                fs::set_permissions(&full, Permissions::from_mode(u32::from(entry.mode)))?;
            }
            let (tv_sec, tv_nsec) = (entry.modified.seconds, i64::from(entry.modified.nanoseconds));
            let unchanged = Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_OMIT };
            let times = Timestamps { last_access: unchanged, last_modification: Timespec { tv_sec, tv_nsec } };
            rustix::fs::utimensat(CWD, &full, &times, AtFlags::SYMLINK_NOFOLLOW)?;
            std::io::Result::Ok(())
        };
        set().with_context(|| full.display().to_string())
    }

    fn remove(&self, path: &Path, kind: Kind) -> Result<()> {
        let full = self.full(path);
        let removed = if kind == Kind::Directory { fs::remove_dir(&full) } else { fs::remove_file(&full) };
        removed.with_context(|| full.display().to_string())
    }

    fn policy(&self, path: &Path) -> Result<String> {
        let full = self.full(path);
        let mut policy = vec![0; POLICY_BYTES_MAX];
        let length = rustix::fs::getxattr(&full, Self::policy_name(), &mut policy[..])
            .with_context(|| full.display().to_string())?;
        policy.truncate(length);
        Ok(String::from_utf8(policy)?)
    }

    fn set_policy(&self, path: &Path, policy: &str) -> Result<()> {
        let full = self.full(path);
        rustix::fs::setxattr(&full, Self::policy_name(), policy.as_bytes(), XattrFlags::empty())
            .with_context(|| full.display().to_string())
    }

    fn restore(&self, deleted_ms: u64, ino: Ino) -> Result<()> {
        let name = std::str::from_utf8(RESTORE_XATTR).unwrap_or_default();
        let value = restore_value(deleted_ms, ino);
        Ok(rustix::fs::setxattr(&self.root, name, value.as_bytes(), XattrFlags::empty())?)
    }

    fn close(self: Box<Self>) -> Result<()> {
        // Names too: each file was synced as it was finished.
        let root = File::open(&self.root).with_context(|| self.root.display().to_string())?;
        root.sync_all().with_context(|| self.root.display().to_string())
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

    fn finish(self: Box<Self>) -> Result<()> {
        Ok(self.file.sync_all().map_err(|error| named(&self.full, error))?)
    }
}

/// The kind stays: some ends are no failures.
fn named(full: &Path, error: std::io::Error) -> std::io::Error {
    std::io::Error::new(error.kind(), format!("{}: {error}", full.display()))
}

fn entry(metadata: &Metadata) -> Entry {
    let kind = metadata.file_type();
    let kind = match kind {
        _ if kind.is_dir() => Kind::Directory,
        _ if kind.is_symlink() => Kind::Symlink,
        _ if kind.is_fifo() => Kind::Fifo,
        _ if kind.is_socket() => Kind::Socket,
        _ if kind.is_char_device() => Kind::CharDevice,
        _ if kind.is_block_device() => Kind::BlockDevice,
        _ => Kind::File,
    };
    Entry {
        kind,
        mode: (metadata.mode() & 0o7777) as u16,
        uid: metadata.uid(),
        gid: metadata.gid(),
        nlink: metadata.nlink() as u32,
        size: metadata.size(),
        modified: Timestamp { seconds: metadata.mtime(), nanoseconds: metadata.mtime_nsec() as u32 },
    }
}
