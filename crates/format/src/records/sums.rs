//! How many segments there are of each code, their bytes, and how many of them have a shard on each node.

use super::{RecordError, SegmentRecord, check_code, damaged, decode_versions, sixteen};
use crate::ids::NodeId;
use prost::Message as _;
use std::collections::{BTreeMap, BTreeSet};

const WHAT: &str = "sums";

/// Version 1 does not say which nodes the segments are on.
const VERSION: u32 = 2;

/// Bytes of a node's id.
const NODE_BYTES: usize = 16;

/// What some segments add up to, or what changes of them do: so every number may be below 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SegmentSum {
    /// Segments.
    pub segment_count: i64,
    /// Bytes of data in them.
    pub data_bytes: i64,
    /// Bytes of their shards where all are stored.
    pub stored_bytes: i64,
    /// Those with several shards on one node.
    pub doubled_count: i64,
    /// Those with a shard on the node, by node; none of them is 0.
    pub on_node: BTreeMap<NodeId, i64>,
}

impl SegmentSum {
    /// Of one segment.
    pub fn of(record: &SegmentRecord) -> Self {
        let bytes = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
        let nodes: BTreeSet<NodeId> = record.nodes().collect();
        Self {
            segment_count: 1,
            data_bytes: bytes(record.geometry.data_bytes),
            stored_bytes: bytes(record.shard_bytes().saturating_mul(record.shards.len() as u64)),
            doubled_count: (nodes.len() < record.nodes().count()).into(),
            on_node: nodes.into_iter().map(|node| (node, 1)).collect(),
        }
    }

    /// Adds another; `None`: a number is beyond what it can be.
    fn add(&mut self, other: &Self) -> Option<()> {
        self.segment_count = self.segment_count.checked_add(other.segment_count)?;
        self.data_bytes = self.data_bytes.checked_add(other.data_bytes)?;
        self.stored_bytes = self.stored_bytes.checked_add(other.stored_bytes)?;
        self.doubled_count = self.doubled_count.checked_add(other.doubled_count)?;
        for (node, count) in &other.on_node {
            let both = self.on_node.entry(*node).or_default();
            *both = both.checked_add(*count)?;
        }
        self.on_node.retain(|_, count| *count != 0);
        Some(())
    }

    fn negated(self) -> Self {
        Self {
            segment_count: -self.segment_count,
            data_bytes: -self.data_bytes,
            stored_bytes: -self.stored_bytes,
            doubled_count: -self.doubled_count,
            on_node: self.on_node.into_iter().map(|(node, count)| (node, -count)).collect(),
        }
    }
}

/// Sums by code.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SumsRecord {
    /// None of them is nothing.
    codes: BTreeMap<String, SegmentSum>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Message {
    #[prost(uint32, tag = "1")]
    version: u32,
    #[prost(message, repeated, tag = "2")]
    sums: Vec<SumMessage>,
    /// Their ids, one after the other: in a list each would take two bytes more.
    #[prost(bytes = "vec", tag = "3")]
    nodes: Vec<u8>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct SumMessage {
    #[prost(string, tag = "1")]
    code: String,
    #[prost(sint64, tag = "2")]
    segment_count: i64,
    #[prost(sint64, tag = "3")]
    data_bytes: i64,
    #[prost(sint64, tag = "4")]
    stored_bytes: i64,
    #[prost(sint64, tag = "5")]
    doubled_count: i64,
    /// For each of the nodes.
    #[prost(sint64, repeated, tag = "6")]
    on_node: Vec<i64>,
}

impl SumsRecord {
    /// By code, ascending; none of them is nothing.
    pub fn by_code(&self) -> impl Iterator<Item = (&str, &SegmentSum)> {
        self.codes.iter().map(|(code, sum)| (code.as_str(), sum))
    }

    /// The nodes that any segment counts for.
    pub fn nodes(&self) -> BTreeSet<NodeId> {
        self.codes.values().flat_map(|sum| sum.on_node.keys().copied()).collect()
    }

    /// Do they say that there is nothing, or that nothing changed?
    pub fn is_empty(&self) -> bool {
        self.codes.is_empty()
    }

    /// One segment more.
    pub fn add(&mut self, record: &SegmentRecord) {
        self.change(&record.code, SegmentSum::of(record));
    }

    /// One segment less.
    pub fn subtract(&mut self, record: &SegmentRecord) {
        self.change(&record.code, SegmentSum::of(record).negated());
    }

    fn change(&mut self, code: &str, by: SegmentSum) {
        let sum = self.codes.entry(code.to_owned()).or_default();
        // Nothing is beyond what it can be: 2^63 bytes of segments do not exist.
        let _ = sum.add(&by);
        if *sum == SegmentSum::default() {
            self.codes.remove(code);
        }
    }

    /// Both together; `None`: a number is beyond what it can be.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Option<Self> {
        let mut codes = self.codes.clone();
        for (code, sum) in &other.codes {
            codes.entry(code.clone()).or_default().add(sum)?;
        }
        codes.retain(|_, sum| *sum != SegmentSum::default());
        Some(Self { codes })
    }

    /// Protocol-buffer bytes; FORMAT.md has the fields.
    pub fn encode(&self) -> Vec<u8> {
        let nodes = self.nodes();
        let sum = |(code, sum): (&String, &SegmentSum)| SumMessage {
            code: code.clone(),
            segment_count: sum.segment_count,
            data_bytes: sum.data_bytes,
            stored_bytes: sum.stored_bytes,
            doubled_count: sum.doubled_count,
            on_node: nodes.iter().map(|node| sum.on_node.get(node).copied().unwrap_or(0)).collect(),
        };
        Message {
            version: VERSION,
            sums: self.codes.iter().map(sum).collect(),
            nodes: nodes.iter().flat_map(|node| node.to_bytes()).collect(),
        }
        .encode_to_vec()
    }

    /// The inverse of [`Self::encode`].
    ///
    /// # Errors
    /// Unknown version; what cannot be a code or a node's id; sums or nodes that are out of order, or are nothing.
    pub fn decode(bytes: &[u8]) -> Result<Self, RecordError> {
        let message: Message = decode_versions(WHAT, VERSION, bytes)?;
        if message.version < VERSION {
            return Err(RecordError::UnknownVersion { what: WHAT, version: message.version, newest: VERSION });
        }
        let nodes = message.nodes.chunks(NODE_BYTES).map(|id| Ok(NodeId::from_bytes(sixteen(WHAT, "a node id", id)?)));
        let nodes: Vec<NodeId> = nodes.collect::<Result<_, _>>()?;
        if !nodes.is_sorted_by(|node, next| node < next) {
            return Err(damaged(WHAT, "nodes are out of order"));
        }
        let mut sums = Self::default();
        for message in message.sums {
            let SumMessage { code, segment_count, data_bytes, stored_bytes, doubled_count, on_node } = message;
            check_code(WHAT, &code)?;
            if on_node.len() != nodes.len() {
                return Err(damaged(WHAT, format!("{code} counts for {} nodes of {}", on_node.len(), nodes.len())));
            }
            let on_node = nodes.iter().copied().zip(on_node).filter(|(_, count)| *count != 0).collect();
            let sum = SegmentSum { segment_count, data_bytes, stored_bytes, doubled_count, on_node };
            let is_next = sums.codes.last_key_value().is_none_or(|(last, _)| *last < code);
            if !is_next || sum == SegmentSum::default() {
                return Err(damaged(WHAT, format!("the sums of {code} are out of order, or are nothing")));
            }
            sums.codes.insert(code, sum);
        }
        if sums.nodes().len() != nodes.len() {
            return Err(damaged(WHAT, "a node that nothing counts for"));
        }
        Ok(sums)
    }
}

#[cfg(test)]
#[path = "sums_tests.rs"]
mod tests;
