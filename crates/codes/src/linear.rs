//! The generic linear engine: plans any code that is linear over GF(2^8), from its generator matrix alone. It is the
//! oracle for families that have planners of their own.
//!
//! The generator matrix has a row per stored symbol (`n * alpha`) and a column per native symbol. A set of reads
//! suffices when the wanted rows lie in the span of the rows read. Planning tries these ways in order, and takes the
//! cheapest plan:
//!
//! 1. Read the wanted symbols themselves, if they are offered: no algebra.
//! 2. Take symbols greedily, cheapest shard first, as long as each adds to the span (the greedy choice of a matroid
//!    basis); express the wanted rows; drop the symbols that the expression does not use.
//! 3. For codes that are not MDS, try 2 within each locality group of the shape, and within the groups of all wanted
//!    shards.
//! 4. Leave out one used shard at a time and try 2 again, as long as the price falls. This finds locality that the
//!    shape does not name. The search is bounded, so that planning a code of hundreds of symbols takes milliseconds.
//! 5. If nodes that do not combine offer at most 24 symbols, search all sets of these, cut short by bounds on the
//!    price.
//! 6. If nodes combine, take every set of at most eight of them, and reduce what each sends, dearest first, to what the
//!    others leave open.
//!
//! Families that know what helpers should send for a lost shard name these reads instead (`completed`). The engine takes
//! those that bring something new, expresses the wanted rows, and lets nodes add what is still missing. So it need not be
//! known for how many lost shards they suffice.
//!
//! Generator matrices of zeros and ones, as XOR codes have, are eliminated in words of 64 bits.
//!
//! For MDS codes with `alpha` = 1 the result is optimal: fewer than k symbols determine nothing but themselves, so
//! either 1 is the cheapest or the k cheapest shards are. It is also optimal where search 5 completes, which it does
//! for 16 symbols. Elsewhere it is a good local optimum, because the exact problem (the lightest dual codeword) is
//! NP-hard; a family that knows better overrides it. A node that combines is asked for as few symbols as the rank of
//! its share in the plan.

mod echelon;
mod erasures;
mod generator;
mod planner;
mod search;
pub(crate) mod span;

use crate::code::{Code, Content, Group, Offers, Plan, PlanError, Price, Read, Shape, Wanted};
use crate::matrix::Matrix;
use crate::program::Program;
use crate::row::{Bits, Bytes, Row};
use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
pub use erasures::Erasures;
pub(crate) use generator::LazyGenerator;
pub use generator::generator;
use planner::{Candidate, Planner, tries_all};

/// A code given by its generator matrix.
#[derive(Clone, Debug)]
pub struct LinearCode {
    spec: String,
    shape: Shape,
    generator: Matrix,
    encode: Program,
}

impl LinearCode {
    /// A systematic MDS code with one symbol per shard: data shards first, then one parity per row of `coding`, which
    /// has a column per data shard. The caller guarantees that every square submatrix of `coding` is non-singular.
    #[must_use]
    pub fn systematic_mds(spec: String, coding: &Matrix) -> LinearCode {
        let k = coding.columns();
        LinearCode::new(spec, k, 1, coding.rows(), Vec::new(), Matrix::identity(k).stack(coding))
    }

    /// A code with `alpha` symbols per shard, `k` shards' worth of data, and this generator matrix (`n * alpha` rows, a
    /// column per native symbol). The caller guarantees `tolerance` and `groups`. Panics unless the number of rows is a
    /// multiple of `alpha`.
    #[must_use]
    pub fn new(
        spec: String,
        k: usize,
        alpha: usize,
        tolerance: usize,
        groups: Vec<Group>,
        generator: Matrix,
    ) -> LinearCode {
        assert_eq!(generator.rows() % alpha, 0, "{spec}: the generator matrix has alpha rows per shard");
        let contents: Vec<Content> = (0..generator.rows()).map(|row| content(generator.row(row))).collect();
        let coded: Vec<usize> = (0..contents.len()).filter(|&symbol| contents[symbol] == Content::Coded).collect();
        let encode = Program::from_matrix(&generator.select_rows(&coded));
        LinearCode { shape: shape(k, alpha, tolerance, groups, contents, &generator), spec, generator, encode }
    }

    /// A systematic code with `alpha` symbols per shard, `k` data shards first. This program computes the other stored
    /// symbols from the native ones. The caller guarantees `tolerance` and `groups`. Panics unless the program is
    /// valid, has an input per symbol of `k` shards, and computes whole shards.
    #[must_use]
    pub fn systematic(
        spec: String,
        k: usize,
        alpha: usize,
        tolerance: usize,
        groups: Vec<Group>,
        encode: Program,
    ) -> LinearCode {
        assert_eq!(encode.input_count, k * alpha, "{spec}: data shards hold the native symbols");
        assert_eq!(encode.output_count % alpha, 0, "{spec}: outputs are whole shards");
        let coding = encode.to_matrix().unwrap_or_else(|error| panic!("{spec}: {error}"));
        let natives = (0..encode.input_count).map(Content::Native);
        let contents = natives.chain(core::iter::repeat_n(Content::Coded, encode.output_count)).collect();
        let generator = Matrix::identity(k * alpha).stack(&coding);
        LinearCode { shape: shape(k, alpha, tolerance, groups, contents, &generator), spec, generator, encode }
    }

    /// A code with `alpha` symbols per shard and `k` shards' worth of data, none of whose stored symbols is a native
    /// one: this program computes all of them. The caller guarantees `tolerance`. Panics unless the program is valid
    /// and computes whole shards.
    #[must_use]
    pub fn coded(spec: String, k: usize, alpha: usize, tolerance: usize, encode: Program) -> LinearCode {
        assert_eq!(encode.output_count % alpha, 0, "{spec}: outputs are whole shards");
        let generator = encode.to_matrix().unwrap_or_else(|error| panic!("{spec}: {error}"));
        let contents = vec![Content::Coded; encode.output_count];
        LinearCode { shape: shape(k, alpha, tolerance, Vec::new(), contents, &generator), spec, generator, encode }
    }

    /// The generator matrix.
    pub(crate) fn generator(&self) -> &Matrix {
        &self.generator
    }
}

impl Code for LinearCode {
    fn spec(&self) -> &str {
        &self.spec
    }

    fn shape(&self) -> &Shape {
        &self.shape
    }

    fn encode(&self) -> &Program {
        &self.encode
    }

    fn plan(&self, wanted: &Wanted, have: &Offers) -> Result<Plan, PlanError> {
        plan(self, &self.generator, wanted, have)
    }
}

fn shape(
    k: usize,
    alpha: usize,
    tolerance: usize,
    groups: Vec<Group>,
    contents: Vec<Content>,
    generator: &Matrix,
) -> Shape {
    let (n, native_count) = (generator.rows() / alpha, generator.columns());
    Shape { n, k, alpha, native_count, symbol_alignment_bytes: 1, tolerance, contents, groups }
}

fn content(row: &[u8]) -> Content {
    match row.iter().position(|&coefficient| coefficient != 0) {
        Some(native) if row[native] == 1 && row[native + 1..].iter().all(|&c| c == 0) => Content::Native(native),
        _ => Content::Coded,
    }
}

/// The cheapest plan that the engine finds for a code with this generator matrix; the module's text says how cheap that
/// is.
///
/// # Errors
/// As [`Code::plan`].
pub fn plan(code: &dyn Code, generator: &Matrix, wanted: &Wanted, have: &Offers) -> Result<Plan, PlanError> {
    check(code, wanted, have)?;
    if generator.is_binary() {
        planned::<Bits>(code, generator, wanted, have)
    } else {
        planned::<Bytes>(code, generator, wanted, have)
    }
}

/// The plan that takes these reads as far as each brings something new, and completes them from the cheapest nodes where
/// they do not suffice. What a node that does not combine should send is read symbol by symbol. `None` if there is no such
/// plan, or if completing takes too long. The offers fit the shape.
pub(crate) fn completed(
    code: &dyn Code,
    generator: &Matrix,
    wanted: &Wanted,
    have: &Offers,
    named: &[Read],
) -> Option<Plan> {
    let is_binary = generator.is_binary() && named.iter().flat_map(|read| &read.terms).all(|&(_, factor)| factor <= 1);
    let candidate = if is_binary {
        Planner::<Bits>::new(code.shape(), generator, wanted, have).completed(named)
    } else {
        Planner::<Bytes>::new(code.shape(), generator, wanted, have).completed(named)
    };
    candidate.map(Candidate::describe)
}

fn planned<R: Row>(code: &dyn Code, generator: &Matrix, wanted: &Wanted, have: &Offers) -> Result<Plan, PlanError> {
    let planner = Planner::<R>::new(code.shape(), generator, wanted, have);
    match planner.cheapest_found(is_mds(code.shape())) {
        Some(candidate) => Ok(candidate.describe()),
        None => Err(unrecoverable(code, &planner.determined(), wanted, have)),
    }
}

/// Checks that the offers and the wanted symbols fit the shape; every planner does this first.
///
/// # Errors
/// [`PlanError::OfferCount`], [`PlanError::NoSuchNative`], [`PlanError::NoSuchShard`].
pub(crate) fn check(code: &dyn Code, wanted: &Wanted, have: &Offers) -> Result<(), PlanError> {
    let (n, native_count) = (code.shape().n, code.shape().native_count);
    let spec = || code.spec().to_owned();
    if have.0.len() != n {
        return Err(PlanError::OfferCount { code: spec(), n, given: have.0.len() });
    }
    match wanted {
        Wanted::Natives(natives) => match natives.iter().find(|&&native| native >= native_count) {
            Some(&native) => Err(PlanError::NoSuchNative { code: spec(), native, native_count }),
            None => Ok(()),
        },
        Wanted::Shards(shards) => match shards.iter().find(|&&shard| shard >= n) {
            Some(&shard) => Err(PlanError::NoSuchShard { code: spec(), shard, n }),
            None => Ok(()),
        },
    }
}

/// Can the engine be cheaper than a family's planner, and is asking it cheap? It can where it tries every set of
/// symbols, and where nodes combine, which those planners do not use.
pub(crate) fn may_be_cheaper(shape: &Shape, have: &Offers) -> bool {
    let combine = shape.alpha > 1 && have.0.iter().flatten().any(|offer| offer.combines);
    let operations = shape.contents.len() as u64 * (shape.native_count as u64).pow(2);
    tries_all(shape, have) || combine && operations <= MOST_ASKED
}

/// The engine's plan, if it is cheaper than `price`, the price of the family's own plan.
///
/// # Errors
/// Those of the engine.
pub(crate) fn cheaper_than(
    price: Price,
    shape: &Shape,
    have: &Offers,
    engine: impl FnOnce() -> Result<Plan, PlanError>,
) -> Result<Option<Plan>, PlanError> {
    if !may_be_cheaper(shape, have) {
        return Ok(None);
    }
    engine().map(|plan| (plan.price < price).then_some(plan))
}

/// Element operations of an elimination that takes a tenth of a millisecond or so.
const MOST_ASKED: u64 = 1 << 18;

/// Is it an MDS code with one symbol per shard? With more symbols per shard, some wanted symbols may need less than k
/// shards.
fn is_mds(shape: &Shape) -> bool {
    shape.alpha == 1 && shape.native_count == shape.k && shape.tolerance + shape.k == shape.n
}

/// The error for wanted symbols that cannot be recovered; `determined` says which can, in their order.
pub(crate) fn unrecoverable(code: &dyn Code, determined: &[bool], wanted: &Wanted, have: &Offers) -> PlanError {
    let alpha = code.shape().alpha;
    let lost = match wanted {
        Wanted::Natives(natives) => {
            let lost = natives.iter().zip(determined).filter(|(_, had)| !**had);
            Wanted::Natives(lost.map(|(&native, _)| native).collect())
        }
        Wanted::Shards(shards) => {
            let whole = determined.chunks(alpha).map(|had| had.iter().all(|&had| had));
            let lost = shards.iter().zip(whole).filter(|(_, had)| !had);
            Wanted::Shards(lost.map(|(&shard, _)| shard).collect())
        }
    };
    PlanError::unrecoverable(code, lost, have)
}

#[cfg(test)]
#[path = "linear_tests.rs"]
mod tests;
