//! What a repair reads, beside the theory: bytes are counted, not times.

use crate::house::{House, bytes, every, key, segment};
use std::time::Duration;
use weft_format::ShardIndex;
use weft_format::shard::{CHECK_BYTES, FRAME_PAYLOAD_BYTES};
use weft_nodes::Node;
use weft_nodes::wrappers::{Fault, Operation};

/// Those whose two lost shards, repaired together, take less than what decodes everything, and one that has no such plan.
const TOGETHER: [&str; 5] = ["clay:4+4", "clay:8+4", "msr:4+4,d=7", "mbr:4+4,d=5", "rs:4+2"];

const CODES: [&str; 7] = ["clay:4+2", "clay:8+4", "msr:4+4,d=7", "mbr:4+4,d=5", "basic:4+4,d=6", "lrc:8+2+2", "rs:4+2"];

/// Nodes of one kind, and nodes of which each is slower than the one before, so that times are compared.
fn houses(code: &str) -> [House; 2] {
    let n = weft_codes::parse(code).unwrap().shape().n;
    let [alike, unlike] = [House::new(n), House::new(n)];
    for (i, node) in unlike.nodes.iter().enumerate() {
        node.fault.set_script(every(Operation::Get, Fault::Delay(Duration::from_millis(1 + 7 * i as u64))));
    }
    [alike, unlike]
}

/// What the repair of each shard read, beside `most(symbols that the code's repair takes of each stripe, the record)`.
async fn each_repair_reads_at_most(
    house: &House,
    code: &str,
    length: usize,
    most: impl Fn(u64, &weft_format::records::SegmentRecord) -> u64,
) {
    let algebra = weft_codes::parse(code).unwrap();
    let record = house.write(segment(0), code, &bytes(length, 5)).await;
    for lost in 0..record.shards.len() {
        let symbol_count = weft_codes::analysis::repair(&*algebra, &[lost], false).unwrap().symbols_received as u64;
        let rebuilt = house.transfer.rebuild(segment(0), &record, &[ShardIndex(lost as u16)]).await.unwrap();
        let most = most(symbol_count, &record);
        assert!(rebuilt.bytes_read <= most, "{code}, shard {lost} of {length} bytes: {} > {most}", rebuilt.bytes_read);
        // Make room for the next, which rebuilds under the same name.
        let (index, node) = rebuilt.placed[0];
        house.node(node).memory.remove(key(segment(0), &rebuilt.record, index.as_usize())).await.unwrap();
    }
    for index in 0..record.shards.len() {
        house.node_of(&record, index).memory.remove(key(segment(0), &record, index)).await.unwrap();
    }
}

/// Bytes of so many frames, checks included.
fn framed(payload_bytes: u64) -> u64 {
    payload_bytes.div_ceil(FRAME_PAYLOAD_BYTES as u64) * (FRAME_PAYLOAD_BYTES + CHECK_BYTES) as u64
}

#[tokio::test(start_paused = true)]
async fn a_repair_of_whole_stripes_reads_the_symbols_that_the_theory_says() {
    for code in CODES {
        for house in houses(code) {
            let geometry = house.write(segment(1), code, &[0]).await.geometry;
            let stripe_bytes = geometry.native_count as usize * geometry.symbol_bytes as usize;
            each_repair_reads_at_most(&house, code, 3 * stripe_bytes, |symbol_count, record| {
                assert!(record.geometry.symbol_bytes.is_multiple_of(FRAME_PAYLOAD_BYTES as u32));
                symbol_count * 3 * framed(record.geometry.symbol_bytes.into())
            })
            .await;
        }
    }
}

/// Two lost shards are rebuilt from one plan: exactly its symbols are read, of which shards both need once.
#[tokio::test(start_paused = true)]
async fn two_shards_are_repaired_together_from_the_symbols_of_one_plan() {
    for code in TOGETHER {
        let algebra = weft_codes::parse(code).unwrap();
        let n = algebra.shape().n;
        for house in houses(code) {
            let geometry = house.write(segment(1), code, &[0]).await.geometry;
            let stripe_bytes = geometry.native_count as usize * geometry.symbol_bytes as usize;
            let record = house.write(segment(0), code, &bytes(2 * stripe_bytes, 5)).await;
            for pair in [[0, 1], [0, n / 2], [1, n - 1]] {
                let received = |lost: &[usize]| {
                    weft_codes::analysis::repair(&*algebra, lost, false).unwrap().symbols_received as u64
                };
                let lost = pair.map(|index| ShardIndex(index as u16));
                let rebuilt = house.transfer.rebuild(segment(0), &record, &lost).await.unwrap();
                let symbol = framed(record.geometry.symbol_bytes.into());
                assert_eq!(rebuilt.bytes_read, received(&pair) * 2 * symbol, "{code} without {pair:?}");
                for (index, node) in rebuilt.placed {
                    house.node(node).memory.remove(key(segment(0), &rebuilt.record, index.as_usize())).await.unwrap();
                }
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_short_stripe_is_repaired_from_no_more_frames_than_k_shards_have() {
    for code in CODES {
        let k = weft_codes::parse(code).unwrap().shape().k as u64;
        for house in houses(code) {
            for length in [1, 5_000, 100_000, 700_001] {
                each_repair_reads_at_most(&house, code, length, |_, record| {
                    k * framed(record.geometry.payload_bytes())
                })
                .await;
            }
        }
    }
}
