//! The cheapest set of plain reads: a search over all sets of offered symbols, cut short where it cannot get cheaper.

use super::echelon::{added, residual, spans, step};
use crate::code::{Offers, Price};
use crate::row::Row;
use alloc::vec;
use alloc::vec::Vec;

/// Element operations of elimination that a search may take: some milliseconds. Codes of sixteen symbols stay far
/// below.
const MOST_OPERATIONS: u64 = 1 << 22;

/// A search, and the best set found so far.
pub(super) struct Search<'a, R> {
    stored: &'a [R],
    alpha: usize,
    have: &'a Offers,
    /// Offered symbols, cheapest first.
    symbols: Vec<usize>,
    /// Only cheaper sets are searched for.
    below: Price,
    best: Option<Vec<usize>>,
    visits_left: u64,
}

/// The symbols chosen so far.
struct Chosen<R> {
    symbols: Vec<usize>,
    price: Price,
    /// By shard: the number of its symbols.
    counts: Vec<usize>,
    /// Rows with a 1 at their pivot and zeros at the pivots of earlier ones.
    echelon: Vec<(usize, R)>,
}

impl<'a, R: Row> Search<'a, R> {
    /// A search among these symbols (cheapest first) for sets that cost less than `below`. Rows have `columns`
    /// elements.
    pub(super) fn new(
        stored: &'a [R],
        alpha: usize,
        have: &'a Offers,
        symbols: Vec<usize>,
        columns: usize,
        below: Price,
    ) -> Search<'a, R> {
        let operations = (symbols.len() * columns * columns).max(1) as u64;
        Search { stored, alpha, have, symbols, below, best: None, visits_left: MOST_OPERATIONS / operations }
    }

    /// The cheapest symbols that determine the targets; `None` if none cost less than the given price, or if the search
    /// does not get that far.
    pub(super) fn cheapest(mut self, targets: &[R]) -> Option<Vec<usize>> {
        let counts = vec![0; self.have.0.len()];
        let mut chosen = Chosen { symbols: Vec::new(), price: 0, counts, echelon: Vec::new() };
        let missing = added(&[], targets);
        self.visit(0, &mut chosen, &missing);
        self.best
    }

    /// `missing`: what the targets add to the span of the chosen symbols; `next`: the first symbol that is not decided
    /// yet.
    fn visit(&mut self, next: usize, chosen: &mut Chosen<R>, missing: &[(usize, R)]) {
        if missing.is_empty() {
            if chosen.price < self.below {
                (self.below, self.best) = (chosen.price, Some(chosen.symbols.clone()));
            }
            return;
        }
        let is_affordable = self.least_price(next, chosen, missing.len()).is_some_and(|least| least < self.below);
        if !is_affordable || self.visits_left == 0 {
            return;
        }
        self.visits_left -= 1;
        let symbol = self.symbols[next];
        let shard = symbol / self.alpha;
        let residual = residual(&chosen.echelon, &self.stored[symbol]);
        let step = step(residual);
        let is_useless = step.is_none();
        if let Some(step) = step {
            let before = chosen.price;
            chosen.price = before.saturating_add(self.due(chosen, shard));
            chosen.counts[shard] += 1;
            chosen.symbols.push(symbol);
            chosen.echelon.push(step);
            let left = added(&chosen.echelon, missing.iter().map(|(_, row)| row));
            self.visit(next + 1, chosen, &left);
            chosen.echelon.pop();
            chosen.symbols.pop();
            chosen.counts[shard] -= 1;
            chosen.price = before;
        }
        if is_useless || self.reaches(next + 1, chosen, missing) {
            self.visit(next + 1, chosen, missing);
        }
    }

    /// The price of one more symbol of the shard.
    fn due(&self, chosen: &Chosen<R>, shard: usize) -> Price {
        self.have.0[shard].map_or(Price::MAX, |offer| {
            let request_price = if chosen.counts[shard] == 0 { offer.request_price } else { 0 };
            offer.symbol_price.saturating_add(request_price)
        })
    }

    /// A lower bound on the price of `count` more symbols; `None` if there are fewer.
    fn least_price(&self, next: usize, chosen: &Chosen<R>, count: usize) -> Option<Price> {
        let share = |&symbol: &usize| {
            let offer = self.have.0[symbol / self.alpha]?;
            // A request is paid for once a shard; sharing it evenly never overstates.
            let is_asked = chosen.counts[symbol / self.alpha] > 0;
            let request_price = if is_asked { 0 } else { offer.request_price / self.alpha as Price };
            Some(offer.symbol_price.saturating_add(request_price))
        };
        let mut shares: Vec<Price> = self.symbols[next..].iter().filter_map(share).collect();
        shares.sort_unstable();
        let least = shares.get(..count)?.iter().fold(chosen.price, |sum, &share| sum.saturating_add(share));
        Some(least)
    }

    /// Do the symbols from `next` on span what is missing?
    fn reaches(&self, next: usize, chosen: &Chosen<R>, missing: &[(usize, R)]) -> bool {
        // Rows that are reduced by the chosen ones stay so when they are reduced by each other.
        let echelon = added(&chosen.echelon, self.symbols[next..].iter().map(|&symbol| &self.stored[symbol]));
        spans(&echelon, missing.iter().map(|(_, row)| row))
    }
}
