//! How written data becomes visible: new segments, new extents, sizes and times, the journal; and how compaction moves
//! extents to new segments.
//!
//! Both go through their input with a cursor, as far as one transaction should, and again from there. Until the last
//! transaction a file is as if its first extents only had been written.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use weft_env::planted::{Planted, has_planted};
use weft_format::SegmentId;
use weft_format::records::{Attributes, Kind, SegmentRecord, Timestamp};

use super::mapping::{CUT_PAIRS, Changes, clip};
use super::txn::Txn;
use super::values::{self, page_is_sound};
use super::{Store, milliseconds};
use crate::MetaError;
use crate::keys::Key;
use crate::types::{Extent, ExtentMove, FileCommit, JournalPage};

/// Largest file, as everywhere on Linux.
pub(super) const MAX_FILE_BYTES: u64 = i64::MAX as u64;

/// Extents and pages beyond a new size that go with a commit. A commit is not meant to shrink a file: truncate does.
const SHRUNK_PAIRS: usize = 64;

/// Read at once before a commit: the inodes of as many files as one transaction has, about.
const FETCHED_KEYS: usize = 100;

/// The new segments of one operation.
pub(super) struct NewSegments<'a> {
    pub(super) records: BTreeMap<SegmentId, &'a SegmentRecord>,
}

impl<'a> NewSegments<'a> {
    pub(super) fn new(segments: &'a [(SegmentId, SegmentRecord)]) -> Self {
        NewSegments { records: segments.iter().map(|(segment, record)| (*segment, record)).collect() }
    }

    /// Refuses an extent that cannot be.
    fn check(&self, extent: &Extent) -> Result<(), MetaError> {
        let end = extent.file_offset.checked_add(extent.length).filter(|end| *end <= MAX_FILE_BYTES);
        if end.is_none() {
            return Err(MetaError::TooLarge);
        }
        let data_bytes = self.records.get(&extent.segment).map_or(u64::MAX, |record| record.geometry.data_bytes);
        let inside = extent.segment_offset.checked_add(extent.length).is_some_and(|end| end <= data_bytes);
        if extent.length == 0 || !inside {
            return Err(MetaError::Invalid { what: "an extent is empty or ends beyond its segment" });
        }
        Ok(())
    }

    /// Makes sure that `segment` may be referred to: it is new, or alive.
    pub(super) fn require(&self, txn: &mut Txn<'_>, segment: SegmentId) -> Result<(), MetaError> {
        match self.records.get(&segment) {
            Some(record) => txn.introduce(segment, record),
            None if txn.live(segment)?.is_some() => Ok(()),
            None => Err(MetaError::SegmentChanged(segment)),
        }
    }

    /// Buries those from `*index` on that nothing came to refer to.
    pub(super) fn finish(
        &self,
        txn: &mut Txn<'_>,
        index: &mut usize,
        used: &BTreeSet<SegmentId>,
        now_ms: u64,
    ) -> Result<bool, MetaError> {
        for (segment, record) in self.records.iter().skip(*index) {
            if txn.is_full(0) {
                return Ok(false);
            }
            match txn.live(*segment)? {
                Some(0) => txn.bury(*segment, now_ms)?,
                // One that is buried was so by a commit like this, which is repeated.
                None if !used.contains(segment) && !txn.is_buried(*segment)? => {
                    txn.make_segment(*segment, record)?;
                    txn.bury(*segment, now_ms)?;
                }
                _ => {}
            }
            *index += 1;
        }
        Ok(true)
    }
}

/// How far a commit has come: counts of what is done. A compaction counts its moves as extents.
#[derive(Clone, Default)]
pub(super) struct Cursor {
    files: usize,
    extents: usize,
    /// Up to which file offset the extent at hand is placed.
    placed_to: u64,
    covered: usize,
    pages: usize,
    finished: usize,
    used: BTreeSet<SegmentId>,
}

impl Store {
    /// Makes written data visible: the new segments' records, then each file's extents (over whatever lay there), size,
    /// times, mode and journal. Atomic for ordinary sizes; beyond some hundreds of extents or segments in several
    /// transactions, each of which leaves everything consistent. May be repeated as it is after an error.
    ///
    /// A file that is gone is skipped; a new segment that nothing comes to refer to goes to the trash at once. An
    /// extent may also refer to an older segment that is still alive.
    ///
    /// # Errors
    /// `Invalid`, `TooLarge` (nothing is applied); `IsDirectory`; `SegmentChanged` (an extent refers to a segment that
    /// is neither new nor alive).
    pub fn commit_files(
        &self,
        segments: &[(SegmentId, SegmentRecord)],
        files: &[FileCommit],
        now: Timestamp,
    ) -> Result<(), MetaError> {
        let segments = NewSegments::new(segments);
        for file in files {
            check_commit(file, &segments)?;
        }
        let mut cursor = Cursor::default();
        // What only goes to the journal, as a small fsync, needs no scan.
        let has_extents = files.iter().any(|file| !file.extents.is_empty());
        loop {
            let step = |txn: &mut Txn<'_>| {
                let mut cursor = cursor.clone();
                let done = commit_step(txn, &segments, files, &mut cursor, milliseconds(now))?;
                Ok((cursor, done))
            };
            let (reached, done) = if has_extents { self.transact(step)? } else { self.transact_by_key(step)? };
            if done {
                return Ok(());
            }
            cursor = reached;
        }
    }

    /// Lets files refer to copies of their bytes in new segments. Every byte that still lies where it was copied from
    /// is moved, every other stays where it is. Returns how many bytes were moved. Pass all moves into a new segment at
    /// once: one that nothing comes to refer to goes to the trash.
    ///
    /// # Errors
    /// `Invalid`, `TooLarge` (nothing is applied), `SegmentChanged` as [`Store::commit_files`].
    pub fn move_extents(
        &self,
        moves: &[ExtentMove],
        new_segments: &[(SegmentId, SegmentRecord)],
        now: Timestamp,
    ) -> Result<u64, MetaError> {
        let segments = NewSegments::new(new_segments);
        check_moves(moves, &segments)?;
        let mut cursor = Cursor::default();
        let mut moved_bytes = 0;
        loop {
            let (reached, bytes, done) = self.transact(|txn| {
                let mut cursor = cursor.clone();
                let mut bytes = 0;
                let done = move_step(txn, &segments, moves, &mut cursor, &mut bytes, milliseconds(now))?;
                Ok((cursor, bytes, done))
            })?;
            moved_bytes += bytes;
            if done {
                return Ok(moved_bytes);
            }
            cursor = reached;
        }
    }
}

pub(super) fn check_moves(moves: &[ExtentMove], segments: &NewSegments<'_>) -> Result<(), MetaError> {
    for step in moves {
        segments.check(&step.from)?;
        segments.check(&step.to)?;
        if (step.from.file_offset, step.from.length) != (step.to.file_offset, step.to.length) {
            return Err(MetaError::Invalid { what: "a moved extent keeps its offset and length in the file" });
        }
    }
    Ok(())
}

fn check_commit(file: &FileCommit, segments: &NewSegments<'_>) -> Result<(), MetaError> {
    if file.size > MAX_FILE_BYTES {
        return Err(MetaError::TooLarge);
    }
    let mut free_from = 0;
    for extent in &file.extents {
        segments.check(extent)?;
        if extent.file_offset < free_from {
            return Err(MetaError::Invalid { what: "extents of a commit are ascending and do not overlap" });
        }
        free_from = extent.end();
    }
    if !file.journal.iter().all(page_is_sound) {
        return Err(MetaError::Invalid { what: "a journal page's ranges are ascending, apart, and within 4096 bytes" });
    }
    if file.journal.iter().any(|page| page.page > MAX_FILE_BYTES / values::PAGE_BYTES) {
        return Err(MetaError::TooLarge);
    }
    Ok(())
}

/// Goes on from `cursor` as far as one transaction should. True if nothing is left to do.
fn commit_step(
    txn: &mut Txn<'_>,
    segments: &NewSegments<'_>,
    files: &[FileCommit],
    cursor: &mut Cursor,
    now_ms: u64,
) -> Result<bool, MetaError> {
    let mut changes = Changes::default();
    let mut room = true;
    fetch_files(txn, &files[cursor.files..])?;
    while room && let Some(file) = files.get(cursor.files) {
        if let Some(mut attributes) = txn.find_inode(file.ino)? {
            room = commit_file(txn, segments, file, &mut attributes, cursor, &mut changes)?;
        }
        if room {
            let used = std::mem::take(&mut cursor.used);
            *cursor = Cursor { files: cursor.files + 1, used, ..Cursor::default() };
            room = cursor.files == files.len() || !txn.is_full(changes.pending_keys());
        }
    }
    txn.settle(changes, |segment| segments.records.contains_key(&segment), now_ms)?;
    if !room {
        return Ok(false);
    }
    let Cursor { finished, used, .. } = cursor;
    segments.finish(txn, finished, used, now_ms)
}

/// Brings what of these files is read by key in one go: all of it, where they are few.
fn fetch_files(txn: &mut Txn<'_>, files: &[FileCommit]) -> Result<(), MetaError> {
    let keys = files.iter().flat_map(|file| {
        // What others have journaled is laid under what comes.
        let pages = if file.is_shared() { &file.journal[..] } else { &[] };
        let pages = pages.iter().map(|page| Key::Journal(file.ino, page.page));
        std::iter::once(Key::Inode(file.ino)).chain(pages)
    });
    let keys: Vec<Key<'_>> = keys.take(FETCHED_KEYS).collect();
    if keys.len() < 2 { Ok(()) } else { txn.fetch(&keys, &[]) }
}

/// Commits one file, or as much as there is room for: true if all of it.
fn commit_file(
    txn: &mut Txn<'_>,
    segments: &NewSegments<'_>,
    file: &FileCommit,
    attributes: &mut Attributes,
    cursor: &mut Cursor,
    changes: &mut Changes,
) -> Result<bool, MetaError> {
    match attributes.kind {
        Kind::File => {}
        Kind::Directory => return Err(MetaError::IsDirectory),
        _ => return Err(MetaError::Invalid { what: "only a file has extents" }),
    }
    let size = if file.is_shared() { file.size.max(attributes.size) } else { file.size };
    if size < attributes.size {
        let beyond = size..u64::MAX;
        let reached = [
            txn.cut_extents(file.ino, beyond.clone(), SHRUNK_PAIRS, changes)?,
            txn.cut_journal(file.ino, beyond, SHRUNK_PAIRS)?,
        ];
        if reached != [u64::MAX; 2] {
            return Err(MetaError::Invalid { what: "a commit does not shrink a large file; truncate it" });
        }
        attributes.size = size;
    }
    let done = place_all(txn, segments, (file, size), attributes, cursor, changes)?
        && journal_all(txn, (file, size), attributes, cursor, changes)?;
    if done {
        attributes.size = size;
    }
    attributes.mode = file.mode.unwrap_or(attributes.mode);
    attributes.mtime = match file.known_mtime {
        Some(known) if known != attributes.mtime => file.mtime.max(attributes.mtime).next(),
        _ => file.mtime,
    };
    attributes.ctime = if file.is_shared() { file.ctime.max(attributes.ctime) } else { file.ctime };
    attributes.allocated_bytes = changes.take_allocated(file.ino, attributes.allocated_bytes)?;
    txn.put_inode(attributes);
    txn.forget_users(file.ino, changes)?;
    Ok(done)
}

fn place_all(
    txn: &mut Txn<'_>,
    segments: &NewSegments<'_>,
    (file, size): (&FileCommit, u64),
    attributes: &mut Attributes,
    cursor: &mut Cursor,
    changes: &mut Changes,
) -> Result<bool, MetaError> {
    while let Some(extent) = file.extents.get(cursor.extents) {
        // The size bounds the extents: what is beyond it would come to light when the file grows.
        let Some(extent) = clip(extent, &(0..size)) else {
            cursor.extents += 1;
            continue;
        };
        if txn.is_full(changes.pending_keys()) {
            return Ok(false);
        }
        segments.require(txn, extent.segment)?;
        cursor.used.insert(extent.segment);
        let range = extent.file_offset..extent.end();
        let uncovered_to = if file.is_shared() { txn.cut_journal(file.ino, range, CUT_PAIRS)? } else { range.end };
        // Where it lies over many old extents or pages it grows from transaction to transaction.
        cursor.placed_to = match clip(&extent, &(0..uncovered_to)) {
            Some(part) => txn.place_extent(file.ino, &part, changes)?,
            None => extent.file_offset,
        };
        attributes.size = attributes.size.max(cursor.placed_to);
        if cursor.placed_to == extent.end() {
            cursor.extents += 1;
        }
    }
    Ok(true)
}

fn journal_all(
    txn: &mut Txn<'_>,
    (file, size): (&FileCommit, u64),
    attributes: &mut Attributes,
    cursor: &mut Cursor,
    changes: &Changes,
) -> Result<bool, MetaError> {
    for page in file.journal_under.iter().skip(cursor.covered) {
        if txn.is_full(changes.pending_keys()) {
            return Ok(false);
        }
        if has_planted(Planted::JournalDroppedEarly) {
            txn.remove(Key::Journal(file.ino, *page));
        }
        txn.cover_page(file.ino, *page, &file.extents, size)?;
        cursor.covered += 1;
    }
    for page in file.journal.iter().skip(cursor.pages) {
        if txn.is_full(changes.pending_keys()) {
            return Ok(false);
        }
        let key = Key::Journal(file.ino, page.page);
        let page = page_within(page.clone(), size);
        // What goes to a segment meanwhile must be within the file.
        if !page.ranges.is_empty() {
            attributes.size = attributes.size.max(page.end());
        }
        let page = if file.is_shared() { txn.lay_over(file.ino, &page)? } else { page };
        if page.ranges.is_empty() {
            txn.remove(key);
        } else {
            txn.put(key, values::journal_page(&page));
        }
        cursor.pages += 1;
    }
    Ok(true)
}

/// The page without what lies beyond the file's size.
fn page_within(mut page: JournalPage, size: u64) -> JournalPage {
    let limit = size.saturating_sub(page.page * values::PAGE_BYTES);
    page.ranges.retain_mut(|(start, bytes)| {
        bytes.truncate(usize::try_from(limit.saturating_sub(u64::from(*start))).unwrap_or(usize::MAX));
        !bytes.is_empty()
    });
    page
}

pub(super) fn move_step(
    txn: &mut Txn<'_>,
    segments: &NewSegments<'_>,
    moves: &[ExtentMove],
    cursor: &mut Cursor,
    moved_bytes: &mut u64,
    now_ms: u64,
) -> Result<bool, MetaError> {
    let mut changes = Changes::default();
    let mut room = true;
    while let Some(step) = moves.get(cursor.extents) {
        if txn.is_full(changes.pending_keys()) {
            room = false;
            break;
        }
        let from = cursor.placed_to.max(step.from.file_offset);
        let reached = match txn.find_inode(step.ino)? {
            Some(_) => move_extent(txn, segments, step, from..step.from.end(), cursor, &mut changes, moved_bytes)?,
            None => step.from.end(),
        };
        txn.forget_users(step.ino, &mut changes)?;
        if reached == step.from.end() {
            cursor.extents += 1;
            cursor.placed_to = 0;
        } else {
            cursor.placed_to = reached;
        }
    }
    txn.settle(changes, |segment| segments.records.contains_key(&segment), now_ms)?;
    if !room {
        return Ok(false);
    }
    let Cursor { finished, used, .. } = cursor;
    segments.finish(txn, finished, used, now_ms)
}

/// Moves what of `range` still lies as `step.from` says, looking at a bounded number of extents; returns up to where.
fn move_extent(
    txn: &mut Txn<'_>,
    segments: &NewSegments<'_>,
    step: &ExtentMove,
    range: Range<u64>,
    cursor: &mut Cursor,
    changes: &mut Changes,
    moved_bytes: &mut u64,
) -> Result<u64, MetaError> {
    let mut extents = txn.overlapping(step.ino, &range, CUT_PAIRS + 1)?;
    let reached = if extents.len() > CUT_PAIRS { extents[CUT_PAIRS].file_offset } else { range.end };
    extents.truncate(CUT_PAIRS);
    for extent in extents {
        let (Some(current), Some(copied)) = (clip(&extent, &range), clip(&step.from, &range)) else { continue };
        let Some(copied) = clip(&copied, &(current.file_offset..current.end())) else { continue };
        if copied != current {
            continue;
        }
        if let Some(to) = clip(&step.to, &(current.file_offset..current.end())) {
            segments.require(txn, to.segment)?;
            cursor.used.insert(to.segment);
            txn.place_extent(step.ino, &to, changes)?;
            *moved_bytes += to.length;
        }
    }
    // A move changes no file: its allocated bytes are what they were.
    changes.take_allocated(step.ino, 0)?;
    Ok(reached)
}

#[cfg(test)]
#[path = "commit_tests.rs"]
mod tests;
