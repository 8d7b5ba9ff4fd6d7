//! A set of byte offsets, kept as ranges that neither touch nor overlap. Pure.

use std::collections::BTreeMap;
use std::ops::Range;

/// See the module's head.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Ranges {
    /// Ends by starts.
    ends: BTreeMap<u64, u64>,
}

impl Ranges {
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The lowest offset.
    pub fn first(&self) -> Option<u64> {
        self.ends.first_key_value().map(|(start, _)| *start)
    }

    /// Every range, ascending.
    #[cfg(test)]
    pub fn iter(&self) -> impl Iterator<Item = Range<u64>> {
        self.ends.iter().map(|(start, end)| *start..*end)
    }

    pub fn insert(&mut self, mut range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        // What touches or overlaps it becomes part of it. The last one that begins within it, then those before.
        while let Some((&start, &end)) = self.ends.range(..=range.end).next_back()
            && end >= range.start
        {
            self.ends.remove(&start);
            range = range.start.min(start)..range.end.max(end);
        }
        self.ends.insert(range.start, range.end);
    }

    pub fn remove(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        while let Some((&start, &end)) = self.ends.range(..range.end).next_back()
            && end > range.start
        {
            self.ends.remove(&start);
            if end > range.end {
                self.ends.insert(range.end, end);
            }
            if start < range.start {
                self.ends.insert(start, range.start);
            }
        }
    }

    /// The numbers of the blocks of `block_bytes` that touch both the set and `range`, ascending.
    pub fn blocks_in(&self, range: Range<u64>, block_bytes: u64) -> impl Iterator<Item = u64> {
        let before = self.ends.range(..range.start).next_back().map(|(start, end)| (*start, *end));
        let inside = self.ends.range(range.start..range.end.max(range.start)).map(|(start, end)| (*start, *end));
        let mut next = 0;
        let overlaps = before.into_iter().chain(inside).filter_map(move |(start, end)| {
            let (start, end) = (start.max(range.start), end.min(range.end));
            (start < end).then_some((start, end))
        });
        overlaps.flat_map(move |(start, end)| {
            let blocks = (start / block_bytes).max(next)..(end - 1) / block_bytes + 1;
            next = next.max(blocks.end);
            blocks
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn is_a_set_of_offsets(steps in prop::collection::vec((any::<bool>(), 0u64..60, 0u64..12), 0..40)) {
            let mut ranges = Ranges::default();
            let mut model = [false; 80];
            for (inserts, start, length) in steps {
                if inserts {
                    ranges.insert(start..start + length);
                } else {
                    ranges.remove(start..start + length);
                }
                model[start as usize..(start + length) as usize].fill(inserts);
            }
            let mut found = [false; 80];
            let mut last_end = None;
            for range in ranges.iter() {
                prop_assert!(range.start < range.end);
                prop_assert!(last_end.is_none_or(|end| end < range.start), "they touch");
                last_end = Some(range.end);
                found[range.start as usize..range.end as usize].fill(true);
            }
            prop_assert_eq!(found, model);
            prop_assert_eq!(ranges.first(), model.iter().position(|is_in| *is_in).map(|at| at as u64));
            let blocks: Vec<u64> = ranges.blocks_in(7..50, 4).collect();
            let expected: Vec<u64> =
                (0..20).filter(|block| (block * 4..block * 4 + 4).any(|at| (7..50).contains(&at) && model[at as usize])).collect();
            prop_assert_eq!(blocks, expected);
        }
    }
}
