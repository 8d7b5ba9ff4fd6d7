//! What the codes of shifts and sums read to repair, exactly.

use crate::plans::{equal_offers, is_sound, question};
use proptest::prelude::*;
use weft_codes::{Code, Offers, Plan, Wanted, linear};

/// The plan that repairs one shard from equally priced others.
fn repair(code: &dyn Code, lost: usize, combines: bool) -> (Plan, Offers) {
    let mut have = equal_offers(code.shape().n);
    have.0.iter_mut().flatten().for_each(|offer| offer.combines = combines);
    have.0[lost] = None;
    let wanted = Wanted::Shards(vec![lost]);
    let plan = code.plan(&wanted, &have).expect("one is lost");
    is_sound(code, &wanted, &have, &plan);
    (plan, have)
}

/// Shards read, each once.
fn shards_read(plan: &Plan) -> Vec<usize> {
    let mut shards: Vec<usize> = plan.reads.iter().map(|read| read.shard).collect();
    shards.dedup();
    shards
}

#[test]
fn msbasic_repairs_from_half_the_data() {
    for k in (2..=16).step_by(2) {
        let code = weft_codes::parse(&format!("msbasic:{k}")).expect("even");
        for lost in 0..2 * k {
            let (plan, _) = repair(&*code, lost, false);
            assert_eq!(plan.reads.len(), k / 2 * code.shape().alpha, "msbasic:{k} without {lost}");
            assert_eq!(shards_read(&plan).len(), k / 2, "msbasic:{k} without {lost}");
        }
    }
}

const BASIC: [&str; 6] =
    ["basic:2+2,d=2", "basic:2+3,d=4", "basic:3+3,d=4", "basic:3+3,d=5", "basic:4+4,d=6", "basic:4+3,d=6"];

/// `d` helpers that combine send 1/(d - k + 1) of a shard each, `k` that do not send all.
#[test]
fn basic_repairs_by_theory() {
    for spec in BASIC {
        let code = weft_codes::parse(spec).expect(spec);
        let (n, k, cell) = (code.shape().n, code.shape().k, code.shape().alpha);
        let d: usize = spec.rsplit('=').next().and_then(|d| d.parse().ok()).expect("a number of helpers");
        for lost in 0..n {
            let (plan, _) = repair(&*code, lost, true);
            assert_eq!(plan.reads.len(), d * cell / (d - k + 1), "{spec} without {lost}");
            assert_eq!(shards_read(&plan).len(), d, "{spec} without {lost}");
            let (plan, _) = repair(&*code, lost, false);
            assert_eq!(plan.reads.len(), k * cell, "{spec} without {lost}");
        }
    }
}

/// Two words from each of seven helpers are less than four words from each of five. An eighth, which one lost shard needs,
/// would tell nothing more.
#[test]
fn basic_repairs_several_where_that_is_cheaper() {
    let code = weft_codes::parse("basic:5+5,d=8").expect("a code");
    let mut have = equal_offers(10);
    have.0.iter_mut().flatten().for_each(|offer| offer.combines = true);
    (have.0[1], have.0[7]) = (None, None);
    let wanted = Wanted::Shards(vec![7, 1]);
    let plan = code.plan(&wanted, &have).expect("two are lost");
    is_sound(&*code, &wanted, &have, &plan);
    assert_eq!(plan.reads.len(), 7 * 2 * code.shape().alpha / 4);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// Any question to any helpers at any prices: right bytes; whole shards no dearer than by the generic engine.
    #[test]
    fn basic_plans_are_sound(
        (spec, wanted, have) in question(&BASIC),
        combining in any::<u16>(),
    ) {
        let code = weft_codes::parse(spec).expect(spec);
        let mut have = have;
        for (shard, offer) in have.0.iter_mut().enumerate() {
            offer.iter_mut().for_each(|offer| offer.combines = combining >> shard & 1 == 1);
        }
        let generator = linear::generator(&*code).expect(spec);
        let generic = linear::plan(&*code, &generator, &wanted, &have);
        match code.plan(&wanted, &have) {
            Ok(plan) => {
                is_sound(&*code, &wanted, &have, &plan);
                let generic = generic.expect("what the family answers is determined");
                // A part of a shard that is there is just read.
                let is_whole = matches!(wanted, Wanted::Shards(_));
                prop_assert!(!is_whole || plan.price <= generic.price, "{} > {}", plan.price, generic.price);
            }
            Err(error) => prop_assert_eq!(generic.map(|plan| plan.price), Err(error)),
        }
    }
}
