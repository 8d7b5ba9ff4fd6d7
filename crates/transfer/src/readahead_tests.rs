use super::*;

const MIB: u64 = 1 << 20;

/// Reads `count` times `len` in order from 0; what was prefetched.
fn stream(len: u64, count: u64, file_size: u64) -> Vec<Range<u64>> {
    let mut readahead = Readahead::default();
    (0..count).filter_map(|i| readahead.on_read(i * len, len, file_size)).collect()
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
        let offset = (i * 7_919 * 4096) % (1 << 30);
        assert_eq!(readahead.on_read(offset, 4096, 1 << 30), None, "read {i}");
    }
}

#[test]
fn a_short_look_at_the_beginning_fetches_nothing_and_the_next_read_does() {
    let mut readahead = Readahead::default();
    assert_eq!(readahead.on_read(0, 4096, 100 * MIB), None);
    assert_eq!(readahead.on_read(4096, 4096, 100 * MIB), Some(8192..8192 + MIB));
}

#[test]
fn reads_that_arrive_out_of_order_are_still_one_stream() {
    let mut readahead = Readahead::default();
    let len = 256 << 10;
    let mut fetched = 0;
    for i in [0u64, 2, 1, 3, 5, 4, 7, 6, 8, 9, 11, 10] {
        fetched += readahead.on_read(i * len, len, 100 * MIB).map_or(0, |range| range.end - range.start);
    }
    assert!(fetched >= 4 * MIB, "{fetched}");
}

#[test]
fn a_jump_closes_the_window() {
    let mut readahead = Readahead::default();
    for i in 0..10 {
        readahead.on_read(i * MIB, MIB, 1000 * MIB);
    }
    assert_eq!(readahead.on_read(500 * MIB, MIB, 1000 * MIB), None);
    let again = readahead.on_read(501 * MIB, MIB, 1000 * MIB).unwrap();
    assert_eq!(again, 502 * MIB..503 * MIB, "and begins small again");
}

#[test]
fn the_end_of_a_file_and_empty_files_are_no_trouble() {
    let mut readahead = Readahead::default();
    assert_eq!(readahead.on_read(0, MIB, 0), None);
    assert_eq!(readahead.on_read(0, MIB, MIB), None);
    assert_eq!(readahead.on_read(u64::MAX, u64::MAX, 10), None);
}
