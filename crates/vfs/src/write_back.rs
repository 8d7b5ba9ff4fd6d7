//! From dirty bytes to committed extents.
//!
//! A file with a segment's worth of dirty bytes is uploaded at once, in a segment of its own. Smaller files wait a moment
//! ([`DIRTY_AGE_MS`]) and share a segment. A small fsync does not wait for a segment: its bytes go into the metadata's
//! journal, in one group-committed transaction, and are uploaded later.
//!
//! The walk of one upload: `stage` (pieces get their place in the segment) -> `submit` -> `transfer.write` (shards durable)
//! -> `commit` (one metadata transaction makes them extents) -> `settle` (waiters are told). Uploads that share a file are
//! committed in the order in which they were staged, so that after a crash a file has a prefix of what was written, not a
//! hole in it. If an upload fails, bytes that were appended after its own are dirty again too ([`Buffer::completion`]
//! decides), and are uploaded again.

use crate::buffer::{Buffer, Completion, JOURNAL_PAGE_BYTES};
use crate::error::VfsError;
use crate::files::{File, FileState, Files};
use crate::policies::{Policies, Policy, write_request};
use crate::request::{milliseconds, now};
use crate::segment_ids::{NewSegment, SegmentIds};
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use weft_env::planted::{Planted, has_planted};
use weft_env::sync::{self, Condvar, Mutex, MutexGuard, Receiver, Sender};
use weft_env::{Clock, Runtime};
use weft_format::records::Timestamp;
use weft_format::{Ino, PolicyId, SegmentId};
use weft_meta::kv::KvError;
use weft_meta::{Extent, FileCommit, JournalPage, MetaError, Store};
use weft_transfer::{Receipt, Transfer, WriteError};

/// Dirty bytes wait this long for company before they are uploaded: many small files share a segment, and files that are
/// deleted again within a moment never leave memory.
const DIRTY_AGE_MS: u128 = 1_000;
/// Bytes that the journal holds are safe already; waiting longer lets a page that is written over and over be uploaded once.
const JOURNALED_AGE_MS: u128 = 5_000;
/// The journal is emptied into segments beyond this; it bounds replay at mount and the size of the metadata.
const JOURNAL_BYTES_MAX: u64 = 16 << 20;
/// An fsync with more new bytes than this writes a segment: the journal would write them twice.
const JOURNALED_FSYNC_BYTES_MAX: u64 = 64 << 10;
/// Keeps one commit below 1,000 keys, the least that a metadata engine must carry: a piece is an extent and perhaps a
/// journal page, a file is an inode and an index entry.
const PIECES_PER_SEGMENT_MAX: usize = 300;
const FILES_PER_SEGMENT_MAX: usize = 128;
/// So many small dirty files are uploaded without waiting for their age.
const DIRTY_FILES_MAX: usize = 512;
/// A writer that finds no room for this long, because nodes take nothing, gets an error instead of hanging.
const STALL_MAX: Duration = Duration::from_secs(60);

/// One segment in flight.
struct Upload {
    sequence: u64,
    segment: SegmentId,
    /// Until it is committed, or given up.
    may_be_committed: NewSegment,
    files: Vec<Arc<File>>,
    bytes: u64,
}

struct Completed {
    upload: Upload,
    outcome: Result<Receipt, WriteError>,
}

/// See the module's head.
pub(crate) struct WriteBack {
    store: Arc<Store>,
    transfer: Transfer,
    runtime: Runtime,
    files: Arc<Files>,
    policies: Arc<Policies>,
    held_bytes_max: u64,
    /// Memory of what is buffered and in flight, of all files.
    held_bytes: AtomicU64,
    journal_bytes: AtomicU64,
    room: (Mutex<()>, Condvar),
    dirty: Mutex<BTreeMap<Ino, Arc<File>>>,
    segment_ids: Arc<SegmentIds>,
    next_sequence: AtomicU64,
    /// Files of each upload in flight, in the order of staging.
    in_flight: Mutex<BTreeMap<u64, BTreeSet<Ino>>>,
    completed: Sender<Completed>,
    /// The last failure to write, while it lasts.
    trouble: Mutex<Option<Arc<VfsError>>>,
    /// The commit thread has ended before its time: nothing more will settle.
    broken: OnceLock<Arc<VfsError>>,
    /// Wakes the background loop before its time.
    wake: (Mutex<bool>, Condvar),
    stopping: AtomicBool,
}

impl WriteBack {
    pub fn start(
        store: Arc<Store>,
        transfer: Transfer,
        runtime: Runtime,
        files: Arc<Files>,
        policies: Arc<Policies>,
        held_bytes_max: u64,
        opening: u32,
    ) -> Arc<Self> {
        let (completed, completions) = sync::channel();
        let this = Arc::new(Self {
            store,
            transfer,
            runtime,
            files,
            policies,
            held_bytes_max,
            held_bytes: AtomicU64::new(0),
            journal_bytes: AtomicU64::new(0),
            room: Default::default(),
            dirty: Default::default(),
            segment_ids: SegmentIds::new(opening),
            next_sequence: AtomicU64::new(0),
            in_flight: Default::default(),
            completed,
            trouble: Mutex::new(None),
            broken: OnceLock::new(),
            wake: Default::default(),
            stopping: AtomicBool::new(false),
        });
        let weak = Arc::downgrade(&this);
        let commit = move || {
            let _ending = CommitEnding(&weak);
            commit_in_order(&weak, &completions);
        };
        let spawner = &this.store.env().spawner;
        spawner.thread("weft-commit", Box::new(commit)).expect("the commit thread starts when the volume opens");
        this
    }

    fn clock(&self) -> &dyn Clock {
        &*self.store.env().clock
    }

    /// The wall clock, as a file's time.
    fn now(&self) -> Timestamp {
        now(self.store.env())
    }

    /// Where ids of new segments are from.
    pub fn segment_ids(&self) -> &Arc<SegmentIds> {
        &self.segment_ids
    }

    /// Puts bytes into a file's buffer; uploads them if there are enough of them. An error means that nothing has changed.
    pub fn write(&self, file: &Arc<File>, offset: u64, data: &[u8]) -> Result<(), VfsError> {
        if data.is_empty() {
            return Ok(());
        }
        self.wait_for_room()?;
        let mut state = file.lock();
        let policy = self.policies.get(&self.store, state.policy)?;
        let held_before = state.buffer.memory_bytes();
        state.buffer.write(offset, data);
        self.note_held(held_before, state.buffer.memory_bytes());
        self.touch(file, &mut state);
        if state.buffer.dirty_bytes() >= policy.segment_bytes {
            self.upload_file(file, &mut state, &policy, policy.segment_bytes);
        }
        Ok(())
    }

    /// The file changed now: times, and a place among the dirty files.
    pub fn touch(&self, file: &Arc<File>, state: &mut FileState) {
        state.mtime = self.now();
        state.ctime = state.mtime;
        state.was_given_up = false;
        state.unsaved = true;
        if state.dirty_since.is_none() {
            state.dirty_since = Some(self.clock().now());
            let mut dirty = self.dirty.lock();
            dirty.insert(file.ino, file.clone());
            if dirty.len() == DIRTY_FILES_MAX {
                self.wake_up();
            }
        }
    }

    /// Changes a file's buffer, and counts what that changes in sum.
    pub fn change<T>(&self, state: &mut FileState, change: impl FnOnce(&mut Buffer) -> T) -> T {
        let buffer = &mut state.buffer;
        let (held_before, pages_before) = (buffer.memory_bytes(), buffer.journal_page_count());
        let changed = change(buffer);
        let (held_after, pages_after) = (buffer.memory_bytes(), buffer.journal_page_count());
        self.note_held(held_before, held_after);
        if pages_after >= pages_before {
            self.journal_bytes.fetch_add((pages_after - pages_before) * JOURNAL_PAGE_BYTES, Ordering::Relaxed);
        } else {
            self.journal_bytes.fetch_sub((pages_before - pages_after) * JOURNAL_PAGE_BYTES, Ordering::Relaxed);
        }
        changed
    }

    fn note_held(&self, before: u64, after: u64) {
        if after >= before {
            self.held_bytes.fetch_add(after - before, Ordering::Relaxed);
        } else {
            self.held_bytes.fetch_sub(before - after, Ordering::Relaxed);
            self.room.1.notify_all();
        }
    }

    fn wait_for_room(&self) -> Result<(), VfsError> {
        if self.held_bytes.load(Ordering::Relaxed) < self.held_bytes_max {
            return Ok(());
        }
        self.wake_up();
        let deadline = self.clock().now() + STALL_MAX;
        let mut guard = self.room.0.lock();
        while self.held_bytes.load(Ordering::Relaxed) >= self.held_bytes_max {
            if let Some(error) = self.trouble.lock().clone() {
                return Err(VfsError::Earlier(error));
            }
            if self.clock().now() > deadline {
                return Err(VfsError::Stalled { seconds: STALL_MAX.as_secs() });
            }
            // Room is noted without the lock, so a wake-up can be missed; the time-out makes that harmless.
            self.room.1.wait_for(&mut guard, Duration::from_millis(20), || self.clock().now());
        }
        Ok(())
    }

    /// Uploads dirty bytes of one file, in segments of its own, while at least `least_bytes` are dirty.
    fn upload_file(&self, file: &Arc<File>, state: &mut FileState, policy: &Policy, least_bytes: u64) {
        while state.buffer.dirty_bytes() >= least_bytes.max(1) {
            let upload = self.new_upload(vec![file.clone()]);
            let data = self.stage(state, &upload, 0, policy.segment_bytes, PIECES_PER_SEGMENT_MAX);
            self.submit(upload, data, &policy.record);
        }
    }

    /// Uploads the dirty bytes of many small files together. They come by inode, as [`Self::commit`] locks them.
    fn upload_together(&self, files: Vec<Arc<File>>, policy: PolicyId) -> Result<(), VfsError> {
        let policy = self.policies.get(&self.store, policy)?;
        let mut queue = VecDeque::from(files);
        while !queue.is_empty() {
            let group: Vec<Arc<File>> = queue.iter().take(FILES_PER_SEGMENT_MAX).cloned().collect();
            // All of them are locked until the upload is in flight: another that carries bytes of one of them is staged,
            // and counted, before or after this one.
            let mut states: Vec<MutexGuard<'_, FileState>> = group.iter().map(|file| file.lock()).collect();
            let mut upload = self.new_upload(group.clone());
            upload.files.clear();
            let mut data: Vec<bytes::Bytes> = Vec::new();
            for (file, state) in group.iter().zip(&mut states) {
                let bytes_left = policy.segment_bytes - upload.bytes;
                let pieces_left = PIECES_PER_SEGMENT_MAX - data.len();
                let pieces = self.stage(state, &upload, upload.bytes, bytes_left, pieces_left);
                if !pieces.is_empty() {
                    upload.bytes += pieces.iter().map(|piece| piece.len() as u64).sum::<u64>();
                    data.extend(pieces);
                    upload.files.push(file.clone());
                }
                if state.buffer.dirty_bytes() > 0 {
                    // The rest of it opens the next segment.
                    break;
                }
                queue.pop_front();
            }
            self.submit(upload, data, &policy.record);
        }
        Ok(())
    }

    /// Takes up to `bytes_max` bytes in at most `pieces_max` pieces of a file, for their place in the upload's segment.
    fn stage(
        &self,
        state: &mut FileState,
        upload: &Upload,
        segment_offset: u64,
        bytes_max: u64,
        pieces_max: usize,
    ) -> Vec<bytes::Bytes> {
        let held_before = state.buffer.memory_bytes();
        let pieces = state.buffer.stage(upload.segment, segment_offset, bytes_max, pieces_max);
        self.note_held(held_before, state.buffer.memory_bytes());
        if !pieces.is_empty() {
            state.in_flight.insert(upload.segment);
        }
        pieces
    }

    fn new_upload(&self, files: Vec<Arc<File>>) -> Upload {
        let sequence = self.next_sequence.fetch_add(1, Ordering::Relaxed);
        let inos = files.iter().map(|file| file.ino).collect();
        self.in_flight.lock().insert(sequence, inos);
        let new = self.segment_ids.begin(milliseconds(self.now()), self.store.env().rng.next_u16());
        Upload { sequence, segment: new.id, may_be_committed: new, files, bytes: 0 }
    }

    fn submit(&self, upload: Upload, data: Vec<bytes::Bytes>, policy: &weft_format::records::PolicyRecord) {
        if data.is_empty() {
            self.in_flight.lock().remove(&upload.sequence);
            return;
        }
        let request = write_request(policy, upload.segment, data);
        let (transfer, completed) = (self.transfer.clone(), self.completed.clone());
        let write = self.runtime.spawn(async move { transfer.write(request).await });
        self.runtime.spawn(async move {
            // A panic must not leave those waiting who wait for the segment to settle.
            let stopped = WriteError::Stopped { segment: upload.segment };
            let outcome = write.await.unwrap_or(Err(stopped));
            // The receiver ends only with the volume.
            let _ = completed.send(Completed { upload, outcome });
        });
    }

    /// One metadata transaction makes a completed upload's bytes the files' extents.
    fn commit(&self, completed: Completed) {
        let Completed { upload, outcome } = completed;
        let mut files = upload.files;
        files.sort_by_key(|file| file.ino);
        let mut states: Vec<MutexGuard<'_, FileState>> = files.iter().map(|file| file.lock()).collect();
        let committed = match outcome {
            Ok(receipt) => {
                let commit = || self.commit_receipt(upload.segment, &receipt, &files, &mut states);
                // A panic must not leave those waiting who wait for the segment to settle.
                catch_unwind(AssertUnwindSafe(commit)).unwrap_or(Err(VfsError::Panicked { what: "a commit" }))
            }
            Err(error) => Err(VfsError::Write(error)),
        };
        // Before those are told who wait for it: whoever notes then what is settled counts it.
        drop(upload.may_be_committed);
        if let Err(error) = committed {
            if let VfsError::Meta(MetaError::Superseded(why)) = &error {
                self.store.halt(why);
            }
            let error = self.note_trouble(upload.segment, error);
            for (file, state) in files.iter().zip(&mut states) {
                self.note_failed_change(file.ino, state);
                let unjournaled_bytes = state.buffer.unjournaled_bytes();
                self.unstage(file, state, upload.segment);
                // Bytes that the journal holds are durable all the same.
                if state.buffer.unjournaled_bytes() > unjournaled_bytes {
                    state.failures.note(error.clone());
                }
            }
        } else {
            *self.trouble.lock() = None;
        }
        for (file, mut state) in files.iter().zip(states) {
            state.in_flight.remove(&upload.segment);
            self.note_clean(file, &mut state);
            file.settled.notify_all();
        }
        for file in &files {
            self.files.settle(file);
        }
        self.in_flight.lock().remove(&upload.sequence);
    }

    /// Of `segment` nothing was committed: its bytes are dirty again.
    fn unstage(&self, file: &Arc<File>, state: &mut FileState, segment: SegmentId) {
        if state.buffer.unstage(segment) {
            self.note_unstaged(file, state);
        }
    }

    /// Bytes that are dirty again wait their turn again, so that a full volume is not hammered.
    fn note_unstaged(&self, file: &Arc<File>, state: &mut FileState) {
        state.unstaged_count += 1;
        state.dirty_since = Some(self.clock().now());
        self.dirty.lock().insert(file.ino, file.clone());
    }

    fn commit_receipt(
        &self,
        segment: SegmentId,
        receipt: &Receipt,
        files: &[Arc<File>],
        states: &mut [MutexGuard<'_, FileState>],
    ) -> Result<(), VfsError> {
        let completions: Vec<Completion> = states.iter().map(|state| state.buffer.completion(segment)).collect();
        let changes = files.iter().zip(states.iter()).zip(&completions);
        let commits: Vec<FileCommit> = changes
            .filter(|(_, completion)| !completion.extents.is_empty())
            .map(|((file, state), completion)| file_commit(file.ino, state, completion, self.store.is_shared()))
            .collect();
        if commits.is_empty() {
            // Everything was cut off or deleted meanwhile, or has to wait.
            self.withdraw(segment, receipt);
        } else {
            if let Err(error) = self.store.commit_files(&[(segment, receipt.record.clone())], &commits, self.now()) {
                // Metadata without room refuses each attempt, and every attempt would leave a segment on the nodes.
                let is_refused = matches!(
                    error,
                    MetaError::Superseded(_) | MetaError::Engine(KvError::Full { .. } | KvError::Conflict)
                );
                if is_refused && matches!(self.store.segment(segment), Ok(None)) {
                    self.withdraw(segment, receipt);
                }
                return Err(error.into());
            }
            if !receipt.missing.is_empty()
                && let Err(error) = self.store.mark_damaged(segment)
            {
                // The record says it too.
                tracing::warn!(%segment, "it is not queued for repair yet: {error}");
            }
        }
        for ((file, state), completion) in files.iter().zip(states).zip(&completions) {
            self.note_completed(file, state, segment, completion);
        }
        Ok(())
    }

    /// Nothing refers to the segment, nor will: its shards go, and if that fails they are orphans that collection finds.
    fn withdraw(&self, segment: SegmentId, receipt: &Receipt) {
        let (transfer, record) = (self.transfer.clone(), receipt.record.clone());
        self.runtime.spawn(async move { transfer.withdraw(segment, &record).await });
    }

    fn note_completed(&self, file: &Arc<File>, state: &mut FileState, segment: SegmentId, completion: &Completion) {
        if completion.extents.is_empty() {
            return self.unstage(file, state, segment);
        }
        if self.change(state, |buffer| buffer.complete(segment, completion)) {
            self.note_unstaged(file, state);
        }
        state.forget_extents();
        state.known = (state.mtime, state.ctime);
        state.unsaved = match self.store.is_shared() {
            true => !state.buffer.is_empty(),
            false => state.buffer.committed_size() != state.buffer.size(),
        };
    }

    /// A change of the store that failed may have been made in part: what is known of the store's extents and size is old.
    fn note_failed_change(&self, ino: Ino, state: &mut FileState) {
        state.forget_extents();
        if let Ok(attributes) = self.store.attributes(ino) {
            state.buffer.found_committed(attributes.size);
        }
    }

    /// The same of a truncation or a hole, which may have taken pages from the journal.
    pub fn note_failed_cut(&self, ino: Ino, state: &mut FileState) {
        self.note_failed_change(ino, state);
        state.buffer.doubt_journal();
    }

    fn note_trouble(&self, segment: SegmentId, error: VfsError) -> Arc<VfsError> {
        tracing::error!(%segment, "{error}; the bytes are kept and written again");
        let error = Arc::new(error);
        *self.trouble.lock() = Some(error.clone());
        self.room.1.notify_all();
        error
    }

    /// fsync: every byte written before the call, and the file's size, are durable when it returns. `told`: of how many failures
    /// the descriptor was told.
    pub fn sync_file(&self, file: &Arc<File>, told: &AtomicU64) -> Result<(), VfsError> {
        if has_planted(Planted::EarlyFsync) {
            return Ok(());
        }
        let recoverable = self.make_recoverable(file);
        let earlier = file.lock().failures.tell(told);
        recoverable.and(earlier)?;
        if has_planted(Planted::UnflushedFsync) {
            return Ok(());
        }
        Ok(self.store.sync()?)
    }

    /// Puts a file's bytes where a crash leaves them with their name: in the journal or in segments, committed in order
    /// with later changes of metadata, but not yet forced to the disk.
    pub fn make_recoverable(&self, file: &Arc<File>) -> Result<(), VfsError> {
        let mut state = file.lock();
        let size = state.buffer.size();
        let known_count = state.failures.count();
        let mut is_late = false;
        loop {
            // The journal commits the size too, which must not run ahead of bytes in flight.
            let fits = self.fits_journal(&state);
            if fits && state.in_flight.is_empty() {
                if state.unsaved || state.buffer.unjournaled_bytes() > 0 {
                    self.journal(file, &mut state)?;
                }
                break;
            }
            // Few bytes stay behind for the journal, but only once: while others write, something is always in flight.
            let all_sent = !fits || is_late;
            if all_sent {
                let policy = self.policies.get(&self.store, state.policy)?;
                self.upload_file(file, &mut state, &policy, 1);
            }
            is_late = true;
            let unstaged_count = state.unstaged_count;
            self.wait_settled(file, &mut state)?;
            state.failures.after(known_count)?;
            let committed = state.buffer.committed_size();
            let is_there = state.unstaged_count == unstaged_count && committed >= size.min(state.buffer.size());
            if all_sent && is_there {
                break;
            }
        }
        drop(state);
        self.files.settle(file);
        Ok(())
    }

    /// Waits until the file's uploads that are in flight now have settled.
    fn wait_settled(&self, file: &File, state: &mut MutexGuard<'_, FileState>) -> Result<(), VfsError> {
        let awaited = state.in_flight.clone();
        while !state.in_flight.is_disjoint(&awaited) {
            if let Some(error) = self.broken.get() {
                return Err(VfsError::Earlier(error.clone()));
            }
            file.settled.wait(state);
        }
        Ok(())
    }

    /// Is something dirty that neither nodes nor the journal have, while nodes take nothing or cannot?
    fn is_in_doubt(&self, state: &FileState) -> Result<bool, VfsError> {
        if state.gone || state.buffer.bytes_at_risk() == 0 {
            return Ok(false);
        }
        let policy = self.policies.get(&self.store, state.policy)?;
        Ok(self.trouble.lock().is_some() || self.transfer.can_place(&policy.record.code).is_err())
    }

    /// A descriptor is closed. That waits for nothing while all is well; while nodes take nothing, or have no places for what
    /// the policy says, the file's bytes are tried now, so that who closes is told. Where others use the volume, too, they see from now on
    /// what was written.
    pub fn close(&self, file: &Arc<File>, is_for_writing: bool, told: &AtomicU64) -> Result<(), VfsError> {
        let is_due = is_for_writing && (self.store.is_shared() || self.is_in_doubt(&file.lock())?);
        let recoverable = if is_due { self.make_recoverable(file) } else { Ok(()) };
        let earlier = file.lock().failures.tell(told);
        match recoverable {
            Err(error) if self.store.is_shared() => Err(self.give_up_and_tell(file, error)),
            recoverable => recoverable.and(earlier),
        }
    }

    /// The same as [`Self::give_up`] for who tells a program what it gives.
    pub fn give_up_and_tell(&self, file: &Arc<File>, error: VfsError) -> VfsError {
        let error = self.give_up(file, error);
        file.lock().failures.note_told();
        error
    }

    /// What could not be committed of a file that others change, too, is lost: later it would lie over what they write meanwhile. All of its
    /// descriptors that are open now learn of it, for each may have written some of it. Gives what to say to who wanted it committed.
    pub fn give_up(&self, file: &Arc<File>, error: VfsError) -> VfsError {
        let error = Arc::new(error);
        let mut state = file.lock();
        state.failures.note(error.clone());
        self.change(&mut state, |buffer| {
            buffer.discard(0..u64::MAX);
            buffer.adopt(buffer.committed_size());
        });
        state.forget_extents();
        state.was_given_up = true;
        state.unsaved = false;
        self.note_clean(file, &mut state);
        VfsError::Earlier(error)
    }

    /// The files, and their bytes, that are durable nowhere.
    pub fn unwritten(&self) -> (u64, u64) {
        let bytes = self.dirty_files().into_iter().map(|file| file.lock().buffer.bytes_at_risk());
        bytes.filter(|bytes| *bytes > 0).fold((0, 0), |(files, sum), bytes| (files + 1, sum + bytes))
    }

    /// Bytes of files that only the metadata's journal has.
    pub fn journaled_bytes(&self) -> u64 {
        self.journal_bytes.load(Ordering::Relaxed)
    }

    fn fits_journal(&self, state: &FileState) -> bool {
        let bytes = state.buffer.unjournaled_bytes();
        let has_room = self.journal_bytes.load(Ordering::Relaxed) < JOURNAL_BYTES_MAX;
        bytes == 0 || (bytes <= JOURNALED_FSYNC_BYTES_MAX && has_room)
    }

    /// One transaction with the dirty bytes that the journal does not hold yet, and the file's size and times.
    fn journal(&self, file: &File, state: &mut FileState) -> Result<(), VfsError> {
        if state.gone {
            return Ok(());
        }
        let (is_shared, journal) = (self.store.is_shared(), state.buffer.to_journal());
        let size = if is_shared { journal.last().map_or(0, JournalPage::end) } else { state.buffer.size() };
        let commit = FileCommit { size, journal, ..file_commit(file.ino, state, &Completion::default(), is_shared) };
        if let Err(error) = self.store.commit_files(&[], std::slice::from_ref(&commit), self.now()) {
            self.note_failed_change(file.ino, state);
            if !is_shared {
                self.change(state, |buffer| buffer.note_tried(&commit.journal));
            }
            return Err(error.into());
        }
        if is_shared {
            self.change(state, Buffer::hand_over);
            state.forget_extents();
            state.known = (state.mtime, state.ctime);
        } else {
            self.change(state, Buffer::note_journaled);
        }
        if self.journal_bytes.load(Ordering::Relaxed) > JOURNAL_BYTES_MAX / 2 {
            self.wake_up();
        }
        state.unsaved = false;
        Ok(())
    }

    /// Takes over what the journal held when the volume was last left: its bytes are dirty again.
    pub fn replay(&self, file: &Arc<File>, pages: &[JournalPage]) {
        let mut state = file.lock();
        self.change(&mut state, |buffer| pages.iter().for_each(|page| buffer.replay(page)));
        state.dirty_since = Some(self.clock().now());
        self.dirty.lock().insert(file.ino, file.clone());
    }

    /// Uploads what has waited long enough; `everything`: also what has not. A failure keeps no other file from being
    /// uploaded; the first is returned.
    pub fn upload_aged(&self, everything: bool) -> Result<(), VfsError> {
        // Where nothing may be changed any more nodes would be filled for nothing.
        if self.store.halted().is_some() && !everything {
            return Ok(());
        }
        let files = self.dirty_files();
        let crowded = everything
            || files.len() >= DIRTY_FILES_MAX
            || self.held_bytes.load(Ordering::Relaxed) > self.held_bytes_max / 2
            || self.journal_bytes.load(Ordering::Relaxed) > JOURNAL_BYTES_MAX / 2;
        let mut outcome = Ok(());
        let mut small: BTreeMap<PolicyId, Vec<Arc<File>>> = BTreeMap::new();
        let clock = self.clock();
        for file in files {
            let mut state = file.lock();
            let age_ms = state.dirty_since.map_or(0, |since| clock.elapsed(since).as_millis());
            let age_max_ms = if state.buffer.unjournaled_bytes() == 0 { JOURNALED_AGE_MS } else { DIRTY_AGE_MS };
            if !crowded && age_ms < age_max_ms {
                continue;
            }
            if state.buffer.dirty_bytes() == 0 {
                outcome = outcome.and(self.save_attributes(&file, &mut state));
                drop(state);
                self.files.settle(&file);
                continue;
            }
            // If the upload fails they wait their turn again.
            state.dirty_since = Some(self.clock().now());
            let pieces = state.buffer.dirty_piece_count();
            let large = state.buffer.dirty_bytes() > LARGE_BYTES || pieces > PIECES_PER_SEGMENT_MAX / 2;
            if large {
                let policy = self.policies.get(&self.store, state.policy);
                outcome = outcome.and(policy.map(|policy| self.upload_file(&file, &mut state, &policy, 1)));
            } else {
                small.entry(state.policy).or_default().push(file.clone());
            }
        }
        for (policy, mut files) in small {
            // Directory neighbours are made one after another, so inode order keeps them together in segments.
            files.sort_by_key(|file| file.ino);
            outcome = outcome.and(self.upload_together(files, policy));
        }
        outcome
    }

    /// A file without dirty bytes whose size or times are newer here.
    fn save_attributes(&self, file: &File, state: &mut FileState) -> Result<(), VfsError> {
        if state.in_flight.is_empty() {
            if state.unsaved {
                self.journal(file, state)?;
            }
            self.note_clean(file, state);
        }
        Ok(())
    }

    /// A file of which everything is committed leaves the dirty ones.
    fn note_clean(&self, file: &File, state: &mut FileState) {
        if state.buffer.is_empty() && !state.unsaved {
            state.dirty_since = None;
            self.dirty.lock().remove(&file.ino);
        }
    }

    /// Everything written before the call is committed and durable, or the first failure is returned.
    pub fn sync_all(&self) -> Result<(), VfsError> {
        let known: HashMap<Ino, u64> =
            self.dirty_files().iter().map(|file| (file.ino, file.lock().failures.count())).collect();
        let mut outcome = self.upload_aged(true);
        // A file is among the dirty ones until its last byte is committed.
        for file in self.dirty_files() {
            let mut state = file.lock();
            if let Err(error) = self.wait_settled(&file, &mut state) {
                outcome = outcome.and(Err(error));
                continue;
            }
            let failed = known.get(&file.ino).map_or(Ok(()), |known| state.failures.after(*known));
            // What nodes do not take the journal may; else it was tried just now.
            let may_help = failed.is_ok() || self.fits_journal(&state);
            drop(state);
            outcome = outcome.and(if may_help { self.make_recoverable(&file) } else { failed });
        }
        outcome.and(self.store.flush().map_err(VfsError::from))
    }

    /// Has any file something that is not committed? A file is among the dirty ones until its last byte is.
    pub fn has_dirty_files(&self) -> bool {
        !self.dirty.lock().is_empty()
    }

    fn dirty_files(&self) -> Vec<Arc<File>> {
        self.dirty.lock().values().cloned().collect()
    }

    /// The unlinked file's bytes go nowhere.
    pub fn abandon(&self, file: &Arc<File>) {
        let mut state = file.lock();
        state.gone = true;
        self.change(&mut state, |buffer| buffer.discard(0..u64::MAX));
        state.unsaved = false;
        state.dirty_since = None;
        self.dirty.lock().remove(&file.ino);
    }

    fn wake_up(&self) {
        *self.wake.0.lock() = true;
        self.wake.1.notify_one();
    }

    /// Sleeps until woken or for `at_most`; false once the volume stops.
    pub fn wait_for_work(&self, at_most: Duration) -> bool {
        let mut woken = self.wake.0.lock();
        if !*woken && !self.stopping.load(Ordering::Acquire) {
            self.wake.1.wait_for(&mut woken, at_most, || self.clock().now());
        }
        *woken = false;
        !self.stopping.load(Ordering::Acquire)
    }

    pub fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        self.wake_up();
    }
}

/// Files with more than this are uploaded alone: sharing a segment would save them nothing.
const LARGE_BYTES: u64 = 1 << 20;

/// What a commit says of one file. Of one that others change, too, only what was written here.
fn file_commit(ino: Ino, state: &FileState, completion: &Completion, is_shared: bool) -> FileCommit {
    let end = completion.extents.last().map_or(0, Extent::end);
    FileCommit {
        ino,
        extents: completion.extents.clone(),
        size: if is_shared { end } else { completion.size },
        mtime: state.mtime,
        ctime: state.ctime,
        mode: None,
        journal: Vec::new(),
        journal_under: completion.journal_pages.clone(),
        known_mtime: is_shared.then_some(state.known.0),
    }
}

/// However the commit thread ends, nobody waits for it any more.
struct CommitEnding<'a>(&'a std::sync::Weak<WriteBack>);

impl Drop for CommitEnding<'_> {
    fn drop(&mut self) {
        let Some(write_back) = self.0.upgrade().filter(|_| std::thread::panicking()) else { return };
        let error = Arc::new(VfsError::Panicked { what: "the thread that commits" });
        let _ = write_back.broken.set(error.clone());
        *write_back.trouble.lock() = Some(error);
        for file in write_back.dirty_files() {
            // Locked, so that nobody is between looking and waiting.
            let _state = file.lock();
            file.settled.notify_all();
        }
    }
}

/// The commit thread: uploads in the order in which they were staged, as far as they share files.
fn commit_in_order(write_back: &std::sync::Weak<WriteBack>, completions: &Receiver<Completed>) {
    let mut waiting: BTreeMap<u64, Completed> = BTreeMap::new();
    while let Some(completed) = completions.recv() {
        let Some(write_back) = write_back.upgrade() else { return };
        waiting.insert(completed.upload.sequence, completed);
        loop {
            let next = next_committable(&waiting, &write_back.in_flight.lock());
            let Some(completed) = next.and_then(|sequence| waiting.remove(&sequence)) else { break };
            write_back.commit(completed);
        }
    }
}

/// The first completed upload that shares no file with an earlier one still in flight.
fn next_committable(waiting: &BTreeMap<u64, Completed>, in_flight: &BTreeMap<u64, BTreeSet<Ino>>) -> Option<u64> {
    if has_planted(Planted::CommitsOutOfOrder) {
        return waiting.keys().next_back().copied();
    }
    waiting.keys().copied().find(|sequence| {
        let Some(files) = in_flight.get(sequence) else { return true };
        in_flight.range(..sequence).all(|(_, earlier)| earlier.is_disjoint(files))
    })
}
