//! How a file's extents and journal pages change under cuts and writes, and what that means for its segments: pieces of
//! transactions that `commit.rs`, `data.rs` and `reclaim.rs` put together.
//!
//! Invariants, for every committed state: extents of a file do not overlap; `live/<segment>` is the sum of the lengths
//! of the extents that refer to the segment and is there exactly while that is above 0, afterwards
//! `trash/<when>/<segment>` and `dead/<segment>` are there instead, and it never lives again; `used-by` names at least
//! every file with an extent in the segment; `allocated_bytes` of an inode is the sum of its extents' lengths.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use weft_format::records::{DamageRecord, SegmentRecord};
use weft_format::{Ino, SegmentId};

use super::txn::Txn;
use super::values::{self, PAGE_BYTES, damaged};
use crate::MetaError;
use crate::keys::{Key, Table, after, of_ino, users_of};
use crate::types::{Extent, JournalPage};

/// Extents or pages that one cut looks at.
pub(super) const CUT_PAIRS: usize = 32;

/// A file with fewer extents than this is looked through to see whether it still uses a segment; a larger one keeps its
/// `used-by` entries until the segment is dead.
const FEW_EXTENTS: usize = 64;

/// Stale `used-by` entries that go with a dead segment. What is beyond stays for the consistency check's repair.
const SWEPT_USERS: usize = 64;

/// No transaction sweeps beyond so many writes.
const SWEEP_UNTIL_KEYS: usize = 700;

/// What the changes of one transaction add up to.
#[derive(Default)]
pub(super) struct Changes {
    /// Bytes that each segment gained or lost.
    live: BTreeMap<SegmentId, i64>,
    /// Bytes that the file at hand gained or lost.
    allocated: i64,
    /// Segments that the file at hand lost a whole extent of.
    left: BTreeSet<SegmentId>,
}

impl Changes {
    /// Keys that [`Txn::settle`] may still write.
    pub(super) fn pending_keys(&self) -> usize {
        3 * self.live.len() + self.left.len() + 2
    }

    fn gain(&mut self, extent: &Extent, sign: i64) {
        // Lengths are below 2^63: they were checked on their way in.
        let bytes = sign * extent.length as i64;
        *self.live.entry(extent.segment).or_default() += bytes;
        self.allocated += bytes;
    }

    /// What `allocated_bytes` becomes; call once for each file.
    pub(super) fn take_allocated(&mut self, ino: Ino, allocated_bytes: u64) -> Result<u64, MetaError> {
        let change = std::mem::take(&mut self.allocated);
        let wrong = || damaged(&Key::Inode(ino), "its allocated bytes are fewer than its extents have");
        allocated_bytes.checked_add_signed(change).ok_or_else(wrong)
    }
}

/// The part of `extent` within `range`, if any.
pub(super) fn clip(extent: &Extent, range: &Range<u64>) -> Option<Extent> {
    let start = extent.file_offset.max(range.start);
    let end = extent.end().min(range.end);
    (start < end).then(|| Extent {
        file_offset: start,
        length: end - start,
        segment: extent.segment,
        segment_offset: extent.segment_offset + (start - extent.file_offset),
    })
}

/// The parts of `page` outside of `range` (of file offsets).
fn trim_page(page: &JournalPage, range: &Range<u64>) -> JournalPage {
    let base = page.page * PAGE_BYTES;
    let mut ranges = Vec::new();
    for (start, bytes) in &page.ranges {
        let first = base + u64::from(*start);
        let last = first + bytes.len() as u64;
        let head_bytes = range.start.clamp(first, last) - first;
        let tail_from = range.end.clamp(first, last) - first;
        if tail_from <= head_bytes {
            ranges.push((*start, bytes.clone()));
            continue;
        }
        if head_bytes > 0 {
            ranges.push((*start, bytes[..head_bytes as usize].to_vec()));
        }
        if tail_from < bytes.len() as u64 {
            ranges.push((start + tail_from as u16, bytes[tail_from as usize..].to_vec()));
        }
    }
    JournalPage { page: page.page, ranges }
}

/// The bytes of two pages, the newer over the older.
fn laid_over(older: &JournalPage, newer: &JournalPage) -> JournalPage {
    let mut bytes = [None; PAGE_BYTES as usize];
    for (start, run) in older.ranges.iter().chain(&newer.ranges) {
        run.iter().zip(usize::from(*start)..).for_each(|(byte, at)| bytes[at] = Some(*byte));
    }
    let mut ranges: Vec<(u16, Vec<u8>)> = Vec::new();
    for (at, byte) in bytes.into_iter().enumerate() {
        let Some(byte) = byte else { continue };
        match ranges.last_mut() {
            Some((start, run)) if usize::from(*start) + run.len() == at => run.push(byte),
            _ => ranges.push((at as u16, vec![byte])),
        }
    }
    JournalPage { page: newer.page, ranges }
}

impl Txn<'_> {
    /// What a page becomes when this is journaled over it.
    pub(super) fn lay_over(&mut self, ino: Ino, page: &JournalPage) -> Result<JournalPage, MetaError> {
        let key = Key::Journal(ino, page.page);
        match self.get(key)? {
            Some(bytes) => Ok(laid_over(&values::decode_journal_page(&key, &bytes)?, page)),
            None => Ok(page.clone()),
        }
    }

    /// Up to `limit` extents that overlap `range`, ascending and whole.
    pub(super) fn overlapping(&mut self, ino: Ino, range: &Range<u64>, limit: usize) -> Result<Vec<Extent>, MetaError> {
        // An extent ends after the first byte of the range: keys hold the ends.
        let keys = after(of_ino(Table::Extent, ino), Some(Key::Extent(ino, range.start)));
        let mut found = Vec::new();
        for (key, value) in self.scan(&keys, limit)? {
            let extent = parse_extent(&key, &value)?;
            if extent.file_offset >= range.end {
                break;
            }
            found.push(extent);
        }
        Ok(found)
    }

    /// Removes what lies in `range`; looks at no more than `limit` extents. Returns up to where it came, which is the
    /// range's end if nothing more lies in it.
    pub(super) fn cut_extents(
        &mut self,
        ino: Ino,
        range: Range<u64>,
        limit: usize,
        changes: &mut Changes,
    ) -> Result<u64, MetaError> {
        let mut extents = self.overlapping(ino, &range, limit + 1)?;
        let reached = if extents.len() > limit { extents[limit].file_offset } else { range.end };
        extents.truncate(limit);
        for extent in extents {
            let Some(gone) = clip(&extent, &(range.start..reached)) else { continue };
            self.remove(Key::Extent(ino, extent.end()));
            for rest in [0..range.start, reached..u64::MAX] {
                if let Some(rest) = clip(&extent, &rest) {
                    let (key, value) = values::extent(ino, &rest);
                    self.put(key, value);
                }
            }
            changes.gain(&gone, -1);
            // The file still uses the segment of an extent that was only shortened.
            if gone == extent {
                changes.left.insert(gone.segment);
            }
        }
        Ok(reached)
    }

    /// Lays `extent` over what is there, or the beginning of it where too much lies under it. Returns up to which file
    /// offset.
    pub(super) fn place_extent(&mut self, ino: Ino, extent: &Extent, changes: &mut Changes) -> Result<u64, MetaError> {
        let reached = self.cut_extents(ino, extent.file_offset..extent.end(), CUT_PAIRS, changes)?;
        if let Some(placed) = clip(extent, &(extent.file_offset..reached)) {
            let (key, value) = values::extent(ino, &placed);
            self.put(key, value);
            self.put(Key::UsedBy(placed.segment, ino), values::mark());
            changes.gain(&placed, 1);
        }
        Ok(reached)
    }

    /// Removes journaled bytes in `range`; looks at no more than `limit` pages and returns up to where it came.
    pub(super) fn cut_journal(&mut self, ino: Ino, range: Range<u64>, limit: usize) -> Result<u64, MetaError> {
        let first = Key::Journal(ino, range.start / PAGE_BYTES).encode();
        let keys = first..of_ino(Table::Journal, ino).end;
        for (count, (key, value)) in self.scan(&keys, limit + 1)?.into_iter().enumerate() {
            let page = parse_page(&key, &value)?;
            let begins = page.page * PAGE_BYTES;
            if begins >= range.end {
                break;
            }
            if count == limit {
                return Ok(begins);
            }
            let rest = trim_page(&page, &range);
            if rest.ranges.is_empty() {
                self.remove(Key::Journal(ino, page.page));
            } else if rest != page {
                self.put(Key::Journal(ino, page.page), values::journal_page(&rest));
            }
        }
        Ok(range.end)
    }

    /// Takes off a journaled page what these extents, ascending and cut to the file's size, lie under.
    pub(super) fn cover_page(&mut self, ino: Ino, page: u64, extents: &[Extent], size: u64) -> Result<(), MetaError> {
        let key = Key::Journal(ino, page);
        let Some(bytes) = self.get(key)? else { return Ok(()) };
        let held = values::decode_journal_page(&key, &bytes)?;
        let range = page * PAGE_BYTES..((page + 1) * PAGE_BYTES).min(size);
        let first = extents.partition_point(|extent| extent.end() <= range.start);
        let mut rest = held.clone();
        for extent in extents[first..].iter().map_while(|extent| clip(extent, &range)) {
            rest = trim_page(&rest, &(extent.file_offset..extent.end()));
        }
        if rest.ranges.is_empty() {
            self.remove(key);
        } else if rest != held {
            self.put(key, values::journal_page(&rest));
        }
        Ok(())
    }

    /// Forgets that `ino` uses the segments it lost extents of in this transaction, where it is easily seen. Call once
    /// for each file, before [`Self::settle`].
    pub(super) fn forget_users(&mut self, ino: Ino, changes: &mut Changes) -> Result<(), MetaError> {
        let left = std::mem::take(&mut changes.left);
        if left.is_empty() {
            return Ok(());
        }
        let remaining = self.overlapping(ino, &(0..u64::MAX), FEW_EXTENTS)?;
        if remaining.len() == FEW_EXTENTS {
            return Ok(());
        }
        for segment in left {
            if remaining.iter().all(|extent| extent.segment != segment) {
                self.remove(Key::UsedBy(segment, ino));
            }
        }
        Ok(())
    }

    /// Writes the live bytes of all segments that changed, and buries those that nothing refers to any more, but for
    /// those to `keep`: more extents of theirs come in a later transaction of the same operation.
    pub(super) fn settle(
        &mut self,
        changes: Changes,
        keep: impl Fn(SegmentId) -> bool,
        now_ms: u64,
    ) -> Result<(), MetaError> {
        let mut total = 0;
        for (segment, change) in changes.live {
            let key = Key::Live(segment);
            let wrong = || damaged(&key, "it counts less than files refer to");
            let live = self.live(segment)?.unwrap_or(0).checked_add_signed(change).ok_or_else(wrong)?;
            total += change;
            if live == 0 && !keep(segment) {
                self.bury(segment, now_ms)?;
            } else {
                self.put(key, values::number(live));
            }
        }
        self.change_usage(0, total);
        Ok(())
    }

    /// The segment's live bytes; `None` if it is dead or was never made.
    pub(super) fn live(&mut self, segment: SegmentId) -> Result<Option<u64>, MetaError> {
        let key = Key::Live(segment);
        self.get(key)?.map(|bytes| values::decode_number(&key, &bytes)).transpose()
    }

    /// Is it dead, and not dropped yet?
    pub(super) fn is_buried(&mut self, segment: SegmentId) -> Result<bool, MetaError> {
        Ok(self.get(Key::UnreferencedSegment(segment))?.is_some())
    }

    /// Writes a new segment's records, unless an earlier transaction did: live, with 0 bytes yet.
    pub(super) fn introduce(&mut self, segment: SegmentId, record: &SegmentRecord) -> Result<(), MetaError> {
        if self.live(segment)?.is_some() {
            return Ok(());
        }
        if self.is_buried(segment)? {
            return Err(MetaError::SegmentChanged(segment));
        }
        self.make_segment(segment, record)?;
        self.put(Key::Live(segment), values::number(0));
        Ok(())
    }

    /// The record and the indices that follow from it.
    pub(super) fn put_segment(&mut self, segment: SegmentId, record: &SegmentRecord) -> Result<(), MetaError> {
        self.put(Key::Segment(segment), record.encode());
        for location in record.shards.iter().flatten() {
            self.put(Key::OnNode(location.node, segment), values::mark());
        }
        if record.shards.iter().any(Option::is_none) && self.get(Key::Damaged(segment))?.is_none() {
            self.put(Key::Damaged(segment), DamageRecord::suspicion().encode());
        }
        Ok(())
    }

    /// A segment that nothing refers to is dead for good: the collector may have it.
    pub(super) fn bury(&mut self, segment: SegmentId, now_ms: u64) -> Result<(), MetaError> {
        self.remove(Key::Live(segment));
        self.put(Key::UnreferencedSegment(segment), values::number(now_ms));
        let limit = SWEEP_UNTIL_KEYS.saturating_sub(self.write_count()).min(SWEPT_USERS);
        for (key, _) in self.scan(&users_of(segment), limit)? {
            if let Some(key) = Key::parse(&key) {
                self.remove(key);
            }
        }
        Ok(())
    }
}

pub(crate) fn parse_extent(key: &[u8], value: &[u8]) -> Result<Extent, MetaError> {
    let key = Key::parse(key).ok_or_else(|| unreadable(key))?;
    values::decode_extent(&key, value)
}

pub(super) fn parse_page(key: &[u8], value: &[u8]) -> Result<JournalPage, MetaError> {
    let key = Key::parse(key).ok_or_else(|| unreadable(key))?;
    values::decode_journal_page(&key, value)
}

fn unreadable(key: &[u8]) -> MetaError {
    MetaError::Damaged { key: crate::keys::printable(key), detail: "it is no key of this format".into() }
}

#[cfg(test)]
#[path = "mapping_tests.rs"]
mod tests;
