//! The nodes of a volume at one moment: what metadata says of each, and whether it answers.

use crate::catalogue::{Catalogue, CatalogueError};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};
use weft_env::{Clock, TaskSet};
use weft_format::NodeId;
use weft_format::records::{NodeRecord, NodeState, PlacementRule};
use weft_nodes::{Node, NodeErrorKind, Space};
use weft_transfer::{Transfer, even_load};

/// A job waits this long for a node to say who it is. After that the node is out of reach, and the job continues without it.
const PROBE_DEADLINE: Duration = Duration::from_secs(10);

/// People who look wait no longer than this for all nodes together; slower nodes are unknown for now.
pub const LOOK_DEADLINE: Duration = Duration::from_secs(2);

/// Does a node answer?
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reach {
    /// It does, and it is the right one.
    Answers(Space),
    /// It does not, or another answers in its place; the sentence says which. Nothing is known of its shards.
    OutOfReach(String),
    /// It is there, and does not let this user in; the sentence says so. Nothing is known of its shards, and nothing is wrong with it.
    Refuses(String),
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
    /// Did a user or a worker declare it lost, whatever the record says?
    pub presumed_lost: bool,
}

impl NodeFacts {
    /// Does it answer?
    pub fn answers(&self) -> bool {
        matches!(self.reach, Reach::Answers(_))
    }

    /// Is it there, and does not let this user in?
    pub fn refuses(&self) -> bool {
        matches!(self.reach, Reach::Refuses(_))
    }
}

/// A node that cannot be asked.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Away {
    /// Its name.
    pub name: String,
    /// A sentence.
    pub why: String,
    /// It is there, and does not let this user in.
    pub refuses: bool,
}

/// All nodes of a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Roster {
    /// By id.
    pub nodes: BTreeMap<NodeId, NodeFacts>,
    /// The volume's rule for the placement of shards.
    pub rule: PlacementRule,
}

impl Roster {
    /// Reads the table of nodes and asks each of them, all at once.
    ///
    /// # Errors
    /// The catalogue cannot be read. A node that does not answer is no error.
    pub async fn probe(catalogue: &dyn Catalogue, transfer: &Transfer) -> Result<Self, CatalogueError> {
        Rounds::default().probe(PROBE_DEADLINE, catalogue, transfer).await
    }

    /// As [`Self::probe`], for people: all nodes together have [`LOOK_DEADLINE`].
    ///
    /// # Errors
    /// As [`Self::probe`].
    pub async fn look(catalogue: &dyn Catalogue, transfer: &Transfer) -> Result<Self, CatalogueError> {
        Rounds::default().probe(LOOK_DEADLINE, catalogue, transfer).await
    }

    /// Does the node answer?
    pub fn answers(&self, node: NodeId) -> bool {
        self.nodes.get(&node).is_some_and(NodeFacts::answers)
    }

    /// Takes nodes for lost, unless they answer.
    pub fn presume_lost(&mut self, nodes: &BTreeSet<NodeId>) {
        for (_, facts) in
            self.nodes.iter_mut().filter(|(id, facts)| nodes.contains(id) && !facts.answers() && !facts.refuses())
        {
            facts.presumed_lost = true;
        }
    }

    /// Takes nodes back that were given up and answer as themselves again.
    ///
    /// # Errors
    /// The catalogue cannot be read or written.
    pub fn take_back(&mut self, catalogue: &dyn Catalogue) -> Result<(), CatalogueError> {
        let back: Vec<NodeId> = (self.nodes.iter())
            .filter(|(_, facts)| facts.record.state == NodeState::Lost && facts.answers())
            .map(|(id, _)| *id)
            .collect();
        if back.is_empty() {
            return Ok(());
        }
        for id in &back {
            tracing::info!("node {} was given up and answers again: taking it back", self.name(*id));
            catalogue.restore_node(*id)?;
        }
        for (id, record) in catalogue.nodes()? {
            if let Some(facts) = self.nodes.get_mut(&id) {
                facts.record = record;
            }
        }
        Ok(())
    }

    /// Was the node given up, is it wiped, or not even known? Only then are its shards lost without anybody having looked. One that
    /// answers is not lost, whatever anybody said of it while it was away.
    pub fn given_up(&self, node: NodeId) -> bool {
        let is_lost = |facts: &NodeFacts| {
            let is_said = facts.record.state == NodeState::Lost || facts.presumed_lost;
            is_said && !facts.answers() || matches!(facts.reach, Reach::Wiped(_))
        };
        self.nodes.get(&node).is_none_or(is_lost)
    }

    /// The failure unit that the node is in; `None`: it is not known.
    pub fn unit(&self, node: NodeId) -> Option<&str> {
        self.nodes.get(&node).map(|facts| self.rule.unit(&facts.record.domain))
    }

    /// Shards of a segment in the fullest unit, if `shard_count` shards are spread as evenly as can be over the nodes that take new ones.
    pub fn even_load(&self, shard_count: usize) -> usize {
        let takes =
            |(id, facts): &(&NodeId, &NodeFacts)| facts.record.state == NodeState::Active && !self.given_up(**id);
        let units = self.nodes.iter().filter(takes).map(|(_, facts)| self.rule.unit(&facts.record.domain));
        even_load(units, shard_count, &self.rule)
    }

    /// The node's name as the user knows it, or its id.
    pub fn name(&self, node: NodeId) -> String {
        self.nodes.get(&node).map_or_else(|| node.to_string(), |facts| facts.record.name.clone())
    }

    /// Names of nodes that do not answer and were not given up, with what is the matter.
    pub fn out_of_reach(&self) -> Vec<Away> {
        let silent = self.nodes.values().filter(|facts| facts.record.state != NodeState::Lost && !facts.presumed_lost);
        let mut names: Vec<Away> = silent
            .filter_map(|facts| match &facts.reach {
                Reach::Answers(_) => None,
                Reach::OutOfReach(why) | Reach::Refuses(why) | Reach::Wiped(why) => {
                    Some(Away { name: facts.record.name.clone(), why: why.clone(), refuses: facts.refuses() })
                }
            })
            .collect();
        names.sort();
        names
    }
}

/// Repeated probes of the same nodes. Nodes with expensive requests are probed less often.
#[derive(Debug, Default)]
pub struct Rounds {
    /// The last answer of each node that answered, and its time.
    answered: BTreeMap<NodeId, (Instant, Space)>,
}

impl Rounds {
    /// As [`Roster::probe`]; a node that takes longer than `deadline` is out of reach.
    ///
    /// # Errors
    /// As [`Roster::probe`].
    pub async fn probe(
        &mut self,
        deadline: Duration,
        catalogue: &dyn Catalogue,
        transfer: &Transfer,
    ) -> Result<Roster, CatalogueError> {
        let mut probes = TaskSet::new(transfer.runtime());
        let clock = &transfer.fleet().env().clock;
        for (id, record) in catalogue.nodes()? {
            let node = transfer.fleet().get(id);
            let lately = self.answered.get(&id).copied().filter(|(asked, _)| {
                node.as_ref().is_some_and(|node| clock.elapsed(*asked) < rest(node.capability().request_price))
            });
            let clock = clock.clone();
            probes.spawn(async move {
                let (asked, reach, is_new) = match lately {
                    Some((asked, space)) => (asked, Reach::Answers(space), false),
                    None => (clock.now(), ask(node.as_deref(), &record.name, deadline, &*clock).await, true),
                };
                (id, asked, is_new, NodeFacts { record, reach, presumed_lost: false })
            });
        }
        let found = probes.join_all().await;
        self.answered.clear();
        for (id, asked, is_new, facts) in &found {
            if let Reach::Answers(space) = facts.reach {
                self.answered.insert(*id, (*asked, space));
                // A node that was silent until now may get work again.
                transfer.fleet().report(*id, Ok(()));
                if *is_new {
                    transfer.fleet().set_space(*id, &space);
                }
            }
        }
        let nodes = found.into_iter().map(|(id, _, _, facts)| (id, facts)).collect();
        Ok(Roster { nodes, rule: transfer.fleet().view().rule })
    }
}

/// How long a node that answered is not asked again: a thousand times what a request costs it, so a folder is asked whenever
/// somebody looks, and a bucket three times a minute. The price is in units of 10 microseconds.
fn rest(request_price: u64) -> Duration {
    Duration::from_micros(request_price.saturating_mul(10 * 1000))
}

async fn ask(node: Option<&dyn Node>, name: &str, deadline: Duration, clock: &dyn Clock) -> Reach {
    let Some(node) = node else { return Reach::OutOfReach(format!("node {name} was not opened")) };
    match clock.timeout(deadline, node.space()).await {
        Ok(Ok(space)) => Reach::Answers(space),
        Ok(Err(error)) if error.kind == NodeErrorKind::Wiped => Reach::Wiped(error.to_string()),
        Ok(Err(error)) if error.kind == NodeErrorKind::Denied => Reach::Refuses(error.to_string()),
        Ok(Err(error)) => Reach::OutOfReach(error.to_string()),
        Err(_) => {
            let seconds = deadline.as_secs();
            Reach::OutOfReach(format!("node {name} did not answer within {seconds} s: its state is not known yet"))
        }
    }
}

/// Does a failed call say that the shard itself, and not its node, is at fault? An I/O error of one shard on a node that
/// answers is a bad sector, whereas a node that refuses, is silent or is another says nothing of its shards.
pub(crate) fn blames_shard(kind: NodeErrorKind) -> bool {
    matches!(kind, NodeErrorKind::Io | NodeErrorKind::Corrupt | NodeErrorKind::NotFound)
}
