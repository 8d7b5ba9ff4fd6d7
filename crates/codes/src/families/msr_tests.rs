use super::*;
use crate::code::Offer;

fn msr(k: usize, m: usize, d: usize) -> Msr {
    let alpha = d + 1 - k;
    Msr::new(k, m, d, &points(k + m + alpha + 1 - k, alpha).expect("small codes have points"))
}

#[test]
fn in_steps_any_shards_follow_from_any_k_as_the_generator_matrix_says() {
    for (k, m, d) in [(2, 3, 2), (3, 3, 4), (3, 3, 5), (4, 4, 6), (4, 4, 7), (2, 4, 5)] {
        let msr = msr(k, m, d);
        let alpha = msr.shape.alpha;
        let symbols = |shards: &[usize]| -> Vec<usize> {
            shards.iter().flat_map(|shard| shard * alpha..(shard + 1) * alpha).collect()
        };
        for bits in (0..1u32 << (k + m)).filter(|bits| bits.count_ones() as usize == k) {
            let (known, lost): (Vec<usize>, Vec<usize>) = (0..k + m).partition(|shard| bits >> shard & 1 == 1);
            let generator = msr.generator();
            let inverse = generator.select_rows(&symbols(&known)).inverse().expect("any k shards decode");
            // All of them, and some.
            for wanted in [symbols(&lost), symbols(&lost).into_iter().skip(1).step_by(alpha + 1).collect()] {
                let program = msr.computed(&known, &wanted);
                let expected = generator.select_rows(&wanted).multiply(&inverse);
                assert_eq!(program.to_matrix().expect("valid"), expected, "{} from {known:?}", msr.spec);
            }
        }
    }
}

#[test]
fn wide_codes_decode_in_steps_and_narrow_ones_by_a_matrix() {
    let offer = Offer { combines: false, request_price: 1, symbol_price: 1 };
    for (k, d, most_products) in [(4, 7, 256), (8, 14, 1_568), (8, 15, 1_800)] {
        let msr = msr(k, k, d);
        let have = Offers((0..2 * k).map(|shard| (shard >= k).then_some(offer)).collect());
        let plan = msr.plan(&Wanted::Natives((0..msr.shape.native_count).collect()), &have).expect("k are left");
        let products = crate::analysis::size(&plan.program).multiplications;
        assert!(products <= most_products, "{}: {products}", msr.spec);
    }
}
