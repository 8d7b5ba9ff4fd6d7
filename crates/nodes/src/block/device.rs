//! The device or image file, open: reads, writes, and syncs that callers share.

use crate::system::read_at;
use parking_lot::{Condvar, Mutex};
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, CWD, FileType, FlockOperation, Mode, OFlags, SeekFrom};
use rustix::io::{Errno, ReadWriteFlags};
use std::io::IoSliceMut;
use std::path::Path;

/// An open device. Every write goes through it.
pub(super) struct Device {
    file: OwnedFd,
    /// The same once more: a lock belongs to an open file, and this one is for locking only.
    lock_file: OwnedFd,
    origin: Origin,
    pub(super) bytes: u64,
    syncs: Syncs,
    #[cfg(test)]
    pub(super) log: Mutex<Option<Vec<Event>>>,
}

/// What a path leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Origin {
    device: u64,
    inode: u64,
    /// Of a block device: which.
    special: u64,
}

/// What was done to the device, for tests that cut the power.
#[cfg(test)]
#[derive(Clone, Debug)]
pub(super) enum Event {
    Write { offset: u64, bytes: Vec<u8> },
    Sync,
}

/// Which syncs began and ended, so that callers that wait at the same time share one.
#[derive(Default)]
struct Syncs {
    state: Mutex<SyncState>,
    ended: Condvar,
}

#[derive(Default)]
struct SyncState {
    begun: u64,
    ended: u64,
    running: bool,
    /// A sync has failed so.
    failed: Option<Errno>,
}

impl Origin {
    pub(super) fn of(path: &Path) -> rustix::io::Result<Self> {
        let stat = rustix::fs::statat(CWD, path, AtFlags::empty())?;
        Ok(Self { device: stat.st_dev, inode: stat.st_ino, special: stat.st_rdev })
    }
}

impl Device {
    /// Opens a block device or a regular file; anything else is `NOTBLK`.
    pub(super) fn open(path: &Path) -> rustix::io::Result<Self> {
        // Non-blocking, so that a pipe somebody put there does not hang the call.
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let open = || rustix::fs::open(path, flags, Mode::empty());
        let file = open()?;
        let stat = rustix::fs::fstat(&file)?;
        if !matches!(FileType::from_raw_mode(stat.st_mode), FileType::RegularFile | FileType::BlockDevice) {
            return Err(Errno::NOTBLK);
        }
        let lock_file = open()?;
        let bytes = rustix::fs::seek(&file, SeekFrom::End(0))?;
        let origin = Origin { device: stat.st_dev, inode: stat.st_ino, special: stat.st_rdev };
        Ok(Self {
            file,
            lock_file,
            origin,
            bytes,
            syncs: Syncs::default(),
            #[cfg(test)]
            log: Mutex::new(None),
        })
    }

    pub(super) fn origin(&self) -> Origin {
        self.origin
    }

    /// Waits until no other process, and no other opening of this one, changes the device.
    pub(super) fn lock(&self) -> rustix::io::Result<()> {
        retry(|| rustix::fs::flock(&self.lock_file, FlockOperation::LockExclusive))
    }

    pub(super) fn unlock(&self) -> rustix::io::Result<()> {
        retry(|| rustix::fs::flock(&self.lock_file, FlockOperation::Unlock))
    }

    /// Up to `length` bytes from `offset` on; fewer only where the device ends.
    pub(super) fn read(&self, offset: u64, length: usize) -> rustix::io::Result<Vec<u8>> {
        read_at(&self.file, offset, length)
    }

    /// Fills `bytes` from the page cache; an error where that would mean to wait for the device.
    pub(super) fn read_cached(&self, offset: u64, bytes: &mut [u8]) -> rustix::io::Result<()> {
        let mut filled = 0;
        while filled < bytes.len() {
            let mut rest = [IoSliceMut::new(&mut bytes[filled..])];
            match rustix::io::preadv2(&self.file, &mut rest, offset + filled as u64, ReadWriteFlags::NOWAIT)? {
                0 => return Err(Errno::AGAIN),
                count => filled += count,
            }
        }
        Ok(())
    }

    pub(super) fn write(&self, offset: u64, bytes: &[u8]) -> rustix::io::Result<()> {
        #[cfg(test)]
        if let Some(log) = &mut *self.log.lock() {
            log.push(Event::Write { offset, bytes: bytes.to_vec() });
        }
        let mut written = 0;
        while written < bytes.len() {
            match rustix::io::pwrite(&self.file, &bytes[written..], offset + written as u64) {
                Ok(0) => return Err(Errno::NOSPC),
                Ok(count) => written += count,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }

    /// Everything written before the call is on the device when it returns. Calls at the same time share a sync: one that
    /// began after the call.
    ///
    /// Once one has failed, all later ones do. The kernel tells a lost write once, and takes its pages for written from then on: the sync
    /// after it succeeds, also for those who wrote before the one that failed.
    pub(super) fn sync(&self) -> rustix::io::Result<()> {
        let mut state = self.syncs.state.lock();
        // One that runs already may have begun before the writes.
        let wanted = state.begun + 1;
        while state.ended < wanted {
            if state.running {
                self.syncs.ended.wait(&mut state);
                continue;
            }
            state.begun += 1;
            state.running = true;
            let number = state.begun;
            drop(state);
            let synced = retry(|| rustix::fs::fdatasync(&self.file));
            #[cfg(test)]
            if let Some(log) = &mut *self.log.lock() {
                log.push(Event::Sync);
            }
            state = self.syncs.state.lock();
            state.running = false;
            state.ended = number;
            state.failed = state.failed.or(synced.err());
            self.syncs.ended.notify_all();
        }
        state.failed.map_or(Ok(()), Err)
    }
}

fn retry(mut call: impl FnMut() -> rustix::io::Result<()>) -> rustix::io::Result<()> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            done => return done,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_a_sync_that_failed_none_says_that_all_is_written() {
        let image = tempfile::NamedTempFile::new().unwrap();
        let device = Device::open(image.path()).unwrap();
        device.sync().unwrap();
        // As it is when one of several that share the device was told.
        device.syncs.state.lock().failed = Some(Errno::IO);
        device.write(0, b"after it").unwrap();
        assert_eq!(device.sync(), Err(Errno::IO));
        Device::open(image.path()).unwrap().sync().unwrap();
    }
}
