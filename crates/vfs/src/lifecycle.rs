//! The start and the end of a [`Volume`]: what was under way when it was last left is taken over, background work begins; at the end
//! everything is durable and background work has ended.

use crate::background;
use crate::compact::rounds::Compaction;
use crate::error::VfsError;
use crate::files::Files;
use crate::house::notes::House;
use crate::listings::Listings;
use crate::lockers::Lockers;
use crate::node_watcher::{NodeWatcher, OpenNodes};
use crate::policies::Policies;
use crate::segments::Segments;
use crate::volume::{Settings, Volume};
use crate::write_back::WriteBack;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use weft_env::Runtime;
use weft_env::planted::{Planted, has_planted};
use weft_env::sync::{self, Mutex};
use weft_format::removal::{Candidate, Evidence, Removable, Verdict, may_remove};
use weft_meta::Store;
use weft_transfer::Transfer;

/// Before the last attempt to write, nodes have so long to say how much room they have now.
const LAST_LOOK: Duration = Duration::from_secs(2);

/// Journal pages read at once during recovery: 4 MiB.
const RECOVERY_BATCH: usize = 1024;

impl Volume {
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
            store.own_opening()?,
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
            house: House::default(),
            lockers: Lockers::default(),
            keeper: OnceLock::new(),
            next_handle: AtomicU64::new(1),
            reclaim,
            ticker: Mutex::default(),
        });
        // What another process has left falls to the process that keeps house.
        if !settings.read_only && !volume.is_shared() {
            volume.recover()?;
        }
        *volume.ticker.lock() = Some(background::start(&volume, reclaims));
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
        if outcome.is_ok() && !self.read_only {
            self.write_back.segment_ids().close();
            if let Err(error) = self.note_settled() {
                tracing::debug!("nodes that are to leave stay until the volume is opened again: {error}");
            }
        }
        if let Err(error) = self.store.leave() {
            tracing::debug!("notes of this process stay until others see that it has ended: {error}");
        }
        // A holder of the store may outlive the process's last moment.
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
        // The first attempt may fail because of uploads that began while nodes were away, before others came or before there was room.
        // No later attempt is possible.
        let again = |_| {
            self.follow_nodes()?;
            self.segments.runtime().block_on(self.fleet().refresh_space_within(LAST_LOOK));
            self.write_back.sync_all()
        };
        let written = self.write_back.sync_all().or_else(again);
        let written = written.map_err(|error| match self.write_back.unwritten() {
            (0, _) => error,
            (file_count, bytes) => VfsError::Dropped { file_count, bytes, source: Box::new(error) },
        });
        if let bytes @ 1.. = self.write_back.journaled_bytes() {
            tracing::warn!(bytes, "nodes do not take what the journal in the metadata holds: it stays there");
        }
        let settled = written.and_then(|()| self.note_settled());
        if self.is_shared() { settled } else { settled.and_then(|()| self.reclaim_orphans()) }
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
            self.orphaned(ino);
        }
        let now = self.now();
        let now_ms = u64::try_from(now.seconds).unwrap_or(0) * 1000;
        // It is tried again and again while the volume is open.
        if let Err(error) = self.expire_deleted(now_ms, 0) {
            tracing::warn!("files that were kept for long enough are not let go: {error}");
        }
        Ok(())
    }
}
