//! The nodes of a volume at one moment: what metadata says of each, and whether it answers.

use crate::catalogue::{Catalogue, CatalogueError};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tokio::task::JoinSet;
use weft_format::NodeId;
use weft_format::records::{NodeRecord, NodeState, PlacementRule};
use weft_nodes::{NodeErrorKind, Space};
use weft_transfer::Transfer;

/// A node that takes longer than this to say who it is, is out of reach.
const PROBE_DEADLINE: Duration = Duration::from_secs(10);

/// Does a node answer?
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reach {
    /// It does, and it is the right one.
    Answers(Space),
    /// It does not, or another answers in its place; the sentence says which. Nothing is known of its shards.
    OutOfReach(String),
    /// Its disk answers, and of the node nothing is left; the sentence says so.
    Wiped(String),
}

/// One node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeFacts {
    /// What metadata says.
    pub record: NodeRecord,
    /// Does it answer?
    pub reach: Reach,
    /// Is it taken for lost by somebody's word, whatever the record says?
    pub presumed_lost: bool,
}

impl NodeFacts {
    /// Does it answer?
    pub fn answers(&self) -> bool {
        matches!(self.reach, Reach::Answers(_))
    }
}

/// All nodes of a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Roster {
    /// By id.
    pub nodes: BTreeMap<NodeId, NodeFacts>,
    /// What the volume wants of the places of shards.
    pub rule: PlacementRule,
}

impl Roster {
    /// Reads the table of nodes and asks each of them, all at once.
    ///
    /// # Errors
    /// The catalogue cannot be read. A node that does not answer is no error.
    pub async fn probe(catalogue: &dyn Catalogue, transfer: &Transfer) -> Result<Self, CatalogueError> {
        Self::probe_within(PROBE_DEADLINE, catalogue, transfer).await
    }

    /// As [`Self::probe`], with a deadline of the caller's.
    ///
    /// # Errors
    /// As [`Self::probe`].
    pub async fn probe_within(
        deadline: Duration,
        catalogue: &dyn Catalogue,
        transfer: &Transfer,
    ) -> Result<Self, CatalogueError> {
        let records = catalogue.nodes()?;
        let mut probes = JoinSet::new();
        for (id, record) in records {
            let node = transfer.fleet().get(id);
            probes.spawn(async move {
                let reach = match node {
                    None => Reach::OutOfReach(format!("node {} was not opened", record.name)),
                    Some(node) => match tokio::time::timeout(deadline, node.space()).await {
                        Ok(Ok(space)) => Reach::Answers(space),
                        Ok(Err(error)) if error.kind == NodeErrorKind::Wiped => Reach::Wiped(error.to_string()),
                        Ok(Err(error)) => Reach::OutOfReach(error.to_string()),
                        Err(_) => Reach::OutOfReach(format!(
                            "node {} did not answer within {} s",
                            record.name,
                            deadline.as_secs()
                        )),
                    },
                };
                (id, NodeFacts { record, reach, presumed_lost: false })
            });
        }
        Ok(Self { nodes: probes.join_all().await.into_iter().collect(), rule: transfer.fleet().view().rule })
    }

    /// Does the node answer?
    pub fn answers(&self, node: NodeId) -> bool {
        self.nodes.get(&node).is_some_and(NodeFacts::answers)
    }

    /// Takes nodes for lost, unless they answer.
    pub fn presume_lost(&mut self, nodes: &BTreeSet<NodeId>) {
        for (_, facts) in self.nodes.iter_mut().filter(|(id, facts)| nodes.contains(id) && !facts.answers()) {
            facts.presumed_lost = true;
        }
    }

    /// Was the node given up, is it wiped, or not even known? Only then are its shards lost without anybody having looked.
    pub fn given_up(&self, node: NodeId) -> bool {
        let is_lost = |facts: &NodeFacts| {
            facts.record.state == NodeState::Lost || facts.presumed_lost || matches!(facts.reach, Reach::Wiped(_))
        };
        self.nodes.get(&node).is_none_or(is_lost)
    }

    /// The node's name as the user knows it, or its id.
    pub fn name(&self, node: NodeId) -> String {
        self.nodes.get(&node).map_or_else(|| node.to_string(), |facts| facts.record.name.clone())
    }

    /// Names of nodes that do not answer and were not given up, with what is the matter.
    pub fn out_of_reach(&self) -> Vec<(String, String)> {
        let silent = self.nodes.values().filter(|facts| facts.record.state != NodeState::Lost && !facts.presumed_lost);
        let mut names: Vec<(String, String)> = silent
            .filter_map(|facts| match &facts.reach {
                Reach::Answers(_) => None,
                Reach::OutOfReach(why) | Reach::Wiped(why) => Some((facts.record.name.clone(), why.clone())),
            })
            .collect();
        names.sort();
        names
    }
}

/// Does a failed call say that the shard itself, and not its node, is at fault? An I/O error of one shard on a node that
/// answers is a bad sector, whereas a node that refuses, is silent or is another says nothing of its shards.
pub(crate) fn blames_shard(kind: NodeErrorKind) -> bool {
    matches!(kind, NodeErrorKind::Io | NodeErrorKind::Corrupt | NodeErrorKind::NotFound)
}
