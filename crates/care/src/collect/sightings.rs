//! What was found to be needed by nobody, and since when, by the clock of the one who looks, which never jumps.
//!
//! Times in metadata are of wall clocks, and these may be wrong: all of a machine's for a while, or one machine's and not another's. So
//! while others use a volume, what seems dead is removed by somebody only who has itself seen it so for the whole grace time.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use weft_format::{Generation, NodeId, SegmentId, ShardKey};

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
}

/// What one process has seen; with it these sights end.
#[derive(Debug, Default)]
pub struct Sightings(Mutex<BTreeMap<Unneeded, Sight>>);

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
        let mut seen = self.sightings.0.lock();
        let sight = seen.entry(what).or_insert(Sight { first_ms: self.at_ms, last_ms: self.at_ms });
        sight.last_ms = self.at_ms;
        self.at_ms.saturating_sub(sight.first_ms)
    }

    /// All of its kind was looked at: what was not seen this time is needed, or gone.
    pub(crate) fn forget_others(&self, is_kind: impl Fn(&Unneeded) -> bool) {
        self.sightings.0.lock().retain(|what, sight| !is_kind(what) || sight.last_ms == self.at_ms);
    }
}

#[cfg(test)]
#[path = "sightings_tests.rs"]
mod tests;
