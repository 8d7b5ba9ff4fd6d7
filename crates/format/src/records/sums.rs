//! How many segments there are of each code, and their bytes.

use super::{RecordError, SegmentRecord, VERSION, check_code, damaged, decode_message};
use prost::Message as _;
use std::collections::{BTreeMap, BTreeSet};

const WHAT: &str = "sums";

/// What some segments add up to, or what changes of them do: so every number may be below 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SegmentSum {
    /// Segments.
    pub segment_count: i64,
    /// Bytes of data in them.
    pub data_bytes: i64,
    /// Bytes of their shards where all are stored.
    pub stored_bytes: i64,
    /// Those with several shards on one node.
    pub doubled_count: i64,
}

impl SegmentSum {
    /// Of one segment.
    pub fn of(record: &SegmentRecord) -> Self {
        let bytes = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
        let mut nodes = BTreeSet::new();
        let is_doubled = record.nodes().any(|node| !nodes.insert(node));
        Self {
            segment_count: 1,
            data_bytes: bytes(record.geometry.data_bytes),
            stored_bytes: bytes(record.shard_bytes().saturating_mul(record.shards.len() as u64)),
            doubled_count: is_doubled.into(),
        }
    }

    /// Both together; `None`: a number is beyond what it can be.
    fn plus(self, other: Self) -> Option<Self> {
        Some(Self {
            segment_count: self.segment_count.checked_add(other.segment_count)?,
            data_bytes: self.data_bytes.checked_add(other.data_bytes)?,
            stored_bytes: self.stored_bytes.checked_add(other.stored_bytes)?,
            doubled_count: self.doubled_count.checked_add(other.doubled_count)?,
        })
    }

    fn negated(self) -> Self {
        Self {
            segment_count: -self.segment_count,
            data_bytes: -self.data_bytes,
            stored_bytes: -self.stored_bytes,
            doubled_count: -self.doubled_count,
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
}

impl SumsRecord {
    /// By code, ascending; none of them is nothing.
    pub fn by_code(&self) -> impl Iterator<Item = (&str, SegmentSum)> {
        self.codes.iter().map(|(code, sum)| (code.as_str(), *sum))
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
        // Of segments: 2^63 bytes of them do not exist.
        *sum = sum.plus(by).unwrap_or(*sum);
        if *sum == SegmentSum::default() {
            self.codes.remove(code);
        }
    }

    /// Both together; `None`: a number is beyond what it can be.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Option<Self> {
        let mut codes = self.codes.clone();
        for (code, sum) in &other.codes {
            let both = codes.entry(code.clone()).or_default();
            *both = both.plus(*sum)?;
        }
        codes.retain(|_, sum| *sum != SegmentSum::default());
        Some(Self { codes })
    }

    /// Protocol-buffer bytes; FORMAT.md has the fields.
    pub fn encode(&self) -> Vec<u8> {
        let sum = |(code, sum): (&String, &SegmentSum)| SumMessage {
            code: code.clone(),
            segment_count: sum.segment_count,
            data_bytes: sum.data_bytes,
            stored_bytes: sum.stored_bytes,
            doubled_count: sum.doubled_count,
        };
        Message { version: VERSION, sums: self.codes.iter().map(sum).collect() }.encode_to_vec()
    }

    /// The inverse of [`Self::encode`].
    ///
    /// # Errors
    /// Unknown version; what cannot be a code; sums that are not in the order of codes, or are nothing.
    pub fn decode(bytes: &[u8]) -> Result<Self, RecordError> {
        let message: Message = decode_message(WHAT, bytes)?;
        let mut codes = BTreeMap::new();
        for SumMessage { code, segment_count, data_bytes, stored_bytes, doubled_count } in message.sums {
            check_code(WHAT, &code)?;
            let sum = SegmentSum { segment_count, data_bytes, stored_bytes, doubled_count };
            let is_next = codes.last_key_value().is_none_or(|(last, _)| *last < code);
            if !is_next || sum == SegmentSum::default() {
                return Err(damaged(WHAT, format!("the sums of {code} are out of order, or are nothing")));
            }
            codes.insert(code, sum);
        }
        Ok(Self { codes })
    }
}

#[cfg(test)]
#[path = "sums_tests.rs"]
mod tests;
