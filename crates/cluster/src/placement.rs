//! Where a segment's shards go: weighted rendezvous hashing, at most one shard per domain.
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
//! [`place`] ranks all nodes: plain, and the reference. [`Layout`] gives the same places for many segments of one view and
//! looks only at nodes that come in early.

mod balance;
mod draw;
mod groups;
mod layout;
mod risk;
mod room;

pub use balance::{Balance, Holdings, Load, Pass, Relocation};
pub use groups::{place_groups, place_lost};
pub use layout::Layout;
pub use risk::{LossRisk, loss_risk, set_count};
pub use room::{Pool, Room, fill, usable_room};

use crate::membership::{Member, View};
use draw::Words;
use std::collections::BTreeSet;
use weft_format::records::NodeState;
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
    /// Domains that are not to be used: they hold a shard of this segment.
    pub excluded_domains: &'a BTreeSet<String>,
    /// Only nodes of this locality; `None`: all.
    pub within: Option<&'a str>,
    /// Where there are too few domains, put several shards into one: losing that domain then loses several. Never a default.
    pub allow_shared_domains: bool,
}

/// Where shards go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// `shard_count` distinct nodes, by position of the shard.
    pub nodes: Vec<NodeId>,
    /// Further nodes, best first. Unless domains are shared, each is of a domain that `nodes` does not use, and no two are
    /// of one domain; then nodes of used domains follow, which can stand in for the node of their own domain only.
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
    #[error(
        "{wanted} failure domains are needed and the {usable} usable nodes are in {domains}: add nodes in {} more, \
         give nodes domains of their own, choose a code with fewer shards, or allow shared domains",
        .wanted - .domains
    )]
    TooFewDomains {
        /// Shards to place.
        wanted: usize,
        /// Nodes that can take one.
        usable: usize,
        /// Distinct domains of these.
        domains: usize,
    },
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
            full: view.members.iter().filter(|(id, member)| obstacle(**id, member, request) == Some(FULL)).count(),
            left_out: left_out(view, request),
        });
    }
    let mut used_domains: BTreeSet<&str> = request.excluded_domains.iter().map(String::as_str).collect();
    let (mut firsts, mut seconds): (Vec<NodeId>, Vec<NodeId>) = (Vec::new(), Vec::new());
    for (node, member) in &ranked {
        let of_its_own = used_domains.insert(&member.domain);
        if of_its_own { &mut firsts } else { &mut seconds }.push(*node);
    }
    if firsts.len() < wanted && !request.allow_shared_domains {
        return Err(PlacementError::TooFewDomains { wanted, usable: ranked.len(), domains: firsts.len() });
    }
    firsts.append(&mut seconds);
    let alternates = firsts.split_off(wanted);
    Ok(Placement { nodes: by_position(request.segment, &firsts), alternates })
}

/// Nodes that can take a shard, best first.
fn rank<'v>(view: &'v View, request: &PlacementRequest<'_>) -> Vec<(NodeId, &'v Member)> {
    let shares = draw::shares(view, request.shard_count);
    let drawer = Words::of_drawer(request.segment, view.rule.set_count);
    let usable = view.members.iter().filter(|(id, member)| obstacle(**id, member, request).is_none());
    let drawn = usable.map(|(id, member)| {
        let arrival = draw::arrival(drawer.pair(Words::of_node(*id)), draw::effective_weight(view, member));
        let rank = shares.get(member.domain.as_str()).map_or(f64::INFINITY, |share| share.rank(arrival));
        (rank, arrival, *id, member)
    });
    let mut drawn: Vec<_> = drawn.collect();
    drawn.sort_by(|a, b| (a.0.total_cmp(&b.0)).then(a.1.total_cmp(&b.1)).then(a.2.cmp(&b.2)));
    drawn.into_iter().map(|(_, _, id, member)| (id, member)).collect()
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
    // With shared domains allowed a domain is never an obstacle, only a node.
    let domain_excluded = || !request.allow_shared_domains && request.excluded_domains.contains(domain);
    match request.within {
        Some(within) if within != locality => Some("elsewhere"),
        _ if request.excluded_nodes.contains(&id) => Some("failed just now or in use"),
        _ if domain_excluded() => Some("in a domain in use"),
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
