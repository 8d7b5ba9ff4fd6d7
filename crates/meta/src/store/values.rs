//! The values of the tables whose records belong to this crate alone: a version byte, then big-endian numbers.
//!
//! Symbolic link targets, extended attributes and job states are the caller's bytes as they are; inodes, segments,
//! nodes, policies and the volume are `weft_format::records`.

use weft_format::records::Kind;
use weft_format::{Ino, SegmentId};

use crate::MetaError;
use crate::keys::{Key, take};
use crate::locks::FileLock;
use crate::types::{Extent, JournalPage};

/// The only version of these values so far.
const VERSION: u8 = 1;

/// Longest name, as everywhere on Linux.
const MAX_NAME_BYTES: usize = 255;

/// Refuses a name that is too long to be one.
pub(crate) fn check_length(name: &[u8]) -> Result<(), MetaError> {
    if name.len() > MAX_NAME_BYTES { Err(MetaError::NameTooLong { bytes: name.len() }) } else { Ok(()) }
}

/// Refuses what cannot be the name of a directory entry.
pub(crate) fn check_name(name: &[u8]) -> Result<(), MetaError> {
    check_length(name)?;
    if name.is_empty() || name == b"." || name == b".." || name.iter().any(|byte| matches!(byte, b'/' | 0)) {
        return Err(MetaError::InvalidName);
    }
    Ok(())
}

/// Bytes of a file that one journal page covers.
pub(crate) const PAGE_BYTES: u64 = JournalPage::BYTES;

pub(crate) fn damaged(key: &Key<'_>, detail: impl ToString) -> MetaError {
    MetaError::Damaged { key: key.to_string(), detail: detail.to_string() }
}

/// The rest after a known version byte.
fn versioned<'a>(key: &Key<'_>, bytes: &'a [u8]) -> Result<&'a [u8], MetaError> {
    match bytes.split_first() {
        Some((&VERSION, rest)) => Ok(rest),
        Some((version, _)) => {
            Err(damaged(key, format!("it has version {version}, this program reads version {VERSION}")))
        }
        None => Err(damaged(key, "it is empty")),
    }
}

fn cut_short(key: &Key<'_>) -> MetaError {
    damaged(key, "its length is wrong")
}

/// The value of a key that says all there is to say.
pub(crate) fn mark() -> Vec<u8> {
    vec![VERSION]
}

/// Checks a [`mark`].
pub(crate) fn decode_mark(key: &Key<'_>, bytes: &[u8]) -> Result<(), MetaError> {
    if versioned(key, bytes)?.is_empty() { Ok(()) } else { Err(cut_short(key)) }
}

/// A segment's id: whose a shard of another name is.
pub(crate) fn segment(segment: SegmentId) -> Vec<u8> {
    let mut bytes = vec![VERSION];
    bytes.extend(segment.to_bytes());
    bytes
}

/// The inverse of [`segment`].
pub(crate) fn decode_segment(key: &Key<'_>, bytes: &[u8]) -> Result<SegmentId, MetaError> {
    let rest = versioned(key, bytes)?;
    Ok(SegmentId::from_bytes(rest.try_into().map_err(|_| cut_short(key))?))
}

/// A lone number: live bytes, a counter, the roster's count.
pub(crate) fn number(number: u64) -> Vec<u8> {
    let mut bytes = vec![VERSION];
    bytes.extend(number.to_be_bytes());
    bytes
}

/// The inverse of [`number`].
pub(crate) fn decode_number(key: &Key<'_>, bytes: &[u8]) -> Result<u64, MetaError> {
    let rest = versioned(key, bytes)?;
    Ok(u64::from_be_bytes(rest.try_into().map_err(|_| cut_short(key))?))
}

/// Where a name leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dirent {
    pub(crate) ino: Ino,
    pub(crate) kind: Kind,
    /// Its place in the listing.
    pub(crate) cookie: u64,
}

impl Dirent {
    /// Where in its encoding the inode's number is, as in keys.
    pub(crate) const INO: std::ops::Range<usize> = 2..10;

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![VERSION, self.kind.to_byte()];
        bytes.extend(self.ino.0.to_be_bytes());
        bytes.extend(self.cookie.to_be_bytes());
        bytes
    }

    pub(crate) fn decode(key: &Key<'_>, bytes: &[u8]) -> Result<Self, MetaError> {
        let mut rest = versioned(key, bytes)?;
        let mut parse = || Some((take::<1>(&mut rest)?, take(&mut rest)?, take(&mut rest)?, rest.is_empty()));
        let Some(([kind], ino, cookie, true)) = parse() else { return Err(cut_short(key)) };
        let kind = Kind::from_byte(kind).map_err(|error| damaged(key, error))?;
        Ok(Dirent { ino: Ino(u64::from_be_bytes(ino)), kind, cookie: u64::from_be_bytes(cookie) })
    }
}

/// Where in [`entry`]'s encoding the inode's number is, as in keys.
pub(crate) const ENTRY_INO: std::ops::Range<usize> = 1..9;

/// The value of a directory entry in listing order, and of a deleted inode that is kept: with the directory's number.
pub(crate) fn entry(ino: Ino, name: &[u8]) -> Vec<u8> {
    let mut bytes = vec![VERSION];
    bytes.extend(ino.0.to_be_bytes());
    bytes.extend(name);
    bytes
}

/// The inverse of [`entry`]. A name that no directory can have is damage: whoever uses it as a step of a path would end elsewhere.
pub(crate) fn decode_entry<'a>(key: &Key<'_>, bytes: &'a [u8]) -> Result<(Ino, &'a [u8]), MetaError> {
    let mut rest = versioned(key, bytes)?;
    let ino = take(&mut rest).ok_or_else(|| cut_short(key))?;
    check_name(rest).map_err(|_| damaged(key, format!("`{}` cannot be a name", rest.escape_ascii())))?;
    Ok((Ino(u64::from_be_bytes(ino)), rest))
}

/// The key and the value of an extent of `ino`.
pub(crate) fn extent(ino: Ino, extent: &Extent) -> (Key<'static>, Vec<u8>) {
    let mut bytes = vec![VERSION];
    bytes.extend(extent.length.to_be_bytes());
    bytes.extend(extent.segment.to_bytes());
    bytes.extend(extent.segment_offset.to_be_bytes());
    (Key::Extent(ino, extent.end()), bytes)
}

/// The inverse of [`extent`].
pub(crate) fn decode_extent(key: &Key<'_>, bytes: &[u8]) -> Result<Extent, MetaError> {
    let Key::Extent(_, end) = *key else { return Err(damaged(key, "it is no extent")) };
    let mut rest = versioned(key, bytes)?;
    let mut parse = || Some((take(&mut rest)?, take(&mut rest)?, take(&mut rest)?, rest.is_empty()));
    let Some((length, segment, segment_offset, true)) = parse() else { return Err(cut_short(key)) };
    let (length, segment_offset) = (u64::from_be_bytes(length), u64::from_be_bytes(segment_offset));
    let file_offset = end.checked_sub(length).ok_or_else(|| damaged(key, "it begins before the file"))?;
    if length == 0 || segment_offset.checked_add(length).is_none() {
        return Err(damaged(key, format!("its length is {length}")));
    }
    Ok(Extent { file_offset, length, segment: SegmentId::from_bytes(segment), segment_offset })
}

/// The value of a journal page: its ranges one after another, each with its start and length (16 bits both).
pub(crate) fn journal_page(page: &JournalPage) -> Vec<u8> {
    let mut bytes = vec![VERSION];
    for (start, range) in &page.ranges {
        bytes.extend(start.to_be_bytes());
        // A page has 4,096 bytes: `check_page` comes first.
        bytes.extend((range.len() as u16).to_be_bytes());
        bytes.extend(range);
    }
    bytes
}

/// The inverse of [`journal_page`].
pub(crate) fn decode_journal_page(key: &Key<'_>, bytes: &[u8]) -> Result<JournalPage, MetaError> {
    let Key::Journal(_, page) = *key else { return Err(damaged(key, "it is no journal page")) };
    let mut rest = versioned(key, bytes)?;
    let mut ranges = Vec::new();
    while !rest.is_empty() {
        let start = take(&mut rest).ok_or_else(|| cut_short(key))?;
        let length = usize::from(u16::from_be_bytes(take(&mut rest).ok_or_else(|| cut_short(key))?));
        let (range, tail) = rest.split_at_checked(length).ok_or_else(|| cut_short(key))?;
        ranges.push((u16::from_be_bytes(start), range.to_vec()));
        rest = tail;
    }
    let page = JournalPage { page, ranges };
    if page_is_sound(&page) { Ok(page) } else { Err(damaged(key, "its ranges overlap or leave the page")) }
}

/// Ranges within the page, ascending, not empty and not touching.
pub(crate) fn page_is_sound(page: &JournalPage) -> bool {
    let mut free_from = 0;
    page.ranges.iter().all(|(start, bytes)| {
        let start = u64::from(*start);
        let sound = start >= free_from && !bytes.is_empty();
        free_from = start + bytes.len() as u64 + 1;
        sound && free_from <= PAGE_BYTES + 1
    })
}

/// One lock's bytes: session, owner, pid, first, last, is exclusive.
const LOCK_BYTES: usize = 8 + 8 + 4 + 8 + 8 + 1;

pub(crate) fn locks(locks: &[FileLock]) -> Vec<u8> {
    let mut bytes = mark();
    for FileLock { session, owner, pid, first, last, is_exclusive } in locks {
        bytes.extend(session.to_be_bytes());
        bytes.extend(owner.to_be_bytes());
        bytes.extend(pid.to_be_bytes());
        bytes.extend(first.to_be_bytes());
        bytes.extend(last.to_be_bytes());
        bytes.push(u8::from(*is_exclusive));
    }
    bytes
}

/// The inverse of [`locks`].
pub(crate) fn decode_locks(key: &Key<'_>, bytes: &[u8]) -> Result<Vec<FileLock>, MetaError> {
    let rest = versioned(key, bytes)?;
    if !rest.len().is_multiple_of(LOCK_BYTES) {
        return Err(cut_short(key));
    }
    let lock = |mut bytes: &[u8]| {
        let bytes = &mut bytes;
        Some(FileLock {
            session: i64::from_be_bytes(take(bytes)?),
            owner: u64::from_be_bytes(take(bytes)?),
            pid: u32::from_be_bytes(take(bytes)?),
            first: u64::from_be_bytes(take(bytes)?),
            last: u64::from_be_bytes(take(bytes)?),
            is_exclusive: match take(bytes)? {
                [0] => false,
                [1] => true,
                _ => return None,
            },
        })
        .filter(|lock| lock.first <= lock.last)
    };
    let locks = rest.chunks_exact(LOCK_BYTES).map(lock).collect::<Option<_>>();
    locks.ok_or_else(|| damaged(key, "a lock of it is none"))
}

/// What the volume holds in all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    /// Inodes, orphans included.
    pub(crate) inodes: u64,
    /// Bytes that extents refer to.
    pub(crate) live_bytes: u64,
}

impl Usage {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![VERSION];
        bytes.extend(self.inodes.to_be_bytes());
        bytes.extend(self.live_bytes.to_be_bytes());
        bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, MetaError> {
        let mut rest = versioned(&Key::Usage, bytes)?;
        let mut parse = || Some((take(&mut rest)?, take(&mut rest)?, rest.is_empty()));
        let Some((inodes, live_bytes, true)) = parse() else { return Err(cut_short(&Key::Usage)) };
        Ok(Usage { inodes: u64::from_be_bytes(inodes), live_bytes: u64::from_be_bytes(live_bytes) })
    }
}

#[cfg(test)]
#[path = "values_tests.rs"]
mod tests;
