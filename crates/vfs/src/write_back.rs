//! From dirty bytes to committed extents.
//!
//! A file with a segment's worth of dirty bytes is uploaded at once, in a segment of its own. Smaller files wait a moment
//! ([`crate::flush::DIRTY_AGE`]) and share a segment. A small fsync does not wait for a segment: its bytes go into the metadata's
//! journal, in one group-committed transaction, and are uploaded later.
//!
//! The walk of one upload: `stage` (pieces get their place in the segment) -> `submit` -> `transfer.write` (shards durable)
//! -> `commit` (one metadata transaction makes them extents) -> `settle` (waiters are told). Uploads that share a file are
//! committed in the order in which they were staged, so that after a crash a file has a prefix of what was written, not a
//! hole in it. If an upload fails, bytes that were appended after its own are dirty again too ([`Buffer::completion`]
//! decides), and are uploaded again.
//!
//! Here are locks, threads and calls. What happens is decided in three pure parts: `flush.rs` (when, with what, in which order),
//! `durable.rs` (the steps of an fsync), and `buffer.rs` (which bytes). `commit.rs` has the commit thread, `saving.rs` what
//! programs wait for. Start reading at [`WriteBack::write`].
//!
//! A file's lock is taken before that of [`Flush`], under which threads wait for nothing but a change of it.
//!
//! [`Buffer::completion`]: crate::buffer::Buffer::completion

mod commit;
mod saving;

use crate::error::VfsError;
use crate::files::{File, FileState, Files};
use crate::flush::{Admission, Due, Flush, PIECES_PER_SEGMENT_MAX, Wake};
use crate::policies::{Policies, Policy, write_request};
use crate::request::{milliseconds, now};
use crate::segment_ids::{NewSegment, SegmentIds};
use commit::{Completed, Upload};
use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use weft_env::sync::{self, Condvar, Mutex, MutexGuard, Sender};
use weft_env::{Clock, Runtime};
use weft_format::records::{PolicyRecord, Timestamp};
use weft_format::{Ino, PolicyId};
use weft_meta::{JournalPage, Store};
use weft_transfer::{Transfer, WriteError};

/// Files of one segment: an inode and an index entry each, so that with [`PIECES_PER_SEGMENT_MAX`] pieces a commit stays below 1,000 keys.
const FILES_PER_SEGMENT_MAX: usize = 128;

/// See the module's head.
pub(crate) struct WriteBack {
    store: Arc<Store>,
    transfer: Transfer,
    runtime: Runtime,
    files: Arc<Files>,
    policies: Arc<Policies>,
    flush: Mutex<Flush<Arc<File>>>,
    /// Writers wait here for room, ...
    room: Condvar,
    /// ... and the background loop for work.
    work: Condvar,
    segment_ids: Arc<SegmentIds>,
    completed: Sender<Completed>,
    /// The commit thread has ended before its time: nothing more will settle.
    broken: OnceLock<Arc<VfsError>>,
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
            flush: Mutex::new(Flush::new(held_bytes_max)),
            room: Condvar::new(),
            work: Condvar::new(),
            segment_ids: SegmentIds::new(opening),
            completed,
            broken: OnceLock::new(),
        });
        let weak = Arc::downgrade(&this);
        let spawner = &this.store.env().spawner;
        let commits = Box::new(move || commit::commit_each(&weak, &completions));
        spawner.thread("weft-commit", commits).expect("the commit thread starts when the volume opens");
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
        let time = self.now();
        self.change(file, &mut state, |state| {
            state.buffer.write(offset, data);
            state.touch(time);
        });
        if state.buffer.dirty_bytes() >= policy.segment_bytes {
            self.upload_file(file, &mut state, &policy, policy.segment_bytes);
        }
        Ok(())
    }

    /// Changes what a file holds, and takes note of it. Nothing else may change that.
    pub fn change<T>(&self, file: &Arc<File>, state: &mut FileState, change: impl FnOnce(&mut FileState) -> T) -> T {
        let changed = change(state);
        let wake = self.flush.lock().changed(file.ino, file, state.held(), self.clock().now());
        self.wake(wake);
        changed
    }

    fn wake(&self, Wake { writers, background }: Wake) {
        if writers {
            self.room.notify_all();
        }
        if background {
            self.work.notify_one();
        }
    }

    fn wait_for_room(&self) -> Result<(), VfsError> {
        let mut flush = self.flush.lock();
        if flush.has_room() {
            return Ok(());
        }
        let since = self.clock().now();
        loop {
            match flush.admit(since, self.clock().now()) {
                Admission::Enter => return Ok(()),
                Admission::Refuse(error) => return Err(error),
                Admission::Wait(at_most) => {
                    self.work.notify_one();
                    self.room.wait_for(&mut flush, at_most, || self.clock().now());
                }
            }
        }
    }

    /// Uploads dirty bytes of one file, in segments of its own, while at least `least_bytes` are dirty.
    fn upload_file(&self, file: &Arc<File>, state: &mut FileState, policy: &Policy, least_bytes: u64) {
        while state.buffer.dirty_bytes() >= least_bytes.max(1) {
            let new = self.new_segment();
            let data = self.stage(file, state, &new, 0, policy.segment_bytes, PIECES_PER_SEGMENT_MAX);
            self.submit(new, vec![file.clone()], data, &policy.record);
        }
    }

    /// Uploads the dirty bytes of many small files together. They come by inode, as a commit locks them.
    fn upload_together(&self, files: Vec<Arc<File>>, policy: PolicyId) -> Result<(), VfsError> {
        let policy = self.policies.get(&self.store, policy)?;
        let mut queue = VecDeque::from(files);
        while !queue.is_empty() {
            let group: Vec<Arc<File>> = queue.iter().take(FILES_PER_SEGMENT_MAX).cloned().collect();
            // All of them are locked until the upload is in flight: another that carries bytes of one of them is staged,
            // and counted, before or after this one.
            let mut states: Vec<MutexGuard<'_, FileState>> = group.iter().map(|file| file.lock()).collect();
            let new = self.new_segment();
            let (mut carried, mut bytes) = (Vec::new(), 0);
            let mut data: Vec<bytes::Bytes> = Vec::new();
            for (file, state) in group.iter().zip(&mut states) {
                let (bytes_left, pieces_left) = (policy.segment_bytes - bytes, PIECES_PER_SEGMENT_MAX - data.len());
                let pieces = self.stage(file, state, &new, bytes, bytes_left, pieces_left);
                if !pieces.is_empty() {
                    bytes += pieces.iter().map(|piece| piece.len() as u64).sum::<u64>();
                    data.extend(pieces);
                    carried.push(file.clone());
                }
                if state.buffer.dirty_bytes() > 0 {
                    // The rest of it opens the next segment.
                    break;
                }
                queue.pop_front();
            }
            self.submit(new, carried, data, &policy.record);
        }
        Ok(())
    }

    /// Takes up to `bytes_max` bytes in at most `pieces_max` pieces of a file, for their place in the new segment.
    fn stage(
        &self,
        file: &Arc<File>,
        state: &mut FileState,
        new: &NewSegment,
        segment_offset: u64,
        bytes_max: u64,
        pieces_max: usize,
    ) -> Vec<bytes::Bytes> {
        let pieces =
            self.change(file, state, |state| state.buffer.stage(new.id, segment_offset, bytes_max, pieces_max));
        if !pieces.is_empty() {
            state.in_flight.insert(new.id);
        }
        pieces
    }

    fn new_segment(&self) -> NewSegment {
        self.segment_ids.begin(milliseconds(self.now()), self.store.env().rng.next_u16())
    }

    /// Sends what was staged of these files, which are locked.
    fn submit(&self, new: NewSegment, files: Vec<Arc<File>>, data: Vec<bytes::Bytes>, policy: &PolicyRecord) {
        if data.is_empty() {
            return;
        }
        let inos: BTreeSet<Ino> = files.iter().map(|file| file.ino).collect();
        let sequence = self.flush.lock().staged(inos);
        let segment = new.id;
        let upload = Upload { sequence, segment, may_be_committed: new, files };
        let request = write_request(policy, segment, data);
        let (transfer, completed) = (self.transfer.clone(), self.completed.clone());
        let write = self.runtime.spawn(async move { transfer.write(request).await });
        self.runtime.spawn(async move {
            // A panic must not leave those waiting who wait for the segment to settle.
            let outcome = write.await.unwrap_or(Err(WriteError::Stopped { segment }));
            // The receiver ends only with the volume.
            let _ = completed.send(Completed { upload, outcome });
        });
    }

    /// Takes over what the journal held when the volume was last left: its bytes are dirty again.
    pub fn replay(&self, file: &Arc<File>, pages: &[JournalPage]) {
        let mut state = file.lock();
        self.change(file, &mut state, |state| pages.iter().for_each(|page| state.buffer.replay(page)));
    }

    /// Uploads what has waited long enough; `everything`: also what has not. A failure keeps no other file from being
    /// uploaded; the first is returned.
    pub fn upload_due(&self, everything: bool) -> Result<(), VfsError> {
        // Where nothing may be changed any more nodes would be filled for nothing.
        if self.store.halted().is_some() && !everything {
            return Ok(());
        }
        let due = self.flush.lock().due(everything, self.clock().now());
        let mut outcome = Ok(());
        for due in due {
            outcome = outcome.and(match due {
                Due::Alone(file) => self.upload_alone(&file),
                Due::Together(policy, files) => self.upload_together(files, policy),
                Due::Attributes(file) => self.save_attributes(&file),
            });
        }
        outcome
    }

    fn upload_alone(&self, file: &Arc<File>) -> Result<(), VfsError> {
        let mut state = file.lock();
        let policy = self.policies.get(&self.store, state.policy)?;
        self.upload_file(file, &mut state, &policy, 1);
        Ok(())
    }

    /// A file without dirty bytes whose size or times are newer here.
    fn save_attributes(&self, file: &Arc<File>) -> Result<(), VfsError> {
        let mut state = file.lock();
        if state.unsaved && state.buffer.dirty_bytes() == 0 && state.in_flight.is_empty() {
            self.journal(file, &mut state)?;
        }
        drop(state);
        self.files.settle(file);
        Ok(())
    }

    /// Has any file something that is not committed?
    pub fn has_dirty_files(&self) -> bool {
        self.flush.lock().files().next().is_some()
    }

    /// Bytes of files that only the metadata's journal has.
    pub fn journaled_bytes(&self) -> u64 {
        self.flush.lock().journal_bytes()
    }

    fn dirty_files(&self) -> Vec<Arc<File>> {
        self.flush.lock().files().cloned().collect()
    }

    /// The unlinked file's bytes go nowhere.
    pub fn abandon(&self, file: &Arc<File>) {
        let mut state = file.lock();
        self.change(file, &mut state, |state| {
            state.gone = true;
            state.buffer.discard(0..u64::MAX);
            state.unsaved = false;
        });
    }

    /// Sleeps until there is work or for `at_most`; false once the volume stops.
    pub fn wait_for_work(&self, at_most: Duration) -> bool {
        let mut flush = self.flush.lock();
        if !flush.is_called() {
            self.work.wait_for(&mut flush, at_most, || self.clock().now());
        }
        flush.answer()
    }

    pub fn stop(&self) {
        self.flush.lock().stop();
        self.work.notify_one();
    }
}
