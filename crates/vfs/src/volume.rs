//! The volume: one struct, one method per POSIX call, each in the file named after what it is about.
//!
//! `names.rs` has names and inodes, `data.rs` reading, writing and cutting files, `write_back.rs` the way from dirty bytes to
//! segments, `compact.rs` the way out of segments that are mostly dead, `background.rs` what happens by itself, `lifecycle.rs` the start
//! and the end, `open.rs` how a volume is put together.

use crate::compact::rounds::Compaction;
use crate::error::VfsError;
use crate::files::{Files, Reclaimable};
use crate::house::notes::House;
use crate::listings::Listings;
use crate::lockers::Lockers;
use crate::node_watcher::NodeWatcher;
use crate::open_file::OpenFile;
use crate::policies::Policies;
use crate::request::{Handle, now};
use crate::segments::Segments;
use crate::write_back::WriteBack;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use weft_env::sync::{Mutex, Sender};
use weft_env::{Runtime, Thread};
use weft_format::Ino;
use weft_format::records::Timestamp;
use weft_format::removal::Removable;
use weft_meta::{Changed, MetaError, Store};
use weft_transfer::{Fleet, Transfer};

/// How a volume behaves in this process. Few on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Bytes that may be dirty or on their way to nodes before writers wait.
    pub dirty_bytes: u64,
    /// Only read, beside whoever owns the volume: each open and each read sees what is committed at that moment, and nothing
    /// is changed.
    pub read_only: bool,
    /// Change the volume together with other processes, where the metadata engine lets several: a file that is closed is committed, and one
    /// that is opened is as others have committed it.
    pub is_shared: bool,
}

impl Default for Settings {
    fn default() -> Self {
        // Sixteen segments of rs:4+2: enough to keep two cores and six nodes busy, little beside any machine's memory.
        Self { dirty_bytes: 128 << 20, read_only: false, is_shared: false }
    }
}

/// Somebody who keeps what the volume has shown, and hears what other mounts have changed.
pub(crate) type Keeper = Box<dyn Fn(&Changed) + Send + Sync>;

/// One file system, open in this process as its only owner, as one of several that change it, or as one of its readers.
pub struct Volume {
    pub(crate) read_only: bool,
    pub(crate) store: Arc<Store>,
    pub(crate) segments: Segments,
    pub(crate) files: Arc<Files>,
    pub(crate) listings: Listings,
    pub(crate) policies: Arc<Policies>,
    pub(crate) write_back: Arc<WriteBack>,
    pub(crate) open_files: Mutex<HashMap<u64, Arc<OpenFile>>>,
    pub(crate) compaction: Compaction,
    /// How often an open file was asked for: tells whether anybody is at work.
    pub(crate) calls: AtomicU64,
    pub(crate) node_watcher: Mutex<NodeWatcher>,
    pub(crate) house: House,
    pub(crate) lockers: Lockers,
    pub(crate) keeper: OnceLock<Keeper>,
    pub(crate) next_handle: AtomicU64,
    pub(crate) reclaim: Sender<Reclaimable>,
    /// Ends before the runtime may, which it blocks on.
    pub(crate) ticker: Mutex<Option<Thread>>,
}

impl Volume {
    /// The wall clock, as a file's time.
    pub(crate) fn now(&self) -> Timestamp {
        now(self.store.env())
    }

    /// Does it only read, beside the owner?
    pub fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// Removes what has no name any more, and what belongs to it.
    pub(crate) fn reclaim_all(&self, mut unused: &[Removable]) -> Result<(), MetaError> {
        while !unused.is_empty() {
            unused = &unused[self.store.reclaim(unused, self.now())?..];
        }
        Ok(())
    }

    /// The same. One that fails keeps no other from being removed: it stays in the queue, and is tried again later.
    pub(crate) fn reclaim_each(&self, unused: &[Removable]) {
        if self.reclaim_all(unused).is_ok() {
            return;
        }
        for unused in unused {
            if let Err(error) = self.reclaim_all(std::slice::from_ref(unused)) {
                tracing::error!(inode = ?unused.item(), "could not be reclaimed: {error}");
            }
        }
    }

    /// The live nodes.
    pub fn fleet(&self) -> &Arc<Fleet> {
        self.segments.transfer().fleet()
    }

    /// Has the live nodes follow what metadata says now, as the volume does by itself about once a second; says whether that was
    /// news.
    ///
    /// # Errors
    /// Metadata cannot be read, or names a node that cannot be opened.
    pub fn follow_nodes(&self) -> Result<bool, weft_meta::MetaError> {
        let mut node_watcher = self.node_watcher.lock();
        let has_changed = node_watcher.follow(&self.store, self.fleet())?;
        self.write_back.segment_ids().follow(node_watcher.changes());
        Ok(has_changed)
    }

    /// The typed metadata below, for those who look, and for care in the owner's own process.
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// What moves segments, for the same.
    pub fn transfer(&self) -> &Transfer {
        self.segments.transfer()
    }

    /// Everything written so far is durable.
    ///
    /// # Errors
    /// The first failure to write.
    pub fn sync(&self) -> Result<(), VfsError> {
        self.write_back.sync_all()
    }

    /// The same, and the names are on the nodes, too, where this process brings them there.
    ///
    /// # Errors
    /// The first failure to write; nodes do not take the names.
    pub fn sync_to_nodes(&self) -> Result<(), VfsError> {
        self.sync()?;
        Ok(self.store.sync_to_nodes()?)
    }

    /// What runs transfers; and what of a gateway has to wait beside its requests.
    pub fn runtime(&self) -> &Runtime {
        self.segments.runtime()
    }

    /// The kernel (or another gateway) holds `ino` once more.
    pub fn reference(&self, ino: Ino) {
        self.files.reference(ino);
    }

    /// It holds it `count` times less.
    pub fn forget(&self, ino: Ino, count: u64) {
        self.reclaim_if(self.files.forget(ino, count));
    }

    /// Do other processes change it, too?
    pub fn is_shared(&self) -> bool {
        self.store.is_shared()
    }

    /// It is about to end, or has.
    pub(crate) fn is_ending(&self) -> bool {
        self.compaction.is_stopping()
    }

    /// `ino` lost its last name. Where several processes change the volume, one of them finds it.
    pub(crate) fn orphaned(&self, ino: Ino) {
        if !self.is_shared() {
            self.reclaim_if(self.files.orphaned(ino));
        }
    }

    pub(crate) fn reclaim_if(&self, reclaimable: Option<Reclaimable>) {
        let Some(reclaimable) = reclaimable else { return };
        if let Some(file) = &reclaimable.file {
            self.write_back.abandon(file);
        }
        // The receiver ends only with the volume.
        let _ = self.reclaim.send(reclaimable);
    }

    pub(crate) fn add_open_file(&self, open: OpenFile) -> Handle {
        let handle = self.next_handle.fetch_add(1, Ordering::Relaxed);
        open.file.mappable_count.fetch_add(u32::from(open.is_mappable()), Ordering::Relaxed);
        self.open_files.lock().insert(handle, Arc::new(open));
        Handle(handle)
    }

    pub(crate) fn open_file(&self, handle: Handle) -> Result<Arc<OpenFile>, VfsError> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.open_files.lock().get(&handle.0).cloned().ok_or(VfsError::BadHandle(handle.0))
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        self.write_back.stop();
    }
}
