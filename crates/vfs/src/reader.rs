//! A volume read without being owned: any number at once, beside a mount, and by whoever may only read the metadata.
//!
//! It shows what the owner has made durable. Each read looks at the metadata anew, so nothing of it is stale; where a segment went
//! between that look and the read, it looks again.

use crate::error::VfsError;
use crate::policies::policy_text;
use crate::segments::Segments;
use std::ops::Range;
use std::sync::Arc;
use weft_env::Runtime;
use weft_env::sync::Mutex;
use weft_format::Ino;
use weft_format::records::Attributes;
use weft_meta::{Entry, FileData, Store};
use weft_transfer::{Readahead, Transfer};

/// A segment that a file refers to goes half a minute after the file has let go of it: one look more is enough, and these
/// are plenty.
const LOOKS: u32 = 4;

/// A volume open for reading.
pub struct Reader {
    store: Arc<Store>,
    segments: Segments,
}

/// A file that is being read.
pub struct ReadFile {
    ino: Ino,
    readahead: Mutex<Readahead>,
}

impl Reader {
    /// `runtime` runs transfers; no method may be called from within it.
    pub fn new(store: Store, transfer: Transfer, runtime: impl Into<Runtime>) -> Self {
        let runtime = runtime.into();
        let store = Arc::new(store);
        Self { segments: Segments::new(store.clone(), transfer, runtime), store }
    }

    /// What moves segments.
    pub fn transfer(&self) -> &Transfer {
        self.segments.transfer()
    }

    /// # Errors
    /// No such inode.
    pub fn attributes(&self, ino: Ino) -> Result<Attributes, VfsError> {
        Ok(self.store.attributes(ino)?)
    }

    /// # Errors
    /// No such name; no directory.
    pub fn lookup(&self, parent: Ino, name: &[u8]) -> Result<Attributes, VfsError> {
        Ok(self.store.lookup(parent, name)?)
    }

    /// Up to `limit` entries of a directory after a cookie (0: from the start), without `.` and `..`.
    ///
    /// # Errors
    /// No directory.
    pub fn read_directory(&self, ino: Ino, after_cookie: u64, limit: usize) -> Result<Vec<Entry>, VfsError> {
        Ok(self.store.read_directory(ino, after_cookie, limit)?.entries)
    }

    /// # Errors
    /// No symbolic link.
    pub fn readlink(&self, ino: Ino) -> Result<Vec<u8>, VfsError> {
        Ok(self.store.readlink(ino)?)
    }

    /// By what policy a file or what is made in a directory is kept, as text.
    ///
    /// # Errors
    /// No such inode.
    pub fn policy(&self, ino: Ino) -> Result<String, VfsError> {
        let attributes = self.store.attributes(ino)?;
        Ok(policy_text(&self.store.policy(attributes.policy)?))
    }

    /// Begins to read a file.
    pub fn open(&self, ino: Ino) -> ReadFile {
        ReadFile { ino, readahead: Mutex::default() }
    }

    /// Up to `bytes` bytes at `offset`; none at the end.
    ///
    /// # Errors
    /// They cannot be had.
    pub fn read(&self, file: &ReadFile, offset: u64, bytes: u32) -> Result<Vec<u8>, VfsError> {
        let range = offset..offset.saturating_add(u64::from(bytes));
        let mut data = self.store.file_data(file.ino, range.clone())?;
        let ahead = file.readahead.lock().on_read(offset, u64::from(bytes), data.size);
        for ahead in ahead {
            for extent in self.store.file_data(file.ino, ahead)?.extents {
                let within = extent.segment_offset..extent.segment_offset + extent.length;
                self.segments.prefetch(extent.segment, within);
            }
        }
        let mut looks = 1;
        loop {
            match self.assemble(file.ino, &range, &data) {
                Err(error) if looks < LOOKS => {
                    let fresh = self.store.file_data(file.ino, range.clone())?;
                    if fresh == data {
                        return Err(error);
                    }
                    data = fresh;
                    looks += 1;
                }
                outcome => return outcome,
            }
        }
    }

    fn assemble(&self, ino: Ino, range: &Range<u64>, data: &FileData) -> Result<Vec<u8>, VfsError> {
        let end = range.end.min(data.size);
        let mut out = vec![0; end.saturating_sub(range.start) as usize];
        let (mut parts, mut rest, mut rest_at) = (Vec::new(), &mut out[..], range.start);
        for extent in &data.extents {
            let (_, tail) = rest.split_at_mut((extent.file_offset - rest_at) as usize);
            let (place, tail) = tail.split_at_mut(extent.length as usize);
            (rest, rest_at) = (tail, extent.file_offset + extent.length);
            parts.push((extent.segment, extent.segment_offset..extent.segment_offset + extent.length, place));
        }
        self.segments.read(ino, parts)?;
        for (start, bytes) in &data.journaled {
            let at = (start - range.start) as usize;
            out[at..at + bytes.len()].copy_from_slice(bytes);
        }
        Ok(out)
    }

    /// Notes what was found damaged, where this user may.
    pub fn close(&self) {
        self.segments.note_suspects();
    }
}
