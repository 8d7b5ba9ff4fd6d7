//! Read-ahead: what was prefetched is not fetched again.

use crate::house::{House, bytes, every, segment};
use std::time::Duration;
use weft_nodes::wrappers::{Fault, Operation};
use weft_transfer::{BLOCK_BYTES, Settings};

const LENGTH: u64 = 5 * BLOCK_BYTES + 12_345;

#[tokio::test]
async fn prefetched_blocks_are_read_without_asking_nodes() {
    let house = House::with_settings(6, Settings::default());
    let data = bytes(LENGTH as usize, 1);
    let record = house.write(segment(0), "rs:4+2", &data).await;
    house.transfer.prefetch(segment(0), &record, BLOCK_BYTES..3 * BLOCK_BYTES);
    let report = house.read_same(segment(0), &record, BLOCK_BYTES + 5..3 * BLOCK_BYTES - 5, &data).await;
    assert_eq!(report.bytes_fetched, 0);
    let fetched = house.bytes_read();
    let report = house.read_same(segment(0), &record, 0..LENGTH, &data).await;
    assert!(report.bytes_fetched > 0);
    assert_eq!(house.bytes_read() - fetched, report.bytes_fetched);
    let (slice, _) = house.transfer.read_bytes(segment(0), &record, BLOCK_BYTES..BLOCK_BYTES + 4096).await.unwrap();
    let (again, _) = house.transfer.read_bytes(segment(0), &record, BLOCK_BYTES..BLOCK_BYTES + 4096).await.unwrap();
    assert_eq!(slice.as_ptr(), again.as_ptr(), "a slice of the block, not a copy");
    assert_eq!(slice, &data[BLOCK_BYTES as usize..BLOCK_BYTES as usize + 4096]);
}

#[tokio::test]
async fn the_short_last_block_and_ranges_past_the_end_are_fine() {
    let house = House::with_settings(6, Settings::default());
    let data = bytes(LENGTH as usize, 2);
    let record = house.write(segment(0), "rs:4+2", &data).await;
    house.transfer.prefetch(segment(0), &record, LENGTH - 1..u64::MAX);
    let report = house.read_same(segment(0), &record, 5 * BLOCK_BYTES..LENGTH, &data).await;
    assert_eq!(report.bytes_fetched, 0);
    let (bytes, _) = house.transfer.read_bytes(segment(0), &record, LENGTH - 10..LENGTH).await.unwrap();
    assert_eq!(bytes, &data[LENGTH as usize - 10..]);
}

#[tokio::test(start_paused = true)]
async fn a_block_on_its_way_is_fetched_once() {
    let house = House::with_settings(6, Settings::default());
    let data = bytes(LENGTH as usize, 3);
    let record = house.write(segment(0), "rs:4+2", &data).await;
    for node in &house.nodes {
        node.fault.set_script(every(Operation::Get, Fault::Delay(Duration::from_millis(20))));
    }
    house.transfer.prefetch(segment(0), &record, 0..LENGTH);
    house.transfer.prefetch(segment(0), &record, 0..LENGTH);
    let reads = [0, 1, 2].map(|_| house.read_same(segment(0), &record, 0..LENGTH, &data));
    for read in reads {
        assert_eq!(read.await.bytes_fetched, 0);
    }
    let once = 4 * (weft_format::shard::object_bytes(record.geometry.payload_bytes()) - 256);
    // Blocks end within frames of the last stripe; a frame of each shard may be read twice.
    assert!(house.bytes_read() <= once + 4 * 4104, "{} for {once}", house.bytes_read());
}

#[tokio::test]
async fn a_read_of_prefetched_blocks_hears_of_the_suspects() {
    let house = House::with_settings(6, Settings::default());
    let data = bytes(LENGTH as usize, 4);
    let record = house.write(segment(0), "rs:4+2", &data).await;
    house.lose(&record, &[1]);
    house.transfer.prefetch(segment(0), &record, 0..BLOCK_BYTES);
    let report = house.read_same(segment(0), &record, 0..BLOCK_BYTES, &data).await;
    assert!(report.degraded);
    assert_eq!(report.suspects.len(), 1);
}

#[tokio::test]
async fn a_prefetch_that_fails_leaves_the_error_to_the_read() {
    let house = House::with_settings(6, Settings::default());
    let data = bytes(LENGTH as usize, 5);
    let record = house.write(segment(0), "rs:4+2", &data).await;
    house.lose(&record, &[0, 1, 2]);
    house.transfer.prefetch(segment(0), &record, 0..BLOCK_BYTES);
    assert!(house.read(segment(0), &record, 0..10).await.is_err());
    house.heal();
    house.read_same(segment(0), &record, 0..10, &data).await;
}
