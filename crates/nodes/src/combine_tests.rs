//! Combinations beside a slow, plain computation of the same.

use super::*;
use crate::conformance::{key, shard};
use crate::memory::MemoryNode;
use crate::node::NodeIdentity;
use proptest::prelude::*;
use weft_codes::{Matrix, Op, Program, gf};
use weft_format::NodeId;
use weft_format::shard::verify_object;

const VOLUME: VolumeId = VolumeId(4);

fn identity() -> NodeIdentity {
    NodeIdentity { volume: VOLUME, node: NodeId(1) }
}

async fn node_with(data_bytes: u64) -> (MemoryNode, Vec<u8>) {
    let node = MemoryNode::new("m", identity(), 1 << 30).that_combines();
    let object = shard(VOLUME, key(1, 0), data_bytes, 5);
    node.put(key(1, 0), std::slice::from_ref(&object)).await.unwrap();
    let verified = verify_object(&ShardIdentity { volume: VOLUME, key: key(1, 0) }, &object).unwrap();
    let mut payload = vec![0; data_bytes as usize];
    verified.frames.copy_into(0..data_bytes, &mut payload).unwrap();
    (node, payload)
}

fn combination(payload_bytes: u64, matrix: &Matrix, parts: Vec<Part>) -> Combination {
    Combination { payload_bytes, program: Program::from_matrix(matrix), parts }
}

/// Byte by byte, as the definition has it.
fn reference(payload: &[u8], matrix: &Matrix, parts: &[Part]) -> Vec<u8> {
    let mut sent = Vec::new();
    for part in parts {
        for row in 0..matrix.rows() {
            for at in 0..part.bytes as usize {
                let term =
                    |(column, start): (usize, &u64)| gf::mul(matrix.at(row, column), payload[*start as usize + at]);
                sent.push(part.starts.iter().enumerate().map(term).fold(0, |sum, term| sum ^ term));
            }
        }
    }
    sent
}

#[tokio::test]
async fn what_is_sent_is_what_the_program_says() {
    let (node, payload) = node_with(70_001).await;
    let matrix = Matrix::from_fn(2, 3, |row, column| (7 * row + 3 * column + 1) as u8);
    for (starts, bytes) in [([0, 4096, 8192], 4096), ([5, 4095, 60_000], 10_001), ([1, 1, 1], 1), ([9, 7, 70_001], 0)] {
        let parts = vec![
            Part { starts: starts.to_vec(), bytes },
            Part { starts: vec![0, 1, 2], bytes: 3 },
            Part { starts: starts.iter().rev().copied().collect(), bytes },
        ];
        let combination = combination(70_001, &matrix, parts);
        let sent = node.combine(key(1, 0), &combination).await.unwrap();
        assert_eq!(sent, reference(&payload, &matrix, &combination.parts), "{starts:?}");
        assert_eq!(combination.cost().unwrap().sent_bytes, sent.len() as u64);
    }
    let all = Part { starts: vec![0], bytes: 70_001 };
    let cost = combination(70_001, &Matrix::identity(1), vec![all]).cost().unwrap();
    assert_eq!(cost, Cost { read_bytes: 70_001 + 18 * 8, sent_bytes: 70_001 });
}

#[tokio::test]
async fn nothing_is_computed_from_damaged_frames_or_of_shards_that_are_not_there() {
    let (node, _) = node_with(70_001).await;
    let part = |start| vec![Part { starts: vec![start], bytes: 100 }];
    let kind = |result: Result<Bytes, NodeError>| result.unwrap_err().kind;
    let ask = |payload_bytes, start| combination(payload_bytes, &Matrix::identity(1), part(start));
    assert_eq!(kind(node.combine(key(2, 0), &ask(70_001, 0)).await), NodeErrorKind::NotFound);
    assert_eq!(kind(node.combine(key(1, 0), &ask(70_002, 70_000)).await), NodeErrorKind::Unsupported);
    // Of another length than it has.
    assert_eq!(kind(node.combine(key(1, 0), &ask(200_000, 69_950)).await), NodeErrorKind::Corrupt);
    let mut object = node.get(key(1, 0), 0..u64::MAX).await.unwrap().to_vec();
    object[256 + 4104 + 50] ^= 1;
    node.remove(key(1, 0)).await.unwrap();
    node.put(key(1, 0), &[object.into()]).await.unwrap();
    assert_eq!(kind(node.combine(key(1, 0), &ask(70_001, 4096)).await), NodeErrorKind::Corrupt);
    node.combine(key(1, 0), &ask(70_001, 0)).await.unwrap();
    let plain = MemoryNode::new("m", identity(), 1 << 30);
    assert_eq!(kind(plain.combine(key(1, 0), &ask(70_001, 0)).await), NodeErrorKind::Unsupported);
}

/// Any program over a few symbols, most of them wrong.
fn any_op() -> impl Strategy<Value = Op> {
    let symbols = |most| proptest::collection::vec(0usize..9, 0..most);
    prop_oneof![
        (0usize..9, 0usize..9).prop_map(|(from, to)| Op::Copy { from, to }),
        (symbols(6), 0usize..9).prop_map(|(from, to)| Op::Xor { from, to }),
        (symbols(4), symbols(4), any::<u8>()).prop_map(|(from, to, seed)| {
            let coefficients = Matrix::from_fn(to.len(), from.len(), |r, c| seed.wrapping_mul(31 * r as u8 + c as u8));
            Op::Dot { from, to, coefficients }
        }),
    ]
}

proptest! {
    /// Whoever sends it, it is computed rightly or refused.
    #[test]
    fn any_program_is_refused_or_right(
        counts in (0usize..4, 0usize..4, 0usize..4),
        ops in proptest::collection::vec(any_op(), 0..6),
        starts in proptest::collection::vec(0u64..10_100, 0..4),
        bytes in 0u32..5_000,
    ) {
        let (input_count, output_count, temporary_count) = counts;
        let program = Program { input_count, output_count, temporary_count, ops };
        let combination = Combination { payload_bytes: 10_000, program, parts: vec![Part { starts, bytes }] };
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let (node, payload) = node_with(10_000).await;
            match node.combine(key(1, 0), &combination).await {
                Err(error) => prop_assert_eq!(error.kind, NodeErrorKind::Unsupported),
                Ok(sent) => {
                    let matrix = combination.program.to_matrix().unwrap();
                    prop_assert_eq!(&sent[..], &reference(&payload, &matrix, &combination.parts)[..]);
                }
            }
            Ok(())
        })?;
    }
}
