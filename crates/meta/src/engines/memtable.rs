//! Changes that are committed but not yet in the file, ordered by key.
//!
//! Two layers: `active` takes new changes; `frozen` is what the writer is writing to the file at the moment. A change stays
//! in one of them until the file has it durably, so *memtable over file* is the current state at any time.

use imbl::OrdMap;
use std::cmp::Ordering;
use std::iter::Peekable;
use std::ops::Bound::{Excluded, Included};
use std::sync::Arc;

/// A shared key or value.
pub(crate) type Shared = Arc<[u8]>;
/// Key to new value, or `None` for a removal.
pub(crate) type Changes = OrdMap<Shared, Option<Shared>>;

/// What an entry costs besides its bytes: two counted allocations and a place in the tree, rounded up.
const ENTRY_BYTES: usize = 96;

/// The committed changes that the file does not have yet. A clone costs nothing and never changes.
#[derive(Clone, Default)]
pub(crate) struct Memtable {
    active: Changes,
    active_bytes: usize,
    frozen: Changes,
    frozen_bytes: usize,
}

impl Memtable {
    /// The pending change of `key`, if there is one.
    pub fn get(&self, key: &[u8]) -> Option<&Option<Shared>> {
        self.active.get(key).or_else(|| self.frozen.get(key))
    }

    /// Adds a change.
    pub fn put(&mut self, key: Shared, value: Option<Shared>) {
        let key_bytes = key.len();
        self.active_bytes += entry_bytes(key_bytes, &value);
        if let Some(replaced) = self.active.insert(key, value) {
            self.active_bytes -= entry_bytes(key_bytes, &replaced);
        }
    }

    /// Freezes everything pending and returns it. What an earlier, failed attempt left frozen is part of it.
    pub fn freeze(&mut self) -> Changes {
        let active = std::mem::take(&mut self.active);
        if self.frozen.is_empty() {
            self.frozen = active;
        } else {
            for (key, value) in &active {
                self.frozen.insert(key.clone(), value.clone());
            }
        }
        // Overwritten entries are counted twice after a failed attempt: the bound acts a little early, never late.
        self.frozen_bytes += std::mem::take(&mut self.active_bytes);
        self.frozen.clone()
    }

    /// The file has the frozen changes now.
    pub fn forget_frozen(&mut self) {
        self.frozen = Changes::new();
        self.frozen_bytes = 0;
    }

    /// All pending changes, each key once.
    pub fn all(&self) -> Vec<(Shared, Option<Shared>)> {
        let mut all = self.frozen.clone();
        all.extend(self.active.iter().map(|(key, value)| (key.clone(), value.clone())));
        all.into_iter().collect()
    }

    /// At least as many keys have a pending change.
    pub fn len(&self) -> usize {
        self.active.len().max(self.frozen.len())
    }

    /// Is nothing pending?
    pub fn is_empty(&self) -> bool {
        self.active.is_empty() && self.frozen.is_empty()
    }

    /// Memory of all pending changes.
    pub fn bytes(&self) -> usize {
        self.active_bytes + self.frozen_bytes
    }

    /// Pending changes with `start <= key < end`, ascending, each key once. `start` must be less than `end`.
    pub fn range<'a>(&'a self, start: &'a [u8], end: &'a [u8]) -> impl Iterator<Item = (&'a [u8], Option<&'a [u8]>)> {
        let layer = |changes: &'a Changes| {
            changes
                .range::<_, [u8]>((Included(start), Excluded(end)))
                .map(|(key, value)| (&**key, value.as_deref()))
                .peekable()
        };
        Overlay { upper: layer(&self.active), lower: layer(&self.frozen) }
    }
}

fn entry_bytes(key_bytes: usize, value: &Option<Shared>) -> usize {
    ENTRY_BYTES + key_bytes + value.as_ref().map_or(0, |value| value.len())
}

/// Merges two ascending sequences; where both have a key, the upper one's value counts.
pub(crate) struct Overlay<Upper: Iterator, Lower: Iterator> {
    pub upper: Peekable<Upper>,
    pub lower: Peekable<Lower>,
}

impl<K: Ord, V, Upper: Iterator<Item = (K, V)>, Lower: Iterator<Item = (K, V)>> Iterator for Overlay<Upper, Lower> {
    type Item = (K, V);

    fn next(&mut self) -> Option<(K, V)> {
        let order = match (self.upper.peek(), self.lower.peek()) {
            (Some((upper, _)), Some((lower, _))) => upper.cmp(lower),
            (Some(_), None) => Ordering::Less,
            (None, _) => Ordering::Greater,
        };
        match order {
            Ordering::Less => self.upper.next(),
            Ordering::Equal => {
                self.lower.next();
                self.upper.next()
            }
            Ordering::Greater => self.lower.next(),
        }
    }
}

#[cfg(test)]
#[path = "memtable_tests.rs"]
mod tests;
