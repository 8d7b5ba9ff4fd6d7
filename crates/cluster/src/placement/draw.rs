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

/// What a domain must draw to be chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Share {
    /// Sum of the weights of its nodes.
    pub(super) weight: f64,
    /// `p / (1 - p)`, where `p` is how often it is to be chosen; infinite where that is always.
    pub(super) odds: f64,
}

impl Share {
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

/// The domains of the nodes that take new shards, when each segment chooses `count` of them.
pub(super) fn shares(view: &View, count: usize) -> BTreeMap<&str, Share> {
    let mut weights: BTreeMap<&str, f64> = BTreeMap::new();
    for member in view.members.values().filter(|member| member.state == NodeState::Active) {
        *weights.entry(&member.domain).or_default() += effective_weight(view, member);
    }
    let mut heaviest: Vec<f64> = weights.values().copied().collect();
    heaviest.sort_by(|a, b| b.total_cmp(a));
    // Who would be chosen more than once is chosen always, and the others share what is left.
    let (mut left, mut rest) = (count as f64, heaviest.iter().sum::<f64>());
    for weight in heaviest {
        if weight * left < rest {
            break;
        }
        left -= 1.0;
        rest -= weight;
    }
    let per_weight = if left > 0.0 && rest > 0.0 { left / rest } else { f64::INFINITY };
    let share = |weight: f64| {
        let chosen = weight * per_weight;
        Share { weight, odds: if chosen < 1.0 { chosen / (1.0 - chosen) } else { f64::INFINITY } }
    };
    weights.into_iter().map(|(domain, weight)| (domain, share(weight))).collect()
}
