//! Ids of new segments, and which of them may still be committed: what a collector must know to remove what nobody will commit, and who
//! removes a node, to know that nothing comes to it any more.

use std::collections::BTreeSet;
use std::sync::Arc;
use weft_env::sync::Mutex;
use weft_format::SegmentId;
use weft_format::records::NOBODY_COMMITS;

/// Gives out the ids of one opening.
pub(crate) struct SegmentIds {
    opening: u32,
    counts: Mutex<Counts>,
}

#[derive(Default)]
struct Counts {
    next: u32,
    under_way: BTreeSet<u32>,
    /// Changes of the node table that the fleet has followed, each with the first count that was given out afterwards. Ascending.
    rosters: Vec<(u32, u64)>,
    /// What metadata was told last.
    noted: Settled,
}

/// What is settled of an opening.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Settled {
    /// Segments of a smaller count are committed, or nobody will commit them.
    pub below: u32,
    /// The others were placed, or will be, by the node table after at least this number of changes.
    pub roster: u64,
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

    /// From now on segments are placed by the node table after this number of changes.
    pub fn follow(&self, roster: u64) {
        let mut counts = self.counts.lock();
        if counts.rosters.last().is_none_or(|(_, last)| *last < roster) {
            let next = counts.next;
            counts.rosters.push((next, roster));
        }
    }

    /// No id is asked for any more.
    pub fn close(&self) {
        self.follow(NOBODY_COMMITS);
    }

    /// What is settled, if it is more than metadata was told.
    pub fn news(&self) -> Option<Settled> {
        let mut counts = self.counts.lock();
        let below = counts.under_way.first().copied().unwrap_or(counts.next);
        let known = counts.rosters.partition_point(|(first, _)| *first <= below);
        // The last of them is all that matters from now on.
        counts.rosters.drain(..known.saturating_sub(1));
        let roster = counts.rosters.first().filter(|(first, _)| *first <= below).map_or(0, |(_, roster)| *roster);
        let settled = Settled { below, roster };
        (settled != counts.noted).then_some(settled)
    }

    /// Metadata was told.
    pub fn noted(&self, settled: Settled) {
        self.counts.lock().noted = settled;
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

    fn settled(ids: &SegmentIds) -> Settled {
        let settled = ids.news().expect("metadata was told nothing");
        assert_eq!(ids.news(), Some(settled), "until it is told");
        settled
    }

    #[test]
    fn finding_04_nothing_after_a_segment_under_way_is_settled() {
        let ids = SegmentIds::new(3);
        assert_eq!(ids.news(), None);
        let (slow, quick) = (ids.begin(7, 1), ids.begin(7, 1));
        assert_eq!((slow.id.opening(), slow.id.count(), quick.id.count()), (3, 0, 1));
        drop(quick);
        assert_eq!(ids.news(), None, "the slow one may be committed");
        let last = ids.begin(8, 1);
        drop(slow);
        assert_eq!(settled(&ids).below, 2);
        drop(last);
        assert_eq!(settled(&ids), Settled { below: 3, roster: 0 });
        ids.noted(settled(&ids));
        assert_eq!(ids.news(), None);
    }

    #[test]
    fn a_change_of_nodes_is_followed_when_what_began_before_it_is_settled() {
        let ids = SegmentIds::new(3);
        ids.follow(5);
        assert_eq!(settled(&ids).roster, 5);
        let slow = ids.begin(7, 1);
        ids.follow(6);
        ids.follow(6);
        let later = ids.begin(7, 1);
        ids.follow(9);
        assert_eq!(settled(&ids).roster, 5, "the slow one may be going to a node that has left since");
        drop(slow);
        assert_eq!(settled(&ids).roster, 6);
        drop(later);
        assert_eq!(settled(&ids), Settled { below: 2, roster: 9 });
        let last = ids.begin(7, 1);
        ids.close();
        assert_eq!(settled(&ids).roster, 9);
        drop(last);
        assert_eq!(settled(&ids).roster, NOBODY_COMMITS);
    }
}
