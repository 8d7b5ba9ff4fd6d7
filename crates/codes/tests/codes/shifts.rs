//! What the codes of shifts and sums read to repair, exactly.

use crate::plans::{equal_offers, is_sound};
use weft_codes::{Code, Offers, Plan, Wanted};

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
