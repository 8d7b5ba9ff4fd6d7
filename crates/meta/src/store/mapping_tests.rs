//! Pure parts; what transactions make of them is held against a model in `data_tests.rs`.

use super::super::fixture::{extent, segment_id};
use super::*;

#[test]
fn clipping() {
    let whole = extent(100, 50, segment_id(1), 7);
    assert_eq!(clip(&whole, &(0..1000)), Some(whole));
    assert_eq!(clip(&whole, &(110..120)), Some(extent(110, 10, segment_id(1), 17)));
    assert_eq!(clip(&whole, &(0..101)), Some(extent(100, 1, segment_id(1), 7)));
    assert_eq!(clip(&whole, &(149..u64::MAX)), Some(extent(149, 1, segment_id(1), 56)));
    for outside in [0..100, 150..200, 120..120] {
        assert_eq!(clip(&whole, &outside), None);
    }
}

/// Every range against every page of a small alphabet, byte by byte.
#[test]
fn trimming_a_page() {
    let page = JournalPage { page: 2, ranges: vec![(0, vec![1, 2, 3]), (5, vec![4]), (4094, vec![5, 6])] };
    let base = 2 * PAGE_BYTES;
    let bytes = |page: &JournalPage| -> Vec<(u64, u8)> {
        let ranges = page.ranges.iter();
        ranges
            .flat_map(|(start, bytes)| bytes.iter().zip(u64::from(*start)..).map(|(byte, at)| (base + at, *byte)))
            .collect()
    };
    let places =
        [0, base, base + 1, base + 2, base + 3, base + 5, base + 6, base + 4094, base + 4095, base + 4096, u64::MAX];
    for start in places {
        for end in places {
            let rest = trim_page(&page, &(start..end));
            let expected: Vec<_> = bytes(&page).into_iter().filter(|(at, _)| !(start..end).contains(at)).collect();
            assert_eq!(bytes(&rest), expected, "{start}..{end}");
            assert!(values::page_is_sound(&rest), "{start}..{end}: {rest:?}");
        }
    }
}
