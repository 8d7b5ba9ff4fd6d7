//! Which pieces make the newest state that nodes have, and what to store next. No I/O.

use std::collections::BTreeMap;
use weft_env::planted::{Planted, has_planted};
use weft_format::SegmentId;
use weft_format::records::{ReplicaHeader, ReplicaKind};

/// This number of change sets of like length are made one.
const MERGED_COUNT: usize = 16;
/// A change set of this length is a short one; each further level is [`MERGED_COUNT`] times as long.
const SHORT_BYTES: u64 = 4096;

/// The store lists the keys of each transaction since the snapshot, ten a second at most: of three hours.
const TRANSACTIONS_MAX: u64 = 100_000;

/// How large things are.
#[derive(Clone, Copy, Debug)]
pub struct ReplicaSizes {
    /// Bytes of keys and values in a piece.
    pub piece_bytes: usize,
    /// With less than this behind the snapshot no other is taken.
    pub changed_bytes_min: u64,
}

impl Default for ReplicaSizes {
    fn default() -> Self {
        Self { piece_bytes: 2 << 20, changed_bytes_min: 4 << 20 }
    }
}

/// Pieces by their ids.
pub type Pieces = BTreeMap<SegmentId, ReplicaHeader>;

/// Parts of one set by their places.
type Parts = BTreeMap<u32, (SegmentId, ReplicaHeader)>;

/// The parts of a snapshot or of a change set, all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Set {
    /// In their order.
    pub parts: Vec<SegmentId>,
    /// See [`ReplicaHeader::after`].
    pub after: u64,
    /// See [`ReplicaHeader::upto`]; of a snapshot that of the last part.
    pub upto: u64,
    /// When the last part was read.
    pub at_ms: u64,
    /// By whom.
    pub opening: u32,
    /// Bytes of keys and values.
    pub bytes: u64,
}

/// A state of the metadata that can be rebuilt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chain {
    /// Whose transactions are counted.
    pub lineage: u64,
    /// The pairs.
    pub snapshot: Set,
    /// What changed since, in order.
    pub changes: Vec<Set>,
}

impl Chain {
    /// The transaction after which the metadata was so.
    #[must_use]
    pub fn upto(&self) -> u64 {
        self.changes.last().map_or(self.snapshot.after, |last| last.upto)
    }

    /// When it was so.
    #[must_use]
    pub fn at_ms(&self) -> u64 {
        self.changes.last().unwrap_or(&self.snapshot).at_ms
    }

    /// The newest opening whose changes it has.
    #[must_use]
    pub fn opening(&self) -> u32 {
        self.changes.iter().map(|set| set.opening).fold(self.snapshot.opening, u32::max)
    }

    /// All its pieces, in the order in which they are applied.
    pub fn pieces(&self) -> impl Iterator<Item = SegmentId> + '_ {
        std::iter::once(&self.snapshot).chain(&self.changes).flat_map(|set| set.parts.iter().copied())
    }
}

/// The newest state of these pieces; of one lineage, if it is said.
#[must_use]
pub fn newest(pieces: &Pieces, lineage: Option<u64>) -> Option<Chain> {
    let mut sets: BTreeMap<(u64, ReplicaKind, u64), Parts> = BTreeMap::new();
    for (id, header) in pieces.iter().filter(|(_, header)| lineage.is_none_or(|lineage| header.lineage == lineage)) {
        // Where a part is there twice either will do.
        sets.entry((header.lineage, header.kind, header.set)).or_default().insert(header.part, (*id, *header));
    }
    let mut whole: BTreeMap<u64, (Vec<Set>, Vec<Set>)> = BTreeMap::new();
    for ((lineage, kind, _), parts) in sets {
        let Some(set) = whole_set(&parts) else { continue };
        let (snapshots, changes) = whole.entry(lineage).or_default();
        if kind == ReplicaKind::Snapshot { snapshots.push(set) } else { changes.push(set) }
    }
    let chains = whole.into_iter().flat_map(|(lineage, (snapshots, changes))| {
        snapshots.into_iter().filter_map(move |snapshot| chain(lineage, snapshot, &changes))
    });
    let opening = |chain: &Chain| match lineage.is_none() && has_planted(Planted::OlderOpeningRecovered) {
        true => u32::MAX - chain.opening(),
        false => chain.opening(),
    };
    chains.max_by_key(|chain| (opening(chain), chain.upto(), chain.snapshot.after))
}

/// All parts from the first to the last one, or nothing.
fn whole_set(parts: &Parts) -> Option<Set> {
    let (_, (_, last)) = parts.last_key_value()?;
    let is_whole = last.is_last && parts.keys().copied().eq(0..=last.part);
    is_whole.then(|| Set {
        parts: parts.values().map(|(id, _)| *id).collect(),
        after: last.after,
        upto: last.upto,
        at_ms: last.at_ms,
        opening: last.opening,
        bytes: parts.values().map(|(_, header)| header.bytes).sum(),
    })
}

/// The changes that follow a snapshot without a gap; `None`: they do not reach the moment at which its last part was read.
fn chain(lineage: u64, snapshot: Set, changes: &[Set]) -> Option<Chain> {
    let mut chain = Chain { lineage, snapshot, changes: Vec::new() };
    loop {
        let (reach, opening) = (chain.upto(), chain.opening());
        // What an earlier opening stored of a later moment is of a past that was given up.
        let follows = |set: &&Set| set.after <= reach && set.upto > reach && set.opening >= opening;
        let next = changes.iter().filter(follows);
        match next.max_by_key(|set| (set.opening, set.upto, set.after)) {
            Some(set) => chain.changes.push(set.clone()),
            None => return (chain.upto() >= chain.snapshot.upto).then_some(chain),
        }
    }
}

/// Is a new snapshot to be begun, where `last` is the last transaction?
#[must_use]
pub fn is_snapshot_due(chain: Option<&Chain>, last: u64, sizes: ReplicaSizes) -> bool {
    let Some(chain) = chain else { return true };
    let changed: u64 = chain.changes.iter().map(|set| set.bytes).sum();
    let is_old = last.saturating_sub(chain.snapshot.after) > TRANSACTIONS_MAX;
    is_old || changed > chain.snapshot.bytes.max(sizes.changed_bytes_min)
}

/// The transaction after which the next change set begins. It takes the place of the change sets that begin there or later. Sets from before
/// `begun`, when the snapshot under way began, are left alone: they go with the older snapshot, and the newer one must not carry them.
#[must_use]
pub fn changes_from(chain: &Chain, begun: Option<u64>) -> u64 {
    let is_later = |set: &Set| begun.is_none_or(|begun| set.after >= begun);
    let start = chain.changes.iter().position(is_later).unwrap_or(chain.changes.len());
    let later = &chain.changes[start..];
    let first = merged_from(&later.iter().map(|set| set.bytes).collect::<Vec<_>>());
    later.get(first).map_or(chain.upto(), |set| set.after)
}

/// From which set on they are made one with what comes: where the last [`MERGED_COUNT`] are of the same level, or below. A change is thus
/// stored about once for each level.
fn merged_from(bytes: &[u64]) -> usize {
    let level = |bytes: u64| (bytes.max(SHORT_BYTES) / SHORT_BYTES).ilog(MERGED_COUNT as u64);
    for highest in 0..=level(u64::MAX) {
        let run = bytes.iter().rev().take_while(|bytes| level(**bytes) <= highest);
        let (count, of_level) =
            run.fold((0, 0), |(count, of_level), bytes| (count + 1, of_level + usize::from(level(*bytes) == highest)));
        if of_level >= MERGED_COUNT {
            return bytes.len() - count;
        }
    }
    bytes.len()
}

/// Pieces of the chain's lineage that it does not need, and that are of no later moment.
pub fn superseded<'p>(chain: &'p Chain, pieces: &'p Pieces) -> impl Iterator<Item = SegmentId> + 'p {
    let needed: std::collections::BTreeSet<SegmentId> = chain.pieces().collect();
    let is_needless = move |(id, header): &(&SegmentId, &ReplicaHeader)| {
        header.lineage == chain.lineage && header.upto <= chain.upto() && !needed.contains(id)
    };
    pieces.iter().filter(is_needless).map(|(id, _)| *id)
}

#[cfg(test)]
#[path = "chain_tests.rs"]
mod tests;
