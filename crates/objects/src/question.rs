//! What members are asked beyond their shards, and what they answer: values, and their bytes.

use crate::tree::Branch;
use serde::{Deserialize, Serialize};
use weft_format::records::{ObjectRecord, Stamp};
use weft_format::{Generation, SegmentId, ShardIndex, ShardKey};

/// What a member can be asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Question {
    /// What does it have of the names with this hash?
    Find {
        /// [`weft_format::records::name_hash`].
        hash: u64,
    },
    /// Which names that begin so does it know, after one?
    List {
        /// What they begin with.
        prefix: String,
        /// Names up to this one are left out.
        after: String,
        /// How many.
        limit: u32,
    },
    /// What does it know of names that both should hold?
    Compare {
        /// The id of the member that asks.
        asker: u128,
        /// Which branch of the tree.
        path: Vec<u8>,
    },
}

/// What it answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// To `Find`.
    Found(Found),
    /// To `List`.
    Listed(Listed),
    /// To `Compare`.
    Compared(Branch),
}

/// What a member has of a name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Found {
    /// Its records.
    pub records: Vec<FoundRecord>,
    /// Its shards of data.
    pub shards: Vec<FoundShard>,
}

/// A record that a member has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundRecord {
    /// Of which version.
    pub stamp: u64,
    /// The record's bytes, unless they are many: then they are to be fetched.
    pub record: Option<Vec<u8>>,
}

impl FoundRecord {
    /// Of which version.
    #[must_use]
    pub fn stamp(&self) -> Stamp {
        Stamp(self.stamp)
    }

    /// The record, if it came along and is one.
    #[must_use]
    pub fn decoded(&self) -> Option<ObjectRecord> {
        ObjectRecord::decode(self.record.as_ref()?).ok().filter(|record| record.stamp == self.stamp())
    }
}

/// A shard that a member has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundShard {
    segment: u128,
    generation: u32,
    index: u16,
}

impl FoundShard {
    /// That of this name.
    #[must_use]
    pub fn of(key: ShardKey) -> Self {
        Self { segment: key.segment.0, generation: key.generation.0, index: key.index.0 }
    }

    /// Its name.
    #[must_use]
    pub fn key(self) -> ShardKey {
        ShardKey {
            segment: SegmentId(self.segment),
            generation: Generation(self.generation),
            index: ShardIndex(self.index),
        }
    }
}

/// Names that a member knows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listed {
    /// In order, each with its newest version there.
    pub names: Vec<ListedName>,
    /// Are there more after the last?
    pub more: bool,
}

/// A name, and its newest version at a member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedName {
    /// The name.
    pub name: String,
    /// The version.
    pub stamp: u64,
    /// Length of its contents; `None`: it was removed.
    pub bytes: Option<u64>,
}

/// Bytes that are no question or answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is no message of an object store ({0}): see that all daemons and clients are of one version")]
pub struct MessageError(String);

macro_rules! message {
    ($name:ident) => {
        impl $name {
            /// Its bytes.
            #[must_use]
            pub fn encode(&self) -> Vec<u8> {
                postcard::to_allocvec(self).unwrap_or_default()
            }

            /// The inverse of [`Self::encode`].
            ///
            /// # Errors
            /// It is none.
            pub fn decode(bytes: &[u8]) -> Result<Self, MessageError> {
                let (message, rest) =
                    postcard::take_from_bytes(bytes).map_err(|error| MessageError(error.to_string()))?;
                match rest {
                    [] => Ok(message),
                    _ => Err(MessageError("it goes on behind its end".to_owned())),
                }
            }
        }
    };
}

message!(Question);
message!(Answer);
