//! The verdict on each shard of a segment. Pure: takes a record, the nodes and the result of a look, if there was one, and returns one
//! verdict per shard.
//!
//! The most important rule: *unknown is not absent*. A shard is lost only after a positive answer, or if its node is given up.

use crate::roster::{Roster, blames_shard};
use std::collections::BTreeMap;
use weft_format::NodeId;
use weft_format::records::{NodeState, SegmentRecord};
use weft_nodes::NodeErrorKind;
use weft_transfer::{Damage, Relocation, ShardHealth};

/// The verdict on one shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// In its place, and sound as far as it was looked at.
    Sound,
    /// Sound, but it should be elsewhere.
    Misplaced(Misplacement),
    /// Its node cannot be asked. The shard may be sound; it is not rebuilt, and does not count as available.
    OutOfReach,
    /// Its node answers, and does not let this user read it. Treated like a shard that is out of reach.
    Refused,
    /// Gone or unusable: to be rebuilt.
    Lost(Loss),
}

/// Why a shard should be elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Misplacement {
    /// Its node is being emptied.
    Draining,
    /// More shards of the segment are in its failure domain than have to be.
    SharedDomain(String),
    /// Its node holds more than its share, and another less.
    Overfull {
        /// The other.
        to: NodeId,
    },
}

/// How a shard was lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Loss {
    /// It was never stored, or was given up.
    NeverStored,
    /// Its node was given up.
    NodeLost,
    /// Its node answers and does not have it.
    Missing,
    /// It is there and differs from the record.
    Damaged(Damage),
    /// It was found so, and its node does not answer now.
    DamagedAway(Damage),
}

impl Standing {
    /// Can it be read, as far as is known?
    pub fn is_there(&self) -> bool {
        matches!(self, Self::Sound | Self::Misplaced(_))
    }

    /// Is nothing known of it, because its node is silent or refuses?
    pub fn is_silent(&self) -> bool {
        matches!(self, Self::OutOfReach | Self::Refused)
    }

    /// Is it free of defects? A shard that should move because its node is emptied or holds more than its share is as safe where it is.
    pub fn is_well(&self) -> bool {
        matches!(self, Self::Sound | Self::Misplaced(Misplacement::Draining | Misplacement::Overfull { .. }))
    }

    /// The node where it should be, if only one will do.
    pub fn destination(&self) -> Option<NodeId> {
        match self {
            Self::Misplaced(Misplacement::Overfull { to }) => Some(*to),
            _ => None,
        }
    }

    /// The defect, as a clause; `None` for a sound shard.
    pub fn complaint(&self) -> Option<String> {
        Some(match self {
            Self::Sound => return None,
            Self::Misplaced(Misplacement::Draining) => "its node is draining".into(),
            Self::Misplaced(Misplacement::SharedDomain(domain)) => {
                format!("too many shards of the segment are in one failure domain, {domain}")
            }
            Self::Misplaced(Misplacement::Overfull { .. }) => "its node holds more than its share".into(),
            Self::OutOfReach => "its node does not answer".into(),
            Self::Refused => "its node answers, but this user may not read it (permission denied)".into(),
            Self::Lost(Loss::NeverStored) => "it was never stored".into(),
            Self::Lost(Loss::NodeLost) => "its node was given up".into(),
            Self::Lost(Loss::Missing) => "it is missing".into(),
            Self::Lost(Loss::Damaged(damage)) => damage.how.clone(),
            Self::Lost(Loss::DamagedAway(damage)) => format!("{}, and its node does not answer now", damage.how),
        })
    }
}

/// The verdicts by shard index. `found`, by shard index, is the result of a look at the place that `record` names; `None`, or no entry:
/// there was no look.
pub fn standings(record: &SegmentRecord, roster: &Roster, found: &[Option<ShardHealth>]) -> Vec<Standing> {
    let mut verdicts: Vec<Standing> = (record.shards.iter().enumerate())
        .map(|(index, location)| match location {
            None => Standing::Lost(Loss::NeverStored),
            Some(location) => standing(location.node, roster, found.get(index).and_then(Option::as_ref)),
        })
        .collect();
    mark_shared_domains(record, roster, &mut verdicts);
    verdicts
}

/// The verdict on a shard on this node. `found` is the result of a look; `None`: there was none.
pub(crate) fn standing(node: NodeId, roster: &Roster, found: Option<&ShardHealth>) -> Standing {
    let Some(facts) = roster.nodes.get(&node) else {
        // Records name no node that the table lacks: it was added after the roster was made.
        return if found == Some(&ShardHealth::Sound) { Standing::Sound } else { Standing::OutOfReach };
    };
    if roster.given_up(node) {
        return Standing::Lost(Loss::NodeLost);
    }
    let there = match facts.record.state {
        // A node that was given up and answers again is treated as one that is being emptied, until it is taken back.
        NodeState::Draining | NodeState::Lost => Standing::Misplaced(Misplacement::Draining),
        NodeState::Active | NodeState::ReadOnly => Standing::Sound,
    };
    match found {
        // The latest answer of a node counts more than the earlier probe.
        Some(ShardHealth::Sound) => there,
        Some(ShardHealth::Missing) => Standing::Lost(Loss::Missing),
        Some(ShardHealth::Damaged(damage)) if facts.answers() => Standing::Lost(Loss::Damaged(damage.clone())),
        Some(ShardHealth::Damaged(damage)) => Standing::Lost(Loss::DamagedAway(damage.clone())),
        Some(ShardHealth::Unknown(kind)) if facts.answers() && blames_shard(*kind) => {
            Standing::Lost(Loss::Damaged(Damage::whole("its node answers, and cannot read it")))
        }
        Some(ShardHealth::Unknown(NodeErrorKind::Denied)) => Standing::Refused,
        None if facts.answers() => there,
        None if facts.refuses() => Standing::Refused,
        Some(ShardHealth::Unknown(_)) | None => Standing::OutOfReach,
    }
}

/// If more shards are in one domain than have to be, those beyond are misplaced. A shard that is out of reach also occupies its domain.
fn mark_shared_domains(record: &SegmentRecord, roster: &Roster, verdicts: &mut [Standing]) {
    let domain_of = |index: usize| -> Option<&str> { roster.unit(record.shards[index].as_ref()?.node) };
    let mut held: BTreeMap<&str, usize> = BTreeMap::new();
    let is_silent = |index: &usize| verdicts[*index].is_silent();
    let silent = (0..verdicts.len()).filter(is_silent);
    silent.filter_map(domain_of).for_each(|domain| *held.entry(domain).or_default() += 1);
    let mut others = Vec::new();
    for (index, verdict) in verdicts.iter().enumerate() {
        if let (Standing::Sound, Some(domain)) = (verdict, domain_of(index)) {
            let held = held.entry(domain).or_default();
            *held += 1;
            others.push((index, domain, *held));
        }
    }
    // How many have to be is looked up only if it matters.
    if others.iter().all(|(_, _, held)| *held == 1) {
        return;
    }
    let most = roster.even_load(record.shards.len());
    for (index, domain, held) in others {
        if held > most {
            verdicts[index] = Standing::Misplaced(Misplacement::SharedDomain(domain.into()));
        }
    }
}

/// A shard that is to move, so that nodes hold their shares, is misplaced while it is sound and where it was.
pub fn mark_overfull(record: &SegmentRecord, relocation: &Relocation, verdicts: &mut [Standing]) {
    let is_there = record.shards.get(relocation.shard).and_then(Option::as_ref).map(|location| location.node);
    if let Some(verdict @ Standing::Sound) = verdicts.get_mut(relocation.shard)
        && is_there == Some(relocation.from)
    {
        *verdict = Standing::Misplaced(Misplacement::Overfull { to: relocation.to });
    }
}

#[cfg(test)]
#[path = "standing_tests.rs"]
mod tests;
