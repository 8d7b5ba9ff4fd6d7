//! Which members hold an object: a pure function of its name and the members.

use std::collections::{BTreeMap, BTreeSet};
use weft_cluster::{PlacementRequest, View, place};
use weft_format::NodeId;
use weft_format::records::{Stamp, data_segment};

/// The members of a name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Closest {
    /// Those that hold its shards, each of a domain of its own: as many as are wanted, or as there are.
    pub nodes: Vec<NodeId>,
    /// Further ones, best first.
    pub alternates: Vec<NodeId>,
}

impl Closest {
    /// All of them, the closest first.
    pub fn all(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.nodes.iter().chain(&self.alternates).copied()
    }

    /// The places of the shards of segment `number`, by index. Segments begin at different members, so that none has the data shards of
    /// all.
    #[must_use]
    pub fn places(&self, number: u32, width: usize) -> Vec<Option<NodeId>> {
        let mut places: Vec<Option<NodeId>> = self.nodes.iter().copied().map(Some).collect();
        if !places.is_empty() {
            let by = number as usize % places.len();
            places.rotate_left(by);
        }
        places.resize(width, None);
        places
    }
}

/// The `width` members closest to the name with this hash, by weighted rendezvous over those that take shards: the placement of a volume's
/// segment, whatever its version, so that all versions of a name are looked for at the same members.
#[must_use]
pub fn closest(view: &View, hash: u64, width: usize) -> Closest {
    let (nodes, held) = (BTreeSet::new(), BTreeMap::new());
    let request = |shard_count| PlacementRequest {
        segment: data_segment(hash, Stamp(0), 0),
        shard_count,
        shard_bytes: 0,
        excluded_nodes: &nodes,
        held: &held,
        unit_shards: 1,
        within: None,
    };
    let placed = (1..=width.min(view.members.len())).rev().find_map(|count| place(view, &request(count)).ok());
    placed.map_or_else(Closest::default, |placed| Closest { nodes: placed.nodes, alternates: placed.alternates })
}

#[cfg(test)]
#[path = "closest_tests.rs"]
mod tests;
