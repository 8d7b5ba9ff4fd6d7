//! Items that a process has seen unreferenced, and since when, by its own monotonic clock.
//!
//! Times in metadata are of wall clocks, which may be wrong for a while, or on one machine. So while others use a volume, an item is removed
//! only by a process that has itself seen it unreferenced for the whole grace time.
//!
//! A volume that is mounted for seconds at a time would never free its space. So the owner notes in metadata for how long it has seen
//! segments dead ([`SeenRecord`]), and the next owner continues from there. This is sound: a dead segment never lives again, there is
//! one owner at a time, and time without an owner does not count.

use crate::catalogue::{Catalogue, CatalogueError};
use crate::record::{self, VERSION};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use weft_format::SegmentId;
use weft_format::removal::{Evidence, Item};

/// The note's name in the catalogue.
const SEEN: &str = "seen-dead";
/// Segments in the note, the longest seen first: some 50 kB. The time of the others starts again from zero.
const SEEN_MAX: usize = 1000;
/// The note is written at most this often before the end. It serves the next owner only, so a process that is killed loses this much
/// of what it has seen.
const NOTE_EVERY_MS: u64 = 60_000;

#[derive(Clone, Copy, Debug)]
struct Sight {
    /// Since when it is unreferenced, by the queue: distinguishes one time from another.
    since_ms: u64,
    first_ms: u64,
    last_ms: u64,
    /// How long previous owners saw it.
    before_ms: u64,
}

/// How long successive owners of the volume have seen segments dead.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SeenRecord {
    version: u32,
    /// Segments as text, and milliseconds.
    dead: BTreeMap<String, u64>,
}

/// The items that one process has seen. They are lost with the process, except for the note about dead segments.
#[derive(Debug, Default)]
pub struct UnreferencedSince {
    seen: Mutex<BTreeMap<Item, Sight>>,
    /// Notes of previous owners about segments that this one has not seen yet.
    before: Mutex<BTreeMap<SegmentId, u64>>,
    noted: Mutex<Noted>,
}

/// The note as the catalogue has it.
#[derive(Debug, Default)]
struct Noted {
    dead: BTreeMap<SegmentId, u64>,
    /// When it was last compared with the items seen; `None`: not since it was loaded.
    at_ms: Option<u64>,
}

impl UnreferencedSince {
    /// For the volume's owner: continues from the note of the previous owner.
    ///
    /// # Errors
    /// The catalogue cannot be read, or the note is not one of this version.
    pub fn load(catalogue: &dyn Catalogue) -> Result<Self, CatalogueError> {
        let noted: Option<SeenRecord> = record::load(catalogue, SEEN)?;
        let dead = noted.map(|noted| noted.dead).unwrap_or_default();
        // A text that is no segment id matches no segment: it is dropped.
        let dead: BTreeMap<SegmentId, u64> =
            dead.into_iter().filter_map(|(segment, ms)| Some((segment.parse().ok()?, ms))).collect();
        let noted = Noted { dead: dead.clone(), at_ms: None };
        Ok(Self { before: Mutex::new(dead), noted: Mutex::new(noted), ..Self::default() })
    }

    /// The dead segments that were seen longest, and for how long.
    fn longest_dead(&self) -> BTreeMap<SegmentId, u64> {
        let mut dead: Vec<(SegmentId, u64)> = Vec::new();
        for (what, sight) in self.seen.lock().iter() {
            if let Item::Segment(segment) = what {
                dead.push((*segment, sight.before_ms + sight.last_ms.saturating_sub(sight.first_ms)));
            }
        }
        dead.sort_by_key(|(segment, ms)| (Reverse(*ms), *segment));
        dead.truncate(SEEN_MAX);
        dead.into_iter().collect()
    }
}

/// One of the repeated looks of a process at a volume that others use.
#[derive(Clone, Copy, Debug)]
pub struct Beside<'s> {
    /// The items seen in earlier looks and in this one.
    pub unreferenced_since: &'s UnreferencedSince,
    /// When that is, in milliseconds of a clock that never goes back and never jumps.
    pub at_ms: u64,
}

impl Beside<'_> {
    /// Takes in that it is unreferenced, since `since_ms` of whatever clock; for how many milliseconds that is known now.
    pub(crate) fn see(&self, item: Item, since_ms: u64) -> u64 {
        let mut seen = self.unreferenced_since.seen.lock();
        let first = || {
            let before_ms = match item {
                Item::Segment(segment) => self.unreferenced_since.before.lock().remove(&segment).unwrap_or_default(),
                _ => 0,
            };
            Sight { since_ms, first_ms: self.at_ms, last_ms: self.at_ms, before_ms }
        };
        let sight = seen.entry(item).or_insert_with(first);
        if sight.since_ms != since_ms {
            *sight = Sight { since_ms, first_ms: self.at_ms, last_ms: self.at_ms, before_ms: 0 };
        }
        sight.last_ms = self.at_ms;
        sight.before_ms.saturating_add(self.at_ms.saturating_sub(sight.first_ms))
    }

    /// Notes for how long dead segments were seen, for the next owner: at the end, and once a minute before. Call it after each look.
    /// Only the owner may call it: of two, one would count the other's time.
    ///
    /// # Errors
    /// The catalogue cannot be written.
    pub fn note(&self, catalogue: &dyn Catalogue, is_ending: bool) -> Result<(), CatalogueError> {
        let Self { unreferenced_since, at_ms } = *self;
        let mut noted = unreferenced_since.noted.lock();
        let last_ms = *noted.at_ms.get_or_insert(at_ms);
        if !is_ending && at_ms.saturating_sub(last_ms) < NOTE_EVERY_MS {
            return Ok(());
        }
        let dead = unreferenced_since.longest_dead();
        if dead != noted.dead {
            let text = dead.iter().map(|(segment, ms)| (segment.to_string(), *ms)).collect();
            let record = (!dead.is_empty()).then(|| record::encode(&SeenRecord { version: VERSION, dead: text }));
            catalogue.set_job(SEEN, record.as_deref())?;
        }
        *noted = Noted { dead, at_ms: Some(at_ms) };
        Ok(())
    }

    /// It is removed.
    fn forget(&self, item: Item) {
        self.unreferenced_since.seen.lock().remove(&item);
    }

    /// All items of its kind were looked at. Those not seen this time are referenced, or gone.
    pub(crate) fn forget_others(&self, is_kind: impl Fn(&Item) -> bool) {
        self.unreferenced_since.seen.lock().retain(|item, sight| !is_kind(item) || sight.last_ms == self.at_ms);
    }
}

/// Whose evidence is used for a removal.
#[derive(Clone, Copy, Debug)]
pub(super) enum Witness<'s> {
    /// That of the volume's owner, which looks repeatedly.
    Owner(Beside<'s>),
    /// That of a process that looks repeatedly while others use the volume.
    Beside(Beside<'s>),
    /// That of a process that has the volume alone.
    Alone { now_ms: u64, grace_ms: u64 },
}

impl Witness<'_> {
    /// The evidence for an item that is unreferenced since `since_ms` of the wall clock.
    pub fn evidence(&self, item: Item, since_ms: u64) -> Evidence {
        match *self {
            Self::Owner(beside) => Evidence::Owner { seen_ms: beside.see(item, since_ms) },
            Self::Beside(beside) => Evidence::Beside { seen_ms: beside.see(item, since_ms) },
            Self::Alone { now_ms, grace_ms } => Evidence::alone(since_ms, now_ms, grace_ms),
        }
    }

    /// An item is removed.
    pub fn forget(&self, item: Item) {
        if let Some(beside) = self.beside() {
            beside.forget(item);
        }
    }

    /// All items of a kind were looked at.
    pub fn forget_others(&self, is_kind: impl Fn(&Item) -> bool) {
        if let Some(beside) = self.beside() {
            beside.forget_others(is_kind);
        }
    }

    fn beside(&self) -> Option<Beside<'_>> {
        match self {
            Self::Owner(beside) | Self::Beside(beside) => Some(*beside),
            Self::Alone { .. } => None,
        }
    }
}

#[cfg(test)]
#[path = "unreferenced_tests.rs"]
mod tests;
