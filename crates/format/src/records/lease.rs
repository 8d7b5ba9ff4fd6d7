//! Who alone may do what a name stands for, for now.

use super::{RecordError, VERSION, decode_message};
use prost::Message as _;

const WHAT: &str = "lease";

/// A lease. There is no time in it, so that no clock can be wrong: its holder counts `beat` up, and others take it over when it
/// has not changed for `ttl_ms` of their own clocks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeaseRecord {
    /// Rises with every new holder and never falls: what is done under an older one is refused.
    pub term: u64,
    /// Who has it, as a person would say it; empty: nobody.
    pub holder: String,
    /// Counts the holder's signs of life.
    pub beat: u64,
    /// How long without one it stays the holder's.
    pub ttl_ms: u32,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Message {
    #[prost(uint32, tag = "1")]
    version: u32,
    #[prost(uint64, tag = "2")]
    term: u64,
    #[prost(string, tag = "3")]
    holder: String,
    #[prost(uint64, tag = "4")]
    beat: u64,
    #[prost(uint32, tag = "5")]
    ttl_ms: u32,
}

impl LeaseRecord {
    /// Protocol-buffer bytes; FORMAT.md has the fields.
    pub fn encode(&self) -> Vec<u8> {
        let Self { term, holder, beat, ttl_ms } = self.clone();
        Message { version: VERSION, term, holder, beat, ttl_ms }.encode_to_vec()
    }

    /// The inverse of [`Self::encode`].
    ///
    /// # Errors
    /// Unknown version.
    pub fn decode(bytes: &[u8]) -> Result<Self, RecordError> {
        let Message { term, holder, beat, ttl_ms, .. } = decode_message(WHAT, bytes)?;
        Ok(Self { term, holder, beat, ttl_ms })
    }
}
