//! The generic linear engine: any code that is linear over GF(2^8), from its generator matrix alone. It is the
//! oracle for families that plan by cleverer means.
//!
//! The generator matrix has a row per stored symbol (`n * alpha`) and a column per native symbol. A set of reads
//! suffices when the wanted rows lie in the span of the rows read. Planning tries, in this order, and takes the
//! cheapest:
//!
//! 1. read the wanted symbols themselves, where they are offered plainly: no algebra;
//! 2. take symbols greedily, cheapest shard first, as long as each adds to the span (the greedy choice of a matroid
//!    basis), express the wanted rows, and drop what the expression does not use;
//! 3. for codes that are not MDS, try 2 within each locality group of the shape, and within those of all wanted shards;
//! 4. leave out one used shard at a time and try 2 again, as long as it gets cheaper: this finds locality that the
//!    shape does not tell. The search is bounded, so that planning a code of hundreds of symbols takes milliseconds;
//! 5. of at most 24 symbols offered by nodes that do not combine them, search all sets, cut short by bounds on the price;
//! 6. where nodes combine, of every set of them (of at most eight) cut each down, dearest first, to sending what the others
//!    leave open.
//!
//! Generator matrices of zeros and ones, as XOR codes have, are eliminated in words of 64 bits.
//!
//! For MDS codes with `alpha` = 1 the result is optimal: fewer than k symbols determine nothing but themselves, so
//! either 1 is cheapest or the k cheapest shards are. So it is where 5 comes to its end, which of 16 symbols it does. In all
//! other cases it is a good local optimum (the exact question is that of the lightest dual codeword, which is NP-hard), and a
//! family that knows better overrides it. Where a node combines, it is asked for as few symbols as the rank of its share in
//! the answer.

mod echelon;
mod erasures;
mod lazy_generator;
mod question;
mod search;
pub(crate) mod span;

use crate::code::{Code, Content, Group, Offers, Plan, PlanError, Price, Shape, Wanted};
use crate::matrix::Matrix;
use crate::program::{Program, ProgramError};
use crate::row::{Bits, Bytes, Row};
use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
pub use erasures::Erasures;
pub(crate) use lazy_generator::LazyGenerator;
use question::{MOST_SYMBOLS_TRIED, Question};

/// A code given by its generator matrix.
#[derive(Clone, Debug)]
pub struct LinearCode {
    spec: String,
    shape: Shape,
    generator: Matrix,
    encode: Program,
}

impl LinearCode {
    /// A systematic MDS code with one symbol per shard: data shards first, then one parity per row of `coding` (a
    /// column per data shard). The caller vouches that every square submatrix of `coding` is non-singular.
    #[must_use]
    pub fn systematic_mds(spec: String, coding: &Matrix) -> LinearCode {
        let k = coding.columns();
        LinearCode::new(spec, k, 1, coding.rows(), Vec::new(), Matrix::identity(k).stack(coding))
    }

    /// A code with `alpha` symbols per shard, `k` shards' worth of data, and this generator matrix (`n * alpha` rows, a
    /// column per native symbol). The caller vouches for `tolerance` and `groups`. Panics unless the rows are a
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

    /// A systematic code with `alpha` symbols per shard, `k` data shards first, whose other stored symbols are the
    /// outputs of this program over the native ones. The caller vouches for `tolerance` and `groups`. Panics unless the
    /// program is valid, has an input per symbol of `k` shards, and whole shards of outputs.
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

    /// A code with `alpha` symbols per shard, `k` shards' worth of data, all of whose stored symbols are the outputs of this
    /// program over the native ones; none is a native symbol itself. The caller vouches for `tolerance`. Panics unless the
    /// program is valid and has whole shards of outputs.
    #[must_use]
    pub fn coded(spec: String, k: usize, alpha: usize, tolerance: usize, encode: Program) -> LinearCode {
        assert_eq!(encode.output_count % alpha, 0, "{spec}: outputs are whole shards");
        let generator = encode.to_matrix().unwrap_or_else(|error| panic!("{spec}: {error}"));
        let contents = vec![Content::Coded; encode.output_count];
        LinearCode { shape: shape(k, alpha, tolerance, Vec::new(), contents, &generator), spec, generator, encode }
    }

    /// The generator matrix: a row per stored symbol, a column per native symbol.
    #[must_use]
    pub fn generator(&self) -> &Matrix {
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

/// The cheapest plan the engine finds for a code with this generator matrix; see the module's text for how cheap.
///
/// # Errors
/// As [`Code::plan`].
pub fn plan(code: &dyn Code, generator: &Matrix, wanted: &Wanted, have: &Offers) -> Result<Plan, PlanError> {
    check(code, wanted, have)?;
    if generator.is_binary() {
        answered::<Bits>(code, generator, wanted, have)
    } else {
        answered::<Bytes>(code, generator, wanted, have)
    }
}

fn answered<R: Row>(code: &dyn Code, generator: &Matrix, wanted: &Wanted, have: &Offers) -> Result<Plan, PlanError> {
    let question = Question::<R>::new(code.shape(), generator, wanted, have);
    match question.answered(is_mds(code.shape())) {
        Some(answer) => Ok(answer.describe()),
        None => Err(unrecoverable(code, &question.determined(), wanted, have)),
    }
}

/// The generator matrix that a code's shape and encode program amount to: a row per stored symbol, a column per native
/// symbol. So the engine is an oracle for codes that are not given by a matrix, too.
///
/// # Errors
/// The encode program is invalid.
pub fn generator(code: &dyn Code) -> Result<Matrix, ProgramError> {
    let coded = code.encode().to_matrix()?;
    let plain = Matrix::identity(code.shape().native_count);
    let mut coded_before = 0;
    let row_of = |content: &Content| match content {
        Content::Native(native) => *native,
        Content::Coded => {
            coded_before += 1;
            plain.rows() + coded_before - 1
        }
    };
    let rows: Vec<usize> = code.shape().contents.iter().map(row_of).collect();
    Ok(plain.stack(&coded).select_rows(&rows))
}

/// A question that fits the shape: the first thing every planner asks for.
///
/// # Errors
/// [`PlanError::OfferCount`], [`PlanError::NoSuchNative`], [`PlanError::NoSuchShard`].
pub fn check(code: &dyn Code, wanted: &Wanted, have: &Offers) -> Result<(), PlanError> {
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

/// May the engine find what is cheaper than a family's plan by rules of its own, and is asking it cheap? It may where it tries
/// every set of symbols, and where nodes combine, of which those rules make no use.
pub(crate) fn may_be_cheaper(shape: &Shape, have: &Offers) -> bool {
    let combine = shape.alpha > 1 && have.0.iter().flatten().any(|offer| offer.combines);
    let operations = shape.contents.len() as u64 * (shape.native_count as u64).pow(2);
    tries_all(shape, have) || combine && operations <= MOST_ASKED
}

/// The engine's plan, if it may be and is cheaper than `price`, that of a family's own.
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

/// Element operations of an elimination that take a tenth of a millisecond or so.
const MOST_ASKED: u64 = 1 << 18;

/// Are so few symbols offered that the engine tries every set of them?
fn tries_all(shape: &Shape, have: &Offers) -> bool {
    have.0.iter().flatten().count() * shape.alpha <= MOST_SYMBOLS_TRIED
}

/// Is it an MDS code with one symbol per shard? (Of those with more, some wanted symbols may take less than k shards.)
fn is_mds(shape: &Shape) -> bool {
    shape.alpha == 1 && shape.native_count == shape.k && shape.tolerance + shape.k == shape.n
}

/// The error of a question without an answer; `determined` says of each wanted symbol in turn whether it can be had.
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
