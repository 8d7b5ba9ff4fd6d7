//! How each number of a choice was computed: formulas with the numbers put in.

use super::{Choice, GIB, Needs, Node, OPERATION_BYTES_PER_SECOND, SECONDS_PER_YEAR};
use crate::plot::number;
use std::fmt;

/// How one number of a choice was computed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explained {
    /// What the number is; one of the constants here.
    pub name: &'static str,
    /// The formula with its numbers.
    pub formula: String,
}

impl fmt::Display for Explained {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.formula)
    }
}

/// Names of numbers that a table shows.
pub(crate) const STORED: &str = "stored";
pub(crate) const ROOM: &str = "room";
pub(crate) const MONTH_PRICE: &str = "price of a month";
pub(crate) const REPAIR_BYTES: &str = "bytes of a repair";
pub(crate) const REPAIR_TIME: &str = "repair time";
pub(crate) const REPAIR_PRICE: &str = "price of a repair";
pub(crate) const LOSS: &str = "loss of anything within a year";
pub(crate) const READ: &str = "reading";
pub(crate) const DEGRADED_READ: &str = "degraded read";
pub(crate) const PROCESSOR: &str = "processor";

/// A line for each number of a choice.
#[must_use]
pub fn explain(choice: &Choice, nodes: &[Node], needs: &Needs) -> Vec<Explained> {
    let repair_price = format!("what each node sends times its price = {}", number(choice.repair.price));
    let processor = format!(
        "{} symbol operations for a symbol of data * 1 GiB / {} GiB of them a second (assumed) = {} s per GiB written",
        number(choice.operations),
        number(OPERATION_BYTES_PER_SECOND / GIB),
        number(choice.cpu_seconds_per_gib)
    );
    let [rates, patterns, segment_loss, loss] = loss(choice, nodes, needs);
    let [read, degraded_read] = reads(choice, needs);
    let lines = [
        (STORED, stored(choice, needs)),
        (ROOM, room(choice)),
        (MONTH_PRICE, month_price(choice, needs)),
        ("a node stores", node_bytes(choice, nodes, needs)),
        (REPAIR_BYTES, repair_bytes(choice)),
        (REPAIR_TIME, repair_seconds(choice, needs)),
        (REPAIR_PRICE, repair_price),
        ("rates", rates),
        ("patterns of losses that are fatal", patterns),
        ("loss of a given segment within a year", segment_loss),
        (LOSS, loss),
        (READ, read),
        (DEGRADED_READ, degraded_read),
        (PROCESSOR, processor),
    ];
    lines.map(|(name, formula)| Explained { name, formula }).into()
}

fn gib(bytes: f64) -> String {
    format!("{} GiB", number(bytes / GIB))
}

fn stored(choice: &Choice, needs: &Needs) -> String {
    format!(
        "{} of data * {} = {} in {} shards of each segment, of which any {} may be lost",
        gib(needs.capacity_bytes),
        number(choice.stored_per_byte),
        gib(needs.capacity_bytes * choice.stored_per_byte),
        choice.width,
        choice.tolerance
    )
}

fn room(choice: &Choice) -> String {
    format!(
        "{} places of {} each (the most with no two shards of a segment in one domain) / {} = {} of data",
        choice.width,
        gib(choice.room_bytes * choice.stored_per_byte / choice.width as f64),
        number(choice.stored_per_byte),
        gib(choice.room_bytes)
    )
}

fn month_price(choice: &Choice, needs: &Needs) -> String {
    let stored_bytes = needs.capacity_bytes * choice.stored_per_byte;
    format!(
        "{} * {} for a GiB (the mean of the nodes, weighted by what they store) = {}",
        gib(stored_bytes),
        number(choice.month_price / (stored_bytes / GIB)),
        number(choice.month_price)
    )
}

fn node_bytes(choice: &Choice, nodes: &[Node], needs: &Needs) -> String {
    format!(
        "{} / {} nodes = {} in the mean",
        gib(needs.capacity_bytes * choice.stored_per_byte),
        nodes.len(),
        gib(choice.node_bytes)
    )
}

fn repair_bytes(choice: &Choice) -> String {
    let repair = &choice.repair;
    format!(
        "{} * {} bytes received for a lost one (the mean of the repair programs of all shards) = {}",
        gib(choice.node_bytes),
        number(repair.received_per_byte),
        gib(repair.bytes)
    )
}

fn repair_seconds(choice: &Choice, needs: &Needs) -> String {
    let repair = &choice.repair;
    format!(
        "the longest of sending ({} s), receiving at {} MB/s ({} s) and writing ({} s), each with {} % of the speeds = {} s",
        number(repair.sending_seconds),
        number(needs.client_bytes_per_second / 1e6),
        number(repair.receiving_seconds),
        number(repair.writing_seconds),
        number(100.0 * needs.repair_share),
        number(repair.seconds())
    )
}

fn loss(choice: &Choice, nodes: &[Node], needs: &Needs) -> [String; 4] {
    let is_partly = |(_, share): &(usize, &f64)| **share > 0.0 && **share < 1.0;
    let shares = choice.fatal_shares.iter().enumerate();
    let partly: Vec<String> = shares
        .clone()
        .filter(is_partly)
        .map(|(lost, share)| format!("{} % of {lost}", number(100.0 * share)))
        .collect();
    let all = shares.clone().find(|(_, share)| **share >= 1.0).map_or(choice.width, |(lost, _)| lost);
    let partly = if partly.is_empty() { String::new() } else { format!("{}, ", partly.join(", ")) };
    let counted = if choice.is_exact { "all counted" } else { "partly sampled" };
    [
        format!(
            "{} failures of a node a year; a repair each {} s to detect + {} s = {} a year",
            number(choice.failures_per_year),
            number(needs.detection_seconds),
            number(choice.repair.seconds()),
            number(SECONDS_PER_YEAR / (needs.detection_seconds + choice.repair.seconds()))
        ),
        format!("{partly}all of {all} and more ({counted})"),
        format!(
            "a Markov chain of {} shards with these rates and patterns = {}",
            choice.width,
            number(choice.annual_segment_loss)
        ),
        format!(
            "the same chain of {} nodes, with {} different sets of nodes = {}",
            nodes.len(),
            number(choice.set_count),
            number(choice.annual_loss)
        ),
    ]
}

fn reads(choice: &Choice, needs: &Needs) -> [String; 2] {
    let from = "the longest of latency + bytes / speed over the nodes that the plan reads, and all bytes at";
    [
        format!(
            "of {} KiB: {from} {} MB/s, in the mean of some segments = {} s",
            number(needs.file_bytes / 1024.0),
            number(needs.client_bytes_per_second / 1e6),
            number(choice.read_seconds)
        ),
        format!(
            "the same without one node that holds data of it, by the plan of a degraded read = {} s",
            number(choice.degraded_read_seconds)
        ),
    ]
}
