//! Openings of a volume: each time that an owner opens its metadata to change something.
//!
//! Metadata is a file, and files are copied. So every opening has a number, one more than the last, and a random tag; metadata has it
//! first, then the volume's nodes ([`Opening`]). Metadata that knows an older opening than some node, or another one of the same
//! number, is a copy, and changes nothing. Segment ids carry the number of their opening, so a copy also sees which shards it cannot
//! know anything of ([`OpeningsRecord::fate`]).
//!
//! A process that goes on changing the volume takes the next number again and again ([`OpeningsRecord::renewed`]), so that a copy of the
//! same opening is soon an older one, too.

use super::{RecordError, VERSION, damaged, decode_message, sixteen};
use crate::ids::{Generation, SegmentId, ShardIndex, ShardKey};
use prost::Message as _;

const WHAT: &str = "openings";
const WHAT_OF_NODES: &str = "opening";

/// The segment in the names of what nodes hold of openings; no segment has this id.
pub const OPENINGS: SegmentId = SegmentId(u128::MAX);

/// The name under which nodes hold the opening of this number.
pub fn opening_key(number: u32) -> ShardKey {
    ShardKey { segment: OPENINGS, generation: Generation(number), index: ShardIndex(0) }
}

/// One opening, as nodes know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opening {
    /// From 1 on.
    pub number: u32,
    /// Random: tells it from one of the same number by other metadata.
    pub tag: u128,
    /// When, in milliseconds since the Unix epoch; for people.
    pub began_ms: u64,
}

/// An opening whose process may still commit, as its metadata knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Latest {
    /// Which it is.
    pub opening: Opening,
    /// The process, where several change the metadata together: its session's number in the engine; 0: it alone does.
    pub session: i64,
    /// Segments of it with a smaller count are committed, or nobody will commit them any more.
    pub settled_below: u32,
    /// The number of changes of the node table that every process knows that may still commit a segment of it; [`NOBODY_COMMITS`] at its end,
    /// and where it renews another.
    pub roster: u64,
}

/// A [`Latest::roster`] of an opening that is over: all changes of the node table, also later ones.
pub const NOBODY_COMMITS: u64 = u64::MAX;

/// What metadata knows of its openings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpeningsRecord {
    /// `None`: nobody has opened it yet.
    pub latest: Option<Latest>,
    /// Earlier openings of processes that change the metadata together with that of the latest. Ascending.
    pub beside: Vec<Latest>,
    /// First and last numbers of openings that are over: whatever they stored and no record names, nobody will commit. Ascending, with
    /// others in between.
    pub over: Vec<(u32, u32)>,
    /// Number and `settled_below` of openings that other metadata may have gone on with, since this is a copy of it. Ascending.
    pub left: Vec<(u32, u32)>,
    /// The first opening since this was made the volume's metadata again by somebody's word; 0: it always was.
    pub restored_by: u32,
}

/// May a shard that no record names be named yet?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Whoever stored it may be about to commit it.
    Open,
    /// Nobody will.
    Over,
    /// It is of an opening of other metadata: this one can say nothing of it.
    Unknown,
}

impl OpeningsRecord {
    /// With one more opening of the same metadata, by a process that changes it alone: those before are over.
    pub fn followed_by(&self, tag: u128, began_ms: u64) -> Self {
        let mut next = self.clone();
        let over = std::mem::take(&mut next.beside).into_iter().chain(next.latest);
        over.for_each(|opening| note_over(&mut next.over, opening.opening.number));
        next.latest = Some(self.next(0, tag, began_ms));
        next
    }

    /// With one more opening of the same metadata, by the process of this session. Those of sessions that have ended are over.
    pub fn joined_by(&self, session: i64, has_ended: impl Fn(i64) -> bool, tag: u128, began_ms: u64) -> Self {
        let mut next = self.clone();
        next.retire_latest();
        next.latest = Some(self.next(session, tag, began_ms));
        next.without(has_ended)
    }

    /// With the next number for a process of this session that goes on: its segments keep the number that it began with, and the new one has none.
    pub fn renewed(&self, session: i64, tag: u128, began_ms: u64) -> Self {
        let mut next = self.clone();
        next.retire_latest();
        let latest = self.next(session, tag, began_ms);
        next.latest = Some(Latest { settled_below: SegmentId::OF_WORKERS, roster: NOBODY_COMMITS, ..latest });
        next
    }

    /// The latest makes room for another: it is over if nobody commits anything of it, and stays beside the next one otherwise.
    fn retire_latest(&mut self) {
        match self.latest.take() {
            Some(latest) if latest.roster == NOBODY_COMMITS => note_over(&mut self.over, latest.opening.number),
            latest => self.beside.extend(latest),
        }
    }

    /// The same, where openings are over of which `is_over` says so by the session. The latest stays the latest, with nothing that may
    /// still be committed.
    pub fn without(mut self, is_over: impl Fn(i64) -> bool) -> Self {
        let (over, beside) = self.beside.into_iter().partition(|opening: &Latest| is_over(opening.session));
        self.beside = beside;
        over.iter().for_each(|opening| note_over(&mut self.over, opening.opening.number));
        if let Some(latest) = self.latest.as_mut().filter(|latest| latest.session != 0 && is_over(latest.session)) {
            (latest.settled_below, latest.roster) = (SegmentId::OF_WORKERS, NOBODY_COMMITS);
        }
        self
    }

    fn next(&self, session: i64, tag: u128, began_ms: u64) -> Latest {
        let opening = Opening { number: self.number().saturating_add(1), tag, began_ms };
        Latest { opening, session, settled_below: 0, roster: 0 }
    }

    /// Openings whose processes may still commit, ascending.
    pub fn current(&self) -> impl Iterator<Item = &Latest> {
        self.beside.iter().chain(&self.latest)
    }

    /// What is known of the opening of this number, if its process may still commit.
    pub fn current_mut(&mut self, number: u32) -> Option<&mut Latest> {
        self.beside.iter_mut().chain(&mut self.latest).find(|opening| opening.opening.number == number)
    }

    /// Of a copy that is made the volume's metadata, with an opening after all that nodes have seen.
    pub fn restored(&self, newest_seen: u32, tag: u128, began_ms: u64) -> Self {
        let mut next = self.clone();
        next.left.extend(self.current().map(|opening| (opening.opening.number, opening.settled_below)));
        next.beside.clear();
        // What nodes say is believed by nobody: with the last number taken the nodes refuse, and nothing overflows.
        let number = self.number().max(newest_seen).saturating_add(1);
        next.latest =
            Some(Latest { opening: Opening { number, tag, began_ms }, session: 0, settled_below: 0, roster: 0 });
        next.restored_by = number;
        next
    }

    /// That of the latest opening; 0: there was none.
    pub fn number(&self) -> u32 {
        self.latest.map_or(0, |latest| latest.opening.number)
    }

    /// Has every process that may still commit a segment followed this number of changes of the node table? Then no segment
    /// comes to a node that took none from that change on.
    pub fn follows(&self, roster: u64) -> bool {
        self.current().all(|opening| opening.roster >= roster)
    }

    /// What may become of a shard of this name that no record names, while no worker is at work.
    pub fn fate(&self, key: ShardKey) -> Fate {
        let (number, count) = (key.segment.opening(), key.segment.count());
        // Attempts at a segment bear no opening: whoever went on with the original may have made this one.
        if key.generation > Generation::FIRST && number < self.restored_by {
            return Fate::Unknown;
        }
        if let Some(current) = self.current().find(|current| current.opening.number == number) {
            let is_settled = count < current.settled_below || count >= SegmentId::OF_WORKERS;
            return if is_settled { Fate::Over } else { Fate::Open };
        }
        let is_over = self.over.iter().any(|(first, last)| (*first..=*last).contains(&number));
        let is_settled = self.left.iter().any(|(left, settled_below)| *left == number && count < *settled_below);
        if is_over || is_settled { Fate::Over } else { Fate::Unknown }
    }

    /// Protocol-buffer bytes; FORMAT.md has the fields.
    pub fn encode(&self) -> Vec<u8> {
        let pair = |(first, second): &(u32, u32)| Pair { first: *first, second: *second };
        Message {
            version: VERSION,
            latest: self.latest.map(|latest| latest.opening.message()),
            settled_below: self.latest.map_or(0, |latest| latest.settled_below),
            over: self.over.iter().map(pair).collect(),
            left: self.left.iter().map(pair).collect(),
            restored_by: self.restored_by,
            roster: self.latest.map_or(0, |latest| latest.roster),
            session: self.latest.map_or(0, |latest| latest.session),
            beside: self.beside.iter().map(Latest::message).collect(),
        }
        .encode_to_vec()
    }

    /// The inverse of [`Self::encode`].
    ///
    /// # Errors
    /// Unknown version; a tag of the wrong length; numbers in no order.
    pub fn decode(bytes: &[u8]) -> Result<Self, RecordError> {
        let message: Message = decode_message(WHAT, bytes)?;
        let Message { latest, settled_below, over, left, restored_by, roster, session, beside, .. } = message;
        let pair = |pair: &Pair| (pair.first, pair.second);
        let opening = latest.map(Opening::of).transpose()?;
        let record = Self {
            latest: opening.map(|opening| Latest { opening, session, settled_below, roster }),
            beside: beside.into_iter().map(Latest::of).collect::<Result<_, _>>()?,
            over: over.iter().map(pair).collect(),
            left: left.iter().map(pair).collect(),
            restored_by,
        };
        let number = record.number();
        let is_range = |(first, last): &(u32, u32)| first <= last && *last < number;
        let is_before = |pairs: &[(u32, u32)]| pairs[0].1 < pairs[1].0;
        if !record.over.iter().all(is_range) || !record.over.windows(2).all(is_before) {
            return Err(damaged(WHAT, "its openings are in no order"));
        }
        if !record.current().is_sorted_by(|one, next| one.opening.number < next.opening.number) {
            return Err(damaged(WHAT, "its current openings are in no order"));
        }
        if record.left.iter().any(|(left, _)| *left >= number) || restored_by > number {
            return Err(damaged(WHAT, "it names an opening after the latest"));
        }
        Ok(record)
    }
}

/// Adds a number to ranges of numbers.
fn note_over(over: &mut Vec<(u32, u32)>, number: u32) {
    let place = over.partition_point(|(_, last)| *last < number);
    let is_next = |range: &(u32, u32)| range.1.checked_add(1) == Some(number);
    let follows = place.checked_sub(1).filter(|before| is_next(&over[*before]));
    let precedes = over.get(place).is_some_and(|(first, _)| number.checked_add(1) == Some(*first));
    match (follows, precedes) {
        (Some(before), true) => over[before].1 = over.remove(place).1,
        (Some(before), false) => over[before].1 = number,
        (None, true) => over[place].0 = number,
        (None, false) => over.insert(place, (number, number)),
    }
}

impl Latest {
    fn message(&self) -> CurrentMessage {
        let Self { opening, session, settled_below, roster } = *self;
        CurrentMessage { opening: Some(opening.message()), session, settled_below, roster }
    }

    fn of(message: CurrentMessage) -> Result<Self, RecordError> {
        let CurrentMessage { opening, session, settled_below, roster } = message;
        let opening = Opening::of(opening.ok_or_else(|| damaged(WHAT, "a current opening has no number"))?)?;
        Ok(Self { opening, session, settled_below, roster })
    }
}

impl Opening {
    /// Protocol-buffer bytes, as nodes hold them; FORMAT.md has the fields.
    pub fn encode(&self) -> Vec<u8> {
        self.message().encode_to_vec()
    }

    /// The inverse of [`Self::encode`].
    ///
    /// # Errors
    /// Unknown version; a tag of the wrong length; the number 0.
    pub fn decode(bytes: &[u8]) -> Result<Self, RecordError> {
        Self::of(decode_message(WHAT_OF_NODES, bytes)?)
    }

    /// Why metadata whose latest opening is `latest` changes nothing, when nodes know this one; with the mend.
    pub fn refuses(&self, latest: Option<Opening>) -> String {
        let what = match latest {
            Some(latest) if latest.number == self.number => {
                format!("other metadata of the volume was opened at the same time, as opening {}", self.number)
            }
            latest => {
                let number = latest.map_or(0, |latest| latest.number);
                format!(
                    "this is an older copy of the volume's metadata: it knows opening {number}, and nodes know opening {}",
                    self.number
                )
            }
        };
        format!(
            "{what}; it may be read and changes nothing: use the newer metadata, or continue from this copy with `weft restore`"
        )
    }

    fn message(&self) -> OpeningMessage {
        let Self { number, tag, began_ms } = *self;
        OpeningMessage { version: VERSION, number, tag: tag.to_be_bytes().to_vec(), began_ms }
    }

    fn of(message: OpeningMessage) -> Result<Self, RecordError> {
        let OpeningMessage { number, tag, began_ms, .. } = message;
        if number == 0 {
            return Err(damaged(WHAT_OF_NODES, "it has the number 0"));
        }
        let tag = u128::from_be_bytes(sixteen(WHAT_OF_NODES, "its tag", &tag)?);
        Ok(Self { number, tag, began_ms })
    }
}

#[derive(Clone, PartialEq, prost::Message)]
struct OpeningMessage {
    #[prost(uint32, tag = "1")]
    version: u32,
    #[prost(uint32, tag = "2")]
    number: u32,
    #[prost(bytes = "vec", tag = "3")]
    tag: Vec<u8>,
    #[prost(uint64, tag = "4")]
    began_ms: u64,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Pair {
    #[prost(uint32, tag = "1")]
    first: u32,
    #[prost(uint32, tag = "2")]
    second: u32,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Message {
    #[prost(uint32, tag = "1")]
    version: u32,
    #[prost(message, optional, tag = "2")]
    latest: Option<OpeningMessage>,
    #[prost(uint32, tag = "3")]
    settled_below: u32,
    #[prost(message, repeated, tag = "4")]
    over: Vec<Pair>,
    #[prost(message, repeated, tag = "5")]
    left: Vec<Pair>,
    #[prost(uint32, tag = "6")]
    restored_by: u32,
    #[prost(uint64, tag = "7")]
    roster: u64,
    #[prost(int64, tag = "8")]
    session: i64,
    #[prost(message, repeated, tag = "9")]
    beside: Vec<CurrentMessage>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct CurrentMessage {
    #[prost(message, optional, tag = "1")]
    opening: Option<OpeningMessage>,
    #[prost(int64, tag = "2")]
    session: i64,
    #[prost(uint32, tag = "3")]
    settled_below: u32,
    #[prost(uint64, tag = "4")]
    roster: u64,
}

#[cfg(test)]
#[path = "openings_tests.rs"]
mod tests;
