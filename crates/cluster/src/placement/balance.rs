//! Which shards should lie elsewhere so that each node holds its share, and how many bytes that moves.
//!
//! `count every segment -> is a node out of its band? -> ask of every segment in turn what of it moves`. Pure.
//!
//! A node's share is what placement would have given it of these segments in an empty volume, and no move spreads a segment over domains
//! less evenly than it was. A shard moves only where both nodes together come nearer to their shares; so the sum of
//! the squared deviations falls with each move, and none is ever undone. First it moves only from a node
//! above its share by half of it or more to one as far below. Segments that prefer the new node to the old one, by the
//! race that places new segments, move first ([`Pass::Preferred`]): as good as all there are when a node came or has
//! grown, and as if they had been placed so to begin with. What is still missing moves by load alone. A node may then be out of its band
//! still: where it is to have a shard of nearly every segment, no segment without one may have a shard on a node that has too much. It
//! takes from any node, and gives to any ([`Pass::Around`]), and these are made good by one more pass.

use super::draw::{self, Share, Words};
use super::{PlacementRequest, place, rank, room_bytes};
use crate::membership::View;
use std::collections::{BTreeMap, BTreeSet};
use weft_format::records::NodeState;
use weft_format::{NodeId, SegmentId};

/// A node may be off by this part of its share before anything moves. Writing gives each node its share on its own, so
/// that being off has a cause; less than this is nobody's trouble, and not worth reading and writing.
const BAND_SHARE: f64 = 0.1;

/// ... or by so many standard deviations of what hashing gives it by chance, if these are more: in a volume of few
/// segments a tenth is no sign of anything. One node in 16,000 is further off.
const BAND_SIGMAS: f64 = 4.0;

/// What all nodes hold.
#[derive(Clone, Debug, Default)]
pub struct Holdings {
    bytes: BTreeMap<NodeId, u64>,
    /// Segments by how many of their shards lie on nodes that take new ones.
    groups: BTreeMap<usize, Group>,
}

#[derive(Clone, Debug, Default)]
struct Group {
    /// Sums over one shard of each segment: of its bytes, and of their squares.
    bytes: f64,
    squares: f64,
    bytes_max: u64,
}

impl Holdings {
    /// Counts a segment whose shards of `shard_bytes` lie on `nodes`.
    pub fn add(&mut self, view: &View, nodes: impl Iterator<Item = NodeId>, shard_bytes: u64) {
        let mut count = 0;
        for node in nodes.filter(|node| takes(view, *node)) {
            *self.bytes.entry(node).or_default() += shard_bytes;
            count += 1;
        }
        if count == 0 {
            return;
        }
        let group = self.groups.entry(count).or_default();
        group.bytes += shard_bytes as f64;
        group.squares += (shard_bytes as f64).powi(2);
        group.bytes_max = group.bytes_max.max(shard_bytes);
    }
}

fn takes(view: &View, node: NodeId) -> bool {
    view.members.get(&node).is_some_and(|member| member.state == NodeState::Active)
}

/// What a node holds and should.
#[derive(Clone, Debug, PartialEq)]
pub struct Load {
    /// Bytes of shards on it.
    pub held_bytes: f64,
    /// Its share of all.
    pub share_bytes: f64,
    /// How far it may be off.
    pub band_bytes: f64,
    /// Bytes it has room for.
    room_bytes: u64,
    /// Does it answer?
    is_there: bool,
}

impl Load {
    fn excess_bytes(&self) -> f64 {
        self.held_bytes - self.share_bytes
    }

    fn is_out(&self) -> bool {
        self.excess_bytes().abs() > self.band_bytes
    }
}

/// Which moves are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    /// From a node with too much to one with too little, of segments that would rather lie there.
    Preferred,
    /// The same, of all segments.
    Any,
    /// From or to a node that is out of its band, whatever the other has.
    Around,
}

/// In this order all segments are asked.
pub const PASSES: [Pass; 4] = [Pass::Preferred, Pass::Any, Pass::Around, Pass::Any];

/// A shard to be brought elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Relocation {
    /// Its index.
    pub shard: usize,
    /// Where it is.
    pub from: NodeId,
    /// Where it should be.
    pub to: NodeId,
}

/// What lies where, and what should.
#[derive(Clone, Debug)]
pub struct Balance {
    /// As if nothing of the volume were stored yet.
    empty: View,
    loads: BTreeMap<NodeId, Load>,
    /// Of segments by their number of shards; `None`: there are more than domains.
    shares: BTreeMap<usize, Option<BTreeMap<String, Share>>>,
}

impl Balance {
    /// Of what `holdings` counted in `view`. Nodes that do not answer now have their share, and neither give nor take.
    pub fn new(view: &View, holdings: &Holdings, silent: &BTreeSet<NodeId>) -> Self {
        let empty = emptied(view, holdings);
        let shares: BTreeMap<usize, draw::Shares<'_>> =
            holdings.groups.keys().map(|count| (*count, draw::shares(&empty, *count))).collect();
        let bytes_max = holdings.groups.values().map(|group| group.bytes_max).max().unwrap_or(0) as f64;
        let chances: BTreeMap<usize, BTreeMap<NodeId, f64>> =
            shares.iter().map(|(count, shares)| (*count, draw::node_chances(&empty, shares))).collect();
        let loads = empty.members.keys().filter(|id| takes(view, **id)).map(|id| {
            let (mut share_bytes, mut variance) = (0.0, 0.0);
            for (count, group) in &holdings.groups {
                let probability = chances[count][id];
                share_bytes += probability * group.bytes;
                variance += probability * (1.0 - probability) * group.squares;
            }
            let load = Load {
                held_bytes: holdings.bytes.get(id).copied().unwrap_or(0) as f64,
                share_bytes,
                band_bytes: (BAND_SHARE * share_bytes).max(BAND_SIGMAS * variance.sqrt()).max(bytes_max),
                room_bytes: room_bytes(&view.members[id]),
                is_there: !silent.contains(id),
            };
            (*id, load)
        });
        let loads = loads.collect();
        let owned = |shares: draw::Shares<'_>| {
            let domains = shares.domains.into_iter().map(|(domain, share)| (domain.to_owned(), share));
            (shares.full == 0).then(|| domains.collect())
        };
        let shares = shares.into_iter().map(|(count, shares)| (count, owned(shares))).collect();
        Self { empty, loads, shares }
    }

    /// Is a node further from its share than its band?
    pub fn is_out(&self) -> bool {
        self.loads.values().any(Load::is_out)
    }

    /// The bytes that must move at least, if all nodes are to hold their shares.
    pub fn least_bytes(&self) -> u64 {
        let excesses = || self.loads.values().map(Load::excess_bytes);
        let above: f64 = excesses().filter(|bytes| *bytes > 0.0).sum();
        let below: f64 = excesses().filter(|bytes| *bytes < 0.0).sum();
        above.min(-below) as u64
    }

    /// What each node that takes shards holds and should.
    pub fn loads(&self) -> impl Iterator<Item = (NodeId, &Load)> {
        self.loads.iter().map(|(id, load)| (*id, load))
    }

    /// A shard of a segment that is to move, of those of `shard_bytes` on `nodes` (by index), which is then taken to have moved;
    /// `None`: none is. What was `chosen` of the segment before goes together with it, in any order.
    pub fn choose(
        &mut self,
        segment: SegmentId,
        nodes: &[Option<NodeId>],
        chosen: &[Relocation],
        shard_bytes: u64,
        pass: Pass,
    ) -> Option<Relocation> {
        let half = shard_bytes as f64 / 2.0;
        let gives = |load: &Load| pass == Pass::Around || load.excess_bytes() >= half;
        let takes = |load: &Load| pass == Pass::Around || load.excess_bytes() <= -half;
        if pass == Pass::Around && !self.is_out() {
            return None;
        }
        let above = |node: &NodeId| self.loads.get(node).is_some_and(|load| load.is_there && gives(load));
        let there = || (0..nodes.len()).filter_map(|shard| Some((shard, nodes[shard]?)));
        let stays = |shard: usize| chosen.iter().all(|relocation| relocation.shard != shard);
        let sources = || there().filter(|(shard, node)| stays(*shard) && above(node));
        sources().next()?;
        let used: BTreeSet<NodeId> =
            there().map(|(_, node)| node).chain(chosen.iter().map(|relocation| relocation.to)).collect();
        let race = Race::new(self, segment, there().filter(|(_, node)| self.loads.contains_key(node)).count())?;
        let mut sources: Vec<_> = sources().filter_map(|(shard, node)| Some((race.rank(node)?, shard, node))).collect();
        // The one that the race would give up first, first.
        sources.sort_by(|a, b| b.0.partial_cmp(&a.0).unwrap_or(std::cmp::Ordering::Equal));
        let takers = self
            .loads
            .iter()
            .filter(|(id, load)| load.is_there && takes(load) && load.room_bytes >= shard_bytes && !used.contains(id));
        let mut takers: Vec<_> = takers.filter_map(|(id, _)| Some((race.rank(*id)?, *id))).collect();
        takers.sort_by(|a, b| a.0.partial_cmp(&b.0).unwrap_or(std::cmp::Ordering::Equal));
        let wanted = self.wanted(segment, race.count);
        let load_even = self.empty.even_load(race.count);
        for (rank, shard, from) in sources {
            let others = || used.iter().filter(|node| **node != from);
            // What the domain may hold afterwards: no more than the one that gives holds now, nor than is to be.
            let load_max = (1 + self.held(self.domain(from), others())).min(load_even);
            for (taker_rank, to) in &takers {
                let (giver, taker) = (&self.loads[&from], &self.loads[to]);
                let gain = giver.excess_bytes() - taker.excess_bytes();
                let is_called_for = pass != Pass::Around || giver.is_out() || taker.is_out();
                let is_preferred = match &wanted {
                    // Only what is one of the volume's sets in the end.
                    Some(wanted) => wanted.contains(to) && !wanted.contains(&from),
                    None => pass != Pass::Preferred || *taker_rank < rank,
                };
                let is_free = self.domain(*to) == self.domain(from) || self.held(self.domain(*to), others()) < load_max;
                if gain > shard_bytes as f64
                    && is_called_for
                    && is_preferred
                    && is_free
                    && self.in_one_locality(from, *to)
                {
                    let relocation = Relocation { shard, from, to: *to };
                    self.moved(&relocation, shard_bytes);
                    return Some(relocation);
                }
            }
        }
        None
    }

    fn moved(&mut self, relocation: &Relocation, shard_bytes: u64) {
        if let Some(load) = self.loads.get_mut(&relocation.from) {
            load.held_bytes -= shard_bytes as f64;
        }
        if let Some(load) = self.loads.get_mut(&relocation.to) {
            load.held_bytes += shard_bytes as f64;
            load.room_bytes -= shard_bytes;
        }
    }

    fn domain(&self, node: NodeId) -> Option<&str> {
        self.empty.members.get(&node).map(|member| member.domain.as_str())
    }

    /// Shards that a domain holds, of those on `nodes`.
    fn held<'n>(&self, domain: Option<&str>, nodes: impl Iterator<Item = &'n NodeId>) -> usize {
        nodes.filter(|node| self.domain(**node) == domain).count()
    }

    /// Shards of a local group stay together.
    fn in_one_locality(&self, one: NodeId, other: NodeId) -> bool {
        let locality = |node| self.empty.members.get(&node).map(|member| &member.locality);
        self.empty.rule.locality_depth == 0 || locality(one) == locality(other)
    }

    /// The nodes of the segment's set, where their number is bounded.
    fn wanted(&self, segment: SegmentId, shard_count: usize) -> Option<BTreeSet<NodeId>> {
        if self.empty.rule.set_count == 0 {
            return None;
        }
        let request = |request: &PlacementRequest<'_>| place(&self.empty, request);
        let placed = everywhere(segment, shard_count, request);
        Some(placed.map(|placement| placement.nodes.into_iter().collect()).unwrap_or_default())
    }
}

/// The view as if what the volume holds were free.
fn emptied(view: &View, holdings: &Holdings) -> View {
    let mut of_disks: BTreeMap<u64, u64> = BTreeMap::new();
    let held = |id: &NodeId| holdings.bytes.get(id).copied().unwrap_or(0);
    for (id, member) in &view.members {
        if let Some(disk) = member.disk {
            *of_disks.entry(disk).or_default() += held(id);
        }
    }
    let mut empty = view.clone();
    for (id, member) in &mut empty.members {
        let held_bytes = member.disk.map_or_else(|| held(id), |disk| of_disks[&disk]);
        member.free_bytes = member.free_bytes.map(|free| free.saturating_add(held_bytes));
    }
    empty
}

/// Asks for places as if nothing of the segment were stored.
fn everywhere<T>(segment: SegmentId, shard_count: usize, ask: impl FnOnce(&PlacementRequest<'_>) -> T) -> T {
    ask(&PlacementRequest {
        segment,
        shard_count,
        shard_bytes: 0,
        excluded_nodes: &BTreeSet::new(),
        held: &BTreeMap::new(),
        unit_shards: usize::MAX,
        within: None,
    })
}

/// How early nodes come in for one segment.
struct Race<'b> {
    balance: &'b Balance,
    count: usize,
    drawer: Words,
    ranks: Ranks<'b>,
}

enum Ranks<'b> {
    /// Each domain takes one shard at most: by what each is to draw.
    Apart(&'b BTreeMap<String, Share>),
    /// Each domain takes several: the order of the nodes.
    Ordered(BTreeMap<NodeId, usize>),
}

impl<'b> Race<'b> {
    fn new(balance: &'b Balance, segment: SegmentId, count: usize) -> Option<Self> {
        let ranks = match balance.shares.get(&count)? {
            Some(shares) => Ranks::Apart(shares),
            None => {
                let ranked = everywhere(segment, count, |request| {
                    rank(&balance.empty, request).into_iter().map(|ranked| ranked.id).collect::<Vec<_>>()
                });
                Ranks::Ordered(ranked.into_iter().zip(0..).collect())
            }
        };
        Some(Self { balance, count, drawer: Words::of_drawer(segment, balance.empty.rule.set_count), ranks })
    }

    /// As placement ranks nodes: smaller is better.
    fn rank(&self, node: NodeId) -> Option<(f64, f64)> {
        let shares = match &self.ranks {
            Ranks::Apart(shares) => shares,
            Ranks::Ordered(order) => return Some((*order.get(&node)? as f64, 0.0)),
        };
        let member = self.balance.empty.members.get(&node)?;
        let weight = draw::effective_weight(&self.balance.empty, member);
        let arrival = draw::arrival(self.drawer.pair(Words::of_node(node)), weight);
        Some((shares.get(&member.domain)?.rank(arrival), arrival))
    }
}

#[cfg(test)]
#[path = "balance_tests.rs"]
mod tests;
