use super::*;
use crate::code::{Group, Offer};
use proptest::prelude::*;

/// Offers of all kinds of prices; about one shard in five is lost.
fn offers(n: usize) -> impl Strategy<Value = Offers> {
    let offer = (any::<bool>(), 0u64..4, 0u64..6).prop_map(|(combines, request_price, symbol_price)| Offer {
        combines,
        request_price,
        symbol_price,
    });
    prop::collection::vec(prop::option::weighted(0.8, offer), n).prop_map(Offers)
}

proptest! {
    /// One bit per element or one byte: the same plan, or the same refusal.
    #[test]
    fn bits_and_bytes_agree(
        elements in prop::collection::vec(0u8..2, 16 * 6),
        alpha in 1usize..=2,
        group in prop::collection::vec(0usize..8, 0..5),
        have in offers(8),
        shards in prop::collection::vec(0usize..8, 0..3),
        natives in prop::collection::vec(0usize..6, 0..7),
    ) {
        let generator = Matrix::from_fn(8 * alpha, 6, |row, column| elements[row * 6 + column]);
        let groups = vec![Group { shards: group, repairs: 1 }];
        let code = LinearCode::new("binary".to_owned(), 3, alpha, 0, groups, generator.clone());
        for wanted in [Wanted::Shards(shards), Wanted::Natives(natives)] {
            prop_assert_eq!(
                planned::<Bits>(&code, &generator, &wanted, &have),
                planned::<Bytes>(&code, &generator, &wanted, &have)
            );
        }
    }
}

/// Sums of three of 896 natives at random: 16 shards of 112 symbols, as the largest codes of shifts and sums have.
#[test]
fn hundreds_of_binary_symbols_per_shard_are_planned() {
    let (n, k, alpha) = (16, 8, 112);
    let mut state = 1u64;
    let mut drawn = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as usize % (k * alpha)
    };
    let mut coding = Matrix::zero((n - k) * alpha, k * alpha);
    for row in 0..coding.rows() {
        (0..3).for_each(|_| coding.row_mut(row)[drawn()] = 1);
    }
    let code = LinearCode::new("large".to_owned(), k, alpha, 0, Vec::new(), Matrix::identity(k * alpha).stack(&coding));
    let offer = Offer { combines: false, request_price: 1, symbol_price: 1 };
    let have = Offers((0..n).map(|shard| (shard != 3).then_some(offer)).collect());
    let started = std::time::Instant::now();
    let plan = code.plan(&Wanted::Natives(vec![3 * alpha]), &have);
    println!("planned in {:?}", started.elapsed());
    assert!(plan.is_ok());
}
