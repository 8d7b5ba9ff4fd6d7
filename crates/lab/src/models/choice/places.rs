//! Where shards lie: a domain is chosen as often as its room allows, and never twice for one segment.

use super::Node;
use std::collections::BTreeMap;

/// How often each node holds a shard of a segment.
pub(super) struct Places {
    /// Node and chance, the nodes of a domain one after another. The chances of a domain add up to 1 at most, all to the width.
    chances: Vec<(usize, f64)>,
    width: usize,
    /// What fits into each of the places of a segment.
    pub place_bytes: f64,
}

/// How many domains have room.
pub(super) fn domain_count(nodes: &[Node]) -> usize {
    domains(nodes).len()
}

/// Nodes with room, by domain.
fn domains(nodes: &[Node]) -> BTreeMap<&str, Vec<usize>> {
    let mut domains: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (index, node) in nodes.iter().enumerate().filter(|(_, node)| node.room_bytes > 0.0) {
        domains.entry(&node.domain).or_default().push(index);
    }
    domains
}

impl Places {
    /// Of segments of `width` shards; `None` where there are fewer domains with room.
    pub fn new(nodes: &[Node], width: usize) -> Option<Places> {
        let domains = domains(nodes);
        let room = |members: &[usize]| members.iter().map(|&index| nodes[index].room_bytes).sum::<f64>();
        let rooms: Vec<f64> = domains.values().map(|members| room(members)).collect();
        let per_byte = 1.0 / place_bytes(rooms, width)?;
        let chances = domains.values().flat_map(|members| {
            let room = room(members);
            let of_domain = (room * per_byte).min(1.0);
            members.iter().map(move |&index| (index, of_domain * nodes[index].room_bytes / room))
        });
        Some(Places { chances: chances.collect(), width, place_bytes: 1.0 / per_byte })
    }

    /// The mean of a value of nodes, weighted by what they store.
    pub fn mean(&self, nodes: &[Node], value: impl Fn(&Node) -> f64) -> f64 {
        let sum: f64 = self.chances.iter().map(|&(index, chance)| chance * value(&nodes[index])).sum();
        sum / self.width as f64
    }

    /// `count` segments that together use nodes as often as their chances say (systematic sampling): a node for each shard. The first shard
    /// moves on from one segment to the next, so that each node holds data as well as parities.
    pub fn segments(&self, count: usize) -> Vec<Vec<usize>> {
        let segment = |number: usize| {
            let start = (number as f64 + 0.5) / count as f64;
            let mut chosen: Vec<usize> = (0..self.width).map(|place| self.node_at(place as f64 + start)).collect();
            chosen.rotate_left(number % self.width);
            chosen
        };
        (0..count).map(segment).collect()
    }

    /// The node at a point of all chances laid end to end.
    fn node_at(&self, point: f64) -> usize {
        let mut end = 0.0;
        let found = self.chances.iter().find(|(_, chance)| {
            end += chance;
            point < end
        });
        found.or(self.chances.last()).map_or(0, |&(index, _)| index)
    }
}

/// What fits into each place: `t` such that the sum of `min(room, t)` over the domains is `width * t`; `None` with fewer domains.
fn place_bytes(mut rooms: Vec<f64>, width: usize) -> Option<f64> {
    if width == 0 || rooms.len() < width {
        return None;
    }
    rooms.sort_by(|one, other| other.total_cmp(one));
    // Domains with more room than `t` have a shard of every segment.
    let with_full = |full: usize| (full, rooms[full..].iter().sum::<f64>() / (width - full) as f64);
    (0..width).map(with_full).find(|&(full, bytes)| full + 1 == width || rooms[full] <= bytes).map(|(_, bytes)| bytes)
}
