//! Files that other processes change, too: what they have committed is looked at again after a moment, and what was written here is
//! committed before its file is closed.
//!
//! * A file that is opened is as it is committed then. While it is open, bytes of others are seen after a second at the latest.
//! * Bytes that were journaled are everybody's: nothing of them is kept here.
//! * Commits lie over each other in their order. None makes a file shorter; truncation does, at once.
//! * Bytes that are appended get their place when they are committed.

use crate::error::VfsError;
use crate::files::{File, FileState};
use crate::glimpse::Glimpse;
use crate::open_file::OpenFile;
use crate::policies::write_request;
use crate::request::milliseconds;
use crate::volume::Volume;
use bytes::Bytes;
use std::ops::Range;
use std::sync::Arc;
use weft_format::Ino;
use weft_meta::{Appended, FileCommit, FileData, MetaError};

/// Of a file's committed state so much is looked at in one go.
const WINDOW_BYTES: u64 = 8 << 20;
/// Fewer bytes than these are appended by way of the journal.
const JOURNALED_APPEND_BYTES_MAX: usize = 64 << 10;

/// What a read finds: the committed state, and bytes of this process over it.
struct Seen {
    range: Range<u64>,
    size: u64,
    data: FileData,
    buffered: Vec<(u64, Bytes)>,
}

impl Volume {
    /// Reads a file that others change, too. What they free meanwhile is looked for again in a newer state.
    pub(crate) fn read_shared(&self, open: &OpenFile, wanted: Range<u64>) -> Result<Bytes, VfsError> {
        let ino = open.file.ino;
        let mut seen = self.look(ino, &mut open.file.lock(), wanted.clone())?;
        self.read_ahead(open, seen.range.clone(), seen.size);
        loop {
            if seen.range.is_empty() {
                return Ok(Bytes::new());
            }
            let failure = match self.assemble(ino, seen.range, &seen.data.extents, seen.buffered) {
                Ok(bytes) => return Ok(bytes),
                Err(failure) => failure,
            };
            let newer = {
                let mut state = open.file.lock();
                state.glimpse = None;
                self.look(ino, &mut state, wanted.clone())?
            };
            if newer.data == seen.data {
                return Err(failure);
            }
            seen = newer;
        }
    }

    fn look(&self, ino: Ino, state: &mut FileState, wanted: Range<u64>) -> Result<Seen, VfsError> {
        let clock = &self.store.env().clock;
        if !state.glimpse.as_ref().is_some_and(|glimpse| glimpse.shows(&wanted, clock.now())) {
            // Taken after the moment that counts, never before.
            let taken = clock.now();
            let range = wanted.start..wanted.end.max(wanted.start.saturating_add(WINDOW_BYTES));
            let data = self.store.file_data(ino, range.clone())?;
            state.buffer.adopt(data.size);
            state.glimpse = Some(Glimpse { taken, range, data });
        }
        let size = state.buffer.size();
        let range = wanted.start..wanted.end.min(size).max(wanted.start);
        let whole = &state.glimpse.as_ref().expect("it was just taken").data;
        let extents = whole.extents.iter().filter_map(|extent| crate::extents::trim(extent, &range)).collect();
        let mut buffered: Vec<(u64, Bytes)> =
            whole.journaled.iter().filter_map(|(start, bytes)| clip(*start, bytes, &range)).collect();
        let journaled = buffered.iter().map(|(start, bytes)| (*start, bytes.to_vec())).collect();
        buffered.extend(
            state.buffer.overlapping(range.clone()).map(|(start, bytes)| (start, Bytes::copy_from_slice(bytes))),
        );
        let data = FileData { size: whole.size, extents, journaled };
        Ok(Seen { range, size, data, buffered })
    }

    /// Adds bytes to a file's end, wherever others have put it; durable when it returns.
    pub(crate) fn append_shared(&self, open: &OpenFile, bytes: &[u8]) -> Result<(), VfsError> {
        let (file, now) = (&open.file, self.now());
        self.write_back.make_recoverable(file)?;
        let policy = self.policies.get(&self.store, file.lock().policy)?;
        if bytes.len() <= JOURNALED_APPEND_BYTES_MAX {
            self.store.append(file.ino, Appended::Bytes(bytes), now)?;
        } else {
            let ids = self.write_back.segment_ids();
            let new = ids.begin(milliseconds(now), self.store.env().rng.next_u16());
            let request = write_request(&policy.record, new.id, vec![Bytes::copy_from_slice(bytes)]);
            let receipt = self.runtime().block_on(self.transfer().write(request)).map_err(VfsError::Write)?;
            self.store.append(file.ino, Appended::Segment(new.id, &receipt.record), now)?;
            if !receipt.missing.is_empty()
                && let Err(error) = self.store.mark_damaged(new.id)
            {
                tracing::warn!(segment = %new.id, "it is not queued for repair yet: {error}");
            }
        }
        file.reload(&self.store)?;
        Ok(self.store.flush()?)
    }

    /// Before a file that others change, too, is cut: all that was written to it here is committed.
    pub(crate) fn hand_over(&self, file: &Arc<File>) -> Result<(), VfsError> {
        if self.is_shared() { self.write_back.make_recoverable(file) } else { Ok(()) }
    }

    /// Makes a file at least this long, however long others have made it.
    pub(crate) fn grow_shared(&self, file: &Arc<File>, size: u64) -> Result<(), VfsError> {
        let now = self.now();
        let commit = FileCommit {
            ino: file.ino,
            extents: Vec::new(),
            size,
            mtime: now,
            ctime: now,
            mode: None,
            journal: Vec::new(),
            journal_under: Vec::new(),
            known_mtime: Some(file.lock().known.0),
        };
        self.store.commit_files(&[], &[commit], now)?;
        file.reload(&self.store)?;
        Ok(())
    }

    /// Of a file that was opened: if it has no name any more, others are told before anybody uses it.
    pub(crate) fn hold_nameless(&self, ino: Ino, nlink: u32) -> Result<(), VfsError> {
        if nlink > 0 {
            return Ok(());
        }
        match self.house.hold(&self.store, ino) {
            Err(MetaError::NotFound) => Err(VfsError::Stale),
            held => Ok(held?),
        }
    }
}

/// The part of these bytes within `range`, if any.
fn clip(start: u64, bytes: &[u8], range: &Range<u64>) -> Option<(u64, Bytes)> {
    let (from, to) = (start.max(range.start), (start + bytes.len() as u64).min(range.end));
    (from < to).then(|| (from, Bytes::copy_from_slice(&bytes[(from - start) as usize..(to - start) as usize])))
}
