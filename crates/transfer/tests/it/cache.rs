//! Read-ahead: what was prefetched is not fetched again.

use crate::house::{House, bytes, every, segment};
use std::time::Duration;
use weft_nodes::wrappers::{Fault, Operation};
use weft_transfer::{BLOCK_BYTES, DiskRoom, ReadPart, Settings};

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
async fn where_every_read_decodes_a_stripe_is_fetched_once() {
    let code = "mojette:8+4,nonsystematic";
    let house = House::with_settings(12, Settings::default());
    let length = 12 * BLOCK_BYTES + 777;
    let data = bytes(length as usize, 6);
    let record = house.write(segment(0), code, &data).await;
    for block in 0..length.div_ceil(BLOCK_BYTES) {
        let range = block * BLOCK_BYTES..((block + 1) * BLOCK_BYTES).min(length);
        house.transfer.prefetch(segment(0), &record, range.clone());
        let report = house.read_same(segment(0), &record, range, &data).await;
        assert_eq!(report.bytes_fetched, 0, "block {block}");
    }
    // Any eight of the twelve shards, and no more than their payload.
    let once = 8 * weft_format::shard::object_bytes(record.geometry.payload_bytes());
    assert!(house.bytes_read() <= once, "{} of {once}", house.bytes_read());
}

/// Small reads here and there, which nothing prefetches.
#[tokio::test]
async fn where_every_read_decodes_small_reads_fetch_a_stripe_once() {
    let house = House::with_settings(12, Settings::default());
    let data = bytes(LENGTH as usize, 8);
    let record = house.write(segment(0), "mojette:8+4,nonsystematic", &data).await;
    for number in 0..64 {
        let start = number * 37 % 61 * (LENGTH / 64);
        house.read_same(segment(0), &record, start..start + 4096, &data).await;
    }
    let once = 8 * weft_format::shard::object_bytes(record.geometry.payload_bytes());
    assert!(house.bytes_read() <= once, "{} of {once}", house.bytes_read());
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

#[tokio::test]
async fn parts_of_segments_come_from_the_cache_and_the_rest_in_one_download() {
    let house = House::with_settings(6, Settings::default());
    let data: Vec<Vec<u8>> = (0..3).map(|i| bytes(LENGTH as usize, 20 + i)).collect();
    let mut records = Vec::new();
    for (i, data) in data.iter().enumerate() {
        records.push(house.write(segment(i as u64), "rs:4+2", data).await);
    }
    // The first has come, the second is on its way.
    house.transfer.prefetch(segment(0), &records[0], 0..BLOCK_BYTES);
    house.read_same(segment(0), &records[0], 0..BLOCK_BYTES, &data[0]).await;
    house.transfer.prefetch(segment(1), &records[1], 0..BLOCK_BYTES);
    let wanted = [0..100_000u64, 500..2 * BLOCK_BYTES, BLOCK_BYTES..BLOCK_BYTES + 4096];
    let mut outs = wanted.clone().map(|range| vec![0; (range.end - range.start) as usize]);
    let parts = (outs.iter_mut().enumerate())
        .map(|(i, out)| ReadPart { segment: segment(i as u64), record: &records[i], range: wanted[i].clone(), out })
        .collect();
    house.transfer.start_trace();
    let reports = house.transfer.read_parts(parts).await.unwrap();
    let events = house.transfer.finish_trace();
    for (i, out) in outs.iter().enumerate() {
        assert!(*out == data[i][wanted[i].start as usize..wanted[i].end as usize], "part {i}");
    }
    assert_eq!(reports[0].bytes_fetched, 0);
    assert!(reports[1].bytes_fetched > 0 && reports[2].bytes_fetched > 0);
    assert!(!events.is_empty());
    let fails = [ReadPart { segment: segment(0), record: &records[0], range: 0..10, out: &mut [0; 9] }];
    assert!(house.transfer.read_parts(fails.into()).await.is_err(), "a place of another length");
}

#[tokio::test]
async fn what_is_on_disk_is_not_fetched_again_not_even_by_the_next() {
    let folder = tempfile::tempdir().unwrap();
    let room = DiskRoom { folder: folder.path().to_owned(), bytes: 32 << 20 };
    let house = House::new(6);
    let data = bytes(LENGTH as usize, 4);
    let record = house.write(segment(0), "rs:4+2", &data).await;
    let ranges = [0..10, 70_000..300_000, 65_536..65_537, LENGTH - 5..LENGTH, 131_072..196_608, 0..LENGTH];
    for round in 0..3 {
        let cached = house.transfer.clone().with_disk_cache(&room).unwrap();
        for range in &ranges {
            let before = house.bytes_read();
            let mut out = vec![0; (range.end - range.start) as usize];
            let report = cached.read(segment(0), &record, range.clone(), &mut out).await.unwrap();
            assert!(out == data[range.start as usize..range.end as usize], "{range:?}");
            assert_eq!(report.bytes_fetched, house.bytes_read() - before);
            assert!(round == 0 || report.bytes_fetched == 0, "round {round}: {range:?}");
        }
        // What nobody waits for does not push out what users read, and is not served what may have rotted here.
        let before = house.bytes_read();
        cached.in_background().read(segment(0), &record, 0..10, &mut [0; 10]).await.unwrap();
        assert!(house.bytes_read() > before);
        // Its file is let go of when the last piece is written.
        drop(cached);
        while house.transfer.clone().with_disk_cache(&room).is_err() {
            tokio::task::yield_now().await;
        }
    }
    // Damage on this disk is no loss.
    let file = folder.path().join("pieces.weft");
    let mut damaged = std::fs::read(&file).unwrap();
    damaged[2 << 20..4 << 20].fill(0x55);
    std::fs::write(&file, damaged).unwrap();
    let cached = house.transfer.clone().with_disk_cache(&room).unwrap();
    let mut out = vec![0; LENGTH as usize];
    cached.read(segment(0), &record, 0..LENGTH, &mut out).await.unwrap();
    assert!(out == data);
}
