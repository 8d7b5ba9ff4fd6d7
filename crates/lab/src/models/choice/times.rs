//! How long reads and repairs take on given nodes, from the programs that are run.

use super::places::Places;
use super::{Needs, Node};
use crate::models::durability::GIB;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use weft_codes::{Code, Content, Offer, Offers, Plan, Wanted};

/// Stored symbols of all segments whose plans are made for the mean over places, and limits to the number of these segments.
const SYMBOLS_PLANNED: usize = 400;
const SEGMENTS: RangeInclusive<usize> = 3..=12;

/// Data of a segment whose repair is planned; the planner weighs requests against bytes.
pub(super) const SEGMENT_BYTES: f64 = (8u64 << 20) as f64;

/// What a code takes on given nodes, in the mean over places.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Times {
    pub read_seconds: f64,
    pub degraded_read_seconds: f64,
    pub repair: Repair,
}

/// Rebuilding what one node stores, if that is the mean of what all store. Its parts go on at the same time.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct Repair {
    /// Received for each byte of a lost shard.
    pub received_per_byte: f64,
    /// Received in all.
    pub bytes: f64,
    /// What nodes ask for sending that.
    pub price: f64,
    /// Until the last of the nodes that send is done.
    pub sending_seconds: f64,
    /// Until the client that repairs has received it.
    pub receiving_seconds: f64,
    /// Until what was rebuilt is stored.
    pub writing_seconds: f64,
}

impl Repair {
    /// Until all of that is done.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        self.sending_seconds.max(self.receiving_seconds).max(self.writing_seconds)
    }
}

/// A code on nodes.
pub(super) struct Setting<'a> {
    pub code: &'a dyn Code,
    pub nodes: &'a [Node],
    pub needs: &'a Needs,
    pub places: &'a Places,
    /// Stored bytes on a node, in the mean.
    pub node_bytes: f64,
    /// Domains with room.
    pub domain_count: usize,
}

impl Setting<'_> {
    /// # Errors
    /// A sentence, where the code cannot read or repair.
    pub fn times(&self) -> Result<Times, String> {
        let shape = self.code.shape();
        let data: Vec<usize> = (0..shape.n).filter(|&shard| self.has_data(shard)).collect();
        let mut times = Times::default();
        let idle = vec![0.0; self.nodes.len()];
        let mut sent = idle.clone();
        let natives = || Wanted::Natives((0..shape.native_count).collect());
        let symbol_bytes = self.needs.file_bytes / shape.native_count as f64;
        let count = (SYMBOLS_PLANNED / shape.contents.len()).clamp(*SEGMENTS.start(), *SEGMENTS.end());
        let share = 1.0 / count as f64;
        for (number, segment) in self.places.segments(count).iter().enumerate() {
            let read = self.plan(&natives(), segment, None, symbol_bytes, &idle)?;
            times.read_seconds += share * self.elapsed(&read, segment, symbol_bytes);
            let away = data.get(number % data.len().max(1)).copied().unwrap_or(number % shape.n);
            let degraded = self.plan(&natives(), segment, Some(away), symbol_bytes, &idle)?;
            times.degraded_read_seconds += share * self.elapsed(&degraded, segment, symbol_bytes);
            let lost = number % shape.n;
            let segment_symbol_bytes = SEGMENT_BYTES / shape.native_count as f64;
            let repair = self.plan(&Wanted::Shards(vec![lost]), segment, Some(lost), segment_symbol_bytes, &sent)?;
            for read in &repair.reads {
                sent[segment[read.shard]] += share / shape.alpha as f64;
            }
        }
        Ok(Times { repair: self.repair(&sent), ..times })
    }

    /// Does the shard hold plain data?
    fn has_data(&self, shard: usize) -> bool {
        let shape = self.code.shape();
        let cell = &shape.contents[shard * shape.alpha..(shard + 1) * shape.alpha];
        cell.iter().any(|content| matches!(content, Content::Native(_)))
    }

    /// The cheapest reads, where what a node takes is its price, more so of a node that has sent more than others.
    fn plan(
        &self,
        wanted: &Wanted,
        segment: &[usize],
        away: Option<usize>,
        symbol_bytes: f64,
        sent: &[f64],
    ) -> Result<Plan, String> {
        let offer = |(shard, &index): (usize, &usize)| {
            let node = &self.nodes[index];
            let seconds = symbol_bytes / node.bytes_per_second * (1.0 + sent[index]);
            (away != Some(shard)).then_some(Offer {
                combines: node.computes,
                request_price: nanoseconds(node.latency_ms / 1e3),
                symbol_price: nanoseconds(seconds).max(1),
            })
        };
        let have = Offers(segment.iter().enumerate().map(offer).collect());
        self.code.plan(wanted, &have).map_err(|error| error.to_string())
    }

    /// All nodes send at the same time; the client receives what its link carries.
    fn elapsed(&self, plan: &Plan, segment: &[usize], symbol_bytes: f64) -> f64 {
        let mut bytes: BTreeMap<usize, f64> = BTreeMap::new();
        for read in &plan.reads {
            *bytes.entry(segment[read.shard]).or_default() += symbol_bytes;
        }
        let seconds = |(&node, bytes): (&usize, &f64)| {
            self.nodes[node].latency_ms / 1e3 + bytes / self.nodes[node].bytes_per_second
        };
        let slowest = bytes.iter().map(seconds).fold(0.0, f64::max);
        slowest.max(bytes.values().sum::<f64>() / self.needs.client_bytes_per_second)
    }

    /// `sent` is what each node sends for a byte of a lost shard, in the mean over places and lost shards.
    fn repair(&self, sent: &[f64]) -> Repair {
        let (node_count, share) = (self.nodes.len() as f64, self.needs.repair_share);
        // The lost node itself sends nothing; each node is that one in turn.
        let bytes = |sent: f64| sent * self.node_bytes * node_count / (node_count - 1.0).max(1.0);
        let seconds = |(node, sent): (&Node, &f64)| bytes(*sent) / (node.bytes_per_second * share);
        let price = |(node, sent): (&Node, &f64)| sent * self.node_bytes * node.price_per_gib_read / GIB;
        let received_per_byte: f64 = sent.iter().sum();
        // Without a domain to spare, the others of the lost node's domain take its place, or the one that replaces it.
        let others = if self.domain_count > self.code.shape().n {
            node_count - 1.0
        } else {
            node_count / self.domain_count as f64 - 1.0
        };
        let writers = others.max(1.0);
        let speed = self.places.mean(self.nodes, |node| node.bytes_per_second);
        Repair {
            received_per_byte,
            bytes: received_per_byte * self.node_bytes,
            price: self.nodes.iter().zip(sent).map(price).sum(),
            sending_seconds: self.nodes.iter().zip(sent).map(seconds).fold(0.0, f64::max),
            receiving_seconds: received_per_byte * self.node_bytes / (self.needs.client_bytes_per_second * share),
            writing_seconds: self.node_bytes / (writers * speed * share),
        }
    }
}

fn nanoseconds(seconds: f64) -> u64 {
    (seconds * 1e9).round() as u64
}
