//! Which frames of a segment's shards can be used, and what follows for its stripes. Pure.
//!
//! Damage is judged where it is: two frames that are damaged in different stripes are never a loss together. Stripes are looked at in
//! rows of frames where symbols are whole frames, since there each row is computed by itself.

use std::collections::BTreeSet;
use std::ops::Range;
use weft_format::geometry::{Geometry, Stripe};
use weft_format::shard::{CHECK_BYTES, FRAME_PAYLOAD_BYTES, ShardIdentity, frame_count, verify_frames};

const FRAME: u64 = FRAME_PAYLOAD_BYTES as u64;
const FRAME_BYTES: u64 = FRAME + CHECK_BYTES as u64;

/// How much of a shard can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Usable {
    /// All of it.
    Whole,
    /// Nothing.
    Nothing,
    /// All but these frames.
    AllBut(Vec<Range<u64>>),
}

/// Which frames of which shards can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Soundness {
    geometry: Geometry,
    /// By shard and frame; empty: nothing of the shard.
    frames: Vec<Vec<bool>>,
}

impl Soundness {
    /// Of the shards of a segment, by index.
    pub fn new(geometry: Geometry, shards: impl IntoIterator<Item = Usable>) -> Self {
        let count = frame_count(geometry.payload_bytes()) as usize;
        let frames = |usable| match usable {
            Usable::Whole => vec![true; count],
            Usable::Nothing => Vec::new(),
            Usable::AllBut(unsound) => {
                let mut frames = vec![true; count];
                for run in unsound {
                    let end = (run.end as usize).min(count);
                    frames[(run.start as usize).min(end)..end].fill(false);
                }
                frames
            }
        };
        Self { geometry, frames: shards.into_iter().map(frames).collect() }
    }

    /// How the segment is cut.
    pub(crate) fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Says of some frames of a shard whether they can be used; of the others it is left as it was, or not.
    pub(crate) fn set(&mut self, shard: usize, frames: Range<u64>, is_sound: bool) {
        let known = &mut self.frames[shard];
        if known.is_empty() {
            known.resize(frame_count(self.geometry.payload_bytes()) as usize, false);
        }
        known[frames.start as usize..frames.end as usize].fill(is_sound);
    }

    /// Is there no frame of any shard that can be used?
    pub(crate) fn is_empty(&self) -> bool {
        self.frames.iter().flatten().all(|sound| !sound)
    }

    /// Can every frame of the shard be used?
    pub(crate) fn has_all(&self, shard: usize) -> bool {
        !self.frames[shard].is_empty() && self.frames[shard].iter().all(|sound| *sound)
    }

    fn is_all_or_nothing(&self, shard: usize) -> bool {
        self.frames[shard].is_empty() || self.has_all(shard)
    }

    /// Which shards can be used together, each combination that some part of the segment has.
    pub fn patterns(&self) -> BTreeSet<Vec<bool>> {
        if (0..self.frames.len()).all(|shard| self.is_all_or_nothing(shard)) {
            return [(0..self.frames.len()).map(|shard| self.has_all(shard)).collect()].into();
        }
        self.geometry.stripes().flat_map(|stripe| self.parts(&stripe)).map(|(_, usable)| usable).collect()
    }

    /// The data that is lost, ascending. `lost_natives` says which native symbols cannot be had where just these shards can be used.
    pub fn lost_data(&self, mut lost_natives: impl FnMut(&[bool]) -> Vec<u32>) -> Vec<Range<u64>> {
        let mut lost: Vec<Range<u64>> = Vec::new();
        for stripe in self.geometry.stripes() {
            for (columns, usable) in self.parts(&stripe) {
                for native in lost_natives(&usable) {
                    let data = self.geometry.native_range(&stripe, native);
                    let start = data.start + u64::from(columns.start);
                    let end = (data.start + u64::from(columns.end)).min(data.end);
                    lost.extend((start < end).then_some(start..end));
                }
            }
        }
        merged(lost)
    }

    /// The stripe's columns, and which shards are sound there: in rows of frames where symbols are whole frames.
    pub(crate) fn parts(&self, stripe: &Stripe) -> Vec<(Range<u32>, Vec<bool>)> {
        let shards = 0..self.frames.len();
        let symbol_bytes = stripe.symbol_bytes;
        if shards.clone().all(|shard| self.is_all_or_nothing(shard)) {
            return vec![(0..symbol_bytes, shards.map(|shard| self.has_all(shard)).collect())];
        }
        let begins_with_frame = stripe.cell.start.is_multiple_of(FRAME);
        let in_rows = begins_with_frame && (self.geometry.alpha == 1 || u64::from(symbol_bytes).is_multiple_of(FRAME));
        let step = if in_rows { FRAME_PAYLOAD_BYTES } else { symbol_bytes as usize };
        let mut parts: Vec<(Range<u32>, Vec<bool>)> = Vec::new();
        for start in (0..symbol_bytes).step_by(step) {
            let columns = start..symbol_bytes.min(start + step as u32);
            let usable: Vec<bool> = shards.clone().map(|shard| self.is_usable(shard, stripe, &columns)).collect();
            match parts.last_mut() {
                Some((last, same)) if *same == usable => last.end = columns.end,
                _ => parts.push((columns, usable)),
            }
        }
        parts
    }

    fn is_usable(&self, shard: usize, stripe: &Stripe, columns: &Range<u32>) -> bool {
        let is_sound = |sub| {
            let symbol = self.geometry.symbol_range(stripe, sub).start;
            let (start, end) = (symbol + u64::from(columns.start), symbol + u64::from(columns.end));
            let frames = (start / FRAME) as usize..end.div_ceil(FRAME) as usize;
            self.frames[shard].get(frames).is_some_and(|sound| sound.iter().all(|sound| *sound))
        };
        (0..self.geometry.alpha).all(is_sound)
    }
}

/// Which of these frames can be used, in runs: `raw` is what came of them, with their checks, and may be too short.
pub(crate) fn check_frames(
    identity: &ShardIdentity,
    payload_bytes: u64,
    frames: Range<u64>,
    raw: &[u8],
) -> Vec<(Range<u64>, bool)> {
    let is_sound = |run: Range<u64>| {
        let payload = payload_of(run.clone(), payload_bytes);
        let bytes = raw.get(raw_of(&run, &frames, payload_bytes));
        bytes.is_some_and(|bytes| verify_frames(identity, payload_bytes, payload, bytes).is_ok())
    };
    if frames.is_empty() || is_sound(frames.clone()) {
        return vec![(frames, true)];
    }
    let mut runs: Vec<(Range<u64>, bool)> = Vec::new();
    for frame in frames.clone() {
        let is_sound = is_sound(frame..frame + 1);
        match runs.last_mut() {
            Some((run, same)) if *same == is_sound => run.end = frame + 1,
            _ => runs.push((frame..frame + 1, is_sound)),
        }
    }
    runs
}

/// Payload bytes of frames.
pub(crate) fn payload_of(frames: Range<u64>, payload_bytes: u64) -> Range<u64> {
    (frames.start * FRAME).min(payload_bytes)..(frames.end * FRAME).min(payload_bytes)
}

/// The frames that hold payload bytes.
pub(crate) fn frames_of(payload: &Range<u64>) -> Range<u64> {
    payload.start / FRAME..payload.end.div_ceil(FRAME)
}

/// Where a run of frames lies in the bytes of `all`.
pub(crate) fn raw_of(run: &Range<u64>, all: &Range<u64>, payload_bytes: u64) -> Range<usize> {
    let start = (run.start - all.start) * FRAME_BYTES;
    let payload = payload_of(run.clone(), payload_bytes);
    let bytes = payload.end - payload.start + (run.end - run.start) * CHECK_BYTES as u64;
    start as usize..(start + bytes) as usize
}

/// The runs of frames that cannot be used; `None`: no frame can.
pub(crate) fn unsound(runs: Vec<(Range<u64>, bool)>) -> Option<Vec<Range<u64>>> {
    let any = runs.iter().any(|(_, sound)| *sound);
    any.then(|| runs.into_iter().filter(|(_, sound)| !sound).map(|(run, _)| run).collect())
}

/// Ascending, those that touch as one.
pub(crate) fn merged(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.sort_by_key(|range| range.start);
    let mut merged: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match merged.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => merged.push(range),
        }
    }
    merged
}
