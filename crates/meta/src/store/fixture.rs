//! What the tests of this crate share: a small volume in memory, an engine that keeps the limits of the strictest one,
//! random numbers from a printed seed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use weft_env::Env;

use weft_format::geometry::Geometry;
use weft_format::records::{
    Attributes, Kind, NodeRecord, NodeState, PolicyRecord, RetainedRecord, SegmentRecord, ShardLocation, Timestamp,
    VolumeRecord,
};
use weft_format::removal::{Candidate, Evidence, Expired, Queued, Removable, Verdict, may_remove};
use weft_format::shard::Digest;
use weft_format::{Generation, Ino, NodeId, PolicyId, SegmentId, VolumeId};

use super::Store;
use crate::MetaError;
use crate::engines::MemoryKv;
use crate::fsck;
use crate::keys::SHARED;
use crate::kv::{Batch, Kv, KvError, Snapshot};
use crate::types::{Extent, FileCommit, NewInode};

/// For as long as anybody could ask for, by one who has the volume alone.
const LONG: Evidence = Evidence::Alone { age_ms: Some(u64::MAX), grace_ms: 0 };

fn removable(candidate: Candidate, by: Evidence) -> Removable {
    match may_remove(candidate, by) {
        Verdict::Remove(removable) => removable,
        other => panic!("{candidate:?}: {other:?}"),
    }
}

/// A segment that may be removed.
pub(crate) fn dead(segment: SegmentId) -> Removable {
    removable(Candidate::Segment { segment, live_bytes: 0 }, LONG)
}

/// An inode that may be removed.
pub(crate) fn unused(ino: Ino) -> Removable {
    removable(Candidate::Inode { ino, is_in_use: false }, Evidence::Owner { seen_ms: 0 })
}

/// A previous generation that may be removed.
pub(crate) fn going(segment: SegmentId, retained: &RetainedRecord) -> Removable {
    let going = RetainedRecord { is_going: true, ..retained.clone() };
    removable(Queued::Generation { segment, retained: going }.candidate(0), LONG)
}

/// A previous generation whose time is over.
pub(crate) fn expired(segment: SegmentId, retained: &RetainedRecord) -> Expired {
    match may_remove(Queued::Generation { segment, retained: retained.clone() }.candidate(0), LONG) {
        Verdict::Mark(expired) => expired,
        other => panic!("{other:?}"),
    }
}

/// A kept file that somebody lets go.
pub(crate) fn purged(deleted_ms: u64, ino: Ino) -> Expired {
    let candidate = Candidate::File { deleted_ms, ino, keep_ms: u64::MAX, is_room_short: false };
    match may_remove(candidate, Evidence::Word) {
        Verdict::Mark(expired) => expired,
        other => panic!("{other:?}"),
    }
}

/// The dead segments, and since when, the oldest death first.
pub(crate) fn trash(store: &Store) -> Vec<(u64, SegmentId)> {
    let entries = store.unreferenced(None, usize::MAX).unwrap().into_iter();
    let mut dead: Vec<(u64, SegmentId)> = entries
        .filter_map(|entry| match entry {
            Queued::Segment { segment, since_ms } => Some((since_ms, segment)),
            Queued::Generation { .. } => None,
        })
        .collect();
    dead.sort();
    dead
}

/// A memory engine that refuses what some engines would (too many keys, too long values), and whose space can run out
/// after a number of commits.
pub(crate) struct StrictKv {
    inner: MemoryKv,
    commits_left: AtomicI64,
    shared_only: AtomicBool,
    is_in_reserve: AtomicBool,
    pub(crate) commits: AtomicU64,
    /// Keys of the last batch: checks, writes.
    pub(crate) last: parking_lot::Mutex<(usize, usize)>,
}

impl StrictKv {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(StrictKv {
            inner: MemoryKv::new(),
            commits_left: AtomicI64::new(i64::MAX),
            shared_only: AtomicBool::new(false),
            is_in_reserve: AtomicBool::new(false),
            commits: AtomicU64::new(0),
            last: parking_lot::Mutex::new((0, 0)),
        })
    }

    /// From now on there is space only for what frees some.
    pub(crate) fn fill(&self) {
        self.allow_commits(0);
        self.is_in_reserve.store(true, Ordering::Relaxed);
    }

    pub(crate) fn allow_commits(&self, count: i64) {
        self.commits_left.store(count, Ordering::Relaxed);
    }

    /// From now on as for a process that is not the owner.
    pub(crate) fn shared_only(&self) {
        self.shared_only.store(true, Ordering::Relaxed);
    }
}

impl Kv for StrictKv {
    fn snapshot(&self) -> Result<Box<dyn Snapshot + '_>, KvError> {
        self.inner.snapshot()
    }

    fn commit(&self, batch: Batch) -> Result<(), KvError> {
        assert!(batch.writes.len() <= 1000, "{} keys in a transaction", batch.writes.len());
        let bytes: usize = batch.writes.iter().map(|(key, value)| key.len() + value.as_ref().map_or(0, Vec::len)).sum();
        assert!(bytes <= 1 << 20, "{bytes} bytes in a transaction");
        for (key, value) in &batch.writes {
            let value_bytes = value.as_ref().map_or(0, Vec::len);
            assert!(value_bytes <= 64 << 10, "{value_bytes} bytes under {}", crate::keys::printable(key));
        }
        if self.shared_only.load(Ordering::Relaxed) {
            for (key, _) in &batch.writes {
                let is_shared = SHARED.iter().any(|shared| key.starts_with(shared.prefix));
                assert!(is_shared, "{} is the owner's", crate::keys::printable(key));
            }
        }
        if self.commits_left.fetch_sub(1, Ordering::Relaxed) <= 0 {
            return Err(KvError::Full { store: "the test's".into() });
        }
        self.commits.fetch_add(1, Ordering::Relaxed);
        let read = batch.checks.len() + batch.directories.len();
        *self.last.lock() = (read, batch.changed_keys().count());
        self.inner.commit(batch)
    }

    fn commit_freeing(&self, batch: Batch) -> Result<(), KvError> {
        if self.is_in_reserve.load(Ordering::Relaxed) {
            self.allow_commits(1);
        }
        self.commit(batch)
    }

    fn flush(&self) -> Result<(), KvError> {
        self.inner.flush()
    }
}

pub(crate) fn at(seconds: i64) -> Timestamp {
    Timestamp { seconds, nanoseconds: 0 }
}

pub(crate) fn default_policy() -> PolicyRecord {
    PolicyRecord::of("rs:4+2", Some(1))
}

pub(crate) fn node_id(number: u128) -> NodeId {
    NodeId(number)
}

pub(crate) fn node_record(number: u128) -> NodeRecord {
    NodeRecord {
        name: format!("node-{number}"),
        url: format!("file:///nodes/{number}"),
        state: NodeState::Active,
        domain: format!("host-{number}"),
        weight: 1,
        secret: Default::default(),
        limits: Default::default(),
    }
}

/// A new volume with nodes 1 to 6, and its engine.
pub(crate) fn volume() -> (Store, Arc<StrictKv>) {
    let kv = StrictKv::new();
    (format_in(kv.clone()), kv)
}

/// A new volume with nodes 1 to 6 in an empty engine.
pub(crate) fn format_in(kv: Arc<dyn Kv>) -> Store {
    let record = VolumeRecord { volume: VolumeId(7), created_ms: 1000, default_policy: PolicyId(0) };
    let store = Store::format(kv, &record, &default_policy(), at(1), &Env::system()).unwrap();
    for number in 1..=6 {
        store.add_node(node_id(number), &node_record(number)).unwrap();
    }
    store
}

pub(crate) fn segment_id(number: u128) -> SegmentId {
    SegmentId::new(1, number)
}

/// A segment of so many bytes with a shard on each of nodes 1 to 6.
pub(crate) fn segment_record(data_bytes: u64) -> SegmentRecord {
    let location = |number| ShardLocation {
        node: node_id(number),
        generation: Generation(1),
        digest: Digest([number as u8; 32]),
        origin: None,
    };
    SegmentRecord {
        code: "rs:4+2".into(),
        geometry: Geometry {
            data_bytes,
            native_count: 4,
            alpha: 1,
            symbol_bytes: 4096,
            alignment_bytes: 64,
            source_count: 1,
        },
        generation: Generation(1),
        shards: (1..=6).map(|number| Some(location(number))).collect(),
    }
}

pub(crate) fn new_inode(kind: Kind) -> NewInode {
    let symlink_target = if kind == Kind::Symlink { b"target".to_vec() } else { Vec::new() };
    NewInode { kind, mode: 0o644, uid: 1000, gid: 100, rdev: 0, symlink_target }
}

pub(crate) fn make(store: &Store, parent: Ino, name: &str, kind: Kind) -> Ino {
    store.create(parent, name.as_bytes(), &new_inode(kind), at(2)).unwrap().ino
}

pub(crate) fn extent(file_offset: u64, length: u64, segment: SegmentId, segment_offset: u64) -> Extent {
    Extent { file_offset, length, segment, segment_offset }
}

/// A commit of extents that leaves the size at least `size`.
pub(crate) fn file_commit(attributes: &Attributes, extents: Vec<Extent>) -> FileCommit {
    let end = extents.last().map_or(0, Extent::end);
    FileCommit {
        ino: attributes.ino,
        extents,
        size: attributes.size.max(end),
        mtime: at(3),
        ctime: at(3),
        mode: None,
        journal: Vec::new(),
        journal_under: Vec::new(),
        known_mtime: None,
    }
}

/// Writes `length` bytes at `offset` of a file, in one new segment of exactly these.
pub(crate) fn write(store: &Store, ino: Ino, offset: u64, length: u64, segment: u128) {
    let attributes = store.attributes(ino).unwrap();
    let segment = segment_id(segment);
    let commit = file_commit(&attributes, vec![extent(offset, length, segment, 0)]);
    store.commit_files(&[(segment, segment_record(length))], &[commit], at(3)).unwrap();
}

#[track_caller]
pub(crate) fn assert_clean(store: &Store) {
    let report = fsck::check(store, &mut |_| {}).unwrap();
    let sentences: Vec<_> = report.findings.iter().map(|(finding, _)| finding.to_string()).collect();
    assert!(sentences.is_empty(), "{sentences:#?}");
}

/// The error's variant, for comparing with a model's.
pub(crate) fn kind_of(error: &MetaError) -> String {
    let debug = format!("{error:?}");
    debug.split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default().to_string()
}

/// SplitMix64: small, and good enough to choose operations.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    pub(crate) fn pick<'t, T>(&mut self, from: &'t [T]) -> &'t T {
        &from[self.below(from.len() as u64) as usize]
    }
}
