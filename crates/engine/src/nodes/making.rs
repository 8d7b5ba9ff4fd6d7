//! Making a place a node of the volume: `note its id -> make the place -> take it into the table`.
//!
//! The note stays. It identifies a place whose process died before the node was in the table, and a place that was emptied and has left the
//! table. The next process that makes a node there continues with it.

use super::with_names;
use crate::error::EngineError;
use crate::runtime::runtime;
use serde::{Deserialize, Serialize};
use weft_format::NodeId;
use weft_format::records::Secret;
use weft_meta::{MetaError, Store};
use weft_nodes::{NodeAt, NodeIdentity, NodeUrl, Space};

/// A place of which a node was made; kept among the states of jobs, by address.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Begun {
    version: u32,
    /// The node's id, as text.
    node: String,
}

const VERSION: u32 = 1;

/// Makes an empty place, or an unfinished one that is in no table, a node of this volume.
///
/// # Errors
/// [`EngineError::Place`]: it is a node already, or cannot be made one.
pub fn create(store: &Store, name: &str, url: &NodeUrl, secret: &Secret) -> Result<(NodeId, Space), EngineError> {
    let nodes = store.nodes()?;
    let (kinds, runtime) = (crate::kinds(), runtime()?);
    let volume = store.volume().volume;
    let at = |node| NodeAt { url, name, identity: NodeIdentity { volume, node }, secret };
    let owner = |id: NodeId| nodes.iter().find(|(known, _)| *known == id).map(|(_, record)| &record.name);
    let noted = begun(store, url)?;
    if let Some(id) = noted
        && let Ok(space) = runtime.block_on(async { kinds.open(&at(id))?.space().await })
    {
        // The note stays true, also when the node has left.
        return match owner(id) {
            Some(owner) => {
                Err(EngineError::Place(format!("{url} is node {owner} of this volume already: give another place")))
            }
            None => Ok((id, space)),
        };
    }
    let id = match noted.filter(|id| owner(*id).is_none()) {
        Some(id) => id,
        None => {
            let id = NodeId(store.env().rng.next_u128());
            let note = encode(id).map_err(|error| EngineError::Place(error.to_string()))?;
            store.set_job(&key(url), Some(&note))?;
            store.flush()?;
            id
        }
    };
    let made = async { kinds.create(&at(id)).await?.space().await };
    match runtime.block_on(made) {
        Ok(space) => Ok((id, space)),
        Err(error) => Err(EngineError::Place(with_names(&nodes, error.to_string()))),
    }
}

fn key(url: &NodeUrl) -> String {
    format!("node-at:{url}")
}

/// The unfinished node there. A note that cannot be read counts as none: then the place says which node it is.
fn begun(store: &Store, url: &NodeUrl) -> Result<Option<NodeId>, MetaError> {
    Ok(store.job(&key(url))?.and_then(|bytes| decode(&bytes)))
}

fn encode(node: NodeId) -> serde_json::Result<Vec<u8>> {
    serde_json::to_vec(&Begun { version: VERSION, node: node.to_string() })
}

fn decode(note: &[u8]) -> Option<NodeId> {
    let note: Begun = serde_json::from_slice(note).ok()?;
    (note.version == VERSION).then(|| note.node.parse().ok()).flatten()
}

/// The note of a place of which a node is made.
#[cfg(feature = "fuzzing")]
pub(crate) fn check_note(bytes: &[u8]) {
    if let Some(node) = decode(bytes) {
        assert_eq!(decode(&encode(node).expect("numbers and text are always JSON")), Some(node));
    }
}

#[cfg(feature = "fuzzing")]
pub(crate) fn note_seed() -> Vec<u8> {
    encode(NodeId(5)).expect("numbers and text are always JSON")
}

#[cfg(test)]
#[path = "making_tests.rs"]
mod tests;
