#![expect(clippy::single_range_in_vec_init, reason = "one range is what is meant")]

use super::*;

const MIB: u64 = 1 << 20;

/// Reads `count` times `len` in order from 0; what was prefetched.
fn stream(len: u64, count: u64, file_size: u64) -> Vec<Range<u64>> {
    let mut readahead = Readahead::default();
    (0..count).flat_map(|i| readahead.on_read(i * len, len, file_size)).collect()
}

#[test]
fn a_stream_is_fetched_ahead_once_without_gaps_and_ever_wider() {
    let ranges = stream(128 << 10, 512, 64 * MIB);
    assert_eq!(ranges[0], 128 << 10..MIB + (128 << 10));
    for pair in ranges.windows(2) {
        assert_eq!(pair[0].end, pair[1].start, "no gap and no overlap");
    }
    assert_eq!(ranges.last().unwrap().end, 64 * MIB, "and never past the end of the file");
    let widest = ranges.iter().map(|range| range.end - range.start).max().unwrap();
    assert!(widest <= WIDEST_WINDOW_BYTES);
    assert!(ranges.len() < 25, "seldom: {}", ranges.len());
}

#[test]
fn random_reads_fetch_nothing() {
    let mut readahead = Readahead::default();
    for i in 0..1000u64 {
        let offset = (i * i * 7_919 * 4096) % (1 << 30);
        assert_eq!(readahead.on_read(offset, 4096, 1 << 30), [], "read {i}");
    }
}

#[test]
fn a_short_look_at_the_beginning_fetches_nothing_and_the_next_read_does() {
    let mut readahead = Readahead::default();
    assert_eq!(readahead.on_read(0, 4096, 100 * MIB), []);
    assert_eq!(readahead.on_read(4096, 4096, 100 * MIB), [8192..8192 + MIB]);
}

#[test]
fn reads_that_arrive_out_of_order_are_still_one_stream() {
    let mut readahead = Readahead::default();
    let len = 256 << 10;
    let mut fetched = 0;
    for i in [0u64, 2, 1, 3, 5, 4, 7, 6, 8, 9, 11, 10] {
        fetched += readahead.on_read(i * len, len, 100 * MIB).iter().map(|range| range.end - range.start).sum::<u64>();
    }
    assert!(fetched >= 4 * MIB, "{fetched}");
}

#[test]
fn a_jump_closes_the_window() {
    let mut readahead = Readahead::default();
    for i in 0..10 {
        readahead.on_read(i * MIB, MIB, 1000 * MIB);
    }
    assert_eq!(readahead.on_read(500 * MIB, MIB, 1000 * MIB), []);
    let again = readahead.on_read(501 * MIB, MIB, 1000 * MIB);
    assert_eq!(again, [502 * MIB..503 * MIB], "and begins small again");
}

#[test]
fn the_end_of_a_file_and_empty_files_are_no_trouble() {
    let mut readahead = Readahead::default();
    assert_eq!(readahead.on_read(0, MIB, 0), []);
    assert_eq!(readahead.on_read(0, MIB, MIB), []);
    assert_eq!(readahead.on_read(u64::MAX, u64::MAX, 10), []);
}

/// Reads `count` times `len` bytes at one distance; the ranges fetched ahead, with the read that each was asked for by.
fn walk(start: u64, distance: i64, len: u64, count: u64, file_size: u64) -> Vec<(u64, Range<u64>)> {
    let mut readahead = Readahead::default();
    let offset = |i: u64| start.wrapping_add_signed(distance * i as i64);
    (0..count)
        .flat_map(|i| readahead.on_read(offset(i), len, file_size).into_iter().map(move |range| (i, range)))
        .collect()
}

#[test]
fn steps_are_followed_forwards_and_backwards_each_read_once_and_in_time() {
    let file_size = 1000 * MIB;
    for (start, distance, len) in [
        (3 * MIB, 5 * MIB as i64, MIB),
        (7 * MIB, 3 * MIB as i64, 256 << 10),
        (900 * MIB, -(8 * MIB as i64), MIB),
        (900 * MIB, -(MIB as i64), MIB),
        (5 * MIB, 300 << 10, 100 << 10),
    ] {
        let fetched = walk(start, distance, len, 40, file_size);
        // The third read is the second step of the same length.
        for i in 4..40 {
            let offset = start.wrapping_add_signed(distance * i as i64);
            let asked: Vec<u64> =
                (fetched.iter()).filter(|(_, range)| *range == (offset..offset + len)).map(|(by, _)| *by).collect();
            assert_eq!(asked.len(), 1, "read {i} of {distance}: {asked:?}");
            assert!(asked[0] < i);
        }
        let ahead = fetched
            .iter()
            .map(|(by, range)| (range.start.abs_diff(start) / distance.unsigned_abs()).saturating_sub(*by));
        assert!(ahead.max().unwrap() * len <= WIDEST_WINDOW_BYTES);
    }
}

#[test]
fn steps_that_would_waste_most_of_what_is_fetched_are_not_followed() {
    assert_eq!(walk(MIB, 4 * MIB as i64, 4096, 100, 1000 * MIB), []);
    assert_eq!(walk(MIB, 64 << 10, 4096, 100, 1000 * MIB), []);
}

#[test]
fn a_broken_step_and_the_ends_of_the_file_fetch_nothing() {
    let mut readahead = Readahead::default();
    for i in 1..6 {
        readahead.on_read(i * 4 * MIB, MIB, 1000 * MIB);
    }
    assert_eq!(readahead.on_read(700 * MIB, MIB, 1000 * MIB), []);
    assert_eq!(readahead.on_read(704 * MIB, MIB, 1000 * MIB), [], "one step says nothing");
    assert_eq!(readahead.on_read(708 * MIB, MIB, 1000 * MIB), [712 * MIB..713 * MIB]);
    for (_, range) in walk(20 * MIB, -(4 * MIB as i64), MIB, 6, 30 * MIB) {
        assert!(range.end <= 30 * MIB && range.start < range.end, "{range:?}");
    }
    for (_, range) in walk(MIB, 4 * MIB as i64, MIB, 7, 27 * MIB - 5) {
        assert!(range.end <= 27 * MIB - 5 && range.start < range.end, "{range:?}");
    }
    let mut readahead = Readahead::default();
    for offset in [0, u64::MAX, 0, u64::MAX, 5, 5, 5] {
        assert!(readahead.on_read(offset, u64::MAX, u64::MAX / 2).len() <= 1);
    }
}
