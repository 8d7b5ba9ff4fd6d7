//! A directory's policy.

use super::{RecordError, VERSION, check_code, damaged, decode_message};
use crate::geometry::MAX_SEGMENT_BYTES;
use crate::shard::FRAME_PAYLOAD_BYTES;
use prost::Message as _;
use std::ops::RangeInclusive;

const WHAT: &str = "policy";

/// How what is written under a policy is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyRecord {
    /// Canonical spec of the code, e.g. `rs:4+2`.
    pub code: String,
    /// Shards beyond those that decoding needs that must be durable before a write is acknowledged, whatever keeps the others from
    /// being stored. `None`: all but those of nodes that are away.
    pub write_margin: Option<u16>,
    /// What becomes of files that are left alone; `None`: they stay as they are.
    pub later: Option<Later>,
    /// How what is written is cut.
    pub sizes: Sizes,
}

/// Sizes that somebody chose; `None`: those that suit the code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// Data bytes of a full segment, within [`SEGMENT_BYTES`].
    pub segment_bytes: Option<u64>,
    /// Bytes of a shard in a full stripe, within [`CELL_BYTES`]; symbols take whole frames of it.
    pub cell_bytes: Option<u32>,
}

/// Data bytes that a full segment may have. Shorter ones cost their nodes more in files than in bytes.
pub const SEGMENT_BYTES: RangeInclusive<u64> = 1 << 20..=MAX_SEGMENT_BYTES;

/// Bytes that a full cell may have: a frame, and what the widest segment of a code with one data shard needs.
pub const CELL_BYTES: RangeInclusive<u32> = FRAME_PAYLOAD_BYTES as u32..=MAX_SEGMENT_BYTES as u32;

/// Another code for files of which no byte has changed for a while.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Later {
    /// Canonical spec of that code.
    pub code: String,
    /// After how many milliseconds.
    pub after_ms: u64,
}

/// How a segment is to be kept, going by the policies of all files with bytes in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// As it is.
    AsIs,
    /// Under this code.
    Code(String),
    /// Its files want unlike codes.
    Divided,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Message {
    #[prost(uint32, tag = "1")]
    version: u32,
    #[prost(string, tag = "2")]
    code: String,
    #[prost(uint32, optional, tag = "3")]
    write_margin: Option<u32>,
    #[prost(string, tag = "4")]
    later_code: String,
    #[prost(uint64, tag = "5")]
    later_after_ms: u64,
    #[prost(uint64, tag = "6")]
    segment_bytes: u64,
    #[prost(uint32, tag = "7")]
    cell_bytes: u32,
}

impl PolicyRecord {
    /// One code for good.
    pub fn of(code: impl Into<String>, write_margin: Option<u16>) -> Self {
        Self { code: code.into(), write_margin, later: None, sizes: Sizes::default() }
    }

    /// The code that suits bytes that last changed `age_ms` ago best.
    pub fn code_at(&self, age_ms: u64) -> &str {
        match &self.later {
            Some(later) if age_ms >= later.after_ms => &later.code,
            _ => &self.code,
        }
    }

    /// May they be kept under `code`? What has its later code already need not go back when its file changes elsewhere.
    pub fn allows(&self, code: &str, age_ms: u64) -> bool {
        self.code_at(age_ms) == code || self.later.as_ref().is_some_and(|later| later.code == code)
    }

    /// Protocol-buffer bytes; FORMAT.md has the fields.
    pub fn encode(&self) -> Vec<u8> {
        let (later_code, later_after_ms) = match &self.later {
            Some(later) => (later.code.clone(), later.after_ms),
            None => (String::new(), 0),
        };
        let (code, write_margin) = (self.code.clone(), self.write_margin.map(u32::from));
        let (segment_bytes, cell_bytes) = (self.sizes.segment_bytes.unwrap_or(0), self.sizes.cell_bytes.unwrap_or(0));
        Message { version: VERSION, code, write_margin, later_code, later_after_ms, segment_bytes, cell_bytes }
            .encode_to_vec()
    }

    /// The inverse of [`Self::encode`].
    ///
    /// # Errors
    /// Unknown version; a code that is no spec string; sizes beyond the limits.
    pub fn decode(bytes: &[u8]) -> Result<Self, RecordError> {
        let message: Message = decode_message(WHAT, bytes)?;
        check_code(WHAT, &message.code)?;
        let margin = |margin: u32| {
            u16::try_from(margin).map_err(|_| damaged(WHAT, format!("a write margin of {margin} shards")))
        };
        let write_margin = message.write_margin.map(margin).transpose()?;
        let later = match (message.later_code, message.later_after_ms) {
            (code, 0) if code.is_empty() => None,
            (code, after_ms) => {
                check_code(WHAT, &code)?;
                Some(Later { code, after_ms })
            }
        };
        let sizes = Sizes {
            segment_bytes: (message.segment_bytes > 0).then_some(message.segment_bytes),
            cell_bytes: (message.cell_bytes > 0).then_some(message.cell_bytes),
        };
        if sizes.segment_bytes.is_some_and(|bytes| !SEGMENT_BYTES.contains(&bytes)) {
            return Err(damaged(WHAT, format!("segments of {} bytes", message.segment_bytes)));
        }
        if sizes.cell_bytes.is_some_and(|bytes| !CELL_BYTES.contains(&bytes)) {
            return Err(damaged(WHAT, format!("cells of {} bytes", message.cell_bytes)));
        }
        Ok(Self { code: message.code, write_margin, later, sizes })
    }
}

/// How a segment with `code` is to be kept: `users` are the policies of its files, each with the milliseconds since bytes of such a
/// file last changed. Files of one policy go by the oldest of them.
pub fn wanted(code: &str, users: &[(PolicyRecord, u64)]) -> Wanted {
    let mut unhappy = users.iter().filter(|(policy, age_ms)| !policy.allows(code, *age_ms)).peekable();
    if unhappy.peek().is_none() {
        return Wanted::AsIs;
    }
    let all_allow = |code: &&str| users.iter().all(|(policy, age_ms)| policy.allows(code, *age_ms));
    let suits_all = unhappy.map(|(policy, age_ms)| policy.code_at(*age_ms)).find(all_allow);
    suits_all.map_or(Wanted::Divided, |code| Wanted::Code(code.to_owned()))
}
