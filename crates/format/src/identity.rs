//! Who a node is, as its identity file says: small JSON, since people open it to see what a folder is.

use crate::ids::{NodeId, VolumeId};
use crate::records::RecordError;
use serde::{Deserialize, Serialize};

const WHAT: &str = "node identity";
const VERSION: u32 = 1;

/// Longest identity file that is looked at.
pub const MAX_IDENTITY_BYTES: usize = 4096;

/// Who a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NodeIdentity {
    /// The volume it belongs to.
    pub volume: VolumeId,
    /// Its id within the volume.
    pub node: NodeId,
}

#[derive(Deserialize)]
struct VersionOnly {
    weft_node_version: u32,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    weft_node_version: u32,
    volume: String,
    node: String,
}

impl NodeIdentity {
    /// The identity file's text.
    pub fn encode(&self) -> String {
        let (volume, node) = (self.volume.to_string(), self.node.to_string());
        let file = File { weft_node_version: VERSION, volume, node };
        let mut text = serde_json::to_string_pretty(&file).expect("a number and two strings are JSON");
        text.push('\n');
        text
    }

    /// The inverse of [`Self::encode`].
    ///
    /// # Errors
    /// Unknown version; not an identity file.
    pub fn decode(bytes: &[u8]) -> Result<Self, RecordError> {
        let damaged = |detail: String| RecordError::Damaged { what: WHAT, detail };
        if bytes.len() > MAX_IDENTITY_BYTES {
            return Err(damaged(format!("{} bytes, more than {MAX_IDENTITY_BYTES}", bytes.len())));
        }
        let version: VersionOnly = serde_json::from_slice(bytes).map_err(|error| damaged(error.to_string()))?;
        if version.weft_node_version != VERSION {
            return Err(RecordError::UnknownVersion {
                what: WHAT,
                version: version.weft_node_version,
                newest: VERSION,
            });
        }
        let file: File = serde_json::from_slice(bytes).map_err(|error| damaged(error.to_string()))?;
        Ok(Self {
            volume: file.volume.parse().map_err(|error: crate::ids::ParseIdError| damaged(error.to_string()))?,
            node: file.node.parse().map_err(|error: crate::ids::ParseIdError| damaged(error.to_string()))?,
        })
    }
}
