//! Descriptors of metadata files beside those of SQLite.
//!
//! POSIX drops all record locks that a process has on a file as soon as it closes *any* descriptor of that file: one opened to
//! look would take the locks of SQLite's connections away. So a descriptor of ours is closed only when nobody in this
//! process has any of the same file; until then it is kept for the next who wants one.

use parking_lot::Mutex;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Device and inode number.
type Identity = (u64, u64);

/// The descriptors of one file.
#[derive(Default)]
struct Pool {
    users: usize,
    idle: Vec<File>,
}

static POOLS: Mutex<BTreeMap<Identity, Pool>> = Mutex::new(BTreeMap::new());

/// A descriptor that can read a file. As long as one lives, none of ours of the same file is closed.
#[derive(Debug)]
pub(crate) struct Descriptor {
    /// There until it is dropped.
    file: Option<File>,
    identity: Identity,
}

impl Descriptor {
    pub fn open(path: &Path) -> io::Result<Self> {
        let identity = |metadata: Metadata| (metadata.dev(), metadata.ino());
        let mut pools = POOLS.lock();
        let known = pools.get_mut(&identity(path.metadata()?));
        let file = match known.and_then(|pool| pool.idle.pop()) {
            Some(file) => file,
            None => File::open(path)?,
        };
        let identity = identity(file.metadata()?);
        pools.entry(identity).or_default().users += 1;
        Ok(Self { file: Some(file), identity })
    }

    /// Takes or gives up a lock of the whole file, as flock(2); false: another has it.
    pub fn lock(&self, operation: FlockOperation) -> io::Result<bool> {
        let Some(file) = &self.file else { return Ok(false) };
        match flock(file, operation) {
            Ok(()) => Ok(true),
            Err(Errno::WOULDBLOCK) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Has nobody a lock just now?
    pub fn is_free(&self) -> bool {
        let is_free = self.lock(FlockOperation::NonBlockingLockShared).unwrap_or(false);
        is_free && self.lock(FlockOperation::Unlock).unwrap_or(false)
    }

    /// How many names the file has, and its owner and mode.
    pub fn metadata(&self) -> io::Result<Metadata> {
        self.file.as_ref().map_or_else(|| Err(Errno::BADF.into()), File::metadata)
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        // For whoever is given it next.
        if let Err(error) = self.lock(FlockOperation::Unlock) {
            tracing::warn!(%error, "a lock stays until this process ends");
        }
        let mut pools = POOLS.lock();
        let Some(pool) = pools.get_mut(&self.identity) else { return };
        pool.idle.extend(self.file.take());
        pool.users -= 1;
        if pool.users == 0 {
            pools.remove(&self.identity);
        }
    }
}
