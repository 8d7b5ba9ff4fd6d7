//! The nodes of the volume. A volume has few: they are always read all at once.

use weft_env::planted::{Planted, has_planted};
use weft_format::NodeId;
use weft_format::records::{NodeRecord, PlacementRule, SegmentRecord};

use super::Store;
use super::txn::Txn;
use super::values::{self, damaged};
use crate::MetaError;
use crate::keys::{Key, Table, on_node, printable};
use crate::types::Roster;

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

    /// The node table and the placement rule at one moment.
    ///
    /// # Errors
    /// Those of the engine, and damage.
    pub fn roster(&self) -> Result<Roster, MetaError> {
        self.view(|txn| Ok(Roster { changes: txn.roster_changes()?, nodes: txn.nodes()?, rule: txn.placement_rule()? }))
    }

    /// What the volume wants of the places of shards; nothing in particular until it is said.
    ///
    /// # Errors
    /// Those of the engine, and damage.
    pub fn placement_rule(&self) -> Result<PlacementRule, MetaError> {
        self.view(|txn| txn.placement_rule())
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
                txn.expect_node(*node, expected)?;
            }
            txn.put_nodes(&changes.iter().map(|(node, _, new)| (*node, *new)).collect::<Vec<_>>())
        })
    }

    /// Gives the name of a node to a new one, at one moment: no other process sees the volume with a node fewer.
    ///
    /// # Errors
    /// As [`Self::update_node`] and [`Self::add_node`]; nothing is changed.
    pub fn succeed_node(
        &self,
        (old, expected, retained): (NodeId, &NodeRecord, &NodeRecord),
        (new, record): (NodeId, &NodeRecord),
    ) -> Result<(), MetaError> {
        self.transact_shared(|txn| {
            txn.expect_node(old, expected)?;
            if txn.get(Key::Node(new))?.is_some() {
                return Err(MetaError::Exists);
            }
            txn.put_nodes(&[(old, retained), (new, record)])
        })
    }

    /// Forgets a node that takes no new shards, and on which no segment has a shard or may come to have one: true. Otherwise it stays:
    /// false. A node that is not there is forgotten. `is_alone`: no other process can commit segments while this one owns the volume;
    /// otherwise the owner must have followed the node table first, and have settled what was under way.
    ///
    /// # Errors
    /// Those of the engine, and damage.
    pub fn remove_node(&self, node: NodeId, is_alone: bool) -> Result<bool, MetaError> {
        self.transact_shared(|txn| {
            txn.free_room();
            let Some(record) = txn.node(node)? else { return Ok(true) };
            let nobody_commits =
                record.state.is_leaving() && (is_alone || txn.openings()?.follows(txn.roster_changes()?));
            let may_be_used = !nobody_commits && !has_planted(Planted::NodeLeavesEarly);
            if may_be_used || !txn.scan(&on_node(node), 1)?.is_empty() {
                return Ok(false);
            }
            txn.remove(Key::Node(node));
            txn.count_roster_change()?;
            Ok(true)
        })
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

    pub(super) fn node(&mut self, node: NodeId) -> Result<Option<NodeRecord>, MetaError> {
        let key = Key::Node(node);
        let decode = |bytes: Vec<u8>| NodeRecord::decode(&bytes).map_err(|error| damaged(&key, error));
        self.get(key)?.map(decode).transpose()
    }

    /// Does a record name a node that has left, or is to leave, and that none of those before it names?
    pub(super) fn comes_to_leaving(
        &mut self,
        record: &SegmentRecord,
        before: &[&SegmentRecord],
    ) -> Result<bool, MetaError> {
        let is_old = |node: NodeId| before.iter().any(|record| record.nodes().any(|old| old == node));
        for node in record.nodes().filter(|node| !is_old(*node)) {
            if self.node(node)?.is_none_or(|record| record.state.is_leaving()) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Refuses if it is not so any more.
    fn expect_node(&mut self, node: NodeId, expected: &NodeRecord) -> Result<(), MetaError> {
        let found = self.node(node)?.ok_or(MetaError::NotFound)?;
        if found == *expected {
            return Ok(());
        }
        let name = &found.name;
        Err(MetaError::Refused(format!("node {name} was changed by somebody else meanwhile: look again")))
    }

    fn placement_rule(&mut self) -> Result<PlacementRule, MetaError> {
        let key = Key::Placement;
        let decode = |bytes: Vec<u8>| PlacementRule::decode(&bytes).map_err(|error| damaged(&key, error));
        Ok(self.get(key)?.map(decode).transpose()?.unwrap_or_default())
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

    /// How often the node table was changed.
    fn roster_changes(&mut self) -> Result<u64, MetaError> {
        let key = Key::Roster;
        Ok(self.get(key)?.map(|bytes| values::decode_number(&key, &bytes)).transpose()?.unwrap_or(0))
    }

    /// Makes two concurrent changes of the node table conflict, so that names stay unique.
    fn count_roster_change(&mut self) -> Result<(), MetaError> {
        let changes = self.roster_changes()?;
        self.put(Key::Roster, values::number(changes.saturating_add(1)));
        Ok(())
    }
}

#[cfg(test)]
#[path = "nodes_tests.rs"]
mod tests;
