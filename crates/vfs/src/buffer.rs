//! The dirty bytes of one file, before they are committed as extents. Pure: no I/O, no locks, no clock.
//!
//! A buffer is a map of non-touching-or-adjacent, never overlapping pieces, newest bytes only. A piece lives through
//! three states: dirty (no home), travelling (it has a home in a segment that is being written), and gone (committed, so
//! the extents answer for it). Overwriting or cutting a travelling piece trims it, so that when its segment is committed
//! only what is still newest becomes an extent.

use bytes::{Bytes, BytesMut};
use std::collections::BTreeMap;
use std::ops::Range;
use weft_format::SegmentId;
use weft_meta::{Extent, JournalPage};

/// Pieces stop growing here, so that trimming and reading one never copies more than this.
const PIECE_BYTES_MAX: usize = 1 << 20;

/// Granularity of the journal in metadata.
pub const JOURNAL_PAGE_BYTES: u64 = 4096;

/// Where a travelling piece will be found.
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
    held_bytes: u64,
    dirty_bytes: u64,
    unjournaled_bytes: u64,
}

impl Buffer {
    /// Nothing dirty and nothing travelling.
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

    /// Dirty bytes plus travelling bytes.
    pub fn held_bytes(&self) -> u64 {
        self.held_bytes
    }

    /// Dirty (not travelling) pieces.
    pub fn dirty_piece_count(&self) -> usize {
        self.pieces.values().filter(|piece| piece.home.is_none()).count()
    }

    fn add(&mut self, start: u64, piece: Piece) {
        self.held_bytes += piece.len() as u64;
        if piece.home.is_none() {
            self.dirty_bytes += piece.len() as u64;
            if !piece.journaled {
                self.unjournaled_bytes += piece.len() as u64;
            }
        }
        self.pieces.insert(start, piece);
    }

    fn take(&mut self, start: u64) -> Option<Piece> {
        let piece = self.pieces.remove(&start)?;
        self.held_bytes -= piece.len() as u64;
        if piece.home.is_none() {
            self.dirty_bytes -= piece.len() as u64;
            if !piece.journaled {
                self.unjournaled_bytes -= piece.len() as u64;
            }
        }
        Some(piece)
    }

    /// Puts `data` at `offset`; whatever was there is replaced.
    pub fn write(&mut self, offset: u64, data: &[u8]) {
        if data.is_empty() || self.overwrite_in_place(offset, data) {
            return;
        }
        self.clear(offset..offset + data.len() as u64);
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

    /// Forgets the bytes of `range`: they were overwritten, punched or cut off.
    pub fn clear(&mut self, range: Range<u64>) {
        self.split_at(range.start);
        self.split_at(range.end);
        let inside: Vec<u64> = self.pieces.range(range).map(|(start, _)| *start).collect();
        for start in inside {
            self.take(start);
        }
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

    /// Sends up to `bytes_max` dirty bytes in at most `pieces_max` pieces on their way to `segment`, in offset order, to
    /// lie there from `segment_offset` on. Returns them in order.
    pub fn depart(
        &mut self,
        segment: SegmentId,
        mut segment_offset: u64,
        bytes_max: u64,
        pieces_max: usize,
    ) -> Vec<Bytes> {
        let mut departed = Vec::new();
        let mut room = bytes_max;
        let dirty: Vec<u64> =
            self.pieces.iter().filter(|(_, piece)| piece.home.is_none()).map(|(start, _)| *start).collect();
        for start in dirty.into_iter().take(pieces_max) {
            if room == 0 {
                break;
            }
            if self.pieces[&start].len() as u64 > room {
                self.split_at(start + room);
            }
            if let Some(mut piece) = self.take(start) {
                departed.push(piece.freeze());
                piece.home = Some(Home { segment, offset: segment_offset });
                segment_offset += piece.len() as u64;
                room -= piece.len() as u64;
                self.add(start, piece);
            }
        }
        departed
    }

    /// What of `segment` is still newest: the extents to commit.
    pub fn extents_in(&self, segment: SegmentId) -> Vec<Extent> {
        let mut extents: Vec<Extent> = Vec::new();
        for (&start, piece) in &self.pieces {
            let Some(home) = piece.home.filter(|home| home.segment == segment) else { continue };
            let length = piece.len() as u64;
            if let Some(last) = extents.last_mut()
                && last.file_offset + last.length == start
                && last.segment_offset + last.length == home.offset
            {
                last.length += length;
            } else {
                extents.push(Extent { file_offset: start, length, segment, segment_offset: home.offset });
            }
        }
        extents
    }

    /// `segment` is committed: its pieces are answered for by extents from now on. Returns how many bytes that were.
    pub fn arrive(&mut self, segment: SegmentId) -> u64 {
        let arrived_bytes = self.held_of(segment);
        self.pieces.retain(|_, piece| piece.home.is_none_or(|home| home.segment != segment));
        self.held_bytes -= arrived_bytes;
        arrived_bytes
    }

    /// `segment` could not be written: its pieces are dirty again.
    pub fn turn_back(&mut self, segment: SegmentId) {
        for piece in self.pieces.values_mut() {
            if piece.home.is_some_and(|home| home.segment == segment) {
                piece.home = None;
                self.dirty_bytes += piece.len() as u64;
                if !piece.journaled {
                    self.unjournaled_bytes += piece.len() as u64;
                }
            }
        }
    }

    /// Bytes travelling to `segment`.
    pub fn held_of(&self, segment: SegmentId) -> u64 {
        let of_segment = |piece: &&Piece| piece.home.is_some_and(|home| home.segment == segment);
        self.pieces.values().filter(of_segment).map(|piece| piece.len() as u64).sum()
    }

    /// The journal pages that the not yet journaled dirty bytes touch.
    pub fn unjournaled_pages(&self) -> Vec<u64> {
        let mut pages: Vec<u64> = Vec::new();
        for (&start, piece) in &self.pieces {
            if piece.home.is_none() && !piece.journaled && piece.len() > 0 {
                let first = start / JOURNAL_PAGE_BYTES;
                let last = (start + piece.len() as u64 - 1) / JOURNAL_PAGE_BYTES;
                let from = pages.last().map_or(first, |&page| first.max(page + 1));
                pages.extend(from..=last);
            }
        }
        pages
    }

    /// What the journal must hold of `page`: every dirty byte of it, or, once `committed` is, those that it holds already
    /// and that are not there. `None` where there is nothing.
    pub fn journal_page(&self, page: u64, committed: Option<SegmentId>) -> Option<JournalPage> {
        let range = page * JOURNAL_PAGE_BYTES..(page + 1) * JOURNAL_PAGE_BYTES;
        let mut ranges: Vec<(u16, Vec<u8>)> = Vec::new();
        for (start, bytes) in self.overlapping(range.clone()) {
            let Some((_, piece)) = self.pieces.range(..=start).next_back() else { continue };
            let belongs = match committed {
                None => piece.home.is_none(),
                Some(segment) => piece.journaled && piece.home.is_none_or(|home| home.segment != segment),
            };
            if !belongs {
                continue;
            }
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

    /// Every dirty piece is in the journal now.
    pub fn mark_journaled(&mut self) {
        for piece in self.pieces.values_mut() {
            if piece.home.is_none() {
                piece.journaled = true;
            }
        }
        self.unjournaled_bytes = 0;
    }

    /// Loads what the journal held of `page` after a crash: dirty, and journaled.
    pub fn replay(&mut self, page: &JournalPage) {
        for (within, data) in &page.ranges {
            let offset = page.page * JOURNAL_PAGE_BYTES + u64::from(*within);
            self.clear(offset..offset + data.len() as u64);
            let content = Content::Growing(BytesMut::from(&data[..]));
            self.add(offset, Piece { content, home: None, journaled: true });
        }
    }
}

#[cfg(test)]
#[path = "buffer_tests.rs"]
mod tests;
