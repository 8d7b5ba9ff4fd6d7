//! Where a segment's shards go: weighted rendezvous hashing, at most a given number of shards per domain, by default one.
//!
//! Every node draws a time for the segment, `-ln(u) / w`, with `u` in (0, 1) from a hash of (segment, node). The times of a
//! domain's nodes race like one node with the sum of their weights, so taking domains as their first node arrives chooses
//! domains by their weight and nodes by theirs, and a node that comes or goes changes only the placements it wins or leaves.
//! Sources: Schindelhauer and Schomaker, "Weighted distributed hash tables", SPAA 2005 (the logarithmic method).
//!
//! Taking the first `n` arrivals gives heavy domains less than their share, since each can be had once. So arrivals are
//! compared as ranks that make a domain chosen as often as `n` times its weight over the sum, and always where that is more
//! than once: Rosen, "On sampling with probability proportional to size", J. Stat. Plan. Inference 62 (1997). The
//! price: where domains are chosen often, a node that comes to one makes some shards move that it does not get, about half
//! as many times its own as its domain is chosen (1 % more where that is once in fifty segments).
//!
//! Where a segment has more shards than there are domains, and several may share one, all domains take a first shard before any takes
//! a second, and so on; so they are spread as evenly as can be. Which domains take one more is drawn in the same way by their weights and
//! names, so that nodes that come to one do not decide about it. In each the first nodes to arrive take its shards. Where these are
//! several, heavy nodes have a little less than their weight's share, since each takes one at most.
//!
//! [`place`] ranks all nodes: plain, and the reference. [`Layout`] gives the same places for many segments of one view and
//! looks only at nodes that come in early.

mod balance;
mod draw;
mod groups;
mod layout;
mod risk;
mod room;

pub use balance::{Balance, Holdings, Load, PASSES, Pass, Relocation};
pub use groups::{place_groups, place_lost};
pub use layout::Layout;
pub use risk::{LossRisk, loss_risk, set_count};
pub use room::{Room, usable_room};

use crate::membership::{Member, View};
use draw::Words;
use std::collections::{BTreeMap, BTreeSet};
use weft_format::records::{NodeState, PlacementRule};
use weft_format::{NodeId, SegmentId};

/// Room left on every node, beyond the shard: for what others are writing at the same time, and for deleting and compacting
/// when the volume is full. On small nodes it is less, see [`RESERVE_SHARE`].
pub const RESERVE_BYTES: u64 = 64 << 20;

/// The reserve is at most one part in so many of the node.
pub const RESERVE_SHARE: u64 = 64;

/// What is to be placed.
#[derive(Clone, Debug)]
pub struct PlacementRequest<'a> {
    /// The segment.
    pub segment: SegmentId,
    /// How many shards to place, each on a node of its own.
    pub shard_count: usize,
    /// Length of one stored shard; nodes without room for it are left out.
    pub shard_bytes: u64,
    /// Nodes that are not to be used: they failed, or hold a shard of this segment.
    pub excluded_nodes: &'a BTreeSet<NodeId>,
    /// Shards of this segment that domains hold already.
    pub held: &'a BTreeMap<String, usize>,
    /// Shards of the segment in one domain at most, those that it holds included: losing that domain loses as many.
    pub unit_shards: usize,
    /// Only nodes of this locality; `None`: all.
    pub within: Option<&'a str>,
}

impl PlacementRequest<'_> {
    fn held_in(&self, domain: &str) -> usize {
        self.held.get(domain).copied().unwrap_or(0)
    }
}

/// Where shards go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// `shard_count` distinct nodes, by position of the shard.
    pub nodes: Vec<NodeId>,
    /// Further nodes, best first. Each may take one of the shards as long as its domain then has no more than are allowed; where all
    /// domains are full it can stand in for a node of its own domain only.
    pub alternates: Vec<NodeId>,
}

/// Why shards cannot be placed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlacementError {
    /// Fewer nodes than shards.
    #[error(
        "{wanted} nodes are needed and {usable} of {members} can take a shard of {shard_bytes} bytes ({left_out}): \
         add {} or make room, or choose a code with fewer shards",
        count_noun(.wanted - .usable, "node")
    )]
    TooFewNodes {
        /// Shards to place.
        wanted: usize,
        /// Nodes that can take one.
        usable: usize,
        /// Nodes of the volume.
        members: usize,
        /// Length of a shard.
        shard_bytes: u64,
        /// Of the others, those that have no room.
        full: usize,
        /// Why the others cannot.
        left_out: String,
    },
    /// Enough nodes, in too few domains.
    #[error("{}", too_few_domains(*.wanted, *.usable, *.domains, *.unit_shards, *.full))]
    TooFewDomains {
        /// Shards to place.
        wanted: usize,
        /// Nodes that can take one.
        usable: usize,
        /// Distinct domains of these.
        domains: usize,
        /// Shards of a segment that one may hold.
        unit_shards: usize,
        /// Nodes that have no room, where their domains could have more shards.
        full: usize,
    },
}

fn too_few_domains(wanted: usize, usable: usize, domains: usize, unit_shards: usize, full: usize) -> String {
    let room = match full {
        0 => String::new(),
        1 => "make room on the node that is full, ".to_owned(),
        _ => format!("make room on the {full} nodes that are full, "),
    };
    match unit_shards {
        1 => format!(
            "{wanted} failure domains are needed and the {usable} usable nodes are in {domains}: {room}add nodes in {} more, \
             give nodes domains of their own, choose a code with fewer shards, or let a domain hold several shards \
             (`weft placement META --per-unit`)",
            wanted.saturating_sub(domains)
        ),
        _ => format!(
            "{wanted} shards do not fit on the {usable} usable nodes in {domains} failure domains with at most {unit_shards} shards in \
             one: {room}add nodes in other domains, or choose a code with fewer shards or more parities"
        ),
    }
}

fn count_noun(count: usize, noun: &str) -> String {
    format!("{count} more {noun}{}", if count == 1 { "" } else { "s" })
}

/// Chooses nodes for a segment's shards. A pure function: the same view and request give the same answer on every machine.
///
/// # Errors
/// Too few nodes or too few domains, with the numbers and the mend.
pub fn place(view: &View, request: &PlacementRequest<'_>) -> Result<Placement, PlacementError> {
    let ranked = rank(view, request);
    let wanted = request.shard_count;
    if ranked.len() < wanted {
        return Err(PlacementError::TooFewNodes {
            wanted,
            usable: ranked.len(),
            members: view.members.len(),
            shard_bytes: request.shard_bytes,
            full: full_nodes(view, request).count(),
            left_out: left_out(view, request),
        });
    }
    let allowed = ranked.iter().filter(|ranked| ranked.tier <= request.unit_shards).count();
    if allowed < wanted {
        let domains = ranked.iter().map(|ranked| ranked.member.domain.as_str()).collect::<BTreeSet<_>>().len();
        let (usable, unit_shards) = (ranked.len(), request.unit_shards);
        // Where a domain has all the shards that it may have, room on another of its nodes is of no use.
        let usable_in = |domain: &str| ranked.iter().filter(|ranked| ranked.member.domain == domain).count();
        let is_wanted = |node: &NodeId| usable_in(&view.members[node].domain) < request.unit_shards;
        let full = full_nodes(view, request).filter(is_wanted).count();
        return Err(PlacementError::TooFewDomains { wanted, usable, domains, unit_shards, full });
    }
    let mut nodes: Vec<NodeId> = ranked.into_iter().map(|ranked| ranked.id).collect();
    let alternates = nodes.split_off(wanted);
    Ok(Placement { nodes: by_position(request.segment, &nodes), alternates })
}

/// Nodes that would take a shard if they had room for it.
pub fn full_nodes(view: &View, request: &PlacementRequest<'_>) -> impl Iterator<Item = NodeId> {
    view.members.iter().filter(|(id, member)| obstacle(**id, member, request) == Some(FULL)).map(|(id, _)| *id)
}

/// The number of shards of a segment in the fullest unit, if `shard_count` shards are spread as evenly as can be over nodes of these
/// `units`, each named once for each node, and `rule` allows it; else what the rule allows.
pub fn even_load<'u>(units: impl Iterator<Item = &'u str>, shard_count: usize, rule: &PlacementRule) -> usize {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    units.for_each(|unit| *counts.entry(unit).or_default() += 1);
    draw::even_load(&counts.into_values().collect::<Vec<_>>(), shard_count).min(rule.unit_shards.max(1) as usize)
}

impl View {
    /// [`even_load`] of the nodes that take new shards.
    pub fn even_load(&self, shard_count: usize) -> usize {
        let active = self.members.values().filter(|member| member.state == NodeState::Active);
        even_load(active.map(|member| member.domain.as_str()), shard_count, &self.rule)
    }
}

/// A node that can take a shard.
struct Ranked<'v> {
    /// Shards of the segment that its domain has when it takes one, after the nodes of the domain that rank before it.
    tier: usize,
    /// Of the domain, and when two are alike.
    rank: f64,
    arrival: f64,
    id: NodeId,
    member: &'v Member,
}

/// Nodes that can take a shard, best first: domains with fewer shards first.
fn rank<'v>(view: &'v View, request: &PlacementRequest<'_>) -> Vec<Ranked<'v>> {
    let shares = draw::shares(view, request.shard_count);
    let drawer = Words::of_drawer(request.segment, view.rule.set_count);
    let mut domains: BTreeMap<&str, Vec<(f64, NodeId, &Member)>> = BTreeMap::new();
    for (id, member) in view.members.iter().filter(|(id, member)| obstacle(**id, member, request).is_none()) {
        let arrival = draw::arrival(drawer.pair(Words::of_node(*id)), draw::effective_weight(view, member));
        domains.entry(&member.domain).or_default().push((arrival, *id, member));
    }
    let mut ranked = Vec::new();
    for (domain, mut nodes) in domains {
        nodes.sort_by(|a, b| (a.0.total_cmp(&b.0)).then(a.1.cmp(&b.1)));
        let Some(share) = shares.domains.get(domain) else { continue };
        let arrival = match shares.full {
            // The first of its nodes to arrive.
            0 => nodes[0].0,
            _ => draw::arrival(drawer.pair(Words::of_text(domain)), share.weight),
        };
        let (rank, first) = (share.rank(arrival), request.held_in(domain) + 1);
        let of_domain = (first..).zip(nodes);
        ranked.extend(of_domain.map(|(tier, (_, id, member))| Ranked { tier, rank, arrival, id, member }));
    }
    let by_rank = |a: &Ranked<'_>, b: &Ranked<'_>| a.rank.total_cmp(&b.rank).then(a.arrival.total_cmp(&b.arrival));
    ranked.sort_by(|a, b| a.tier.cmp(&b.tier).then(by_rank(a, b)).then(a.id.cmp(&b.id)));
    ranked
}

/// The obstacle that callers tell apart: it goes away when something is deleted.
const FULL: &str = "full";

/// Why a node cannot take a shard; `None` where it can.
fn obstacle(id: NodeId, member: &Member, request: &PlacementRequest<'_>) -> Option<&'static str> {
    match member.state {
        NodeState::Draining => Some("draining"),
        NodeState::Lost => Some("lost"),
        NodeState::ReadOnly => Some("read-only"),
        NodeState::Active => request_obstacle(id, &member.domain, &member.locality, request)
            .or_else(|| (room_bytes(member) < request.shard_bytes).then_some(FULL)),
    }
}

/// Why this request does not want a node.
fn request_obstacle(id: NodeId, domain: &str, locality: &str, request: &PlacementRequest<'_>) -> Option<&'static str> {
    match request.within {
        Some(within) if within != locality => Some("elsewhere"),
        _ if request.excluded_nodes.contains(&id) => Some("failed just now or in use"),
        _ if request.held_in(domain) >= request.unit_shards => Some("in a domain in use"),
        _ => None,
    }
}

/// The longest shard that a node can take; all that there are while its room is not known.
fn room_bytes(member: &Member) -> u64 {
    let reserve_bytes = member.total_bytes.map_or(RESERVE_BYTES, |total| RESERVE_BYTES.min(total / RESERVE_SHARE));
    member.free_bytes.map_or(u64::MAX, |free| free.saturating_sub(reserve_bytes))
}

/// `2 full, 1 lost`.
fn left_out(view: &View, request: &PlacementRequest<'_>) -> String {
    let mut reasons: Vec<(&str, usize)> = Vec::new();
    for (id, member) in &view.members {
        let Some(reason) = obstacle(*id, member, request) else { continue };
        match reasons.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, count)) => *count += 1,
            None => reasons.push((reason, 1)),
        }
    }
    if reasons.is_empty() {
        return "none is left out".into();
    }
    reasons.iter().map(|(reason, count)| format!("{count} {reason}")).collect::<Vec<_>>().join(", ")
}

/// Gives every chosen node a position of its own, by a hash: the order of the draw would give heavy nodes the first
/// positions, hence the data shards, hence the reads. A node that is replaced moves few of the others.
fn by_position(segment: SegmentId, chosen: &[NodeId]) -> Vec<NodeId> {
    let segment = Words::of_segment(segment);
    let mut nodes = vec![None; chosen.len()];
    for node in chosen {
        // The draw used the high bits.
        let mut position = (segment.pair(Words::of_node(*node)) & 0x7ff) as usize * chosen.len() / 0x800;
        while nodes[position].is_some() {
            position = (position + 1) % chosen.len();
        }
        nodes[position] = Some(*node);
    }
    nodes.into_iter().flatten().collect()
}

#[cfg(test)]
#[path = "placement_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "placement/shared_tests.rs"]
mod shared_tests;
