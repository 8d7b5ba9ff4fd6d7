//! A few open shard files, so that reading a shard piece by piece opens it once (opening costs more than reading 4 KiB).

use super::medium::Medium;
use parking_lot::Mutex;
use rustix::fd::OwnedFd;
use rustix::fs::{FileType, Stat};
use rustix::io::Errno;
use rustix::process::Resource;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use weft_format::ShardKey;

/// Files that are kept of one node: few enough that searching them is cheaper than hashing. Shards of a few MiB each, so that all of some
/// GiB is read at full speed in no order at all.
const FILES_MAX: usize = 256;

/// With many nodes and few descriptors each keeps fewer, but enough for the shards being read now.
const FILES_MIN: usize = 32;

/// How many there are in this process. They share a quarter of the files that it may have open.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Least recently used last.
#[derive(Debug)]
pub struct ShardFiles(Mutex<Vec<(ShardKey, Arc<ShardFile>)>>);

impl Default for ShardFiles {
    fn default() -> Self {
        COUNT.fetch_add(1, Ordering::Relaxed);
        Self(Mutex::default())
    }
}

impl Drop for ShardFiles {
    fn drop(&mut self) {
        COUNT.fetch_sub(1, Ordering::Relaxed);
    }
}

fn files_max() -> usize {
    let allowed = rustix::process::getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let share = allowed / 4 / COUNT.load(Ordering::Relaxed).max(1) as u64;
    share.clamp(FILES_MIN as u64, FILES_MAX as u64) as usize
}

/// An open shard file. While it is open no other file gets its device and inode numbers.
#[derive(Debug)]
pub struct ShardFile {
    /// Open for reading.
    pub file: OwnedFd,
    /// Where its bytes are.
    pub medium: Medium,
    device: u64,
    inode: u64,
}

impl ShardFile {
    /// With its length in bytes.
    pub fn new(file: OwnedFd, medium: Medium) -> rustix::io::Result<(Self, u64)> {
        let stat = rustix::fs::fstat(&file)?;
        require_file(&stat)?;
        Ok((Self { file, medium, device: stat.st_dev, inode: stat.st_ino }, stat.st_size as u64))
    }

    /// Its length in bytes; `None`: it has no name any more, or cannot be asked.
    pub fn size_if_named(&self) -> Option<u64> {
        rustix::fs::fstat(&self.file).ok().filter(|stat| stat.st_nlink > 0).map(|stat| stat.st_size as u64)
    }

    /// Is it the file that `stat` is of?
    pub fn is(&self, stat: &Stat) -> bool {
        (stat.st_dev, stat.st_ino) == (self.device, self.inode)
    }
}

/// Shards are files of their own, and nothing else is opened.
pub(crate) fn require_file(stat: &Stat) -> rustix::io::Result<()> {
    if FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile { Ok(()) } else { Err(Errno::IO) }
}

impl ShardFiles {
    /// The file of a shard, if it is kept.
    pub fn find(&self, key: ShardKey) -> Option<Arc<ShardFile>> {
        let mut entries = self.0.lock();
        let at = entries.iter().position(|(known, _)| *known == key)?;
        entries[..=at].rotate_right(1);
        Some(Arc::clone(&entries[0].1))
    }

    /// Keeps it, and of the others those used last.
    pub fn keep(&self, key: ShardKey, file: Arc<ShardFile>) {
        let capacity = files_max();
        let mut entries = self.0.lock();
        entries.retain(|(known, _)| *known != key);
        entries.truncate(capacity - 1);
        entries.insert(0, (key, file));
    }

    /// Closes the file of a shard.
    pub fn forget(&self, key: ShardKey) {
        self.0.lock().retain(|(known, _)| *known != key);
    }

    /// Closes those that have no name any more.
    pub fn forget_removed(&self) {
        let entries = self.0.lock().clone();
        let removed = entries.into_iter().filter(|(_, file)| file.size_if_named().is_none());
        removed.for_each(|(key, _)| self.forget(key));
    }

    /// Closes all.
    pub fn clear(&self) {
        self.0.lock().clear();
    }
}
