//! What programs wait for: fsync, close, and sync of everything.

use super::WriteBack;
use super::commit::file_commit;
use crate::buffer::Completion;
use crate::durable::{Durable, Standing, Step};
use crate::error::VfsError;
use crate::files::{File, FileState};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use weft_env::planted::{Planted, has_planted};
use weft_env::sync::MutexGuard;
use weft_format::Ino;
use weft_meta::{FileCommit, JournalPage};

impl WriteBack {
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
        let known_count = state.failures.count();
        let mut durable = Durable::new(state.buffer.size());
        loop {
            match durable.next(&self.standing(&state)) {
                Step::Done => break,
                Step::Journal => {
                    self.journal(file, &mut state)?;
                    break;
                }
                Step::Wait { sends } => {
                    if sends {
                        let policy = self.policies.get(&self.store, state.policy)?;
                        self.upload_file(file, &mut state, &policy, 1);
                    }
                    self.wait_settled(file, &mut state)?;
                    state.failures.after(known_count)?;
                }
            }
        }
        drop(state);
        self.files.settle(file);
        Ok(())
    }

    fn standing(&self, state: &FileState) -> Standing {
        let unjournaled_bytes = state.buffer.unjournaled_bytes();
        Standing {
            size: state.buffer.size(),
            committed_size: state.buffer.committed_size(),
            unjournaled_bytes,
            unsaved: state.unsaved,
            is_in_flight: !state.in_flight.is_empty(),
            unstaged_count: state.unstaged_count,
            fits_journal: self.flush.lock().fits_journal(unjournaled_bytes),
        }
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

    /// One transaction with the dirty bytes that the journal does not hold yet, and the file's size and times.
    pub(super) fn journal(&self, file: &Arc<File>, state: &mut FileState) -> Result<(), VfsError> {
        if state.gone {
            return Ok(());
        }
        let (is_shared, journal) = (self.store.is_shared(), state.buffer.to_journal());
        let size = if is_shared { journal.last().map_or(0, JournalPage::end) } else { state.buffer.size() };
        let commit = FileCommit { size, journal, ..file_commit(file.ino, state, &Completion::default(), is_shared) };
        if let Err(error) = self.store.commit_files(&[], std::slice::from_ref(&commit), self.now()) {
            self.note_failed_change(file.ino, state);
            if !is_shared {
                self.change(file, state, |state| state.buffer.note_tried(&commit.journal));
            }
            return Err(error.into());
        }
        self.change(file, state, |state| {
            if is_shared {
                state.buffer.hand_over();
                state.forget_extents();
                state.known = (state.mtime, state.ctime);
            } else {
                state.buffer.note_journaled();
            }
            state.unsaved = false;
        });
        Ok(())
    }

    /// A truncation or a hole failed, which may have taken pages from the journal.
    pub fn note_failed_cut(&self, file: &Arc<File>, state: &mut FileState) {
        self.note_failed_change(file.ino, state);
        self.change(file, state, |state| state.buffer.doubt_journal());
    }

    /// Is something dirty that neither nodes nor the journal have, while nodes take nothing or cannot?
    fn is_in_doubt(&self, state: &FileState) -> Result<bool, VfsError> {
        if state.gone || state.buffer.bytes_at_risk() == 0 {
            return Ok(false);
        }
        let policy = self.policies.get(&self.store, state.policy)?;
        Ok(self.flush.lock().is_in_trouble() || self.transfer.can_place(&policy.record.code).is_err())
    }

    /// A descriptor is closed. That waits for nothing while all is well; while nodes take nothing, or have no places for what
    /// the policy says, the file's bytes are tried now, so that the program that closes learns of a failure. Where others use the volume, too, they see from now on
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
        self.change(file, &mut state, |state| {
            state.buffer.discard(0..u64::MAX);
            state.buffer.adopt(state.buffer.committed_size());
            state.forget_extents();
            state.was_given_up = true;
            state.unsaved = false;
        });
        VfsError::Earlier(error)
    }

    /// The files, and their bytes, that are durable nowhere.
    pub fn unwritten(&self) -> (u64, u64) {
        let bytes = self.dirty_files().into_iter().map(|file| file.lock().buffer.bytes_at_risk());
        bytes.filter(|bytes| *bytes > 0).fold((0, 0), |(files, sum), bytes| (files + 1, sum + bytes))
    }

    /// Everything written before the call is committed and durable, or the first failure is returned.
    pub fn sync_all(&self) -> Result<(), VfsError> {
        let known: HashMap<Ino, u64> =
            self.dirty_files().iter().map(|file| (file.ino, file.lock().failures.count())).collect();
        let mut outcome = self.upload_due(true);
        // A file is among the dirty ones until its last byte is committed.
        for file in self.dirty_files() {
            let mut state = file.lock();
            if let Err(error) = self.wait_settled(&file, &mut state) {
                outcome = outcome.and(Err(error));
                continue;
            }
            let failed = known.get(&file.ino).map_or(Ok(()), |known| state.failures.after(*known));
            // What nodes do not take the journal may; else it was tried just now.
            let may_help = failed.is_ok() || self.standing(&state).fits_journal;
            drop(state);
            outcome = outcome.and(if may_help { self.make_recoverable(&file) } else { failed });
        }
        outcome.and(self.store.flush().map_err(VfsError::from))
    }
}
