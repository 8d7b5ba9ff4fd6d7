//! Planning: choose what to read, then derive the wanted blocks from it.
//!
//! Choosing (`plan/choose.rs`) takes the cheaper of what peeling (`plan/peel.rs`) and elimination (`plan/basis.rs`)
//! suggest, and improves it within a budget. Deriving (`plan/derive.rs`) peels first and eliminates the rest. A block
//! is a shard of one symbol. An equation is a check with its data blocks, whose XOR is zero.
//!
//! A decision has a budget: [`OPERATIONS_PER_SYMBOL`] for each symbol that its program touches and for each offer, at
//! any width of the graph. The first choice is good enough; improvements stop when the budget is spent.

mod basis;
mod choose;
mod derive;
mod peel;

use super::graph::Graph;
use crate::code::{Code, Offers, Plan, PlanError, Price, Read, Wanted};
use crate::families::sums;
use crate::linear;
use crate::work::spend;
use alloc::vec;
use alloc::vec::Vec;
use basis::Basis;
use choose::Candidate;

/// The budget of a decision for each symbol that its program touches and each offer, in operations on a word, an edge
/// or a price. After that it takes the best choice so far. That is less than the program takes for cells of a few KiB,
/// the smallest that are stored.
const OPERATIONS_PER_SYMBOL: u64 = 64;

/// The budget of a decision that reads little: some ten microseconds.
const OPERATIONS_MIN: u64 = 1 << 14;

/// A graph as its planner needs it, made once.
pub(super) struct Planner {
    /// By check: the blocks whose XOR is zero, the check itself last.
    equations: Vec<Vec<usize>>,
    /// By block: the equations it is in.
    equations_of: Vec<Vec<usize>>,
    data_count: usize,
    /// The data blocks.
    basis: Basis,
}

/// By block: the price of reading it; `None` if it cannot be read.
type Prices = [Option<Price>];

impl Planner {
    pub(super) fn new(graph: &Graph) -> Planner {
        let equations = graph.equations();
        let mut equations_of = vec![Vec::new(); graph.block_count()];
        for (index, equation) in equations.iter().enumerate() {
            equation.iter().for_each(|&block| equations_of[block].push(index));
        }
        Planner { equations, equations_of, data_count: graph.data_count(), basis: Basis::of_data(graph) }
    }

    fn block_count(&self) -> usize {
        self.equations_of.len()
    }

    /// The plan of the code of this graph.
    ///
    /// # Errors
    /// As [`Code::plan`].
    pub(super) fn plan(&self, code: &dyn Code, wanted: &Wanted, have: &Offers) -> Result<Plan, PlanError> {
        linear::check(code, wanted, have)?;
        // Data blocks come first, and native symbol `i` is data block `i`.
        let (Wanted::Natives(targets) | Wanted::Shards(targets)) = wanted;
        let price = |offer: &crate::code::Offer| offer.request_price.saturating_add(offer.symbol_price);
        let prices: Vec<Option<Price>> = have.0.iter().map(|offer| offer.as_ref().map(price)).collect();
        match self.cheapest(targets, &prices) {
            Ok(Candidate { price, reads, sums }) => {
                let program = sums::program(&reads, sums, targets);
                let reads = reads.into_iter().map(|shard| Read { shard, terms: vec![(0, 1)] }).collect();
                Ok(Plan { reads, program, price })
            }
            Err(determined) => Err(linear::unrecoverable(code, &determined, wanted, have)),
        }
    }
}

/// Operations spent on a decision, and its budget.
struct Budget {
    done: u64,
    /// Symbols of the best candidate's program, and offers.
    symbols: u64,
}

impl Budget {
    /// For a decision among `offer_count` offers.
    fn new(offer_count: usize) -> Budget {
        Budget { done: 0, symbols: offer_count as u64 }
    }

    /// Counts operations that were done.
    fn spend(&mut self, operations: usize) {
        self.done += operations as u64;
    }

    /// A candidate was found whose program touches this many symbols.
    fn allow(&mut self, symbols_touched: usize) {
        self.symbols += symbols_touched as u64;
    }

    fn is_spent(&self) -> bool {
        self.done >= OPERATIONS_MIN.max(OPERATIONS_PER_SYMBOL * self.symbols)
    }
}

impl Drop for Budget {
    fn drop(&mut self) {
        spend(self.done as usize);
    }
}
