//! Reads from nodes that combine. A node may send any subspace of what it stores, so the symbols of a plain candidate
//! are not the best ones to ask it for.

use super::{Candidate, Planner};
use crate::code::{Price, Read};
use crate::linear::echelon::{added, residual, spans, step};
use crate::linear::span::Span;
use crate::matrix::Matrix;
use crate::row::Row;
use alloc::vec;
use alloc::vec::Vec;

/// Element operations of elimination that the search for such candidates may take: about a millisecond.
const MOST_OPERATIONS: u64 = 1 << 21;

/// More nodes have too many sets.
const MOST_SHARDS_TRIED: usize = 8;

/// What a node might send.
#[derive(Clone)]
pub(super) struct Part<R> {
    /// (sub-symbol, coefficient)
    terms: Vec<(usize, u8)>,
    pub(super) row: R,
}

impl<R: Row> Planner<'_, R> {
    /// The cheapest candidate in which nodes send no more than the others leave open, if it is cheaper. Tries every set
    /// of nodes that is not too dear, as far as the search gets.
    pub(super) fn combined(&self, mut best: Candidate) -> Candidate {
        let offered: Vec<usize> = (0..self.shape.n).filter(|&shard| self.have.0[shard].is_some()).collect();
        if offered.len() > MOST_SHARDS_TRIED {
            return best;
        }
        let set =
            |set: u32| -> Vec<usize> { (0..offered.len()).filter(|i| set >> i & 1 == 1).map(|i| offered[i]).collect() };
        let is_enough = |asked: &Vec<usize>| asked.len() * self.shape.alpha >= self.least_symbols;
        let sets = (1..1 << offered.len()).map(set).filter(is_enough);
        let mut sets: Vec<(Price, Vec<usize>)> = sets.map(|asked| (self.least_price_of(&asked), asked)).collect();
        sets.sort();
        let columns = self.shape.native_count as u64;
        let mut operations_left = MOST_OPERATIONS * R::ELEMENTS_PER_OPERATION;
        for (least_price, asked) in sets {
            let elimination = (asked.len() * self.shape.alpha) as u64 * columns * columns;
            if least_price >= best.price || elimination > operations_left {
                break;
            }
            operations_left -= elimination;
            if !self.is_determined_by(&asked) {
                continue;
            }
            match operations_left.checked_sub(elimination * asked.len() as u64) {
                Some(left) => operations_left = left,
                None => break,
            }
            match self.cut_down(&asked) {
                Some(candidate) if candidate.price < best.price => best = candidate,
                _ => {}
            }
        }
        best
    }

    /// A lower bound on the price of asking all of these nodes: a symbol of each, and as many as are needed in all.
    fn least_price_of(&self, asked: &[usize]) -> Price {
        let one = |&shard: &usize| Read { shard, terms: Vec::new() };
        let price = self.have.price(&asked.iter().map(one).collect::<Vec<_>>());
        let cheapest = asked.iter().filter_map(|&shard| self.have.0[shard]).map(|offer| offer.symbol_price).min();
        let more = self.least_symbols.saturating_sub(asked.len()) as Price;
        price.saturating_add(cheapest.unwrap_or(0).saturating_mul(more))
    }

    /// Do the symbols of these nodes determine what is wanted?
    fn is_determined_by(&self, asked: &[usize]) -> bool {
        let symbols = self.symbols(asked);
        spans(&added(&[], symbols.iter().map(|&symbol| &self.stored[symbol])), &self.targets)
    }

    /// The candidate in which each of these nodes, dearest first, is cut down to what the others leave open. The nodes
    /// determine what is wanted.
    fn cut_down(&self, asked: &[usize]) -> Option<Candidate> {
        let mut parts: Vec<Vec<Part<R>>> = vec![Vec::new(); self.shape.n];
        asked.iter().for_each(|&shard| parts[shard] = self.whole(shard));
        let mut order = asked.to_vec();
        let price = |&shard: &usize| {
            let offer = self.have.0[shard]?;
            Some((offer.symbol_price, offer.request_price))
        };
        order.sort_by_key(|shard| core::cmp::Reverse(price(shard)));
        for shard in order {
            let own = core::mem::take(&mut parts[shard]);
            let others = added(&[], parts.iter().flatten().map(|part| &part.row));
            let combines = self.have.0[shard].is_some_and(|offer| offer.combines);
            parts[shard] = if combines { self.least_sent(&own, &others) } else { self.least_read(own, &others) };
        }
        self.candidate_from(&parts)
    }

    /// The symbols of a node.
    pub(super) fn whole(&self, shard: usize) -> Vec<Part<R>> {
        let alpha = self.shape.alpha;
        let part = |sub: usize| Part { terms: vec![(sub, 1)], row: self.stored[shard * alpha + sub].clone() };
        (0..alpha).map(part).collect()
    }

    /// Combinations of a node's parts, as few as determine the targets together with what others send. Those that are
    /// parts of the targets come first, since they leave less for others to send.
    pub(super) fn least_sent(&self, own: &[Part<R>], others: &[(usize, R)]) -> Vec<Part<R>> {
        let mut known = others.to_vec();
        let mut sent = Vec::new();
        let targets = added(&[], &self.targets);
        for combination in self.zeros_modulo(own, &targets).into_iter().chain(self.openings(own, others)) {
            if let Some(step) = step(residual(&known, &combination.row)) {
                known.push(step);
                sent.push(combination);
            }
        }
        // Combinations beyond the targets may replace those within; combinations that are not needed are left out, last
        // first.
        for index in (0..sent.len()).rev() {
            let mut fewer = sent.clone();
            fewer.remove(index);
            if spans(&with(others, &fewer), &self.targets) {
                sent = fewer;
            }
        }
        sent
    }

    /// Combinations of parts that lie in the span of an echelon, independent.
    fn zeros_modulo(&self, own: &[Part<R>], echelon: &[(usize, R)]) -> Vec<Part<R>> {
        let mut span: Span<R> = Span::new(self.shape.native_count);
        let mut members: Vec<usize> = Vec::new();
        let mut zeros = Vec::new();
        for (index, part) in own.iter().enumerate() {
            let row = residual(echelon, &part.row);
            match span.express(&row) {
                None => {
                    span.insert(index, &row);
                    members.push(index);
                }
                Some(coefficients) => {
                    let mut factors: Vec<(usize, u8)> = members.iter().copied().zip(coefficients).collect();
                    factors.push((index, 1));
                    zeros.extend(self.combination(own, &factors));
                }
            }
        }
        zeros
    }

    /// For each target the combination of parts that it lacks beside what others send.
    fn openings(&self, own: &[Part<R>], others: &[(usize, R)]) -> Vec<Part<R>> {
        let mut span: Span<R> = Span::new(self.shape.native_count);
        own.iter().enumerate().for_each(|(index, part)| span.insert(index, &residual(others, &part.row)));
        let members = span.members().to_vec();
        let opening = |target: &R| {
            let coefficients = span.express(&residual(others, target))?;
            let factors: Vec<(usize, u8)> = members.iter().copied().zip(coefficients).collect();
            self.combination(own, &factors)
        };
        self.targets.iter().filter_map(opening).collect()
    }

    /// The sum of these multiples of parts, by index; `None` for zero.
    pub(super) fn combination(&self, own: &[Part<R>], factors: &[(usize, u8)]) -> Option<Part<R>> {
        let mut row = R::zeros(self.shape.native_count);
        let mut coefficients = vec![0; self.shape.alpha];
        for &(index, factor) in factors.iter().filter(|(_, factor)| *factor != 0) {
            row.add_multiple(&own[index].row, factor);
            own[index].terms.iter().for_each(|&(sub, c)| coefficients[sub] ^= crate::gf::mul(c, factor));
        }
        row.first_nonzero()?;
        let terms = coefficients.into_iter().enumerate().filter(|(_, c)| *c != 0).collect();
        Some(Part { terms, row })
    }

    /// The parts of a node that does not combine, without those that the others make redundant.
    pub(super) fn least_read(&self, mut own: Vec<Part<R>>, others: &[(usize, R)]) -> Vec<Part<R>> {
        for index in (0..own.len()).rev() {
            let part = own.remove(index);
            if !spans(&with(others, &own), &self.targets) {
                own.insert(index, part);
            }
        }
        own
    }

    /// The candidate made of what nodes send; each part is used.
    pub(super) fn candidate_from(&self, parts: &[Vec<Part<R>>]) -> Option<Candidate> {
        let sent: Vec<(usize, &Part<R>)> =
            parts.iter().enumerate().flat_map(|(shard, parts)| parts.iter().map(move |part| (shard, part))).collect();
        let mut span: Span<R> = Span::new(self.shape.native_count);
        sent.iter().enumerate().for_each(|(index, (_, part))| span.insert(index, &part.row));
        let expressed: Vec<Vec<u8>> = self.targets.iter().map(|target| span.express(target)).collect::<Option<_>>()?;
        let used: Vec<usize> =
            (0..span.members().len()).filter(|&member| expressed.iter().any(|row| row[member] != 0)).collect();
        let read = |&member: &usize| {
            let (shard, part) = sent[span.members()[member]];
            Read { shard, terms: part.terms.clone() }
        };
        let reads: Vec<Read> = used.iter().map(read).collect();
        let coefficients = Matrix::from_fn(expressed.len(), used.len(), |row, column| expressed[row][used[column]]);
        let price: Price = self.have.price(&reads);
        Some(Candidate { price, reads, coefficients })
    }
}

/// The echelon of an echelon and these parts.
fn with<R: Row>(echelon: &[(usize, R)], parts: &[Part<R>]) -> Vec<(usize, R)> {
    [echelon, &added(echelon, parts.iter().map(|part| &part.row))].concat()
}
