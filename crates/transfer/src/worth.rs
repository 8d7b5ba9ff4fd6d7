//! Which living segments are worth rewriting: thin ones, of which little lives, and small ones, of which there are many. Pure, and
//! one rule for `weft gc`, which counts them, and compaction, which rewrites them.

use std::cmp::Ordering;
use std::collections::BTreeMap;

/// Segments of which less than this share lives are thin: moving it writes less than it frees.
const THIN_SHARE: (u64, u64) = (1, 2);
/// Shards of shorter segments cost their nodes more in files than in bytes.
const SMALL_BYTES_MAX: u64 = 1 << 20;
/// Small segments of similar length are merged once there are this many. A class of lengths is this factor wide, so that the merged
/// segment is one class higher: between 4 KiB and [`SMALL_BYTES_MAX`] a byte is rewritten twice.
const SMALL_COUNT: u64 = 16;

/// Lives so little of its data that moving it is worth it?
pub fn is_thin(live_bytes: u64, data_bytes: u64) -> bool {
    let (numerator, denominator) = THIN_SHARE;
    u128::from(live_bytes) * u128::from(denominator) < u128::from(data_bytes) * u128::from(numerator)
}

/// Which of two segments has the smaller share of living bytes; each is given as (living bytes, data bytes).
pub fn by_live_share(one: (u64, u64), other: (u64, u64)) -> Ordering {
    let cross = |live_bytes, data_bytes| u128::from(live_bytes) * u128::from(data_bytes);
    cross(one.0, other.1).cmp(&cross(other.0, one.1))
}

/// Counts small segments by code and length; then says which have enough of their like to be merged.
#[derive(Clone, Debug, Default)]
pub struct Small {
    /// How many there are, by code and class of lengths.
    counts: BTreeMap<(String, u32), u64>,
}

impl Small {
    /// Counts a living segment, whatever its length.
    pub fn count(&mut self, code: &str, data_bytes: u64) {
        if let Some(class) = class(data_bytes) {
            *self.counts.entry((code.to_owned(), class)).or_default() += 1;
        }
    }

    /// Is a segment one of enough that are alike?
    pub fn is_worthwhile(&self, code: &str, data_bytes: u64) -> bool {
        let count = |class| self.counts.get(&(code.to_owned(), class)).copied();
        class(data_bytes).and_then(count).is_some_and(|count| count >= SMALL_COUNT)
    }

    /// How many are.
    pub fn worthwhile_count(&self) -> u64 {
        self.counts.values().filter(|count| **count >= SMALL_COUNT).sum()
    }
}

/// Of lengths between powers of [`SMALL_COUNT`]; none for segments that are not small.
fn class(data_bytes: u64) -> Option<u32> {
    (1..SMALL_BYTES_MAX).contains(&data_bytes).then(|| data_bytes.ilog(SMALL_COUNT))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thin_is_less_than_half() {
        assert!(is_thin(3, 8) && !is_thin(4, 8) && !is_thin(5, 8));
        assert!(is_thin(0, 1) && !is_thin(0, 0), "what holds nothing frees nothing");
        assert!(is_thin(u64::MAX / 2, u64::MAX) && !is_thin(u64::MAX, u64::MAX));
    }

    #[test]
    fn small_segments_are_merged_with_enough_of_their_like() {
        let mut small = Small::default();
        for _ in 0..15 {
            small.count("rs:4+2", 5000);
        }
        small.count("rs:4+2", 500);
        small.count("rs:4+2", 70_000);
        small.count("replica:3", 5000);
        assert!(!small.is_worthwhile("rs:4+2", 5000));
        assert_eq!(small.worthwhile_count(), 0);
        small.count("rs:4+2", 60_000);
        assert!(small.is_worthwhile("rs:4+2", 5000) && small.is_worthwhile("rs:4+2", 60_000));
        assert!(!small.is_worthwhile("rs:4+2", 500) && !small.is_worthwhile("replica:3", 5000));
        assert_eq!(small.worthwhile_count(), 16);
    }

    #[test]
    fn what_is_merged_is_of_a_higher_class_and_ends() {
        for bytes in [1, 15, 4096, 65_535, 65_536, SMALL_BYTES_MAX - 1] {
            let merged = class(bytes * SMALL_COUNT);
            assert!(merged.is_none() || merged > class(bytes), "{bytes}");
        }
        let mut small = Small::default();
        for _ in 0..100 {
            small.count("rs:4+2", SMALL_BYTES_MAX);
            small.count("rs:4+2", 0);
        }
        assert_eq!(small.worthwhile_count(), 0);
    }
}
