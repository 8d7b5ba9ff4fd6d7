//! What `weft codes show` says of chance: how often a file cannot be read, and how many nodes a graph needs.

use super::figures::SEED;
use serde::Serialize;
use weft_codes::analysis::{self, EFFORT};
use weft_codes::families::ldpc::{self, Decoder, Graph, Sampled};
use weft_codes::{Code, Erasures};
use weft_lab::experiment::NINETEEN_OF_TWENTY;
use weft_lab::models::availability::FatalShares;

/// How often a file cannot be read, where its nodes fail independently.
#[derive(Serialize)]
pub struct Unavailability {
    pub node_availability: f64,
    pub share_of_time: f64,
    /// How far the true share may lie from that, 19 times of 20; 0: all patterns of losses were counted.
    pub error: f64,
}

/// All numbers of losses together take this part of what one may take: some tenths of a second.
const EFFORT_SHARE: u64 = 8;

/// `None` where even a sample of the losses takes too long.
pub fn unavailability(code: &dyn Code, erasures: Option<&Erasures>, node_availability: f64) -> Option<Unavailability> {
    let shape = code.shape();
    let most_lost = analysis::most_lost(shape);
    let shares = if shape.tolerance >= most_lost {
        FatalShares::of_mds(shape.n, most_lost)
    } else {
        let effort = EFFORT / EFFORT_SHARE / (most_lost - shape.tolerance) as u64;
        let erasures = erasures?;
        let is_affordable = |lost| analysis::is_affordable(erasures, lost, effort);
        (shape.tolerance..=most_lost)
            .all(is_affordable)
            .then(|| FatalShares::counted(erasures, shape.tolerance, effort, SEED))?
    };
    let (share_of_time, standard_error) = shares.failure(node_availability);
    Some(Unavailability { node_availability, share_of_time, error: NINETEEN_OF_TWENTY * standard_error })
}

/// Nodes read in random order until all data follow, per data node.
#[derive(Serialize)]
pub struct Overhead {
    pub by_peeling: f64,
    /// Where what peeling leaves is eliminated, as WeftFS does.
    pub by_elimination: f64,
    /// How far the true means may lie from these, 19 times of 20; 0: all sets of nodes were counted.
    pub error: f64,
    /// The fewest that always suffice by peeling; null where not all sets were counted.
    pub worst: Option<f64>,
}

/// Random orders of the nodes of a graph too large to be counted.
const ORDERS: usize = 50;

/// `None` for a code that is no graph.
pub fn overhead(code: &dyn Code) -> Option<Overhead> {
    let graph = ldpc::named_or_given(code.spec().strip_prefix("ldpc:")?).ok()?;
    let (peeled, worst) = needed(&graph, Decoder::Peeling);
    let (eliminated, _) = needed(&graph, Decoder::Elimination);
    let per_data = |blocks: f64| blocks / graph.data_count() as f64;
    Some(Overhead {
        by_peeling: per_data(peeled.mean),
        by_elimination: per_data(eliminated.mean),
        error: per_data(NINETEEN_OF_TWENTY * peeled.standard_error.max(eliminated.standard_error)),
        worst: worst.map(|blocks| per_data(blocks as f64)),
    })
}

/// Blocks drawn until all data follow, in the mean; and, where all sets were counted, in the worst case.
fn needed(graph: &Graph, decoder: Decoder) -> (Sampled, Option<usize>) {
    match ldpc::profile(graph, decoder) {
        Some(profile) => {
            let exact = Sampled { mean: profile.mean_blocks(), standard_error: 0.0 };
            (exact, Some(graph.block_count() - profile.losses_survived()))
        }
        None => (ldpc::sampled_blocks_needed(graph, decoder, ORDERS, SEED), None),
    }
}
