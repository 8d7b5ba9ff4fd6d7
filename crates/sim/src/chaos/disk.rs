//! A disk: a small file system in an image, which can be full, unmounted or without power; or else a plain folder.

use super::process::{GLANCE, must};
use anyhow::{Context, Result};
use rustix::fs::{FallocateFlags, fallocate};
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

const DEADLINE: Duration = Duration::from_secs(60);
/// How long its last users may take to end.
const LEAVE_DEADLINE: Duration = Duration::from_secs(10);
/// `EXT4_IOC_SHUTDOWN`, which has the number of `XFS_IOC_GOINGDOWN`, ...
const GOING_DOWN: libc::Ioctl = 0x8004_587d_u32 as libc::Ioctl;
/// ... and what it is to keep of its log: nothing that is not on the disk.
const NO_LOG_FLUSH: u32 = 2;
/// Takes what room there is.
const FILLER: &str = "filler";

/// What is on a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileSystem {
    /// See ext4(5).
    Ext4,
    /// See xfs(5).
    Xfs,
}

impl FileSystem {
    fn name(self) -> &'static str {
        match self {
            Self::Ext4 => "ext4",
            Self::Xfs => "xfs",
        }
    }

    fn make(self, image: &Path) -> Result<()> {
        let options: &[&str] = match self {
            // Nothing is kept for root, so that full is full.
            Self::Ext4 => &["-q", "-F", "-m", "0"],
            Self::Xfs => &["-q", "-f"],
        };
        let mut command = Command::new(format!("mkfs.{}", self.name()));
        command.args(options).arg(image);
        must(command, DEADLINE).map(drop)
    }
}

/// Unmounted when dropped.
pub struct Disk {
    folder: PathBuf,
    file_system: FileSystem,
    image: Option<PathBuf>,
    is_mounted: bool,
}

impl Disk {
    /// Makes `FOLDER`, on a file system of its own if that is possible. One of xfs has 300 MB at least.
    ///
    /// # Errors
    /// The folder cannot be made.
    pub fn new(folder: PathBuf, size_bytes: u64, file_system: FileSystem) -> Result<Self> {
        fs::create_dir(&folder).with_context(|| format!("{} cannot be made", folder.display()))?;
        let image = folder.with_extension("image");
        let mut disk = Self { folder, file_system, image: Some(image.clone()), is_mounted: false };
        let made = File::create(&image).and_then(|file| file.set_len(size_bytes)).map_err(anyhow::Error::from);
        if made.and_then(|()| file_system.make(&image)).and_then(|()| disk.mount()).is_err() {
            disk.image = None;
        }
        Ok(disk)
    }

    /// What lies on it.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Is it a file system of its own?
    pub fn is_own(&self) -> bool {
        self.image.is_some()
    }

    /// Mounts it, if it is not mounted. What took its room does so no more.
    ///
    /// # Errors
    /// Those of mount(8).
    pub fn mount(&mut self) -> Result<()> {
        let Some(image) = self.image.as_ref().filter(|_| !self.is_mounted) else { return Ok(()) };
        let mut command = Command::new("mount");
        command.args(["-t", self.file_system.name(), "-o", "loop"]).args([image, &self.folder]);
        must(command, DEADLINE)?;
        self.is_mounted = true;
        self.free();
        Ok(())
    }

    /// Unmounts it. Nobody may use it; a moment is left to processes that end with one that was killed, as a database's do.
    ///
    /// # Errors
    /// Those of umount(8).
    pub fn unmount(&mut self) -> Result<()> {
        let began = Instant::now();
        while self.is_mounted {
            match self.run_umount(&[]) {
                Err(_) if began.elapsed() < LEAVE_DEADLINE => std::thread::sleep(GLANCE),
                done => return done,
            }
        }
        Ok(())
    }

    fn run_umount(&mut self, options: &[&str]) -> Result<()> {
        let mut command = Command::new("umount");
        command.args(options).arg(&self.folder);
        must(command, DEADLINE)?;
        self.is_mounted = false;
        Ok(())
    }

    /// From now on nothing reaches the disk; what is not on it is gone.
    ///
    /// # Errors
    /// The kernel's.
    pub fn cut_power(&self) -> Result<()> {
        if !self.is_mounted {
            return Ok(());
        }
        let root = File::open(&self.folder)?;
        go_down(&root).with_context(|| format!("{} cannot be shut down", self.folder.display()))
    }

    /// Takes all room.
    ///
    /// # Errors
    /// The file that takes it cannot be made.
    pub fn fill(&self) -> Result<()> {
        if !self.is_mounted {
            return Ok(());
        }
        let filler = File::create(self.folder.join(FILLER))?;
        let (mut filled_bytes, mut piece_bytes) = (0, 64 << 20);
        while piece_bytes >= 4096 {
            match fallocate(&filler, FallocateFlags::empty(), filled_bytes, piece_bytes) {
                Ok(()) => filled_bytes += piece_bytes,
                Err(_) => piece_bytes /= 2,
            }
        }
        Ok(())
    }

    /// Gives the room back.
    pub fn free(&self) {
        let _ = fs::remove_file(self.folder.join(FILLER));
    }
}

#[allow(unsafe_code)]
fn go_down(root: &File) -> std::io::Result<()> {
    let flags = NO_LOG_FLUSH;
    // SAFETY: the request reads one u32, which lives until the call returns.
    let answer = unsafe { libc::ioctl(root.as_raw_fd(), GOING_DOWN, &raw const flags) };
    if answer == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if self.is_mounted && self.unmount().is_err() {
            let _ = self.run_umount(&["-l"]);
        }
    }
}
