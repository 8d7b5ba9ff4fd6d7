//! A question in terms of the generator matrix, and the ways of answering it.

use super::span::Span;
use crate::code::{Offer, Offers, Plan, Price, Read, Shape, Wanted};
use crate::matrix::Matrix;
use crate::program::Program;

/// What is asked.
pub(super) struct Question<'a> {
    shape: &'a Shape,
    generator: &'a Matrix,
    have: &'a Offers,
    /// The wanted symbols as combinations of natives: a row each.
    targets: Matrix,
    /// So many symbols must be read at least.
    least_symbols: usize,
}

/// Reads that suffice, and how the wanted symbols follow from them.
pub(super) struct Answer {
    pub(super) price: Price,
    reads: Vec<Read>,
    /// A row per wanted symbol, a column per read.
    coefficients: Matrix,
}

impl<'a> Question<'a> {
    /// A question that fits the shape.
    pub(super) fn new(shape: &'a Shape, generator: &'a Matrix, wanted: &Wanted, have: &'a Offers) -> Question<'a> {
        let alpha = shape.alpha;
        let (targets, least_symbols) = match wanted {
            Wanted::Natives(natives) => {
                let mut distinct = natives.clone();
                distinct.sort_unstable();
                distinct.dedup();
                let unit = |row: usize, column| u8::from(natives[row] == column);
                (Matrix::from_fn(natives.len(), shape.native_count, unit), distinct.len())
            }
            Wanted::Shards(shards) => {
                let symbols: Vec<usize> = shards.iter().flat_map(|shard| shard * alpha..(shard + 1) * alpha).collect();
                let targets = generator.select_rows(&symbols);
                let rank = targets.rank();
                (targets, rank)
            }
        };
        Question { shape, generator, have, targets, least_symbols }
    }

    /// Does what is offered determine the wanted symbol, for each in turn?
    pub(super) fn determined(&self) -> Vec<bool> {
        let span = self.span(&[]);
        (0..self.targets.rows()).map(|row| span.express(self.targets.row(row)).is_some()).collect()
    }

    /// No answer is cheaper than this.
    pub(super) fn least_price(&self) -> Price {
        let alpha = self.shape.alpha;
        let mut prices: Vec<Price> = Vec::with_capacity(self.generator.rows());
        for offer in self.have.0.iter().flatten() {
            // The request price is counted once per shard; sharing it evenly never overstates.
            let share = offer.request_price / alpha as Price;
            prices.extend(std::iter::repeat_n(offer.symbol_price.saturating_add(share), alpha));
        }
        prices.sort_unstable();
        prices.iter().take(self.least_symbols).fold(0, |sum, &price| sum.saturating_add(price))
    }

    /// Reads each wanted symbol itself, from the shard where it is cheapest.
    pub(super) fn direct(&self) -> Option<Answer> {
        let mut symbols: Vec<usize> = Vec::new();
        let mut places = Vec::new();
        for row in 0..self.targets.rows() {
            let symbol = (0..self.generator.rows())
                .filter(|&symbol| self.generator.row(symbol) == self.targets.row(row))
                .filter_map(|symbol| Some((self.added_price(symbol, &symbols)?, symbol)))
                .min()?
                .1;
            if !symbols.contains(&symbol) {
                symbols.push(symbol);
            }
            places.push(symbol);
        }
        symbols.sort_unstable();
        let is_at = |row: usize, column: usize| u8::from(symbols[column] == places[row]);
        Some(self.answer(&symbols, &Matrix::from_fn(places.len(), symbols.len(), is_at)))
    }

    /// The greedy choice of a basis without the shards left out; `None` if that does not span the targets.
    pub(super) fn spanned(&self, left_out: &[usize]) -> Option<Answer> {
        let span = self.span(left_out);
        let express = |row| span.express(self.targets.row(row));
        let expressed: Vec<Vec<u8>> = (0..self.targets.rows()).map(express).collect::<Option<_>>()?;
        let mut used: Vec<(usize, usize)> = (0..span.members().len())
            .filter(|&member| expressed.iter().any(|row| row[member] != 0))
            .map(|member| (span.members()[member], member))
            .collect();
        used.sort_unstable();
        let symbols: Vec<usize> = used.iter().map(|&(symbol, _)| symbol).collect();
        let coefficients = Matrix::from_fn(expressed.len(), used.len(), |row, column| expressed[row][used[column].1]);
        Some(self.answer(&symbols, &coefficients))
    }

    /// Leaves out one used shard after the other as long as that is cheaper.
    pub(super) fn improved(&self, mut best: Answer) -> Answer {
        let mut left_out = Vec::new();
        loop {
            let mut used: Vec<usize> = best.reads.iter().map(|read| read.shard).collect();
            used.dedup();
            let without = |shard: usize| {
                let answer = self.spanned(&[&left_out[..], &[shard]].concat())?;
                Some((answer, shard))
            };
            match used.into_iter().filter_map(without).min_by_key(|(answer, _)| answer.price) {
                Some((answer, shard)) if answer.price < best.price => {
                    left_out.push(shard);
                    best = answer;
                }
                _ => return best,
            }
        }
    }

    fn offer(&self, symbol: usize) -> Option<Offer> {
        self.have.0[symbol / self.shape.alpha]
    }

    /// What reading the symbol as well would cost.
    fn added_price(&self, symbol: usize, symbols: &[usize]) -> Option<Price> {
        let offer = self.offer(symbol)?;
        let alpha = self.shape.alpha;
        let is_asked = symbols.iter().any(|other| other / alpha == symbol / alpha);
        let request_price = if is_asked { 0 } else { offer.request_price };
        Some(if symbols.contains(&symbol) { 0 } else { offer.symbol_price.saturating_add(request_price) })
    }

    /// The span of what is offered, taken cheapest shard first; at equal prices wanted symbols first, so that what is
    /// at hand is not computed.
    fn span(&self, left_out: &[usize]) -> Span {
        let alpha = self.shape.alpha;
        let is_wanted =
            |symbol| (0..self.targets.rows()).any(|row| self.targets.row(row) == self.generator.row(symbol));
        let mut order: Vec<(Price, bool, usize)> = (0..self.generator.rows())
            .filter(|symbol| !left_out.contains(&(symbol / alpha)))
            .filter_map(|symbol| Some((whole_shard_price(self.offer(symbol)?, alpha), !is_wanted(symbol), symbol)))
            .collect();
        order.sort_unstable();
        let mut span = Span::new(self.shape.native_count);
        for (_, _, symbol) in order {
            span.insert(symbol, self.generator.row(symbol));
        }
        span
    }

    /// Reads and price for these symbols (ascending); nodes that combine send no more than the rank of their share.
    fn answer(&self, symbols: &[usize], coefficients: &Matrix) -> Answer {
        let alpha = self.shape.alpha;
        let mut answer = Answer { price: 0, reads: Vec::new(), coefficients: Matrix::zero(coefficients.rows(), 0) };
        let mut first = 0;
        for of_shard in symbols.chunk_by(|a, b| a / alpha == b / alpha) {
            let shard = of_shard[0] / alpha;
            let share: Vec<usize> = (first..first + of_shard.len()).collect();
            first += of_shard.len();
            let mut share = coefficients.select_columns(&share);
            let mut sent = Matrix::identity(of_shard.len());
            let offer = self.have.0[shard];
            if alpha > 1 && offer.is_some_and(|offer| offer.combines) {
                let (reduced, pivots) = share.reduced();
                if pivots.len() < of_shard.len() {
                    // share = share[pivot columns] * reduced, by the definition of the reduced form.
                    share = share.select_columns(&pivots);
                    sent = reduced;
                }
            }
            for row in 0..sent.rows() {
                let nonzero = (0..of_shard.len()).filter(|&column| sent.at(row, column) != 0);
                let terms = nonzero.map(|column| (of_shard[column] % alpha, sent.at(row, column))).collect();
                answer.reads.push(Read { shard, terms });
            }
            if let Some(offer) = offer {
                let symbols_price = offer.symbol_price.saturating_mul(sent.rows() as Price);
                answer.price = answer.price.saturating_add(offer.request_price).saturating_add(symbols_price);
            }
            answer.coefficients = answer.coefficients.beside(&share);
        }
        answer
    }
}

impl Answer {
    /// The answer as a plan.
    pub(super) fn describe(self) -> Plan {
        let program = Program::from_matrix(&self.coefficients);
        Plan { reads: self.reads, program, price: self.price }
    }
}

fn whole_shard_price(offer: Offer, alpha: usize) -> Price {
    offer.request_price.saturating_add(offer.symbol_price.saturating_mul(alpha as Price))
}
