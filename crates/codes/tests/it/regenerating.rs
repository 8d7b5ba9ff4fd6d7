//! The regenerating families: published layouts and bytes, and repairs that read what theory says.

use crate::golden::{list, matrix, number, symbols};
use crate::plans::{equal_offers, is_sound, question};
use crate::stripe::{Stripe, run};
use proptest::prelude::*;
use serde_json::Value;
use weft_codes::{Code, Content, Offer, Offers, Plan, PlanError, Wanted, linear, reference};

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

/// (k, m) of some codes with few and many symbols, with and without shortening.
const CLAY_COUNTS: [(usize, usize); 9] = [(2, 2), (3, 2), (4, 2), (6, 2), (4, 3), (6, 3), (4, 4), (8, 4), (10, 4)];

#[test]
fn clay_repairs_a_shard_from_a_share_of_each_other() {
    for (k, m) in CLAY_COUNTS {
        let code = weft_codes::parse(&format!("clay:{k}+{m}")).expect("a code");
        let (n, alpha) = (k + m, code.shape().alpha);
        assert_eq!(alpha, m.pow(n.div_ceil(m) as u32));
        for lost in 0..n {
            let (have, plan) = repair(&*code, &[lost], false);
            let right: Vec<usize> = (0..n).map(|shard| if shard == lost { 0 } else { alpha / m }).collect();
            assert_eq!(symbols_read(n, &plan), right, "{} without {lost}", code.spec());
            is_sound(&*code, &Wanted::Shards(vec![lost]), &have, &plan);
        }
    }
}

/// Any m losses, drawn at random where there are many: repaired rightly, and reading no more than k shards.
#[test]
fn clay_repairs_any_m_losses() {
    for (k, m) in [(6, 3), (8, 4), (10, 4), (9, 3), (16, 2)] {
        let code = weft_codes::parse(&format!("clay:{k}+{m}")).expect("a code");
        for draw in 0..12 {
            let mut lost: Vec<usize> = (0..=draw % m).map(|i| (draw * 5 + i * i * 3 + i) % (k + m)).collect();
            lost.sort_unstable();
            lost.dedup();
            let (have, plan) = repair(&*code, &lost, false);
            assert!(plan.price <= (k * code.shape().alpha) as u64, "{} without {lost:?}", code.spec());
            is_sound(&*code, &Wanted::Shards(lost), &have, &plan);
        }
    }
}

/// One symbol of a lost shard at home in its plane takes the 2 q - 1 symbols of every other column. Else it takes its
/// partner, one symbol of each node at home, and two of k less these: both times 14 for 8 + 4.
#[test]
fn clay_reads_little_for_a_little() {
    let code = weft_codes::parse("clay:8+4").expect("a code");
    let alpha = code.shape().alpha;
    for lost in [0, 5, 7] {
        let mut have = equal_offers(12);
        have.0.iter_mut().flatten().for_each(|offer| offer.request_price = 0);
        have.0[lost] = None;
        for plane in 0..alpha {
            let wanted = Wanted::Natives(vec![lost * alpha + plane]);
            let plan = code.plan(&wanted, &have).expect("one is lost");
            assert_eq!(plan.reads.len(), 14, "plane {plane}");
            is_sound(&*code, &wanted, &have, &plan);
        }
    }
}

/// (k, m, d) of codes of the product matrix, at the MSR point and at the MBR point.
const MSR_COUNTS: [(usize, usize, usize); 8] =
    [(2, 2, 2), (2, 2, 3), (3, 3, 4), (3, 3, 5), (4, 4, 6), (4, 4, 7), (8, 8, 14), (8, 8, 15)];
const MBR_COUNTS: [(usize, usize, usize); 6] = [(1, 2, 2), (3, 3, 3), (4, 4, 5), (4, 4, 7), (8, 8, 12), (8, 8, 15)];

/// One symbol of each of d helpers: d / (d - k + 1) shards at the MSR point, exactly one at the MBR point.
#[test]
fn product_matrix_codes_repair_a_shard_from_a_symbol_of_each_helper() {
    let specs = |name: &str, counts: &[(usize, usize, usize)]| -> Vec<(String, usize, usize)> {
        let alpha = |k: usize, d: usize| if name == "msr" { d - k + 1 } else { d };
        counts.iter().map(|&(k, m, d)| (format!("{name}:{k}+{m},d={d}"), d, alpha(k, d))).collect()
    };
    for (spec, d, alpha) in [specs("msr", &MSR_COUNTS), specs("mbr", &MBR_COUNTS)].concat() {
        let code = weft_codes::parse(&spec).expect("a code");
        let n = code.shape().n;
        assert_eq!(code.shape().alpha, alpha, "{spec}");
        for lost in 0..n {
            let (have, plan) = repair(&*code, &[lost], true);
            let read = symbols_read(n, &plan);
            assert_eq!((plan.reads.len(), read.iter().max()), (d, Some(&1)), "{spec} without {lost}");
            is_sound(&*code, &Wanted::Shards(vec![lost]), &have, &plan);
            let (have, plan) = repair(&*code, &[lost], false);
            assert!(plan.reads.len() <= code.shape().k * alpha, "{spec} without {lost}");
            is_sound(&*code, &Wanted::Shards(vec![lost]), &have, &plan);
        }
    }
}

/// No helper needs to combine for data shards but the last (MSR), and for the first d + 1 shards (MBR, by each other).
#[test]
fn product_matrix_codes_repair_most_shards_by_plain_reads() {
    for (k, m, d) in MSR_COUNTS.into_iter().filter(|counts| counts.2 + 1 == counts.0 + counts.1) {
        let code = weft_codes::parse(&format!("msr:{k}+{m},d={d}")).expect("a code");
        (0..k - 1).for_each(|lost| assert_eq!(repair(&*code, &[lost], false).1.reads.len(), d));
    }
    for (k, m, d) in MBR_COUNTS {
        let code = weft_codes::parse(&format!("mbr:{k}+{m},d={d}")).expect("a code");
        for lost in 0..=d {
            let (_, plan) = repair(&*code, &[lost], false);
            assert_eq!(plan.reads.len(), d);
            let mut helpers: Vec<usize> = plan.reads.iter().map(|read| read.shard).collect();
            helpers.dedup();
            assert_eq!(helpers.len(), d);
        }
    }
}

/// Of helpers that would do, the cheapest are asked; and if too few combine, k shards are decoded.
#[test]
fn product_matrix_codes_ask_the_cheapest_helpers() {
    let code = weft_codes::parse("msr:4+4,d=6").expect("a code");
    let (mut have, _) = repair(&*code, &[7], true);
    for shard in 0..7 {
        have.0[shard].iter_mut().for_each(|offer| offer.symbol_price = [5, 1, 9, 1, 2, 3, 4][shard]);
    }
    let plan = code.plan(&Wanted::Shards(vec![7]), &have).expect("one is lost");
    assert_eq!(plan.reads.iter().map(|read| read.shard).collect::<Vec<_>>(), [0, 1, 3, 4, 5, 6]);
    assert_eq!(plan.price, 5 + 1 + 1 + 2 + 3 + 4);
    have.0.iter_mut().flatten().for_each(|offer| (offer.combines, offer.symbol_price) = (false, 1));
    let plan = code.plan(&Wanted::Shards(vec![7]), &have).expect("one is lost");
    assert_eq!(plan.price, 4 * 3);
    is_sound(&*code, &Wanted::Shards(vec![7]), &have, &plan);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Whatever the prices, sound and decided as by the engine. For one symbol or one shard, where one shard is lost and
    /// only symbols cost, never dearer than its plans.
    #[test]
    fn clay_plans_are_sound(
        (spec, wanted, have) in question(&["clay:2+2", "clay:1+2", "clay:3+2", "clay:2+3", "clay:4+3"])    ) {
        let code = weft_codes::parse(spec).expect(spec);
        let generator = linear::generator(&*code).expect(spec);
        let offer = Offer { combines: false, request_price: 0, symbol_price: 1 };
        let equal = Offers(have.0.iter().map(|had| had.map(|_| offer)).collect());
        let lost_count = have.0.iter().filter(|offer| offer.is_none()).count();
        let is_one = matches!(&wanted, Wanted::Natives(some) | Wanted::Shards(some) if some.len() == 1);
        for (have, is_equal) in [(have, false), (equal, true)] {
            let engine = linear::plan(&*code, &generator, &wanted, &have);
            match code.plan(&wanted, &have) {
                Ok(plan) => {
                    is_sound(&*code, &wanted, &have, &plan);
                    let engine = engine.expect("the engine finds something, too");
                    prop_assert!(!is_equal || !is_one || lost_count > 1 || plan.price <= engine.price, "{} > {}", plan.price, engine.price);
                }
                Err(error) => prop_assert_eq!(Some(error), engine.err()),
            }
        }
    }

    #[test]
    fn product_matrix_plans_are_sound(
        (spec, wanted, have) in question(&["msr:2+2,d=3", "msr:3+3,d=4", "msr:3+3,d=5", "mbr:2+2,d=2", "mbr:2+2,d=3", "mbr:3+2,d=3"]),
        combines in prop::collection::vec(any::<bool>(), 6),
    ) {
        let code = weft_codes::parse(spec).expect(spec);
        let generator = linear::generator(&*code).expect(spec);
        let offers = have.0.iter().zip(&combines);
        let have = Offers(offers.map(|(had, &combines)| had.map(|offer| Offer { combines, ..offer })).collect());
        let engine = linear::plan(&*code, &generator, &wanted, &have);
        match code.plan(&wanted, &have) {
            Ok(plan) => {
                is_sound(&*code, &wanted, &have, &plan);
                prop_assert!(plan.price <= engine.expect("the engine finds something, too").price);
            }
            Err(error) => prop_assert_eq!(Some(error), engine.err()),
        }
    }
}
