//! The last resort of reads and rebuilds, where whole shards do not suffice: what every shard has of some stripes, those among them
//! that failed elsewhere, frame by frame. Damage in different stripes is no loss.

use crate::algebra::LoadedCode;
use crate::error::{ReadError, RebuildError};
use crate::in_flight::InFlight;
use crate::read::locate::BATCH_DATA_BYTES;
use crate::read::part::ReadPart;
use crate::read::report::ReadReport;
use crate::rebuild::job::Job;
use crate::soundness::{frames_of, merged, payload_of};
use crate::survivors::{Survivors, TooFew};
use crate::suspect::{Failures, ShardFailure, Suspect, SuspectKind};
use crate::transfer::Inner;
use crate::write::encode::Object;
use bytes::Bytes;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use weft_format::records::SegmentRecord;
use weft_format::shard::{ShardBuilder, ShardError, ShardIdentity, frames_range};
use weft_format::{NodeId, SegmentId, ShardIndex, ShardKey};
use weft_nodes::{NodeError, NodeErrorKind};

/// Reads of one shard that may fail before no more of it is tried: a bad disk has few bad places, or no good ones.
const FAILED_READS_MAX: usize = 32;

/// Is there hope that shards which failed so have sound parts?
pub(crate) fn may_help(failures: &Failures) -> bool {
    failures.0.iter().any(|failure| is_partial(failure.kind))
}

fn is_partial(kind: SuspectKind) -> bool {
    matches!(kind, SuspectKind::Checksum | SuspectKind::Length | SuspectKind::Unknown(NodeErrorKind::Io))
}

/// Frames of one shard as they came, and the failures of what did not come.
pub(crate) struct Came {
    pub(crate) parts: Vec<(Range<u64>, Bytes)>,
    pub(crate) failed: Vec<Range<u64>>,
    error: Option<NodeError>,
}

/// A segment that is pieced together.
struct Salvage<'a> {
    inner: &'a Inner,
    segment: SegmentId,
    record: &'a SegmentRecord,
    code: Arc<LoadedCode>,
    /// What is asked: by shard.
    shards: BTreeMap<usize, (NodeId, ShardKey)>,
    /// What is wrong, by shard: what was known before, and what was found.
    failures: BTreeMap<usize, ShardFailure>,
    bytes_fetched: u64,
}

impl<'a> Salvage<'a> {
    /// `before` is how shards failed that were asked before: of those that are silent nothing more is hoped for.
    fn new(
        inner: &'a Inner,
        segment: SegmentId,
        record: &'a SegmentRecord,
        code: Arc<LoadedCode>,
        before: &Failures,
    ) -> Self {
        let hopeless = before.0.iter().filter(|failure| !is_partial(failure.kind));
        let failures: BTreeMap<usize, ShardFailure> =
            hopeless.map(|failure| (failure.index.as_usize(), failure.clone())).collect();
        let (view, now_ms) = (inner.fleet.view(), inner.fleet.now_ms());
        let answers = |node| view.members.get(&node).is_some_and(|member| !member.health.is_suspected(now_ms));
        let located = record
            .located(segment)
            .filter(|(index, _, location)| !failures.contains_key(&index.as_usize()) && answers(location.node));
        let shards = located.map(|(index, key, location)| (index.as_usize(), (location.node, key))).collect();
        Self { inner, segment, record, code, shards, failures, bytes_fetched: 0 }
    }

    /// What is left of these stripes.
    async fn gather(&mut self, stripes: Range<u32>) -> Survivors {
        let (inner, geometry) = (self.inner, self.record.geometry);
        let payload_bytes = geometry.payload_bytes();
        let last = stripes.end.saturating_sub(1).max(stripes.start);
        let frames = frames_of(&(geometry.stripe(stripes.start).cell.start..geometry.stripe(last).cell.end));
        let mut asked = InFlight::new();
        for (shard, (node, key)) in &self.shards {
            asked.push((*shard, *node, *key), Box::pin(fetch(inner, *node, *key, frames.clone(), payload_bytes)));
        }
        let mut survivors = Survivors::nothing(self.code.clone(), geometry);
        let mut came = Vec::new();
        while let Some(next) = asked.next().await {
            came.push(next);
        }
        drop(asked);
        for ((shard, node, key), Came { parts, failed, error }) in came {
            let identity = ShardIdentity { volume: inner.volume, key };
            let mut unsound = failed;
            let mut checked = None;
            for (frames, raw) in parts {
                self.bytes_fetched += raw.len() as u64;
                let bad = survivors.take_in(shard, &identity, frames, &raw);
                checked = checked.or(bad.first().map(|run| ShardError::BadChecksum { frame: run.start }));
                unsound.extend(bad);
            }
            let why = match (error, checked) {
                (Some(error), _) => Some((SuspectKind::of(error.kind), error.to_string())),
                (None, Some(error)) => {
                    Some((SuspectKind::of_check(&error), format!("node {}: {error}", inner.fleet.name(node))))
                }
                (None, None) => None,
            };
            if let Some((kind, detail)) = why {
                self.note(shard, node, kind, detail, unsound);
            }
        }
        survivors
    }

    fn note(&mut self, shard: usize, node: NodeId, kind: SuspectKind, detail: String, unsound: Vec<Range<u64>>) {
        let index = ShardIndex(shard as u16);
        let fresh = ShardFailure { index, node, kind, detail, frames: Some(Vec::new()) };
        let failure = self.failures.entry(shard).or_insert(fresh);
        if !is_partial(kind) {
            failure.frames = None;
            // It is gone, or silent: the next stripes need not ask it.
            self.shards.remove(&shard);
        } else if let Some(frames) = &mut failure.frames {
            frames.extend(unsound);
            *frames = merged(std::mem::take(frames));
        }
    }

    fn suspects(&self) -> Vec<Suspect> {
        self.failures.values().map(Suspect::of).collect()
    }

    fn unrecoverable(&self, too_few: &TooFew) -> ReadError {
        let shape = self.code.shape();
        let unplaced = self.record.shards.iter().filter(|location| location.is_none()).count();
        ReadError::Unrecoverable {
            segment: self.segment,
            answered: shape.n - too_few.unusable.len(),
            needed: shape.n - shape.tolerance,
            unplaced,
            failures: Failures(self.failures.values().cloned().collect()),
        }
    }
}

/// Reads a part of a segment of which `before` tells what failed.
///
/// # Errors
/// `Unrecoverable`: some stripe of it cannot be had.
pub(crate) async fn read(inner: &Inner, part: ReadPart<'_>, before: &Failures) -> Result<ReadReport, ReadError> {
    let ReadPart { segment, record, range, out } = part;
    let code = inner.algebra.load_for(record).map_err(|detail| ReadError::Record { segment, detail })?;
    let geometry = record.geometry;
    let mut salvage = Salvage::new(inner, segment, record, code, before);
    let mut start = range.start;
    while start < range.end {
        let end = (start + BATCH_DATA_BYTES).min(range.end);
        let of_data: Vec<u32> = geometry.pieces(start..end).map(|piece| piece.stripe).collect();
        let first = of_data.iter().min().copied().unwrap_or(0);
        let stripes = first..of_data.iter().max().map_or(first, |last| last + 1);
        let survivors = salvage.gather(stripes.clone()).await;
        let place = (start - range.start) as usize..(end - range.start) as usize;
        survivors
            .read_range(stripes, start..end, &mut out[place])
            .map_err(|too_few| salvage.unrecoverable(&too_few))?;
        start = end;
    }
    let suspects = salvage.suspects();
    Ok(ReadReport { bytes_fetched: salvage.bytes_fetched, degraded: true, suspects })
}

/// What a rebuild of this kind brought.
pub(crate) struct Salvaged {
    pub(crate) objects: Vec<Object>,
    pub(crate) bytes_fetched: u64,
    pub(crate) suspects: Vec<Suspect>,
}

/// Builds the lost shards of which `before` tells what failed, from what the others and they themselves still have.
///
/// # Errors
/// `Unrecoverable`: some stripe of them cannot be had.
pub(crate) async fn rebuild(
    inner: &Inner,
    job: &Job<'_>,
    mut builders: Vec<ShardBuilder>,
    before: &Failures,
) -> Result<Salvaged, RebuildError> {
    let mut salvage = Salvage::new(inner, job.segment, job.record, job.code.clone(), before);
    for stripes in job.batches(BATCH_DATA_BYTES) {
        let survivors = salvage.gather(stripes.clone()).await;
        survivors
            .rebuild_into(stripes, &job.lost, &mut builders)
            .map_err(|too_few| RebuildError::Read(salvage.unrecoverable(&too_few)))?;
        // Between batches others may run.
        tokio::task::yield_now().await;
    }
    let objects = builders.into_iter().map(ShardBuilder::finish).collect();
    Ok(Salvaged { objects, bytes_fetched: salvage.bytes_fetched, suspects: salvage.suspects() })
}

/// Frames of a shard; where they cannot be had together, in halves down to single ones.
pub(crate) async fn fetch(inner: &Inner, node: NodeId, key: ShardKey, frames: Range<u64>, payload_bytes: u64) -> Came {
    let mut came = Came { parts: Vec::new(), failed: Vec::new(), error: None };
    let mut waiting = vec![frames];
    let mut failed_count = 0;
    while let Some(run) = waiting.pop() {
        let range = frames_range(payload_of(run.clone(), payload_bytes), payload_bytes);
        let got = inner.call(node, range.end - range.start, async move |node| node.get(key, range).await).await;
        match got {
            Ok(raw) => came.parts.push((run, raw)),
            Err(error) => {
                let is_partial = is_partial(SuspectKind::of(error.kind));
                failed_count += 1;
                came.error = Some(error);
                if !is_partial || failed_count > FAILED_READS_MAX {
                    came.failed.push(run);
                    came.failed.append(&mut waiting);
                } else if run.end - run.start > 1 {
                    let middle = run.start + (run.end - run.start) / 2;
                    waiting.extend([middle..run.end, run.start..middle]);
                } else {
                    came.failed.push(run);
                }
            }
        }
    }
    came
}
