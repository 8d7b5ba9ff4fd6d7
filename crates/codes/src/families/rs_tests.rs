use super::*;
use crate::code::Offer;

/// Offers of made-up prices without the lost shards (a bit each); at most `prices` different ones.
fn offers(n: usize, lost: u32, prices: u64) -> Offers {
    let offer = |shard: usize| Offer {
        combines: false,
        request_price: (shard as u64 * 7 + 3) % prices,
        symbol_price: 1 + (shard as u64 * 5) % prices,
    };
    Offers((0..n).map(|shard| (lost >> shard & 1 == 0).then(|| offer(shard))).collect())
}

/// The planner agrees with the generic engine: on what can be had, on its price, on what is read, on the coefficients.
#[test]
fn plans_are_those_of_the_generic_engine() {
    for (k, m) in [(2, 1), (2, 3), (4, 2), (3, 4), (6, 3)] {
        let code = crate::parse(&format!("rs:{k}+{m}")).expect("a code");
        let generator = linear::generator(&*code).expect("a valid program");
        for pattern in 0..1u32 << (k + m) {
            for prices in [1, 4] {
                let have = offers(k + m, pattern, prices);
                let lost: Vec<usize> = (0..k + m).filter(|shard| pattern >> shard & 1 == 1).collect();
                let natives: Vec<usize> = (0..k).rev().collect();
                for wanted in [Wanted::Natives(natives), Wanted::Natives(vec![1, 0, 1]), Wanted::Shards(lost)] {
                    let (own, generic) = (code.plan(&wanted, &have), linear::plan(&*code, &generator, &wanted, &have));
                    let (own, generic) = match (own, generic) {
                        (Ok(own), Ok(generic)) => (own, generic),
                        (own, generic) => {
                            assert_eq!(own, generic);
                            continue;
                        }
                    };
                    let what = format!("rs:{k}+{m}: {wanted} without {pattern:b}");
                    assert_eq!((own.price, &own.reads), (generic.price, &generic.reads), "{what}");
                    assert_eq!(own.program.to_matrix(), generic.program.to_matrix(), "{what}");
                }
            }
        }
    }
}

/// Wide codes, with losses spread out or in a row: what is rebuilt follows from what is read.
#[test]
fn wide_plans_are_right() {
    for (k, m) in
        [(50, 50), (100, 100), (128, 128), (3, 253), (250, 6), (16, 16), (20, 20), (32, 8), (64, 64), (200, 20)]
    {
        let code = crate::parse(&format!("rs:{k}+{m}")).expect("a code");
        let whole = Matrix::identity(k).stack(&normalised_cauchy(k, m));
        for (seed, count) in [(1, m.min(20)), (2, m), (3, m), (4, m), (5, m / 2)] {
            // Multiples of an odd number, modulo 256, are in no order, and different.
            let factor = if seed < 4 { 2 * seed + 35 } else { 1 };
            let mut order: Vec<usize> =
                (0..256).map(|i| (i * factor + 31 * seed) % 256).filter(|&i| i < k + m).collect();
            let lost = order.split_off(k + m - count);
            let offer = Offer { combines: false, request_price: 1, symbol_price: 1 };
            let have = Offers((0..k + m).map(|shard| (!lost.contains(&shard)).then_some(offer)).collect());
            let plan = code.plan(&Wanted::Shards(lost.clone()), &have).expect("any m may be lost");
            let read: Vec<usize> = plan.reads.iter().map(|read| read.shard).collect();
            let rebuilt = plan.program.to_matrix().expect("valid").multiply(&whole.select_rows(&read));
            assert!(rebuilt == whole.select_rows(&lost), "rs:{k}+{m} without {lost:?}");
        }
    }
}
