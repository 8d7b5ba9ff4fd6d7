//! What a batch needs of the servers: comparisons and changes, worked out before anything is sent.
//!
//! All of a transaction is compared with one state, and applied to it. So a check is a comparison:
//!
//! * A value: all rows of the key, its deltas among them, are this value. A delta is none.
//! * An absent key: its rows were made never.
//! * A range: each pair that was found has its value, and between them no row was made.
//! * A directory: its value is the one that is known here, which only differs from the checked one by what may differ. It may be known here
//!   for a while; if it is not the stored one any more, the answer says which that is.

use super::layout::{Layout, stored, stored_delta};
use super::protocol::{Compare, Delete, Put, Relation, Request, Than, Transaction};
use crate::deltas::{Delta, Directory};
use crate::kv::{Batch, RangeCheck, WHOLE_COMMIT};
use std::collections::{BTreeMap, BTreeSet};

/// A transaction takes 128 comparisons, and as many operations: etcd's default. Of operations that are transactions themselves each takes
/// fewer, by the number of comparisons or operations around it.
const NESTED_MAX: usize = 60;
const COMPARISONS_MAX: usize = 128 - NESTED_MAX;
/// Comparisons that a commit adds to those of its plan, and at most as many changes.
const OWN: usize = 4;
/// Changes of a plan: a part of the transaction is the count of the commit.
const CHANGES_MAX: usize = (COMPARISONS_MAX - 1) * NESTED_MAX - OWN;
/// Bytes of its changes. A request takes 1.5 MiB, etcd's default; the rest is for comparisons and questions.
const BYTES_MAX: usize = 1400 << 10;
/// What a key costs in a request besides its bytes, at most: its length, and those of what it is in.
const KEY_BYTES: usize = 24;

/// What is asked for.
#[derive(Clone, Debug, Default)]
pub(super) struct Plan {
    pub checks: Vec<Compare>,
    /// Directories that must be what they were.
    pub directories: Vec<Directory>,
    pub changes: Vec<Request>,
    /// Directories that are changed by what they are then.
    pub merged: Vec<(Vec<u8>, Delta)>,
    /// Deltas that are left beside their values.
    pub deltas: Vec<(Vec<u8>, Vec<u8>)>,
    /// Keys that are compared by value: deltas that wait at one of them make the comparison fail.
    pub compared: Vec<Vec<u8>>,
    /// Keys that are written.
    pub written: Vec<Vec<u8>>,
}

impl Plan {
    pub fn of(batch: Batch, layout: &Layout) -> Self {
        let mut plan = Self::default();
        // Keys that cannot have deltas, or none after this.
        let mut are_bare = BTreeSet::new();
        for (key, value) in batch.checks {
            let (start, end) = layout.with_deltas(&key);
            plan.checks.push(match value {
                Some(value) => {
                    plan.compared.push(key.clone());
                    Compare::new(start, end, Relation::Equal, Than::Value(stored(&value)))
                }
                None => Compare::is_empty(start, end),
            });
            are_bare.insert(key);
        }
        for check in &batch.ranges {
            plan.check_range(check, layout);
        }
        plan.directories = batch.directories;
        let writes: BTreeMap<Vec<u8>, Option<Vec<u8>>> = batch.writes.into_iter().collect();
        for (key, value) in writes {
            plan.changes.extend(match value {
                Some(value) => {
                    let (start, end) = layout.deltas(&key);
                    let forgotten = (!are_bare.contains(&key)).then(|| delete(start, end));
                    let put = Put { key: layout.value(&key), value: stored(&value), lease: 0 };
                    forgotten.into_iter().chain([Request::Put(put)]).collect()
                }
                None => {
                    let (start, end) = layout.with_deltas(&key);
                    vec![delete(start, end)]
                }
            });
            plan.written.push(key);
        }
        for (key, delta) in batch.deltas {
            match delta.encode() {
                Some(bytes) => plan.deltas.push((key, bytes)),
                None => plan.merged.push((key, delta)),
            }
        }
        plan
    }

    fn check_range(&mut self, check: &RangeCheck, layout: &Layout) {
        let (mut start, end) = layout.range(&check.range.start, &check.range.end);
        for (key, value) in &check.found {
            let (value_at, after) = layout.with_deltas(key);
            if start < value_at {
                self.checks.push(Compare::is_empty(start, value_at.clone()));
            }
            self.checks.push(Compare::new(value_at, after.clone(), Relation::Equal, Than::Value(stored(value))));
            self.compared.push(key.clone());
            start = after;
        }
        if check.found.len() < check.limit && start < end {
            self.checks.push(Compare::is_empty(start, end));
        }
    }

    /// Its comparisons fit into a transaction.
    pub fn is_small(&self) -> bool {
        let compared = self.checks.len() + self.directories.len() + self.deltas.len() + self.merged.len();
        compared + OWN <= COMPARISONS_MAX
    }

    /// The deltas that it leaves, for a session's commit with this number.
    pub fn left(&self, layout: &Layout, session: i64, number: i64) -> impl Iterator<Item = Request> {
        self.deltas.iter().map(move |(key, delta)| {
            let key = layout.delta(key, session, number);
            Request::Put(Put { key, value: stored_delta(delta), lease: 0 })
        })
    }
}

/// How much of the largest transaction a write needs, in millionths: [`crate::kv::Kv::share_of_commit`].
pub(super) fn share(key: &[u8], value: Option<&[u8]>, layout: &Layout) -> u64 {
    let key_bytes = layout.value(key).len() + KEY_BYTES;
    // To set a value removes its deltas first, which names two keys as every removal does.
    let (changes, bytes) = match value {
        Some(value) => (2, 3 * key_bytes + value.len()),
        None => (1, 2 * key_bytes),
    };
    let part = |count: usize, max: usize| (count as u64 * WHOLE_COMMIT).div_ceil(max as u64);
    part(changes, CHANGES_MAX).max(part(bytes, BYTES_MAX))
}

pub(super) fn delete(key: Vec<u8>, range_end: Vec<u8>) -> Request {
    Request::Delete(Delete { key, range_end })
}

/// Operations as those of one transaction, however many there are.
pub(super) fn nested(changes: Vec<Request>) -> Vec<Request> {
    if changes.len() <= NESTED_MAX {
        return changes;
    }
    let parts = changes.chunks(NESTED_MAX).map(|part| {
        let success = part.iter().cloned().map(Into::into).collect();
        Request::Transaction(Transaction { success, ..Transaction::default() })
    });
    parts.collect()
}
