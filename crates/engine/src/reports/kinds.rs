//! The kinds of nodes that this program has.

use serde::Serialize;
use weft_nodes::About;

/// A kind of node.
#[derive(Clone, Debug, Serialize)]
pub struct NodeKindReport {
    /// Its name.
    pub name: &'static str,
    /// Its description.
    pub what: &'static str,
    /// How its URLs look.
    pub url: &'static str,
    /// Has this program it?
    pub is_built_in: bool,
    /// Does it compute sums of its shards?
    pub combines: bool,
    /// Reads begin and end at multiples of this number of bytes.
    pub range_granularity_bytes: u64,
    /// Does it list shards in order?
    pub lists_in_order: bool,
    /// Does a put appear whole or not at all?
    pub puts_atomically: bool,
    /// Does it refuse a put of a name that exists?
    pub puts_conditionally: bool,
    /// A request takes about so long.
    pub latency_us: u32,
    /// The price of a request, if a KiB read costs `kib_out_price`.
    pub request_price: u64,
    /// The price of a KiB read.
    pub kib_out_price: u64,
    /// The price of a KiB written.
    pub kib_in_price: u64,
    /// Where the prices come from.
    pub prices_because: &'static str,
    /// When a shard is durable.
    pub durable: &'static str,
    /// The program that it was tested against, if there is one.
    pub tested_against: Option<&'static str>,
}

impl NodeKindReport {
    fn of(kind: &About) -> Self {
        let can = kind.capability;
        Self {
            name: kind.name,
            what: kind.what,
            url: kind.url,
            is_built_in: kind.is_built_in,
            combines: can.combines,
            range_granularity_bytes: can.range_granularity_bytes,
            lists_in_order: can.lists_in_order,
            puts_atomically: can.puts_atomically,
            puts_conditionally: can.puts_conditionally,
            latency_us: can.latency_us,
            request_price: can.request_price,
            kib_out_price: can.kib_out_price,
            kib_in_price: can.kib_in_price,
            prices_because: kind.prices_because,
            durable: kind.durable,
            tested_against: kind.tested_against,
        }
    }
}

/// All of them, the nearest first.
#[must_use]
pub fn node_kinds() -> Vec<NodeKindReport> {
    crate::kinds().about().map(NodeKindReport::of).collect()
}
