use super::*;

/// Every set of blocks by itself, drawn first and in order: the obvious form of counting.
fn one_by_one(graph: &Graph, decoder: Decoder) -> Profile {
    let block_count = graph.block_count();
    let mut undecodable = vec![0; block_count + 1];
    for set in 0u32..1 << block_count {
        let (mut order, rest): (Vec<usize>, Vec<usize>) = (0..block_count).partition(|block| set >> block & 1 == 1);
        let size = order.len();
        order.extend(rest);
        undecodable[size] += u64::from(blocks_needed(graph, decoder, &order) > size);
    }
    Profile { undecodable }
}

/// Shapes on both sides of a word of checks, of a block of words, and of several blocks.
#[test]
fn counting_many_sets_at_once_counts_as_one_by_one() {
    let mut random = Random::new(13);
    for (data_count, check_count) in [(1, 1), (5, 3), (6, 6), (4, 7), (3, 9), (3, 10), (2, 11), (4, 12), (2, 13)] {
        for _ in 0..3 {
            let mut masks: Vec<u64> =
                (0..check_count).map(|_| 1 + random.below((1 << data_count) - 1) as u64).collect();
            masks[0] = (1 << data_count) - 1;
            let graph = Graph::from_masks(data_count, &masks).expect("every data block is in the first check");
            for decoder in [Decoder::Peeling, Decoder::Elimination] {
                assert_eq!(profile(&graph, decoder), Some(one_by_one(&graph, decoder)), "{masks:x?}, {decoder:?}");
            }
        }
    }
}
