//! What `weft codes show` says of chance: how often a file cannot be read, and how many nodes a graph needs.

use super::figures::SEED;
use serde::Serialize;
use weft_codes::analysis::{self, EFFORT};
use weft_codes::families::ldpc::{self, Decoder, Graph};
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
    let (peeled, eliminated) = (mean(&graph, Decoder::Peeling), mean(&graph, Decoder::Elimination));
    let profile = ldpc::profile(&graph, Decoder::Peeling);
    let needed = profile.map(|profile| graph.block_count() - profile.losses_survived());
    let per_data = |blocks: f64| blocks / graph.data_count() as f64;
    Some(Overhead {
        by_peeling: per_data(peeled.0),
        by_elimination: per_data(eliminated.0),
        error: per_data(NINETEEN_OF_TWENTY * peeled.1.max(eliminated.1)),
        worst: needed.map(|needed| per_data(needed as f64)),
    })
}

/// With its standard error.
fn mean(graph: &Graph, decoder: Decoder) -> (f64, f64) {
    match ldpc::profile(graph, decoder) {
        Some(profile) => (profile.mean_blocks(), 0.0),
        None => {
            let sampled = ldpc::sampled_blocks_needed(graph, decoder, ORDERS, SEED);
            (sampled.mean, sampled.standard_error)
        }
    }
}
