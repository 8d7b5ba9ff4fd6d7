//! The journal of files that several processes change: bytes of small fsyncs, as good as any other of their files. They stay until somebody
//! has copied them to a segment, and what was written meanwhile stays as it is.

use std::collections::BTreeSet;

use weft_format::records::{Attributes, SegmentRecord, Timestamp};
use weft_format::{Ino, SegmentId};

use super::commit::NewSegments;
use super::mapping::{Changes, clip};
use super::txn::Txn;
use super::values::{self, PAGE_BYTES};
use super::{Store, milliseconds};
use crate::MetaError;
use crate::keys::Key;
use crate::kv::KvError;
use crate::types::{Extent, JournalPage};

/// Pages of a file that are moved in one transaction.
const PAGES_AT_ONCE: usize = 32;

/// A page of the journal, and where a segment has a copy of its bytes, one range after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopiedPage {
    /// Whose it is.
    pub ino: Ino,
    /// As it was read.
    pub page: JournalPage,
    /// Where the copy begins in the segment.
    pub segment_offset: u64,
}

/// Bytes that are added to the end of a file.
#[derive(Clone, Copy, Debug)]
pub enum Appended<'a> {
    /// Few of them: the journal has them.
    Bytes(&'a [u8]),
    /// All data of a new segment.
    Segment(SegmentId, &'a SegmentRecord),
}

impl Store {
    /// Lets files refer to copies of journaled bytes in a new segment. A page that has changed since it was read stays in the journal. Returns
    /// how many bytes left it.
    ///
    /// # Errors
    /// Those of the engine, and damage.
    pub fn move_journal(
        &self,
        pages: &[CopiedPage],
        segment: SegmentId,
        record: &SegmentRecord,
        now: Timestamp,
    ) -> Result<u64, MetaError> {
        let new = [(segment, record.clone())];
        let segments = NewSegments::new(&new);
        let (now_ms, mut moved_bytes) = (milliseconds(now), 0);
        let of_files = pages.chunk_by(|one, next| one.ino == next.ino);
        for pages in of_files.flat_map(|of_file| of_file.chunks(PAGES_AT_ONCE)) {
            match self.transact(|txn| move_pages(txn, &segments, segment, pages, now_ms)) {
                Ok(bytes) => moved_bytes += bytes,
                // Somebody writes to it all the time: it stays for another time.
                Err(MetaError::Engine(KvError::Conflict)) => {}
                Err(error) => return Err(error),
            }
        }
        let used = if moved_bytes > 0 { BTreeSet::from([segment]) } else { BTreeSet::new() };
        self.transact(|txn| segments.finish(txn, &mut 0, &used, now_ms))?;
        Ok(moved_bytes)
    }

    /// Adds bytes to a file's end, wherever that is now. Returns where they begin.
    ///
    /// # Errors
    /// `NotFound`, `TooLarge`, `Invalid` (it is no file).
    pub fn append(&self, ino: Ino, appended: Appended<'_>, now: Timestamp) -> Result<u64, MetaError> {
        match appended {
            Appended::Bytes(bytes) => self.transact_by_key(|txn| {
                let mut attributes = txn.file(ino)?;
                let start = attributes.size;
                for page in pages_of(start, bytes) {
                    let page = txn.lay_over(ino, &page)?;
                    txn.put(Key::Journal(ino, page.page), values::journal_page(&page));
                }
                grow(txn, &mut attributes, bytes.len() as u64, now)?;
                Ok(start)
            }),
            Appended::Segment(segment, record) => {
                let new = [(segment, record.clone())];
                let segments = NewSegments::new(&new);
                self.transact(|txn| {
                    let mut attributes = txn.file(ino)?;
                    let (file_offset, length) = (attributes.size, record.geometry.data_bytes);
                    let extent = Extent { file_offset, length, segment, segment_offset: 0 };
                    let mut changes = Changes::default();
                    segments.require(txn, segment)?;
                    txn.place_extent(ino, &extent, &mut changes)?;
                    attributes.allocated_bytes = changes.take_allocated(ino, attributes.allocated_bytes)?;
                    grow(txn, &mut attributes, length, now)?;
                    txn.settle(changes, |_| false, milliseconds(now))?;
                    Ok(file_offset)
                })
            }
        }
    }
}

fn grow(txn: &mut Txn<'_>, attributes: &mut Attributes, bytes: u64, now: Timestamp) -> Result<(), MetaError> {
    let size = attributes.size.checked_add(bytes).filter(|size| *size <= super::commit::MAX_FILE_BYTES);
    attributes.size = size.ok_or(MetaError::TooLarge)?;
    attributes.mtime = now;
    attributes.ctime = now.max(attributes.ctime);
    txn.put_inode(attributes);
    Ok(())
}

/// Bytes from an offset of a file on, by pages.
fn pages_of(mut offset: u64, mut bytes: &[u8]) -> Vec<JournalPage> {
    let mut pages = Vec::new();
    while !bytes.is_empty() {
        let start = offset % PAGE_BYTES;
        let (head, rest) = bytes.split_at(bytes.len().min((PAGE_BYTES - start) as usize));
        pages.push(JournalPage { page: offset / PAGE_BYTES, ranges: vec![(start as u16, head.to_vec())] });
        offset += head.len() as u64;
        bytes = rest;
    }
    pages
}

/// Moves pages of one file; how many bytes that are.
fn move_pages(
    txn: &mut Txn<'_>,
    segments: &NewSegments<'_>,
    segment: SegmentId,
    pages: &[CopiedPage],
    now_ms: u64,
) -> Result<u64, MetaError> {
    let journal = pages.iter().map(|copied| Key::Journal(copied.ino, copied.page.page));
    let inode = pages.first().map(|copied| Key::Inode(copied.ino));
    txn.fetch(&journal.chain(inode).collect::<Vec<_>>(), &[])?;
    let (mut changes, mut moved_bytes) = (Changes::default(), 0);
    for copied in pages {
        moved_bytes += move_page(txn, segments, segment, copied, &mut changes)?;
    }
    txn.settle(changes, |segment| segments.records.contains_key(&segment), now_ms)?;
    Ok(moved_bytes)
}

fn move_page(
    txn: &mut Txn<'_>,
    segments: &NewSegments<'_>,
    segment: SegmentId,
    CopiedPage { ino, page, segment_offset }: &CopiedPage,
    changes: &mut Changes,
) -> Result<u64, MetaError> {
    let key = Key::Journal(*ino, page.page);
    let Some(bytes) = txn.get(key)? else { return Ok(0) };
    if values::decode_journal_page(&key, &bytes)? != *page {
        return Ok(0);
    }
    txn.remove(key);
    let Some(mut attributes) = txn.find_inode(*ino)? else { return Ok(0) };
    let (base, mut copied_to, mut moved_bytes) = (page.page * PAGE_BYTES, *segment_offset, 0);
    for (start, bytes) in &page.ranges {
        let file_offset = base + u64::from(*start);
        let extent = Extent { file_offset, length: bytes.len() as u64, segment, segment_offset: copied_to };
        copied_to += extent.length;
        let Some(extent) = clip(&extent, &(0..attributes.size)) else { continue };
        segments.require(txn, segment)?;
        // A page is small: what lies under it is, too.
        while txn.place_extent(*ino, &extent, changes)? < extent.end() {}
        moved_bytes += extent.length;
    }
    attributes.allocated_bytes = changes.take_allocated(*ino, attributes.allocated_bytes)?;
    txn.put_inode(&attributes);
    txn.forget_users(*ino, changes)?;
    Ok(moved_bytes)
}

#[cfg(test)]
#[path = "journal_tests.rs"]
mod tests;
