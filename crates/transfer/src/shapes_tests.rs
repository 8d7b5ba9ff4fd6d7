//! Codes of every shape: several symbols per shard, symbols with two homes, symbols with none.

use crate::{Fleet, Settings, Transfer, WriteRequest};
use bytes::Bytes;
use std::sync::Arc;
use weft_codes::{LinearCode, Matrix};
use weft_env::Env;
use weft_format::records::{NodeRecord, NodeState, SegmentRecord};
use weft_format::shard::object_bytes;
use weft_format::{NodeId, SegmentId, ShardIndex, VolumeId};
use weft_nodes::{MemoryNode, Node, NodeIdentity};

const SEGMENT: SegmentId = SegmentId(3);

/// Two symbols of `rs:8+4` in each shard.
fn grouped() -> LinearCode {
    let code = weft_codes::parse("rs:8+4").unwrap();
    let generator = weft_codes::linear::generator(&*code).unwrap();
    LinearCode::new("grouped".into(), 4, 2, 2, Vec::new(), generator)
}

/// The edges of a complete graph of four nodes: five native symbols and their sum, each in two shards (minimum bandwidth: a
/// lost shard is three copies, one from each other shard).
fn edges() -> LinearCode {
    let sum = Matrix::from_fn(1, 5, |_, _| 1);
    let symbols = Matrix::identity(5).stack(&sum);
    let of_shards = [0, 1, 2, 0, 3, 4, 1, 3, 5, 2, 4, 5];
    LinearCode::new("edges".into(), 2, 3, 2, Vec::new(), symbols.select_rows(&of_shards))
}

/// No symbol is stored as it is.
fn unplain() -> LinearCode {
    let generator = Matrix::from_fn(4, 2, |row, column| if column == 0 { 1 } else { row as u8 + 2 });
    LinearCode::new("unplain".into(), 2, 1, 2, Vec::new(), generator)
}

fn engine(node_count: usize) -> Transfer {
    let member = |i: usize| {
        let id = NodeId(i as u128);
        let record = NodeRecord {
            name: format!("n{i}"),
            url: String::new(),
            state: NodeState::Active,
            domain: format!("d{i}"),
            weight: 1,
            secret: Default::default(),
            limits: Default::default(),
        };
        let node = MemoryNode::new(format!("n{i}"), NodeIdentity { volume: VolumeId(1), node: id }, 1 << 40);
        (id, record, Arc::new(node) as Arc<dyn Node>)
    };
    let fleet = Arc::new(Fleet::new((0..node_count).map(member).collect(), Default::default(), &Env::system()));
    let settings = Settings { cache_bytes: 0, ..Settings::default() };
    let transfer = Transfer::new(VolumeId(1), fleet, settings, tokio::runtime::Handle::current());
    transfer.inner.algebra.add(grouped());
    transfer.inner.algebra.add(edges());
    transfer.inner.algebra.add(unplain());
    transfer
}

async fn write(transfer: &Transfer, code: &str, length: usize) -> (Arc<SegmentRecord>, Vec<u8>) {
    let data: Vec<u8> = (0..length).map(|i| (i * 37 + (i >> 7) * 11) as u8).collect();
    let pieces = data.chunks(50_000).map(Bytes::copy_from_slice).collect();
    let request =
        WriteRequest { segment: SEGMENT, code: code.into(), write_margin: Some(1), cell_bytes: None, data: pieces };
    (Arc::new(transfer.write(request).await.unwrap().record), data)
}

fn without(record: &SegmentRecord, lost: &[usize]) -> Arc<SegmentRecord> {
    let mut record = record.clone();
    lost.iter().for_each(|shard| record.shards[*shard] = None);
    Arc::new(record)
}

#[tokio::test]
async fn any_two_losses_are_read_through_and_rebuilt() {
    for (code, n) in [("grouped", 6), ("edges", 4), ("unplain", 4)] {
        for length in [1, 5_000, 300_000, 1_500_001] {
            let transfer = engine(n + 2);
            let (record, data) = write(&transfer, code, length).await;
            for (first, second) in (0..n).flat_map(|first| (first..n).map(move |second| (first, second))) {
                let short = without(&record, &[first, second]);
                for range in [0..length, length / 3..length / 2 + 1, length - 1..length] {
                    let mut out = vec![0xaa; range.len()];
                    let wanted = range.start as u64..range.end as u64;
                    transfer.read(SEGMENT, &short, wanted, &mut out).await.unwrap();
                    assert!(
                        out == data[range.clone()],
                        "{code}, {length} bytes, {range:?} without {first} and {second}"
                    );
                }
                let lost = [ShardIndex(first as u16), ShardIndex(second as u16)];
                let rebuilt = transfer.rebuild(SEGMENT, &short, &lost).await.unwrap();
                for (index, node) in &rebuilt.placed {
                    let digest = |record: &SegmentRecord| record.shards[index.as_usize()].as_ref().unwrap().digest;
                    assert_eq!(digest(&rebuilt.record), digest(&record), "{code}: shard {index}");
                    let key = rebuilt.record.shard_key(SEGMENT, *index).unwrap();
                    transfer.fleet().get(*node).unwrap().remove(key).await.unwrap();
                }
            }
        }
    }
}

#[tokio::test]
async fn a_cheap_repair_reads_what_its_code_promises() {
    let transfer = engine(5);
    let (record, _) = write(&transfer, "edges", 3_000_000).await;
    let rebuilt = transfer.rebuild(SEGMENT, &record, &[ShardIndex(2)]).await.unwrap();
    // Three symbols for three symbols; in the last, short stripe, frames may be read that other symbols begin in.
    let shard = object_bytes(record.geometry.payload_bytes());
    assert!(rebuilt.bytes_read <= shard + 6 * 4104, "{} for a shard of {shard}", rebuilt.bytes_read);
}
