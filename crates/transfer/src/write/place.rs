//! Stage 3: which node gets which shard.

use super::split::Split;
use crate::error::WriteError;
use crate::transfer::Inner;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use weft_cluster::{Placement, PlacementError, PlacementRequest, View};
use weft_format::records::NodeState;
use weft_format::{NodeId, SegmentId};

/// Where shards are to go.
pub(crate) struct Placed {
    /// By shard index; `None`: there is no place for it now.
    pub(crate) nodes: Vec<Option<NodeId>>,
    /// Further nodes, best first.
    pub(crate) alternates: Vec<NodeId>,
    pub(crate) view: Arc<View>,
    /// Nodes that have no room, where for want of nodes some shards have no place.
    pub(crate) full_count: usize,
}

/// Before a write fails for want of room, nodes are asked for so long: room may have been made since they said that they are full.
const FULL_DEADLINE: Duration = Duration::from_secs(2);

pub(crate) async fn place_now(inner: &Arc<Inner>, split: &Split) -> Result<Placed, WriteError> {
    let began = inner.fleet.clock().now();
    match place(inner, split) {
        Err(error) if error.is_full() => {
            inner.fleet.refresh_space_since(began, FULL_DEADLINE).await;
            place(inner, split)
        }
        placed => placed,
    }
}

pub(crate) fn place(inner: &Arc<Inner>, split: &Split) -> Result<Placed, WriteError> {
    refresh_space(inner);
    let view = inner.fleet.view();
    let n = split.code.shape().n;
    let (nodes, held) = (BTreeSet::new(), BTreeMap::new());
    let unit_shards = split.unit_shards(&view);
    let request = Wanted {
        segment: split.segment,
        shard_bytes: split.object_bytes(),
        excluded_nodes: &nodes,
        held: &held,
        unit_shards,
        now_ms: inner.fleet.now_ms(),
    };
    let groups: Vec<Vec<usize>> = split.code.shape().groups.iter().map(|group| group.shards.clone()).collect();
    let refused = |source| WriteError::Placement { segment: split.segment, source };
    let (placement, full_count) = match request.choose_groups(&view, n, &groups) {
        Ok(placement) => (placement, 0),
        // A volume that has domains for the code when all is well goes on writing while some of them are gone: the shards without
        // a place are recorded as missing. One that never had is refused, and so is one whose nodes are there and full.
        Err(error) if Units::of(&view, unit_shards).shard_count() >= n => {
            let lost_count = Units::of(&view, unit_shards).lost_count();
            let fewest = if split.has_margin { split.least } else { split.least.max(n - lost_count.min(n)) };
            let full_count = if let PlacementError::TooFewNodes { full, .. } = error { full } else { 0 };
            let placeable = (fewest..n).rev().find_map(|count| request.choose(&view, count).ok());
            (placeable.ok_or(refused(error))?, full_count)
        }
        Err(error) => return Err(refused(error)),
    };
    if placement.nodes.len() < n {
        tracing::warn!(segment = %split.segment, placed = placement.nodes.len(), n, "too few nodes: writing with shards missing");
    }
    let mut nodes: Vec<Option<NodeId>> = placement.nodes.into_iter().map(Some).collect();
    nodes.resize(n, None);
    Ok(Placed { nodes, alternates: placement.alternates, view, full_count })
}

/// Asks nodes for their room in the background, if that is due. Placement uses what is known.
pub(crate) fn refresh_space(inner: &Arc<Inner>) {
    if inner.fleet.space_is_stale() {
        let fleet = inner.fleet.clone();
        inner.runtime.spawn(async move { fleet.refresh_space().await });
    }
}

/// A placement, but for the number of shards.
pub(crate) struct Wanted<'a> {
    pub(crate) segment: SegmentId,
    pub(crate) shard_bytes: u64,
    pub(crate) excluded_nodes: &'a BTreeSet<NodeId>,
    /// Shards of the segment that domains hold already.
    pub(crate) held: &'a BTreeMap<String, usize>,
    /// Shards of it in one domain at most.
    pub(crate) unit_shards: usize,
    pub(crate) now_ms: u64,
}

impl Wanted<'_> {
    /// Places `shard_count` shards on nodes that answer; where these are too few, on suspected ones too.
    pub(crate) fn choose(&self, view: &View, shard_count: usize) -> Result<Placement, PlacementError> {
        self.choose_groups(view, shard_count, &[])
    }

    /// Places what is `lost` of a segment whose other shards are on `nodes`, groups where the rest of them is, on nodes that
    /// answer; where these are too few, on suspected ones too. `None`: there is no place for it.
    pub(crate) fn choose_lost(
        &self,
        view: &View,
        groups: &[Vec<usize>],
        nodes: &[Option<NodeId>],
        lost: &[usize],
    ) -> Vec<Option<NodeId>> {
        let placed = |excluded_nodes: &BTreeSet<NodeId>| {
            weft_cluster::place_lost(view, &self.request(lost.len(), excluded_nodes), groups, nodes, lost)
        };
        let avoided = self.suspected(view);
        if !avoided.is_empty() {
            let all = placed(&avoided.union(self.excluded_nodes).copied().collect());
            if all.iter().all(Option::is_some) {
                return all;
            }
        }
        placed(self.excluded_nodes)
    }

    /// As [`Self::choose`], with each group of shards in a locality of its own where the volume wants that.
    fn choose_groups(
        &self,
        view: &View,
        shard_count: usize,
        groups: &[Vec<usize>],
    ) -> Result<Placement, PlacementError> {
        let mut avoided = self.suspected(view);
        let request = |excluded_nodes: &BTreeSet<NodeId>| {
            weft_cluster::place_groups(view, &self.request(shard_count, excluded_nodes), groups)
        };
        if !avoided.is_empty() {
            avoided.extend(self.excluded_nodes);
            if let Ok(placement) = request(&avoided) {
                return Ok(placement);
            }
        }
        request(self.excluded_nodes)
    }

    fn suspected(&self, view: &View) -> BTreeSet<NodeId> {
        let suspected = view.members.iter().filter(|(_, member)| member.health.is_suspected(self.now_ms));
        suspected.map(|(id, _)| *id).collect()
    }

    fn request<'r>(&'r self, shard_count: usize, excluded_nodes: &'r BTreeSet<NodeId>) -> PlacementRequest<'r> {
        PlacementRequest {
            segment: self.segment,
            shard_count,
            shard_bytes: self.shard_bytes,
            excluded_nodes,
            held: self.held,
            unit_shards: self.unit_shards,
            within: None,
        }
    }
}

/// Shards of a segment by domain, if it lies on these nodes.
pub(crate) fn held_by(view: &View, nodes: impl Iterator<Item = NodeId>) -> BTreeMap<String, usize> {
    let mut held = BTreeMap::new();
    for member in nodes.filter_map(|node| view.members.get(&node)) {
        *held.entry(member.domain.clone()).or_default() += 1;
    }
    held
}

/// What the domains of a volume can hold of a segment.
pub(crate) struct Units<'v> {
    unit_shards: usize,
    /// By domain: its nodes, and those of them that were not given up.
    nodes: BTreeMap<&'v str, (usize, usize)>,
}

impl<'v> Units<'v> {
    /// Of all members; a domain takes `unit_shards` at most.
    pub(crate) fn of(view: &'v View, unit_shards: usize) -> Self {
        let mut nodes: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
        for member in view.members.values() {
            let (all, left) = nodes.entry(&member.domain).or_default();
            *all += 1;
            *left += usize::from(member.state != NodeState::Lost);
        }
        Self { unit_shards, nodes }
    }

    /// Shards that have a place when all is well.
    pub(crate) fn shard_count(&self) -> usize {
        self.nodes.values().map(|(all, _)| all.min(&self.unit_shards)).sum()
    }

    /// Places of shards that went with nodes that were given up.
    pub(crate) fn lost_count(&self) -> usize {
        self.nodes.keys().map(|domain| self.lost_in(domain)).sum()
    }

    fn lost_in(&self, domain: &str) -> usize {
        self.nodes.get(domain).map_or(0, |(all, left)| all.min(&self.unit_shards) - left.min(&self.unit_shards))
    }

    /// Shards that are missing because nodes are away, and those that are because nodes are full, where these domains hold what is
    /// `stored`, and nodes of these domains failed, each named once for each node. What a domain holds on other nodes is not missing.
    pub(crate) fn missing(&self, stored: &[&str], away: &[&str], full: &[&str]) -> (usize, usize) {
        let count = |domains: &[&str], domain: &str| domains.iter().filter(|other| **other == domain).count();
        let of_domain = |domain: &&str| {
            let free = self.unit_shards.saturating_sub(count(stored, domain));
            let away = (count(away, domain) + self.lost_in(domain)).min(free);
            (away, count(full, domain).min(free - away))
        };
        self.nodes.keys().map(of_domain).fold((0, 0), |sum, (away, full)| (sum.0 + away, sum.1 + full))
    }
}

#[cfg(test)]
#[path = "place_tests.rs"]
mod tests;
