//! What the volume remembers of inodes in use: kernel references, open files, and each open or dirty file's state.
//!
//! The store is the truth about every inode but one thing: a file with dirty bytes is newer here (size, times) until its
//! commit. A [`File`] lives in the table while it is open or holds bytes; nothing else is cached.

use crate::buffer::{Buffer, JOURNAL_PAGE_BYTES};
use crate::error::VfsError;
use crate::extents::ExtentCache;
use crate::flush::Held;
use crate::glimpse::Glimpse;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use weft_env::planted::{Planted, has_planted};
use weft_env::sync::{Condvar, Mutex, MutexGuard};
use weft_format::records::{Attributes, Timestamp};
use weft_format::removal::{Candidate, Evidence, Removable, Verdict, may_remove};
use weft_format::{Ino, PolicyId, SegmentId};
use weft_meta::{Extent, MetaError, Store};

/// Of a file with more runs of buffered bytes than this the rest counts as new room, up to the file's size: a `stat` between
/// random writes must stay cheap.
const RUNS_COMPARED_MAX: usize = 256;

/// One regular file in use.
pub(crate) struct File {
    pub ino: Ino,
    state: Mutex<FileState>,
    /// The state is the store's, or newer; else nothing is known of the file yet.
    is_loaded: AtomicBool,
    /// Handles by which a program may have mapped it and changes it there, which the kernel does not tell.
    pub mappable_count: AtomicU32,
    /// Told whenever a segment of this file has settled: committed, or dirty again.
    pub settled: Condvar,
}

/// Failures to write bytes of one file. Every descriptor is told of those that happened while it was open, once, and one that is
/// opened later of what nobody was told.
#[derive(Default)]
pub(crate) struct Failures {
    count: u64,
    told_count: u64,
    last: Option<Arc<VfsError>>,
}

impl Failures {
    pub fn note(&mut self, error: Arc<VfsError>) {
        self.count += 1;
        self.last = Some(error);
    }

    /// Somebody knows of all so far: besides, only descriptors that are open now need to.
    pub fn note_told(&mut self) {
        self.told_count = self.count;
    }

    /// How many there were.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Of how many a descriptor that is opened now need not be told.
    pub fn told_count(&self) -> u64 {
        self.told_count
    }

    /// The last failure, if there was one after the first `known_count`.
    pub fn after(&self, known_count: u64) -> Result<(), VfsError> {
        match &self.last {
            Some(error) if self.count > known_count => Err(VfsError::Earlier(error.clone())),
            _ => Ok(()),
        }
    }

    /// Tells a descriptor that has been told of `told` of them.
    pub fn tell(&mut self, told: &AtomicU64) -> Result<(), VfsError> {
        self.told_count = self.count;
        self.after(told.swap(self.count, Ordering::Relaxed))
    }
}

/// See [`File`].
pub(crate) struct FileState {
    pub mtime: Timestamp,
    pub ctime: Timestamp,
    /// Of a shared file: both times as the store had them when it was asked or changed last.
    pub known: (Timestamp, Timestamp),
    /// Of a shared file: the kernel may have pages of bytes that were given up, and not be shown the time that it had before them.
    pub was_given_up: bool,
    pub policy: PolicyId,
    /// Of a shared file when it was opened last: 0 if it had no name.
    pub nlink: u32,
    /// Size or times differ from the store's.
    pub unsaved: bool,
    /// The newest bytes, and the size.
    pub buffer: Buffer,
    /// Segments in flight that carry bytes of this file.
    pub in_flight: BTreeSet<SegmentId>,
    /// How many uploads failed, or were committed in part.
    pub unstaged_count: u64,
    /// Why bytes of this file could not be written.
    pub failures: Failures,
    /// Cut to nothing while it had bytes: an editor or compiler is replacing it, so its new bytes go out at close.
    pub replaced: bool,
    /// It may have file capabilities, which the next change of its bytes removes.
    pub has_capability: bool,
    /// Unlinked and closed: late bytes are dropped.
    pub gone: bool,
    extents: ExtentCache,
    /// Of a shared file: what others had committed a moment ago.
    pub glimpse: Option<Glimpse>,
}

impl FileState {
    /// Of a file that the store was not asked about yet.
    fn unknown() -> Self {
        Self {
            mtime: Timestamp::default(),
            ctime: Timestamp::default(),
            known: Default::default(),
            was_given_up: false,
            policy: PolicyId(0),
            nlink: 1,
            unsaved: false,
            buffer: Buffer::new(0),
            in_flight: BTreeSet::new(),
            unstaged_count: 0,
            failures: Failures::default(),
            replaced: false,
            has_capability: false,
            gone: false,
            extents: ExtentCache::default(),
            glimpse: None,
        }
    }

    pub fn new(attributes: &Attributes) -> Self {
        Self {
            mtime: attributes.mtime,
            ctime: attributes.ctime,
            known: (attributes.mtime, attributes.ctime),
            policy: attributes.policy,
            nlink: attributes.nlink,
            buffer: Buffer::new(attributes.size),
            ..Self::unknown()
        }
    }

    /// The committed extents that overlap `range`, trimmed to it.
    pub fn extents(&mut self, store: &Store, ino: Ino, range: Range<u64>) -> Result<Vec<Extent>, MetaError> {
        self.extents.overlapping(range, |window| store.extents(ino, window))
    }

    /// The store's extents changed.
    pub fn forget_extents(&mut self) {
        if has_planted(Planted::CacheNotRevalidated) {
            return;
        }
        self.extents = ExtentCache::default();
        self.glimpse = None;
    }

    /// Of a shared file: this is what others have committed by now. Bytes that are not committed here stay over it.
    pub fn adopt(&mut self, attributes: &Attributes) {
        self.forget_extents();
        self.notice(attributes);
        (self.policy, self.nlink) = (attributes.policy, attributes.nlink);
        self.buffer.adopt(attributes.size);
        if !self.unsaved {
            (self.mtime, self.ctime) = (attributes.mtime, attributes.ctime);
        }
    }

    /// Of a shared file: this is what the store says now. If others have changed it, what was looked up is old, and the kernel has to see a time
    /// that it has not seen, since that is how it learns that its pages are old.
    fn notice(&mut self, attributes: &Attributes) {
        let times = (attributes.mtime, attributes.ctime);
        if self.known == times {
            return;
        }
        if self.unsaved && self.known.0 != attributes.mtime {
            self.mtime = self.mtime.max(attributes.mtime).next();
        }
        self.known = times;
        self.was_given_up = false;
        self.forget_extents();
    }

    /// Puts what is newer here over what the store said.
    pub fn overlay(&mut self, store: &Store, attributes: &mut Attributes) -> Result<(), MetaError> {
        if store.is_shared() {
            self.notice(attributes);
        }
        if self.unsaved {
            let others = if store.is_shared() { attributes.size } else { 0 };
            attributes.size = self.buffer.size().max(others);
            attributes.mtime = self.mtime;
            attributes.ctime = attributes.ctime.max(self.ctime);
        } else if self.was_given_up {
            attributes.mtime = attributes.mtime.next();
        }
        let allocated_bytes = attributes.allocated_bytes + self.unallocated_bytes(store, attributes.ino)?;
        attributes.allocated_bytes = allocated_bytes.min(attributes.size.max(attributes.allocated_bytes));
        Ok(())
    }

    /// Buffered bytes where the store has none yet. What replaces committed bytes takes no more room.
    fn unallocated_bytes(&mut self, store: &Store, ino: Ino) -> Result<u64, MetaError> {
        let mut runs: Vec<Range<u64>> = Vec::new();
        for (start, bytes) in self.buffer.overlapping(0..u64::MAX) {
            let end = start + bytes.len() as u64;
            match runs.last_mut() {
                Some(last) if last.end == start => last.end = end,
                _ => runs.push(start..end),
            }
        }
        let mut unallocated_bytes = 0;
        for (run, number) in runs.into_iter().zip(0..) {
            unallocated_bytes += run.end - run.start;
            if number < RUNS_COMPARED_MAX {
                let committed = self.extents(store, ino, run)?;
                unallocated_bytes -= committed.iter().map(|extent| extent.length).sum::<u64>();
            }
        }
        Ok(unallocated_bytes)
    }

    /// What it has that the store does not have.
    pub fn held(&self) -> Held {
        Held {
            policy: self.policy,
            memory_bytes: self.buffer.memory_bytes(),
            dirty_bytes: self.buffer.dirty_bytes(),
            dirty_piece_count: self.buffer.dirty_piece_count(),
            unjournaled_bytes: self.buffer.unjournaled_bytes(),
            journal_bytes: self.buffer.journal_page_count() * JOURNAL_PAGE_BYTES,
            unsaved: self.unsaved,
        }
    }

    /// It was changed now.
    pub fn touch(&mut self, now: Timestamp) {
        self.mtime = now;
        self.ctime = now;
        self.was_given_up = false;
        self.unsaved = true;
    }

    fn is_idle(&self) -> bool {
        self.buffer.is_empty() && self.in_flight.is_empty() && !self.unsaved
    }
}

impl File {
    fn new(ino: Ino) -> Self {
        let state = Mutex::new(FileState::unknown());
        let (is_loaded, mappable_count) = (AtomicBool::new(false), AtomicU32::new(0));
        Self { ino, state, is_loaded, mappable_count, settled: Condvar::new() }
    }

    /// Asks the store, unless somebody did.
    fn load(&self, store: &Store) -> Result<(), MetaError> {
        if self.is_loaded.load(Ordering::Acquire) {
            return Ok(());
        }
        let mut state = self.lock();
        if !self.is_loaded.load(Ordering::Acquire) {
            let (attributes, has_capability) = store.attributes_and_capability(self.ino)?;
            *state = FileState { has_capability, ..FileState::new(&attributes) };
            self.is_loaded.store(true, Ordering::Release);
        }
        Ok(())
    }

    /// Asks the store what others have committed by now.
    pub fn reload(&self, store: &Store) -> Result<Attributes, MetaError> {
        let mut state = self.lock();
        let (attributes, has_capability) = store.attributes_and_capability(self.ino)?;
        state.adopt(&attributes);
        state.has_capability = has_capability;
        self.is_loaded.store(true, Ordering::Release);
        Ok(attributes)
    }

    /// As the store has it. Readers beside the owner have one for each open, in no table.
    pub fn of(attributes: &Attributes) -> Arc<Self> {
        let (state, is_loaded) = (Mutex::new(FileState::new(attributes)), AtomicBool::new(true));
        let mappable_count = AtomicU32::new(0);
        Arc::new(Self { ino: attributes.ino, state, is_loaded, mappable_count, settled: Condvar::new() })
    }

    pub fn lock(&self) -> MutexGuard<'_, FileState> {
        self.state.lock()
    }
}

struct Entry {
    file: Arc<File>,
    open_count: u32,
}

/// All inodes in use. Every call on any file takes the table's lock, so nothing waits under it, neither for the store nor for a
/// file: who needs both locks a file first.
#[derive(Default)]
pub(crate) struct Files {
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    files: HashMap<Ino, Entry>,
    /// How often the kernel has been told of an inode and not yet forgotten it.
    references: HashMap<Ino, u64>,
    /// Inodes without a name that are still in use.
    orphans: HashSet<Ino>,
    /// How many files have left the table.
    left_count: u64,
}

impl Table {
    fn is_used(&self, ino: Ino) -> bool {
        self.references.contains_key(&ino) || self.files.get(&ino).is_some_and(|entry| entry.open_count > 0)
    }

    fn remove(&mut self, ino: Ino) -> Option<Entry> {
        let entry = self.files.remove(&ino)?;
        self.left_count += 1;
        Some(entry)
    }

    /// If `ino` is an orphan that nobody uses any more: takes it off the books.
    fn take_if_reclaimable(&mut self, ino: Ino) -> Option<Reclaimable> {
        if !self.orphans.contains(&ino) {
            return None;
        }
        let nameless = Candidate::Inode { ino, is_in_use: self.is_used(ino) };
        let Verdict::Remove(unused) = may_remove(nameless, Evidence::Owner { seen_ms: 0 }) else { return None };
        self.orphans.remove(&ino);
        Some(Reclaimable { unused, file: self.remove(ino).map(|entry| entry.file) })
    }
}

/// An inode without a name, open handle or kernel reference: its records and bytes can go.
pub(crate) struct Reclaimable {
    pub unused: Removable,
    pub file: Option<Arc<File>>,
}

impl Files {
    pub fn reference(&self, ino: Ino) {
        *self.table.lock().references.entry(ino).or_default() += 1;
    }

    /// Gives back `count` references.
    pub fn forget(&self, ino: Ino, count: u64) -> Option<Reclaimable> {
        let mut table = self.table.lock();
        let left = table.references.get(&ino)?.saturating_sub(count);
        if left > 0 {
            table.references.insert(ino, left);
            return None;
        }
        table.references.remove(&ino);
        table.take_if_reclaimable(ino)
    }

    /// `ino` lost its last name.
    pub fn orphaned(&self, ino: Ino) -> Option<Reclaimable> {
        let mut table = self.table.lock();
        table.orphans.insert(ino);
        table.take_if_reclaimable(ino)
    }

    /// The file, if it is open or holds bytes.
    pub fn peek(&self, ino: Ino) -> Option<Arc<File>> {
        self.table.lock().files.get(&ino).map(|entry| entry.file.clone())
    }

    /// Is it known that the file has none of [`weft_meta::CAPABILITY_XATTR`]?
    pub fn has_no_capability(&self, ino: Ino) -> bool {
        let is_known = |file: &File| file.is_loaded.load(Ordering::Acquire) && !file.lock().has_capability;
        self.peek(ino).is_some_and(|file| is_known(&file))
    }

    /// Has any program of this process it open?
    pub fn is_open(&self, ino: Ino) -> bool {
        self.table.lock().files.get(&ino).is_some_and(|entry| entry.open_count > 0)
    }

    /// How many files have left the table so far.
    pub fn left_count(&self) -> u64 {
        self.table.lock().left_count
    }

    /// Is the file unused now, and was it unused all the time since `left_count` files had left the table? Then attributes that were read
    /// from the store in this time are the newest.
    pub fn is_unused_since(&self, left_count: u64, ino: Ino) -> bool {
        let table = self.table.lock();
        table.left_count == left_count && !table.files.contains_key(&ino)
    }

    /// Opens a file; every call is answered by one [`Files::close`].
    pub fn open(&self, store: &Store, ino: Ino) -> Result<Arc<File>, VfsError> {
        let file = self.enter(ino);
        let loaded = if store.is_shared() { file.reload(store).map(drop) } else { file.load(store) };
        if let Err(error) = loaded {
            // Should it have lost its last name meanwhile, the volume reclaims it at its end.
            self.close(ino);
            return Err(error.into());
        }
        Ok(file)
    }

    /// Makes a file of a fresh number by `create`, and opens it. Who opens it by its new name waits for the answer here, so nothing can
    /// come between.
    pub fn make(
        &self,
        ino: Ino,
        create: impl FnOnce() -> Result<Attributes, MetaError>,
    ) -> Result<(Arc<File>, Attributes), MetaError> {
        let file = self.enter(ino);
        let mut state = file.lock();
        let made = create();
        if let Ok(attributes) = &made {
            *state = FileState::new(attributes);
            file.is_loaded.store(true, Ordering::Release);
        }
        drop(state);
        match made {
            Ok(attributes) => Ok((file, attributes)),
            Err(error) => {
                self.close(ino);
                Err(error)
            }
        }
    }

    fn enter(&self, ino: Ino) -> Arc<File> {
        let mut table = self.table.lock();
        let fresh = || Entry { file: Arc::new(File::new(ino)), open_count: 0 };
        let entry = table.files.entry(ino).or_insert_with(fresh);
        entry.open_count += 1;
        entry.file.clone()
    }

    /// Must not be called with the file's state locked.
    pub fn close(&self, ino: Ino) -> Option<Reclaimable> {
        let mut table = self.table.lock();
        let entry = table.files.get_mut(&ino)?;
        entry.open_count = entry.open_count.saturating_sub(1);
        let unused = (entry.open_count == 0).then(|| entry.file.clone());
        let reclaimable = table.take_if_reclaimable(ino);
        drop(table);
        if let Some(file) = unused {
            self.settle(&file);
        }
        reclaimable
    }

    /// A file's last byte was committed: it may leave the table. Must not be called with its state locked.
    pub fn settle(&self, file: &Arc<File>) {
        let state = file.lock();
        if !state.is_idle() {
            return;
        }
        let mut table = self.table.lock();
        let leaves = |entry: &Entry| entry.open_count == 0 && Arc::ptr_eq(&entry.file, file);
        if table.files.get(&file.ino).is_some_and(leaves) {
            table.remove(file.ino);
        }
    }
}

#[cfg(test)]
#[path = "files_tests.rs"]
mod tests;
