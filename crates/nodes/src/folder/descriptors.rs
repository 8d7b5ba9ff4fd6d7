//! A few open shard files, so that reading a shard piece by piece opens it once (opening costs more than reading 4 KiB).

use parking_lot::Mutex;
use rustix::fd::OwnedFd;
use std::sync::Arc;
use weft_format::ShardKey;

/// Few, because a process has 1024 descriptors by default and dozens of nodes; enough for the shards being read now.
const CAPACITY: usize = 32;

/// Least recently used last; short enough that searching it is cheaper than hashing.
#[derive(Debug, Default)]
pub(super) struct Descriptors(Mutex<Vec<(ShardKey, Arc<ShardFile>)>>);

/// An open shard file. While it is open no other file gets its device and inode numbers.
#[derive(Debug)]
pub(super) struct ShardFile {
    pub(super) file: OwnedFd,
    pub(super) device: u64,
    pub(super) inode: u64,
}

impl Descriptors {
    pub(super) fn find(&self, key: ShardKey) -> Option<Arc<ShardFile>> {
        let mut entries = self.0.lock();
        let at = entries.iter().position(|(known, _)| *known == key)?;
        entries[..=at].rotate_right(1);
        Some(Arc::clone(&entries[0].1))
    }

    pub(super) fn keep(&self, key: ShardKey, file: Arc<ShardFile>) {
        let mut entries = self.0.lock();
        entries.retain(|(known, _)| *known != key);
        entries.truncate(CAPACITY - 1);
        entries.insert(0, (key, file));
    }

    pub(super) fn forget(&self, key: ShardKey) {
        self.0.lock().retain(|(known, _)| *known != key);
    }

    pub(super) fn clear(&self) {
        self.0.lock().clear();
    }
}
