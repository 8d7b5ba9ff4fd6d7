//! The members of a volume and what is thought of them.

use crate::estimator::{Estimator, Health, Observation};
use parking_lot::{Mutex, RwLock};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use weft_format::NodeId;
use weft_format::records::{NodeRecord, NodeState, PlacementRule};

/// One node as placement and reads see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// The user's name for it.
    pub name: String,
    /// What fails together with it: the part of its domain that the volume's rule takes for the unit of failure.
    pub domain: String,
    /// The wider domain in which a group of a code that repairs locally is to lie; empty where the rule names none.
    pub locality: String,
    /// Relative weight for placement, at least 1.
    pub weight: u64,
    /// Does it take new shards?
    pub state: NodeState,
    /// Is it asked first or last?
    pub health: Health,
    /// Bytes it can hold in all; `None` until it was asked.
    pub total_bytes: Option<u64>,
    /// Bytes still free for shards; `None` until it was asked.
    pub free_bytes: Option<u64>,
    /// The disk that room is on; members that name the same one share it.
    pub disk: Option<u64>,
}

/// All members at one moment; never changed, only replaced.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct View {
    /// By id.
    pub members: BTreeMap<NodeId, Member>,
    /// Rises with every change.
    pub epoch: u64,
    /// What the volume wants of placement.
    pub rule: PlacementRule,
}

impl View {
    /// Bytes in all and bytes free, of the nodes that have said so; a disk that several nodes lie on counts once. Of nodes that
    /// take nothing new only what is in use counts.
    pub fn room_bytes(&self) -> (u64, u64) {
        let mut disks = BTreeSet::new();
        let (taking, others): (Vec<_>, Vec<_>) =
            self.members.values().partition(|member| member.state == NodeState::Active);
        let counted =
            taking.into_iter().chain(others).filter(|member| member.disk.is_none_or(|disk| disks.insert(disk)));
        counted.fold((0, 0), |(all_total, all_free), member| {
            let (total, free) = (member.total_bytes.unwrap_or(0), member.free_bytes.unwrap_or(0));
            match member.state {
                NodeState::Active => (all_total + total, all_free + free),
                _ => (all_total + total.saturating_sub(free), all_free),
            }
        })
    }
}

/// Told of its nodes (from metadata) and of what was seen of them (by transfers and probes); gives views.
#[derive(Default)]
pub struct Membership {
    view: RwLock<Arc<View>>,
    estimators: Mutex<BTreeMap<NodeId, Estimator>>,
}

impl Membership {
    /// The newest view.
    pub fn view(&self) -> Arc<View> {
        self.view.read().clone()
    }

    /// The members that metadata names, under the volume's rule.
    pub fn new(records: impl IntoIterator<Item = (NodeId, NodeRecord)>, rule: PlacementRule) -> Self {
        let membership = Self::default();
        membership.set_records(records, rule);
        membership
    }

    /// Replaces the whole list, and the rule. What was seen of nodes that stay is kept.
    pub fn set_records(&self, records: impl IntoIterator<Item = (NodeId, NodeRecord)>, rule: PlacementRule) {
        let mut estimators = self.estimators.lock();
        let mut view = self.view.write();
        let members = records.into_iter().map(|(id, record)| {
            let before = view.members.get(&id);
            let member = Member {
                name: record.name,
                domain: rule.unit(&record.domain).to_owned(),
                locality: rule.locality(&record.domain).to_owned(),
                weight: record.weight.max(1),
                state: record.state,
                health: before.map_or(Health::Sound, |member| member.health),
                total_bytes: before.and_then(|member| member.total_bytes),
                free_bytes: before.and_then(|member| member.free_bytes),
                disk: before.and_then(|member| member.disk),
            };
            (id, member)
        });
        let next = View { members: members.collect(), epoch: view.epoch + 1, rule };
        estimators.retain(|id, _| next.members.contains_key(id));
        *view = Arc::new(next);
    }

    /// Takes in what was seen of `node` at `now_ms` (milliseconds of a clock that never goes back) and says what is thought
    /// of it then. Nodes that are no members are ignored and sound.
    pub fn observe(&self, node: NodeId, observation: Observation, now_ms: u64) -> Health {
        let mut estimators = self.estimators.lock();
        let before = match self.view.read().members.get(&node) {
            None => return Health::Sound,
            Some(member) => member.health,
        };
        let health = estimators.entry(node).or_default().observe(observation, now_ms);
        if health != before {
            self.change(node, |member| member.health = health);
        }
        health
    }

    /// Takes in the room a node says it has, and the disk it shares with others.
    pub fn set_space(&self, node: NodeId, total_bytes: u64, free_bytes: u64, disk: Option<u64>) {
        self.change(node, |member| {
            member.total_bytes = Some(total_bytes);
            member.free_bytes = Some(free_bytes);
            member.disk = disk;
        });
    }

    /// Takes in that a node has no room left.
    pub fn set_full(&self, node: NodeId) {
        self.change(node, |member| member.free_bytes = Some(0));
    }

    fn change(&self, node: NodeId, change: impl FnOnce(&mut Member)) {
        let mut view = self.view.write();
        if view.members.contains_key(&node) {
            let next = Arc::make_mut(&mut view);
            next.epoch += 1;
            next.members.get_mut(&node).map(change);
        }
    }
}

#[cfg(test)]
#[path = "membership_tests.rs"]
mod tests;
