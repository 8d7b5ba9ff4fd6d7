//! Mojette codes against published projections, and their plans against theory.

use crate::golden::{list, number};
use crate::plans::{equal_offers, is_sound, question};
use crate::stripe::{Stripe, run};
use proptest::prelude::*;
use serde_json::Value;
use weft_codes::families::mojette::{Form, Grid, Storage};
use weft_codes::{Code, Offer, Offers, Plan, PlanError, Price, Wanted, linear};

fn golden() -> Value {
    serde_json::from_str(include_str!("../golden/mojette.json")).expect("golden/mojette.json is JSON")
}

fn numbers(value: &Value) -> Vec<isize> {
    list(value).iter().map(|number| number.as_i64().expect("a number") as isize).collect()
}

/// Elements of 8 bytes.
fn elements(value: &Value) -> Vec<Vec<u8>> {
    let element = |hex: &Value| {
        u64::from_str_radix(hex.as_str().expect("a string"), 16).expect("hexadecimal").to_be_bytes().to_vec()
    };
    list(value).iter().map(element).collect()
}

fn stripe(spec: &str, grid: &Value) -> (std::sync::Arc<dyn Code>, Stripe) {
    let code = weft_codes::parse(spec).expect(spec);
    let natives = list(grid).iter().flat_map(elements).collect();
    let stripe = Stripe::encode(&*code, natives);
    (code, stripe)
}

/// The shard's cell is this, and zeros.
fn holds(code: &dyn Code, stripe: &Stripe, shard: usize, bins: &[Vec<u8>]) {
    let alpha = code.shape().alpha;
    let cell = &stripe.stored[shard * alpha..(shard + 1) * alpha];
    assert_eq!(&cell[..bins.len()], bins, "{} shard {shard}", code.spec());
    assert!(cell[bins.len()..].iter().flatten().all(|&byte| byte == 0), "{} shard {shard}", code.spec());
}

#[test]
fn published_projections() {
    for case in list(&golden()["layouts"]) {
        let (k, n, l) = (number(&case["k"]), number(&case["n"]), number(&case["l"]));
        let m = n - k;
        let (code, stored) = stripe(&format!("mojette:{k}+{m},nonsystematic,l={l}"), &case["grid_hex"]);
        assert_eq!(Grid::new(k, l, n).directions, numbers(&case["p"]));
        assert_eq!(
            Storage::new(k, m, l, Form::Nonsystematic).heights,
            numbers(&case["sizes"]).into_iter().map(|size| size as usize).collect::<Vec<_>>()
        );
        for (shard, p) in numbers(&case["p"]).into_iter().enumerate() {
            holds(&*code, &stored, shard, &elements(&case["projections_xor_hex"][p.to_string()]));
        }

        let (code, stored) = stripe(&format!("mojette:layout-{},l={l}", case["layout"]), &case["grid_hex"]);
        for (row, data) in list(&case["grid_hex"]).iter().enumerate() {
            holds(&*code, &stored, row, &elements(data));
        }
        assert_eq!(Grid::new(k, l, m).directions, numbers(&case["systematic"]["p"]));
        for (parity, p) in numbers(&case["systematic"]["p"]).into_iter().enumerate() {
            holds(&*code, &stored, k + parity, &elements(&case["systematic"]["parity_xor_hex"][p.to_string()]));
        }
    }
}

/// The paper's Figure 1, in one byte per element.
#[test]
fn figure_1() {
    let figure = &golden()["fig1"];
    let code = weft_codes::parse("mojette:2+1,nonsystematic,l=4").expect("a code");
    let bytes = |value: &Value| numbers(value).into_iter().map(|byte| vec![byte as u8]).collect::<Vec<_>>();
    let stored = Stripe::encode(&*code, list(&figure["grid"]).iter().flat_map(bytes).collect());
    for (shard, p) in ["-1", "0", "1"].into_iter().enumerate() {
        holds(&*code, &stored, shard, &bytes(&figure["xor"][p]));
    }
    for case in list(&figure["decode_offsets"]) {
        is_ahead(&Grid::new(2, 4, 3), &numbers(&case["p"]), &numbers(&case["ko"]));
    }
}

fn is_ahead(grid: &Grid, directions: &[isize], right: &[isize]) {
    let index = |p: &isize| grid.directions.iter().position(|own| own == p).expect("a direction");
    let projections: Vec<usize> = directions.iter().map(index).collect();
    let rows: Vec<usize> = (0..grid.rows).collect();
    let ahead: Vec<isize> = grid.ahead(&rows, &projections).into_iter().map(|columns| columns as isize).collect();
    assert_eq!(ahead, right);
}

#[test]
fn published_orders_of_recovery() {
    for case in list(&golden()["layouts"]) {
        let grid = Grid::new(number(&case["k"]), number(&case["l"]), number(&case["n"]));
        for example in list(&case["decode_examples"]) {
            is_ahead(&grid, &numbers(&example["p_desc"]), &numbers(&example["ko"]));
        }
    }
}

#[test]
fn published_sizes() {
    let near = |one: f64, other: &Value| (one - other.as_f64().expect("a factor")).abs() < 1e-9;
    for case in list(&golden()["size_table"]) {
        let (k, n, l) = (number(&case["k"]), number(&case["n"]), number(&case["l"]));
        let paper = Storage::new(k, n - k, l, Form::Nonsystematic);
        assert!(near(paper.factor_without_padding(), &case["stored_over_data"]), "{case}");
        assert!(near(paper.worst_decoding_factor(), &case["one_plus_eps_worst_k_subset"]), "{case}");
        let ours = Storage::new(k, n - k, l, Form::Systematic);
        assert_eq!(
            ours.heights[k..].to_vec(),
            numbers(&case["systematic_sizes"]).into_iter().map(|size| size as usize).collect::<Vec<_>>()
        );
        assert!(near(ours.factor_without_padding(), &case["systematic_stored_over_data"]), "{case}");
    }
}

/// What is stored is what is said to be stored.
#[test]
fn storage_is_that_of_the_shape() {
    for (k, m, l, form, spec) in [
        (4, 2, 64, Form::Systematic, "mojette:4+2"),
        (8, 4, 256, Form::Systematic, "mojette:8+4"),
        (2, 1, 1, Form::Systematic, "mojette:2+1"),
        (4, 2, 256, Form::Nonsystematic, "mojette:4+2,nonsystematic"),
    ] {
        let (code, storage) = (weft_codes::parse(spec).expect(spec), Storage::new(k, m, l, form));
        assert_eq!(code.shape().alpha, storage.padded_height, "{spec}");
        let factor = weft_codes::analysis::storage_factor(code.shape());
        assert!((factor - storage.factor()).abs() < 1e-12, "{spec}");
    }
}

#[test]
fn specs() {
    for (spec, canonical) in [
        ("mojette:layout-0", "mojette:2+1"),
        ("mojette:layout-1,nonsystematic", "mojette:4+2,nonsystematic"),
        ("mojette:layout-2,l=32", "mojette:8+4,l=32"),
        ("mojette:4+2,l=64", "mojette:4+2"),
        ("mojette:4+2,l=8,nonsystematic", "mojette:4+2,nonsystematic,l=8"),
        ("mojette:20+8", "mojette:20+8"),
    ] {
        assert_eq!(weft_codes::parse(spec).expect(spec).spec(), canonical);
    }
    for (spec, end) in [
        ("mojette:4", "write e.g. mojette:4+2"),
        ("mojette:layout-3", "write e.g. mojette:4+2"),
        ("mojette:4+2,", "write e.g. mojette:4+2"),
        ("mojette:4+2,l=1,l=1", "write e.g. mojette:4+2"),
        ("mojette:4+2,nonsystematic,nonsystematic", "write e.g. mojette:4+2"),
        ("mojette:0+2", "at least 1 data shard is needed; choose e.g. mojette:4+2"),
        ("mojette:4+0", "at least 1 parity shard is needed; choose e.g. mojette:4+2"),
        ("mojette:4+2,l=0", "at least 1 column is needed; choose e.g. mojette:4+2"),
        ("mojette:4+2,l=65536", "more than the 16384 that can be planned for; choose e.g. mojette:4+2"),
        ("mojette:65536+65536", "more than the 16384 that can be planned for; choose e.g. mojette:4+2"),
    ] {
        let error = weft_codes::parse(spec).err().expect(spec).to_string();
        assert!(error.ends_with(end), "{error}");
    }
}

fn plan(code: &dyn Code, wanted: Wanted, have: &Offers) -> Plan {
    let plan = code.plan(&wanted, have).expect("few are lost");
    is_sound(code, &wanted, have, &plan);
    plan
}

/// A lost row, through the direction that leaves most ends of the other rows aside: `l` bins and `l - |p| distance` elements
/// of every other row. A lost projection: all rows. A part of a row, with no other row missing: one symbol from each.
#[test]
fn repairs_read_what_theory_says() {
    for (spec, k, l) in [("mojette:4+2", 4usize, 64usize), ("mojette:6+3,l=10", 6, 10), ("mojette:5+1", 5, 1)] {
        let code = weft_codes::parse(spec).expect(spec);
        for lost in 0..code.shape().n {
            let mut have = equal_offers(code.shape().n);
            have.0[lost] = None;
            let through = |p: &isize| -> usize {
                let others = (0..k).filter(|&row| row != lost);
                l + others.map(|row| l.saturating_sub(row.abs_diff(lost) * p.unsigned_abs())).sum::<usize>()
            };
            let directions = Grid::new(k, l, code.shape().n - k).directions;
            let least = if lost < k { directions.iter().map(through).min() } else { Some(k * l) };
            let repair = plan(&*code, Wanted::Shards(vec![lost]), &have);
            assert_eq!(Some(repair.reads.len()), least, "{spec} without {lost}");
            if lost < k {
                let part = plan(&*code, Wanted::Natives(vec![lost * l + l / 2]), &have);
                assert!(part.reads.len() <= k, "{spec} without {lost}");
            }
        }
    }
    let code = weft_codes::parse("mojette:4+2,nonsystematic,l=16").expect("a code");
    let mut have = equal_offers(6);
    have.0[1] = None;
    assert_eq!(plan(&*code, Wanted::Shards(vec![1]), &have).reads.len(), 4 * 16);
    // From a corner on, recovery has just begun.
    assert!(plan(&*code, Wanted::Natives(vec![0]), &have).reads.len() < 16);
}

#[test]
fn healthy_reads_compute_nothing() {
    let code = weft_codes::parse("mojette:4+2").expect("a code");
    let plan = plan(&*code, Wanted::Natives(vec![7, 70]), &equal_offers(6));
    assert_eq!(
        plan.reads.iter().map(|read| (read.shard, read.terms.clone())).collect::<Vec<_>>(),
        [(0, vec![(7, 1)]), (1, vec![(6, 1)])]
    );
    assert_eq!(plan.price, 4);
}

/// The cheapest of all sets of `k` shards, a row's length of each, or of reading the wanted shards themselves.
fn cheapest_of_whole_rows(k: usize, l: Price, wanted: &[usize], have: &Offers) -> Option<Price> {
    let whole = |offer: Offer| offer.request_price + offer.symbol_price * l;
    let mut offered: Vec<Price> = have.0.iter().flatten().map(|&offer| whole(offer)).collect();
    offered.sort_unstable();
    let decoded = (offered.len() >= k).then(|| offered[..k].iter().sum());
    let read = wanted.iter().map(|&shard| have.0[shard].map(whole)).sum::<Option<Price>>();
    decoded.into_iter().chain(read).min()
}

proptest! {
    #[test]
    fn plans_are_sound((spec, wanted, have) in question(&[
        "mojette:4+2,l=3", "mojette:3+3,l=5", "mojette:2+1,nonsystematic,l=4", "mojette:3+2,nonsystematic,l=2", "mojette:1+2,l=2",
        "mojette:4+4,l=2", "mojette:5+4,l=3", "mojette:4+4,nonsystematic,l=5", "mojette:3+5,nonsystematic,l=9",
    ])) {
        let code = weft_codes::parse(spec).expect(spec);
        let generator = linear::generator(&*code).expect(spec);
        match code.plan(&wanted, &have) {
            Ok(plan) => is_sound(&*code, &wanted, &have, &plan),
            Err(error @ PlanError::Unrecoverable { .. }) => {
                // Too few shards: what single bins happen to determine is not looked for, whole shards never are.
                prop_assert!(have.0.iter().flatten().count() < code.shape().k, "{}", error);
                prop_assert!(linear::plan(&*code, &generator, &wanted, &have).is_err() || matches!(wanted, Wanted::Natives(_)));
            }
            Err(error) => prop_assert!(false, "{}", error),
        }
    }

    /// Data shards at any prices: as cheap as the cheapest `k` shards, or as reading them.
    #[test]
    fn whole_shards_are_had_from_the_cheapest((_, _, have) in question(&["mojette:4+3,l=6"]), first in 0usize..4, second in 0usize..4) {
        let code = weft_codes::parse("mojette:4+3,l=6").expect("a code");
        let mut wanted = vec![first, second];
        wanted.dedup();
        let cheapest = cheapest_of_whole_rows(4, 6, &wanted, &have);
        match code.plan(&Wanted::Shards(wanted), &have) {
            Ok(plan) => prop_assert!(Some(plan.price) <= cheapest),
            Err(_) => prop_assert_eq!(cheapest, None),
        }
    }
}

/// Wider than can be tried exhaustively: random losses of as many shards as may be lost.
#[test]
fn wide_layouts_lose_at_random() {
    for spec in ["mojette:12+4,l=20", "mojette:20+6,l=9", "mojette:10+6,nonsystematic,l=7"] {
        let code = weft_codes::parse(spec).expect(spec);
        let shape = code.shape();
        let stripe = Stripe::made_up(&*code, 5);
        for round in 0..40usize {
            let mut order: Vec<usize> = (0..shape.n).collect();
            order.sort_by_key(|shard| ((shard + 1) * (2 * round + 7919) * 7907) % 10_007);
            let lost = &order[..shape.tolerance];
            let have = Offers(
                (0..shape.n)
                    .map(|shard| {
                        (!lost.contains(&shard)).then_some(Offer { combines: false, request_price: 0, symbol_price: 1 })
                    })
                    .collect(),
            );
            let plan = code.plan(&Wanted::Natives((0..shape.native_count).collect()), &have).expect(spec);
            assert_eq!(
                run(&plan.program, &stripe.fetch(shape.alpha, &plan)),
                stripe.natives,
                "{spec} without {lost:?}"
            );
        }
    }
}
