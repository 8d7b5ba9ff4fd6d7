//! The regenerating families: published layouts and bytes, and repairs that read what theory says.

use crate::golden::{list, matrix, number, symbols};
use crate::plans::{equal_offers, is_sound, question};
use crate::stripe::{Stripe, run};
use proptest::prelude::*;
use serde_json::Value;
use weft_codes::{Code, Content, Offers, Plan, PlanError, Wanted, linear, reference};

/// The repair of these shards, all others being offered; all that counts is how many symbols are read.
fn repair(code: &dyn Code, lost: &[usize], combines: bool) -> (Offers, Plan) {
    let mut have = equal_offers(code.shape().n);
    have.0.iter_mut().flatten().for_each(|offer| (offer.combines, offer.request_price) = (combines, 0));
    lost.iter().for_each(|&shard| have.0[shard] = None);
    let plan = code.plan(&Wanted::Shards(lost.to_vec()), &have).expect("few are lost");
    (have, plan)
}

/// How many symbols the plan reads of each shard.
fn symbols_read(n: usize, plan: &Plan) -> Vec<usize> {
    (0..n).map(|shard| plan.reads.iter().filter(|read| read.shard == shard).count()).collect()
}

/// Names in the grid are `M0`, `C1`, and a `'` for duplicates.
fn named_in_grid(grid: &Value, shard: usize, sub: usize) -> String {
    list(&list(grid)[sub])[shard].as_str().expect("a name").to_owned()
}

#[test]
fn embr_layouts_and_bytes_of_the_paper() {
    let golden: Value = serde_json::from_str(include_str!("../golden/embr.json")).expect("golden/embr.json is JSON");
    for layout in list(&golden["layouts"]) {
        let (n, k) = (number(&layout["n"]), number(&layout["k"]));
        let code = weft_codes::parse(&format!("embr:n={n},k={k}")).expect("a layout of the paper");
        let shape = code.shape();
        assert_eq!((shape.native_count, shape.alpha), (number(&layout["m"]), number(&layout["rows"])));
        let (natives, coded) = (symbols(&layout["native_hex"]), symbols(&layout["code_hex"]));
        let stripe = Stripe::encode(&*code, natives.clone());
        for (symbol, content) in shape.contents.iter().enumerate() {
            let name = named_in_grid(&layout["grid"], symbol / shape.alpha, symbol % shape.alpha);
            let (kind, index) = name.trim_end_matches('\'').split_at(1);
            let index: usize = index.parse().expect("a block index");
            let expected = if kind == "M" { Content::Native(index) } else { Content::Coded };
            assert_eq!(*content, expected, "n={n},k={k} {name}");
            assert_eq!(stripe.stored[symbol], if kind == "M" { &natives[index..] } else { &coded[index..] }[0]);
        }
        let first_of_code = |block: usize| {
            let place = (0..n * shape.alpha).filter(|symbol| shape.contents[*symbol] == Content::Coded);
            let name = |symbol| named_in_grid(&layout["grid"], symbol / shape.alpha, symbol % shape.alpha);
            place.clone().position(|symbol| name(symbol) == format!("C{block}")).expect("a place")
        };
        let places: Vec<usize> = (0..coded.len()).map(first_of_code).collect();
        if !coded.is_empty() {
            assert_eq!(code.encode().to_matrix().expect("valid").select_rows(&places), matrix(&layout["coef"]));
        }
    }
}

#[test]
fn embr_repairs_by_copying_one_block_of_each_survivor() {
    for n in 2..=12 {
        for k in 1..n {
            let code = weft_codes::parse(&format!("embr:n={n},k={k}")).expect("a code");
            for lost in 0..n {
                let (_, plan) = repair(&*code, &[lost], false);
                let right: Vec<usize> = (0..n).map(|shard| usize::from(shard != lost)).collect();
                assert_eq!(symbols_read(n, &plan), right, "{} without {lost}", code.spec());
                let copies = plan.program.ops.iter().filter(|op| matches!(op, weft_codes::Op::Copy { .. }));
                assert_eq!(copies.count(), n - 1);
            }
        }
    }
}

/// Two shards lost, k = n - 2: the block they share is the XOR of all others, each read once; all the rest is copied.
#[test]
fn embr_two_losses_read_each_other_block_once() {
    for n in 3..=10 {
        let code = weft_codes::parse(&format!("embr:n={n},k={}", n - 2)).expect("a code");
        let native_count = (n - 2) * (n + 1) / 2;
        for first in 0..n {
            for second in (0..n).filter(|&second| second != first) {
                let mut have = equal_offers(n);
                (have.0[first], have.0[second]) = (None, None);
                let plan = code.plan(&Wanted::Shards(vec![first]), &have).expect("two are lost");
                assert_eq!(plan.reads.len(), native_count, "n={n} {first} {second}");
                is_sound(&*code, &Wanted::Shards(vec![first]), &have, &plan);
                let (have, both) = repair(&*code, &[first, second], false);
                assert_eq!(both.reads.len(), native_count);
                is_sound(&*code, &Wanted::Shards(vec![first, second]), &have, &both);
            }
        }
    }
}

#[test]
fn embr_of_every_size_decodes_from_any_k_in_a_row() {
    for (n, k) in [(23, 1), (23, 12), (23, 21), (23, 22), (14, 7), (17, 3)] {
        let code = weft_codes::parse(&format!("embr:n={n},k={k}")).expect("a code");
        let stripe = Stripe::made_up(&*code, 3);
        for first in 0..n {
            let mut have = equal_offers(n);
            (k..n).for_each(|i| have.0[(first + i) % n] = None);
            let all = Wanted::Natives((0..code.shape().native_count).collect());
            let plan = code.plan(&all, &have).expect("k are left");
            assert_eq!(run(&plan.program, &stripe.fetch(n - 1, &plan)), stripe.natives, "n={n},k={k} from {first}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn embr_plans_are_the_cheapest((spec, wanted, have) in question(&["embr:n=3,k=1", "embr:n=4,k=3", "embr:n=4,k=2"])) {
        let code = weft_codes::parse(spec).expect(spec);
        let generator = linear::generator(&*code).expect(spec);
        let cheapest = reference::cheapest_price(code.shape(), &generator, &wanted, &have);
        match code.plan(&wanted, &have) {
            Ok(plan) => {
                is_sound(&*code, &wanted, &have, &plan);
                prop_assert_eq!(Some(plan.price), cheapest);
            }
            Err(PlanError::Unrecoverable { .. }) => prop_assert_eq!(cheapest, None),
            Err(error) => prop_assert!(false, "{}", error),
        }
    }
}
