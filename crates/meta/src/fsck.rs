//! The consistency check of a volume's metadata: reads every record of one snapshot, recomputes what can be recomputed,
//! and says in one sentence each what does not fit.
//!
//! `snapshot -> survey.rs reads all tables -> findings, each with the writes that mend it -> repair applies those`
//!
//! Mending only rewrites what follows from other records: indices, counts, live bytes, marks. It never removes an
//! inode, a segment or the last name of anything, and it mends nothing at all while a record cannot be read: what seems
//! to be superfluous may be what the unreadable record needs.
//!
//! Memory: 48 bytes for each inode, 40 for each segment, and what is said of findings.

mod survey;

use std::collections::BTreeSet;

use weft_format::records::{SumsRecord, Timestamp};
use weft_format::{Ino, NodeId, PolicyId, SegmentId};

use crate::MetaError;
use crate::keys::Key;
use crate::kv::{Batch, KvError};
use crate::store::values::Usage;
use crate::store::{Store, milliseconds};
use survey::survey;

/// One thing that does not fit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the sentence of each is its documentation")]
pub enum Finding {
    #[error("the metadata store is damaged: {detail}")]
    DamagedStore { detail: String },
    #[error("the records could not be compared with one another, since some cannot be read: {detail}")]
    NotCompared { detail: String },
    #[error("record {key} cannot be read ({detail}): restore the metadata from a copy")]
    Unreadable { key: String, detail: String },
    #[error("{key} is no key of this format: restore the metadata from a copy, or use the program that wrote it")]
    UnknownKey { key: String },
    #[error("record {key} is missing")]
    Missing { key: String },
    #[error("record {key} belongs to nothing")]
    Stray { key: String },
    #[error("the name {name} in directory {parent} leads to inode {ino}, which does not exist")]
    DanglingName { parent: Ino, name: String, ino: Ino },
    #[error("the name {name} is in inode {parent}, which is no directory")]
    NameOutsideDirectory { parent: Ino, name: String },
    #[error("the name {name} in directory {parent} says another kind than its inode {ino}")]
    WrongKind { parent: Ino, name: String, ino: Ino },
    #[error("the listing of directory {parent} has {name} in a wrong place")]
    WrongListing { parent: Ino, name: String },
    #[error("inode {ino} says it is inode {stored}")]
    WrongNumber { ino: Ino, stored: Ino },
    #[error("inode {ino} has {counted} links and says {stored}")]
    WrongLinkCount { ino: Ino, stored: u32, counted: u32 },
    #[error("inode {ino} has no name and says it has {stored} links")]
    NoName { ino: Ino, stored: u32 },
    #[error("directory {ino} has {names} names")]
    ManyNames { ino: Ino, names: u32 },
    #[error("directory {ino} is in directory {parent} and says {stored}")]
    WrongParent { ino: Ino, stored: Ino, parent: Ino },
    #[error("directory {ino} cannot be reached from the root")]
    Unreachable { ino: Ino },
    #[error("inode {ino} has policy {}, which does not exist", policy.0)]
    UnknownPolicy { ino: Ino, policy: PolicyId },
    #[error("inode {ino} has extents of {counted} bytes and says {stored}")]
    WrongAllocatedBytes { ino: Ino, stored: u64, counted: u64 },
    #[error("inode {ino} is no file and has file data")]
    DataOfNoFile { ino: Ino },
    #[error("file {ino} has two extents for the bytes before {end}")]
    Overlap { ino: Ino, end: u64 },
    #[error("file {ino} of {size} bytes has data up to {end}")]
    DataBeyondEnd { ino: Ino, size: u64, end: u64 },
    #[error("bytes {start} to {end} of file {ino} are in segment {segment}, which does not exist")]
    LostSegment { ino: Ino, start: u64, end: u64, segment: SegmentId },
    #[error("bytes {start} to {end} of file {ino} are beyond the end of segment {segment}")]
    BeyondSegment { ino: Ino, start: u64, end: u64, segment: SegmentId },
    #[error("files refer to {counted} bytes of segment {segment}, which says {stored}")]
    WrongLiveBytes { segment: SegmentId, stored: u64, counted: u64 },
    #[error("segment {segment} is in the trash and files refer to {counted} bytes of it")]
    LiveInTrash { segment: SegmentId, counted: u64 },
    #[error("no file refers to segment {segment}, which is not in the trash")]
    DeadOutsideTrash { segment: SegmentId },
    #[error("segment {segment} has a shard on node {node}, which the volume does not have")]
    UnknownNode { segment: SegmentId, node: NodeId },
    #[error("the volume has {inodes} inodes and {live_bytes} live bytes, and says otherwise")]
    WrongUsage { inodes: u64, live_bytes: u64 },
    #[error(
        "there are {segment_count} segments of {code} with {data_bytes} bytes of data, and the sums over all segments say otherwise"
    )]
    WrongSums { code: String, segment_count: i64, data_bytes: i64 },
    #[error("{key} would give out {next}, and {used} is in use")]
    CounterBehind { key: String, next: u64, used: u64 },
}

impl Finding {
    /// May records be there that were not seen?
    fn hides_others(&self) -> bool {
        use Finding::{DamagedStore, NotCompared, UnknownKey, Unreadable};
        matches!(self, DamagedStore { .. } | NotCompared { .. } | Unreadable { .. } | UnknownKey { .. })
    }
}

/// What became of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mend {
    /// It cannot be recomputed from other records.
    Impossible,
    /// [`repair`] would.
    Possible,
    /// Done.
    Done,
}

/// The outcome of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// All that does not fit; after a repair also what was mended.
    pub findings: Vec<(Finding, Mend)>,
    /// Inodes read.
    pub inodes: u64,
    /// Segments read.
    pub segments: u64,
}

impl Report {
    /// Does everything fit (again)?
    pub fn is_clean(&self) -> bool {
        self.findings.iter().all(|(_, mend)| *mend == Mend::Done)
    }
}

/// How far a check has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// What it does, in a few words.
    pub phase: &'static str,
    /// Records read in this phase.
    pub records: u64,
    /// Records to read in it, an estimate where nobody has counted them before.
    pub records_total: u64,
}

type Writes = Vec<(Vec<u8>, Option<Vec<u8>>)>;

/// A finding and the writes that mend it.
struct Found {
    finding: Finding,
    /// Empty: impossible.
    writes: Writes,
    /// What each of the keys had.
    seen: Vec<Option<Vec<u8>>>,
}

/// Writes are applied about so many at a time.
const STEP_WRITES: usize = 256;

/// One mend can uncover the next (a name removed, then the link count); it never took more rounds.
const ROUNDS: u32 = 4;

/// Reads everything and changes nothing. Beside a working owner it sees what the owner flushed. `progress` is called with every page.
///
/// # Errors
/// The engine's. Damage is a finding, not an error.
pub fn check(store: &Store, progress: &mut dyn FnMut(Progress)) -> Result<Report, MetaError> {
    // Nothing is written: the time does not matter.
    let (found, mut report) = read_all(store, 0, progress)?;
    let mend = |writes: &Writes| if writes.is_empty() { Mend::Impossible } else { Mend::Possible };
    report.findings = found.into_iter().map(|found| (found.finding, mend(&found.writes))).collect();
    Ok(report)
}

/// Checks, mends what can be recomputed, and flushes. For the owner, right after opening and before it does anything
/// else; others may work beside it. It reads everything again after it has mended something.
///
/// # Errors
/// The engine's.
pub fn repair(store: &Store, now: Timestamp, progress: &mut dyn FnMut(Progress)) -> Result<Report, MetaError> {
    let mut done = Vec::new();
    for _ in 0..ROUNDS {
        let (found, mut report) = read_all(store, milliseconds(now), progress)?;
        let unreadable = |found: &Found| found.finding.hides_others();
        let may_mend = !found.iter().any(unreadable);
        let (mendable, rest): (Vec<_>, Vec<_>) =
            found.into_iter().partition(|found| may_mend && !found.writes.is_empty());
        if mendable.is_empty() {
            done.extend(rest.into_iter().map(|found| (found.finding, Mend::Impossible)));
            report.findings = done;
            store.flush()?;
            return Ok(report);
        }
        if !apply(store, &mendable)? {
            continue;
        }
        done.extend(mendable.into_iter().map(|found| (found.finding, Mend::Done)));
    }
    store.flush()?;
    let mut report = check(store, progress)?;
    done.append(&mut report.findings);
    report.findings = done;
    Ok(report)
}

/// What the engine finds of its own, then everything that does not fit. Where the store is damaged a record may be out of reach:
/// that is a finding.
fn read_all(store: &Store, now_ms: u64, progress: &mut dyn FnMut(Progress)) -> Result<(Vec<Found>, Report), MetaError> {
    let damaged = |detail| Found { finding: Finding::DamagedStore { detail }, writes: Writes::new(), seen: Vec::new() };
    let mut records_total = estimate(store);
    let mut counted = None;
    let faults = store.verify(&mut |records| {
        counted = Some(records);
        records_total = records_total.max(records);
        progress(Progress { phase: "comparing checksums", records, records_total });
    })?;
    let mut found: Vec<Found> = faults.into_iter().map(damaged).collect();
    match survey(store, now_ms, counted.unwrap_or(records_total), progress) {
        Ok((other, report)) => {
            found.extend(other);
            Ok((found, report))
        }
        Err(MetaError::Engine(KvError::Damaged { detail, .. })) => {
            let finding = Finding::NotCompared { detail };
            found.push(Found { finding, writes: Writes::new(), seen: Vec::new() });
            Ok((found, Report::default()))
        }
        Err(error) => Err(error),
    }
}

/// Records of an inode: itself, its name, its place in a listing.
const RECORDS_OF_INODE: u64 = 3;
/// Records of a segment: itself, its live bytes, an extent, a user, and a mark for each shard, which are six more often than not.
const RECORDS_OF_SEGMENT: u64 = 10;

/// How many records there may be, by what the volume counts; 0 where that cannot be read, which is found later.
fn estimate(store: &Store) -> u64 {
    let Ok(snapshot) = store.kv().snapshot() else { return 0 };
    let get = |key: Key<'_>| snapshot.get(&key.encode()).ok().flatten();
    let inodes = get(Key::Usage).and_then(|bytes| Usage::decode(&bytes).ok()).map_or(0, |usage| usage.inodes);
    let sums = get(Key::Sums).and_then(|bytes| SumsRecord::decode(&bytes).ok()).unwrap_or_default();
    let segments = sums.by_code().map(|(_, sum)| u64::try_from(sum.segment_count).unwrap_or(0));
    let of_segments = segments.fold(0, u64::saturating_add).saturating_mul(RECORDS_OF_SEGMENT);
    inodes.saturating_mul(RECORDS_OF_INODE).saturating_add(of_segments)
}

/// Applies mends, about [`STEP_WRITES`] writes at a time, each if its key still has what was seen. False if one had
/// not: another process works on the volume.
fn apply(store: &Store, mends: &[Found]) -> Result<bool, MetaError> {
    let commit = |batch| match store.mend(batch) {
        Err(MetaError::Engine(KvError::Conflict)) => Ok(false),
        other => other.map(|()| true),
    };
    let mut batch = Batch::default();
    let mut all = true;
    // Two findings may have one mend.
    let mut written = BTreeSet::new();
    for found in mends {
        for ((key, value), seen) in found.writes.iter().zip(&found.seen) {
            if written.insert(key) {
                batch.checks.push((key.clone(), seen.clone()));
                batch.writes.push((key.clone(), value.clone()));
            }
        }
        if batch.writes.len() >= STEP_WRITES {
            all &= commit(std::mem::take(&mut batch))?;
        }
    }
    Ok(commit(batch)? && all)
}

#[cfg(test)]
#[path = "fsck_tests.rs"]
mod tests;
