//! The part that both product-matrix families share: lost shards are regenerated from one symbol of each of `d` helpers
//! for each of them.
//!
//! Both fix a message matrix `M` and encode shard `i` as `psi_i^T M`, kept in a basis of its own: it stores the
//! products `psi_i^T M v` with some directions `v` that belong to other shards. To regenerate shard `f` each helper `h`
//! sends one product, with the direction that belongs to `f`. If `h` stores that product, it is just read. Otherwise it
//! is a combination of symbols of `h`: a node that combines sends it as one symbol, and other nodes send the symbols that
//! it is made of.
//!
//! Several lost shards are regenerated together. The symbols that they would send each other are missing, but also follow
//! from what they receive: shard `g` sends `f` its product with the direction of `f`, and `f` has the same matrix `M`,
//! which is symmetric or made of symmetric ones. So of `h` lost shards each needs `d - h + 1` helpers only, and what
//! more helpers send beyond is not independent. (The virtual symbols of Li, Lin and Lee: CORE: augmenting
//! regenerating-coding-based recovery for single and concurrent failures in distributed storage systems, 2013.) With
//! minimum storage this suffices, and meets the cut-set bound. With minimum bandwidth both lost shards of a pair
//! have the same product, which neither can tell; `k - 1` helpers send one more symbol for it. Which symbols are needed
//! is left to the generic engine ([`linear::completed`]). The codes of shifts (`basic`, `basic-mbr`) do the same with words.

use crate::code::{Code, Content, Offer, Offers, Plan, PlanError, Price, Read, Shape, Wanted};
use crate::exec;
use crate::gf;
use crate::linear;
use crate::matrix::Matrix;
use crate::program::Program;
use alloc::vec;
use alloc::vec::Vec;

/// A code whose lost shards are regenerated from what helpers send.
pub(super) trait Regenerating: Code + Sized {
    /// The number of helpers of a single lost shard.
    fn helper_count(&self) -> usize;
    /// The generator matrix.
    fn generator(&self) -> &Matrix;
    /// What a helper sends for a lost shard: the terms of each symbol, (sub-symbol, coefficient).
    fn contribution(&self, helper: usize, lost: usize) -> Vec<Vec<(usize, u8)>>;
}

/// A product-matrix code over GF(2^8).
pub(super) trait ProductMatrix: Regenerating {
    /// The stored symbols `wanted` of other shards from all symbols of `k` shards `known`, in steps; `None` if a matrix
    /// is as good.
    fn decoding(&self, known: &[usize], wanted: &[usize]) -> Option<Program>;
}

/// The cheaper of two plans: regenerating the lost shards, and the plan of the generic engine.
///
/// # Errors
/// As [`Code::plan`].
pub(super) fn plan<C: ProductMatrix>(code: &C, wanted: &Wanted, have: &Offers) -> Result<Plan, PlanError> {
    linear::check(code, wanted, have)?;
    let found = decoded(code, wanted, have, linear::plan(code, code.generator(), wanted, have)?);
    let cost = |plan: &Plan| (plan.price, exec::cost(&plan.program));
    match regenerated(code, wanted, have) {
        Some(plan) if cost(&plan) <= cost(&found) => Ok(plan),
        _ => Ok(found),
    }
}

/// The same plan with the family's own steps, if it reads `k` whole shards and the steps cost less.
fn decoded<C: ProductMatrix>(code: &C, wanted: &Wanted, have: &Offers, plan: Plan) -> Plan {
    let Shape { k, alpha, .. } = *code.shape();
    let known: Vec<usize> = plan.reads.iter().step_by(alpha).map(|read| read.shard).collect();
    let is_whole = |(index, read): (usize, &Read)| {
        known.get(index / alpha) == Some(&read.shard) && read.terms[..] == [(index % alpha, 1)]
    };
    let places = places(code, wanted, have);
    let are_lost = places.iter().all(|symbol| !known.contains(&(symbol / alpha)));
    let are_in_order = places.windows(2).all(|two| two[0] < two[1]);
    let are_whole = plan.reads.len() == k * alpha && plan.reads.iter().enumerate().all(is_whole);
    if !are_lost || !are_in_order || !are_whole {
        return plan;
    }
    match code.decoding(&known, &places) {
        Some(program) if exec::cost(&program) < exec::cost(&plan.program) => Plan { program, ..plan },
        _ => plan,
    }
}

fn whole_price(offer: Offer, symbol_count: usize) -> Price {
    offer.request_price.saturating_add(offer.symbol_price.saturating_mul(symbol_count as Price))
}

/// The plan from what helpers send for the lost shards, together.
pub(super) fn regenerated<C: Regenerating>(code: &C, wanted: &Wanted, have: &Offers) -> Option<Plan> {
    linear::completed(code, code.generator(), wanted, have, &sent(code, wanted, have))
}

/// The wanted symbols that are offered, and what helpers send for the lost shards.
fn sent<C: Regenerating>(code: &C, wanted: &Wanted, have: &Offers) -> Vec<Read> {
    let alpha = code.shape().alpha;
    let (there, lost): (Vec<usize>, Vec<usize>) =
        places(code, wanted, have).into_iter().partition(|symbol| have.0[symbol / alpha].is_some());
    let mut sent: Vec<Read> =
        there.iter().map(|symbol| Read { shard: symbol / alpha, terms: vec![(symbol % alpha, 1)] }).collect();
    let mut lost: Vec<usize> = lost.iter().map(|symbol| symbol / alpha).collect();
    lost.sort_unstable();
    lost.dedup();
    // With too few helpers for these alone, others that cannot be read are regenerated with them.
    let offered_count = have.0.iter().flatten().count();
    for shard in (0..have.0.len()).filter(|&shard| have.0[shard].is_none()) {
        if !lost.is_empty() && offered_count + lost.len() <= code.helper_count() && !lost.contains(&shard) {
            lost.push(shard);
        }
    }
    for helper in helpers(code, &lost, have) {
        let terms = lost.iter().flat_map(|&lost| code.contribution(helper, lost));
        sent.extend(terms.map(|terms| Read { shard: helper, terms }));
    }
    sent
}

/// The wanted stored symbols. Of a native symbol that is stored twice, one that can be read.
fn places(code: &dyn Code, wanted: &Wanted, have: &Offers) -> Vec<usize> {
    let shape = code.shape();
    match wanted {
        Wanted::Shards(shards) => {
            shards.iter().flat_map(|shard| shard * shape.alpha..(shard + 1) * shape.alpha).collect()
        }
        Wanted::Natives(natives) => {
            let mut place_of = vec![None; shape.native_count];
            for (symbol, content) in shape.contents.iter().enumerate() {
                if let Content::Native(native) = *content
                    && (place_of[native].is_none() || have.0[symbol / shape.alpha].is_some())
                {
                    place_of[native] = Some(symbol);
                }
            }
            natives.iter().filter_map(|&native| place_of[native]).collect()
        }
    }
}

/// The cheapest helpers, at equal prices those that compute the least; as many as one lost shard needs, or all.
fn helpers<C: Regenerating>(code: &C, lost: &[usize], have: &Offers) -> Vec<usize> {
    let cost = |helper: usize| {
        let offer = have.0[helper]?;
        let terms: Vec<_> = lost.iter().flat_map(|&lost| code.contribution(helper, lost)).collect();
        let term_count = terms.iter().map(Vec::len).sum();
        let sent_count = if offer.combines { terms.len() } else { term_count };
        Some((whole_price(offer, sent_count), term_count, helper))
    };
    let mut costs: Vec<_> = (0..code.shape().n).filter(|helper| !lost.contains(helper)).filter_map(cost).collect();
    costs.sort_unstable();
    costs.truncate(code.helper_count());
    costs.into_iter().map(|(_, _, helper)| helper).collect()
}

/// `vector` in the basis that the rows are: coefficients by row. Panics if the rows are no basis.
pub(super) fn in_basis(vector: &[u8], basis: &Matrix) -> Vec<u8> {
    let inverse = basis.inverse().expect("rows of a Vandermonde matrix with distinct points are independent");
    Matrix::from_fn(1, vector.len(), |_, column| vector[column]).multiply(&inverse).row(0).to_vec()
}

/// `1, x, x^2, ...`
pub(super) fn powers(x: u8, count: usize) -> Vec<u8> {
    core::iter::successors(Some(1), |&power| Some(gf::mul(power, x))).take(count).collect()
}
