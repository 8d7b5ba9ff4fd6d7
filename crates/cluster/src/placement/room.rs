//! How much room a code of some width can really use on nodes of unlike room: a segment has one shard in each of as many failure
//! domains, so that what one domain has more than the others is of no use alone.

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

/// Room that is used as one: of a domain, or of a disk that several domains share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pool {
    /// What fits.
    pub bytes: u64,
    /// In how many domains it may lie.
    pub domain_count: u64,
}

/// The room for segments of `width` shards. Nodes that take nothing new have no free room, and their total is what they hold. Of nodes
/// that have not said yet how much they have it is assumed that they are no narrower than the widest.
pub fn usable_room(view: &View, width: usize) -> Room {
    let active = |member: &&Member| member.state == NodeState::Active;
    // As placement has it, with the reserve.
    let free = |member: &Member| member.free_bytes.map(|_| room_bytes(member));
    let most_free = view.members.values().filter(active).filter_map(free).max().unwrap_or(0);
    let most = view.members.values().filter(active).filter_map(|member| member.total_bytes).max().unwrap_or(0);
    let actives = view.members.values().filter(active);
    let free = pools(actives.map(|member| (member, free(member).unwrap_or(most_free))));
    let total = pools(view.members.values().map(|member| match active(&member) {
        true => (member, member.total_bytes.unwrap_or(most)),
        false => (member, member.total_bytes.unwrap_or(0).saturating_sub(member.free_bytes.unwrap_or(0))),
    }));
    let free_bytes = fill(&free, width);
    Room { total_bytes: fill(&total, width).max(free_bytes), free_bytes }
}

/// Bytes of shards in all, when as much as can be is stored in segments of `width` shards, of which no two lie in one domain.
///
/// With `t` bytes in each of the `width` places, a pool takes at most `t` in each of its domains. So `t` can be reached exactly where
/// the sum of `min(bytes, t * domain_count)` over the pools is `width * t` at least: a sum of lines that bend downwards, which meets
/// the line `width * t` in one point. Pools bend in the order of what they have in each domain.
pub fn fill(pools: &[Pool], width: usize) -> u64 {
    let width = width as u128;
    let mut pools: Vec<(u128, u128)> = pools
        .iter()
        .map(|pool| (pool.bytes.into(), pool.domain_count.into()))
        .filter(|(_, count)| *count > 0)
        .collect();
    pools.sort_by(|(a_bytes, a_count), (b_bytes, b_count)| (a_bytes * b_count).cmp(&(b_bytes * a_count)));
    // Those before are full, those from here on have room.
    let (mut full_bytes, mut open_count) = (0, pools.iter().map(|(_, count)| count).sum::<u128>());
    let mut each = 0;
    for next in pools.into_iter().map(Some).chain([None]) {
        if let Some(missing) = width.checked_sub(open_count).filter(|missing| *missing > 0) {
            each = full_bytes / missing;
            if next.is_none_or(|(bytes, count)| each * count <= bytes) {
                break;
            }
        }
        if let Some((bytes, count)) = next {
            full_bytes += bytes;
            open_count -= count;
        }
    }
    u64::try_from(each * width).unwrap_or(u64::MAX)
}

/// Nodes that share a disk or a domain, directly or over others, use their room as one. Where several disks and several domains are
/// bound together like this, that is a little more than they can take.
fn pools<'m>(members: impl Iterator<Item = (&'m Member, u64)>) -> Vec<Pool> {
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
    let mut pools: BTreeMap<usize, Pool> = BTreeMap::new();
    for (bond, own) in &pool_of {
        let pool = pools.entry(root(&merged, *own)).or_default();
        match bond {
            Bond::Domain(_) => pool.domain_count += 1,
            // Each of its nodes says the same, a moment earlier or later.
            Bond::Disk(disk) => {
                let of_disk = members.iter().filter(|(member, _)| member.disk == Some(*disk));
                pool.bytes += of_disk.map(|(_, bytes)| *bytes).max().unwrap_or(0);
            }
        }
    }
    for (own, (member, bytes)) in members.iter().enumerate() {
        if member.disk.is_none() {
            pools.entry(root(&merged, own)).or_default().bytes += bytes;
        }
    }
    pools.into_values().collect()
}

#[cfg(test)]
#[path = "room_tests.rs"]
mod tests;
