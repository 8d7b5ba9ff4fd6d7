//! Ids of new segments, and which of them may still be committed: what a collector must know to remove what nobody will commit.

use std::collections::BTreeSet;
use std::sync::Arc;
use weft_env::sync::Mutex;
use weft_format::SegmentId;

/// Gives out the ids of one opening.
pub(crate) struct SegmentIds {
    opening: u32,
    counts: Mutex<Counts>,
}

#[derive(Default)]
struct Counts {
    next: u32,
    under_way: BTreeSet<u32>,
}

/// A segment that may be committed as long as this lives.
pub(crate) struct NewSegment {
    pub id: SegmentId,
    ids: Arc<SegmentIds>,
}

impl SegmentIds {
    pub fn new(opening: u32) -> Arc<Self> {
        Arc::new(Self { opening, counts: Mutex::default() })
    }

    pub fn opening(&self) -> u32 {
        self.opening
    }

    /// An id that was never given out.
    pub fn begin(self: &Arc<Self>, now_ms: u64, random: u16) -> NewSegment {
        let mut counts = self.counts.lock();
        let count = counts.next;
        // What comes after four billion segments shares the last count, and is collected after the next opening.
        counts.next = (count + 1).min(SegmentId::OF_WORKERS - 1);
        counts.under_way.insert(count);
        NewSegment { id: SegmentId::of_opening(now_ms, self.opening, count, random), ids: self.clone() }
    }

    /// Those of a smaller count are committed, or nobody will commit them.
    pub fn settled_below(&self) -> u32 {
        let counts = self.counts.lock();
        counts.under_way.first().copied().unwrap_or(counts.next)
    }
}

impl Drop for NewSegment {
    fn drop(&mut self) {
        self.ids.counts.lock().under_way.remove(&self.id.count());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finding_04_nothing_after_a_segment_under_way_is_settled() {
        let ids = SegmentIds::new(3);
        assert_eq!(ids.settled_below(), 0);
        let (slow, quick) = (ids.begin(7, 1), ids.begin(7, 1));
        assert_eq!((slow.id.opening(), slow.id.count(), quick.id.count()), (3, 0, 1));
        drop(quick);
        assert_eq!(ids.settled_below(), 0, "the slow one may be committed");
        let last = ids.begin(8, 1);
        drop(slow);
        assert_eq!(ids.settled_below(), 2);
        drop(last);
        assert_eq!(ids.settled_below(), 3);
    }
}
