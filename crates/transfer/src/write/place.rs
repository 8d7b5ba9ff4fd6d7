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
    /// Nodes that have no room for a shard, as far as is known.
    pub(crate) full: BTreeSet<NodeId>,
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
    let placement = match request.choose_groups(&view, n, &groups) {
        Ok(placement) => placement,
        // A volume that has domains for the code when all is well goes on writing while some of them are gone: the shards without
        // a place are recorded as missing. One that never had is refused, and so is one whose nodes are there and full.
        Err(error) if Units::of(&view, unit_shards).shard_count() >= n => {
            let units = Units::of(&view, unit_shards);
            let fewest = units.needed(split, units.lost_count());
            let placeable = (fewest..n).rev().find_map(|count| request.choose(&view, count).ok());
            placeable.ok_or(refused(error))?
        }
        Err(error) => return Err(refused(error)),
    };
    if placement.nodes.len() < n {
        tracing::warn!(segment = %split.segment, placed = placement.nodes.len(), n, "too few nodes: writing with shards missing");
    }
    let mut nodes: Vec<Option<NodeId>> = placement.nodes.into_iter().map(Some).collect();
    nodes.resize(n, None);
    let full = weft_cluster::full_nodes(&view, &request.request(n, &BTreeSet::new())).collect();
    Ok(Placed { nodes, alternates: placement.alternates, view, full })
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
    /// answer; where these are too few, on suspected ones too. `None`: there is no place for it. `homes` are the nodes that had what is
    /// lost; none of them takes another shard than its own.
    pub(crate) fn choose_lost(
        &self,
        view: &View,
        groups: &[Vec<usize>],
        nodes: &[Option<NodeId>],
        lost: &[usize],
        homes: &[Option<NodeId>],
    ) -> Vec<Option<NodeId>> {
        let placed = |excluded_nodes: &BTreeSet<NodeId>| {
            let request = self.request(lost.len(), excluded_nodes);
            let mut places = weft_cluster::place_lost(view, &request, groups, nodes, lost);
            own_first(&mut places, homes, Some);
            own_first(&mut places, homes, |node| view.members.get(&node).map(|member| &member.domain));
            places
        };
        let avoided = suspected(view, self.now_ms);
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
        let mut avoided = suspected(view, self.now_ms);
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

/// Exchanges places until each node, or each domain, that takes shards which it did not have takes its own, too. A shard without a
/// place, or whose node does not take it, stays in the record where it was, and must not be there with another.
fn own_first<H: PartialEq>(
    places: &mut [Option<NodeId>],
    homes: &[Option<NodeId>],
    home_of: impl Fn(NodeId) -> Option<H>,
) {
    let of = |node: Option<NodeId>| node.and_then(&home_of);
    let shards = 0..places.len();
    let all = || shards.clone().flat_map(|stranger| shards.clone().map(move |owner| (stranger, owner)));
    // Each exchange brings one shard more home.
    while let Some((stranger, owner)) = all().find(|(stranger, owner)| {
        let home = of(homes[*owner]);
        home.is_some() && of(places[*stranger]) == home && of(homes[*stranger]) != home && of(places[*owner]) != home
    }) {
        places.swap(stranger, owner);
    }
}

/// Nodes that failed lately.
pub(crate) fn suspected(view: &View, now_ms: u64) -> BTreeSet<NodeId> {
    let suspected = view.members.iter().filter(|(_, member)| member.health.is_suspected(now_ms));
    suspected.map(|(id, _)| *id).collect()
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
    domains: BTreeMap<&'v str, Domain>,
}

/// The nodes of one domain.
#[derive(Clone, Copy, Default)]
struct Domain {
    node_count: usize,
    /// Those that take new shards.
    active_count: usize,
    /// Those that were given up.
    lost_count: usize,
}

impl<'v> Units<'v> {
    /// Of all members; a domain takes `unit_shards` at most.
    pub(crate) fn of(view: &'v View, unit_shards: usize) -> Self {
        let mut domains: BTreeMap<&str, Domain> = BTreeMap::new();
        for member in view.members.values() {
            let domain = domains.entry(&member.domain).or_default();
            domain.node_count += 1;
            domain.active_count += usize::from(member.state == NodeState::Active);
            domain.lost_count += usize::from(member.state == NodeState::Lost);
        }
        Self { unit_shards, domains }
    }

    /// Shards that have a place when all is well.
    pub(crate) fn shard_count(&self) -> usize {
        self.domains.values().map(|domain| self.room(domain.node_count)).sum()
    }

    /// Places of shards that went with nodes that were given up.
    pub(crate) fn lost_count(&self) -> usize {
        self.domains.values().map(|domain| self.lost_in(domain)).sum()
    }

    /// How many shards of a segment must be durable where nodes for `away_count` of its shards cannot be asked: all others, unless the policy
    /// says how many. Places beyond those that the segment needs stand in for nodes that are away first. Nodes that take no new
    /// shards have no place, so that they are no reason to refuse a write.
    pub(crate) fn needed(&self, split: &Split, away_count: usize) -> usize {
        let n = split.code.shape().n;
        let places = |domain: &Domain| self.room(domain.active_count + domain.lost_count);
        let spare_count = self.domains.values().map(places).sum::<usize>().saturating_sub(n);
        match split.has_margin {
            true => split.least,
            false => n.saturating_sub(away_count.saturating_sub(spare_count)).max(split.least),
        }
    }

    /// Shards that this number of nodes of a domain hold at most.
    fn room(&self, node_count: usize) -> usize {
        node_count.min(self.unit_shards)
    }

    fn lost_in(&self, domain: &Domain) -> usize {
        self.room(domain.active_count + domain.lost_count) - self.room(domain.active_count)
    }

    /// Shards that are missing because nodes are away, and those that are because nodes are full, where these domains hold what is
    /// `stored`, and nodes of these domains failed, each named once for each node. What a domain holds on other nodes is not missing.
    pub(crate) fn missing(&self, stored: &[&str], away: &[&str], full: &[&str]) -> (usize, usize) {
        let count = |domains: &[&str], domain: &str| domains.iter().filter(|other| **other == domain).count();
        let of_domain = |(name, domain): (&&str, &Domain)| {
            let free = self.unit_shards.saturating_sub(count(stored, name));
            let away = (count(away, name) + self.lost_in(domain)).min(free);
            (away, count(full, name).min(free - away))
        };
        self.domains.iter().map(of_domain).fold((0, 0), |sum, (away, full)| (sum.0 + away, sum.1 + full))
    }
}

#[cfg(test)]
#[path = "place_tests.rs"]
mod tests;
