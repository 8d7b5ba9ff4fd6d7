//! Planning: choose what to read, then derive what is wanted from it.
//!
//! Choosing (`plan/choose.rs`) takes the cheapest of what peeling and elimination suggest, and improves on it; deriving
//! (`plan/derive.rs`) peels first and eliminates what is left. Words: a block is a shard of one symbol; an equation is a
//! check with its data blocks, whose XOR is zero.

mod choose;
mod derive;

use super::graph::Graph;
use crate::code::{Code, Offers, Plan, PlanError, Price, Read, Wanted};
use crate::families::sums;
use crate::linear;
use alloc::vec;
use alloc::vec::Vec;
use choose::Answer;

/// What is asked.
struct Question<'a> {
    graph: &'a Graph,
    /// By check: the blocks whose XOR is zero.
    equations: Vec<Vec<usize>>,
    /// By block: the equations it is in.
    equations_of: Vec<Vec<usize>>,
    /// Blocks wanted, in order.
    targets: Vec<usize>,
}

/// By block: what reading it costs; `None` where it cannot be read.
type Prices = [Option<Price>];

impl<'a> Question<'a> {
    fn new(graph: &'a Graph, targets: Vec<usize>) -> Question<'a> {
        let equations = graph.equations();
        let mut equations_of = vec![Vec::new(); graph.block_count()];
        for (index, equation) in equations.iter().enumerate() {
            equation.iter().for_each(|&block| equations_of[block].push(index));
        }
        Question { graph, equations, equations_of, targets }
    }
}

/// The plan of the code of this graph.
///
/// # Errors
/// As [`Code::plan`].
pub(super) fn plan(code: &dyn Code, graph: &Graph, wanted: &Wanted, have: &Offers) -> Result<Plan, PlanError> {
    linear::check(code, wanted, have)?;
    // Data blocks come first, and native symbol `i` is data block `i`.
    let (Wanted::Natives(targets) | Wanted::Shards(targets)) = wanted;
    let question = Question::new(graph, targets.clone());
    let price = |offer: &crate::code::Offer| offer.request_price.saturating_add(offer.symbol_price);
    let prices: Vec<Option<Price>> = have.0.iter().map(|offer| offer.as_ref().map(price)).collect();
    match question.cheapest(&prices) {
        Some(Answer { price, reads, sums }) => {
            let program = sums::program(&reads, &sums, targets);
            let reads = reads.into_iter().map(|shard| Read { shard, terms: vec![(0, 1)] }).collect();
            Ok(Plan { reads, program, price })
        }
        None => Err(linear::unrecoverable(code, &question.determined(&prices), wanted, have)),
    }
}
