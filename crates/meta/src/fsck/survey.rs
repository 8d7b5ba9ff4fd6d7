//! Reads every table of one snapshot, in an order in which each can be held against those before it.
//!
//! ```text
//! segments.rs  segments, beside them the indices that have their order
//! inodes.rs    inodes, beside them the targets of symbolic links
//! names.rs     names, beside them the listings of directories; then whether each directory can be reached
//! data.rs      extents, the journal
//! inodes.rs    queues of inodes, link counts
//! segments.rs  live bytes, users, aliases
//! totals.rs    counters and sums
//! ```
//!
//! Of inodes and segments `columns.rs` holds what later tables need. All else is read in step (`lane.rs`), or asked for page by page.

mod columns;
mod data;
mod inodes;
mod lane;
mod names;
mod segments;
mod totals;

use std::collections::BTreeSet;
use std::ops::Range;

use weft_format::records::{NodeRecord, OpeningsRecord, PolicyRecord, SumsRecord, VolumeRecord};
use weft_format::{Ino, NodeId, PolicyId, SegmentId, ShardKey};

use super::{Finding, Found, Progress, Report, Writes};
use crate::MetaError;
use crate::keys::{Key, Table, printable};
use crate::kv::{Pair, Snapshot};
use crate::pages;
use crate::store::Store;
use crate::store::values::damaged;
use columns::{Column, Inode, Segment};

/// Records read at once: some MiB where values are as long as they can be. Small in tests, so that tables there have several pages.
const PAGE_PAIRS: usize = if cfg!(test) { 3 } else { 1024 };

struct Survey<'s> {
    snapshot: &'s (dyn Snapshot + 's),
    progress: &'s mut dyn FnMut(Progress),
    done: Progress,
    now_ms: u64,
    found: Vec<Found>,
    /// Inodes and segments whose records are there but cannot be read.
    unreadable_inodes: BTreeSet<Ino>,
    unreadable_segments: BTreeSet<SegmentId>,
    inodes: Column<Inode>,
    segments: Column<Segment>,
    sums: SumsRecord,
    /// Segments with shards that bear another segment's name.
    with_aliases: Vec<SegmentId>,
    /// Shards of which it was said that their alias is missing.
    without_alias: BTreeSet<(ShardKey, SegmentId)>,
    policies: BTreeSet<PolicyId>,
    nodes: BTreeSet<NodeId>,
    last_cookie: u64,
}

/// Everything that does not fit, with its mends, and the counts of the report.
pub(super) fn survey(
    store: &Store,
    now_ms: u64,
    records_total: u64,
    progress: &mut dyn FnMut(Progress),
) -> Result<(Vec<Found>, Report), MetaError> {
    let snapshot = store.kv().snapshot()?;
    pages::fix_moment(&*snapshot)?;
    let mut survey = Survey {
        snapshot: &*snapshot,
        progress,
        done: Progress { phase: "comparing records", records: 0, records_total },
        now_ms,
        found: Vec::new(),
        unreadable_inodes: BTreeSet::new(),
        unreadable_segments: BTreeSet::new(),
        inodes: Column::new(),
        segments: Column::new(),
        sums: SumsRecord::default(),
        with_aliases: Vec::new(),
        without_alias: BTreeSet::new(),
        policies: BTreeSet::new(),
        nodes: BTreeSet::new(),
        last_cookie: 0,
    };
    survey.unknown_tables()?;
    survey.volume()?;
    survey.each(Table::Openings.range(), Survey::openings)?;
    survey.each(Table::Policy.range(), Survey::policy)?;
    survey.each(Table::Node.range(), Survey::node)?;
    survey.read_segments()?;
    survey.read_inodes()?;
    survey.read_names()?;
    survey.each(Table::Xattr.range(), Survey::xattr)?;
    survey.read_extents()?;
    survey.each(Table::Journal.range(), Survey::journal)?;
    for table in [Table::Locks, Table::Held, Table::Look] {
        survey.each(table.range(), Survey::note_of_session)?;
    }
    survey.read_queues()?;
    survey.links()?;
    survey.reachability();
    survey.read_lives()?;
    survey.each(Table::UsedBy.range(), Survey::used_by)?;
    survey.read_aliases()?;
    survey.totals()?;
    survey.check_sums()?;
    for found in &mut survey.found {
        for (key, _) in &found.writes {
            found.seen.push(snapshot.get(key)?);
        }
    }
    let report =
        Report { findings: Vec::new(), inodes: survey.inodes.len() as u64, segments: survey.segments.len() as u64 };
    Ok((survey.found, report))
}

fn put(key: Key<'_>, value: Vec<u8>) -> (Vec<u8>, Option<Vec<u8>>) {
    (key.encode(), Some(value))
}

fn remove(key: Key<'_>) -> (Vec<u8>, Option<Vec<u8>>) {
    (key.encode(), None)
}

impl<'s> Survey<'s> {
    fn report(&mut self, finding: Finding, writes: Writes) {
        self.found.push(Found { finding, writes, seen: Vec::new() });
    }

    fn stray(&mut self, key: Key<'_>) {
        self.report(Finding::Stray { key: key.to_string() }, vec![remove(key)]);
    }

    fn missing(&mut self, key: Key<'_>, value: Vec<u8>) {
        self.report(Finding::Missing { key: key.to_string() }, vec![put(key, value)]);
    }

    fn get(&self, key: Key<'_>) -> Result<Option<Vec<u8>>, MetaError> {
        Ok(self.snapshot.get(&key.encode())?)
    }

    fn get_many<'k>(&self, keys: impl Iterator<Item = Key<'k>>) -> Result<Vec<Option<Vec<u8>>>, MetaError> {
        let keys: Vec<Vec<u8>> = keys.map(|key| key.encode()).collect();
        Ok(self.snapshot.get_many(&keys)?)
    }

    /// Damage becomes a finding; anything else ends the check.
    fn note<T>(&mut self, answer: Result<T, MetaError>) -> Result<Option<T>, MetaError> {
        match answer {
            Ok(answer) => Ok(Some(answer)),
            Err(MetaError::Damaged { key, detail }) => {
                self.report(Finding::Unreadable { key, detail }, Writes::new());
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// The first records of a range, which then begins after them.
    fn page(&mut self, range: &mut Range<Vec<u8>>, pairs_max: usize) -> Result<Vec<Pair>, MetaError> {
        let pairs = self.snapshot.scan(&range.start, &range.end, pairs_max)?;
        match pairs.last().filter(|_| pairs.len() == pairs_max) {
            // The smallest key above, whatever its form.
            Some((last, _)) => range.start = [last, &[0][..]].concat(),
            None => range.start.clone_from(&range.end),
        }
        self.done.records += pairs.len() as u64;
        self.done.records_total = self.done.records_total.max(self.done.records);
        (self.progress)(self.done);
        Ok(pairs)
    }

    /// Calls `look` with every page of a range.
    fn each_page(
        &mut self,
        mut range: Range<Vec<u8>>,
        mut look: impl FnMut(&mut Self, &[Pair]) -> Result<(), MetaError>,
    ) -> Result<(), MetaError> {
        loop {
            let pairs = self.page(&mut range, PAGE_PAIRS)?;
            if pairs.is_empty() {
                return Ok(());
            }
            look(self, &pairs)?;
        }
    }

    /// Calls `look` with every record of a range.
    fn each(
        &mut self,
        range: Range<Vec<u8>>,
        mut look: impl FnMut(&mut Self, Key<'_>, &[u8]) -> Result<(), MetaError>,
    ) -> Result<(), MetaError> {
        self.each_page(range, |survey, pairs| {
            pairs.iter().try_for_each(|(key, value)| survey.see(key, value, &mut look).map(drop))
        })
    }

    /// Calls `look` with a record; its answer, unless something is damaged.
    fn see<T>(
        &mut self,
        key: &[u8],
        value: &[u8],
        look: impl FnOnce(&mut Self, Key<'_>, &[u8]) -> Result<T, MetaError>,
    ) -> Result<Option<T>, MetaError> {
        let Some(key) = Key::parse(key) else {
            self.report(Finding::UnknownKey { key: printable(key) }, Writes::new());
            return Ok(None);
        };
        let answer = look(self, key, value);
        self.note(answer)
    }

    fn unknown_tables(&mut self) -> Result<(), MetaError> {
        let mut start = Vec::new();
        for range in Table::ALL.map(Table::range) {
            self.unknown_keys(start..range.start)?;
            start = range.end;
        }
        // Above every key that begins with a byte.
        self.unknown_keys(start..vec![u8::MAX; 64])
    }

    fn unknown_keys(&mut self, range: Range<Vec<u8>>) -> Result<(), MetaError> {
        // One is enough to say so.
        for (key, _) in self.snapshot.scan(&range.start, &range.end, 1)? {
            self.report(Finding::UnknownKey { key: printable(&key) }, Writes::new());
        }
        Ok(())
    }

    fn volume(&mut self) -> Result<(), MetaError> {
        let key = Key::Volume;
        let record = self.get(key)?.ok_or_else(|| damaged(&key, "it is missing"));
        let record = record.and_then(|bytes| VolumeRecord::decode(&bytes).map_err(|error| damaged(&key, error)));
        self.note(record)?;
        Ok(())
    }

    fn openings(&mut self, key: Key<'_>, value: &[u8]) -> Result<(), MetaError> {
        OpeningsRecord::decode(value).map_err(|error| damaged(&key, error))?;
        Ok(())
    }

    fn policy(&mut self, key: Key<'_>, value: &[u8]) -> Result<(), MetaError> {
        if let Key::Policy(policy) = key {
            self.policies.insert(policy);
        }
        PolicyRecord::decode(value).map_err(|error| damaged(&key, error))?;
        Ok(())
    }

    fn node(&mut self, key: Key<'_>, value: &[u8]) -> Result<(), MetaError> {
        if let Key::Node(node) = key {
            self.nodes.insert(node);
        }
        NodeRecord::decode(value).map_err(|error| damaged(&key, error))?;
        Ok(())
    }
}

#[cfg(test)]
#[path = "survey_tests.rs"]
mod tests;
