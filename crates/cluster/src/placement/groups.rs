//! Placement of codes that repair locally: each group in a locality of its own, where the volume asks for it.
//!
//! What is promised: no two shards in one failure domain, exactly as without groups, so any losses of whole failure domains
//! that the code survives are survived. What is given up: a locality that fails as a whole takes a whole group with it. So a
//! rule names a locality wider than the failure domain only where localities as a whole are not expected to be lost.

use super::draw::{self, Words};
use super::{Placement, PlacementError, PlacementRequest, obstacle, place};
use crate::membership::View;
use std::collections::{BTreeMap, BTreeSet};
use weft_format::NodeId;

/// As [`place`], with the shards of each of `groups` (shard indices, no shard in two) within one locality and no two groups in
/// one. Shards of no group go to other localities where they can. Where there are too few localities with enough domains
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
    for (shard, node) in rest.iter().zip(elsewhere(view, request, &used, rest.len())?) {
        nodes[*shard] = Some(node);
    }
    let nodes: Vec<NodeId> = nodes.into_iter().collect::<Option<_>>()?;
    let taken: BTreeSet<&str> = nodes.iter().map(|node| view.members[node].domain.as_str()).collect();
    // Those of free domains first, as always.
    let is_free = |node: &NodeId| !taken.contains(view.members[node].domain.as_str());
    let (mut free, mut stand_ins): (Vec<NodeId>, Vec<NodeId>) = alternates.into_iter().partition(is_free);
    free.append(&mut stand_ins);
    free.retain(|node| !nodes.contains(node));
    Some(Placement { nodes, alternates: free })
}

/// Localities with at least so many domains that can take a shard, by weighted rendezvous.
fn localities(view: &View, request: &PlacementRequest<'_>, domain_count: usize) -> Vec<String> {
    let mut found: BTreeMap<&str, (BTreeSet<&str>, f64)> = BTreeMap::new();
    for (id, member) in &view.members {
        if obstacle(*id, member, request).is_none() {
            let (domains, weight) = found.entry(&member.locality).or_default();
            domains.insert(&member.domain);
            *weight += draw::effective_weight(view, member);
        }
    }
    let drawer = Words::of_drawer(request.segment, view.rule.set_count);
    let large = found.into_iter().filter(|(_, (domains, _))| domains.len() >= domain_count);
    let drawn = large.map(|(name, (_, weight))| (draw::arrival(drawer.pair(Words::of_text(name)), weight), name));
    let mut drawn: Vec<(f64, &str)> = drawn.collect();
    drawn.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(b.1)));
    drawn.into_iter().map(|(_, name)| name.to_owned()).collect()
}

/// Nodes for shards of no group: in localities without a group, or else only in other domains.
fn elsewhere(
    view: &View,
    request: &PlacementRequest<'_>,
    used: &BTreeSet<NodeId>,
    shard_count: usize,
) -> Option<Vec<NodeId>> {
    let of_used =
        |by: fn(&crate::Member) -> &str| -> BTreeSet<&str> { used.iter().map(|id| by(&view.members[id])).collect() };
    let (localities, domains) = (of_used(|member| &member.locality), of_used(|member| &member.domain));
    let excluding = |is_used: &dyn Fn(&crate::Member) -> bool| {
        let excluded = view.members.values().filter(|member| is_used(member)).map(|member| member.domain.clone());
        let excluded: BTreeSet<String> = excluded.chain(request.excluded_domains.iter().cloned()).collect();
        place(view, &PlacementRequest { shard_count, excluded_domains: &excluded, ..request.clone() }).ok()
    };
    let placed = excluding(&|member| localities.contains(member.locality.as_str()))
        .or_else(|| excluding(&|member| domains.contains(member.domain.as_str())))?;
    Some(placed.nodes)
}

#[cfg(test)]
#[path = "groups_tests.rs"]
mod tests;
