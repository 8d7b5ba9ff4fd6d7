//! Chooses the segment to rebuild next: the one that survives the fewest further losses, and the oldest of these.
//!
//! Pure: events in, the next segment out. Slow and obvious reference: a sort, in `queue_tests.rs`.

use std::collections::{BTreeMap, BTreeSet};
use weft_format::SegmentId;

/// An event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A segment needs work; it survives `margin` more losses. If it is reported again, the newest margin counts.
    Found {
        /// The segment.
        segment: SegmentId,
        /// Further losses of shards that it survives.
        margin: usize,
    },
    /// The work on a segment given out by [`Queue::next`] has ended, well or not. If it was found again meanwhile it is
    /// due again.
    Ended(SegmentId),
    /// A segment is gone (its files were deleted): nothing is to be done any more.
    Gone(SegmentId),
}

/// The queue: segments that wait, and segments that were given out and are not done. One segment is never given out twice at once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Queue {
    /// Ascending: smallest margin first, then byte order of the ids, which is age.
    waiting: BTreeSet<(usize, SegmentId)>,
    /// The margin under which each waiting segment is filed.
    margins: BTreeMap<SegmentId, usize>,
    /// Given out; `Some` when found again since.
    working: BTreeMap<SegmentId, Option<usize>>,
}

impl Queue {
    /// Takes note of an event.
    pub fn apply(&mut self, event: Event) {
        match event {
            Event::Found { segment, margin } => match self.working.get_mut(&segment) {
                Some(again) => *again = Some(margin),
                None => self.file(segment, margin),
            },
            Event::Ended(segment) => {
                if let Some(Some(margin)) = self.working.remove(&segment) {
                    self.file(segment, margin);
                }
            }
            Event::Gone(segment) => {
                self.working.remove(&segment);
                if let Some(margin) = self.margins.remove(&segment) {
                    self.waiting.remove(&(margin, segment));
                }
            }
        }
    }

    /// Gives out the segment most at risk.
    #[allow(clippy::should_implement_trait, reason = "a queue that is fed while it is drained is no iterator")]
    pub fn next(&mut self) -> Option<SegmentId> {
        let (_, segment) = self.waiting.pop_first()?;
        self.margins.remove(&segment);
        self.working.insert(segment, None);
        Some(segment)
    }

    /// Segments that wait.
    pub fn waiting_count(&self) -> usize {
        self.waiting.len()
    }

    fn file(&mut self, segment: SegmentId, margin: usize) {
        if let Some(before) = self.margins.insert(segment, margin) {
            self.waiting.remove(&(before, segment));
        }
        self.waiting.insert((margin, segment));
    }
}

#[cfg(test)]
#[path = "queue_tests.rs"]
mod tests;
