//! The volume itself.

use super::{RecordError, VERSION, decode_message, sixteen};
use crate::ids::{PolicyId, VolumeId};
use prost::Message as _;

const WHAT: &str = "volume";

/// What a volume is: the first thing read when it is opened. Its version is the version of the whole metadata schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeRecord {
    /// Its id; every node and every shard of the volume carries it.
    pub volume: VolumeId,
    /// When it was made, milliseconds since the Unix epoch.
    pub created_ms: u64,
    /// The policy of the root directory and of all that names no other.
    pub default_policy: PolicyId,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Message {
    #[prost(uint32, tag = "1")]
    version: u32,
    #[prost(bytes = "vec", tag = "2")]
    volume: Vec<u8>,
    #[prost(uint64, tag = "3")]
    created_ms: u64,
    #[prost(uint32, tag = "4")]
    default_policy: u32,
}

impl VolumeRecord {
    /// Protocol-buffer bytes; FORMAT.md has the fields.
    pub fn encode(&self) -> Vec<u8> {
        Message {
            version: VERSION,
            volume: self.volume.to_bytes().to_vec(),
            created_ms: self.created_ms,
            default_policy: self.default_policy.0,
        }
        .encode_to_vec()
    }

    /// The inverse of [`Self::encode`].
    ///
    /// # Errors
    /// Unknown version; an id of the wrong length.
    pub fn decode(bytes: &[u8]) -> Result<Self, RecordError> {
        let message: Message = decode_message(WHAT, bytes)?;
        Ok(Self {
            volume: VolumeId::from_bytes(sixteen(WHAT, "the volume id", &message.volume)?),
            created_ms: message.created_ms,
            default_policy: PolicyId(message.default_policy),
        })
    }
}
