//! The part that both product-matrix families share: a lost shard is regenerated from one symbol of each of `d`
//! helpers.
//!
//! Both fix a message matrix `M` and encode shard `i` as `psi_i^T M`, kept in a basis of its own: it stores the
//! products `psi_i^T M v` with some directions `v` that belong to other shards. To regenerate shard `f` each helper `h`
//! sends one product, with the direction that belongs to `f`. If `h` stores that product, it is just read. Otherwise it
//! is a combination of symbols of `h`: a node that combines sends it as one symbol, and for other nodes it is computed
//! here from the symbols they send.

use crate::code::{Code, Content, Offer, Offers, Plan, PlanError, Price, Read, Shape, Wanted};
use crate::exec;
use crate::gf;
use crate::linear;
use crate::matrix::Matrix;
use crate::passes;
use crate::program::{Op, Program, SymbolId};
use alloc::vec;
use alloc::vec::Vec;

/// A code whose shards can be regenerated.
pub(super) trait ProductMatrix: Code + Sized {
    /// The number of helpers.
    fn helper_count(&self) -> usize;
    /// The generator matrix, for plans without regeneration.
    fn generator(&self) -> &Matrix;
    /// The contribution of a helper to a lost shard: (sub-symbol, coefficient).
    fn contribution(&self, helper: usize, lost: usize) -> Vec<(usize, u8)>;
    /// The sub-symbols of a lost shard from the contributions of these `helper_count` helpers: a row per sub-symbol, a
    /// column per helper.
    fn regeneration(&self, lost: usize, helpers: &[usize]) -> Matrix;
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
    let engine = || Ok(decoded(code, wanted, have, linear::plan(code, code.generator(), wanted, have)?));
    match regenerated(code, wanted, have) {
        Some(plan) => Ok(engine().ok().filter(|other| other.price < plan.price).unwrap_or(plan)),
        None => engine(),
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

/// Reads wanted symbols where they are offered, and regenerates the rest; `None` if there are too few helpers.
fn regenerated<C: ProductMatrix>(code: &C, wanted: &Wanted, have: &Offers) -> Option<Plan> {
    let alpha = code.shape().alpha;
    let places = places(code, wanted, have);
    let mut sent = Sent::default();
    // By wanted symbol: its row over the symbols sent.
    let mut rows: Vec<Vec<(usize, u8)>> = vec![Vec::new(); places.len()];
    let mut lost: Vec<usize> = Vec::new();
    for (row, &symbol) in rows.iter_mut().zip(&places) {
        if have.0[symbol / alpha].is_some() {
            row.push((sent.position(symbol / alpha, vec![(symbol % alpha, 1)]), 1));
        } else if !lost.contains(&(symbol / alpha)) {
            lost.push(symbol / alpha);
        }
    }
    for lost in lost {
        let helpers = helpers(code, lost, have)?;
        let regeneration = code.regeneration(lost, &helpers);
        let contribution = |&helper: &usize| sent.position(helper, code.contribution(helper, lost));
        let contributions: Vec<usize> = helpers.iter().map(contribution).collect();
        for (row, symbol) in rows.iter_mut().zip(&places).filter(|(_, symbol)| *symbol / alpha == lost) {
            let coefficients = regeneration.row(symbol % alpha).iter();
            *row = contributions.iter().copied().zip(coefficients.copied()).filter(|term| term.1 != 0).collect();
        }
    }
    Some(sent.plan(&rows, have))
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

/// The cheapest helpers; at equal prices those that compute the least.
fn helpers<C: ProductMatrix>(code: &C, lost: usize, have: &Offers) -> Option<Vec<usize>> {
    let cost = |helper: usize| {
        let offer = have.0[helper]?;
        let term_count = code.contribution(helper, lost).len();
        let sent_count = if offer.combines { 1 } else { term_count };
        Some((whole_price(offer, sent_count), term_count, helper))
    };
    let mut costs: Vec<_> = (0..code.shape().n).filter(|&helper| helper != lost).filter_map(cost).collect();
    costs.sort_unstable();
    costs.truncate(code.helper_count());
    (costs.len() == code.helper_count()).then(|| costs.into_iter().map(|(_, _, helper)| helper).collect())
}

/// The combinations that helpers send, each once.
#[derive(Default)]
struct Sent(Vec<Read>);

impl Sent {
    fn position(&mut self, shard: usize, terms: Vec<(usize, u8)>) -> usize {
        let read = Read { shard, terms };
        self.0.iter().position(|sent| *sent == read).unwrap_or_else(|| {
            self.0.push(read);
            self.0.len() - 1
        })
    }

    /// Rows over the symbols sent. If a node does not combine, its contribution is read term by term.
    fn plan(&self, rows: &[Vec<(usize, u8)>], have: &Offers) -> Plan {
        let is_sent =
            |read: &Read| matches!(read.terms[..], [(_, 1)]) || have.0[read.shard].is_some_and(|offer| offer.combines);
        let plainly = |read: &Read| -> Vec<Read> {
            read.terms.iter().map(|&(sub, _)| Read { shard: read.shard, terms: vec![(sub, 1)] }).collect()
        };
        let mut reads: Vec<Read> =
            self.0.iter().flat_map(|read| if is_sent(read) { vec![read.clone()] } else { plainly(read) }).collect();
        reads.sort_unstable_by(|a, b| (a.shard, &a.terms).cmp(&(b.shard, &b.terms)));
        reads.dedup();
        let input_of = |read: &Read| reads.iter().position(|other| other == read).unwrap_or(reads.len());

        let first_temporary = reads.len() + rows.len();
        let mut ops = Vec::new();
        let mut temporary_count = 0;
        let mut symbol = |read: &Read| -> SymbolId {
            if is_sent(read) {
                return input_of(read);
            }
            let from: Vec<SymbolId> = plainly(read).iter().map(input_of).collect();
            let coefficients = Matrix::from_fn(1, from.len(), |_, column| read.terms[column].1);
            let to = first_temporary + temporary_count;
            temporary_count += 1;
            ops.push(Op::Dot { from, to: vec![to], coefficients });
            to
        };
        let symbols: Vec<SymbolId> = self.0.iter().map(&mut symbol).collect();
        for (output, row) in rows.iter().enumerate() {
            let to = reads.len() + output;
            if let Some(earlier) = rows[..output].iter().position(|other| other == row) {
                ops.push(Op::Copy { from: reads.len() + earlier, to });
                continue;
            }
            let from = row.iter().map(|&(sent, _)| symbols[sent]).collect();
            let coefficients = Matrix::from_fn(1, row.len(), |_, column| row[column].1);
            ops.push(Op::Dot { from, to: vec![to], coefficients });
        }
        let price = have.price(&reads);
        let (input_count, output_count) = (reads.len(), rows.len());
        let program = passes::optimise(Program { input_count, output_count, temporary_count, ops });
        Plan { reads, program, price }
    }
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
