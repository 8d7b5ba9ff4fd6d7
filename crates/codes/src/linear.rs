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
//! 3. for codes that are not MDS, leave out one used shard at a time and try 2 again, as long as it gets cheaper: this finds
//!    locality.
//!
//! For MDS codes with `alpha` = 1 the result is optimal: fewer than k symbols determine nothing but themselves, so
//! either 1 is cheapest or the k cheapest shards are. In all other cases it is a good local optimum (the exact question is that of
//! the lightest dual codeword, which is NP-hard), and a family that knows better overrides it. Where a node combines,
//! it is asked for as few symbols as the rank of its share in the answer.

mod span;

use crate::code::{
    Code, Content, Group, Offer, Offers, Plan, PlanError, Price, Read, Shape, Wanted,
};
use crate::matrix::Matrix;
use crate::program::Program;
use span::Span;

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
        LinearCode::new(
            spec,
            k,
            1,
            coding.rows(),
            Vec::new(),
            Matrix::identity(k).stack(coding),
        )
    }

    /// A code with `alpha` symbols per shard, `k` shards' worth of data, and this generator matrix (`n * alpha` rows, a column per native
    /// symbol). The caller vouches for `tolerance` and `groups`. Panics unless the rows are a multiple of `alpha`.
    #[must_use]
    pub fn new(
        spec: String,
        k: usize,
        alpha: usize,
        tolerance: usize,
        groups: Vec<Group>,
        generator: Matrix,
    ) -> LinearCode {
        assert_eq!(
            generator.rows() % alpha,
            0,
            "{spec}: the generator matrix has alpha rows per shard"
        );
        let contents: Vec<Content> = (0..generator.rows())
            .map(|row| content(generator.row(row)))
            .collect();
        let coded: Vec<usize> = (0..contents.len())
            .filter(|&symbol| contents[symbol] == Content::Coded)
            .collect();
        let encode = Program::from_matrix(&generator.select_rows(&coded));
        let (n, native_count) = (generator.rows() / alpha, generator.columns());
        let shape = Shape {
            n,
            k,
            alpha,
            native_count,
            symbol_alignment_bytes: 1,
            tolerance,
            contents,
            groups,
        };
        LinearCode {
            spec,
            shape,
            generator,
            encode,
        }
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

fn content(row: &[u8]) -> Content {
    match row.iter().position(|&coefficient| coefficient != 0) {
        Some(native) if row[native] == 1 && row[native + 1..].iter().all(|&c| c == 0) => {
            Content::Native(native)
        }
        _ => Content::Coded,
    }
}

/// The cheapest plan the engine finds for a code with this generator matrix; see the module's text for how cheap.
///
/// # Errors
/// As [`Code::plan`].
pub fn plan(
    code: &dyn Code,
    generator: &Matrix,
    wanted: &Wanted,
    have: &Offers,
) -> Result<Plan, PlanError> {
    check(code, wanted, have)?;
    let shape = code.shape();
    let question = Question {
        shape,
        generator,
        have,
        targets: targets(shape, generator, wanted),
    };
    let direct = question.direct();
    if let Some(direct) = &direct
        && direct.price <= question.least_price()
    {
        return Ok(question.describe(direct));
    }
    let Some(spanned) = question.spanned(None) else {
        return Err(unrecoverable(code, &question, wanted));
    };
    let found = if is_mds(shape) {
        spanned
    } else {
        question.improved(spanned)
    };
    Ok(question.describe(match &direct {
        Some(direct) if direct.price <= found.price => direct,
        _ => &found,
    }))
}

/// A question that fits the shape: the first thing every planner asks for.
///
/// # Errors
/// [`PlanError::OfferCount`], [`PlanError::NoSuchNative`], [`PlanError::NoSuchShard`].
pub fn check(code: &dyn Code, wanted: &Wanted, have: &Offers) -> Result<(), PlanError> {
    let (n, native_count) = (code.shape().n, code.shape().native_count);
    let spec = || code.spec().to_owned();
    if have.0.len() != n {
        return Err(PlanError::OfferCount {
            code: spec(),
            n,
            given: have.0.len(),
        });
    }
    match wanted {
        Wanted::Natives(natives) => match natives.iter().find(|&&native| native >= native_count) {
            Some(&native) => Err(PlanError::NoSuchNative {
                code: spec(),
                native,
                native_count,
            }),
            None => Ok(()),
        },
        Wanted::Shards(shards) => match shards.iter().find(|&&shard| shard >= n) {
            Some(&shard) => Err(PlanError::NoSuchShard {
                code: spec(),
                shard,
                n,
            }),
            None => Ok(()),
        },
    }
}

/// The wanted symbols as combinations of natives: a row each.
fn targets(shape: &Shape, generator: &Matrix, wanted: &Wanted) -> Matrix {
    match wanted {
        Wanted::Natives(natives) => {
            Matrix::from_fn(natives.len(), shape.native_count, |row, column| {
                u8::from(natives[row] == column)
            })
        }
        Wanted::Shards(shards) => {
            let symbols: Vec<usize> = shards
                .iter()
                .flat_map(|shard| shard * shape.alpha..(shard + 1) * shape.alpha)
                .collect();
            generator.select_rows(&symbols)
        }
    }
}

fn is_mds(shape: &Shape) -> bool {
    shape.native_count == shape.k * shape.alpha && shape.tolerance + shape.k == shape.n
}

fn unrecoverable(code: &dyn Code, question: &Question<'_>, wanted: &Wanted) -> PlanError {
    let span = question.span(None);
    let beyond = |row: usize| span.express(question.targets.row(row)).is_none();
    let (readable, missing) =
        (0..question.shape.n).partition(|&shard| question.have.0[shard].is_some());
    let code = code.spec().to_owned();
    let alpha = question.shape.alpha;
    match wanted {
        Wanted::Natives(natives) => {
            let natives = (0..natives.len())
                .filter(|&row| beyond(row))
                .map(|row| natives[row])
                .collect();
            PlanError::NativesUnrecoverable {
                code,
                natives,
                readable,
                missing,
            }
        }
        Wanted::Shards(shards) => {
            let lost = |&index: &usize| (index * alpha..(index + 1) * alpha).any(beyond);
            let shards = (0..shards.len())
                .filter(lost)
                .map(|index| shards[index])
                .collect();
            PlanError::ShardsUnrecoverable {
                code,
                shards,
                readable,
                missing,
            }
        }
    }
}

/// What is asked, in terms of the generator matrix.
struct Question<'a> {
    shape: &'a Shape,
    generator: &'a Matrix,
    have: &'a Offers,
    targets: Matrix,
}

/// Reads that suffice, and how the wanted symbols follow from them.
struct Answer {
    reads: Vec<Read>,
    /// A row per wanted symbol, a column per read.
    coefficients: Matrix,
    price: Price,
}

impl Question<'_> {
    fn offer(&self, symbol: usize) -> Option<Offer> {
        self.have.0[symbol / self.shape.alpha]
    }

    /// Price of a whole shard.
    fn shard_price(&self, offer: Offer) -> Price {
        offer
            .request_price
            .saturating_add(offer.symbol_price.saturating_mul(self.shape.alpha as Price))
    }

    /// No answer is cheaper than this: it takes as many symbols as there are independent targets.
    fn least_price(&self) -> Price {
        let mut prices: Vec<Price> = self
            .have
            .0
            .iter()
            .flatten()
            .flat_map(|offer| {
                // The request price is counted once per shard; sharing it evenly never overstates.
                let share = offer.request_price / self.shape.alpha as Price;
                std::iter::repeat_n(offer.symbol_price.saturating_add(share), self.shape.alpha)
            })
            .collect();
        prices.sort_unstable();
        let (_, pivots) = self.targets.reduced();
        prices[..pivots.len().min(prices.len())]
            .iter()
            .fold(0, |sum, &price| sum.saturating_add(price))
    }

    /// Reads each wanted symbol itself, from the shard where it is cheapest.
    fn direct(&self) -> Option<Answer> {
        let mut symbols: Vec<usize> = Vec::new();
        let mut places = Vec::new();
        for row in 0..self.targets.rows() {
            let added_price = |symbol: &usize| {
                let shard = symbol / self.shape.alpha;
                let asked = symbols
                    .iter()
                    .any(|other| other / self.shape.alpha == shard);
                self.offer(*symbol).map(|offer| {
                    let request = if asked { 0 } else { offer.request_price };
                    if symbols.contains(symbol) {
                        0
                    } else {
                        offer.symbol_price.saturating_add(request)
                    }
                })
            };
            let symbol = (0..self.generator.rows())
                .filter(|&symbol| self.offer(symbol).is_some())
                .filter(|&symbol| self.generator.row(symbol) == self.targets.row(row))
                .min_by_key(added_price)?;
            if !symbols.contains(&symbol) {
                symbols.push(symbol);
            }
            places.push(symbol);
        }
        symbols.sort_unstable();
        let coefficients = Matrix::from_fn(places.len(), symbols.len(), |row, column| {
            u8::from(symbols[column] == places[row])
        });
        Some(self.answer(&symbols, coefficients))
    }

    /// Greedy choice of a basis, without the shards left out; `None` if that does not span the targets.
    fn spanned(&self, left_out: Option<&[bool]>) -> Option<Answer> {
        let span = self.span(left_out);
        let expressed: Vec<Vec<u8>> = (0..self.targets.rows())
            .map(|row| span.express(self.targets.row(row)))
            .collect::<Option<_>>()?;
        let mut used: Vec<usize> = (0..span.members().len())
            .filter(|&member| expressed.iter().any(|row| row[member] != 0))
            .collect();
        used.sort_unstable_by_key(|&member| span.members()[member]);
        let symbols: Vec<usize> = used.iter().map(|&member| span.members()[member]).collect();
        let coefficients = Matrix::from_fn(expressed.len(), used.len(), |row, column| {
            expressed[row][used[column]]
        });
        Some(self.answer(&symbols, coefficients))
    }

    /// The span of what is offered, taken cheapest shard first; at equal prices wanted symbols first, so that what is
    /// at hand is not computed.
    fn span(&self, left_out: Option<&[bool]>) -> Span {
        let alpha = self.shape.alpha;
        let is_wanted = |symbol: usize| {
            (0..self.targets.rows()).any(|row| self.targets.row(row) == self.generator.row(symbol))
        };
        let mut order: Vec<(Price, bool, usize)> = (0..self.generator.rows())
            .filter(|&symbol| left_out.is_none_or(|left_out| !left_out[symbol / alpha]))
            .filter_map(|symbol| {
                Some((
                    self.shard_price(self.offer(symbol)?),
                    !is_wanted(symbol),
                    symbol,
                ))
            })
            .collect();
        order.sort_unstable();
        let mut span = Span::new(self.shape.native_count);
        for (_, _, symbol) in order {
            span.insert(symbol, self.generator.row(symbol));
        }
        span
    }

    /// Leaves out one used shard after the other as long as that is cheaper.
    fn improved(&self, mut best: Answer) -> Answer {
        let mut left_out = vec![false; self.shape.n];
        loop {
            let mut used: Vec<usize> = best.reads.iter().map(|read| read.shard).collect();
            used.dedup();
            let cheaper = used
                .into_iter()
                .filter_map(|shard| {
                    left_out[shard] = true;
                    let answer = self.spanned(Some(&left_out));
                    left_out[shard] = false;
                    Some((answer?, shard))
                })
                .min_by_key(|(answer, _)| answer.price);
            match cheaper {
                Some((answer, shard)) if answer.price < best.price => {
                    left_out[shard] = true;
                    best = answer;
                }
                _ => return best,
            }
        }
    }

    /// Reads and price for these symbols (ascending); nodes that combine send no more than the rank of their share.
    fn answer(&self, symbols: &[usize], coefficients: Matrix) -> Answer {
        let alpha = self.shape.alpha;
        let mut reads = Vec::new();
        let mut columns: Vec<Vec<u8>> = Vec::new();
        let mut price: Price = 0;
        let mut first = 0;
        for shard_symbols in symbols.chunk_by(|a, b| a / alpha == b / alpha) {
            let shard = shard_symbols[0] / alpha;
            let share: Vec<usize> = (first..first + shard_symbols.len()).collect();
            first += shard_symbols.len();
            let share = coefficients.select_columns(&share);
            let (terms, pivots) = share.reduced();
            let combines = self.have.0[shard].is_some_and(|offer| offer.combines)
                && pivots.len() < share.columns();
            // share = share[pivot columns] * terms, by the definition of the reduced form.
            let sent = if combines {
                terms
            } else {
                Matrix::identity(share.columns())
            };
            for row in 0..sent.rows() {
                let nonzero = (0..sent.columns()).filter(|&column| sent.at(row, column) != 0);
                let terms = nonzero
                    .map(|column| (shard_symbols[column] % alpha, sent.at(row, column)))
                    .collect();
                reads.push(Read { shard, terms });
                let column = if combines { pivots[row] } else { row };
                columns.push(
                    (0..share.rows())
                        .map(|target| share.at(target, column))
                        .collect(),
                );
            }
            if let Some(offer) = self.have.0[shard] {
                let symbols_price = offer.symbol_price.saturating_mul(sent.rows() as Price);
                price = price
                    .saturating_add(offer.request_price)
                    .saturating_add(symbols_price);
            }
        }
        let coefficients = Matrix::from_fn(self.targets.rows(), columns.len(), |row, column| {
            columns[column][row]
        });
        Answer {
            reads,
            coefficients,
            price,
        }
    }

    fn describe(&self, answer: &Answer) -> Plan {
        let program = Program::from_matrix(&answer.coefficients);
        Plan {
            reads: answer.reads.clone(),
            program,
            price: answer.price,
        }
    }
}

#[cfg(test)]
#[path = "linear_tests.rs"]
mod tests;
