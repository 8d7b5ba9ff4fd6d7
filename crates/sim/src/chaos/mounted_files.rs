//! A program's directory on a mounted folder.

use super::log::Log;
use crate::client::{Failure, Files, NOTE};
use crate::model::{Attributes, Contents, Found, Kind};
use crate::workload::BELOW;
use rustix::fs::{
    Advice, CWD, FallocateFlags, RenameFlags, XattrFlags, fadvise, fallocate, lgetxattr, lsetxattr, renameat_with,
};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::fd::IntoRawFd;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A write that is refused is tried again after this time.
const AGAIN: Duration = Duration::from_millis(200);

/// Programs pause for a part of the time only: a second costs one here.
const HASTE: u32 = 10;

/// No program has a longer note.
const NOTE_BYTES_MAX: usize = 1 << 10;

/// What is counted of all programs.
#[derive(Default)]
pub struct Counts {
    /// Bytes written.
    pub written_bytes: AtomicU64,
    /// Bytes read and compared.
    pub read_bytes: AtomicU64,
    /// Operations that were refused.
    pub refused: AtomicU64,
}

/// A mount of the volume, again and again at one place.
#[derive(Clone)]
pub struct Mountpoint {
    /// Where.
    pub folder: PathBuf,
    /// How many mounts were ended here. Noted before each end, so that a program knows from any error that comes later.
    pub ended: Arc<AtomicU64>,
    /// Is it one of several? Then it changes nothing any more when the others have taken it for dead.
    pub is_shared: bool,
}

/// See the module's head.
pub struct MountedFiles {
    directory: PathBuf,
    mountpoint: Mountpoint,
    /// How many had ended when this one began.
    ended_before: u64,
    counts: Arc<Counts>,
    log: Arc<Log>,
}

impl MountedFiles {
    /// Of a program, on the mount that is there now.
    pub fn of_program(mountpoint: &Mountpoint, number: usize, counts: &Arc<Counts>, log: &Arc<Log>) -> Self {
        Self {
            directory: mountpoint.folder.join(format!("program{number}")),
            ended_before: mountpoint.ended.load(Ordering::SeqCst),
            mountpoint: mountpoint.clone(),
            counts: counts.clone(),
            log: log.clone(),
        }
    }

    /// Makes the directories, once for all mounts.
    ///
    /// # Errors
    /// The file system's.
    pub fn make_directories(&self) -> io::Result<()> {
        fs::create_dir_all(self.directory.join(BELOW))?;
        for directory in [&self.directory, &self.directory.join("..")] {
            File::open(directory)?.sync_all()?;
        }
        Ok(())
    }

    /// Is the mount one of several?
    pub fn is_shared(&self) -> bool {
        self.mountpoint.is_shared
    }

    /// Was the mount ended?
    pub fn is_gone(&self) -> bool {
        self.mountpoint.ended.load(Ordering::SeqCst) != self.ended_before
    }

    /// An operation was refused.
    pub fn count_refused(&self) {
        self.counts.refused.fetch_add(1, Ordering::Relaxed);
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    fn failure(&self, error: &io::Error) -> Failure {
        let is_cut_off =
            matches!(error.raw_os_error(), Some(libc::ENOTCONN | libc::ECONNABORTED | libc::ESHUTDOWN | libc::ENODEV));
        let has_lost_place = self.mountpoint.is_shared && error.raw_os_error() == Some(libc::EROFS);
        // Whatever the error: if the mount was ended, nobody knows whether the operation was done.
        if is_cut_off || has_lost_place || self.is_gone() {
            Failure::Gone(error.to_string())
        } else if self.mountpoint.is_shared {
            // The server may have done what it could not answer, and a close that fails gives up what it could not commit.
            Failure::Unknown(error.to_string())
        } else {
            Failure::Refused(error.to_string())
        }
    }

    fn done<T>(&self, done: io::Result<T>) -> Result<T, Failure> {
        done.map_err(|error| self.failure(&error))
    }

    /// Does again what is refused, as long as the mount lives: of a write that is refused nobody knows how much was written, and
    /// after the same write has succeeded everybody does.
    fn persistently(&self, what: &str, attempt: impl Fn() -> io::Result<()>) -> Result<(), Failure> {
        let began = Instant::now();
        let mut refused = 0_u64;
        loop {
            match self.done(attempt()) {
                Err(Failure::Refused(why)) => {
                    if refused == 0 {
                        self.count_refused();
                        self.log.tell(&format!("{}: {what}: {why}; again", self.directory.display()));
                    }
                    refused += 1;
                    std::thread::sleep(AGAIN);
                }
                outcome => {
                    if refused > 0 {
                        let (name, seconds) = (self.directory.display(), began.elapsed().as_secs_f64());
                        self.log.tell(&format!("{name}: {what}: {outcome:?} after {seconds:.1} s"));
                    }
                    return outcome;
                }
            }
        }
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let mut file = File::open(path)?;
        // What the kernel still has was never asked of the mount; advice may go unheeded.
        let _ = fadvise(&file, 0, None, Advice::DontNeed);
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        self.counts.read_bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        Ok(bytes)
    }

    fn read_all(&self) -> io::Result<Contents> {
        let mut found = BTreeMap::new();
        self.add_contents(&self.directory, "", &mut found)?;
        self.add_contents(&self.directory.join(BELOW), "below/", &mut found)?;
        Ok(found)
    }

    /// What a directory has and the directories in it, whose names begin with `prefix`.
    fn add_contents(&self, directory: &Path, prefix: &str, found: &mut Contents) -> io::Result<()> {
        for entry in fs::read_dir(directory)? {
            let entry = entry?;
            let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
            if name == BELOW {
                continue;
            }
            let (path, metadata) = (entry.path(), entry.metadata()?);
            let (kind, bytes) = if metadata.is_dir() {
                self.add_contents(&path, &format!("{name}/"), found)?;
                (Kind::Directory, Vec::new())
            } else if metadata.is_symlink() {
                (Kind::Symlink, fs::read_link(&path)?.into_os_string().into_vec())
            } else {
                (Kind::File, self.read(&path)?)
            };
            let attributes = Attributes { mode: (metadata.mode() & 0o7777) as u16, note: note(&path)? };
            found.insert(name, Found { ino: metadata.ino(), kind, attributes, links: metadata.nlink(), bytes });
        }
        Ok(())
    }
}

fn note(path: &Path) -> io::Result<Option<Vec<u8>>> {
    let mut value = vec![0; NOTE_BYTES_MAX];
    match lgetxattr(path, NOTE, &mut value[..]) {
        Ok(length) => {
            value.truncate(length);
            Ok(Some(value))
        }
        Err(rustix::io::Errno::NODATA) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Closes a file, and says what the file system says to that, which a drop does not.
#[allow(unsafe_code)]
fn close(file: File) -> io::Result<()> {
    // SAFETY: the descriptor was this file's alone, and nothing uses it afterwards.
    let answer = unsafe { libc::close(file.into_raw_fd()) };
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

impl Files for MountedFiles {
    type Open = File;

    fn open(&self, name: &str, is_new: bool) -> Result<File, Failure> {
        // The umask takes nothing of it but where it is unusual.
        self.done(OpenOptions::new().read(true).write(true).create_new(is_new).mode(0o644).open(self.path(name)))
    }

    fn write(&self, open: &File, offset: u64, data: &[u8]) -> Result<(), Failure> {
        self.persistently("write", || open.write_all_at(data, offset))?;
        self.counts.written_bytes.fetch_add(data.len() as u64, Ordering::Relaxed);
        Ok(())
    }

    fn fsync(&self, open: &File) -> Result<(), Failure> {
        self.done(open.sync_all())
    }

    fn close(&self, open: File) -> Result<(), Failure> {
        self.done(close(open))
    }

    fn truncate(&self, name: &str, size: u64) -> Result<(), Failure> {
        self.persistently("truncate", || OpenOptions::new().write(true).open(self.path(name))?.set_len(size))
    }

    fn sync_directory(&self) -> Result<(), Failure> {
        self.done(File::open(&self.directory).and_then(|directory| directory.sync_all()))
    }

    fn unlink(&self, name: &str) -> Result<(), Failure> {
        self.done(fs::remove_file(self.path(name)))
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), Failure> {
        self.done(fs::rename(self.path(from), self.path(to)))
    }

    fn exchange(&self, one: &str, other: &str) -> Result<(), Failure> {
        let exchanged = renameat_with(CWD, self.path(one), CWD, self.path(other), RenameFlags::EXCHANGE);
        self.done(exchanged.map_err(io::Error::from))
    }

    fn link(&self, name: &str, new: &str) -> Result<(), Failure> {
        self.done(fs::hard_link(self.path(name), self.path(new)))
    }

    fn make_directory(&self, name: &str) -> Result<(), Failure> {
        self.done(fs::DirBuilder::new().mode(0o755).create(self.path(name)))
    }

    fn remove_directory(&self, name: &str) -> Result<(), Failure> {
        self.done(fs::remove_dir(self.path(name)))
    }

    fn symlink(&self, name: &str, target: &str) -> Result<(), Failure> {
        self.done(symlink(target, self.path(name)))
    }

    fn set_mode(&self, name: &str, mode: u16) -> Result<(), Failure> {
        self.done(fs::set_permissions(self.path(name), fs::Permissions::from_mode(mode.into())))
    }

    fn set_note(&self, name: &str, value: &[u8]) -> Result<(), Failure> {
        let set = lsetxattr(self.path(name), NOTE, value, XattrFlags::empty());
        self.done(set.map_err(io::Error::from))
    }

    fn punch(&self, open: &File, offset: u64, length: u64) -> Result<(), Failure> {
        let mode = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        self.persistently("punch", || Ok(fallocate(open, mode, offset, length)?))
    }

    fn contents(&self) -> Result<Contents, Failure> {
        self.done(self.read_all())
    }

    fn pause(&self, milliseconds: u64) {
        let until = Instant::now() + Duration::from_millis(milliseconds) / HASTE;
        while !self.is_gone() && Instant::now() < until {
            std::thread::sleep(AGAIN.min(until.saturating_duration_since(Instant::now())));
        }
    }
}
