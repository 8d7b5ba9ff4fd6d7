//! The race that decides a placement: what each node draws for a segment, and how early a domain may come in.

use crate::membership::{Member, View};
use std::collections::BTreeMap;
use weft_format::records::NodeState;
use weft_format::{NodeId, SegmentId};
use xxhash_rust::xxh3::xxh3_128;

/// Two words of a hash: of a segment or a set (what is placed), or of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Words(u64, u64);

impl Words {
    fn of(bytes: &[u8]) -> Self {
        let hash = xxh3_128(bytes);
        Self(hash as u64, (hash >> 64) as u64)
    }

    pub(super) fn of_segment(segment: SegmentId) -> Self {
        Self::of(&segment.to_bytes())
    }

    pub(super) fn of_node(node: NodeId) -> Self {
        Self::of(&node.to_bytes())
    }

    pub(super) fn of_text(text: &str) -> Self {
        Self::of(text.as_bytes())
    }

    /// Who draws for a segment: itself, or with a bounded number of sets the one of them that it falls into.
    pub(super) fn of_drawer(segment: SegmentId, set_count: u64) -> Self {
        let own = Self::of_segment(segment);
        match set_count {
            0 => own,
            count => Self::of(&(own.0 % count).to_le_bytes()),
        }
    }

    /// 64 random bits for the pair: both words of both go into one product, whose halves are folded. It is the mixing step of
    /// XXH3 and wyhash, whose inputs are hashes here, and it is done for every node and segment.
    pub(super) fn pair(self, node: Self) -> u64 {
        let product = u128::from(self.0 ^ node.0) * u128::from(self.1 ^ node.1);
        product as u64 ^ (product >> 64) as u64
    }
}

/// Strictly between 0 and 1: 53 bits and a half.
fn uniform(hash: u64) -> f64 {
    ((hash >> 11) as f64 + 0.5) / (1u64 << 53) as f64
}

/// When one with this weight comes in: exponentially distributed with mean `1 / weight`.
pub(super) fn arrival(hash: u64, weight: f64) -> f64 {
    -uniform(hash).ln() / weight
}

/// The smallest hash with which one of this weight comes in before `deadline`.
pub(super) fn least_hash(weight: f64, deadline: f64) -> u64 {
    // Rounded down: one too many is sorted out, one too few would be missed.
    let least = ((-weight * deadline).exp() * (1u64 << 53) as f64 - 1.0).max(0.0);
    (least as u64) << 11
}

/// What a domain must draw to take a shard more than all domains take.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Share {
    /// Sum of the weights of its nodes.
    pub(super) weight: f64,
    /// `p / (1 - p)`, where `p` is how often it is to be chosen; infinite where that is always.
    pub(super) odds: f64,
}

impl Share {
    fn new(weight: f64, probability: f64) -> Self {
        // What rounding left over.
        const EXACT: f64 = 1e-12;
        let odds = if probability < 1.0 - EXACT { probability / (1.0 - probability) } else { f64::INFINITY };
        Self { weight, odds }
    }

    /// How often the domain is chosen.
    pub(super) fn probability(&self) -> f64 {
        if self.odds == f64::INFINITY { 1.0 } else { self.odds / (1.0 + self.odds) }
    }

    /// A node's arrival as its domain's rank; smaller is better, and of two nodes of one domain the first to arrive is.
    ///
    /// The first arrival `t` of a domain is exponential with the sum `w` of its weights, so that `v = 1 - exp(-w t)` is
    /// uniform; `v / (1 - v)`, which is `exp(w t) - 1`, over the odds is Pareto order sampling.
    pub(super) fn rank(&self, arrival: f64) -> f64 {
        if self.odds == f64::INFINITY { 0.0 } else { (self.weight * arrival).exp_m1() / self.odds }
    }

    /// The arrival that has this rank: the inverse of [`Self::rank`].
    pub(super) fn deadline(&self, rank: f64) -> f64 {
        (rank * self.odds).ln_1p() / self.weight
    }
}

/// A node's weight times its free share: nodes fill alike, and a new empty one takes more for a while. With a bounded number
/// of sets the weight alone: with every change of room there would be other sets.
pub(super) fn effective_weight(view: &View, member: &Member) -> f64 {
    let free_share = match (member.free_bytes, member.total_bytes) {
        (Some(free), Some(total)) if total > 0 && view.rule.set_count == 0 => (free as f64 / total as f64).min(1.0),
        _ => 1.0,
    };
    // A free share of nothing at all still draws: whether there is room was decided before.
    member.weight as f64 * free_share.max(1e-6)
}

/// What domains must draw, when each segment has this many shards.
pub(super) struct Shares<'v> {
    /// Shards that every domain takes of every segment, as far as it has nodes. 0: there are enough domains.
    pub(super) full: usize,
    /// By domain: how often it takes one more.
    pub(super) domains: BTreeMap<&'v str, Share>,
}

/// Of the nodes that take new shards, for segments of `count` shards.
///
/// Domains take shards by their weights, and as evenly as they can: `full` or one more, as far as they have nodes.
pub(super) fn shares(view: &View, count: usize) -> Shares<'_> {
    let mut domains: BTreeMap<&str, (usize, f64)> = BTreeMap::new();
    for member in view.members.values().filter(|member| member.state == NodeState::Active) {
        let (nodes, weight) = domains.entry(&member.domain).or_default();
        *nodes += 1;
        *weight += effective_weight(view, member);
    }
    let node_counts: Vec<usize> = domains.values().map(|(nodes, _)| *nodes).collect();
    let full = even_load(&node_counts, count).saturating_sub(1);
    let taken: usize = node_counts.iter().map(|nodes| nodes.min(&full)).sum();
    // Domains without a node more take none more.
    let open: Vec<f64> = domains.values().filter(|(nodes, _)| *nodes > full).map(|(_, weight)| *weight).collect();
    let mut chances = chances(&open, full as f64, count.saturating_sub(taken) as f64).into_iter();
    let share = |(domain, (nodes, weight))| {
        let more = if nodes > full { chances.next().unwrap_or(0.0) } else { 0.0 };
        (domain, Share::new(weight, more))
    };
    Shares { full, domains: domains.into_iter().map(share).collect() }
}

/// How often each node takes a shard of a segment.
pub(super) fn node_chances(view: &View, shares: &Shares<'_>) -> BTreeMap<NodeId, f64> {
    let mut domains: BTreeMap<&str, Vec<(NodeId, f64)>> = BTreeMap::new();
    for (id, member) in view.members.iter().filter(|(_, member)| member.state == NodeState::Active) {
        domains.entry(&member.domain).or_default().push((*id, effective_weight(view, member)));
    }
    let mut chances = BTreeMap::new();
    for (domain, nodes) in domains {
        let more = shares.domains.get(domain).map_or(0.0, Share::probability);
        let weights: Vec<f64> = nodes.iter().map(|(_, weight)| *weight).collect();
        let (without, with) = (early(&weights, shares.full), early(&weights, shares.full + 1));
        let each = without.into_iter().zip(with).map(|(without, with)| without * (1.0 - more) + with * more);
        chances.extend(nodes.into_iter().map(|(id, _)| id).zip(each));
    }
    chances
}

/// How often each node of these weights is one of the first `count` to arrive.
fn early(weights: &[f64], count: usize) -> Vec<f64> {
    /// Points of the integral over a node's arrival: exact to better than a thousandth.
    const POINTS: usize = 128;
    let sum: f64 = weights.iter().sum();
    match count {
        0 => vec![0.0; weights.len()],
        1 => weights.iter().map(|weight| weight / sum).collect(),
        _ if count >= weights.len() => vec![1.0; weights.len()],
        _ => {
            let at = |index: usize, point: usize| {
                // This one arrives when the share `v` of its kind is still to come.
                let v = (point as f64 + 0.5) / POINTS as f64;
                // How likely it is that none, one, ... of the others are there before it.
                let mut before = vec![0.0; count];
                before[0] = 1.0;
                for (_, weight) in weights.iter().enumerate().filter(|(other, _)| *other != index) {
                    let late = v.powf(weight / weights[index]);
                    for number in (0..count).rev() {
                        let one_more = if number > 0 { before[number - 1] * (1.0 - late) } else { 0.0 };
                        before[number] = before[number] * late + one_more;
                    }
                }
                before.iter().sum::<f64>()
            };
            (0..weights.len())
                .map(|index| (0..POINTS).map(|point| at(index, point)).sum::<f64>() / POINTS as f64)
                .collect()
        }
    }
}

/// The least number of shards in the fullest domain, if `count` shards are spread over domains with these numbers of nodes; all nodes of the
/// largest where there are too few.
pub(super) fn even_load(node_counts: &[usize], count: usize) -> usize {
    let most = node_counts.iter().copied().max().unwrap_or(0);
    let holds = |load: &usize| node_counts.iter().map(|nodes| nodes.min(load)).sum::<usize>() >= count;
    (1..most).find(holds).unwrap_or(most).max(1)
}

/// `max(0, min(1, f * weight - full))` of each, with the factor `f` for which they add up to `total`; 1 of each where that is too much.
fn chances(weights: &[f64], full: f64, total: f64) -> Vec<f64> {
    // The sum is a line between the factors at which one begins to rise and those at which it is 1.
    let begins = weights.iter().map(|weight| (full / weight, *weight, -full));
    let ends = weights.iter().map(|weight| ((full + 1.0) / weight, -weight, full + 1.0));
    let mut bends: Vec<(f64, f64, f64)> = begins.chain(ends).collect();
    bends.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (mut slope, mut base, mut factor) = (0.0, 0.0, f64::INFINITY);
    for (bend, steeper, more) in bends {
        if slope > 0.0 && slope * bend + base >= total {
            factor = (total - base) / slope;
            break;
        }
        slope += steeper;
        base += more;
    }
    weights.iter().map(|weight| (factor * weight - full).clamp(0.0, 1.0)).collect()
}

#[cfg(test)]
#[path = "draw_tests.rs"]
mod tests;
