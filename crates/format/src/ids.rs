//! Ids are types, not integers, so that one cannot be taken for another.

use std::fmt;
use std::str::FromStr;

/// A text that is not an id.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("`{text}` is not {what}")]
pub struct ParseIdError {
    text: String,
    what: &'static str,
}

macro_rules! hex_id {
    ($(#[$doc:meta])* $name:ident, $what:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub u128);

        impl $name {
            /// Big-endian, so that byte order is number order.
            pub fn to_bytes(self) -> [u8; 16] {
                self.0.to_be_bytes()
            }

            /// The inverse of [`Self::to_bytes`].
            pub fn from_bytes(bytes: [u8; 16]) -> Self {
                Self(u128::from_be_bytes(bytes))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:032x}", self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({:032x})"), self.0)
            }
        }

        impl FromStr for $name {
            type Err = ParseIdError;
            fn from_str(text: &str) -> Result<Self, ParseIdError> {
                let wrong = || ParseIdError { text: text.chars().take(64).collect(), what: $what };
                let lower_hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
                if text.len() != 32 || !text.bytes().all(lower_hex) {
                    return Err(wrong());
                }
                u128::from_str_radix(text, 16).map(Self).map_err(|_| wrong())
            }
        }
    };
}

hex_id!(
    /// One file system: its metadata, its nodes, its policies. Random.
    VolumeId,
    "a volume id (32 lower-case hex digits)"
);
hex_id!(
    /// One place that stores shards. Random, written into the node's identity file when the node joins a volume.
    NodeId,
    "a node id (32 lower-case hex digits)"
);
hex_id!(
    /// A run of bytes encoded and placed together. Time in milliseconds (48 bits), the number of the volume's opening (32), a
    /// count within it (32) and random bits (16): never reused, and byte order is roughly age.
    SegmentId,
    "a segment id (32 lower-case hex digits)"
);

impl SegmentId {
    /// Counts from here on are random numbers: of segments that workers made, which count nothing together.
    pub const OF_WORKERS: u32 = 0xff00_0000;

    /// The id of a segment made at `now_ms` (milliseconds since the Unix epoch) with `low` bits after that.
    pub fn new(now_ms: u64, low: u128) -> Self {
        Self((u128::from(now_ms) << 80) | (low & ((1 << 80) - 1)))
    }

    /// That of the segment of this count, below [`Self::OF_WORKERS`], of an opening.
    pub fn of_opening(now_ms: u64, opening: u32, count: u32, random: u16) -> Self {
        Self::new(now_ms, (u128::from(opening) << 48) | (u128::from(count) << 16) | u128::from(random))
    }

    /// That of a segment which a worker made while this was the latest opening. Of the random bits 40 count.
    pub fn of_worker(now_ms: u64, opening: u32, random: u64) -> Self {
        let count = Self::OF_WORKERS | (random >> 16) as u32 & !Self::OF_WORKERS;
        Self::of_opening(now_ms, opening, count, random as u16)
    }

    /// The opening in which it was made.
    pub fn opening(self) -> u32 {
        (self.0 >> 48) as u32
    }

    /// Its count in the opening; from [`Self::OF_WORKERS`] on it is a worker's.
    pub fn count(self) -> u32 {
        (self.0 >> 16) as u32
    }

    /// When the segment was made, in milliseconds since the Unix epoch.
    pub fn created_ms(self) -> u64 {
        (self.0 >> 80) as u64
    }
}

/// In a shard's name: the attempt that stored it. The first write of a segment is [`Generation::FIRST`]; every later attempt to store
/// shards of it (a rebuild, a move, a conversion) draws a random number, so that no two attempts store under one name, whichever
/// of them is late, killed or repeated. In a segment's record: how often the record was replaced, counted from the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Generation(pub u32);

impl Generation {
    /// Of what is stored first; 0 is what a missing field decodes as.
    pub const FIRST: Generation = Generation(1);
}

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Which of a segment's n shards; 0-based.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ShardIndex(pub u16);

impl ShardIndex {
    /// As an index into a slice of n.
    pub fn as_usize(self) -> usize {
        usize::from(self.0)
    }
}

impl fmt::Display for ShardIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A file's number in its volume; 1 is the root directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ino(pub u64);

impl Ino {
    /// The root directory.
    pub const ROOT: Ino = Ino(1);
}

impl fmt::Display for Ino {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A policy's number in its volume; 0 is the volume's default policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PolicyId(pub u32);

/// The name of one immutable object on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ShardKey {
    /// The segment.
    pub segment: SegmentId,
    /// Under which generation the shard was written.
    pub generation: Generation,
    /// Which of the n shards.
    pub index: ShardIndex,
}

impl fmt::Display for ShardKey {
    /// `<segment>.<generation>.<index>`: what a folder node calls the file and what a person sees in messages.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.segment, self.generation, self.index)
    }
}

impl FromStr for ShardKey {
    type Err = ParseIdError;
    fn from_str(text: &str) -> Result<Self, ParseIdError> {
        let parse = || {
            let mut parts = text.split('.');
            let segment = parts.next()?.parse().ok()?;
            let generation = Generation(parts.next()?.parse().ok()?);
            let index = ShardIndex(parts.next()?.parse().ok()?);
            let key = ShardKey { segment, generation, index };
            // Only the canonical form: `+1` and `01` would let two names mean one shard.
            (parts.next().is_none() && key.to_string() == text).then_some(key)
        };
        parse().ok_or_else(|| ParseIdError {
            text: text.chars().take(64).collect(),
            what: "a shard name (<segment>.<generation>.<index>)",
        })
    }
}
