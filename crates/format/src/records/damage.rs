//! What somebody who read a segment's shards found wrong with them.

use super::{RecordError, VERSION, damaged, decode_message, sixteen};
use crate::ids::{NodeId, ShardIndex, ShardKey};
use prost::Message as _;
use std::ops::Range;

const WHAT: &str = "damage";

/// Runs of frames noted of one shard. Of a shard with more of them the nearest are noted as one, so that sound frames count as
/// damaged, never the other way.
const RUNS_MAX: usize = 128;

/// Longest complaint, in bytes.
const COMPLAINT_MAX: usize = 200;

/// What is wrong with one shard, at the place where it was found. Once the segment's record names another place for it, this
/// says nothing any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedShard {
    /// Which shard of the segment.
    pub index: ShardIndex,
    /// The node that has it.
    pub node: NodeId,
    /// The name under which it lies there.
    pub key: ShardKey,
    /// For people: a clause that says how; empty where the node does not have the shard.
    pub complaint: String,
    /// Frames that cannot be used, ascending; the others are sound. `None`: nothing of it can be.
    pub frames: Option<Vec<Range<u64>>>,
}

impl DamagedShard {
    /// With what was known before of the same place.
    fn after(mut self, before: &Self) -> Self {
        if (before.node, before.key) != (self.node, self.key) {
            return self;
        }
        match (&mut self.frames, &before.frames) {
            (Some(frames), Some(known)) => {
                frames.extend(known.iter().cloned());
                frames.sort_by_key(|run| run.start);
                *frames = frames.drain(..).fold(Vec::new(), |mut runs: Vec<Range<u64>>, run| {
                    match runs.last_mut().filter(|last| run.start <= last.end) {
                        Some(last) => last.end = last.end.max(run.end),
                        None => runs.push(run),
                    }
                    runs
                });
                self
            }
            (Some(_), None) => before.clone(),
            (None, _) => self,
        }
    }

    /// The same, with as many runs of frames and as long a complaint as a record holds.
    fn bounded(mut self) -> Self {
        if let Some(end) =
            (0..=COMPLAINT_MAX.min(self.complaint.len())).rev().find(|at| self.complaint.is_char_boundary(*at))
        {
            self.complaint.truncate(end);
        }
        if let Some(frames) = &mut self.frames {
            while frames.len() > RUNS_MAX {
                let gap = |at: &usize| frames[at + 1].start - frames[*at].end;
                let Some(at) = (0..frames.len() - 1).min_by_key(gap) else { break };
                let end = frames.remove(at + 1).end;
                frames[at].end = end;
            }
        }
        self
    }
}

/// What is known to be wrong with the shards of a segment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DamageRecord {
    /// Ascending by index, at most one for each.
    shards: Vec<DamagedShard>,
    /// Somebody wants every shard read, whatever is known.
    pub is_suspected: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Message {
    #[prost(uint32, tag = "1")]
    version: u32,
    #[prost(message, repeated, tag = "2")]
    shards: Vec<ShardMessage>,
    #[prost(bool, tag = "3")]
    is_suspected: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
struct ShardMessage {
    #[prost(uint32, tag = "1")]
    index: u32,
    #[prost(bytes = "vec", tag = "2")]
    node: Vec<u8>,
    #[prost(string, tag = "3")]
    key: String,
    #[prost(string, tag = "4")]
    complaint: String,
    #[prost(bool, tag = "5")]
    is_whole: bool,
    /// Start and end of each run, in turn.
    #[prost(uint64, repeated, tag = "6")]
    frames: Vec<u64>,
}

impl DamageRecord {
    /// Nothing is known, and somebody wants every shard read.
    pub fn suspicion() -> Self {
        Self { is_suspected: true, ..Self::default() }
    }

    /// The newest finding of each shard counts.
    pub fn new(shards: impl IntoIterator<Item = DamagedShard>) -> Self {
        let mut record = Self::default();
        record.add(shards);
        record
    }

    /// What is known, by shard.
    pub fn shards(&self) -> &[DamagedShard] {
        &self.shards
    }

    /// Takes in newer findings: those of a shard in the same place are added to what was known of it, others replace it.
    pub fn add(&mut self, found: impl IntoIterator<Item = DamagedShard>) {
        for shard in found {
            match self.shards.binary_search_by_key(&shard.index, |known| known.index) {
                Ok(at) => self.shards[at] = shard.after(&self.shards[at]).bounded(),
                Err(at) => self.shards.insert(at, shard.bounded()),
            }
        }
    }

    /// Protocol-buffer bytes; FORMAT.md has the fields.
    pub fn encode(&self) -> Vec<u8> {
        let shard = |shard: &DamagedShard| ShardMessage {
            index: shard.index.0.into(),
            node: shard.node.to_bytes().to_vec(),
            key: shard.key.to_string(),
            complaint: shard.complaint.clone(),
            is_whole: shard.frames.is_none(),
            frames: shard.frames.iter().flatten().flat_map(|run| [run.start, run.end]).collect(),
        };
        Message { version: VERSION, shards: self.shards.iter().map(shard).collect(), is_suspected: self.is_suspected }
            .encode_to_vec()
    }

    /// The inverse of [`Self::encode`].
    ///
    /// # Errors
    /// Unknown version; an id, a name or frames that cannot be.
    pub fn decode(bytes: &[u8]) -> Result<Self, RecordError> {
        let message: Message = decode_message(WHAT, bytes)?;
        let shards: Vec<DamagedShard> =
            message.shards.into_iter().map(ShardMessage::shard).collect::<Result<_, RecordError>>()?;
        if !shards.is_sorted_by(|one, next| one.index < next.index) {
            return Err(damaged(WHAT, "its shards are not in order"));
        }
        Ok(Self { shards, is_suspected: message.is_suspected })
    }
}

impl ShardMessage {
    fn shard(self) -> Result<DamagedShard, RecordError> {
        let index = u16::try_from(self.index).map_err(|_| damaged(WHAT, format!("a shard of index {}", self.index)))?;
        let key = self.key.parse().map_err(|_| damaged(WHAT, format!("`{}` is no shard's name", self.key)))?;
        let runs: Vec<Range<u64>> = self.frames.chunks(2).map(|run| run[0]..run.get(1).copied().unwrap_or(0)).collect();
        let is_ascending =
            runs.iter().all(|run| run.start < run.end) && runs.is_sorted_by(|one, next| one.end < next.start);
        if !is_ascending || (self.is_whole && !runs.is_empty()) {
            return Err(damaged(WHAT, "frames that cannot be"));
        }
        Ok(DamagedShard {
            index: ShardIndex(index),
            node: NodeId::from_bytes(sixteen(WHAT, "a node id", &self.node)?),
            key,
            complaint: self.complaint,
            frames: (!self.is_whole).then_some(runs),
        })
    }
}

#[cfg(test)]
#[path = "damage_tests.rs"]
mod tests;
