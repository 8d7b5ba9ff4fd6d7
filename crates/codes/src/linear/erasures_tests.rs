use super::*;
use crate::linear::LinearCode;
use proptest::prelude::*;

/// Any code, some shards of it lost, against the rank of what is left; bits and bytes.
fn agrees_with_the_rank(generator: Matrix, alpha: usize) {
    let code = LinearCode::new("any".to_owned(), 2, alpha, 0, Vec::new(), generator.clone());
    let erasures = Erasures::new(&code).expect("encode programs of matrices are valid");
    let n = generator.rows() / alpha;
    let mut decodable = vec![0; n + 1];
    for pattern in 0..1u32 << n {
        let (lost, left): (Vec<usize>, Vec<usize>) = (0..n).partition(|shard| pattern >> shard & 1 == 1);
        let left: Vec<usize> = left.iter().flat_map(|shard| shard * alpha..(shard + 1) * alpha).collect();
        let decodes = generator.select_rows(&left).rank() == generator.columns();
        assert_eq!(erasures.decodes(&lost), decodes, "{generator} without {lost:?}");
        decodable[lost.len()] += u64::from(decodes);
    }
    for (lost_count, decodable) in decodable.into_iter().enumerate() {
        let mut first_fatal = None;
        let count = erasures.count(lost_count, &mut |lost| first_fatal = first_fatal.take().or(Some(lost.to_vec())));
        assert_eq!(count, decodable, "{generator} without {lost_count}");
        assert!(first_fatal.is_none_or(|lost| !erasures.decodes(&lost)), "{generator}");
        assert!(lost_count <= erasures.most_lost() || decodable == 0, "{generator} without {lost_count}");
    }
}

proptest! {
    #[test]
    fn of_any_code_over_bytes(
        elements in prop::collection::vec(prop_oneof![Just(0), Just(1), any::<u8>()], 6 * 2 * 3),
        alpha in 1usize..=2,
    ) {
        agrees_with_the_rank(Matrix::from_fn(6 * alpha, 3, |row, column| elements[row * 3 + column]), alpha);
    }

    #[test]
    fn of_any_code_over_bits(elements in prop::collection::vec(0u8..=1, 6 * 2 * 3), alpha in 1usize..=2) {
        agrees_with_the_rank(Matrix::from_fn(6 * alpha, 3, |row, column| elements[row * 3 + column]), alpha);
    }
}
