//! The nodes of the volume. A volume has few: they are always read all at once.

use std::collections::BTreeSet;
use weft_format::NodeId;
use weft_format::records::{NodeRecord, PlacementRule};

use super::Store;
use super::txn::Txn;
use super::values::{self, damaged};
use crate::MetaError;
use crate::keys::{Key, Table, on_node, printable};

/// Nodes of one volume, far beyond what placement is made for.
const MAX_NODES: usize = 10_000;

impl Store {
    /// All nodes, by id.
    ///
    /// # Errors
    /// Those of the engine, and damage.
    pub fn nodes(&self) -> Result<Vec<(NodeId, NodeRecord)>, MetaError> {
        self.view(|txn| txn.nodes())
    }

    /// What the volume wants of the places of shards; nothing in particular until it is said.
    ///
    /// # Errors
    /// Those of the engine, and damage.
    pub fn placement_rule(&self) -> Result<PlacementRule, MetaError> {
        self.view(|txn| {
            let key = Key::Placement;
            let decode = |bytes: Vec<u8>| PlacementRule::decode(&bytes).map_err(|error| damaged(&key, error));
            Ok(txn.get(key)?.map(decode).transpose()?.unwrap_or_default())
        })
    }

    /// Says what the volume wants of the places of shards from now on; those that lie otherwise are for repair to move.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn set_placement_rule(&self, rule: PlacementRule) -> Result<(), MetaError> {
        self.transact_shared(|txn| {
            txn.put(Key::Placement, rule.encode());
            Ok(())
        })
    }

    /// Adds a node. Name and URL must be new.
    ///
    /// # Errors
    /// `Exists` (the id), `Refused` (the name or URL is another node's).
    pub fn add_node(&self, node: NodeId, record: &NodeRecord) -> Result<(), MetaError> {
        self.transact_shared(|txn| {
            if txn.get(Key::Node(node))?.is_some() {
                return Err(MetaError::Exists);
            }
            txn.put_node(node, record)
        })
    }

    /// Puts `new` in the place of `expected`.
    ///
    /// # Errors
    /// `Refused` (the record is not `expected` any more; the name or URL is another node's), `NotFound`.
    pub fn update_node(&self, node: NodeId, expected: &NodeRecord, new: &NodeRecord) -> Result<(), MetaError> {
        self.update_nodes(&[(node, expected, new)])
    }

    /// The same of several nodes at once, which may take each other's names and URLs.
    ///
    /// # Errors
    /// As [`Self::update_node`]; nothing is changed.
    pub fn update_nodes(&self, changes: &[(NodeId, &NodeRecord, &NodeRecord)]) -> Result<(), MetaError> {
        self.transact_shared(|txn| {
            for (node, expected, _) in changes {
                let key = Key::Node(*node);
                let bytes = txn.get(key)?.ok_or(MetaError::NotFound)?;
                let found = NodeRecord::decode(&bytes).map_err(|error| damaged(&key, error))?;
                if found != **expected {
                    let name = &found.name;
                    return Err(MetaError::Refused(format!(
                        "node {name} was changed by somebody else meanwhile: look again"
                    )));
                }
            }
            txn.put_nodes(&changes.iter().map(|(node, _, new)| (*node, *new)).collect::<Vec<_>>())
        })
    }

    /// Forgets a node on which no segment has a shard: true. One that is still referred to stays: false. A node that is
    /// not there is forgotten. A process that stores a segment there at the same moment does not see it: see
    /// [`Store::mark_strays`].
    ///
    /// # Errors
    /// Those of the engine, and damage.
    pub fn remove_node(&self, node: NodeId) -> Result<bool, MetaError> {
        self.transact_shared(|txn| {
            txn.free_room();
            if !txn.scan(&on_node(node), 1)?.is_empty() {
                return Ok(false);
            }
            if txn.get(Key::Node(node))?.is_some() {
                txn.remove(Key::Node(node));
                txn.count_roster_change()?;
            }
            Ok(true)
        })
    }

    /// Marks segments that have a shard on a node that is none, so that a repair looks at them; how many. They were stored while the node was
    /// removed. Costs a question for each node.
    ///
    /// # Errors
    /// Those of the engine, and damage.
    pub fn mark_strays(&self) -> Result<usize, MetaError> {
        let mut strays = Vec::new();
        self.view(|txn| {
            let known: BTreeSet<NodeId> = txn.nodes()?.into_iter().map(|(node, _)| node).collect();
            let mut range = Table::OnNode.range();
            while let Some((key, _)) = txn.scan(&range, 1)?.pop() {
                let Some(Key::OnNode(node, segment)) = Key::parse(&key) else {
                    return Err(MetaError::Damaged {
                        key: printable(&key),
                        detail: "it is no segment on a node".into(),
                    });
                };
                if known.contains(&node) {
                    range.start = on_node(node).end;
                } else {
                    strays.push(segment);
                    range.start = [&key[..], &[0]].concat();
                }
            }
            Ok(())
        })?;
        strays.iter().try_for_each(|segment| self.mark_damaged(*segment))?;
        Ok(strays.len())
    }
}

impl Txn<'_> {
    fn nodes(&mut self) -> Result<Vec<(NodeId, NodeRecord)>, MetaError> {
        let mut nodes = Vec::new();
        for (key, value) in self.scan(&Table::Node.range(), MAX_NODES)? {
            let Some(key @ Key::Node(node)) = Key::parse(&key) else {
                return Err(MetaError::Damaged { key: printable(&key), detail: "it is no node".into() });
            };
            nodes.push((node, NodeRecord::decode(&value).map_err(|error| damaged(&key, error))?));
        }
        Ok(nodes)
    }

    fn put_node(&mut self, node: NodeId, record: &NodeRecord) -> Result<(), MetaError> {
        self.put_nodes(&[(node, record)])
    }

    fn put_nodes(&mut self, new: &[(NodeId, &NodeRecord)]) -> Result<(), MetaError> {
        let before = self.nodes()?;
        let kept = before.iter().filter(|(node, _)| new.iter().all(|(changed, _)| changed != node));
        let mut nodes: Vec<(NodeId, &NodeRecord)> = kept.map(|(node, record)| (*node, record)).collect();
        for (node, record) in new {
            if nodes.len() >= MAX_NODES {
                return Err(MetaError::Refused(format!("the volume has {MAX_NODES} nodes, and can have no more")));
            }
            for (_, other) in &nodes {
                let (name, url) = (&other.name, &other.url);
                if *name == record.name {
                    return Err(MetaError::Refused(format!(
                        "there is a node named {name} already: choose another name"
                    )));
                }
                if *url == record.url {
                    return Err(MetaError::Refused(format!("node {name} is at {url} already")));
                }
            }
            nodes.push((*node, record));
            self.put(Key::Node(*node), record.encode());
        }
        self.count_roster_change()
    }

    /// Makes two concurrent changes of the node table conflict, so that names stay unique.
    fn count_roster_change(&mut self) -> Result<(), MetaError> {
        let key = Key::Roster;
        let changes = self.get(key)?.map(|bytes| values::decode_number(&key, &bytes)).transpose()?.unwrap_or(0);
        self.put(key, values::number(changes.wrapping_add(1)));
        Ok(())
    }
}

#[cfg(test)]
#[path = "nodes_tests.rs"]
mod tests;
