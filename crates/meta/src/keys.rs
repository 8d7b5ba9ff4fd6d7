//! Every key of the metadata store: one byte that names the table, then big-endian numbers and raw names, so that byte
//! order is the order each table is read in.
//!
//! | table | key | value | written by |
//! |---|---|---|---|
//! | volume | - | volume record | format |
//! | inode | ino | attributes | owner |
//! | dirent | parent, name | ino, kind, cookie | owner |
//! | entry | parent, cookie | ino, name: the listing order | owner |
//! | symlink | ino | target | owner |
//! | xattr | ino, name | value | owner |
//! | extent | ino, end offset | length, segment, segment offset; holes are absent | owner |
//! | journal | ino, page | byte ranges of the page that are not in a segment yet | owner |
//! | live | segment | bytes that extents refer to; gone when the segment is dead | owner |
//! | used-by | segment, ino | a file with extents there; may name too many files, never too few | owner |
//! | policy | policy id | policy record | owner |
//! | counter | which | first unused number; of policies: how often something was given one; of what is filed: a mark of the last commit | owner |
//! | usage | - | inodes and live bytes of the volume | owner |
//! | sums | - | by code: how many segments were made, their bytes, and how many are on each node | owner |
//! | openings | - | each time that an owner opened the volume, and who went on changing it; missing: nobody has | anybody |
//! | locks | ino | the locks of programs on a file, where several processes change the volume | owner |
//! | held | ino, session | this process has the file open, which has no name any more | owner |
//! | look | session | how often this process has looked which files without a name it has open | owner |
//! | segment | segment | segment record | owner makes it, care replaces it |
//! | on-node | node, segment | which segments have a shard there | owner, care |
//! | damaged | segment | waits for repair | owner, care |
//! | node | node | node record | anybody |
//! | roster | - | counts changes of the node table, so that two of them conflict | anybody |
//! | job | name | opaque state of a resumable job | anybody |
//! | placement | - | what the volume wants of the places of shards; missing: nothing | anybody |
//! | unreferenced | file: milliseconds of deletion, ino | the directory and name that it had: kept for a while | owner |
//! | | inode: ino | no name is left: waits for reclaim | owner |
//! | | segment: segment | since when no file refers to it | owner, care |
//! | | generation: segment, generation | shards of a previous record, retained for a while | owner, care |
//! | alias | segment, generation, index | whose the shard of this name is, where it is not the segment's in the name | owner makes it, care removes it |
//! | keep | - | for how many milliseconds deleted files are kept; missing: not at all | anybody |
//! | sum-changes | - | by code: what replacing and dropping segments changed in the sums | care |
//! | protection | - | an fsync waits until nodes have the metadata, too; missing: it does not | anybody |
//! | lease | name | who alone may do what it names now, and the term | anybody |
//!
//! Extents are keyed by where they *end*: engines scan upwards only, and the first key above an offset is then the
//! extent that covers it, or the next one.
//!
//! [`SHARED`] tells an engine which tables several processes write (openings, segment, on-node, damaged, node, roster, job, lease,
//! placement, keep, alias, protection, sum-changes, and of unreferenced what is not of inodes); all others are the owner's alone.
//!
//! What is unreferenced waits in one table, by kind. `weft_format::removal` says when it may go.

use std::fmt;
use std::ops::Range;

use weft_format::{Generation, Ino, NodeId, PolicyId, SegmentId, ShardIndex, ShardKey};

/// The tables. The number is the first byte of every key and lives as long as the format; shared ones are from 32 on, but for openings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
#[allow(missing_docs, reason = "the table at the top of the module says what each holds")]
pub enum Table {
    Volume = 1,
    Inode = 2,
    Dirent = 3,
    Entry = 4,
    Symlink = 5,
    Xattr = 6,
    Extent = 7,
    Journal = 8,
    Live = 10,
    UsedBy = 11,
    Policy = 12,
    Counter = 13,
    Usage = 14,
    Openings = 16,
    Locks = 17,
    Held = 18,
    Look = 19,
    Sums = 20,
    Segment = 32,
    OnNode = 33,
    Damaged = 34,
    Unreferenced = 35,
    Node = 36,
    Roster = 37,
    Job = 38,
    Lease = 40,
    Placement = 41,
    Keep = 43,
    Alias = 44,
    Protection = 45,
    SumChanges = 46,
}

impl Table {
    /// All of them, in key order.
    pub const ALL: [Table; 31] = [
        Table::Volume,
        Table::Inode,
        Table::Dirent,
        Table::Entry,
        Table::Symlink,
        Table::Xattr,
        Table::Extent,
        Table::Journal,
        Table::Live,
        Table::UsedBy,
        Table::Policy,
        Table::Counter,
        Table::Usage,
        Table::Openings,
        Table::Locks,
        Table::Held,
        Table::Look,
        Table::Sums,
        Table::Segment,
        Table::OnNode,
        Table::Damaged,
        Table::Unreferenced,
        Table::Node,
        Table::Roster,
        Table::Job,
        Table::Lease,
        Table::Placement,
        Table::Keep,
        Table::Alias,
        Table::Protection,
        Table::SumChanges,
    ];

    /// All keys of the table.
    pub fn range(self) -> Range<Vec<u8>> {
        within(vec![self as u8])
    }

    fn of(tag: u8) -> Option<Table> {
        Self::ALL.into_iter().find(|table| *table as u8 == tag)
    }
}

/// A range of keys that processes beside the owner change too (see [`crate::types::Access::Shared`]). All other keys are
/// the owner's alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedPrefix {
    /// Every key that begins with this.
    pub prefix: &'static [u8],
    /// Each key here names an id that is given out once and never again (a segment's, say), so nobody else can be making
    /// the key that the owner makes, and the owner need not wait until other processes know of it.
    pub fresh_ids: bool,
}

/// The kinds of what is unreferenced, as the second byte of their keys.
const FILES: u8 = 1;
const INODES: u8 = 2;
const SEGMENTS: u8 = 3;
const GENERATIONS: u8 = 4;

/// The tables that other processes than the owner write too. Segment ids are given out once.
pub const SHARED: &[SharedPrefix] = &[
    SharedPrefix { prefix: &[Table::Openings as u8], fresh_ids: false },
    SharedPrefix { prefix: &[Table::Segment as u8], fresh_ids: true },
    SharedPrefix { prefix: &[Table::OnNode as u8], fresh_ids: true },
    SharedPrefix { prefix: &[Table::Damaged as u8], fresh_ids: true },
    SharedPrefix { prefix: &[Table::Unreferenced as u8, SEGMENTS], fresh_ids: true },
    SharedPrefix { prefix: &[Table::Unreferenced as u8, GENERATIONS], fresh_ids: false },
    SharedPrefix { prefix: &[Table::Node as u8], fresh_ids: false },
    SharedPrefix { prefix: &[Table::Roster as u8], fresh_ids: false },
    SharedPrefix { prefix: &[Table::Job as u8], fresh_ids: false },
    SharedPrefix { prefix: &[Table::Lease as u8], fresh_ids: false },
    SharedPrefix { prefix: &[Table::Placement as u8], fresh_ids: false },
    SharedPrefix { prefix: &[Table::Keep as u8], fresh_ids: false },
    SharedPrefix { prefix: &[Table::Alias as u8], fresh_ids: false },
    SharedPrefix { prefix: &[Table::Protection as u8], fresh_ids: false },
    // One key, which is made with the volume.
    SharedPrefix { prefix: &[Table::SumChanges as u8], fresh_ids: true },
];

/// What is counted: numbers that are given out, and changes that others must notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Counter {
    /// Inode numbers.
    Ino = 1,
    /// Positions in directory listings; unique in the volume, so that an entry may keep its own when it moves.
    Cookie = 2,
    /// How often something was given a policy, so that who removes policies that nothing has notices.
    Policy = 3,
    /// The last commit of an owner that writes behind; see `engines/behind.rs`.
    Filed = 4,
}

/// One key, typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the table at the top of the module says what each holds")]
pub enum Key<'a> {
    Volume,
    Inode(Ino),
    Dirent(Ino, &'a [u8]),
    Entry(Ino, u64),
    Symlink(Ino),
    Xattr(Ino, &'a [u8]),
    Extent(Ino, u64),
    Journal(Ino, u64),
    Live(SegmentId),
    UsedBy(SegmentId, Ino),
    Policy(PolicyId),
    Counter(Counter),
    Usage,
    Openings,
    Locks(Ino),
    Held(Ino, u64),
    Look(u64),
    Sums,
    Segment(SegmentId),
    OnNode(NodeId, SegmentId),
    Damaged(SegmentId),
    UnreferencedFile(u64, Ino),
    UnreferencedInode(Ino),
    UnreferencedSegment(SegmentId),
    UnreferencedGeneration(SegmentId, Generation),
    Node(NodeId),
    Roster,
    Job(&'a [u8]),
    Lease(&'a [u8]),
    Placement,
    Keep,
    Alias(ShardKey),
    Protection,
    SumChanges,
}

impl<'a> Key<'a> {
    /// Which table it belongs to.
    pub fn table(&self) -> Table {
        match self {
            Key::Volume => Table::Volume,
            Key::Inode(_) => Table::Inode,
            Key::Dirent(..) => Table::Dirent,
            Key::Entry(..) => Table::Entry,
            Key::Symlink(_) => Table::Symlink,
            Key::Xattr(..) => Table::Xattr,
            Key::Extent(..) => Table::Extent,
            Key::Journal(..) => Table::Journal,
            Key::Live(_) => Table::Live,
            Key::UsedBy(..) => Table::UsedBy,
            Key::Policy(_) => Table::Policy,
            Key::Counter(_) => Table::Counter,
            Key::Usage => Table::Usage,
            Key::Openings => Table::Openings,
            Key::Locks(_) => Table::Locks,
            Key::Held(..) => Table::Held,
            Key::Look(_) => Table::Look,
            Key::Sums => Table::Sums,
            Key::Segment(_) => Table::Segment,
            Key::OnNode(..) => Table::OnNode,
            Key::Damaged(_) => Table::Damaged,
            Key::UnreferencedFile(..)
            | Key::UnreferencedInode(_)
            | Key::UnreferencedSegment(_)
            | Key::UnreferencedGeneration(..) => Table::Unreferenced,
            Key::Node(_) => Table::Node,
            Key::Roster => Table::Roster,
            Key::Job(_) => Table::Job,
            Key::Lease(_) => Table::Lease,
            Key::Placement => Table::Placement,
            Key::Keep => Table::Keep,
            Key::Alias(_) => Table::Alias,
            Key::Protection => Table::Protection,
            Key::SumChanges => Table::SumChanges,
        }
    }

    /// Its bytes in the engine.
    pub fn encode(&self) -> Vec<u8> {
        let table = self.table() as u8;
        match *self {
            Key::Volume
            | Key::Usage
            | Key::Openings
            | Key::Sums
            | Key::Roster
            | Key::Placement
            | Key::Keep
            | Key::Protection
            | Key::SumChanges => {
                vec![table]
            }
            Key::Inode(ino) | Key::Symlink(ino) | Key::Locks(ino) => join(table, &[&ino.0.to_be_bytes()]),
            Key::Dirent(ino, name) | Key::Xattr(ino, name) => join(table, &[&ino.0.to_be_bytes(), name]),
            Key::Look(session) => join(table, &[&session.to_be_bytes()]),
            Key::Entry(ino, number) | Key::Extent(ino, number) | Key::Journal(ino, number) | Key::Held(ino, number) => {
                join(table, &[&ino.0.to_be_bytes(), &number.to_be_bytes()])
            }
            Key::Live(segment) | Key::Segment(segment) | Key::Damaged(segment) => join(table, &[&segment.to_bytes()]),
            Key::Alias(ShardKey { segment, generation, index }) => {
                join(table, &[&segment.to_bytes(), &generation.0.to_be_bytes(), &index.0.to_be_bytes()])
            }
            Key::UnreferencedFile(deleted_ms, ino) => {
                join(table, &[&[FILES], &deleted_ms.to_be_bytes(), &ino.0.to_be_bytes()])
            }
            Key::UnreferencedInode(ino) => join(table, &[&[INODES], &ino.0.to_be_bytes()]),
            Key::UnreferencedSegment(segment) => join(table, &[&[SEGMENTS], &segment.to_bytes()]),
            Key::UnreferencedGeneration(segment, generation) => {
                join(table, &[&[GENERATIONS], &segment.to_bytes(), &generation.0.to_be_bytes()])
            }
            Key::UsedBy(segment, ino) => join(table, &[&segment.to_bytes(), &ino.0.to_be_bytes()]),
            Key::Policy(policy) => join(table, &[&policy.0.to_be_bytes()]),
            Key::Counter(counter) => vec![table, counter as u8],
            Key::OnNode(node, segment) => join(table, &[&node.to_bytes(), &segment.to_bytes()]),
            Key::Node(node) => join(table, &[&node.to_bytes()]),
            Key::Job(name) | Key::Lease(name) => join(table, &[name]),
        }
    }

    /// The inverse of [`Self::encode`]; `None` for bytes that are no key of this format.
    pub fn parse(bytes: &'a [u8]) -> Option<Key<'a>> {
        let (tag, mut rest) = bytes.split_first()?;
        let rest = &mut rest;
        let key = match Table::of(*tag)? {
            Table::Volume => Key::Volume,
            Table::Inode => Key::Inode(take_ino(rest)?),
            Table::Dirent => Key::Dirent(take_ino(rest)?, std::mem::take(rest)),
            Table::Entry => Key::Entry(take_ino(rest)?, take_u64(rest)?),
            Table::Symlink => Key::Symlink(take_ino(rest)?),
            Table::Xattr => Key::Xattr(take_ino(rest)?, std::mem::take(rest)),
            Table::Extent => Key::Extent(take_ino(rest)?, take_u64(rest)?),
            Table::Journal => Key::Journal(take_ino(rest)?, take_u64(rest)?),
            Table::Live => Key::Live(take_segment(rest)?),
            Table::UsedBy => Key::UsedBy(take_segment(rest)?, take_ino(rest)?),
            Table::Policy => Key::Policy(PolicyId(u32::from_be_bytes(take(rest)?))),
            Table::Counter => Key::Counter(match take(rest)? {
                [1] => Counter::Ino,
                [2] => Counter::Cookie,
                [3] => Counter::Policy,
                [4] => Counter::Filed,
                _ => return None,
            }),
            Table::Usage => Key::Usage,
            Table::Openings => Key::Openings,
            Table::Locks => Key::Locks(take_ino(rest)?),
            Table::Held => Key::Held(take_ino(rest)?, take_u64(rest)?),
            Table::Look => Key::Look(take_u64(rest)?),
            Table::Sums => Key::Sums,
            Table::Segment => Key::Segment(take_segment(rest)?),
            Table::OnNode => Key::OnNode(NodeId::from_bytes(take(rest)?), take_segment(rest)?),
            Table::Damaged => Key::Damaged(take_segment(rest)?),
            Table::Unreferenced => match take(rest)? {
                [FILES] => Key::UnreferencedFile(take_u64(rest)?, take_ino(rest)?),
                [INODES] => Key::UnreferencedInode(take_ino(rest)?),
                [SEGMENTS] => Key::UnreferencedSegment(take_segment(rest)?),
                [GENERATIONS] => Key::UnreferencedGeneration(take_segment(rest)?, take_generation(rest)?),
                _ => return None,
            },
            Table::Node => Key::Node(NodeId::from_bytes(take(rest)?)),
            Table::Roster => Key::Roster,
            Table::Job => Key::Job(std::mem::take(rest)),
            Table::Lease => Key::Lease(std::mem::take(rest)),
            Table::Placement => Key::Placement,
            Table::Keep => Key::Keep,
            Table::Protection => Key::Protection,
            Table::SumChanges => Key::SumChanges,
            Table::Alias => Key::Alias(ShardKey {
                segment: take_segment(rest)?,
                generation: take_generation(rest)?,
                index: ShardIndex(u16::from_be_bytes(take(rest)?)),
            }),
        };
        rest.is_empty().then_some(key)
    }
}

/// The key as a person sees it in a message: `dirent/1/notes.txt`.
impl fmt::Display for Key<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Key::Volume => write!(f, "volume"),
            Key::Inode(ino) => write!(f, "inode/{ino}"),
            Key::Dirent(parent, name) => write!(f, "dirent/{parent}/{}", name.escape_ascii()),
            Key::Entry(parent, cookie) => write!(f, "entry/{parent}/{cookie}"),
            Key::Symlink(ino) => write!(f, "symlink/{ino}"),
            Key::Xattr(ino, name) => write!(f, "xattr/{ino}/{}", name.escape_ascii()),
            Key::Extent(ino, end) => write!(f, "extent/{ino}/{end}"),
            Key::Journal(ino, page) => write!(f, "journal/{ino}/{page}"),
            Key::Live(segment) => write!(f, "live/{segment}"),
            Key::UsedBy(segment, ino) => write!(f, "used-by/{segment}/{ino}"),
            Key::Policy(policy) => write!(f, "policy/{}", policy.0),
            Key::Counter(Counter::Ino) => write!(f, "counter/ino"),
            Key::Counter(Counter::Cookie) => write!(f, "counter/cookie"),
            Key::Counter(Counter::Policy) => write!(f, "counter/policy"),
            Key::Counter(Counter::Filed) => write!(f, "counter/filed"),
            Key::Usage => write!(f, "usage"),
            Key::Openings => write!(f, "openings"),
            Key::Locks(ino) => write!(f, "locks/{ino}"),
            Key::Held(ino, session) => write!(f, "held/{ino}/{session}"),
            Key::Look(session) => write!(f, "look/{session}"),
            Key::Sums => write!(f, "sums"),
            Key::Segment(segment) => write!(f, "segment/{segment}"),
            Key::OnNode(node, segment) => write!(f, "on-node/{node}/{segment}"),
            Key::Damaged(segment) => write!(f, "damaged/{segment}"),
            Key::UnreferencedFile(deleted_ms, ino) => write!(f, "unreferenced/file/{deleted_ms}/{ino}"),
            Key::UnreferencedInode(ino) => write!(f, "unreferenced/inode/{ino}"),
            Key::UnreferencedSegment(segment) => write!(f, "unreferenced/segment/{segment}"),
            Key::UnreferencedGeneration(segment, generation) => {
                write!(f, "unreferenced/generation/{segment}/{generation}")
            }
            Key::Node(node) => write!(f, "node/{node}"),
            Key::Roster => write!(f, "roster"),
            Key::Job(name) => write!(f, "job/{}", name.escape_ascii()),
            Key::Placement => write!(f, "placement"),
            Key::Keep => write!(f, "keep"),
            Key::Protection => write!(f, "protection"),
            Key::SumChanges => write!(f, "sum-changes"),
            Key::Alias(ShardKey { segment, generation, index }) => write!(f, "alias/{segment}/{generation}/{index}"),
            Key::Lease(name) => write!(f, "lease/{}", name.escape_ascii()),
        }
    }
}

/// Any bytes as a message shows them: the typed form where they are a key, else escaped.
pub fn printable(bytes: &[u8]) -> String {
    Key::parse(bytes).map_or_else(|| bytes.escape_ascii().to_string(), |key| key.to_string())
}

/// All keys of `table` whose first number is `ino`: the entries of a directory, the extents of a file.
pub fn of_ino(table: Table, ino: Ino) -> Range<Vec<u8>> {
    within(join(table as u8, &[&ino.0.to_be_bytes()]))
}

/// A table, and the number after it.
#[cfg(feature = "shared")]
pub(crate) const DOMAIN_BYTES: usize = 9;

/// What a key has in common with others: the names of a directory, for example, or the extents of a file.
#[cfg(feature = "shared")]
pub(crate) fn domain(key: &[u8]) -> &[u8] {
    &key[..key.len().min(DOMAIN_BYTES)]
}

/// The files that may have extents in `segment`.
pub fn users_of(segment: SegmentId) -> Range<Vec<u8>> {
    within(join(Table::UsedBy as u8, &[&segment.to_bytes()]))
}

/// Deleted files that are kept, the oldest deletion first.
pub fn unreferenced_files() -> Range<Vec<u8>> {
    within(vec![Table::Unreferenced as u8, FILES])
}

/// Inodes without a name.
pub fn unreferenced_inodes() -> Range<Vec<u8>> {
    within(vec![Table::Unreferenced as u8, INODES])
}

/// Dead segments.
pub fn dead_segments() -> Range<Vec<u8>> {
    within(vec![Table::Unreferenced as u8, SEGMENTS])
}

/// Dead segments, then previous generations.
pub fn unreferenced_shards() -> Range<Vec<u8>> {
    dead_segments().start..within(vec![Table::Unreferenced as u8, GENERATIONS]).end
}

/// Previous generations of `segment`, the oldest first.
pub fn generations_of(segment: SegmentId) -> Range<Vec<u8>> {
    within(join(Table::Unreferenced as u8, &[&[GENERATIONS], &segment.to_bytes()]))
}

/// The shards with `segment` in their names that are another segment's.
pub fn aliases_of(segment: SegmentId) -> Range<Vec<u8>> {
    within(join(Table::Alias as u8, &[&segment.to_bytes()]))
}

/// The segments that have a shard on `node`.
pub fn on_node(node: NodeId) -> Range<Vec<u8>> {
    within(join(Table::OnNode as u8, &[&node.to_bytes()]))
}

/// The part of `range` that lies after `key`.
pub fn after(range: Range<Vec<u8>>, key: Option<Key<'_>>) -> Range<Vec<u8>> {
    match key {
        None => range,
        Some(key) => {
            let mut start = key.encode();
            // The smallest byte string above `key`.
            start.push(0);
            start..range.end
        }
    }
}

/// All keys that begin with `prefix`.
fn within(prefix: Vec<u8>) -> Range<Vec<u8>> {
    let mut end = prefix.clone();
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            break;
        }
    }
    prefix..end
}

fn join(table: u8, parts: &[&[u8]]) -> Vec<u8> {
    let mut key = Vec::with_capacity(1 + parts.iter().map(|part| part.len()).sum::<usize>());
    key.push(table);
    for part in parts {
        key.extend_from_slice(part);
    }
    key
}

pub(crate) fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (head, tail) = rest.split_first_chunk::<N>()?;
    *rest = tail;
    Some(*head)
}

fn take_u64(rest: &mut &[u8]) -> Option<u64> {
    take(rest).map(u64::from_be_bytes)
}

fn take_ino(rest: &mut &[u8]) -> Option<Ino> {
    take_u64(rest).map(Ino)
}

fn take_segment(rest: &mut &[u8]) -> Option<SegmentId> {
    take(rest).map(SegmentId::from_bytes)
}

fn take_generation(rest: &mut &[u8]) -> Option<Generation> {
    take(rest).map(u32::from_be_bytes).map(Generation)
}

#[cfg(test)]
#[path = "keys_tests.rs"]
mod tests;
