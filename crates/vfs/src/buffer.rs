//! The bytes and the size of one file that the store does not have yet. Pure: no I/O, no locks, no clock.
//!
//! A buffer is a map of non-touching-or-adjacent, never overlapping pieces, newest bytes only. A piece lives through
//! three states: dirty (no home), in flight (it has a home in a segment that is being written), and gone (committed, so
//! the extents answer for it).
//!
//! Beside its newest bytes a buffer knows what each segment in flight carries. That is committed when the upload is
//! complete, overwritten bytes included: newer ones are in memory only, and come over it when they are durable themselves. So
//! nothing durable is given up for what is merely newer. Bytes that were cut off or punched are taken off the segments.
//!
//! The size that a commit says ([`Buffer::completion`]) never passes a byte that was appended and is not durable yet, so a file
//! ends early after a crash, and has no hole that nobody made.

use crate::extents::trim;
use crate::ranges::Ranges;
use bytes::{Bytes, BytesMut};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use weft_env::planted::{Planted, has_planted};
use weft_format::SegmentId;
use weft_meta::{Extent, JournalPage};

/// Pieces stop growing here, so that trimming and reading one never copies more than this.
const PIECE_BYTES_MAX: usize = 1 << 20;

/// Granularity of the journal in metadata.
pub const JOURNAL_PAGE_BYTES: u64 = JournalPage::BYTES;

/// The memory that a piece takes beside its bytes: its places in two trees, and an allocation of its own.
const PIECE_OVERHEAD_BYTES: u64 = 256;

/// Where a piece in flight will be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Home {
    segment: SegmentId,
    offset: u64,
}

#[derive(Clone, Debug)]
enum Content {
    /// Still dirty: may be extended and overwritten in place.
    Growing(BytesMut),
    /// Shared with an upload.
    Fixed(Bytes),
}

#[derive(Clone, Debug)]
struct Piece {
    content: Content,
    home: Option<Home>,
    /// These bytes are durable in the metadata's journal.
    journaled: bool,
}

impl Piece {
    fn len(&self) -> usize {
        match &self.content {
            Content::Growing(bytes) => bytes.len(),
            Content::Fixed(bytes) => bytes.len(),
        }
    }

    fn bytes(&self) -> &[u8] {
        match &self.content {
            Content::Growing(bytes) => bytes,
            Content::Fixed(bytes) => bytes,
        }
    }

    /// Splits at `at` bytes from its start; both halves keep what they know.
    fn split_off(&mut self, at: usize) -> Piece {
        let content = match &mut self.content {
            Content::Growing(bytes) => Content::Growing(bytes.split_off(at)),
            Content::Fixed(bytes) => Content::Fixed(bytes.split_off(at)),
        };
        let home = self.home.map(|home| Home { offset: home.offset + at as u64, ..home });
        Piece { content, home, journaled: self.journaled }
    }

    fn freeze(&mut self) -> Bytes {
        let content = std::mem::replace(&mut self.content, Content::Fixed(Bytes::new()));
        let bytes = match content {
            Content::Growing(bytes) => bytes.freeze(),
            Content::Fixed(bytes) => bytes,
        };
        self.content = Content::Fixed(bytes.clone());
        bytes
    }
}

/// See the module's head.
#[derive(Clone, Debug, Default)]
pub struct Buffer {
    pieces: BTreeMap<u64, Piece>,
    /// What each segment in flight carries of this file, ascending.
    staged_extents: BTreeMap<SegmentId, Vec<Extent>>,
    size: u64,
    /// The size that the store has.
    committed_size: u64,
    /// Bytes that lay beyond the end when they were written and are not durable yet: where the store's size passed one of
    /// them, it would show a hole that never was.
    appended: Ranges,
    /// Bytes that the store's journal holds, the newest or older ones, ...
    journaled: Ranges,
    /// ... and how many pages these are.
    journal_page_count: u64,
    held_bytes: u64,
    dirty_bytes: u64,
    dirty_piece_count: usize,
    /// No piece that begins before this is dirty, so that nobody looks for one among those in flight.
    clean_below: u64,
    unjournaled_bytes: u64,
    /// Where the dirty pieces begin that the journal does not hold, so that an fsync of a page looks at no other.
    unjournaled: BTreeSet<u64>,
}

/// What a completed upload makes durable of one file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Completion {
    /// Where its bytes are from now on, ascending.
    pub extents: Vec<Extent>,
    /// The size that the store may have with them.
    pub size: u64,
    /// Journal pages that hold bytes under the extents.
    pub journal_pages: Vec<u64>,
    /// What the segment carries from here on has to wait for appended bytes before it that could not be written.
    limit: u64,
}

impl Buffer {
    /// Of a file whose size is `size` in the store.
    pub fn new(size: u64) -> Self {
        Self { size, committed_size: size, ..Self::default() }
    }

    /// The file's size.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The size that the store has.
    pub fn committed_size(&self) -> u64 {
        self.committed_size
    }

    /// Nothing dirty and nothing in flight.
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Bytes that no upload carries yet.
    pub fn dirty_bytes(&self) -> u64 {
        self.dirty_bytes
    }

    /// Of the dirty bytes, those that the journal does not hold either.
    pub fn unjournaled_bytes(&self) -> u64 {
        self.unjournaled_bytes
    }

    /// Bytes that are durable nowhere.
    pub fn bytes_at_risk(&self) -> u64 {
        self.pieces.values().filter(|piece| !piece.journaled).map(|piece| piece.len() as u64).sum()
    }

    /// The memory that dirty bytes and bytes in flight take. Of many small pieces most of it is not bytes.
    pub fn memory_bytes(&self) -> u64 {
        self.held_bytes + self.pieces.len() as u64 * PIECE_OVERHEAD_BYTES
    }

    /// Dirty (not in flight) pieces.
    pub fn dirty_piece_count(&self) -> usize {
        self.dirty_piece_count
    }

    fn add(&mut self, start: u64, piece: Piece) {
        self.held_bytes += piece.len() as u64;
        if piece.home.is_none() {
            self.dirty_bytes += piece.len() as u64;
            self.dirty_piece_count += 1;
            self.clean_below = self.clean_below.min(start);
            if !piece.journaled {
                self.unjournaled_bytes += piece.len() as u64;
                self.unjournaled.insert(start);
            }
        }
        self.pieces.insert(start, piece);
    }

    fn take(&mut self, start: u64) -> Option<Piece> {
        let piece = self.pieces.remove(&start)?;
        self.held_bytes -= piece.len() as u64;
        if piece.home.is_none() {
            self.dirty_bytes -= piece.len() as u64;
            self.dirty_piece_count -= 1;
            if !piece.journaled {
                self.unjournaled_bytes -= piece.len() as u64;
                self.unjournaled.remove(&start);
            }
        }
        Some(piece)
    }

    /// Puts `data` at `offset`; whatever was there is replaced.
    pub fn write(&mut self, offset: u64, data: &[u8]) {
        let end = offset + data.len() as u64;
        if !data.is_empty() && end > self.size {
            self.appended.insert(offset.max(self.size)..end);
            self.size = end;
        }
        if data.is_empty() || self.overwrite_in_place(offset, data) {
            return;
        }
        self.drop_pieces(offset..end);
        if !self.append_to_previous(offset, data) {
            let mut bytes = BytesMut::with_capacity(data.len());
            bytes.extend_from_slice(data);
            self.add(offset, Piece { content: Content::Growing(bytes), home: None, journaled: false });
        }
    }

    fn overwrite_in_place(&mut self, offset: u64, data: &[u8]) -> bool {
        let Some((start, piece)) = self.pieces.range_mut(..=offset).next_back() else { return false };
        let within = (offset - start) as usize;
        if piece.journaled || piece.home.is_some() || within + data.len() > piece.len() {
            return false;
        }
        let Content::Growing(bytes) = &mut piece.content else { return false };
        bytes[within..within + data.len()].copy_from_slice(data);
        true
    }

    fn append_to_previous(&mut self, offset: u64, data: &[u8]) -> bool {
        let Some((start, piece)) = self.pieces.range_mut(..offset).next_back() else { return false };
        let joins = start + piece.len() as u64 == offset
            && piece.home.is_none()
            && !piece.journaled
            && piece.len() + data.len() <= PIECE_BYTES_MAX;
        let Content::Growing(bytes) = &mut piece.content else { return false };
        if !joins {
            return false;
        }
        if bytes.capacity() < bytes.len() + data.len() {
            // Fourfold growth keeps the copies of many small appends below half a copy of the bytes.
            let wanted = (bytes.len() * 4).min(PIECE_BYTES_MAX).max(bytes.len() + data.len());
            bytes.reserve(wanted - bytes.len());
        }
        bytes.extend_from_slice(data);
        self.held_bytes += data.len() as u64;
        self.dirty_bytes += data.len() as u64;
        self.unjournaled_bytes += data.len() as u64;
        true
    }

    fn drop_pieces(&mut self, range: Range<u64>) {
        self.split_at(range.start);
        self.split_at(range.end);
        let inside: Vec<u64> = self.pieces.range(range).map(|(start, _)| *start).collect();
        for start in inside {
            self.take(start);
        }
    }

    /// Forgets the bytes of `range`, also those in flight: they were punched or cut off, in the store as well.
    pub fn discard(&mut self, range: Range<u64>) {
        self.drop_pieces(range.clone());
        for extents in self.staged_extents.values_mut() {
            let rest = |extent: &Extent| [trim(extent, &(0..range.start)), trim(extent, &(range.end..u64::MAX))];
            *extents = extents.iter().flat_map(rest).flatten().collect();
        }
        self.appended.remove(range.clone());
        self.note_journal(range, false);
    }

    /// From now on the journal has something of `range`, or has nothing of it.
    fn note_journal(&mut self, range: Range<u64>, has_it: bool) {
        let (first, end) = (range.start / JOURNAL_PAGE_BYTES, range.end.div_ceil(JOURNAL_PAGE_BYTES));
        let pages = first * JOURNAL_PAGE_BYTES..end.saturating_mul(JOURNAL_PAGE_BYTES);
        let count = |journaled: &Ranges| journaled.blocks_in(pages.clone(), JOURNAL_PAGE_BYTES).count() as u64;
        let before = count(&self.journaled);
        match has_it {
            true => self.journaled.insert(range),
            false => self.journaled.remove(range),
        }
        self.journal_page_count = self.journal_page_count - before + count(&self.journaled);
    }

    /// What the store's size has to be for the file's to become `size`: no more than it has while appended bytes are not
    /// durable.
    pub fn size_to_store(&self, size: u64) -> u64 {
        match self.appended.first() {
            Some(first) if first < size => size.min(self.committed_size),
            _ => size,
        }
    }

    /// The file was cut or extended to `size`, and the store, as [`Self::size_to_store`] said, to `stored`.
    pub fn resized(&mut self, size: u64, stored: u64) {
        self.discard(size..u64::MAX);
        self.size = size;
        self.committed_size = stored;
    }

    /// The store's size is `size`, whatever a failed call has made of it.
    pub fn found_committed(&mut self, size: u64) {
        self.committed_size = size.min(self.size);
    }

    /// Others have changed the file, whose size is `size` in the store now.
    pub fn adopt(&mut self, size: u64) {
        self.committed_size = size;
        self.size = size.max(self.end());
    }

    /// Where the last of its bytes ends.
    fn end(&self) -> u64 {
        self.pieces.last_key_value().map_or(0, |(start, piece)| start + piece.len() as u64)
    }

    /// Everything is in the store's journal, where others may change it from now on.
    pub fn hand_over(&mut self) {
        self.note_journaled();
        self.discard(0..u64::MAX);
    }

    fn split_at(&mut self, offset: u64) {
        let Some((&start, piece)) = self.pieces.range(..offset).next_back() else { return };
        if start + piece.len() as u64 <= offset {
            return;
        }
        if let Some(mut piece) = self.take(start) {
            let tail = piece.split_off((offset - start) as usize);
            self.add(start, piece);
            self.add(offset, tail);
        }
    }

    /// The buffered bytes within `range`, ascending, trimmed to it, as (file offset, bytes).
    pub fn overlapping(&self, range: Range<u64>) -> impl Iterator<Item = (u64, &[u8])> {
        let first = self
            .pieces
            .range(..range.start)
            .next_back()
            .filter(|(start, piece)| *start + piece.len() as u64 > range.start)
            .map_or(range.start, |(start, _)| *start);
        self.pieces.range(first..range.end.max(first)).map(move |(&start, piece)| {
            let from = range.start.max(start);
            let to = range.end.min(start + piece.len() as u64);
            (from, &piece.bytes()[(from - start) as usize..(to - start) as usize])
        })
    }

    /// Puts up to `bytes_max` dirty bytes in at most `pieces_max` pieces in flight, in offset order: they will lie in
    /// `segment` from `segment_offset` on. Returns them in order.
    pub fn stage(
        &mut self,
        segment: SegmentId,
        mut segment_offset: u64,
        bytes_max: u64,
        pieces_max: usize,
    ) -> Vec<Bytes> {
        let mut staged = Vec::new();
        let mut extents: Vec<Extent> = Vec::new();
        let mut room = bytes_max;
        let pieces = self.pieces.range(self.clean_below..);
        let dirty = pieces.filter(|(_, piece)| piece.home.is_none()).map(|(start, _)| *start);
        let dirty: Vec<u64> = dirty.take(pieces_max).collect();
        for start in dirty {
            if room == 0 {
                break;
            }
            if self.pieces[&start].len() as u64 > room {
                self.split_at(start + room);
            }
            if let Some(mut piece) = self.take(start) {
                staged.push(piece.freeze());
                piece.home = Some(Home { segment, offset: segment_offset });
                let length = piece.len() as u64;
                match extents.last_mut() {
                    Some(last) if last.end() == start => last.length += length,
                    _ => extents.push(Extent { file_offset: start, length, segment, segment_offset }),
                }
                segment_offset += length;
                room -= length;
                self.add(start, piece);
                self.clean_below = start + 1;
            }
        }
        if !extents.is_empty() {
            self.staged_extents.insert(segment, extents);
        }
        staged
    }

    /// What the commit of `segment`, whose upload is complete, says of this file.
    pub fn completion(&self, segment: SegmentId) -> Completion {
        let staged_extents = self.staged_extents.get(&segment).map_or(&[][..], Vec::as_slice);
        let mut missing = self.appended.clone();
        staged_extents.iter().for_each(|extent| missing.remove(extent.file_offset..extent.end()));
        let limit = missing.first().filter(|_| !has_planted(Planted::EndBeforeBeginning)).unwrap_or(u64::MAX);
        let extents: Vec<Extent> = staged_extents.iter().filter_map(|extent| trim(extent, &(0..limit))).collect();
        let end = extents.last().map_or(0, Extent::end);
        let size = if missing.is_empty() { self.size } else { self.committed_size.max(end) };
        let mut journal_pages: Vec<u64> = Vec::new();
        for extent in &extents {
            journal_pages.extend(self.journaled.blocks_in(extent.file_offset..extent.end(), JOURNAL_PAGE_BYTES));
        }
        journal_pages.dedup();
        Completion { extents, size, journal_pages, limit }
    }

    /// The store has what [`Self::completion`] said of `segment`: the extents answer for its pieces from now on. What had to wait
    /// is dirty again; returns whether there was any.
    pub fn complete(&mut self, segment: SegmentId, completion: &Completion) -> bool {
        for start in self.pieces_of(segment).into_iter().filter(|start| *start < completion.limit) {
            self.take(start);
        }
        for extent in &completion.extents {
            self.appended.remove(extent.file_offset..extent.end());
            self.note_journal(extent.file_offset..extent.end(), false);
        }
        self.committed_size = completion.size;
        self.unstage(segment)
    }

    /// `segment` could not be written: its pieces are dirty again; returns whether there were any.
    pub fn unstage(&mut self, segment: SegmentId) -> bool {
        let dirty_before = self.dirty_bytes;
        for start in self.pieces_of(segment) {
            if let Some(piece) = self.take(start) {
                self.add(start, Piece { home: None, ..piece });
            }
        }
        self.staged_extents.remove(&segment);
        self.dirty_bytes > dirty_before
    }

    /// Where the pieces begin that `segment` carries. They lie within what was staged, so no others are looked at.
    fn pieces_of(&self, segment: SegmentId) -> Vec<u64> {
        let staged = self.staged_extents.get(&segment).into_iter().flatten();
        let pieces = staged.flat_map(|extent| self.pieces.range(extent.file_offset..extent.end()));
        let is_here = |piece: &Piece| piece.home.is_some_and(|home| home.segment == segment);
        pieces.filter(|(_, piece)| is_here(piece)).map(|(start, _)| *start).collect()
    }

    /// The journal pages that the not yet journaled dirty bytes touch.
    fn unjournaled_pages(&self) -> Vec<u64> {
        let mut pages: Vec<u64> = Vec::new();
        for (start, piece) in self.unjournaled.iter().map(|start| (*start, &self.pieces[start])) {
            if piece.len() > 0 {
                let first = start / JOURNAL_PAGE_BYTES;
                let last = (start + piece.len() as u64 - 1) / JOURNAL_PAGE_BYTES;
                let from = pages.last().map_or(first, |&page| first.max(page + 1));
                pages.extend(from..=last);
            }
        }
        pages
    }

    /// What the journal must hold of `page`: every dirty byte of it. `None` where there is nothing.
    fn journal_page(&self, page: u64) -> Option<JournalPage> {
        let range = page * JOURNAL_PAGE_BYTES..(page + 1) * JOURNAL_PAGE_BYTES;
        let mut ranges: Vec<(u16, Vec<u8>)> = Vec::new();
        for (start, bytes) in self.overlapping(range.clone()) {
            let within = (start - range.start) as u16;
            match ranges.last_mut() {
                Some((from, joined)) if usize::from(*from) + joined.len() == usize::from(within) => {
                    joined.extend_from_slice(bytes);
                }
                _ => ranges.push((within, bytes.to_vec())),
            }
        }
        (!ranges.is_empty()).then_some(JournalPage { page, ranges })
    }

    /// The pages with which the journal holds every dirty byte. Nothing may be in flight: the journal lies over all extents,
    /// so bytes in it are never older than those of a segment that is committed later.
    pub fn to_journal(&self) -> Vec<JournalPage> {
        debug_assert!(self.staged_extents.is_empty(), "a file is journaled when nothing of it is in flight");
        self.unjournaled_pages().into_iter().filter_map(|page| self.journal_page(page)).collect()
    }

    /// The store has the file's size and what [`Self::to_journal`] said.
    pub fn note_journaled(&mut self) {
        for start in std::mem::take(&mut self.unjournaled) {
            if let Some(piece) = self.pieces.get_mut(&start) {
                piece.journaled = true;
                let end = start + piece.len() as u64;
                self.note_journal(start..end, true);
            }
        }
        self.unjournaled_bytes = 0;
        self.appended = Ranges::default();
        self.committed_size = self.size;
    }

    /// The commit of these `pages` failed, or its answer got lost: the journal may hold any of them. What is written over them
    /// later has to take them away, or they would come over it after a restart.
    pub fn note_tried(&mut self, pages: &[JournalPage]) {
        for page in pages {
            for (within, bytes) in &page.ranges {
                let offset = page.page * JOURNAL_PAGE_BYTES + u64::from(*within);
                self.note_journal(offset..offset + bytes.len() as u64, true);
            }
        }
    }

    /// The journal may hold less than was written to it: what is dirty goes there again with the next fsync.
    pub fn doubt_journal(&mut self) {
        self.pieces.values_mut().for_each(|piece| piece.journaled = false);
        self.unjournaled_bytes = self.dirty_bytes;
        let dirty = self.pieces.iter().filter(|(_, piece)| piece.home.is_none());
        self.unjournaled = dirty.map(|(start, _)| *start).collect();
    }

    /// How many pages the journal holds.
    pub fn journal_page_count(&self) -> u64 {
        self.journal_page_count
    }

    /// Loads what the journal held of `page` after a crash: dirty, and journaled.
    pub fn replay(&mut self, page: &JournalPage) {
        for (within, data) in &page.ranges {
            let offset = page.page * JOURNAL_PAGE_BYTES + u64::from(*within);
            let range = offset..offset + data.len() as u64;
            self.drop_pieces(range.clone());
            let content = Content::Growing(BytesMut::from(&data[..]));
            self.add(offset, Piece { content, home: None, journaled: true });
            self.note_journal(range, true);
        }
    }
}

#[cfg(test)]
#[path = "buffer_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "buffer_crash_tests.rs"]
mod crash_tests;
