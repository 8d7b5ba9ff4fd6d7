//! What metadata knows of a node.

use super::{RecordError, VERSION, damaged, decode_message};
use prost::Message as _;
use std::fmt;

const WHAT: &str = "node";

/// Whether a node takes new shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeState {
    /// Reads and writes.
    Active,
    /// Reads only: it keeps what it holds.
    ReadOnly,
    /// Reads only: shards are being moved away.
    Draining,
    /// Its folder or device was given up; what it held is to be rebuilt elsewhere.
    Lost,
}

impl NodeState {
    /// Is what it holds to be elsewhere, so that it is forgotten once nothing is left?
    pub fn is_leaving(self) -> bool {
        matches!(self, Self::Draining | Self::Lost)
    }
}

/// What proves to a node that it is this volume that asks; empty where none is needed. Never shown, not by `Debug` either.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secret(pub Vec<u8>);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() { "Secret(none)" } else { "Secret(not shown)" })
    }
}

/// How much each user asks a node at most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeLimits {
    /// Requests under way at one time; 0: no limit.
    pub requests: u32,
    /// Shard bytes sent and received; 0: no limit.
    pub bytes_per_second: u64,
}

/// What metadata knows of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeRecord {
    /// The user's name for it, unique in the volume.
    pub name: String,
    /// Where it is: a URL; folders are `file:///absolute/path`.
    pub url: String,
    /// Does it take new shards?
    pub state: NodeState,
    /// What fails together: `host`, `rack`, ... innermost last; by default the node itself is its domain.
    pub domain: String,
    /// Relative weight for placement; by default the node's capacity in GiB, at least 1.
    pub weight: u64,
    /// What the node asks of its users; for a daemon with a key, its 32 bytes.
    pub secret: Secret,
    /// What it is spared.
    pub limits: NodeLimits,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Message {
    #[prost(uint32, tag = "1")]
    version: u32,
    #[prost(string, tag = "2")]
    name: String,
    #[prost(string, tag = "3")]
    url: String,
    #[prost(uint32, tag = "4")]
    state: u32,
    #[prost(string, tag = "5")]
    domain: String,
    #[prost(uint64, tag = "6")]
    weight: u64,
    #[prost(bytes = "vec", tag = "7")]
    secret: Vec<u8>,
    #[prost(uint32, tag = "8")]
    requests_max: u32,
    #[prost(uint64, tag = "9")]
    bytes_per_second_max: u64,
}

impl NodeRecord {
    /// An active node at `url` that is a failure domain of its own, with a weight of 1.
    #[must_use]
    pub fn of(name: impl Into<String>, url: impl Into<String>) -> Self {
        let name = name.into();
        Self {
            domain: name.clone(),
            name,
            url: url.into(),
            state: NodeState::Active,
            weight: 1,
            secret: Secret::default(),
            limits: NodeLimits::default(),
        }
    }

    /// Protocol-buffer bytes; FORMAT.md has the fields.
    pub fn encode(&self) -> Vec<u8> {
        // From 1: a state left out (0) must not mean Active.
        let state = match self.state {
            NodeState::Active => 1,
            NodeState::Draining => 2,
            NodeState::Lost => 3,
            NodeState::ReadOnly => 4,
        };
        Message {
            version: VERSION,
            name: self.name.clone(),
            url: self.url.clone(),
            state,
            domain: self.domain.clone(),
            weight: self.weight,
            secret: self.secret.0.clone(),
            requests_max: self.limits.requests,
            bytes_per_second_max: self.limits.bytes_per_second,
        }
        .encode_to_vec()
    }

    /// The inverse of [`Self::encode`].
    ///
    /// # Errors
    /// Unknown version; a state that does not exist.
    pub fn decode(bytes: &[u8]) -> Result<Self, RecordError> {
        let message: Message = decode_message(WHAT, bytes)?;
        let state = match message.state {
            1 => NodeState::Active,
            2 => NodeState::Draining,
            3 => NodeState::Lost,
            4 => NodeState::ReadOnly,
            other => return Err(damaged(WHAT, format!("state {other} does not exist"))),
        };
        let Message { name, url, domain, weight, secret, requests_max, bytes_per_second_max, .. } = message;
        let limits = NodeLimits { requests: requests_max, bytes_per_second: bytes_per_second_max };
        Ok(Self { name, url, state, domain, weight, secret: Secret(secret), limits })
    }
}
