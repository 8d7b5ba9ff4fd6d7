use super::*;
use weft_codes::Offer;

fn loaded(spec: &str) -> LoadedCode {
    LoadedCode::new(weft_codes::parse(spec).unwrap()).unwrap()
}

fn offers(count: usize, symbol_price: u64) -> Offers {
    let offer = Offer { combines: false, request_price: 0, symbol_price };
    Offers((0..count).map(|_| Some(offer)).collect())
}

/// Reads here and there of a code whose programs have tens of thousands of symbols.
#[test]
fn recipes_of_large_programs_are_bounded_by_their_bytes() {
    let code = loaded("mojette:8+4,nonsystematic");
    for first in 0..40 {
        let wanted = Wanted::Natives((first * 100..first * 100 + 64).collect());
        assert!(code.recipe(&wanted, &offers(12, 1)).is_some());
    }
    assert!(code.recipes.weight() <= RECIPES_BYTES && !code.recipes.is_empty());
    assert!(code.recipes.len() < 40, "all were kept: they are lighter than they were");
}

#[test]
fn recipes_of_small_programs_are_bounded_by_their_number() {
    let code = loaded("rs:4+2");
    for price in 1..1000 {
        assert!(code.recipe(&Wanted::Natives(vec![0]), &offers(6, price)).is_some());
    }
    assert!((RECIPES_KEPT / 2..=RECIPES_KEPT).contains(&code.recipes.len()), "{}", code.recipes.len());
}
