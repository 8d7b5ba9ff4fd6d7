//! The table in memory: which shard lies in which slots, and which slots are free. Pure.

use super::layout::{Entry, Part};
use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use weft_format::ShardKey;

/// A slot's state is the number of the put whose part it holds, or one of these; puts are numbered from 1.
const FREE: u64 = 0;
const TAKEN: u64 = u64::MAX;
const DAMAGED: u64 = u64::MAX - 1;

/// What is known of all slots.
pub(super) struct Index {
    slots: Vec<u64>,
    free_count: usize,
    /// Where the search for free slots goes on, so that a put finds neighbours.
    cursor: usize,
    puts: HashMap<u64, Put>,
    /// Shards of which all parts are there.
    keys: BTreeMap<ShardKey, u64>,
    last_put: u64,
}

/// The parts of one put.
struct Put {
    first: Part,
    /// Slot by part.
    found: BTreeMap<u32, u32>,
}

/// A shard that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Shard {
    pub(super) put: u64,
    pub(super) bytes: u64,
    pub(super) modified_ms: u64,
    /// In the order of its bytes.
    pub(super) slots: Vec<u32>,
}

impl Index {
    pub(super) fn new(slot_count: u32) -> Self {
        let slots = vec![FREE; slot_count as usize];
        Self { free_count: slots.len(), slots, cursor: 0, puts: HashMap::new(), keys: BTreeMap::new(), last_put: 0 }
    }

    /// Takes in what the table says of a slot.
    pub(super) fn apply(&mut self, slot: u32, entry: Entry) {
        let at = slot as usize;
        let Some(&before) = self.slots.get(at) else { return };
        if before == FREE {
            self.free_count -= 1;
        } else {
            self.leave(slot, before);
        }
        self.slots[at] = match entry {
            Entry::Free => FREE,
            Entry::Damaged => DAMAGED,
            Entry::Part(part) => self.join(slot, part),
        };
        if self.slots[at] == FREE {
            self.free_count += 1;
        }
    }

    fn join(&mut self, slot: u32, part: Part) -> u64 {
        let put = self.puts.entry(part.put).or_insert_with(|| Put { first: part, found: BTreeMap::new() });
        let is_alike = (part.key, part.parts, part.bytes) == (put.first.key, put.first.parts, put.first.bytes);
        if !is_alike || part.part >= part.parts || put.found.contains_key(&part.part) {
            return DAMAGED;
        }
        put.found.insert(part.part, slot);
        if put.found.len() == part.parts as usize {
            self.keys.insert(part.key, part.put);
        }
        self.last_put = self.last_put.max(part.put);
        part.put
    }

    fn leave(&mut self, slot: u32, put_number: u64) {
        let Some(put) = self.puts.get_mut(&put_number) else { return };
        put.found.retain(|_, found| *found != slot);
        if self.keys.get(&put.first.key) == Some(&put_number) {
            self.keys.remove(&put.first.key);
        }
        if put.found.is_empty() {
            self.puts.remove(&put_number);
        }
    }

    /// Frees the slots of puts and removals that were cut off: of shards that are not whole. Their entries stay in the
    /// table until the slots are used again; a put's number is never used twice, so they never become whole.
    pub(super) fn drop_incomplete(&mut self) {
        let is_cut_off = |put: &Put| put.found.len() < put.first.parts as usize;
        let cut_off: Vec<u64> = self.puts.iter().filter(|(_, put)| is_cut_off(put)).map(|(&put, _)| put).collect();
        for number in cut_off {
            for slot in self.puts.remove(&number).into_iter().flat_map(|put| put.found.into_values()) {
                self.slots[slot as usize] = FREE;
                self.free_count += 1;
            }
        }
    }

    pub(super) fn find(&self, key: ShardKey) -> Option<Shard> {
        let number = *self.keys.get(&key)?;
        let put = self.puts.get(&number)?;
        let Part { bytes, modified_ms, .. } = put.first;
        Some(Shard { put: number, bytes, modified_ms, slots: put.found.values().copied().collect() })
    }

    /// Up to `limit` keys after `after`, ascending, and whether there are more.
    pub(super) fn keys_after(&self, after: Option<ShardKey>, limit: usize) -> (Vec<ShardKey>, bool) {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let mut keys = self.keys.range((from, Bound::Unbounded)).map(|(key, _)| *key);
        (keys.by_ref().take(limit).collect(), keys.next().is_some())
    }

    /// Slots whose entries are damaged.
    pub(super) fn damaged(&self) -> impl Iterator<Item = u32> {
        (0u32..).zip(&self.slots).filter(|(_, state)| **state == DAMAGED).map(|(slot, _)| slot)
    }

    /// Takes `count` free slots, neighbours where it can; `None` if there are not so many.
    pub(super) fn take(&mut self, count: u64) -> Option<Vec<u32>> {
        if (self.free_count as u64) < count {
            return None;
        }
        let mut taken = Vec::with_capacity(count as usize);
        while (taken.len() as u64) < count {
            if self.slots[self.cursor] == FREE {
                self.slots[self.cursor] = TAKEN;
                taken.push(self.cursor as u32);
            }
            self.cursor = (self.cursor + 1) % self.slots.len();
        }
        self.free_count -= taken.len();
        Some(taken)
    }

    /// Keeps a free slot from being taken, until it is given back.
    pub(super) fn hold(&mut self, slot: u32) {
        if self.slots[slot as usize] == FREE {
            self.slots[slot as usize] = TAKEN;
            self.free_count -= 1;
        }
    }

    /// Frees slots that were taken and came to nothing, or were held.
    pub(super) fn give_back(&mut self, slots: &[u32]) {
        for &slot in slots {
            if self.slots[slot as usize] == TAKEN {
                self.slots[slot as usize] = FREE;
                self.free_count += 1;
            }
        }
    }

    pub(super) fn next_put(&mut self) -> u64 {
        self.last_put += 1;
        self.last_put
    }

    pub(super) fn free_count(&self) -> usize {
        self.free_count
    }
}

#[cfg(test)]
#[path = "index_tests.rs"]
mod tests;
