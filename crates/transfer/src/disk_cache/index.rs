//! Which piece is in which slot, and which goes when room is needed: a clock, which is almost the least recently used. Pure.

use super::PieceKey;
use std::collections::HashMap;

#[derive(Clone, Copy)]
enum Slot {
    Empty,
    /// Being written.
    Taken,
    Holds(PieceKey),
}

struct Place<D> {
    slot: u32,
    bytes: u64,
    digest: D,
    /// Since the hand passed.
    was_used: bool,
}

pub(super) struct Index<D> {
    slots: Vec<Slot>,
    places: HashMap<PieceKey, Place<D>>,
    /// Where room is looked for next.
    hand: usize,
}

impl<D: Copy> Index<D> {
    pub(super) fn new(slot_count: u32) -> Self {
        Self { slots: vec![Slot::Empty; slot_count as usize], places: HashMap::new(), hand: 0 }
    }

    /// Slot, length and digest of a piece.
    pub(super) fn find(&mut self, key: &PieceKey) -> Option<(u32, u64, D)> {
        let place = self.places.get_mut(key)?;
        place.was_used = true;
        Some((place.slot, place.bytes, place.digest))
    }

    /// A slot for a piece that is not there yet, to be written; `None`: it is, or all are being written.
    pub(super) fn take(&mut self, key: &PieceKey) -> Option<u32> {
        if self.places.contains_key(key) {
            return None;
        }
        // Twice round: the first time those that were used are spared.
        for _ in 0..2 * self.slots.len() {
            let slot = self.hand;
            self.hand = (self.hand + 1) % self.slots.len();
            match self.slots[slot] {
                Slot::Taken => continue,
                Slot::Empty => {}
                Slot::Holds(held) => match self.places.get_mut(&held) {
                    Some(place) if place.was_used => {
                        place.was_used = false;
                        continue;
                    }
                    _ => drop(self.places.remove(&held)),
                },
            }
            self.slots[slot] = Slot::Taken;
            return Some(slot as u32);
        }
        None
    }

    /// The slot holds the piece now. Of two copies of one the later counts.
    pub(super) fn insert(&mut self, slot: u32, key: PieceKey, bytes: u64, digest: D) {
        if let Some(before) = self.places.insert(key, Place { slot, bytes, digest, was_used: false }) {
            self.slots[before.slot as usize] = Slot::Empty;
        }
        self.slots[slot as usize] = Slot::Holds(key);
    }

    /// Nothing was written into a slot that was taken.
    pub(super) fn give_back(&mut self, slot: u32) {
        self.slots[slot as usize] = Slot::Empty;
    }

    /// The piece is not what it should be, if it is still in that slot.
    pub(super) fn forget(&mut self, slot: u32, key: &PieceKey) {
        if self.places.get(key).is_some_and(|place| place.slot == slot) {
            self.places.remove(key);
            self.slots[slot as usize] = Slot::Empty;
        }
    }
}
