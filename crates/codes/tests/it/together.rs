//! Several lost shards repaired together, at one place: patterns of two and of three, to the bytes, and from no more
//! symbols than other ways take.

use crate::effort::is_long;
use crate::plans::{equal_offers, is_sound};
use weft_codes::{Code, Offer, Offers, Plan, Wanted, analysis};

/// Codes of each family that repairs from parts of shards, and some others.
const SPECS: [&str; 29] = [
    "rs:4+3",
    "crs:4+2",
    "lrc:6+2+2",
    "lrc-uniform:6+2+2",
    "mojette:4+2",
    "msbasic:4",
    "msbasic:6",
    "ldpc:cube-8-6",
    "embr:n=5,k=3",
    "embr:n=6,k=4",
    "embr:n=7,k=3",
    "embr:n=8,k=6",
    "mbr:3+3,d=5",
    "mbr:4+4,d=5",
    "mbr:4+4,d=7",
    "mbr:3+5,d=4",
    "msr:2+3,d=3",
    "msr:3+3,d=4",
    "msr:3+3,d=5",
    "msr:4+4,d=6",
    "msr:4+4,d=7",
    "basic:3+3,d=4",
    "basic:3+3,d=5",
    "basic-mbr:3+3,d=5",
    "clay:3+2",
    "clay:2+3",
    "clay:5+3",
    "clay:4+4",
    "clay:7+4",
];

/// Up to this many patterns all are tried.
const MANY: usize = 40;

/// Only symbols cost.
fn offers(n: usize, lost: &[usize], combines: bool) -> Offers {
    let mut have = equal_offers(n);
    have.0.iter_mut().flatten().for_each(|offer| (offer.combines, offer.request_price) = (combines, 0));
    lost.iter().for_each(|&shard| have.0[shard] = None);
    have
}

fn repair(code: &dyn Code, lost: &[usize], combines: bool) -> (Offers, Plan) {
    let have = offers(code.shape().n, lost, combines);
    let plan = code.plan(&Wanted::Shards(lost.to_vec()), &have).unwrap_or_else(|error| panic!("{lost:?}: {error}"));
    (have, plan)
}

/// Every way to choose `count` of `n`.
fn patterns(n: usize, count: usize) -> Vec<Vec<usize>> {
    (0..count).fold(vec![Vec::new()], |patterns, _| {
        let longer = |pattern: Vec<usize>| {
            let next = pattern.last().map_or(0, |last| last + 1);
            (next..n).map(move |shard| [&pattern[..], &[shard]].concat())
        };
        patterns.into_iter().flat_map(longer).collect()
    })
}

/// The symbols that repairs one after the other receive, where what is rebuilt stays at hand.
fn one_by_one(code: &dyn Code, lost: &[usize], combines: bool) -> u64 {
    let mut have = offers(code.shape().n, lost, combines);
    let repair = |&shard: &usize| {
        let plan = code.plan(&Wanted::Shards(vec![shard]), &have).expect("fewer are lost");
        have.0[shard] = Some(Offer { combines: true, request_price: 0, symbol_price: 0 });
        plan.price
    };
    lost.iter().map(repair).sum()
}

#[test]
fn two_and_three_are_repaired_from_no_more_than_other_ways_take() {
    for spec in SPECS {
        let code = weft_codes::parse(spec).expect(spec);
        let shape = code.shape();
        let all = Wanted::Natives((0..shape.native_count).collect());
        for (count, combines) in [(2, false), (2, true), (3, false), (3, true)] {
            // Of many patterns, each seventh, or in a short run each 35th: that steps through all places, since no code has seven shards a group.
            let patterns = patterns(shape.n, count);
            let step = if patterns.len() <= MANY {
                1
            } else if is_long() {
                7
            } else {
                35
            };
            for lost in patterns.iter().step_by(step).filter(|_| count <= shape.tolerance) {
                let (have, plan) = repair(&*code, lost, combines);
                is_sound(&*code, &Wanted::Shards(lost.clone()), &have, &plan);
                let received = plan.reads.len();
                let decoded = code.plan(&all, &have).expect("everything follows").reads.len();
                assert!(received <= decoded, "{spec} {lost:?} {combines}: {received} > {decoded} of a decode");
                let after_another = one_by_one(&*code, lost, combines);
                assert!(
                    received as u64 <= after_another,
                    "{spec} {lost:?} {combines}: {received} > {after_another} one by one"
                );
                if let Some(least) = analysis::least_received(shape, count) {
                    assert!(received >= least, "{spec} {lost:?} {combines}: {received} < {least}, the cut-set bound");
                }
                // One of them alone, the others being away as well.
                let wanted = Wanted::Shards(lost[..1].to_vec());
                let alone = code.plan(&wanted, &have).expect("one of those");
                is_sound(&*code, &wanted, &have, &alone);
                assert!(alone.reads.len() <= received, "{spec} {lost:?} {combines}: one takes no more than all");
            }
        }
    }
}

/// With helpers that combine, product-matrix codes meet the cut-set bound for two losses; at minimum storage for three.
#[test]
fn product_matrix_codes_meet_the_cut_set_bound() {
    let meets = |spec: &str, count: usize| {
        let code = weft_codes::parse(spec).expect(spec);
        let least = analysis::least_received(code.shape(), count).expect("it is known");
        for lost in patterns(code.shape().n, count) {
            assert_eq!(repair(&*code, &lost, true).1.reads.len(), least, "{spec} {lost:?}");
        }
    };
    for spec in ["msr:3+3,d=4", "msr:3+3,d=5", "msr:4+4,d=6", "msr:4+4,d=7", "msr:5+5,d=9"] {
        (2..=3).for_each(|count| meets(spec, count));
    }
    for spec in
        ["mbr:3+3,d=5", "mbr:4+4,d=5", "mbr:4+4,d=7", "mbr:8+4,d=11", "embr:n=6,k=4", "embr:n=8,k=4", "embr:n=12,k=9"]
    {
        meets(spec, 2);
    }
}

/// The same of shifts, where symbols are strips and what is sent is words.
#[test]
fn basic_codes_meet_the_cut_set_bound() {
    for (spec, received) in [("basic:4+4,d=7", [12, 15]), ("basic:4+4,d=6", [10, 12])] {
        let code = weft_codes::parse(spec).expect(spec);
        let word_count = if spec.ends_with('7') { 4 } else { 3 };
        for (count, words) in (2..).zip(received) {
            for lost in patterns(8, count) {
                let (_, plan) = repair(&*code, &lost, true);
                assert_eq!(plan.reads.len() * word_count, words * code.shape().alpha, "{spec} {lost:?}");
            }
        }
    }
}

/// In one column of the construction, `h` lost shards are repaired from `h / q` of each other. In different columns two take
/// `2 q - 1` planes of `q^2` of each other and, for each two of `q` checks that these lack, another one or what is worth as much.
#[test]
fn clay_repairs_two_from_a_part_of_the_planes() {
    for (k, q) in [(6, 3), (4, 4), (8, 4), (10, 4), (5, 5)] {
        let code = weft_codes::parse(&format!("clay:{k}+{q}")).expect("a code");
        let (n, alpha) = (k + q, code.shape().alpha);
        let column = |shard: usize| if shard < k { shard / q } else { n };
        for lost in patterns(n, 2) {
            let received = repair(&*code, &lost, false).1.reads.len();
            if column(lost[0]) == column(lost[1]) {
                assert_eq!(received, analysis::least_received(code.shape(), 2).expect("it is MDS"));
            } else {
                let most = (2 * q - 1 + q.div_ceil(2)) * (n - 2) * alpha / (q * q);
                assert!(received <= most, "clay:{k}+{q} {lost:?}: {received} > {most}");
                assert!(received < code.shape().native_count, "clay:{k}+{q} {lost:?}");
            }
        }
    }
}
