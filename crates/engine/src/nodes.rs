//! The nodes of a volume: made, replaced, renewed, taken back.

mod elsewhere;
mod error;
mod making;
mod table;

pub use elsewhere::{Moved, moved};
pub use error::{NodesError, ProbeError};
pub use making::create;
#[cfg(feature = "fuzzing")]
pub(crate) use making::{check_note, note_seed};
pub use table::{Changes, Displaced, MovedTo, NewNode, NodeTable, OldNode, Place, Replaced};

use crate::error::EngineError;
use crate::runtime::runtime;
use std::collections::BTreeMap;
use std::sync::Arc;
use weft_care::Renewed;
use weft_codes::Code;
use weft_env::Env;
use weft_format::records::{NodeRecord, NodeState, PlacementRule};
use weft_format::{Ino, NodeId};
use weft_meta::{Access, MetaError, MetaUrl, Store};
use weft_nodes::{NodeAt, NodeIdentity, NodeUrl, Space};

/// Suffixes for the name of a node whose successor takes the name: if the node was there, and if it was not.
const OLD: &str = ".old-";
const LOST: &str = ".lost-";

/// Nodes that take new shards.
#[must_use]
pub fn active_count(nodes: &[(NodeId, NodeRecord)]) -> usize {
    nodes.iter().filter(|(_, node)| node.state == NodeState::Active).count()
}

/// How many shards of a segment of this code have a place on these nodes, those that take new ones: a failure unit holds as many as the
/// rule and the code allow, and a node one.
pub(crate) fn places<'n>(nodes: impl Iterator<Item = &'n NodeRecord>, rule: &PlacementRule, code: &dyn Code) -> usize {
    let mut units: BTreeMap<&str, usize> = BTreeMap::new();
    let active = nodes.filter(|node| node.state == NodeState::Active);
    active.for_each(|node| *units.entry(rule.unit(&node.domain)).or_default() += 1);
    let most = rule.unit_shards_of(code.shape().tolerance);
    units.values().map(|nodes| nodes.min(&most)).sum()
}

/// Refuses a volume with fewer nodes than a code has shards, by default the code of its root directory: nothing could be written.
///
/// # Errors
/// [`EngineError::TooFewNodes`].
pub fn require(meta: &MetaUrl, code: Option<&dyn Code>) -> Result<(), EngineError> {
    let (code, needed) = match code {
        Some(code) => (code.spec().to_owned(), code.shape().n),
        None => {
            let code = root_code(meta)?;
            (code.spec().to_owned(), code.shape().n)
        }
    };
    let there = active_count(&crate::open_store(meta, &Env::system())?.nodes()?);
    if there < needed {
        return Err(EngineError::TooFewNodes { meta: meta.clone(), code, needed, there });
    }
    Ok(())
}

/// The code of a volume's root directory.
///
/// # Errors
/// Metadata cannot be read, or names a code that this program does not know.
pub fn root_code(meta: &MetaUrl) -> Result<Arc<dyn Code>, EngineError> {
    let store = crate::open_store(meta, &Env::system())?;
    Ok(weft_codes::parse(&store.policy(store.attributes(Ino::ROOT)?.policy)?.code)?)
}

/// The weight of a node for which none was given: its size in GiB.
#[must_use]
pub fn default_weight(space: Space) -> u64 {
    (space.total_bytes >> 30).max(1)
}

/// The same text with nodes by name: a place only knows the id of its node.
#[must_use]
pub fn with_names(nodes: &[(NodeId, NodeRecord)], text: String) -> String {
    nodes.iter().fold(text, |text, (id, record)| text.replace(&id.to_string(), &record.name))
}

/// A node's state, in a word.
#[must_use]
pub fn state_name(state: NodeState) -> &'static str {
    match state {
        NodeState::Active => "active",
        NodeState::ReadOnly => "read-only",
        NodeState::Draining => "draining",
        NodeState::Lost => "lost",
    }
}

/// Has another node taken its place, and name?
#[must_use]
pub fn is_replaced(id: NodeId, record: &NodeRecord) -> bool {
    let short_id = &id.to_string()[..8];
    [OLD, LOST].iter().any(|mark| record.name.ends_with(&format!("{mark}{short_id}")))
}

/// The state of a node that answers and has a successor: it is emptied.
#[must_use]
pub fn emptied(id: NodeId, old: &NodeRecord) -> NodeRecord {
    let name = format!("{}{OLD}{}", old.name, &id.to_string()[..8]);
    NodeRecord { name, state: NodeState::Draining, ..old.clone() }
}

/// The record of a node that is gone, if `url` is its successor's place.
#[must_use]
pub fn lost(id: NodeId, old: &NodeRecord, url: &NodeUrl) -> NodeRecord {
    let short_id = &id.to_string()[..8];
    NodeRecord {
        name: format!("{}{LOST}{short_id}", old.name),
        // No two nodes share a place; the previous contents of this one are gone.
        url: if old.url == url.to_string() { url.former(short_id) } else { old.url.clone() },
        state: NodeState::Lost,
        ..old.clone()
    }
}

/// The successor has the name from now on. Does nothing refer to the old node any more?
///
/// # Errors
/// Metadata cannot be written, or was changed meanwhile.
pub fn succeed(
    store: &Store,
    (old_id, old): (NodeId, &NodeRecord),
    retained: &NodeRecord,
    (id, new): (NodeId, &NodeRecord),
) -> Result<bool, MetaError> {
    store.succeed_node((old_id, old, retained), (id, new))?;
    let is_empty = store.remove_node(old_id, false)?;
    store.flush()?;
    Ok(is_empty)
}

/// Removes a node that is to leave, once nothing can come to it any more; false: something has, or still may. A process that was killed
/// while it owned the volume never says what it has settled: while this process owns it for a moment nobody else commits anything.
///
/// # Errors
/// Metadata cannot be written.
pub(crate) fn forget(store: &Store, meta: &MetaUrl, id: NodeId) -> Result<bool, MetaError> {
    if store.remove_node(id, false)? {
        store.flush()?;
        return Ok(true);
    }
    match weft_vfs::open::open_store(meta, Access::ShortLived, None, store.env()) {
        Ok(owned) => {
            let is_removed = owned.remove_node(id, true)?;
            owned.flush()?;
            Ok(is_removed)
        }
        Err(MetaError::InUse(_)) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Makes a new node, of the same name, of a place from which the node was deleted; the old one is lost. Where some of its shards are
/// left the node is taken up again.
///
/// # Errors
/// The place cannot be made a node, or metadata cannot be written.
pub fn renew(store: &Store, old_id: NodeId) -> Result<Renewed, EngineError> {
    let found = store.nodes()?.into_iter().find(|(id, old)| *id == old_id && !old.state.is_leaving());
    // Another process has done it.
    let Some((_, old)) = found else { return Ok(Renewed::Anew) };
    let (kinds, runtime) = (crate::kinds(), runtime()?);
    let url = kinds.parse(&old.url)?;
    let identity = NodeIdentity { volume: store.volume().volume, node: old_id };
    if runtime.block_on(kinds.put_back(&NodeAt { url: &url, name: &old.name, identity, secret: &old.secret }))? {
        return Ok(Renewed::Itself);
    }
    let (id, _) = create(store, &old.name, &url, &old.secret)?;
    succeed(store, (old_id, &old), &lost(old_id, &old, &url), (id, &old))?;
    Ok(Renewed::Anew)
}

/// Takes a node back that answers as itself, if it was given up: as one of the nodes, or as one to be emptied where another has its
/// place. What it is now; `None`: it was not given up.
///
/// # Errors
/// Metadata cannot be written, or was changed meanwhile.
pub fn take_back(store: &Store, id: NodeId) -> Result<Option<NodeState>, MetaError> {
    let found = store.nodes()?.into_iter().find(|(known, record)| *known == id && record.state == NodeState::Lost);
    let Some((_, old)) = found else { return Ok(None) };
    let state = if is_replaced(id, &old) { NodeState::Draining } else { NodeState::Active };
    store.update_node(id, &old, &NodeRecord { state, ..old.clone() })?;
    store.flush()?;
    Ok(Some(state))
}
