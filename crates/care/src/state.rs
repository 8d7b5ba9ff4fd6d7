//! The state of a segment, stripe by stripe. Pure: takes the verdicts on its shards, and returns how many further losses it survives, or
//! which of its bytes are lost.

use crate::margin::{Margins, Survives};
use crate::roster::Roster;
use crate::standing::{Loss, Standing};
use std::collections::BTreeMap;
use std::ops::Range;
use weft_format::NodeId;
use weft_format::records::{SegmentRecord, ShardLocation};
use weft_transfer::{Soundness, Usable};

/// The state of a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Every byte can be read.
    Readable(Survives),
    /// Some bytes cannot be read now, and could be if silent nodes came back.
    OutOfReach,
    /// Some bytes cannot be read even then.
    Lost {
        /// Which of the segment's data, ascending.
        data: Vec<Range<u64>>,
        /// What the other stripes survive; `None`: none of them can be read.
        rest: Option<Survives>,
    },
}

impl State {
    /// What it survives, if it can be read.
    pub fn survives(&self) -> Option<Survives> {
        match self {
            Self::Readable(survives) => Some(*survives),
            Self::OutOfReach | Self::Lost { .. } => None,
        }
    }
}

/// The state of a segment with these verdicts on its shards. Damage counts where it is: in another stripe the shard is there.
pub fn state(record: &SegmentRecord, verdicts: &[Standing], roster: &Roster, margins: &mut Margins) -> State {
    let patterns = soundness(record, verdicts, false).patterns();
    let of_stripes: Vec<Option<Survives>> = (patterns.iter())
        .map(|there| {
            let shards = margins.margin(record, there)?;
            let nodes = margins.of_groups(record, &groups(record, there, Some), shards);
            let units = margins.of_groups(record, &groups(record, there, |node| roster.unit(node)), shards);
            Some(Survives { units, nodes, shards })
        })
        .collect();
    let least = of_stripes.iter().flatten().copied().reduce(Survives::least);
    if let (Some(survives), true) = (least, of_stripes.iter().all(Option::is_some)) {
        return State::Readable(survives);
    }
    let with_silent = soundness(record, verdicts, true);
    if with_silent.patterns().iter().all(|there| margins.margin(record, there).is_some()) {
        return State::OutOfReach;
    }
    let data = with_silent.lost_data(|there| margins.lost_natives(record, there));
    State::Lost { data, rest: least }
}

fn soundness(record: &SegmentRecord, verdicts: &[Standing], with_silent: bool) -> Soundness {
    let usable = |verdict: &Standing| match verdict {
        Standing::Sound | Standing::Misplaced(_) => Usable::Whole,
        Standing::OutOfReach | Standing::Refused if with_silent => Usable::Whole,
        Standing::OutOfReach | Standing::Refused => Usable::Nothing,
        Standing::Lost(Loss::DamagedAway(_)) if !with_silent => Usable::Nothing,
        Standing::Lost(Loss::Damaged(damage) | Loss::DamagedAway(damage)) => {
            damage.frames.clone().map_or(Usable::Nothing, Usable::AllBut)
        }
        Standing::Lost(_) => Usable::Nothing,
    };
    Soundness::new(record.geometry, verdicts.iter().map(usable))
}

/// The number of the group of each shard that is there: those of one kind are in one, and those whose kind is not known each in its own.
fn groups<K: Ord>(record: &SegmentRecord, there: &[bool], kind: impl Fn(NodeId) -> Option<K>) -> Vec<Option<usize>> {
    let (mut known, mut count) = (BTreeMap::new(), 0);
    let group = |(location, there): (&Option<ShardLocation>, &bool)| {
        let kind = location.as_ref().filter(|_| *there).map(|location| kind(location.node))?;
        let next = count;
        let group = kind.map_or(next, |kind| *known.entry(kind).or_insert(next));
        count = count.max(group + 1);
        Some(group)
    };
    record.shards.iter().zip(there).map(group).collect()
}

#[cfg(test)]
#[path = "state_tests.rs"]
mod tests;
