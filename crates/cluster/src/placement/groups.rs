//! Placement of codes that repair locally: each group in a locality of its own, where the volume asks for it.
//!
//! What is promised: no more shards in one failure domain than are allowed, exactly as without groups, so any losses of whole
//! failure domains that the code survives are survived. What is given up: a locality that fails as a whole takes a whole group with it. So a
//! rule names a locality wider than the failure domain only where localities as a whole are not expected to be lost.

use super::draw::{self, Words};
use super::{Placement, PlacementError, PlacementRequest, obstacle, place, rank};
use crate::membership::View;
use std::collections::{BTreeMap, BTreeSet};
use weft_format::NodeId;

/// As [`place`], with the shards of each of `groups` (shard indices, no shard in two) within one locality and no two groups in
/// one. Shards of no group go to other localities, as many as can. Where there are too few localities with enough domains
/// for the groups, shards are placed as if there were no groups: repair then reads across localities, and nothing else changes.
///
/// # Errors
/// As [`place`].
pub fn place_groups(
    view: &View,
    request: &PlacementRequest<'_>,
    groups: &[Vec<usize>],
) -> Result<Placement, PlacementError> {
    match in_localities(view, request, groups) {
        Some(placement) => Ok(placement),
        None => place(view, request),
    }
}

fn in_localities(view: &View, request: &PlacementRequest<'_>, groups: &[Vec<usize>]) -> Option<Placement> {
    let largest = groups.iter().map(Vec::len).max()?;
    if view.rule.locality_depth == 0 {
        return None;
    }
    let mut nodes: Vec<Option<NodeId>> = vec![None; request.shard_count];
    let mut alternates = Vec::new();
    let localities = localities(view, request, largest);
    let mut localities = localities.iter();
    for group in groups {
        // One that cannot take the group after all is passed over.
        let placed = localities.by_ref().find_map(|locality| {
            place(view, &PlacementRequest { shard_count: group.len(), within: Some(locality), ..request.clone() }).ok()
        })?;
        for (shard, node) in group.iter().zip(placed.nodes) {
            *nodes.get_mut(*shard)? = Some(node);
        }
        alternates.extend(placed.alternates);
    }
    let rest: Vec<usize> = (0..nodes.len()).filter(|shard| nodes[*shard].is_none()).collect();
    let used: BTreeSet<NodeId> = nodes.iter().flatten().copied().collect();
    let homes: BTreeSet<&str> = used.iter().map(|node| view.members[node].locality.as_str()).collect();
    let mut found = Places { view, request, used, nodes: BTreeMap::new() };
    found.place_apart(&rest, &homes);
    found.place_left(&rest);
    for (shard, node) in found.nodes {
        nodes[shard] = Some(node);
    }
    let nodes: Vec<NodeId> = nodes.into_iter().collect::<Option<_>>()?;
    // A group that is not in one locality is better than a shard that is not stored.
    let others: Vec<NodeId> = rank(view, request).into_iter().map(|ranked| ranked.id).collect();
    let others = others.into_iter().filter(|node| !alternates.contains(node)).collect::<Vec<_>>();
    alternates.extend(others);
    let taken = held_by(view, nodes.iter());
    // Those of domains that may hold more first, as always.
    let is_free = |node: &NodeId| taken.get(&view.members[node].domain).is_none_or(|held| *held < request.unit_shards);
    let (mut free, mut stand_ins): (Vec<NodeId>, Vec<NodeId>) = alternates.into_iter().partition(is_free);
    free.append(&mut stand_ins);
    free.retain(|node| !nodes.contains(node));
    Some(Placement { nodes, alternates: free })
}

/// Shards of a segment by domain, if it lies on these nodes.
fn held_by<'n>(view: &View, nodes: impl Iterator<Item = &'n NodeId>) -> BTreeMap<String, usize> {
    let mut held = BTreeMap::new();
    for member in nodes.filter_map(|node| view.members.get(node)) {
        *held.entry(member.domain.clone()).or_default() += 1;
    }
    held
}

/// Localities whose domains can take at least this many shards, by weighted rendezvous.
fn localities(view: &View, request: &PlacementRequest<'_>, shard_count: usize) -> Vec<String> {
    let mut found: BTreeMap<&str, (BTreeMap<&str, usize>, f64)> = BTreeMap::new();
    for (id, member) in &view.members {
        if obstacle(*id, member, request).is_none() {
            let (domains, weight) = found.entry(&member.locality).or_default();
            *domains.entry(&member.domain).or_default() += 1;
            *weight += draw::effective_weight(view, member);
        }
    }
    let drawer = Words::of_drawer(request.segment, view.rule.set_count);
    let taken =
        |domains: &BTreeMap<&str, usize>| domains.values().map(|nodes| nodes.min(&request.unit_shards)).sum::<usize>();
    let large = found.into_iter().filter(|(_, (domains, _))| taken(domains) >= shard_count);
    let drawn = large.map(|(name, (_, weight))| (draw::arrival(drawer.pair(Words::of_text(name)), weight), name));
    let mut drawn: Vec<(f64, &str)> = drawn.collect();
    drawn.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(b.1)));
    drawn.into_iter().map(|(_, name)| name.to_owned()).collect()
}

/// Nodes for shards of a placed segment that are lost, in their order; `None`: there is no place for it. `nodes` says by shard
/// where the others are.
///
/// Where the volume wants each of `groups` in a locality of its own, a shard of a group goes to where the rest of the group is,
/// and one of no group to where no group is, as in [`place_groups`]; those for which there is no room there go anywhere, as by [`place`]. No
/// domain gets more shards than are allowed. Of `request` the number of shards, and what domains hold, mean nothing; the nodes that it excludes
/// are excluded beside `nodes`.
pub fn place_lost(
    view: &View,
    request: &PlacementRequest<'_>,
    groups: &[Vec<usize>],
    nodes: &[Option<NodeId>],
    lost: &[usize],
) -> Vec<Option<NodeId>> {
    let mut found = Places { view, request, used: nodes.iter().flatten().copied().collect(), nodes: BTreeMap::new() };
    if view.rule.locality_depth > 0 && !groups.is_empty() {
        let homes: Vec<Option<&str>> = groups.iter().map(|group| home(view, group, nodes)).collect();
        for (group, home) in groups.iter().zip(&homes) {
            let of_group: Vec<usize> = lost.iter().copied().filter(|shard| group.contains(shard)).collect();
            found.place(&of_group, &|locality| Some(locality) == *home);
        }
        let is_of_none = |shard: &usize| !groups.iter().any(|group| group.contains(shard));
        let of_none: Vec<usize> = lost.iter().copied().filter(is_of_none).collect();
        found.place_apart(&of_none, &homes.into_iter().flatten().collect());
    }
    found.place_left(lost);
    lost.iter().map(|shard| found.nodes.get(shard).copied()).collect()
}

/// The locality in which what is left of a group lies; `None`: nothing is left, or it lies in several.
fn home<'v>(view: &'v View, group: &[usize], nodes: &[Option<NodeId>]) -> Option<&'v str> {
    let nodes = group.iter().filter_map(|shard| *nodes.get(*shard)?);
    let localities: BTreeSet<&str> =
        nodes.filter_map(|node| Some(view.members.get(&node)?.locality.as_str())).collect();
    localities.first().copied().filter(|_| localities.len() == 1)
}

/// Places that were found for shards.
struct Places<'a> {
    view: &'a View,
    request: &'a PlacementRequest<'a>,
    /// Nodes with a shard of the segment.
    used: BTreeSet<NodeId>,
    nodes: BTreeMap<usize, NodeId>,
}

impl Places<'_> {
    /// Places shards of no group, as many as can be, in localities without one: each there is one less that goes with a group.
    fn place_apart(&mut self, shards: &[usize], homes: &BTreeSet<&str>) {
        self.place(shards, &|locality| !homes.contains(locality));
    }

    /// Places those that have no place yet anywhere.
    fn place_left(&mut self, shards: &[usize]) {
        let left: Vec<usize> = shards.iter().copied().filter(|shard| !self.nodes.contains_key(shard)).collect();
        self.place(&left, &|_| true);
    }

    /// Places as many of `shards` as can be, in the localities that are wanted.
    fn place(&mut self, shards: &[usize], is_wanted: &dyn Fn(&str) -> bool) {
        let members = &self.view.members;
        let held = held_by(self.view, self.used.iter());
        let unwanted = members.iter().filter(|(_, member)| !is_wanted(&member.locality)).map(|(id, _)| *id);
        let excluded_nodes: BTreeSet<NodeId> =
            unwanted.chain(self.used.iter().copied()).chain(self.request.excluded_nodes.iter().copied()).collect();
        let (excluded_nodes, held) = (&excluded_nodes, &held);
        // With too few places for all, the first ones are served: a segment a shard better off is better off.
        let placed = (1..=shards.len()).rev().find_map(|shard_count| {
            let request = PlacementRequest { shard_count, excluded_nodes, held, ..self.request.clone() };
            place(self.view, &request).ok()
        });
        for (shard, node) in shards.iter().zip(placed.into_iter().flat_map(|placement| placement.nodes)) {
            self.used.insert(node);
            self.nodes.insert(*shard, node);
        }
    }
}

#[cfg(test)]
#[path = "groups_tests.rs"]
mod tests;
