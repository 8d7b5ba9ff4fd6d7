//! What was found to be needed by nobody, and since when, by the clock of the one who looks, which never jumps.
//!
//! Times in metadata are of wall clocks, and these may be wrong: all of a machine's for a while, or one machine's and not another's. So
//! while others use a volume, what seems dead is removed by somebody only who has itself seen it so for the whole grace time.
//!
//! A volume that is mounted for seconds at a time would never get its room back. So the owner notes in metadata for how long it has
//! seen segments dead ([`SeenRecord`]), and the next one goes on from there: a dead segment never lives again, owners come one after
//! another, and time that nobody has looked counts for nothing.

use crate::catalogue::{Catalogue, CatalogueError};
use crate::record::{self, VERSION};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use weft_format::{Generation, NodeId, SegmentId, ShardKey};

/// The note's name in the catalogue.
const SEEN: &str = "seen-dead";
/// Segments in the note, the longest seen first: some 50 kB. The others' time begins anew.
const SEEN_MAX: usize = 1000;

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
    /// For how long former owners saw it.
    before_ms: u64,
}

/// For how long segments were seen dead by owners of the volume that came one after another.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SeenRecord {
    version: u32,
    /// Segments as text, and milliseconds.
    dead: BTreeMap<String, u64>,
}

/// What one process has seen; with it these sights end, but for what it notes of dead segments.
#[derive(Debug, Default)]
pub struct Sightings {
    seen: Mutex<BTreeMap<Unneeded, Sight>>,
    /// What former owners noted of segments that this one has not seen yet.
    before: Mutex<BTreeMap<SegmentId, u64>>,
}

impl Sightings {
    /// Of the volume's owner: goes on from what the former one noted.
    ///
    /// # Errors
    /// The catalogue cannot be read, or the note is not one of this version.
    pub fn load(catalogue: &dyn Catalogue) -> Result<Self, CatalogueError> {
        let noted: Option<SeenRecord> = record::load(catalogue, SEEN)?;
        let dead = noted.map(|noted| noted.dead).unwrap_or_default();
        // What is no segment is in no trash either.
        let before = dead.into_iter().filter_map(|(segment, ms)| Some((segment.parse().ok()?, ms))).collect();
        Ok(Self { before: Mutex::new(before), ..Self::default() })
    }

    /// Notes for how long dead segments were seen, for the next owner. Only the owner may: of two, one would count the other's time.
    ///
    /// # Errors
    /// The catalogue cannot be written.
    pub fn note(&self, catalogue: &dyn Catalogue) -> Result<(), CatalogueError> {
        let mut dead: Vec<(SegmentId, u64)> = Vec::new();
        for (what, sight) in self.seen.lock().iter() {
            if let Unneeded::Dead(segment) = what {
                dead.push((*segment, sight.before_ms + sight.last_ms.saturating_sub(sight.first_ms)));
            }
        }
        dead.sort_by_key(|(segment, ms)| (Reverse(*ms), *segment));
        dead.truncate(SEEN_MAX);
        if dead.is_empty() {
            return if catalogue.job(SEEN)?.is_some() { catalogue.set_job(SEEN, None) } else { Ok(()) };
        }
        let dead = dead.into_iter().map(|(segment, ms)| (segment.to_string(), ms)).collect();
        catalogue.set_job(SEEN, Some(&record::encode(&SeenRecord { version: VERSION, dead })))
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

    /// All of its kind was looked at: what was not seen this time is needed, or gone.
    pub(crate) fn forget_others(&self, is_kind: impl Fn(&Unneeded) -> bool) {
        self.sightings.seen.lock().retain(|what, sight| !is_kind(what) || sight.last_ms == self.at_ms);
    }
}

#[cfg(test)]
#[path = "sightings_tests.rs"]
mod tests;
