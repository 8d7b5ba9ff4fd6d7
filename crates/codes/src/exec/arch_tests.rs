use super::*;
use crate::code::{Offer, Offers, Wanted};
use crate::families::rs::normalised_cauchy;

/// How kernels come to the first target of this matrix.
fn first(coefficients: &Matrix) -> First {
    let sources: Vec<SymbolId> = (0..coefficients.columns()).collect();
    let targets: Vec<SymbolId> = (0..coefficients.rows()).map(|row| sources.len() + row).collect();
    Step::new(&sources, 0, &[], &targets, coefficients).first
}

/// Several lost data are the remainder of a parity that is the sum of all data, and nothing else is one.
#[test]
fn lost_data_are_a_remainder() {
    for (k, m) in [(4, 2), (8, 4), (10, 4), (8, 6), (16, 4), (9, 8)] {
        let code = crate::parse(&format!("rs:{k}+{m}")).expect("a code");
        let decode = |lost: &[usize], wanted: Vec<usize>| {
            let offer = Offer { combines: false, request_price: 0, symbol_price: 1 };
            let have = Offers((0..k + m).map(|shard| (!lost.contains(&shard)).then_some(offer)).collect());
            let plan = code.plan(&Wanted::Shards(wanted), &have).expect("few enough are lost");
            plan.program.to_matrix().expect("a valid program")
        };
        let lost: Vec<usize> = (0..m).collect();
        let matrix = decode(&lost, lost.clone());
        let is_summed: Vec<bool> = (0..k).map(|read| read <= k - m).collect();
        assert_eq!((remainder(&matrix), first(&matrix)), (Some(is_summed), First::Remainder), "rs:{k}+{m}");
        // Without one of the wanted, without the parity that is the sum, and where nothing is lost.
        let without_sum: Vec<usize> = (1..m).chain([k]).collect();
        assert_eq!(first(&decode(&lost, (1..m).collect())), First::Products, "rs:{k}+{m}");
        assert_eq!(first(&decode(&without_sum, (1..m).collect())), First::Products, "rs:{k}+{m}");
        assert_eq!(first(&normalised_cauchy(k, m)), First::Sum, "rs:{k}+{m}");
    }
}
