//! Nodes of this machine that are not where metadata has them, found by their identity files: at the places of others, and beside
//! these.

use anyhow::Result;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::time::Duration;
use weft_format::records::NodeRecord;
use weft_format::{NodeId, VolumeId};
use weft_meta::Store;
use weft_nodes::{FolderNode, NodeUrl};

/// Folders looked at beside each place of a node.
const BESIDE_MAX: usize = 1000;

/// Some of these folders may be on disks that do not answer: whoever asks does not wait for them.
const PATIENCE: Duration = Duration::from_secs(1);

/// What people should know of nodes that are elsewhere; a line each.
pub fn sentences(store: &Store, meta: &Path) -> Result<Vec<String>> {
    let (nodes, volume) = (store.nodes()?, store.volume().volume);
    let (done, ended) = channel();
    std::thread::spawn(move || {
        // Whoever waited may have given up.
        let _ = done.send(elsewhere(volume, &nodes));
    });
    let line = |(name, folder): (String, PathBuf)| {
        let (meta, folder) = (meta.display(), folder.display());
        format!("node {name} is at {folder} now: weft node move {meta} {name} {folder}")
    };
    Ok(ended.recv_timeout(PATIENCE).unwrap_or_default().into_iter().map(line).collect())
}

/// Nodes that are not at their own places, and where they are.
fn elsewhere(volume: VolumeId, nodes: &[(NodeId, NodeRecord)]) -> Vec<(String, PathBuf)> {
    let at = |folder: &Path| {
        let found = FolderNode::probe(folder).ok().flatten();
        found.filter(|identity| identity.volume == volume).map(|identity| identity.node)
    };
    let folder_of = |record: &NodeRecord| match record.url.parse() {
        Ok(NodeUrl::Folder(folder)) => Some(folder),
        Ok(_) | Err(_) => None,
    };
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
    let mut elsewhere: Vec<(String, PathBuf)> = (places.into_iter())
        .filter_map(|(id, name, folder)| Some((name.to_owned(), found.remove(&id).filter(|place| *place != folder)?)))
        .collect();
    elsewhere.sort();
    elsewhere
}
