//! Which code suits given nodes and needs: the figures of every candidate, and their order.
//!
//! The loop: `nodes, needs -> candidates -> counts of each code's programs and fatal patterns -> times, prices, loss -> order`. All is counted
//! or computed: the same question has the same answer on every machine.
//!
//! What it leaves out: failures of a whole domain, links between nodes, and requests of a repair (only its bytes count). Of nodes that
//! fail unequally often the chain of failures takes the mean, weighted by what they store.

mod candidates;
mod check;
mod explain;
mod loss;
mod order;
mod pictures;
mod places;
mod times;

pub use candidates::{WIDTH_MAX, specs};
pub use check::ChoiceError;
pub(crate) use explain::{
    DEGRADED_READ, LOSS, MONTH_PRICE, PROCESSOR, READ, REPAIR_BYTES, REPAIR_PRICE, REPAIR_TIME, ROOM, STORED,
};
pub use explain::{Explained, explain};
pub use loss::{Rates, of_volume as annual_loss_of_volume};

use super::availability::FatalShares;
use super::durability::{GIB, SECONDS_PER_YEAR};
pub use pictures::{Picture, samples};
use places::Places;
use serde::Serialize;
use times::{SEGMENT_BYTES, Setting, Times};

pub use times::Repair;
use weft_codes::{Code, analysis};

/// One place that stores shards.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Node {
    /// For people.
    pub name: String,
    /// What it sends and takes.
    pub bytes_per_second: f64,
    /// Until its first byte.
    pub latency_ms: f64,
    /// Of storing a GiB for a month, in any currency.
    pub price_per_gib_month: f64,
    /// Of sending a GiB.
    pub price_per_gib_read: f64,
    /// Losses of it for good a year.
    pub annual_failure_rate: f64,
    /// What fails as one: a segment has at most one shard there.
    pub domain: String,
    /// Room for shards.
    pub room_bytes: f64,
    /// Can it combine its symbols before it sends them?
    pub computes: bool,
}

/// What is asked of a code.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Needs {
    /// The chance to lose anything within a year is at most this.
    pub annual_loss_max: f64,
    /// Data to be stored.
    pub capacity_bytes: f64,
    /// Of a typical file.
    pub file_bytes: f64,
    /// Until the repair of a node that is gone begins.
    pub detection_seconds: f64,
    /// The link of the client that reads and repairs.
    pub client_bytes_per_second: f64,
    /// The part of all speeds that a repair takes.
    pub repair_share: f64,
}

/// A code on given nodes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Choice {
    /// Its spec.
    pub code: String,
    /// Shards of a segment.
    pub width: usize,
    /// Losses of this number are always survived.
    pub tolerance: usize,
    /// Stored bytes per byte of data.
    pub stored_per_byte: f64,
    /// Data that fits on the nodes.
    pub room_bytes: f64,
    /// The chance that any data is lost within a year.
    pub annual_loss: f64,
    /// The chance that a given segment is lost within a year.
    pub annual_segment_loss: f64,
    /// By number of lost shards, the share of the patterns that lose data.
    pub fatal_shares: Vec<f64>,
    /// Were all patterns counted?
    pub is_exact: bool,
    /// Sets of nodes, and orders on them, in which segments differ.
    pub set_count: f64,
    /// Of a node, in the mean.
    pub failures_per_year: f64,
    /// Stored on a node, in the mean.
    pub node_bytes: f64,
    /// Rebuilding what a node stores, once that has begun.
    pub repair: Repair,
    /// Reading a typical file.
    pub read_seconds: f64,
    /// The same with a node away that holds data of it.
    pub degraded_read_seconds: f64,
    /// Storing all data.
    pub month_price: f64,
    /// Symbol operations to encode a symbol of data.
    pub operations: f64,
    /// Encoding a GiB at [`OPERATION_BYTES_PER_SECOND`].
    pub cpu_seconds_per_gib: f64,
    /// Why it does not meet the needs; `None`: it does.
    pub shortfall: Option<String>,
}

/// Bytes of symbol operations that a core does in a second: a round number, so that equal programs have equal times everywhere.
pub const OPERATION_BYTES_PER_SECOND: f64 = 8.0 * GIB;

/// Of a node of which nothing is known: about what disks in large numbers do.
pub const ANNUAL_FAILURE_RATE: f64 = 0.02;

/// Element operations for the patterns of one number of losses: all patterns of every candidate.
const EFFORT: u64 = 1 << 30;

/// Patterns are sampled with this where they are too many.
const SEED: u64 = 1;

/// All candidates for these nodes, best first.
///
/// # Errors
/// Any [`ChoiceError`].
pub fn rank(nodes: &[Node], needs: &Needs) -> Result<Vec<Choice>, ChoiceError> {
    check::check(nodes, needs)?;
    let domains = places::domain_count(nodes);
    if domains < 2 {
        return Err(ChoiceError::TooFewDomains { domains });
    }
    // A family that cannot have a candidate's counts has no such code.
    let codes = candidates::specs(domains).into_iter().filter_map(|spec| weft_codes::parse(&spec).ok());
    let codes = codes.filter(|code| code.shape().contents.len() <= MOST_SYMBOLS);
    let mut choices = codes.map(|code| choice(nodes, needs, &*code)).collect::<Result<Vec<_>, _>>()?;
    choices.sort_by(order::order);
    Ok(choices)
}

/// Codes with more stored symbols in a stripe are left out: their reads are many and small.
const MOST_SYMBOLS: usize = 800;

/// The figures of one code.
///
/// # Errors
/// Any [`ChoiceError`].
pub fn choice(nodes: &[Node], needs: &Needs, code: &dyn Code) -> Result<Choice, ChoiceError> {
    check::check(nodes, needs)?;
    let failed = |detail: String| ChoiceError::Code { code: code.spec().to_owned(), detail };
    let (shape, domains) = (code.shape(), places::domain_count(nodes));
    let too_wide = || ChoiceError::TooWide { code: code.spec().to_owned(), width: shape.n, domains };
    let places = Places::new(nodes, shape.n).ok_or_else(too_wide)?;
    let stored_per_byte = analysis::storage_factor(shape);
    let stored_bytes = needs.capacity_bytes * stored_per_byte;
    let node_bytes = stored_bytes / nodes.len() as f64;
    let setting = Setting { code, nodes, needs, places: &places, node_bytes, domain_count: domains };
    let times = setting.times().map_err(failed)?;
    let shares = fatal_shares(code).map_err(failed)?;
    let rates = Rates {
        failures_per_year: places.mean(nodes, |node| node.annual_failure_rate),
        repairs_per_year: SECONDS_PER_YEAR / (needs.detection_seconds + times.repair.seconds()),
    };
    let set_count = loss::set_count(nodes.len(), &shares, (needs.capacity_bytes / SEGMENT_BYTES).max(1.0));
    let fatal: Vec<f64> = shares.shares().iter().map(|share| share.value).collect();
    let size = analysis::size(code.encode());
    let operations = (size.additions + size.multiplications) as f64 / shape.native_count as f64;
    let Times { read_seconds, degraded_read_seconds, repair } = times;
    let choice = Choice {
        code: code.spec().to_owned(),
        width: shape.n,
        tolerance: shape.tolerance,
        stored_per_byte,
        room_bytes: places.place_bytes * shape.n as f64 / stored_per_byte,
        annual_loss: loss::of_volume(nodes.len(), &fatal, set_count, rates),
        annual_segment_loss: loss::of_one_segment(&fatal, rates),
        is_exact: shares.shares().iter().all(|share| share.standard_error == 0.0),
        fatal_shares: fatal,
        set_count,
        failures_per_year: rates.failures_per_year,
        node_bytes,
        repair,
        read_seconds,
        degraded_read_seconds,
        month_price: stored_bytes / GIB * places.mean(nodes, |node| node.price_per_gib_month),
        operations,
        cpu_seconds_per_gib: operations * GIB / OPERATION_BYTES_PER_SECOND,
        shortfall: None,
    };
    Ok(Choice { shortfall: order::shortfall(&choice, needs), ..choice })
}

fn fatal_shares(code: &dyn Code) -> Result<FatalShares, String> {
    let shape = code.shape();
    let most_lost = analysis::most_lost(shape);
    // What has no room for a pattern between the promise and the impossible needs no count.
    match shape.tolerance >= most_lost {
        true => Ok(FatalShares::of_mds(shape.n, most_lost)),
        false => FatalShares::of(code, EFFORT, SEED),
    }
}

#[cfg(test)]
#[path = "choice_tests.rs"]
pub(crate) mod tests;
