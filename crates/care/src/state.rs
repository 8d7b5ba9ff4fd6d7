//! The state of a segment, stripe by stripe. Pure: takes the verdicts on its shards, and returns how many further losses it survives, or
//! which of its bytes are lost.

use crate::margin::Margins;
use crate::standing::{Loss, Standing};
use std::collections::BTreeMap;
use std::ops::Range;
use weft_format::NodeId;
use weft_format::records::SegmentRecord;
use weft_transfer::{Soundness, Usable};

/// Further losses that something survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Survives {
    /// Of nodes.
    pub nodes: usize,
    /// Of shards.
    pub shards: usize,
}

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
pub fn state(record: &SegmentRecord, verdicts: &[Standing], margins: &mut Margins) -> State {
    let patterns = soundness(record, verdicts, false).patterns();
    let of_stripes: Vec<Option<Survives>> = (patterns.iter())
        .map(|there| {
            let shards = margins.margin(record, there)?;
            Some(Survives { shards, nodes: nodes_survived(record, there, shards) })
        })
        .collect();
    let least = of_stripes.iter().flatten().min().copied();
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

/// How many nodes may go when any `shards` shards may: fewer, where a node holds several.
fn nodes_survived(record: &SegmentRecord, there: &[bool], mut shards: usize) -> usize {
    let mut held: BTreeMap<NodeId, usize> = BTreeMap::new();
    for (location, there) in record.shards.iter().zip(there) {
        if let (Some(location), true) = (location, there) {
            *held.entry(location.node).or_default() += 1;
        }
    }
    let mut counts: Vec<usize> = held.into_values().collect();
    counts.sort_unstable_by(|a, b| b.cmp(a));
    let mut nodes = 0;
    for count in counts {
        let Some(rest) = shards.checked_sub(count) else { break };
        shards = rest;
        nodes += 1;
    }
    nodes
}

#[cfg(test)]
#[path = "state_tests.rs"]
mod tests;
