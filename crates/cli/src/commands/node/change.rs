//! `weft node limit|drain|set`: how nodes are used; and what moves when they change.

use super::{find, keep_enough, limits_sentence};
use crate::care;
use anyhow::{Result, bail};
use std::path::Path;
use weft_engine::Keeper;
use weft_format::records::{NodeLimits, NodeRecord, NodeState};

/// Changes the limits that are given; the others stay.
pub fn limit(meta: &Path, name: &str, bytes_per_second: Option<u64>, requests: Option<u32>) -> Result<()> {
    let store = weft_engine::open_store(meta)?;
    let (id, old) = find(&store, meta, name)?;
    let limits = NodeLimits {
        bytes_per_second: bytes_per_second.unwrap_or(old.limits.bytes_per_second),
        requests: requests.unwrap_or(old.limits.requests),
    };
    store.update_node(id, &old, &NodeRecord { limits, ..old.clone() })?;
    store.flush()?;
    match limits_sentence(limits) {
        Some(limits) => println!("Node {name} is asked for {limits}"),
        None => println!("Node {name} has no limits"),
    }
    Ok(())
}

/// Has a node emptied, or with `undo` no more.
pub fn drain(meta: &Path, name: &str, undo: bool) -> Result<()> {
    let store = weft_engine::open_store(meta)?;
    let (id, record) = find(&store, meta, name)?;
    let state = match (record.state, undo) {
        (NodeState::Active | NodeState::ReadOnly, false) => {
            keep_enough(&store, meta, name)?;
            NodeState::Draining
        }
        (NodeState::Draining, true) => NodeState::Active,
        (NodeState::Lost, _) => {
            bail!("node {name} is lost: what it held is rebuilt by `weft repair {}`", meta.display())
        }
        (NodeState::Active | NodeState::ReadOnly, true) => bail!("node {name} is not being emptied"),
        (NodeState::Draining, false) => bail!("node {name} is being emptied already"),
    };
    store.update_node(id, &record, &NodeRecord { state, ..record.clone() })?;
    store.flush()?;
    let meta = meta.display();
    match undo {
        true => println!("Node {name} takes new shards again"),
        false => println!(
            "What node {name} holds is brought elsewhere while the volume is mounted or cared for (weft care {meta}), or at once \
             by: weft repair {meta}. Then it is forgotten"
        ),
    }
    Ok(())
}

/// What `weft node set` changes; what is not given stays.
pub struct Changes<'c> {
    pub domain: Option<&'c str>,
    pub weight: Option<u64>,
    pub read_only: Option<bool>,
}

pub fn set(meta: &Path, name: &str, changes: &Changes<'_>) -> Result<()> {
    let store = weft_engine::open_store(meta)?;
    let (id, record) = find(&store, meta, name)?;
    let state = match (changes.read_only, record.state) {
        (None, state) => state,
        (Some(true), NodeState::Active) => {
            keep_enough(&store, meta, name)?;
            NodeState::ReadOnly
        }
        (Some(true), NodeState::ReadOnly) => bail!("node {name} is read-only already"),
        (Some(false), NodeState::ReadOnly) => NodeState::Active,
        (Some(false), NodeState::Active) => bail!("node {name} is not read-only"),
        (Some(_), NodeState::Draining) => {
            bail!(
                "node {name} is being emptied: end that first with `weft node drain {} {name} --undo`",
                meta.display()
            )
        }
        (Some(_), NodeState::Lost) => bail!("node {name} is lost: nothing is read from it or written to it"),
    };
    let new = NodeRecord {
        domain: changes.domain.map_or_else(|| record.domain.clone(), str::to_owned),
        weight: changes.weight.unwrap_or(record.weight),
        state,
        ..record.clone()
    };
    store.update_node(id, &record, &new)?;
    store.flush()?;
    if changes.domain.is_some() || changes.weight.is_some() {
        println!("Node {name} is of domain {} and has weight {} now", new.domain, new.weight);
    }
    match changes.read_only {
        Some(true) => println!("Node {name} takes nothing new; what it holds stays and is read"),
        Some(false) => println!("Node {name} takes new shards again"),
        None => {}
    }
    tell_balance(meta)
}

/// Says what the volume's nodes, as they are now, have move.
pub fn tell_balance(meta: &Path) -> Result<()> {
    if weft_engine::open_store(meta)?.statistics()?.live_bytes == 0 {
        return Ok(());
    }
    let estimate = Keeper::open(meta)?.estimate_balance()?;
    if estimate.is_out {
        let sentence = care::balance_sentence(&estimate);
        println!("{sentence}. That is done while the volume is mounted or cared for (weft care {})", meta.display());
    }
    Ok(())
}
