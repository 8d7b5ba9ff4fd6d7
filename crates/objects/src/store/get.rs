//! Reading an object: segment by segment, each checked as a whole before a byte of it is given away.

use super::ObjectStore;
use crate::error::ObjectError;
use crate::versions::{Findings, located};
use bytes::Bytes;
use futures_util::lock::Mutex as Turn;
use futures_util::{StreamExt, stream};
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use weft_format::records::{Contents, ObjectRecord, SegmentRecord, Stamp, data_segment, name_hash};
use weft_format::{NodeId, SegmentId, ShardKey};
use weft_transfer::{ReadError, ReadReport, ShardHealth};

/// Segments that are fetched ahead of the one that is given away.
const AHEAD: usize = 2;

/// An object that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Got {
    /// Which version.
    pub version: Stamp,
    /// Length.
    pub bytes: u64,
    /// Was anything computed from other shards?
    pub is_degraded: bool,
    /// Shards that were not what they should be, and where; a clause each.
    pub damaged: Vec<String>,
    /// A newer version whose upload was given up after some members had its record.
    pub passed_over: Option<Stamp>,
}

/// A read under way.
struct Reading<'a> {
    store: &'a ObjectStore,
    name: &'a str,
    hash: u64,
    record: &'a ObjectRecord,
    contents: &'a Contents,
    state: &'a Mutex<State>,
    /// Segments that lack shards at the same time ask for them once.
    asking: &'a Turn<()>,
}

/// What is found out on the way.
#[derive(Default)]
struct State {
    findings: Findings,
    /// How often members were asked since the closest were at first.
    asked: u32,
    /// Shards that were found to be wrong.
    refused: BTreeSet<(NodeId, ShardKey)>,
    is_degraded: bool,
    damaged: Vec<String>,
}

impl ObjectStore {
    /// Gives the contents of the newest version to `sink`, in order.
    ///
    /// # Errors
    /// It is not there, or too few of its shards can be used; `sink` may have had a beginning of it.
    pub async fn get(
        &self,
        name: &str,
        sink: &mut (dyn FnMut(&[u8]) -> io::Result<()> + Send),
    ) -> Result<Got, ObjectError> {
        let (mut record, found, findings) = self.newest(name).await?;
        let (state, asking) = (Mutex::new(State { findings, ..State::default() }), Turn::new(()));
        let mut passed_over = None;
        for version in &found {
            if version.stamp != record.stamp {
                record = self.record(name, version).await?;
            }
            let Some(contents) = record.contents() else { break };
            let (hash, state, asking) = (name_hash(name), &state, &asking);
            let reading = Reading { store: self, name, hash, record: &record, contents, state, asking };
            let mut given = 0;
            match reading.run(sink, &mut given).await {
                // It was never acknowledged: members that had removed its shards before took no record.
                Err(ObjectError::Read { .. }) if given == 0 && !version.given_up.is_empty() => {
                    passed_over.get_or_insert(version.stamp);
                }
                Err(error) => return Err(error),
                Ok(()) => {
                    let State { is_degraded, damaged, .. } = std::mem::take(&mut *state.lock());
                    return Ok(Got { version: record.stamp, bytes: contents.bytes, is_degraded, damaged, passed_over });
                }
            }
        }
        Err(self.absent(name, false, &state.lock().findings))
    }
}

impl Reading<'_> {
    /// Gives all segments away, in order, and counts them.
    async fn run(
        &self,
        sink: &mut (dyn FnMut(&[u8]) -> io::Result<()> + Send),
        given: &mut usize,
    ) -> Result<(), ObjectError> {
        let numbers = stream::iter(0..self.contents.segments.len());
        let mut segments = numbers.map(|number| self.segment(number)).buffered(AHEAD + 1);
        while let Some(data) = segments.next().await {
            let data = data?;
            *given += 1;
            sink(&data).map_err(ObjectError::Target)?;
        }
        Ok(())
    }

    fn locate(&self, number: usize) -> Option<SegmentRecord> {
        let state = self.state.lock();
        let cost = |node| self.store.cost(node);
        located(self.record, self.hash, number as u32, &state.findings, cost, &state.refused)
    }

    /// The data of a segment, as it was put. Where members have too little of it, all are asked what they have now: in a long read what was
    /// lost is elsewhere by then. Then those are asked again that were late: silence is no sign of loss. Where what they have is not what was
    /// put, each shard is compared with its digest, and the wrong ones are left out.
    async fn segment(&self, number: usize) -> Result<Bytes, ObjectError> {
        let wanted = &self.contents.segments[number];
        let segment = data_segment(self.hash, self.record.stamp, number as u32);
        let (mut has_compared, mut round) = (false, 0);
        loop {
            let asked = self.state.lock().asked;
            let record = self.locate(number).map(Arc::new).ok_or_else(|| self.forged(number))?;
            match self.store.transfer.read_bytes(segment, &record, 0..record.geometry.data_bytes).await {
                Ok((data, report)) => {
                    self.note_suspects(number, &record, &report);
                    if *blake3::hash(&data).as_bytes() == wanted.digest {
                        return Ok(data);
                    }
                }
                Err(ReadError::Unrecoverable { .. }) if self.ask_more(asked, &mut round).await => continue,
                Err(error) => return Err(self.unreadable(error)),
            }
            if has_compared || !self.compare(number, segment, &record).await {
                return Err(self.forged(number));
            }
            has_compared = true;
        }
    }

    /// Is more known than after members were asked `asked` times? Asks once more where it is not, for this segment's round `round`;
    /// `false`: nobody is left to ask.
    async fn ask_more(&self, asked: u32, round: &mut u32) -> bool {
        let _turn = self.asking.lock().await;
        let mut findings = {
            let state = self.state.lock();
            if state.asked > asked {
                return true;
            }
            state.findings.clone()
        };
        let is_asked = match round.checked_sub(1) {
            None => {
                findings = self.store.find_everywhere(self.hash).await;
                true
            }
            Some(late_round) => self.store.find_late(self.hash, late_round, &mut findings).await,
        };
        *round += 1;
        let mut state = self.state.lock();
        state.findings = findings;
        state.asked += u32::from(is_asked);
        is_asked
    }

    fn note_suspects(&self, number: usize, record: &SegmentRecord, report: &ReadReport) {
        self.state.lock().is_degraded |= report.degraded;
        for suspect in report.suspects.iter().filter(|suspect| suspect.kind.is_loss()) {
            let location = record.shards.get(suspect.index.as_usize()).and_then(Option::as_ref);
            let at = location.map_or_else(String::new, |location| self.store.address(location.node));
            self.note(format!("shard {} of segment {number} at {at} is missing or damaged", suspect.index));
        }
    }

    /// Compares each shard with its digest, and leaves out those that differ; was there one?
    async fn compare(&self, number: usize, segment: SegmentId, record: &SegmentRecord) -> bool {
        let health = self.store.transfer.verify(segment, record).await;
        let mut is_any_wrong = false;
        for (index, key, location) in record.located(segment) {
            if let Some(ShardHealth::Damaged(damage)) = health.shards.get(index.as_usize()) {
                is_any_wrong = true;
                self.state.lock().refused.insert((location.node, key));
                let at = self.store.address(location.node);
                self.note(format!("shard {index} of segment {number} at {at} is wrong: {}", damage.how));
            }
        }
        is_any_wrong
    }

    fn note(&self, damage: String) {
        let damaged = &mut self.state.lock().damaged;
        if !damaged.contains(&damage) {
            damaged.push(damage);
        }
    }

    fn forged(&self, segment: usize) -> ObjectError {
        ObjectError::Forged { name: self.name.to_owned(), version: self.record.stamp.to_string(), segment }
    }

    /// Which members said nothing; empty: all answered.
    fn silence(&self) -> String {
        let findings = &self.state.lock().findings;
        match findings.silent.len() {
            0 => String::new(),
            silent => format!("of {silent} members nothing is known ({}), and ", findings.why_silent()),
        }
    }

    fn unreadable(&self, error: ReadError) -> ObjectError {
        let (name, version) = (self.name.to_owned(), self.record.stamp.to_string());
        ObjectError::Read { name, version, silence: self.silence(), error: Box::new(error) }
    }
}
