//! LDPC: `k` data shards and checks; a sparse graph says of which data each check is the XOR.
//!
//! ```text
//! check c = XOR of the data blocks that the graph joins with c
//! ```
//!
//! Not MDS: a read needs a few more than `k` shards; how many more depends on which. In return, encoding and decoding
//! take a few XORs per shard at any width, and a lost data shard is repaired from the neighbours of one check, not from
//! `k` shards.
//!
//! Graphs are named or given:
//!
//! - `ldpc:plank-5`, `-10`, `-20`, `-50`, `-100`: as many checks as data, the graphs of Collins and Plank, Assessing
//!   the performance of erasure codes in the wide-area (2004), appendix.
//! - `ldpc:cube-8-6`: the best graph of 8 data blocks and 6 checks by Gaidioz, Koblitz, Santos, Exploring high
//!   performance distributed file storage using LDPC codes (2006). Of all graphs that survive any 3 losses by peeling
//!   it needs the fewest blocks on average, 8.809. Data blocks are the vertices of a cube, checks its faces.
//! - `ldpc:8+6:55,aa,33,cc,f,f0`: any graph, as a hexadecimal mask for each check; bit `i` is data block `i`. A volume
//!   keeps the spec in every shard, where 96 characters fit: up to 16+16. [`Graph::from_file`] reads graphs from files,
//!   [`search`] finds good ones.
//!
//! The tolerance is one less than the smallest fatal loss under elimination (tolerance 3, 3, 4, 4, 5 for the published
//! graphs in this order, 3 for the cube). It is computed: see [`smallest_fatal_loss`]. Where that takes too long, as it
//! may for graphs of hundreds of blocks, the code promises what was proved. Most larger losses can be decoded as well;
//! [`profile`] counts them, and [`sampled_blocks_needed`] estimates them where they are too many to count.
//!
//! Planning (`ldpc/plan.rs`) takes the cheaper of the cheapest derivations by peeling and the cheapest basis by
//! elimination, both improved within a budget. For few blocks the search of [`crate::linear`] proves the choice. The
//! program peels first and eliminates only the rest.
//!
//! ```
//! use weft_codes::{Offer, Offers, Wanted};
//!
//! let code = weft_codes::parse("ldpc:cube-8-6")?;
//! assert_eq!((code.shape().n, code.shape().k, code.shape().tolerance), (14, 8, 3));
//! let offer = Offer { combines: false, request_price: 1, symbol_price: 1 };
//! let have = Offers((0..14).map(|shard| (shard != 5).then_some(offer)).collect());
//! let repair = code.plan(&Wanted::Shards(vec![5]), &have)?;
//! assert_eq!(repair.reads.len(), 4); // three vertices and their face, instead of eight shards
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod fatal;
mod graph;
mod overhead;
mod plan;
#[cfg(feature = "std")]
mod search;

use super::Family;
use super::parameters::Problem;
use super::sums::{self, Sum};
use crate::code::{Code, Offers, Plan, PlanError, Shape, Wanted};
use crate::linear::{self, LinearCode};
use crate::program::Program;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

pub use fatal::{FatalLoss, smallest_fatal_loss};
pub use graph::Graph;
pub use overhead::{Decoder, Profile, blocks_needed, profile};
#[cfg(feature = "std")]
pub use overhead::{Sampled, sampled_blocks_needed};
#[cfg(feature = "std")]
pub use search::{Found, Goal, Search, search, walk};

pub(super) const FAMILY: Family = Family {
    name: "ldpc",
    syntax: "ldpc:GRAPH, where GRAPH is plank-5, -10, -20, -50, -100, cube-8-6 or data+checks:mask,mask,...",
    example: "ldpc:plank-5",
    description: "sparse XOR of a graph: cheap at any width, cheap repair, needs a few more than k shards",
    source: "Collins, Plank: Assessing the performance of erasure codes in the wide-area (2004); Gaidioz et al. (2006)",
    build,
};

/// Named graphs, as graph files.
const NAMED: [(&str, &str); 6] = [
    ("plank-5", include_str!("ldpc/plank-5.graph")),
    ("plank-10", include_str!("ldpc/plank-10.graph")),
    ("plank-20", include_str!("ldpc/plank-20.graph")),
    ("plank-50", include_str!("ldpc/plank-50.graph")),
    ("plank-100", include_str!("ldpc/plank-100.graph")),
    ("cube-8-6", include_str!("ldpc/cube-8-6.graph")),
];

/// The cost of proving a tolerance when a code is made: tens of milliseconds, and enough for the widest named graph.
const MOST_SUMS: u64 = 1_500_000;

fn build(parameters: &str) -> Result<Arc<dyn Code>, Problem> {
    let graph = named_or_given(parameters)?;
    let spec = match NAMED.iter().find(|(name, _)| *name == parameters) {
        Some((name, _)) => format!("ldpc:{name}"),
        None => format!("ldpc:{}", graph.to_spec()),
    };
    Ok(Arc::new(LdpcCode::new(spec, graph)))
}

/// The graph of the text that follows the colon of a spec.
///
/// # Errors
/// [`Problem::Syntax`] if it is neither a name nor a list of masks; otherwise as [`Graph::new`].
pub fn named_or_given(parameters: &str) -> Result<Graph, Problem> {
    match NAMED.iter().find(|(name, _)| *name == parameters) {
        Some((_, file)) => Graph::from_file(file),
        None => Graph::from_spec(parameters),
    }
}

/// The code of a graph.
struct LdpcCode {
    linear: LinearCode,
    planner: plan::Planner,
}

impl LdpcCode {
    fn new(spec: String, graph: Graph) -> LdpcCode {
        let k = graph.data_count();
        let tolerance = smallest_fatal_loss(&graph, MOST_SUMS).at_least - 1;
        let sum = |(check, of): (usize, &Vec<usize>)| Sum { name: k + check, of: of.clone() };
        let sums: Vec<Sum> = graph.checks().iter().enumerate().map(sum).collect();
        let checks: Vec<usize> = (k..graph.block_count()).collect();
        let encode = sums::program(&(0..k).collect::<Vec<_>>(), sums, &checks);
        LdpcCode {
            linear: LinearCode::systematic(spec, k, 1, tolerance, Vec::new(), encode),
            planner: plan::Planner::new(&graph),
        }
    }
}

impl Code for LdpcCode {
    fn spec(&self) -> &str {
        self.linear.spec()
    }

    fn shape(&self) -> &Shape {
        self.linear.shape()
    }

    fn encode(&self) -> &Program {
        self.linear.encode()
    }

    fn plan(&self, wanted: &Wanted, have: &Offers) -> Result<Plan, PlanError> {
        let plan = self.planner.plan(self, wanted, have)?;
        let engine = || self.linear.plan(wanted, have);
        Ok(linear::cheaper_than(plan.price, self.shape(), have, engine)?.unwrap_or(plan))
    }
}
