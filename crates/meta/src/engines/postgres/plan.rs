//! What a batch needs of the server: locks, comparisons and changes, worked out before anything is sent.
//!
//! A transaction of the server sees, at each statement, what was committed before that statement. So a check holds until the commit if
//! a lock that is taken *before* it is looked at keeps others from changing the answer:
//!
//! * A row that is there: its own lock; shared, if the batch does not change it.
//! * A key that is absent, and is made: the key's uniqueness.
//! * A key that is absent and stays so, and which rows a range has: the *guard* of the key's domain. Who makes a key shares the guard of
//!   its domain, who needs that none is made has it alone.
//!
//! A domain is what keys have in common: in the store's keys the table and the number after it, so the names of a directory, or the
//! extents of a file. Domains share a few guards by chance: that costs a wait, and changes no answer.

use crate::deltas::{Delta, Directory};
use crate::keys::{DOMAIN_BYTES, domain};
use crate::kv::{Batch, RangeCheck, Slot};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// How many guards a store has. A check of a range that is wider than a domain takes all of them.
pub(super) const GUARDS: i32 = 256;

/// Keys, and as many values.
pub(super) type Columns = (Vec<Vec<u8>>, Vec<Vec<u8>>);

/// Checks of directories that are there: keys, values without what may vary, and whether there are no links.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Directories {
    pub keys: Vec<Vec<u8>>,
    pub masked: Vec<Vec<u8>>,
    pub are_unlinked: Vec<bool>,
}

/// Everything that is asked for, in the order in which it is.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Plan {
    pub guards: Vec<i32>,
    /// They are needed alone, not shared.
    pub alone: bool,
    /// Rows that must have these values: those that the batch changes, ...
    pub held_to_change: Columns,
    /// ... and the others.
    pub held: Columns,
    /// Directories that must be what they were: those that the batch changes, ...
    pub directories_to_change: Directories,
    /// ... and the others.
    pub directories: Directories,
    /// Keys that must be absent and are not made.
    pub absent: Vec<Vec<u8>>,
    pub ranges: Vec<RangeCheck>,
    /// Directories that are changed by what they are then.
    pub merged: Vec<(Vec<u8>, Delta)>,
    pub removed: Vec<Vec<u8>>,
    /// Keys that must be absent, and are made.
    pub made: Columns,
    pub set: Columns,
    /// Keys whose waiting deltas count no more.
    pub forgotten: Vec<Vec<u8>>,
    /// Deltas that wait beside their values.
    pub deltas: Columns,
}

impl Plan {
    pub fn of(batch: Batch) -> Self {
        let mut plan = Self::default();
        let mut guards = Guards::default();
        let writes: BTreeMap<Vec<u8>, Option<Vec<u8>>> = batch.writes.into_iter().collect();
        let is_merged =
            |key: &[u8]| batch.deltas.iter().any(|(changed, delta)| changed == key && delta.encode().is_none());
        let changes = |key: &[u8]| writes.contains_key(key) || is_merged(key);
        let mut is_present = BTreeSet::new();
        let mut is_made = BTreeSet::new();
        for (key, value) in batch.checks {
            match value {
                Some(value) => {
                    let columns = if changes(&key) { &mut plan.held_to_change } else { &mut plan.held };
                    columns.0.push(key.clone());
                    columns.1.push(value);
                    is_present.insert(key);
                }
                None if matches!(writes.get(&key), Some(Some(_))) => drop(is_made.insert(key)),
                None => {
                    guards.alone.insert(guard_of(&key));
                    plan.absent.push(key);
                }
            }
        }
        for check in batch.directories {
            is_present.insert(check.key.clone());
            let is_changed = changes(&check.key);
            match check.masked() {
                Some((masked, is_unlinked)) => {
                    let to = if is_changed { &mut plan.directories_to_change } else { &mut plan.directories };
                    to.push(check, masked, is_unlinked);
                }
                None => {
                    let columns = if is_changed { &mut plan.held_to_change } else { &mut plan.held };
                    columns.0.push(check.key);
                    columns.1.push(check.value);
                }
            }
        }
        for check in &batch.ranges {
            match guard_of_range(&check.range) {
                Some(guard) => drop(guards.alone.insert(guard)),
                None => guards.alone.extend(0..GUARDS),
            }
        }
        plan.ranges = batch.ranges;
        plan.write(writes, &is_present, &is_made, &mut guards);
        for (key, delta) in batch.deltas {
            match delta.encode() {
                Some(bytes) => {
                    plan.deltas.0.push(key);
                    plan.deltas.1.push(bytes);
                }
                None => plan.merged.push((key, delta)),
            }
        }
        plan.alone = !guards.alone.is_empty();
        plan.guards = guards.alone.union(&guards.shared).copied().collect();
        plan
    }

    fn write(
        &mut self,
        writes: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
        is_present: &BTreeSet<Vec<u8>>,
        is_made: &BTreeSet<Vec<u8>>,
        guards: &mut Guards,
    ) {
        for (key, value) in writes {
            self.forgotten.push(key.clone());
            let Some(value) = value else {
                self.removed.push(key);
                continue;
            };
            if !is_present.contains(&key) {
                guards.shared.insert(guard_of(&key));
            }
            let columns = if is_made.contains(&key) { &mut self.made } else { &mut self.set };
            columns.0.push(key);
            columns.1.push(value);
        }
    }

    /// It checks nothing but rows that are there, and needs no answer before it changes something.
    pub fn is_plain(&self) -> bool {
        let is_of_rows = self.absent.is_empty() && self.ranges.is_empty() && !self.alone;
        is_of_rows && self.merged.is_empty() && self.directories_to_change.keys.is_empty()
    }

    /// The keys that are compared by value: deltas that wait at one of them make a check fail.
    pub fn compared(&self) -> Vec<Vec<u8>> {
        [&self.held_to_change.0[..], &self.held.0].concat()
    }
}

impl Directories {
    fn push(&mut self, check: Directory, masked: Vec<u8>, is_unlinked: bool) {
        self.keys.push(check.key);
        self.masked.push(masked);
        self.are_unlinked.push(is_unlinked);
    }
}

#[derive(Default)]
struct Guards {
    shared: BTreeSet<i32>,
    alone: BTreeSet<i32>,
}

/// The guard of a key's domain.
fn guard_of(key: &[u8]) -> i32 {
    let hash = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc64Nvme, domain(key));
    i32::try_from(hash % u64::from(GUARDS.unsigned_abs())).expect("it is below their number")
}

/// The one guard of all keys in the range; `None`: they may be of several domains.
fn guard_of_range(range: &Range<Vec<u8>>) -> Option<i32> {
    let first = range.start.get(..DOMAIN_BYTES)?;
    let is_within = range.end.starts_with(first) || range.end == after(first)?;
    is_within.then(|| guard_of(first))
}

/// The first key beyond all that begin so; `None`: there is none.
fn after(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte < u8::MAX)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end)
}

/// Slots of a store that is being made, a later value of a key in the place of an earlier one: what is set, and what is removed.
pub(super) fn columns_of(slots: Vec<Slot>) -> (Columns, Vec<Vec<u8>>) {
    let last: BTreeMap<_, _> = slots.into_iter().collect();
    let (mut set, mut removed) = (Columns::default(), Vec::new());
    for (key, value) in last {
        match value {
            Some(value) => {
                set.0.push(key);
                set.1.push(value);
            }
            None => removed.push(key),
        }
    }
    (set, removed)
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
