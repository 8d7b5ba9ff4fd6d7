//! Locks of programs on files, where several machines use the volume: kept in the metadata engine, so that all of them mind them. Elsewhere
//! the kernel of the one machine keeps them.

use crate::error::VfsError;
use crate::request::Handle;
use crate::volume::Volume;
use weft_format::Ino;
use weft_meta::FileLock;
use weft_meta::locks::in_the_way;

/// What a program wants of a part of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockRequest {
    /// Its open file or process, as the kernel numbers them. A kernel gives the number of an open file that is closed to another.
    pub owner: u64,
    /// Through which handle it asks; no other ever has the same.
    pub handle: Handle,
    /// The process, for people.
    pub pid: u32,
    /// The first byte.
    pub first: u64,
    /// The last byte; `u64::MAX` means the end.
    pub last: u64,
    /// Nobody else may have a lock there.
    pub is_exclusive: bool,
}

impl Volume {
    /// The lock of another that keeps a program from having this one.
    ///
    /// # Errors
    /// Metadata cannot be read.
    pub fn lock_in_the_way(&self, ino: Ino, wanted: LockRequest) -> Result<Option<FileLock>, VfsError> {
        let locks = self.store.locks(ino)?;
        Ok(in_the_way(&locks, &self.file_lock(wanted)).copied())
    }

    /// Gives a lock, or says which one is in the way.
    ///
    /// # Errors
    /// Metadata cannot be changed; the file has too many locks.
    pub fn lock(&self, ino: Ino, wanted: LockRequest) -> Result<Option<FileLock>, VfsError> {
        if self.is_ending() {
            return Err(VfsError::ShuttingDown);
        }
        let owners = self.lockers.of(ino);
        let mut owners = owners.lock();
        if owners.insert(wanted.owner, wanted.handle).is_some() && !wanted.is_exclusive {
            // It may share what it had alone: others see what was written.
            self.commit_before_unlock(ino)?;
        }
        let obstacle = self.store.lock(ino, self.file_lock(wanted))?;
        if obstacle.is_none()
            && let Some(file) = self.files.peek(ino)
        {
            // What was written under a lock of another is seen under this one.
            file.reload(&self.store)?;
        }
        Ok(obstacle)
    }

    /// What was written here is seen by the next program that gets a lock.
    fn commit_before_unlock(&self, ino: Ino) -> Result<(), VfsError> {
        self.files.peek(ino).map_or(Ok(()), |file| self.hand_over(&file))
    }

    /// Takes a program's locks within a part of a file away.
    ///
    /// # Errors
    /// Metadata cannot be changed.
    pub fn unlock(&self, ino: Ino, part: LockRequest) -> Result<(), VfsError> {
        let Some(owners) = self.lockers.known(ino) else { return Ok(()) };
        let owners = owners.lock();
        if owners.contains_key(&part.owner) {
            // What cannot be committed must not come over what others write under their locks: then it stays locked.
            self.commit_before_unlock(ino)?;
            self.store.unlock(ino, &self.file_lock(part))?;
        }
        Ok(())
    }

    /// A process closes a descriptor of the file: it has no locks on it any more.
    ///
    /// # Errors
    /// Metadata cannot be changed.
    pub fn unlock_all(&self, ino: Ino, owner: u64) -> Result<(), VfsError> {
        self.unlock_if(ino, owner, |_| true)
    }

    /// An open file is no more. If its number has gone to another, that one's locks stay.
    ///
    /// # Errors
    /// Metadata cannot be changed.
    pub fn unlock_released(&self, ino: Ino, owner: u64, handle: Handle) -> Result<(), VfsError> {
        self.unlock_if(ino, owner, |last| last == handle)
    }

    fn unlock_if(&self, ino: Ino, owner: u64, is_over: impl Fn(Handle) -> bool) -> Result<(), VfsError> {
        let Some(known) = self.lockers.known(ino) else { return Ok(()) };
        let mut owners = known.lock();
        let Some(handle) = owners.get(&owner).copied().filter(|handle| is_over(*handle)) else { return Ok(()) };
        // Unlocked it is either way: what cannot be committed is given up.
        let committed = self.commit_before_unlock(ino).map_err(|error| match self.files.peek(ino) {
            Some(file) => self.write_back.give_up(&file, error),
            None => error,
        });
        let all = LockRequest { owner, handle, pid: 0, first: 0, last: u64::MAX, is_exclusive: false };
        if let Err(error) = self.store.unlock(ino, &self.file_lock(all)) {
            self.lockers.left.lock().push((ino, owner, handle));
            return Err(error.into());
        }
        owners.remove(&owner);
        drop(owners);
        drop(known);
        self.lockers.forget_unused(ino);
        committed
    }

    /// What could not be unlocked is tried again.
    pub(crate) fn unlock_again(&self) {
        let left = std::mem::take(&mut *self.lockers.left.lock());
        for (ino, owner, handle) in left {
            if let Err(error) = self.unlock_released(ino, owner, handle) {
                tracing::debug!(%ino, "it stays locked: {error}");
            }
        }
    }

    fn file_lock(&self, request: LockRequest) -> FileLock {
        let LockRequest { owner, pid, first, last, is_exclusive, .. } = request;
        FileLock { session: self.store.lock_session(), owner, pid, first, last, is_exclusive }
    }
}
