//! The planner: wanted and offered symbols in terms of the generator matrix, and the ways to find cheap reads.

mod combined;
mod completed;

use super::search::Search;
use super::span::Span;
use crate::code::{Group, Offer, Offers, Plan, Price, Read, Shape, Wanted};
use crate::matrix::Matrix;
use crate::program::Program;
use crate::row::{Row, reduced};
use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;

/// The search for cheaper reads ends after this many element operations of elimination: some milliseconds on bits.
/// Codes of a few dozen symbols never reach it.
const SEARCH_OPERATIONS: u64 = 1 << 28;

/// With at most this many offered symbols, all sets of them are tried unless a bound rules them out.
const MOST_SYMBOLS_TRIED: usize = 24;

/// What is wanted and what is offered.
pub(super) struct Planner<'a, R> {
    shape: &'a Shape,
    have: &'a Offers,
    /// The stored symbols as combinations of natives: a row each.
    stored: Vec<R>,
    /// The wanted symbols as combinations of natives: a row each.
    targets: Vec<R>,
    /// Stored symbols by row.
    symbols_of: BTreeMap<R, Vec<usize>>,
    /// At least this many symbols must be read.
    least_symbols: usize,
}

/// Reads that suffice, and how the wanted symbols follow from them.
pub(super) struct Candidate {
    pub(super) price: Price,
    reads: Vec<Read>,
    /// A row per wanted symbol, a column per read.
    coefficients: Matrix,
}

impl<'a, R: Row> Planner<'a, R> {
    /// A planner for wanted symbols and offers that fit the shape.
    pub(super) fn new(shape: &'a Shape, generator: &Matrix, wanted: &Wanted, have: &'a Offers) -> Planner<'a, R> {
        let alpha = shape.alpha;
        let stored: Vec<R> = (0..generator.rows()).map(|symbol| R::pack(generator.row(symbol))).collect();
        let targets: Vec<R> = match wanted {
            Wanted::Natives(natives) => {
                let unit = |&native: &usize| {
                    let mut unit = R::zeros(shape.native_count);
                    unit.set(native);
                    unit
                };
                natives.iter().map(unit).collect()
            }
            Wanted::Shards(shards) => {
                shards.iter().flat_map(|shard| shard * alpha..(shard + 1) * alpha).map(|s| stored[s].clone()).collect()
            }
        };
        let mut span = Span::new(shape.native_count);
        targets.iter().enumerate().for_each(|(index, target)| span.insert(index, target));
        let least_symbols = span.members().len();
        let mut symbols_of: BTreeMap<R, Vec<usize>> = BTreeMap::new();
        for (symbol, row) in stored.iter().enumerate() {
            symbols_of.entry(row.clone()).or_default().push(symbol);
        }
        Planner { shape, have, stored, targets, symbols_of, least_symbols }
    }

    /// For each wanted symbol: do the offered ones determine it?
    pub(super) fn determined(&self) -> Vec<bool> {
        let span = self.span(&self.offered());
        self.targets.iter().map(|target| span.express(target).is_some()).collect()
    }

    /// The cheapest candidate that the ways below find; `None` if there is none.
    pub(super) fn cheapest_found(&self, is_mds: bool) -> Option<Candidate> {
        let least_price = self.least_price();
        let best = self.direct();
        let is_cheapest = |best: &Option<Candidate>| best.as_ref().is_some_and(|best| best.price <= least_price);
        if is_cheapest(&best) {
            return best;
        }
        let spanned = self.spanned(&self.offered())?;
        // A node that combines may send less than the symbols that a candidate is made of.
        let is_plain = self.shape.alpha == 1 || !self.have.0.iter().flatten().any(|offer| offer.combines);
        let is_settled = is_mds || spanned.price <= least_price;
        let found = if is_settled { spanned } else { self.improved(self.local(spanned)) };
        let best = match best {
            Some(best) if best.price <= found.price => best,
            _ => found,
        };
        Some(if best.price <= least_price {
            best
        } else if !is_plain {
            self.combined(best)
        } else if !is_mds && tries_all(self.shape, self.have) {
            self.cheapest(best)
        } else {
            best
        })
    }

    /// A lower bound on the price.
    fn least_price(&self) -> Price {
        let alpha = self.shape.alpha;
        let mut prices: Vec<Price> = Vec::with_capacity(self.stored.len());
        for offer in self.have.0.iter().flatten() {
            // The request price is counted once per shard; sharing it evenly never overstates.
            let share = offer.request_price / alpha as Price;
            prices.extend(core::iter::repeat_n(offer.symbol_price.saturating_add(share), alpha));
        }
        prices.sort_unstable();
        prices.iter().take(self.least_symbols).fold(0, |sum, &price| sum.saturating_add(price))
    }

    /// Reads each wanted symbol itself, from the shard where it is cheapest.
    fn direct(&self) -> Option<Candidate> {
        let mut is_taken = vec![false; self.stored.len()];
        let mut is_asked = vec![false; self.shape.n];
        let mut places = Vec::new();
        for target in &self.targets {
            let added_price = |&symbol: &usize| {
                let offer = self.offer(symbol)?;
                let request_price = if is_asked[symbol / self.shape.alpha] { 0 } else { offer.request_price };
                let price = offer.symbol_price.saturating_add(request_price);
                Some((if is_taken[symbol] { 0 } else { price }, symbol))
            };
            let (_, symbol) = self.symbols_of.get(target)?.iter().filter_map(added_price).min()?;
            is_taken[symbol] = true;
            is_asked[symbol / self.shape.alpha] = true;
            places.push(symbol);
        }
        let symbols: Vec<usize> = (0..self.stored.len()).filter(|&symbol| is_taken[symbol]).collect();
        let mut coefficients = Matrix::zero(places.len(), symbols.len());
        for (row, symbol) in places.iter().enumerate() {
            // Every place is among the symbols taken.
            let column = symbols.partition_point(|taken| taken < symbol);
            coefficients.row_mut(row)[column] = 1;
        }
        Some(self.candidate(&symbols, &coefficients))
    }

    /// The greedy choice of a basis among these symbols; `None` if it does not span the targets.
    fn spanned(&self, symbols: &[usize]) -> Option<Candidate> {
        let span = self.span(symbols);
        let expressed: Vec<Vec<u8>> = self.targets.iter().map(|target| span.express(target)).collect::<Option<_>>()?;
        let mut used: Vec<(usize, usize)> = (0..span.members().len())
            .filter(|&member| expressed.iter().any(|row| row[member] != 0))
            .map(|member| (span.members()[member], member))
            .collect();
        used.sort_unstable();
        let symbols: Vec<usize> = used.iter().map(|&(symbol, _)| symbol).collect();
        let coefficients = Matrix::from_fn(expressed.len(), used.len(), |row, column| expressed[row][used[column].1]);
        Some(self.candidate(&symbols, &coefficients))
    }

    /// The cheapest candidate from within locality groups, if it is cheaper. It tries each group alone, and the wanted
    /// shards that are there together with a group that repairs each lost one.
    fn local(&self, mut best: Candidate) -> Candidate {
        let is_offered = |&shard: &usize| self.have.0[shard].is_some();
        let (mut near, lost): (Vec<usize>, Vec<usize>) = self.wanted_shards().into_iter().partition(is_offered);
        for shard in lost {
            let repairs = |group: &&Group| {
                let lost_count = group.shards.iter().filter(|shard| !is_offered(shard)).count();
                group.shards.contains(&shard) && lost_count <= group.repairs
            };
            near.extend(self.shape.groups.iter().find(repairs).iter().flat_map(|group| &group.shards));
        }
        for shards in self.shape.groups.iter().map(|group| &group.shards).chain([&near]) {
            let offered: Vec<usize> = shards.iter().copied().filter(is_offered).collect();
            match self.spanned(&self.symbols(&offered)) {
                Some(candidate) if candidate.price < best.price => best = candidate,
                _ => {}
            }
        }
        best
    }

    /// The shards that store a wanted symbol, each once.
    fn wanted_shards(&self) -> Vec<usize> {
        let symbols = self.targets.iter().filter_map(|target| self.symbols_of.get(target)).flatten();
        let mut shards: Vec<usize> = symbols.map(|symbol| symbol / self.shape.alpha).collect();
        shards.sort_unstable();
        shards.dedup();
        shards
    }

    /// The cheapest candidate from any set of offered symbols, if it is cheaper, as far as the search gets.
    fn cheapest(&self, best: Candidate) -> Candidate {
        let mut symbols = self.offered();
        symbols.sort_by_key(|&symbol| self.whole_price(symbol / self.shape.alpha));
        let columns = self.shape.native_count;
        let search = Search::new(&self.stored, self.shape.alpha, self.have, symbols, columns, best.price);
        let found = search.cheapest(&self.targets).and_then(|symbols| self.spanned(&symbols));
        found.filter(|found| found.price < best.price).unwrap_or(best)
    }

    /// Leaves out one used shard after another, each time the one that saves the most, as long as the price falls and
    /// the search is not too long.
    fn improved(&self, mut best: Candidate) -> Candidate {
        // A span takes one reduction per stored symbol, each over at most as many rows as there are natives.
        let columns = self.shape.native_count as u64;
        let mut spans_left = SEARCH_OPERATIONS / (columns * columns * self.stored.len() as u64).max(1);
        let mut left = self.offered();
        loop {
            let mut used: Vec<usize> = best.reads.iter().map(|read| read.shard).collect();
            used.dedup();
            used.truncate(usize::try_from(spans_left).unwrap_or(usize::MAX));
            spans_left -= used.len() as u64;
            let without = |shard: usize| {
                let is_other = |&symbol: &usize| symbol / self.shape.alpha != shard;
                let others: Vec<usize> = left.iter().copied().filter(is_other).collect();
                Some((self.spanned(&others)?, shard))
            };
            match used.into_iter().filter_map(without).min_by_key(|(candidate, _)| candidate.price) {
                Some((candidate, shard)) if candidate.price < best.price => {
                    left.retain(|symbol| symbol / self.shape.alpha != shard);
                    best = candidate;
                }
                _ => return best,
            }
        }
    }

    fn offer(&self, symbol: usize) -> Option<Offer> {
        self.have.0[symbol / self.shape.alpha]
    }

    /// The price of reading all of an offered shard.
    fn whole_price(&self, shard: usize) -> Price {
        let price = |offer: Offer| {
            offer.request_price.saturating_add(offer.symbol_price.saturating_mul(self.shape.alpha as Price))
        };
        self.have.0[shard].map_or(0, price)
    }

    fn symbols(&self, shards: &[usize]) -> Vec<usize> {
        let alpha = self.shape.alpha;
        shards.iter().flat_map(|shard| shard * alpha..(shard + 1) * alpha).collect()
    }

    /// All symbols that are offered.
    fn offered(&self) -> Vec<usize> {
        let shards: Vec<usize> = (0..self.shape.n).filter(|&shard| self.have.0[shard].is_some()).collect();
        self.symbols(&shards)
    }

    /// The span of these offered symbols, taken cheapest shard first. At equal prices wanted symbols come first, so
    /// that they are read and not computed.
    fn span(&self, symbols: &[usize]) -> Span<R> {
        let mut is_wanted = vec![false; self.stored.len()];
        for symbol in self.targets.iter().filter_map(|target| self.symbols_of.get(target)).flatten() {
            is_wanted[*symbol] = true;
        }
        let place = |&symbol: &usize| (self.whole_price(symbol / self.shape.alpha), !is_wanted[symbol], symbol);
        let mut order: Vec<(Price, bool, usize)> = symbols.iter().map(place).collect();
        order.sort_unstable();
        let mut span = Span::new(self.shape.native_count);
        for (_, _, symbol) in order {
            span.insert(symbol, &self.stored[symbol]);
        }
        span
    }

    /// Reads and price for these symbols (ascending). Nodes that combine send no more than the rank of their share.
    fn candidate(&self, symbols: &[usize], coefficients: &Matrix) -> Candidate {
        let alpha = self.shape.alpha;
        let mut candidate =
            Candidate { price: 0, reads: Vec::new(), coefficients: Matrix::zero(coefficients.rows(), 0) };
        let mut shares = Vec::new();
        let mut first = 0;
        for of_shard in symbols.chunk_by(|a, b| a / alpha == b / alpha) {
            let shard = of_shard[0] / alpha;
            let mut columns: Vec<usize> = (first..first + of_shard.len()).collect();
            first += of_shard.len();
            let mut sent = Matrix::identity(of_shard.len());
            let offer = self.have.0[shard];
            if alpha > 1 && offer.is_some_and(|offer| offer.combines) {
                let share = coefficients.select_columns(&columns);
                let rows = (0..share.rows()).map(|row| R::pack(share.row(row))).collect();
                let (basis, pivots) = reduced::<R>(rows, of_shard.len());
                if pivots.len() < of_shard.len() {
                    // share = share[pivot columns] * basis, by the definition of the reduced form.
                    columns = pivots.iter().map(|&pivot| columns[pivot]).collect();
                    let basis: Vec<Vec<u8>> = basis.iter().map(|row| row.elements(of_shard.len())).collect();
                    sent = Matrix::from_fn(basis.len(), of_shard.len(), |row, column| basis[row][column]);
                }
            }
            for row in 0..sent.rows() {
                let nonzero = (0..of_shard.len()).filter(|&column| sent.at(row, column) != 0);
                let terms = nonzero.map(|column| (of_shard[column] % alpha, sent.at(row, column))).collect();
                candidate.reads.push(Read { shard, terms });
            }
            shares.extend(columns);
        }
        candidate.coefficients = coefficients.select_columns(&shares);
        candidate.price = self.have.price(&candidate.reads);
        candidate
    }
}

impl Candidate {
    /// The candidate as a plan.
    pub(super) fn describe(self) -> Plan {
        let program = Program::from_matrix(&self.coefficients);
        Plan { reads: self.reads, program, price: self.price }
    }
}

/// Are so few symbols offered that the planner tries every set of them?
pub(super) fn tries_all(shape: &Shape, have: &Offers) -> bool {
    have.0.iter().flatten().count() * shape.alpha <= MOST_SYMBOLS_TRIED
}
