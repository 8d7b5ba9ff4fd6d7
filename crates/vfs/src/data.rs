//! The bytes of files: open, read, write, cut, punch, seek, sync.

use crate::access::Caller;
use crate::error::VfsError;
use crate::files::{File, FileState};
use crate::names::new_inode;
use crate::open_file::OpenFile;
use crate::request::{Handle, milliseconds};
use crate::volume::Volume;
use bytes::Bytes;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use weft_env::sync::Mutex;
use weft_format::Ino;
use weft_format::records::{Attributes, Kind};
use weft_meta::{CAPABILITY_XATTR, Extent, Guard, MetaError, NewInode, SetAttributes};

/// The largest offset that a file can have, as in off_t.
const FILE_BYTES_MAX: u64 = i64::MAX as u64;
/// `relatime`: an access time older than this is renewed by a read though nothing changed since.
const ATIME_AGE_MS: u64 = 24 * 3600 * 1000;
/// How far a seek for data looks at once, at first; doubled until something is found.
const SEEK_STEP_BYTES: u64 = 16 << 20;

impl Volume {
    /// Makes a file and opens it. Takes one reference.
    ///
    /// # Errors
    /// As [`Volume::make_node`].
    pub fn create(
        &self,
        caller: &Caller,
        parent: Ino,
        name: &[u8],
        mode: u16,
        open_flags: i32,
    ) -> Result<(Attributes, Handle), VfsError> {
        self.create_guarded(&(), parent, name, &new_inode(caller, Kind::File, mode, 0), open_flags)
    }

    pub(crate) fn create_guarded(
        &self,
        guard: &dyn Guard,
        parent: Ino,
        name: &[u8],
        new: &NewInode,
        open_flags: i32,
    ) -> Result<(Attributes, Handle), VfsError> {
        let ino = self.store.new_ino()?;
        let create = || self.store.guarded(guard).create_as(ino, parent, name, new, self.now());
        let (file, attributes) = self.files.make(ino, create)?;
        self.reference(ino);
        Ok((attributes, self.add_open(file, open_flags)))
    }

    /// Opens a file; `O_TRUNC` and `O_SYNC` are honoured, permissions were checked by the caller's kernel.
    ///
    /// # Errors
    /// No such inode; not a regular file.
    pub fn open(&self, ino: Ino, open_flags: i32) -> Result<Handle, VfsError> {
        if self.read_only {
            let file = File::of(&self.store.attributes(ino)?);
            let failures_told = AtomicU64::new(0);
            return Ok(self.add_open_file(OpenFile {
                file,
                open_flags,
                failures_told,
                sync: false,
                readahead: Mutex::default(),
            }));
        }
        let was_open = self.is_shared() && self.files.is_open(ino);
        let file = self.files.open(&self.store, ino).map_err(|error| match error {
            // Its kernel looks the name up again.
            VfsError::Meta(MetaError::NotFound) if self.is_shared() => VfsError::Stale,
            error => error,
        })?;
        if self.is_shared() {
            // Not locked any more when it is closed.
            let nlink = file.lock().nlink;
            // Opened by a name that others have removed, unless a program opens again what it has open.
            let held = if nlink > 0 || was_open { self.hold_nameless(ino, nlink) } else { Err(VfsError::Stale) };
            if let Err(error) = held {
                self.reclaim_if(self.files.close(ino));
                return Err(error);
            }
        }
        if open_flags & libc::O_TRUNC != 0
            && let Err(error) = self.truncate(ino, 0, false)
        {
            self.reclaim_if(self.files.close(ino));
            return Err(error);
        }
        Ok(self.add_open(file, open_flags))
    }

    fn add_open(&self, file: Arc<File>, open_flags: i32) -> Handle {
        let failures_told = AtomicU64::new(file.lock().failures.told_count());
        self.add_open_file(OpenFile {
            file,
            open_flags,
            failures_told,
            sync: open_flags & (libc::O_SYNC | libc::O_DSYNC) != 0,
            readahead: Mutex::default(),
        })
    }

    /// Up to `bytes` bytes from `offset`; fewer only at the end of the file.
    ///
    /// # Errors
    /// Too few nodes have the bytes.
    pub fn read(&self, handle: Handle, offset: u64, bytes: u32) -> Result<Bytes, VfsError> {
        let open = self.open_file(handle)?;
        if self.read_only {
            return self.read_committed(&open, offset..offset.saturating_add(u64::from(bytes)));
        }
        if self.is_shared() {
            return self.read_shared(&open, offset..offset.saturating_add(u64::from(bytes)));
        }
        let file = &open.file;
        let mut state = file.lock();
        let size = state.buffer.size();
        let range = offset..size.min(offset.saturating_add(u64::from(bytes)));
        if range.is_empty() {
            return Ok(Bytes::new());
        }
        let extents = state.extents(&self.store, file.ino, range.clone())?;
        let buffered: Vec<(u64, Bytes)> = state
            .buffer
            .overlapping(range.clone())
            .map(|(start, bytes)| (start, Bytes::copy_from_slice(bytes)))
            .collect();
        drop(state);
        self.read_ahead(&open, range.clone(), size);
        self.assemble(file.ino, range, &extents, buffered)
    }

    /// Reads as a reader beside the owner does: the size, extents and journal of one committed state. Bytes that the owner
    /// moves or frees meanwhile are looked for again in a newer state.
    fn read_committed(&self, open: &OpenFile, wanted: Range<u64>) -> Result<Bytes, VfsError> {
        let ino = open.file.ino;
        let mut data = self.store.file_data(ino, wanted.clone())?;
        loop {
            let range = wanted.start..wanted.end.min(data.size);
            if range.is_empty() {
                return Ok(Bytes::new());
            }
            let journaled =
                data.journaled.iter().map(|(start, bytes)| (*start, Bytes::copy_from_slice(bytes))).collect();
            self.read_ahead(open, range.clone(), data.size);
            let failure = match self.assemble(ino, range, &data.extents, journaled) {
                Ok(bytes) => return Ok(bytes),
                Err(failure) => failure,
            };
            let newer = self.store.file_data(ino, wanted.clone())?;
            if newer == data {
                return Err(failure);
            }
            data = newer;
        }
    }

    /// The bytes of `range`: those of the extents, and over them what is newer.
    pub(crate) fn assemble(
        &self,
        ino: Ino,
        range: Range<u64>,
        extents: &[Extent],
        buffered: Vec<(u64, Bytes)>,
    ) -> Result<Bytes, VfsError> {
        if buffered.is_empty()
            && let [extent] = extents[..]
            && extent.length == range.end - range.start
        {
            let within = extent.segment_offset..extent.segment_offset + extent.length;
            return self.segments.read_bytes(ino, extent.segment, within);
        }
        let mut out = vec![0; (range.end - range.start) as usize];
        let (mut parts, mut rest, mut rest_at) = (Vec::new(), &mut out[..], range.start);
        for extent in uncovered(extents, &buffered) {
            let (_, tail) = rest.split_at_mut((extent.file_offset - rest_at) as usize);
            let (place, tail) = tail.split_at_mut(extent.length as usize);
            (rest, rest_at) = (tail, extent.file_offset + extent.length);
            parts.push((extent.segment, extent.segment_offset..extent.segment_offset + extent.length, place));
        }
        self.segments.read(ino, parts)?;
        for (start, bytes) in buffered {
            let at = (start - range.start) as usize;
            out[at..at + bytes.len()].copy_from_slice(&bytes);
        }
        Ok(out.into())
    }

    pub(crate) fn read_ahead(&self, open: &OpenFile, range: Range<u64>, size: u64) {
        let ahead = open.readahead.lock().on_read(range.start, range.end - range.start, size);
        for ahead in ahead {
            let extents = match self.read_only || self.is_shared() {
                true => self.store.extents(open.file.ino, ahead),
                false => open.file.lock().extents(&self.store, open.file.ino, ahead),
            };
            for extent in extents.unwrap_or_default() {
                let within = extent.segment_offset..extent.segment_offset + extent.length;
                self.segments.prefetch(extent.segment, within);
            }
        }
    }

    /// A file was opened for reading, a directory listed, a symbolic link read: its access time is renewed where `relatime`
    /// says so. Was it?
    pub fn note_access(&self, ino: Ino) -> bool {
        let time = self.now();
        let Ok(attributes) = self.attributes(ino) else { return false };
        let is_old = milliseconds(attributes.atime) + ATIME_AGE_MS < milliseconds(time);
        if !is_old && attributes.atime > attributes.mtime && attributes.atime > attributes.ctime {
            return false;
        }
        let set = SetAttributes { atime: Some(time), ..SetAttributes::default() };
        if let Err(error) = self.store.set_attributes(ino, &set) {
            tracing::warn!(%ino, "the access time was not noted: {error}");
            return false;
        }
        true
    }

    /// Writes bytes at an offset. `clear_suid`: the kernel asks that set-user-id and set-group-id be cleared.
    ///
    /// # Errors
    /// Too large; no room, and nodes take nothing; for a synchronous handle whatever an fsync answers.
    pub fn write(&self, handle: Handle, offset: u64, data: &[u8], clear_suid: bool) -> Result<u32, VfsError> {
        let open = self.open_file(handle)?;
        let file = &open.file;
        if offset.saturating_add(data.len() as u64) > FILE_BYTES_MAX {
            return Err(VfsError::TooLarge);
        }
        if clear_suid {
            self.clear_set_id(file.ino)?;
        }
        if !data.is_empty() {
            self.remove_capability(file)?;
        }
        self.write_back.write(file, offset, data)?;
        if open.sync {
            self.write_back.sync_file(file, &open.failures_told)?;
        }
        Ok(data.len() as u32)
    }

    /// Adds bytes to a file's end, wherever other processes have put it. `clear_suid` as with [`Volume::write`].
    ///
    /// # Errors
    /// As of an fsync.
    pub fn append(&self, handle: Handle, data: &[u8], clear_suid: bool) -> Result<u32, VfsError> {
        let open = self.open_file(handle)?;
        if clear_suid {
            self.clear_set_id(open.file.ino)?;
        }
        if !data.is_empty() {
            self.remove_capability(&open.file)?;
            self.append_shared(&open, data)?;
        }
        Ok(data.len() as u32)
    }

    /// Capabilities were not given to the bytes that come. Unlike set-user-id they go whoever writes.
    fn remove_capability(&self, file: &File) -> Result<(), VfsError> {
        let mut state = file.lock();
        if state.has_capability {
            match self.store.remove_xattr(file.ino, CAPABILITY_XATTR, self.now()) {
                Ok(()) | Err(MetaError::NoAttribute) => state.has_capability = false,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// A handle's descriptor is closed; others of it may stay open. An earlier failure to write is told here if no fsync told it, and
    /// while nodes take nothing it is found out here whether the bytes can be written, unless the handle is for reading only.
    ///
    /// # Errors
    /// The failure.
    pub fn flush(&self, handle: Handle) -> Result<(), VfsError> {
        let open = self.open_file(handle)?;
        self.write_back.close(&open.file, open.writes(), &open.failures_told)
    }

    /// The file's bytes and size are durable when it returns.
    ///
    /// # Errors
    /// Too few nodes took the bytes; metadata could not be written. The bytes are kept and tried again.
    pub fn fsync(&self, handle: Handle) -> Result<(), VfsError> {
        let open = self.open_file(handle)?;
        self.write_back.sync_file(&open.file, &open.failures_told)
    }

    /// The last descriptor of a handle is gone.
    pub fn release(&self, handle: Handle) {
        let Some(open) = self.open_files.lock().remove(&handle.0) else { return };
        open.file.mappable_count.fetch_sub(u32::from(open.is_mappable()), Ordering::Relaxed);
        // A mapping may have changed it since it was closed, if the handle is for writing.
        if open.writes()
            && (std::mem::take(&mut open.file.lock().replaced) || self.is_shared())
            && let Err(mut error) = self.write_back.make_recoverable(&open.file)
        {
            if self.is_shared() {
                error = self.write_back.give_up(&open.file, error);
            }
            tracing::error!(ino = %open.file.ino, "{error}");
        }
        self.reclaim_if(self.files.close(open.file.ino));
    }

    /// Cuts a file or lets it end in a hole; what `stat` says of it then.
    pub(crate) fn truncate(&self, ino: Ino, size: u64, clear_suid: bool) -> Result<Attributes, VfsError> {
        if size > FILE_BYTES_MAX {
            return Err(VfsError::TooLarge);
        }
        match self.store.attributes(ino)?.kind {
            Kind::File => {}
            Kind::Directory => return Err(MetaError::IsDirectory.into()),
            _ => return Err(VfsError::Invalid("only regular files have a size to set")),
        }
        if clear_suid {
            self.clear_set_id(ino)?;
        }
        self.with_file(ino, |file| {
            self.remove_capability(file)?;
            self.hand_over(file)?;
            let mut state = file.lock();
            let mut attributes = self.truncate_file(file, &mut state, size)?;
            state.overlay(&self.store, &mut attributes)?;
            Ok(attributes)
        })
    }

    /// Opens a file for the length of one call.
    fn with_file<T>(&self, ino: Ino, body: impl FnOnce(&Arc<File>) -> Result<T, VfsError>) -> Result<T, VfsError> {
        let file = self.files.open(&self.store, ino)?;
        let outcome = body(&file);
        drop(file);
        self.reclaim_if(self.files.close(ino));
        outcome
    }

    fn truncate_file(&self, file: &Arc<File>, state: &mut FileState, size: u64) -> Result<Attributes, VfsError> {
        let time = self.now();
        // The store's size must not run ahead of appended bytes; their commit sets the rest.
        let stored = state.buffer.size_to_store(size);
        let truncated = self.store.truncate(file.ino, stored, time, time, None);
        let attributes = truncated.inspect_err(|_| self.write_back.note_failed_cut(file, state))?;
        state.forget_extents();
        state.replaced |= size == 0 && state.buffer.size() > 0;
        self.write_back.change(file, state, |state| {
            state.buffer.resized(size, stored);
            state.touch(time);
            state.known = (time, time);
            state.unsaved = stored != size;
        });
        Ok(attributes)
    }

    /// fallocate(2). Room is not reserved (segments are written afresh, so reserved room could not be used), but asked for:
    /// what the nodes cannot hold is refused. `clear_suid`: the caller may not keep set-user-id and set-group-id.
    ///
    /// # Errors
    /// Modes other than plain, keep-size, punch-hole and zero-range; no room.
    pub fn allocate(
        &self,
        handle: Handle,
        offset: u64,
        length: u64,
        mode: i32,
        clear_suid: bool,
    ) -> Result<(), VfsError> {
        const KNOWN: i32 = libc::FALLOC_FL_KEEP_SIZE | libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_ZERO_RANGE;
        if mode & !KNOWN != 0 {
            return Err(VfsError::NotSupported("this fallocate mode"));
        }
        let end = offset.checked_add(length).filter(|end| *end <= FILE_BYTES_MAX).ok_or(VfsError::TooLarge)?;
        if length == 0 {
            return Err(VfsError::Invalid("a length of 0"));
        }
        let open = self.open_file(handle)?;
        if clear_suid {
            self.clear_set_id(open.file.ino)?;
        }
        self.remove_capability(&open.file)?;
        if mode & (libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_ZERO_RANGE) != 0 {
            self.punch(&open.file, offset..end)?;
        } else {
            let room = self.statfs()?;
            if length > room.blocks_available * u64::from(room.block_bytes) {
                return Err(VfsError::NoRoom { bytes: length });
            }
        }
        if self.is_shared() {
            return if mode & libc::FALLOC_FL_KEEP_SIZE == 0 { self.grow_shared(&open.file, end) } else { Ok(()) };
        }
        let mut state = open.file.lock();
        if mode & libc::FALLOC_FL_KEEP_SIZE == 0 && end > state.buffer.size() {
            self.truncate_file(&open.file, &mut state, end)?;
        }
        Ok(())
    }

    fn punch(&self, file: &Arc<File>, range: Range<u64>) -> Result<(), VfsError> {
        self.hand_over(file)?;
        let mut state = file.lock();
        let time = self.now();
        if let Err(error) = self.store.punch(file.ino, range.clone(), time, time) {
            self.write_back.note_failed_cut(file, &mut state);
            return Err(error.into());
        }
        state.forget_extents();
        state.known = (time, time);
        self.write_back.change(file, &mut state, |state| {
            state.buffer.discard(range);
            state.touch(time);
        });
        Ok(())
    }

    /// lseek(2) with `SEEK_DATA` or `SEEK_HOLE`. Where others may have mapped the file everything may be data.
    ///
    /// # Errors
    /// At or past the end, or no data up to it.
    pub fn seek(&self, handle: Handle, offset: u64, whence: i32) -> Result<u64, VfsError> {
        let open = self.open_file(handle)?;
        let file = &open.file;
        self.hand_over(file)?;
        let (mut state, mut committed) = (file.lock(), None);
        if self.read_only || self.is_shared() {
            // What is committed now, and in the journal.
            let mut now = FileState::new(&self.store.attributes(file.ino)?);
            let data = self.store.file_data(file.ino, offset..now.buffer.size())?;
            data.journaled.iter().for_each(|(start, bytes)| now.buffer.write(*start, bytes));
            committed = Some(now);
        }
        let state = committed.as_mut().unwrap_or(&mut state);
        let size = state.buffer.size();
        if offset >= size {
            return Err(VfsError::NoSuchOffset);
        }
        if open.may_be_mapped_beside() {
            return Ok(if whence == libc::SEEK_DATA { offset } else { size });
        }
        let (mut at, mut step) = (offset, SEEK_STEP_BYTES);
        while at < size {
            let window = at..size.min(at.saturating_add(step));
            // Not from the cache, whose windows are small: a hole may be terabytes long.
            let extents = self.store.extents(file.ino, window.clone())?;
            let mut data: Vec<Range<u64>> =
                extents.iter().map(|extent| extent.file_offset..extent.file_offset + extent.length).collect();
            let buffered = state.buffer.overlapping(window.clone());
            data.extend(buffered.map(|(start, bytes)| start..start + bytes.len() as u64));
            data.sort_by_key(|range| range.start);
            match whence {
                libc::SEEK_DATA => {
                    if let Some(first) = data.first() {
                        return Ok(first.start);
                    }
                }
                libc::SEEK_HOLE => {
                    let end =
                        data.iter().fold(at, |end, range| if range.start <= end { end.max(range.end) } else { end });
                    if end < window.end {
                        return Ok(end);
                    }
                }
                _ => return Err(VfsError::Invalid("a seek for neither data nor a hole")),
            }
            at = window.end;
            step = step.saturating_mul(2);
        }
        // Every file ends in a hole.
        if whence == libc::SEEK_HOLE { Ok(size) } else { Err(VfsError::NoSuchOffset) }
    }
}

/// The parts of the extents that buffered bytes do not replace anyway.
fn uncovered<'a>(extents: &'a [Extent], buffered: &'a [(u64, Bytes)]) -> impl Iterator<Item = Extent> + use<'a> {
    let is_replaced = |extent: &Extent| {
        buffered.iter().any(|(start, bytes)| {
            *start <= extent.file_offset && start + bytes.len() as u64 >= extent.file_offset + extent.length
        })
    };
    extents.iter().copied().filter(move |extent| !is_replaced(extent))
}
