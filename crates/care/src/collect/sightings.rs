//! What was found to be needed by nobody, and since when, by the clock of the one who looks, which never jumps.
//!
//! Times in metadata are of wall clocks, and these may be wrong: all of a machine's for a while, or one machine's and not another's. So
//! while others use a volume, what seems dead is removed by somebody only who has itself seen it so for the whole grace time.
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
use weft_format::{Generation, NodeId, SegmentId, ShardKey};

/// The note's name in the catalogue.
const SEEN: &str = "seen-dead";
/// Segments in the note, the longest seen first: some 50 kB. The time of the others starts again from zero.
const SEEN_MAX: usize = 1000;
/// The note is written at most this often before the end. It serves the next owner only, so a process that is killed loses this much
/// of what it has seen.
const NOTE_EVERY_MS: u64 = 60_000;

/// Something that seems to be needed by nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Unneeded {
    /// No file refers to it.
    Dead(SegmentId),
    /// A former generation of a living segment; the number tells one time that it became so from another.
    Former(SegmentId, Generation, u64),
    /// No record names it at this node.
    Orphan(NodeId, ShardKey),
}

#[derive(Clone, Copy, Debug)]
struct Sight {
    first_ms: u64,
    last_ms: u64,
    /// How long former owners saw it.
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

/// What one process has seen. It is lost with the process, except for the note about dead segments.
#[derive(Debug, Default)]
pub struct Sightings {
    seen: Mutex<BTreeMap<Unneeded, Sight>>,
    /// What former owners noted of segments that this one has not seen yet.
    before: Mutex<BTreeMap<SegmentId, u64>>,
    noted: Mutex<Noted>,
}

/// The note as the catalogue has it.
#[derive(Debug, Default)]
struct Noted {
    dead: BTreeMap<SegmentId, u64>,
    /// When it was last compared with the sightings; `None`: not since it was loaded.
    at_ms: Option<u64>,
}

impl Sightings {
    /// For the volume's owner: continues from the note of the former owner.
    ///
    /// # Errors
    /// The catalogue cannot be read, or the note is not one of this version.
    pub fn load(catalogue: &dyn Catalogue) -> Result<Self, CatalogueError> {
        let noted: Option<SeenRecord> = record::load(catalogue, SEEN)?;
        let dead = noted.map(|noted| noted.dead).unwrap_or_default();
        // A text that is no segment's id is in no trash: it is dropped.
        let dead: BTreeMap<SegmentId, u64> =
            dead.into_iter().filter_map(|(segment, ms)| Some((segment.parse().ok()?, ms))).collect();
        let noted = Noted { dead: dead.clone(), at_ms: None };
        Ok(Self { before: Mutex::new(dead), noted: Mutex::new(noted), ..Self::default() })
    }

    /// The dead segments that were seen longest, and for how long.
    fn longest_dead(&self) -> BTreeMap<SegmentId, u64> {
        let mut dead: Vec<(SegmentId, u64)> = Vec::new();
        for (what, sight) in self.seen.lock().iter() {
            if let Unneeded::Dead(segment) = what {
                dead.push((*segment, sight.before_ms + sight.last_ms.saturating_sub(sight.first_ms)));
            }
        }
        dead.sort_by_key(|(segment, ms)| (Reverse(*ms), *segment));
        dead.truncate(SEEN_MAX);
        dead.into_iter().collect()
    }
}

/// One look of somebody who looks again and again, at a volume that others use.
#[derive(Clone, Copy, Debug)]
pub struct Beside<'s> {
    /// What was seen in earlier looks, and is in this one.
    pub sightings: &'s Sightings,
    /// When that is, in milliseconds of a clock that never goes back and never jumps.
    pub at_ms: u64,
}

impl Beside<'_> {
    /// Takes in that it seems to be needed by nobody; for how many milliseconds that is known now.
    pub(crate) fn see(&self, what: Unneeded) -> u64 {
        let mut seen = self.sightings.seen.lock();
        let first = || {
            let before_ms = match what {
                Unneeded::Dead(segment) => self.sightings.before.lock().remove(&segment).unwrap_or_default(),
                Unneeded::Former(..) | Unneeded::Orphan(..) => 0,
            };
            Sight { first_ms: self.at_ms, last_ms: self.at_ms, before_ms }
        };
        let sight = seen.entry(what).or_insert_with(first);
        sight.last_ms = self.at_ms;
        sight.before_ms.saturating_add(self.at_ms.saturating_sub(sight.first_ms))
    }

    /// Notes for how long dead segments were seen, for the next owner: at the end, and once a minute before. Call it after each look.
    /// Only the owner may call it: of two, one would count the other's time.
    ///
    /// # Errors
    /// The catalogue cannot be written.
    pub fn note(&self, catalogue: &dyn Catalogue, is_ending: bool) -> Result<(), CatalogueError> {
        let Self { sightings, at_ms } = *self;
        let mut noted = sightings.noted.lock();
        let last_ms = *noted.at_ms.get_or_insert(at_ms);
        if !is_ending && at_ms.saturating_sub(last_ms) < NOTE_EVERY_MS {
            return Ok(());
        }
        let dead = sightings.longest_dead();
        if dead != noted.dead {
            let text = dead.iter().map(|(segment, ms)| (segment.to_string(), *ms)).collect();
            let record = (!dead.is_empty()).then(|| record::encode(&SeenRecord { version: VERSION, dead: text }));
            catalogue.set_job(SEEN, record.as_deref())?;
        }
        *noted = Noted { dead, at_ms: Some(at_ms) };
        Ok(())
    }

    /// It is removed.
    pub(crate) fn forget(&self, what: Unneeded) {
        self.sightings.seen.lock().remove(&what);
    }

    /// All of its kind was looked at: what was not seen this time is needed, or gone.
    pub(crate) fn forget_others(&self, is_kind: impl Fn(&Unneeded) -> bool) {
        self.sightings.seen.lock().retain(|what, sight| !is_kind(what) || sight.last_ms == self.at_ms);
    }
}

#[cfg(test)]
#[path = "sightings_tests.rs"]
mod tests;
