//! What a check holds of all inodes and segments: an entry of fixed size for each, in the order of their tables.

use weft_format::records::{Attributes, Kind};
use weft_format::{Ino, SegmentId};

/// Entries that have their memory together: it is never moved, as that of one long vector is while it grows, which takes it twice.
const CHUNK: usize = if cfg!(test) { 4 } else { 1 << 16 };

/// Entries by ascending key.
pub(super) struct Column<T> {
    /// All but the last are full.
    chunks: Vec<Vec<T>>,
}

/// An entry that has a key.
pub(super) trait Keyed: Copy {
    type Key: Ord + Copy;
    fn key(&self) -> Self::Key;
}

impl<T: Keyed> Column<T> {
    pub fn new() -> Self {
        Self { chunks: Vec::new() }
    }

    /// Adds the entry of a key above all others.
    pub fn push(&mut self, entry: T) {
        debug_assert!(self.last().is_none_or(|last| last < entry.key()), "tables are read in the order of keys");
        match self.chunks.last_mut().filter(|chunk| chunk.len() < CHUNK) {
            Some(chunk) => chunk.push(entry),
            None => {
                let mut chunk = Vec::with_capacity(CHUNK);
                chunk.push(entry);
                self.chunks.push(chunk);
            }
        }
    }

    pub fn len(&self) -> usize {
        self.chunks.last().map_or(0, |last| (self.chunks.len() - 1) * CHUNK + last.len())
    }

    pub fn last(&self) -> Option<T::Key> {
        self.chunks.last()?.last().map(Keyed::key)
    }

    /// The number of an entry, in the order of keys.
    pub fn place(&self, key: T::Key) -> Option<usize> {
        let chunk = self.chunks.partition_point(|chunk| chunk[0].key() <= key).checked_sub(1)?;
        let within = self.chunks[chunk].binary_search_by_key(&key, Keyed::key).ok()?;
        Some(chunk * CHUNK + within)
    }

    /// The entry of this number.
    pub fn at(&self, place: usize) -> T {
        self.chunks[place / CHUNK][place % CHUNK]
    }

    pub fn has(&self, key: T::Key) -> bool {
        self.place(key).is_some()
    }

    pub fn get(&self, key: T::Key) -> Option<T> {
        self.place(key).map(|place| self.at(place))
    }

    pub fn get_mut(&mut self, key: T::Key) -> Option<&mut T> {
        self.place(key).map(|place| &mut self.chunks[place / CHUNK][place % CHUNK])
    }

    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.chunks.iter().flatten()
    }
}

/// What is held of an inode: 48 bytes.
#[derive(Clone, Copy)]
pub(super) struct Inode {
    pub ino: Ino,
    pub kind: Kind,
    /// Of a directory the parent that its record names, of anything else its size.
    stored: u64,
    pub nlink: u32,
    /// Names that lead to it.
    pub names: u32,
    /// The directory of the last of them.
    pub parent: Ino,
    pub subdirectories: u32,
    /// It is a directory with names.
    pub has_children: bool,
    /// It has no name and is kept for a while.
    pub is_kept: bool,
    /// It waits for reclaim.
    pub is_queued: bool,
    /// Bytes that its record counts, less those of the extents read so far; below 0 it wraps.
    pub unseen_bytes: u64,
}

impl Inode {
    pub fn new(ino: Ino, record: &Attributes) -> Self {
        Self {
            ino,
            kind: record.kind,
            stored: if record.kind == Kind::Directory { record.parent.0 } else { record.size },
            nlink: record.nlink,
            names: 0,
            parent: ino,
            subdirectories: 0,
            has_children: false,
            is_kept: false,
            is_queued: false,
            unseen_bytes: record.allocated_bytes,
        }
    }

    pub fn is_directory(&self) -> bool {
        self.kind == Kind::Directory
    }

    /// The parent that the record of a directory names.
    pub fn stored_parent(&self) -> Option<Ino> {
        self.is_directory().then_some(Ino(self.stored))
    }

    /// The size of a file.
    pub fn file_size(&self) -> Option<u64> {
        (self.kind == Kind::File).then_some(self.stored)
    }

    /// Does something lead to it, or from it?
    pub fn is_in_tree(&self) -> bool {
        self.names > 0 || self.has_children
    }
}

impl Keyed for Inode {
    type Key = Ino;
    fn key(&self) -> Ino {
        self.ino
    }
}

/// What is held of a segment: 40 bytes.
#[derive(Clone, Copy)]
pub(super) struct Segment {
    /// Its id, in bytes: a number of 16 bytes would have the entry padded to 48.
    id: [u8; 16],
    pub data_bytes: u64,
    /// Bytes that extents refer to.
    pub live_bytes: u64,
    pub is_in_trash: bool,
}

impl Segment {
    pub fn new(segment: SegmentId, data_bytes: u64, is_in_trash: bool) -> Self {
        Self { id: segment.to_bytes(), data_bytes, live_bytes: 0, is_in_trash }
    }
}

impl Keyed for Segment {
    type Key = SegmentId;
    fn key(&self) -> SegmentId {
        SegmentId::from_bytes(self.id)
    }
}

/// The documentation of `fsck.rs` and the target of its memory depend on these.
const _: () = assert!(size_of::<Inode>() == 48 && size_of::<Segment>() == 40);
