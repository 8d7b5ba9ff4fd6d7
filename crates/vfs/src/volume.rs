//! The volume: one struct, one method per POSIX call, each in the file named after what it is about.
//!
//! `names.rs` has names and inodes, `data.rs` reading, writing and cutting files, `write_back.rs` the way from dirty bytes to
//! segments, `compact.rs` the way out of segments that are mostly dead, `background.rs` what happens by itself, `open.rs`
//! how a volume is put together.

use crate::compact::Compaction;
use crate::data::OpenFile;
use crate::error::VfsError;
use crate::files::{Files, Reclaimable};
use crate::listings::Listings;
use crate::node_watcher::NodeWatcher;
use crate::open::Members;
use crate::policies::Policies;
use crate::request::{Handle, now};
use crate::segments::Segments;
use crate::write_back::WriteBack;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use weft_env::planted::{Planted, has_planted};
use weft_env::sync::{self, Mutex, Sender};
use weft_env::{Runtime, Thread};
use weft_format::Ino;
use weft_format::records::Timestamp;
use weft_format::removal::{Candidate, Evidence, Removable, Verdict, may_remove};
use weft_meta::{MetaError, Store};
use weft_transfer::{Fleet, Transfer};

/// How a volume behaves in this process. Few on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Bytes that may be dirty or on their way to nodes before writers wait.
    pub dirty_bytes: u64,
    /// Only read, beside whoever owns the volume: each open and each read sees what is committed at that moment, and nothing
    /// is changed.
    pub read_only: bool,
}

impl Default for Settings {
    fn default() -> Self {
        // Sixteen segments of rs:4+2: enough to keep two cores and six nodes busy, little beside any machine's memory.
        Self { dirty_bytes: 128 << 20, read_only: false }
    }
}

/// Gives the nodes that metadata names as things that can be asked; called when the set of nodes changes.
pub type OpenNodes = Box<dyn Fn(&Store) -> Result<Members, weft_meta::MetaError> + Send + Sync>;

/// One file system, open in this process as its only owner, or as one of its readers.
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
    node_watcher: Mutex<NodeWatcher>,
    next_handle: AtomicU64,
    reclaim: Sender<Reclaimable>,
    /// Ends before the runtime may, which it blocks on.
    ticker: Mutex<Option<Thread>>,
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

    /// Puts a volume together, takes over what the journal and the orphan list say was under way when it was last left,
    /// and starts its background work. `runtime` runs transfers; no method may be called from within it.
    ///
    /// # Errors
    /// Metadata cannot be read.
    pub fn start(
        store: Store,
        transfer: Transfer,
        open_nodes: OpenNodes,
        runtime: impl Into<Runtime>,
        settings: Settings,
    ) -> Result<Arc<Self>, VfsError> {
        let runtime = runtime.into();
        let store = Arc::new(store);
        let files = Arc::new(Files::default());
        let policies = Arc::new(Policies::default());
        let write_back = WriteBack::start(
            store.clone(),
            transfer.clone(),
            runtime.clone(),
            files.clone(),
            policies.clone(),
            settings.dirty_bytes,
            store.openings()?.number(),
        );
        let (reclaim, reclaims) = sync::channel();
        let volume = Arc::new(Self {
            read_only: settings.read_only,
            segments: Segments::new(store.clone(), transfer, runtime),
            store,
            files,
            listings: Listings::default(),
            policies,
            write_back,
            open_files: Mutex::default(),
            compaction: Compaction::default(),
            calls: AtomicU64::new(0),
            node_watcher: Mutex::new(NodeWatcher::new(open_nodes)),
            next_handle: AtomicU64::new(1),
            reclaim,
            ticker: Mutex::default(),
        });
        if !settings.read_only {
            volume.recover()?;
        }
        *volume.ticker.lock() = Some(crate::background::start(&volume, reclaims));
        Ok(volume)
    }

    /// Everything written is durable when it returns `Ok`; background work has ended either way. Calls made afterwards
    /// may fail.
    ///
    /// # Errors
    /// Some bytes could not be written; they are lost when the process ends.
    pub fn shut_down(&self) -> Result<(), VfsError> {
        self.compaction.stop();
        let outcome = if self.read_only { Ok(()) } else { self.write_all() };
        self.write_back.stop();
        if let Some(ticker) = self.ticker.lock().take() {
            // A panic of its own was told when it happened.
            let _ = ticker.join();
        }
        // Whoever still holds the store may outlive the process's last moment.
        if !self.read_only
            && let Err(error) = self.store.close()
        {
            tracing::warn!("the metadata is durable, and stays in two files until it is opened again: {error}");
        }
        outcome
    }

    /// What is to be done at the end by who may change something.
    fn write_all(&self) -> Result<(), VfsError> {
        self.segments.note_suspects();
        // The first attempt may fail because of uploads that began while nodes were away. No later attempt is possible.
        let written = self.write_back.sync_all().or_else(|_| self.write_back.sync_all());
        let written = written.map_err(|error| match self.write_back.unwritten() {
            (0, _) => error,
            (file_count, bytes) => VfsError::Dropped { file_count, bytes, source: Box::new(error) },
        });
        if let bytes @ 1.. = self.write_back.journaled_bytes() {
            tracing::warn!(bytes, "nodes do not take what the journal in the metadata holds: it stays there");
        }
        written.and_then(|()| self.note_settled()).and_then(|()| self.reclaim_orphans())
    }

    /// At the end nobody uses anything any more: what has no name goes.
    fn reclaim_orphans(&self) -> Result<(), VfsError> {
        // The background may be at the same inodes; the second finds nothing left to do.
        let nameless = self.store.orphans(usize::MAX)?.into_iter();
        let verdict = |ino| may_remove(Candidate::Inode { ino, is_in_use: false }, Evidence::Owner { seen_ms: 0 });
        let unused: Vec<Removable> = nameless
            .filter_map(|ino| match verdict(ino) {
                Verdict::Remove(unused) => Some(unused),
                _ => None,
            })
            .collect();
        self.reclaim_all(&unused)?;
        Ok(self.store.flush()?)
    }

    /// Removes what has no name any more, and what belongs to it.
    pub(crate) fn reclaim_all(&self, mut unused: &[Removable]) -> Result<(), MetaError> {
        while !unused.is_empty() {
            unused = &unused[self.store.reclaim(unused, self.now())?..];
        }
        Ok(())
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
        self.node_watcher.lock().follow(&self.store, self.fleet())
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
        self.open_files.lock().insert(handle, Arc::new(open));
        Handle(handle)
    }

    pub(crate) fn open_file(&self, handle: Handle) -> Result<Arc<OpenFile>, VfsError> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.open_files.lock().get(&handle.0).cloned().ok_or(VfsError::BadHandle(handle.0))
    }

    fn recover(&self) -> Result<(), VfsError> {
        let mut after = None;
        while !has_planted(Planted::JournalNotReplayed) {
            let page = self.store.journal(after, RECOVERY_BATCH)?;
            let Some((last_ino, last_page)) = page.last().map(|(ino, page)| (*ino, page.page)) else { break };
            for pages in page.chunk_by(|a, b| a.0 == b.0) {
                let file = self.files.open(&self.store, pages[0].0)?;
                let pages: Vec<_> = pages.iter().map(|(_, page)| page.clone()).collect();
                self.write_back.replay(&file, &pages);
                self.files.close(file.ino);
            }
            after = Some((last_ino, last_page));
        }
        for ino in self.store.orphans(usize::MAX)? {
            self.reclaim_if(self.files.orphaned(ino));
        }
        let now = self.now();
        let now_ms = u64::try_from(now.seconds).unwrap_or(0) * 1000;
        self.expire_deleted(now_ms, 0)?;
        Ok(())
    }
}

/// Journal pages read at once during recovery: 4 MiB.
const RECOVERY_BATCH: usize = 1024;

impl Drop for Volume {
    fn drop(&mut self) {
        self.write_back.stop();
    }
}
