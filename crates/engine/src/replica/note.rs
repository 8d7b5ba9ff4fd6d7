//! How far the replica is: a note beside the metadata, for `weft status`. It says nothing that nodes do not say, and costs no look at them.

use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use weft_meta::kv::Changes;
use weft_meta::{MetaError, MetaUrl, Store, is_passing};

/// Keys are counted up to this number.
const COUNT_LIMIT: usize = 100_000;

/// What the keeper of the replica noted last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Note {
    /// Whose transactions are counted.
    pub lineage: u64,
    /// Nodes have everything up to this transaction.
    pub upto: u64,
    /// When that was so, in milliseconds since the Unix epoch.
    pub at_ms: u64,
    /// Why nodes do not have more.
    pub failure: Option<String>,
    /// The nodes that have it, by the text of their ids.
    pub nodes: BTreeSet<String>,
}

/// How far the replica of the metadata on nodes is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ReplicaStatus {
    /// Nodes have the metadata as it was then, in milliseconds since the Unix epoch; missing: they have none.
    pub at_ms: Option<u64>,
    /// Keys changed since, 100,000 at most.
    pub missing_keys: u64,
    /// Why the nodes do not have more, if a mount has said so.
    pub failure: Option<String>,
}

impl Note {
    /// Beside the metadata. Who cannot write there leaves it.
    pub fn write(&self, meta: &MetaUrl) {
        if let Err(error) = std::fs::write(file(meta), self.encode()) {
            tracing::debug!(%error, "how far the replica of the metadata is cannot be noted");
        }
    }

    fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    fn decode(text: &[u8]) -> Option<Self> {
        serde_json::from_slice(text).ok()
    }
}

/// A note.
#[cfg(feature = "fuzzing")]
pub(crate) fn check_note(text: &[u8]) {
    if let Some(note) = Note::decode(text) {
        assert_eq!(Note::decode(&note.encode()), Some(note));
    }
}

#[cfg(feature = "fuzzing")]
pub(crate) fn note_seed() -> Vec<u8> {
    let nodes = BTreeSet::from(["00000000000000000000000000000002".to_owned()]);
    Note { lineage: 1, upto: 2, at_ms: 3, failure: Some("why".to_owned()), nodes }.encode()
}

fn file(meta: &MetaUrl) -> std::path::PathBuf {
    meta.note_file("-replica")
}

/// How far it is; `None`: the engine of this volume keeps its copies itself.
///
/// # Errors
/// Metadata cannot be read.
pub(crate) fn replica_status(store: &Store, meta: &MetaUrl) -> Result<Option<ReplicaStatus>, MetaError> {
    let Some(history) = store.history() else { return Ok(None) };
    let lineage = history.lineage()?;
    let text = std::fs::read(file(meta)).unwrap_or_default();
    let note = Note::decode(&text).filter(|note| note.lineage == lineage);
    let none = ReplicaStatus { at_ms: None, missing_keys: COUNT_LIMIT as u64, failure: None };
    let Some(note) = note else { return Ok(Some(none)) };
    let count = |changes: Changes| changes.slots.iter().filter(|(key, _)| !is_passing(key)).count();
    let missing = |changes: Option<Changes>| changes.map_or(COUNT_LIMIT, count);
    let missing_keys = missing(history.changes_after(note.upto, COUNT_LIMIT)?);
    let at_ms = (note.upto > 0).then_some(note.at_ms);
    let nodes: BTreeSet<String> = store.nodes()?.into_iter().map(|(id, _)| id.to_string()).collect();
    let left_count = note.nodes.difference(&nodes).count();
    let left = (left_count > 0).then(|| {
        format!(
            "of the nodes that had pieces of it {left_count} left the volume: mount it, and the pieces are stored again"
        )
    });
    Ok(Some(ReplicaStatus { at_ms, missing_keys: missing_keys as u64, failure: note.failure.or(left) }))
}
