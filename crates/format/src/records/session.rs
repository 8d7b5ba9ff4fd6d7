//! Who has a volume mounted.

use super::{RecordError, VERSION, decode_message, sixteen};
use crate::ids::SessionId;
use prost::Message as _;

const WHAT: &str = "session";

/// One mount (or other long-lived opener) of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionRecord {
    /// Random, so that a process id used again is not taken for the same session.
    pub session: SessionId,
    /// The machine's host name.
    pub host: String,
    /// The process on that machine.
    pub process_id: u32,
    /// Where it is mounted; empty for an opener that mounts nothing.
    pub mountpoint: String,
    /// When it began, milliseconds since the Unix epoch, by that machine's clock.
    pub started_ms: u64,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Message {
    #[prost(uint32, tag = "1")]
    version: u32,
    #[prost(bytes = "vec", tag = "2")]
    session: Vec<u8>,
    #[prost(string, tag = "3")]
    host: String,
    #[prost(uint32, tag = "4")]
    process_id: u32,
    #[prost(string, tag = "5")]
    mountpoint: String,
    #[prost(uint64, tag = "6")]
    started_ms: u64,
}

impl SessionRecord {
    /// Protocol-buffer bytes; FORMAT.md has the fields.
    pub fn encode(&self) -> Vec<u8> {
        Message {
            version: VERSION,
            session: self.session.to_bytes().to_vec(),
            host: self.host.clone(),
            process_id: self.process_id,
            mountpoint: self.mountpoint.clone(),
            started_ms: self.started_ms,
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
            session: SessionId::from_bytes(sixteen(WHAT, "the session id", &message.session)?),
            host: message.host,
            process_id: message.process_id,
            mountpoint: message.mountpoint,
            started_ms: message.started_ms,
        })
    }
}
