//! The values that go into and come out of the store's operations.

use weft_format::records::{
    Attributes, DamageRecord, Kind, NodeRecord, PlacementRule, SegmentRecord, SumsRecord, Timestamp,
};
use weft_format::{Ino, NodeId, SegmentId};

/// The extended attribute that gives an executable file capabilities.
pub const CAPABILITY_XATTR: &[u8] = b"security.capability";

/// How a process opens a volume's metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// The one process that may change names, inodes and extents (a mount, `weft put`). Held by an advisory lock that
    /// dies with the process.
    Owner,
    /// The same for one change: whoever wants to be the owner waits so long.
    ShortLived,
    /// One of several processes that change names, inodes and extents together, where the engine has sessions. They and an owner exclude each
    /// other.
    Member,
    /// Reads everything; changes only nodes and segment records (care, status, info). Any number at once, also beside an owner.
    Shared,
}

/// A run of a file's bytes in a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Offset in the file.
    pub file_offset: u64,
    /// Length in bytes; never 0.
    pub length: u64,
    /// The segment that holds them.
    pub segment: SegmentId,
    /// Offset in the segment's data.
    pub segment_offset: u64,
}

impl Extent {
    /// Where the run ends in the file. Only of an extent that is within a file and its segment.
    pub fn end(&self) -> u64 {
        self.file_offset + self.length
    }
}

/// A run of a file's bytes that was copied to a new segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExtentMove {
    /// The file.
    pub ino: Ino,
    /// Where the bytes lay when they were read.
    pub from: Extent,
    /// Where the copy lies: the same file offset and length.
    pub to: Extent,
}

/// What a new inode starts as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewInode {
    /// File, directory, ...
    pub kind: Kind,
    /// Permission bits, setuid, setgid and sticky; the umask already applied.
    pub mode: u16,
    /// Owner.
    pub uid: u32,
    /// Group; the store applies the parent's setgid rule.
    pub gid: u32,
    /// Device number of a device node, else 0.
    pub rdev: u32,
    /// A symbolic link's target, else empty.
    pub symlink_target: Vec<u8>,
}

/// Attributes to change; `None` stays. The store does not decide permissions or suid clearing: its caller does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetAttributes {
    /// Permission bits.
    pub mode: Option<u16>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Access time.
    pub atime: Option<Timestamp>,
    /// Modification time.
    pub mtime: Option<Timestamp>,
    /// Change time (always set by callers that change anything).
    pub ctime: Option<Timestamp>,
    /// [`CAPABILITY_XATTR`] is removed, if there is one.
    pub removes_capability: bool,
}

/// One directory entry, as listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Position in the listing; a later listing continues after it, whatever was added or removed meanwhile.
    pub cookie: u64,
    /// Its name.
    pub name: Vec<u8>,
    /// The inode's attributes.
    pub attributes: Attributes,
}

/// A directory, or a part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    /// The directory itself.
    pub directory: Attributes,
    /// Entries, ascending by cookie.
    pub entries: Vec<Entry>,
}

/// Whose an inode is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
}

/// The flags of renameat2(2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RenameFlags {
    /// Fail if the target exists.
    pub no_replace: bool,
    /// Swap the two names.
    pub exchange: bool,
    /// Leave a whiteout (character device 0:0) of this owner in the old place.
    pub whiteout: Option<Owner>,
}

/// What an unlink left behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnlinkOutcome {
    /// The inode, after the change (`nlink` may be 0: it is then an orphan until [`crate::store::Store::reclaim`], or kept).
    pub attributes: Attributes,
    /// Has it no name any more, and is kept for a while to be brought back?
    pub is_kept: bool,
}

/// What was deleted and can be brought back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deleted {
    /// The inode, without a name.
    pub attributes: Attributes,
    /// When it was deleted, milliseconds since the Unix epoch.
    pub deleted_ms: u64,
    /// The directory that it was in, which may be deleted too.
    pub parent: Ino,
    /// Its name there.
    pub name: Vec<u8>,
}

/// What a rename did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RenameOutcome {
    /// The inode that moved.
    pub moved: Ino,
    /// What became of the inode that the target name had before, if it was replaced.
    pub replaced: Option<UnlinkOutcome>,
    /// The inode that has its name now, if the two were exchanged.
    pub exchanged: Option<Ino>,
}

/// What a file has in a range, all of one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileData {
    /// Where the whole file ends.
    pub size: u64,
    /// Within the range and the file, ascending; what they leave out is holes.
    pub extents: Vec<Extent>,
    /// Bytes that lie over them, by where they begin in the file; within the range and the file.
    pub journaled: Vec<(u64, Vec<u8>)>,
}

/// The node table at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Roster {
    /// How often it was changed.
    pub changes: u64,
    /// All nodes, by id.
    pub nodes: Vec<(NodeId, NodeRecord)>,
    /// What the volume wants of the places of shards.
    pub rule: PlacementRule,
}

/// What a volume holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Statistics {
    /// Inodes, those that wait for reclaim included.
    pub inodes: u64,
    /// Bytes that files refer to; redundancy, dead bytes and the journal not counted.
    pub live_bytes: u64,
}

/// How to set an extended attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XattrMode {
    /// Create or replace.
    Any,
    /// It must not exist.
    Create,
    /// It must exist.
    Replace,
}

/// A segment, and what is counted and noted of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SurveyedSegment {
    /// Its id.
    pub segment: SegmentId,
    /// Its record.
    pub record: SegmentRecord,
    /// Bytes that files refer to; 0: it is dead.
    pub live_bytes: u64,
    /// What was noted of its shards; `None`: nothing was.
    pub damage: Option<DamageRecord>,
}

/// Sums over all segments, as of one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summed {
    /// Over all that have a record, dead ones included.
    pub sums: SumsRecord,
    /// Those that were to be looked at one by one, by id. They are in the sums, too.
    pub apart: Vec<SurveyedSegment>,
    /// The first of those on a node that are not among them, by id.
    pub listed: Vec<SegmentId>,
}

/// Dirty bytes within one 4 KiB page of a file that a small fsync made durable in metadata until they are packed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalPage {
    /// Page number (offset / 4096).
    pub page: u64,
    /// (start within the page, bytes), ascending, not touching.
    pub ranges: Vec<(u16, Vec<u8>)>,
}

impl JournalPage {
    /// Bytes of a file that one page covers.
    pub const BYTES: u64 = 4096;

    /// Where its last byte ends in the file; where the page begins if it has none.
    pub fn end(&self) -> u64 {
        let within = self.ranges.last().map_or(0, |(start, bytes)| u64::from(*start) + bytes.len() as u64);
        self.page * Self::BYTES + within
    }
}

/// What one metadata transaction says of one file after its data became durable in segments (or in the journal).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileCommit {
    /// The file. If it is gone by now the change is skipped and its bytes in the segments are dead.
    pub ino: Ino,
    /// New extents, ascending, not overlapping; they replace whatever lay under them.
    pub extents: Vec<Extent>,
    /// The file's size after the change; what extents and journal pages have beyond it is cut off. Of a shared file: its least size.
    pub size: u64,
    /// Its modification and change time after the change.
    pub mtime: Timestamp,
    /// See `mtime`.
    pub ctime: Timestamp,
    /// Set-user-id and set-group-id bits are cleared (a write by somebody without the right to keep them): new mode.
    pub mode: Option<u16>,
    /// Journal pages to write; each replaces what was journaled of its page. Of a shared file each lies over it.
    pub journal: Vec<JournalPage>,
    /// Journal pages that may hold bytes under the extents. They lose these, and nothing else: what the extents do not cover
    /// is durable nowhere but there.
    pub journal_under: Vec<u64>,
    /// The modification time that this process knew of a file that others change, too; `None`: nobody else does. Where another has committed
    /// since, the file gets a later time than both, which no kernel has seen with other bytes. Such a file never shrinks by a commit, its ctime
    /// does not go back, and what is journaled under the extents goes, of every writer.
    pub known_mtime: Option<Timestamp>,
}

impl FileCommit {
    /// Do other processes change the file, too?
    pub fn is_shared(&self) -> bool {
        self.known_mtime.is_some()
    }
}

/// Who may make policies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyMaker {
    /// Root, or who runs the volume.
    Administrator,
    /// Anybody else.
    User,
}
