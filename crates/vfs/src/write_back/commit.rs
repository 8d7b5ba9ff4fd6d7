//! The commit thread: uploads become extents, in the order that `flush.rs` says.

use super::WriteBack;
use crate::buffer::Completion;
use crate::error::VfsError;
use crate::files::{File, FileState};
use crate::segment_ids::NewSegment;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};
use weft_env::sync::{MutexGuard, Receiver};
use weft_format::{Ino, SegmentId};
use weft_meta::kv::KvError;
use weft_meta::{Extent, FileCommit, MetaError};
use weft_transfer::{Receipt, WriteError};

/// One segment in flight.
pub(super) struct Upload {
    pub sequence: u64,
    pub segment: SegmentId,
    /// Until it is committed, or given up.
    pub may_be_committed: NewSegment,
    pub files: Vec<Arc<File>>,
}

/// An upload that has ended.
pub(super) struct Completed {
    pub upload: Upload,
    pub outcome: Result<Receipt, WriteError>,
}

/// Commits uploads until the volume ends.
pub(super) fn commit_each(write_back: &Weak<WriteBack>, completions: &Receiver<Completed>) {
    let _ending = Ending(write_back);
    let mut waiting: BTreeMap<u64, Completed> = BTreeMap::new();
    while let Some(completed) = completions.recv() {
        let Some(write_back) = write_back.upgrade() else { return };
        let mut sequence = completed.upload.sequence;
        waiting.insert(sequence, completed);
        let mut next = write_back.flush.lock().written(sequence);
        while let Some(completed) = next.and_then(|next| waiting.remove(&next)) {
            sequence = completed.upload.sequence;
            write_back.commit(completed);
            next = write_back.flush.lock().settled(sequence);
        }
    }
}

/// However the commit thread ends, nothing waits for it any more.
struct Ending<'a>(&'a Weak<WriteBack>);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        let Some(write_back) = self.0.upgrade().filter(|_| std::thread::panicking()) else { return };
        let error = Arc::new(VfsError::Panicked { what: "the thread that commits" });
        let _ = write_back.broken.set(error.clone());
        write_back.flush.lock().failed(error);
        write_back.room.notify_all();
        for file in write_back.dirty_files() {
            // Locked, so that nobody is between looking and waiting.
            let _state = file.lock();
            file.settled.notify_all();
        }
    }
}

/// What a commit says of one file. Of one that others change, too, only what was written here.
pub(super) fn file_commit(ino: Ino, state: &FileState, completion: &Completion, is_shared: bool) -> FileCommit {
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

impl WriteBack {
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
        // Before those are told who wait for it: what is noted then as settled counts it.
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
            self.flush.lock().succeeded();
        }
        for (file, mut state) in files.iter().zip(states) {
            state.in_flight.remove(&upload.segment);
            file.settled.notify_all();
        }
        for file in &files {
            self.files.settle(file);
        }
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
        let is_shared = self.store.is_shared();
        let is_partial = self.change(file, state, |state| {
            let is_partial = state.buffer.complete(segment, completion);
            state.forget_extents();
            state.known = (state.mtime, state.ctime);
            state.unsaved = match is_shared {
                true => !state.buffer.is_empty(),
                false => state.buffer.committed_size() != state.buffer.size(),
            };
            is_partial
        });
        if is_partial {
            self.note_unstaged(file, state);
        }
    }

    /// Of `segment` nothing was committed: its bytes are dirty again.
    fn unstage(&self, file: &Arc<File>, state: &mut FileState, segment: SegmentId) {
        if self.change(file, state, |state| state.buffer.unstage(segment)) {
            self.note_unstaged(file, state);
        }
    }

    fn note_unstaged(&self, file: &Arc<File>, state: &mut FileState) {
        state.unstaged_count += 1;
        self.flush.lock().postpone(file.ino, self.clock().now());
    }

    fn note_trouble(&self, segment: SegmentId, error: VfsError) -> Arc<VfsError> {
        tracing::error!(%segment, "{error}; the bytes are kept and written again");
        let error = Arc::new(error);
        self.flush.lock().failed(error.clone());
        self.room.notify_all();
        error
    }

    /// A change of the store that failed may have been made in part: what is known of the store's extents and size is old.
    pub(super) fn note_failed_change(&self, ino: Ino, state: &mut FileState) {
        state.forget_extents();
        if let Ok(attributes) = self.store.attributes(ino) {
            state.buffer.found_committed(attributes.size);
        }
    }
}
