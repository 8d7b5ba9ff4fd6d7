//! A file's bytes: where they lie, and cutting them.

use std::ops::Range;

use weft_format::Ino;
use weft_format::records::{Attributes, Kind, Timestamp};

use super::commit::MAX_FILE_BYTES;
use super::mapping::{Changes, clip, parse_extent, parse_page};
use super::txn::Txn;
use super::values::{PAGE_BYTES, damaged};
use super::{Store, milliseconds};
use crate::MetaError;
use crate::keys::{Key, Table, after, of_ino};
use crate::types::{Extent, FileData, JournalPage};

/// Extents (and pages) that one transaction cuts; each may cost four keys.
const STEP_PAIRS: usize = 128;

/// Pairs read at once where there may be many.
const READ_PAIRS: usize = 256;

impl Txn<'_> {
    pub(super) fn file(&mut self, ino: Ino) -> Result<Attributes, MetaError> {
        let attributes = self.inode(ino)?;
        match attributes.kind {
            Kind::File => Ok(attributes),
            Kind::Directory => Err(MetaError::IsDirectory),
            _ => Err(MetaError::Invalid { what: "only a file has a size to change" }),
        }
    }

    /// Removes the extents and journaled bytes of a file in `range`, a bounded number of them, and saves its inode.
    /// Returns up to where it came.
    fn cut_file(&mut self, attributes: &mut Attributes, range: Range<u64>, now_ms: u64) -> Result<u64, MetaError> {
        let ino = attributes.ino;
        let mut changes = Changes::default();
        let reached = self.cut_extents(ino, range.clone(), STEP_PAIRS, &mut changes)?;
        let reached = self.cut_journal(ino, range.start..reached, STEP_PAIRS)?;
        attributes.allocated_bytes = changes.take_allocated(ino, attributes.allocated_bytes)?;
        self.put_inode(attributes);
        self.forget_users(ino, &mut changes)?;
        self.settle(changes, |_| false, now_ms)?;
        Ok(reached)
    }
}

impl Txn<'_> {
    fn extents(&mut self, ino: Ino, range: &Range<u64>) -> Result<Vec<Extent>, MetaError> {
        let mut found: Vec<Extent> = Vec::new();
        let (mut rest, mut end) = (range.clone(), 0);
        while rest.start < rest.end {
            let extents = self.overlapping(ino, &rest, READ_PAIRS)?;
            for extent in &extents {
                if extent.file_offset < end {
                    return Err(damaged(&Key::Extent(ino, extent.end()), "it overlaps the extent before it"));
                }
                end = extent.end();
            }
            found.extend(extents.iter().filter_map(|extent| clip(extent, range)));
            match extents.last().filter(|_| extents.len() == READ_PAIRS) {
                Some(last) => rest.start = last.end(),
                None => break,
            }
        }
        Ok(found)
    }

    /// Bytes of the journal within `range`.
    fn journaled(&mut self, ino: Ino, range: &Range<u64>) -> Result<Vec<(u64, Vec<u8>)>, MetaError> {
        if range.is_empty() {
            return Ok(Vec::new());
        }
        let key = |page| Key::Journal(ino, page).encode();
        let pages = key(range.start / PAGE_BYTES)..key((range.end - 1) / PAGE_BYTES + 1);
        let mut found = Vec::new();
        for (key, value) in self.scan(&pages, usize::MAX)? {
            let page = parse_page(&key, &value)?;
            for (start, mut bytes) in page.ranges {
                let start = page.page * PAGE_BYTES + u64::from(start);
                let before = range.start.saturating_sub(start).min(bytes.len() as u64);
                let start = start + before;
                bytes.drain(..before as usize);
                bytes.truncate(range.end.saturating_sub(start) as usize);
                if !bytes.is_empty() {
                    found.push((start, bytes));
                }
            }
        }
        Ok(found)
    }
}

impl Store {
    /// The extents within `range`, ascending, the first and the last cut to it; what they leave out is holes. What the
    /// journal holds lies over them.
    ///
    /// # Errors
    /// Those of the engine, and damage.
    pub fn extents(&self, ino: Ino, range: Range<u64>) -> Result<Vec<Extent>, MetaError> {
        self.view(|txn| txn.extents(ino, &range))
    }

    /// What a file has in `range`: for whoever reads beside the owner, whose journal it is.
    ///
    /// # Errors
    /// No such file; those of the engine, and damage.
    pub fn file_data(&self, ino: Ino, range: Range<u64>) -> Result<FileData, MetaError> {
        self.view(|txn| {
            let size = txn.file(ino)?.size;
            let range = range.start.min(size)..range.end.min(size);
            let extents = txn.extents(ino, &range)?;
            let journaled = txn.journaled(ino, &range)?;
            Ok(FileData { size, extents, journaled })
        })
    }

    /// Up to `limit` extents that end after `from`, ascending and whole: a page of all that a file has.
    ///
    /// # Errors
    /// Those of the engine, and damage.
    pub fn extents_from(&self, ino: Ino, from: u64, limit: usize) -> Result<Vec<Extent>, MetaError> {
        self.view(|txn| txn.overlapping(ino, &(from..u64::MAX), limit))
    }

    /// Sets a file's size (and, with `mode`, clears suid and sgid). Growing leaves a hole. Shrinking removes the
    /// extents and journaled bytes beyond, the last ones first: a crash in between leaves the file longer than asked,
    /// and right up to there. `ctime` also says when segments died.
    ///
    /// # Errors
    /// `NotFound`, `IsDirectory`, `Invalid`, `TooLarge`.
    pub fn truncate(
        &self,
        ino: Ino,
        size: u64,
        mtime: Timestamp,
        ctime: Timestamp,
        mode: Option<u16>,
    ) -> Result<Attributes, MetaError> {
        if size > MAX_FILE_BYTES {
            return Err(MetaError::TooLarge);
        }
        // None, and nothing was cut: there is more than one transaction should cut.
        let cut_to = |boundary: u64, is_last: bool| {
            self.transact(|txn| {
                txn.free_room();
                let mut attributes = txn.file(ino)?;
                attributes.size = if is_last { boundary } else { attributes.size.min(boundary) };
                attributes.mtime = mtime;
                attributes.ctime = ctime;
                attributes.mode = mode.unwrap_or(attributes.mode);
                let reached = txn.cut_file(&mut attributes, boundary..u64::MAX, milliseconds(ctime))?;
                if reached < u64::MAX {
                    txn.give_up();
                    return Ok(None);
                }
                Ok(Some(attributes))
            })
        };
        // Most files need no more than this.
        if let Some(attributes) = cut_to(size, true)? {
            return Ok(attributes);
        }
        let changed = || MetaError::Invalid { what: "a file was written to while it was cut" };
        for boundary in self.cut_boundaries(ino, size)?.into_iter().rev() {
            cut_to(boundary, false)?.ok_or_else(changed)?;
        }
        cut_to(size, true)?.ok_or_else(changed)
    }

    /// Offsets above `size`, ascending: beyond each and up to the next there is no more than one transaction cuts.
    fn cut_boundaries(&self, ino: Ino, size: u64) -> Result<Vec<u64>, MetaError> {
        self.view(|txn| {
            let mut boundaries = Vec::new();
            let mut extents = after(of_ino(Table::Extent, ino), Some(Key::Extent(ino, size)));
            loop {
                let pairs = txn.scan(&extents, STEP_PAIRS / 2)?;
                let Some((key, value)) = pairs.last().filter(|_| pairs.len() == STEP_PAIRS / 2) else { break };
                boundaries.push(parse_extent(key, value)?.end());
                extents = after(extents, Key::parse(key));
            }
            let mut pages = Key::Journal(ino, size / PAGE_BYTES).encode()..of_ino(Table::Journal, ino).end;
            loop {
                let pairs = txn.scan(&pages, STEP_PAIRS / 2)?;
                let Some((key, value)) = pairs.last().filter(|_| pairs.len() == STEP_PAIRS / 2) else { break };
                boundaries.push((parse_page(key, value)?.page + 1) * PAGE_BYTES);
                pages = after(pages, Key::parse(key));
            }
            boundaries.sort_unstable();
            boundaries.dedup();
            Ok(boundaries)
        })
    }

    /// Makes a hole: removes extents and journaled bytes in `range`. The size stays. Large holes are made from the
    /// front in several transactions. `ctime` also says when segments died.
    ///
    /// # Errors
    /// `NotFound`, `IsDirectory`, `Invalid`.
    pub fn punch(&self, ino: Ino, range: Range<u64>, mtime: Timestamp, ctime: Timestamp) -> Result<(), MetaError> {
        let mut rest = range;
        while rest.start < rest.end {
            rest.start = self.transact(|txn| {
                txn.free_room();
                let mut attributes = txn.file(ino)?;
                attributes.mtime = mtime;
                attributes.ctime = ctime;
                txn.cut_file(&mut attributes, rest.clone(), milliseconds(ctime))
            })?;
        }
        Ok(())
    }

    /// Up to `limit` journaled pages after `after`, by inode and page: what a mount takes over when it begins.
    ///
    /// # Errors
    /// Those of the engine, and damage.
    pub fn journal(&self, after_page: Option<(Ino, u64)>, limit: usize) -> Result<Vec<(Ino, JournalPage)>, MetaError> {
        let range = after(Table::Journal.range(), after_page.map(|(ino, page)| Key::Journal(ino, page)));
        self.view(|txn| {
            let mut pages = Vec::new();
            for (key, value) in txn.scan(&range, limit)? {
                if let Some(Key::Journal(ino, _)) = Key::parse(&key) {
                    pages.push((ino, parse_page(&key, &value)?));
                }
            }
            Ok(pages)
        })
    }
}

#[cfg(test)]
#[path = "data_tests.rs"]
mod tests;
