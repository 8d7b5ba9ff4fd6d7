//! Locks of programs on files, where several machines use the volume: kept in the metadata engine, so that all of them mind them. Elsewhere
//! the kernel of the one machine keeps them.

use crate::error::VfsError;
use crate::lockers::Owner;
use crate::request::Handle;
use crate::volume::Volume;
use std::collections::HashMap;
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
        self.settle_left(ino, wanted.owner, &mut owners)?;
        let new = Owner { handle: wanted.handle, had_lock: false, may_have_written: false };
        let owner = owners.entry(wanted.owner).or_insert(new);
        owner.handle = wanted.handle;
        if owner.may_have_written && !wanted.is_exclusive {
            // It may share what it had alone: others see what was written.
            self.commit_before_unlock(ino)?;
        }
        owner.may_have_written |= wanted.is_exclusive;
        let obstacle = self.store.lock(ino, self.file_lock(wanted)).inspect_err(|_| {
            // It may have been given. Who gets an error does not believe that it has it. One that it had before stays.
            if !owner.had_lock {
                self.lockers.left.lock().insert((ino, wanted.owner));
            }
        })?;
        owner.had_lock |= obstacle.is_none();
        if obstacle.is_none()
            && let Some(file) = self.files.peek(ino)
            && let Err(error) = file.reload(&self.store)
        {
            // What was written under a lock of another is seen under this one, when it can be asked for.
            tracing::debug!(%ino, "a lock was given, and the file is looked up later: {error}");
            file.lock().forget_extents();
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
        let Some(known) = self.lockers.known(ino) else { return Ok(()) };
        let mut owners = known.lock();
        if let Some(owner) = owners.get(&part.owner) {
            if owner.may_have_written {
                // What cannot be committed must not come over what others write under their locks: then it stays locked.
                self.commit_before_unlock(ino)?;
            }
            self.store.unlock(ino, &self.file_lock(part))?;
            if (part.first, part.last) == (0, u64::MAX) {
                owners.remove(&part.owner);
            }
        }
        drop(owners);
        drop(known);
        self.lockers.forget_unused(ino);
        Ok(())
    }

    /// A process closes a descriptor of the file: it has no locks on it any more.
    ///
    /// # Errors
    /// Metadata cannot be changed.
    pub fn unlock_all(&self, ino: Ino, owner: u64) -> Result<(), VfsError> {
        self.unlock_each(ino, |number, _| number == owner)
    }

    /// An open file is no more, and so are the locks of all who asked for theirs through it last: its own (flock(2), `F_OFD_SETLK`), and of
    /// processes, which have closed it.
    ///
    /// # Errors
    /// Metadata cannot be changed.
    pub fn unlock_released(&self, ino: Ino, handle: Handle) -> Result<(), VfsError> {
        self.unlock_each(ino, |_, owner| owner.handle == handle)
    }

    fn unlock_each(&self, ino: Ino, is_over: impl Fn(u64, &Owner) -> bool) -> Result<(), VfsError> {
        let Some(known) = self.lockers.known(ino) else { return Ok(()) };
        let mut owners = known.lock();
        let over: Vec<(u64, Owner)> = owners
            .iter()
            .filter(|(number, owner)| is_over(**number, owner))
            .map(|(number, owner)| (*number, *owner))
            .collect();
        let mut outcome = Ok(());
        for (number, owner) in over {
            outcome = outcome.and(self.unlock_owner(ino, number, owner, &mut owners));
        }
        drop(owners);
        drop(known);
        self.lockers.forget_unused(ino);
        outcome
    }

    fn unlock_owner(
        &self,
        ino: Ino,
        number: u64,
        owner: Owner,
        owners: &mut HashMap<u64, Owner>,
    ) -> Result<(), VfsError> {
        let committed = if owner.may_have_written { self.commit_before_unlock(ino) } else { Ok(()) };
        // Unlocked it is either way: what cannot be committed is given up.
        let committed = committed.map_err(|error| match self.files.peek(ino) {
            Some(file) => self.write_back.give_up_and_tell(&file, error),
            None => error,
        });
        self.lockers.left.lock().insert((ino, number));
        self.settle_left(ino, number, owners).and(committed)
    }

    /// Takes away what an owner has kept, if anything: before it gets a lock again, which would go with the rest.
    fn settle_left(&self, ino: Ino, number: u64, owners: &mut HashMap<u64, Owner>) -> Result<(), VfsError> {
        if !self.lockers.left.lock().contains(&(ino, number)) {
            return Ok(());
        }
        let session = self.store.lock_session();
        let all = FileLock { session, owner: number, pid: 0, first: 0, last: u64::MAX, is_exclusive: false };
        self.store.unlock(ino, &all)?;
        owners.remove(&number);
        self.lockers.left.lock().remove(&(ino, number));
        Ok(())
    }

    /// What could not be unlocked is tried again.
    pub(crate) fn unlock_again(&self) {
        let left: Vec<(Ino, u64)> = self.lockers.left.lock().iter().copied().collect();
        for (ino, number) in left {
            let owners = self.lockers.of(ino);
            if let Err(error) = self.settle_left(ino, number, &mut owners.lock()) {
                tracing::debug!(%ino, "it stays locked: {error}");
            }
            drop(owners);
            self.lockers.forget_unused(ino);
        }
    }

    fn file_lock(&self, request: LockRequest) -> FileLock {
        let LockRequest { owner, pid, first, last, is_exclusive, .. } = request;
        FileLock { session: self.store.lock_session(), owner, pid, first, last, is_exclusive }
    }
}
