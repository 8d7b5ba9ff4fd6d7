//! `weft node move|restore`: nodes that are elsewhere now, and nodes that were given up and are back.

use super::{find, key_file, refuse_unfit};
use anyhow::{Context, Result, bail};
use std::path::Path;
use weft_engine::nodes;
use weft_format::NodeId;
use weft_format::records::{NodeRecord, NodeState, Secret};
use weft_meta::Store;
use weft_nodes::{NodeAt, NodeIdentity, NodeUrl};

/// Notes where the node is now, after it has said there who it is. Where another node of the volume should be at that place the
/// two were swapped, and both are noted.
pub fn move_node(meta: &Path, name: &str, place: &str, key: Option<&Path>) -> Result<()> {
    let url = weft_engine::kinds().parse(place)?;
    let store = weft_engine::open_store(meta)?;
    let (id, old) = find(&store, meta, name)?;
    let secret = match key {
        Some(_) => key_file::secret(&url, key)?,
        None => old.secret.clone(),
    };
    let new = NodeRecord { url: url.to_string(), secret, ..old.clone() };
    if new == old {
        bail!("node {name} is noted at {url} already");
    }
    refuse_unfit(meta, name, &url)?;
    check(&store, id, name, &url, &new.secret).with_context(|| format!("node {name} is not at {url}"))?;
    let there = store.nodes()?.into_iter().find(|(other, record)| *other != id && record.url == new.url);
    match there {
        None => {
            store.update_node(id, &old, &new)?;
            store.flush()?;
            println!("Node {name} is at {url} now");
        }
        Some((other_id, other)) => {
            let former = weft_engine::kinds().parse(&old.url)?;
            let is_swapped = check(&store, other_id, &other.name, &former, &other.secret).is_ok();
            let other_url = if is_swapped { old.url.clone() } else { url.former(&other_id.to_string()[..8]) };
            let moved = NodeRecord { url: other_url, ..other.clone() };
            store.update_nodes(&[(id, &old, &new), (other_id, &other, &moved)])?;
            store.flush()?;
            println!("Node {name} is at {url} now");
            let (meta, other) = (meta.display(), &other.name);
            match is_swapped {
                true => println!("Node {other}, which should have been there, is at {former} now"),
                false => println!(
                    "Node {other} should have been there, and where it is now is not known: weft node move {meta} {other} FOLDER"
                ),
            }
        }
    }
    if new.state == NodeState::Lost {
        println!("It was given up; take it back with: weft node restore {} {name}", meta.display());
    }
    Ok(())
}

/// Is this very node at `url`?
fn check(store: &Store, id: NodeId, name: &str, url: &NodeUrl, secret: &Secret) -> Result<()> {
    let identity = NodeIdentity { volume: store.volume().volume, node: id };
    let node = weft_engine::kinds().open(&NodeAt { url, name, identity, secret })?;
    weft_engine::runtime()?.block_on(async {
        let answer = tokio::time::timeout(super::PROBE_DEADLINE, node.space()).await;
        answer.with_context(|| format!("it did not answer within {} s", super::PROBE_DEADLINE.as_secs()))??;
        Ok(())
    })
}

/// Takes a node back that was given up.
pub fn restore(meta: &Path, name: &str) -> Result<()> {
    let store = weft_engine::open_store(meta)?;
    let (id, record) = find(&store, meta, name)?;
    if record.state != NodeState::Lost {
        bail!("node {name} was not given up, so it need not be taken back");
    }
    let meta = meta.display();
    let url = weft_engine::kinds().parse(&record.url)?;
    check(&store, id, name, &url, &record.secret).with_context(|| {
        format!("node {name} does not answer as itself; if it is elsewhere now: weft node move {meta} {name} FOLDER")
    })?;
    match nodes::take_back(&store, id)? {
        Some(NodeState::Draining) => {
            println!("Node {name} is back; another has its place, so what it holds moves there: weft repair {meta}");
        }
        _ => println!("Node {name} is back, and what it holds counts again"),
    }
    Ok(())
}
