//! Every loss that a code promises to survive, read through.

use crate::house::{House, bytes, ranges, segment, subsets};
use std::sync::Arc;
use weft_format::shard::FRAME_PAYLOAD_BYTES;
use weft_nodes::NodeErrorKind;
use weft_nodes::wrappers::{Fault, Operation};
use weft_transfer::{ReadError, SuspectKind};

async fn every_loss(code: &str, n: usize, tolerance: usize) {
    let house = House::new(n + 2);
    for (i, length) in [1, 5_000, (1 << 20) + 1, 3 << 20].into_iter().enumerate() {
        let (segment, data) = (segment(i as u64), bytes(length, 7));
        let record = house.write(segment, code, &data).await;
        for lost in subsets(n, tolerance) {
            house.lose(&record, &lost);
            let whole = house.read_same(segment, &record, 0..length as u64, &data).await;
            assert!(whole.suspects.iter().all(|suspect| lost.contains(&suspect.index.as_usize())));
            assert!(whole.suspects.iter().all(|suspect| suspect.kind == SuspectKind::NotFound));
            // The short ranges once for each number of lost shards, and with the last ones.
            if lost.windows(2).all(|pair| pair[0] + 1 == pair[1]) {
                for range in ranges(length as u64) {
                    house.read_same(segment, &record, range, &data).await;
                }
            }
        }
    }
}

#[tokio::test]
async fn reed_solomon_4_2() {
    every_loss("rs:4+2", 6, 2).await;
}

#[tokio::test]
async fn raid5_of_4() {
    every_loss("raid5:4", 4, 1).await;
}

#[tokio::test]
async fn raid6_of_6() {
    every_loss("raid6:6", 6, 2).await;
}

#[tokio::test]
async fn replica_of_3() {
    every_loss("replica:3", 3, 2).await;
}

#[tokio::test]
async fn every_family_survives_its_tolerance() {
    for family in weft_codes::families() {
        let code = weft_codes::parse(family.example).unwrap();
        let shape = code.shape();
        let house = House::new(shape.n);
        for (i, length) in [1, 10_000, 700_001].into_iter().enumerate() {
            let (segment, data) = (segment(i as u64), bytes(length, 11));
            let record = house.write(segment, family.example, &data).await;
            house.read_same(segment, &record, 0..length as u64, &data).await;
            for first in 0..shape.n {
                let lost: Vec<usize> = (first..shape.n).take(shape.tolerance).collect();
                house.lose(&record, &lost);
                house.read_same(segment, &record, 0..length as u64, &data).await;
                house.read_same(segment, &record, length as u64 / 3..length as u64 / 2, &data).await;
            }
            house.heal();
        }
    }
}

/// What it gave before stays, and others give the rest: no range is sent twice.
#[tokio::test]
async fn a_node_that_dies_in_the_middle_of_a_segment_has_the_rest_of_its_shard_read_elsewhere() {
    for code in ["rs:4+2", "ldpc:cube-8-6"] {
        let house = House::new(14);
        let data = bytes(16 << 20, 3);
        let record = house.write(segment(0), code, &data).await;
        let (dying, mut answers) = (house.node_of(&record, 0), 2);
        dying.fault.set_script(Box::new(move |call| match (call.operation, answers) {
            (Operation::Get, 0) => Fault::Fail(NodeErrorKind::Unavailable),
            (Operation::Get, _) => {
                answers -= 1;
                Fault::None
            }
            _ => Fault::None,
        }));
        let report = house.read_same(segment(0), &record, 0..data.len() as u64, &data).await;
        let failed: Vec<u16> = report.suspects.iter().map(|suspect| suspect.index.0).collect();
        assert!(failed == [0] && report.degraded, "{code}: {failed:?}");
        let given = dying.record.counts().bytes_read;
        assert!(given > 0, "{code}: it died before it gave anything");
        // Headers of frames come on top.
        let (sent, wanted) = (house.bytes_read(), data.len() as u64);
        println!("{code}: {given} bytes before it died, {sent} of all nodes for {wanted}");
        assert!(sent < wanted + wanted / 100, "{code}: {sent} bytes for {wanted}");
    }
}

#[tokio::test]
async fn one_loss_too_many_is_an_error_that_names_every_node() {
    let house = House::new(6);
    let data = bytes(100_000, 1);
    let record = house.write(segment(0), "rs:4+2", &data).await;
    house.lose(&record, &[0, 2, 4]);
    let error = house.read(segment(0), &record, 0..100_000).await.unwrap_err();
    let ReadError::Unrecoverable { answered, needed, failures, .. } = &error else { panic!("{error}") };
    assert_eq!((*answered, *needed), (3, 4));
    assert_eq!(failures.0.iter().map(|failure| failure.index.0).collect::<Vec<_>>(), [0, 2, 4]);
    assert!(error.to_string().contains("node n"), "{error}");
    // And it heals when one comes back.
    house.lose(&record, &[0, 2]);
    house.read_same(segment(0), &record, 0..100_000, &data).await;
}

#[tokio::test]
async fn healthy_reads_ask_only_for_the_frames_that_hold_the_range() {
    let house = House::new(6);
    let length = 3 << 20;
    let data = bytes(length, 2);
    let record = house.write(segment(0), "rs:4+2", &data).await;
    let frame = FRAME_PAYLOAD_BYTES as u64 + 8;
    let report = house.read_same(segment(0), &record, 8192..12_288, &data).await;
    assert_eq!((report.bytes_fetched, report.degraded), (frame, false));
    // 1 MiB over 4 shards: one request each.
    let gets_before: u64 = house.nodes.iter().map(|node| node.record.counts().gets).sum();
    let report = house.read_same(segment(0), &record, 1 << 20..2 << 20, &data).await;
    assert_eq!(report.bytes_fetched, 256 * frame);
    let gets: u64 = house.nodes.iter().map(|node| node.record.counts().gets).sum();
    assert_eq!(gets - gets_before, 4);
}

#[tokio::test]
async fn degraded_reads_fetch_what_the_plan_says_and_no_more() {
    let house = House::new(6);
    let length = 3 << 20;
    let data = bytes(length, 3);
    let whole = house.write(segment(0), "rs:4+2", &data).await;
    let mut record = (*whole).clone();
    record.shards[1] = None;
    let record = Arc::new(record);
    let frame = FRAME_PAYLOAD_BYTES as u64 + 8;
    // 4 KiB of the lost shard: the same columns of four others.
    let before = house.bytes_read();
    let report = house.read_same(segment(0), &record, 65_536 + 4096..65_536 + 8192, &data).await;
    assert!(report.degraded);
    assert_eq!(report.bytes_fetched, 4 * frame);
    assert_eq!(house.bytes_read() - before, 4 * frame);
    // 1 MiB: as many bytes as a healthy read.
    let before = house.bytes_read();
    let report = house.read_same(segment(0), &record, 1 << 20..2 << 20, &data).await;
    assert_eq!(report.bytes_fetched, 256 * frame);
    assert_eq!(house.bytes_read() - before, 256 * frame);
    // A shard that fails on the way costs what it sent (here nothing), and what was read before is used.
    house.lose(&whole, &[1]);
    let report = house.read_same(segment(0), &whole, 1 << 20..2 << 20, &data).await;
    assert_eq!(report.bytes_fetched, 256 * frame);
}

#[tokio::test]
async fn ranges_and_outputs_that_do_not_fit_are_refused() {
    let house = House::new(6);
    let record = house.write(segment(0), "rs:4+2", &bytes(1000, 1)).await;
    let mut out = [0; 10];
    for range in [995..1005, 0..9, 2000..2010, u64::MAX - 10..u64::MAX] {
        let error = house.transfer.read(segment(0), &record, range, &mut out).await.unwrap_err();
        assert!(matches!(error, ReadError::Range { .. }), "{error}");
    }
    let backwards = house.transfer.read_bytes(segment(0), &record, std::ops::Range { start: 10, end: 0 }).await;
    assert!(matches!(backwards, Err(ReadError::Range { .. })));
    let mut wrong = (*record).clone();
    wrong.shards.pop();
    let error = house.read(segment(0), &Arc::new(wrong), 0..10).await.unwrap_err();
    assert!(matches!(error, ReadError::Record { .. }), "{error}");
}
