//! A directory's policy.

use super::{RecordError, VERSION, check_code, damaged, decode_message};
use prost::Message as _;

const WHAT: &str = "policy";

/// How what is written under a policy is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyRecord {
    /// Canonical spec of the code, e.g. `rs:4+2`.
    pub code: String,
    /// Shards beyond k that must be durable before a write is acknowledged; the rest is left to repair.
    pub write_margin: u16,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Message {
    #[prost(uint32, tag = "1")]
    version: u32,
    #[prost(string, tag = "2")]
    code: String,
    #[prost(uint32, tag = "3")]
    write_margin: u32,
}

impl PolicyRecord {
    /// Protocol-buffer bytes; FORMAT.md has the fields.
    pub fn encode(&self) -> Vec<u8> {
        Message { version: VERSION, code: self.code.clone(), write_margin: u32::from(self.write_margin) }
            .encode_to_vec()
    }

    /// The inverse of [`Self::encode`].
    ///
    /// # Errors
    /// Unknown version; a code that is no spec string.
    pub fn decode(bytes: &[u8]) -> Result<Self, RecordError> {
        let message: Message = decode_message(WHAT, bytes)?;
        check_code(WHAT, &message.code)?;
        let write_margin = u16::try_from(message.write_margin)
            .map_err(|_| damaged(WHAT, format!("a write margin of {} shards", message.write_margin)))?;
        Ok(Self { code: message.code, write_margin })
    }
}
