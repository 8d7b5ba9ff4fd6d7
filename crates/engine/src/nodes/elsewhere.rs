//! Nodes of this machine that are not where metadata has them, found by their identity files: at the places of others, and beside
//! these.

use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::time::Duration;
use weft_format::records::NodeRecord;
use weft_format::{NodeId, VolumeId};
use weft_meta::{MetaError, Store};
use weft_nodes::FolderNode;

/// Folders looked at beside each place of a node.
const BESIDE_MAX: usize = 1000;

/// Some of these folders may be on disks that do not answer: the caller waits no longer than this.
const TIMEOUT: Duration = Duration::from_secs(1);

/// A node that is not where metadata has it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Moved {
    /// Its name.
    pub node: String,
    /// Where it is.
    pub folder: PathBuf,
}

/// Nodes of this machine that are elsewhere than metadata has them, as far as that can be found at once.
///
/// # Errors
/// Metadata cannot be read.
pub fn moved(store: &Store) -> Result<Vec<Moved>, MetaError> {
    let (nodes, volume) = (store.nodes()?, store.volume().volume);
    let (done, ended) = channel();
    let look = move || {
        // The receiver may be gone.
        let _ = done.send(elsewhere(volume, &nodes));
    };
    if let Err(error) = store.env().spawner.thread("moved-nodes", Box::new(look)) {
        tracing::warn!("moved nodes cannot be searched for: {error}");
    }
    Ok(ended.recv_timeout(TIMEOUT).unwrap_or_default())
}

/// Nodes that are not at their own places, and where they are.
fn elsewhere(volume: VolumeId, nodes: &[(NodeId, NodeRecord)]) -> Vec<Moved> {
    let at = |folder: &Path| {
        let found = FolderNode::probe(folder).ok().flatten();
        found.filter(|identity| identity.volume == volume).map(|identity| identity.node)
    };
    let kinds = crate::kinds();
    let folder_of = |record: &NodeRecord| kinds.parse(&record.url).ok()?.files().map(Path::to_owned);
    let places: Vec<(NodeId, &str, PathBuf)> =
        nodes.iter().filter_map(|(id, record)| Some((*id, &record.name[..], folder_of(record)?))).collect();
    let mut found: BTreeMap<NodeId, PathBuf> = BTreeMap::new();
    found.extend(places.iter().filter_map(|(_, _, folder)| Some((at(folder)?, folder.clone()))));
    if places.iter().any(|(id, ..)| !found.contains_key(id)) {
        let known: BTreeSet<&PathBuf> = places.iter().map(|(_, _, folder)| folder).collect();
        let parents: BTreeSet<&Path> = places.iter().filter_map(|(_, _, folder)| folder.parent()).collect();
        let listings = parents.into_iter().filter_map(|parent| parent.read_dir().ok());
        for folder in listings.flat_map(|listing| listing.take(BESIDE_MAX)).flatten().map(|entry| entry.path()) {
            if !known.contains(&folder)
                && let Some(id) = at(&folder)
            {
                found.entry(id).or_insert(folder);
            }
        }
    }
    let moved = |(id, name, folder): (NodeId, &str, PathBuf)| {
        let place = found.remove(&id).filter(|place| *place != folder)?;
        Some(Moved { node: name.to_owned(), folder: place })
    };
    let mut elsewhere: Vec<Moved> = places.into_iter().filter_map(moved).collect();
    elsewhere.sort();
    elsewhere
}
