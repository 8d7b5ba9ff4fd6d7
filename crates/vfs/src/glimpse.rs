//! What others had committed of a file a moment ago.

use std::ops::Range;
use std::time::{Duration, Instant};
use weft_env::planted::{Planted, has_planted};
use weft_meta::FileData;

/// So long others' changes of an open file may go unseen.
const FRESH: Duration = Duration::from_secs(1);

/// A part of a file as it was committed at some moment.
pub(crate) struct Glimpse {
    /// At that moment, or before it.
    pub taken: Instant,
    /// Which part.
    pub range: Range<u64>,
    /// What there is of it.
    pub data: FileData,
}

impl Glimpse {
    /// Does it show `wanted`, and is it not too old?
    pub fn shows(&self, wanted: &Range<u64>, now: Instant) -> bool {
        let covers = self.range.start <= wanted.start && wanted.end <= self.range.end;
        covers && (now.saturating_duration_since(self.taken) < FRESH || has_planted(Planted::FeedBelieved))
    }
}
