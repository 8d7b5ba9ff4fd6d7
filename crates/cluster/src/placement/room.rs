//! How much room a code of some width can really use on nodes of unlike room: a failure domain takes so many shards of a segment and no
//! more, so that what one domain has more than the others is of no use alone.

use super::room_bytes;
use crate::membership::{Member, View};
use std::collections::BTreeMap;
use weft_format::records::NodeState;

/// Bytes of shards that segments can take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Room {
    /// In all, if the volume were empty.
    pub total_bytes: u64,
    /// More than they take now.
    pub free_bytes: u64,
}

/// Room that is used as one: of a domain, or of disks that several domains share.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Pool {
    /// What fits on each disk, or on a node with a disk of its own, and on how many nodes.
    stores: Vec<(u64, u64)>,
    /// How many shards of a segment its domains may hold.
    shard_count: u64,
}

impl Pool {
    /// Bytes of shards that it takes, if it takes at most so many of each shard of a segment: a node never has two.
    fn takes(&self, each: u64) -> u128 {
        let bytes =
            self.stores.iter().map(|(bytes, nodes)| u128::from(*bytes).min(u128::from(each) * u128::from(*nodes)));
        bytes.sum::<u128>().min(u128::from(each) * u128::from(self.shard_count))
    }
}

/// The room for segments of `width` shards, of which a domain holds `unit_shards` at most. Nodes that take nothing new have no free room, and their total is what they hold. Of nodes
/// that have not said yet how much they have it is assumed that they are no narrower than the widest.
pub fn usable_room(view: &View, width: usize, unit_shards: usize) -> Room {
    let active = |member: &&Member| member.state == NodeState::Active;
    // As placement has it, with the reserve.
    let free = |member: &Member| member.free_bytes.map(|_| room_bytes(member));
    let most_free = view.members.values().filter(active).filter_map(free).max().unwrap_or(0);
    let most = view.members.values().filter(active).filter_map(|member| member.total_bytes).max().unwrap_or(0);
    let actives = view.members.values().filter(active);
    let free = pools(actives.map(|member| (member, free(member).unwrap_or(most_free))), unit_shards);
    let of_all = view.members.values().map(|member| match active(&member) {
        true => (member, member.total_bytes.unwrap_or(most)),
        false => (member, member.total_bytes.unwrap_or(0).saturating_sub(member.free_bytes.unwrap_or(0))),
    });
    let total = pools(of_all, unit_shards);
    let free_bytes = fill(&free, width);
    Room { total_bytes: fill(&total, width).max(free_bytes), free_bytes }
}

/// Bytes of shards in all, when as much as can be is stored in segments of `width` shards.
///
/// With `t` bytes in each of the `width` places, a pool takes what it takes of `t` at most. So `t` can be reached exactly where these add up
/// to `width * t`. Sums of what pools take bend downwards, so they meet the line `width * t` once: below all can be reached, above nothing.
fn fill(pools: &[Pool], width: usize) -> u64 {
    let fits = |each: u64| {
        let taken: u128 = pools.iter().map(|pool| pool.takes(each)).sum();
        taken >= u128::from(each) * width as u128
    };
    let (mut fitting, mut too_much) = (0, u64::MAX);
    while too_much - fitting > 1 {
        let middle = fitting + (too_much - fitting) / 2;
        if fits(middle) { fitting = middle } else { too_much = middle }
    }
    fitting.saturating_mul(width as u64)
}

/// Nodes that share a disk or a domain, directly or over others, use their room as one. Where several disks and several domains are
/// bound together like this, that is a little more than they can take.
fn pools<'m>(members: impl Iterator<Item = (&'m Member, u64)>, unit_shards: usize) -> Vec<Pool> {
    /// What binds nodes together.
    #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    enum Bond<'m> {
        Domain(&'m str),
        Disk(u64),
    }
    let members: Vec<(&Member, u64)> = members.collect();
    // Each bond names the pool of the first node that had it; pools that turn out to be one are merged into the earlier.
    let mut pool_of: BTreeMap<Bond<'_>, usize> = BTreeMap::new();
    let mut merged: Vec<usize> = (0..members.len()).collect();
    let root = |merged: &[usize], mut pool: usize| {
        while merged[pool] != pool {
            pool = merged[pool];
        }
        pool
    };
    for (own, (member, _)) in members.iter().enumerate() {
        for bond in [Some(Bond::Domain(&member.domain)), member.disk.map(Bond::Disk)].into_iter().flatten() {
            let known = *pool_of.entry(bond).or_insert(own);
            let (a, b) = (root(&merged, known), root(&merged, own));
            merged[a.max(b)] = a.min(b);
        }
    }
    let mut node_counts: BTreeMap<&str, usize> = BTreeMap::new();
    members.iter().for_each(|(member, _)| *node_counts.entry(&member.domain).or_default() += 1);
    let mut pools: BTreeMap<usize, Pool> = BTreeMap::new();
    for (bond, own) in &pool_of {
        let pool = pools.entry(root(&merged, *own)).or_default();
        match bond {
            Bond::Domain(domain) => pool.shard_count += node_counts[domain].min(unit_shards) as u64,
            // Each of its nodes says the same, a moment earlier or later.
            Bond::Disk(disk) => {
                let of_disk = members.iter().filter(|(member, _)| member.disk == Some(*disk)).map(|(_, bytes)| *bytes);
                pool.stores.push((of_disk.clone().max().unwrap_or(0), of_disk.count() as u64));
            }
        }
    }
    for (own, (member, bytes)) in members.iter().enumerate() {
        if member.disk.is_none() {
            pools.entry(root(&merged, own)).or_default().stores.push((*bytes, 1));
        }
    }
    pools.into_values().collect()
}

#[cfg(test)]
#[path = "room_tests.rs"]
mod tests;
