//! Placement for many segments of one view, in a time that hardly depends on sorting: the same places as [`place`].

use super::draw::{self, Share, Words};
use super::{Placement, PlacementError, PlacementRequest, by_position, place, request_obstacle, room_bytes};
use crate::membership::View;
use std::collections::BTreeMap;
use std::sync::Arc;
use weft_format::NodeId;
use weft_format::records::NodeState;

/// Nodes whose rank is at most this are looked at. A domain's rank is below 1 about as often as it is chosen, so some three
/// times as many domains as there are shards come in; with 14 shards fewer than 14 of 42 do once in 10^6 segments.
const RANK_MAX: f64 = 3.0;

/// A view made ready for segments of one number of shards. Some 100 bytes a node, and a millisecond for 10,000 nodes.
#[derive(Debug)]
pub struct Layout {
    view: Arc<View>,
    shard_count: usize,
    /// What every segment looks at, for each active node.
    draws: Vec<Draw>,
    /// The active nodes in the same order: looked at only for those that come in early.
    active: Vec<Active>,
    domains: Vec<Domain>,
}

#[derive(Debug)]
struct Draw {
    words: Words,
    least_hash: u64,
}

#[derive(Debug)]
struct Active {
    node: NodeId,
    domain: u32,
    weight: f64,
    room_bytes: u64,
}

#[derive(Debug)]
struct Domain {
    name: String,
    locality: String,
    share: Share,
}

/// A node that came in early.
struct Early {
    rank: f64,
    arrival: f64,
    index: usize,
}

impl Layout {
    /// For segments of `shard_count` shards.
    pub fn new(view: Arc<View>, shard_count: usize) -> Self {
        let shares = draw::shares(&view, shard_count);
        let numbers: BTreeMap<&str, u32> = shares.domains.keys().copied().zip(0..).collect();
        let mut domains: Vec<Domain> = (shares.domains.iter())
            .map(|(name, share)| Domain { name: (*name).into(), locality: String::new(), share: *share })
            .collect();
        let (mut draws, mut active) = (Vec::new(), Vec::new());
        for (id, member) in view.members.iter().filter(|(_, member)| member.state == NodeState::Active) {
            let (domain, weight) = (numbers[member.domain.as_str()], draw::effective_weight(&view, member));
            let known = &mut domains[domain as usize];
            // A domain lies in one locality, since both are beginnings of the same text.
            known.locality.clone_from(&member.locality);
            let least_hash = draw::least_hash(weight, known.share.deadline(RANK_MAX));
            draws.push(Draw { words: Words::of_node(*id), least_hash });
            active.push(Active { node: *id, domain, weight, room_bytes: room_bytes(member) });
        }
        drop(numbers);
        drop(shares);
        Self { view, shard_count, draws, active, domains }
    }

    /// The view it was made of.
    pub fn view(&self) -> &Arc<View> {
        &self.view
    }

    /// As [`place`] of the view, but for the alternates, which are only the first of those: some twice as many as there
    /// are shards.
    ///
    /// # Errors
    /// As [`place`].
    pub fn place(&self, request: &PlacementRequest<'_>) -> Result<Placement, PlacementError> {
        if request.shard_count != self.shard_count || request.unit_shards > 1 {
            return place(&self.view, request);
        }
        let (mut firsts, mut seconds) = (Vec::new(), Vec::new());
        let mut used = Vec::new();
        for Early { index, .. } in self.early(request) {
            let Active { node, domain, .. } = self.active[index];
            if used.contains(&domain) {
                seconds.push(node);
            } else {
                used.push(domain);
                firsts.push(node);
            }
        }
        // Seldom, or where most nodes are small, full or excluded: then all are looked at.
        if firsts.len() < request.shard_count {
            return place(&self.view, request);
        }
        let mut alternates = firsts.split_off(request.shard_count);
        alternates.append(&mut seconds);
        Ok(Placement { nodes: by_position(request.segment, &firsts), alternates })
    }

    /// Nodes that come in early and can take a shard, best first.
    fn early(&self, request: &PlacementRequest<'_>) -> Vec<Early> {
        let drawer = Words::of_drawer(request.segment, self.view.rule.set_count);
        let mut early = Vec::new();
        for (index, draw) in self.draws.iter().enumerate() {
            let hash = drawer.pair(draw.words);
            if hash >= draw.least_hash {
                early.extend(self.arrived(request, index, hash));
            }
        }
        let id = |early: &Early| self.active[early.index].node;
        early.sort_unstable_by(|a, b| {
            (a.rank.total_cmp(&b.rank)).then(a.arrival.total_cmp(&b.arrival)).then(id(a).cmp(&id(b)))
        });
        early
    }

    fn arrived(&self, request: &PlacementRequest<'_>, index: usize, hash: u64) -> Option<Early> {
        let Active { node, domain, weight, room_bytes } = self.active[index];
        let Domain { name, locality, share } = &self.domains[domain as usize];
        let arrival = draw::arrival(hash, weight);
        let rank = share.rank(arrival);
        let fits = rank <= RANK_MAX && request.shard_bytes <= room_bytes;
        (fits && request_obstacle(node, name, locality, request).is_none()).then_some(Early { rank, arrival, index })
    }
}

#[cfg(test)]
#[path = "layout_tests.rs"]
mod tests;
