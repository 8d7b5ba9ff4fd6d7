//! What a read has in hand: checked frames by shard.

use bytes::Bytes;
use std::ops::Range;
use weft_format::shard::{CHECK_BYTES, FRAME_PAYLOAD_BYTES};

const FRAME: u64 = FRAME_PAYLOAD_BYTES as u64;

/// A run of whole frames that passed their checks.
struct Run {
    /// Which payload bytes they hold; begins on a frame.
    payload: Range<u64>,
    /// As the node sent them, checks in between.
    raw: Bytes,
}

/// Checked frames of one segment's shards.
pub(crate) struct Held {
    payload_bytes: u64,
    shards: Vec<Vec<Run>>,
}

impl Held {
    pub(crate) fn new(shard_count: usize, payload_bytes: u64) -> Self {
        Self { payload_bytes, shards: (0..shard_count).map(|_| Vec::new()).collect() }
    }

    /// `payload` widened to whole frames, cut at the payload's end.
    pub(crate) fn whole_frames(&self, payload: &Range<u64>) -> Range<u64> {
        payload.start / FRAME * FRAME..payload.end.next_multiple_of(FRAME).min(self.payload_bytes)
    }

    /// Takes in frames whose checks hold. `payload` is of whole frames.
    pub(crate) fn insert(&mut self, shard: usize, payload: Range<u64>, raw: Bytes) {
        self.shards[shard].push(Run { payload, raw });
    }

    /// Does it have anything of this shard?
    pub(crate) fn has_some(&self, shard: usize) -> bool {
        !self.shards[shard].is_empty()
    }

    /// The parts of `payload` (of whole frames) that it has not.
    pub(crate) fn lacks(&self, shard: usize, payload: Range<u64>) -> Vec<Range<u64>> {
        subtract(payload, self.shards[shard].iter().map(|run| run.payload.clone()))
    }

    /// Payload from `at` to the end of its frame; the shard has it.
    pub(crate) fn slice(&self, shard: usize, at: u64) -> &[u8] {
        let run = self.shards[shard].iter().find(|run| run.payload.contains(&at));
        let run = run.expect("a plan is followed once all it reads is held");
        let frames_before = at / FRAME - run.payload.start / FRAME;
        let frame_start = (frames_before * (FRAME + CHECK_BYTES as u64)) as usize;
        let frame_bytes = FRAME.min(run.payload.end - at / FRAME * FRAME) as usize;
        &run.raw[frame_start + (at % FRAME) as usize..frame_start + frame_bytes]
    }

    /// Copies payload bytes from `at` on into `out`.
    pub(crate) fn copy(&self, shard: usize, mut at: u64, mut out: &mut [u8]) {
        while !out.is_empty() {
            let slice = self.slice(shard, at);
            let length = slice.len().min(out.len());
            let (head, rest) = out.split_at_mut(length);
            head.copy_from_slice(&slice[..length]);
            (at, out) = (at + length as u64, rest);
        }
    }

    /// Are the payload bytes from `at` on these?
    pub(crate) fn equals(&self, shard: usize, mut at: u64, mut bytes: &[u8]) -> bool {
        while !bytes.is_empty() {
            let slice = self.slice(shard, at);
            let (head, rest) = bytes.split_at(slice.len().min(bytes.len()));
            if !slice.starts_with(head) {
                return false;
            }
            (at, bytes) = (at + head.len() as u64, rest);
        }
        true
    }

    pub(crate) fn clear(&mut self) {
        self.shards.iter_mut().for_each(Vec::clear);
    }
}

/// The parts of `range` outside all of `holes`, in order.
pub(crate) fn subtract(range: Range<u64>, holes: impl Iterator<Item = Range<u64>>) -> Vec<Range<u64>> {
    let mut left = vec![range];
    for hole in holes {
        let cut = |part: Range<u64>| {
            let before = part.start..part.end.min(hole.start).max(part.start);
            let after = part.start.max(hole.end).min(part.end)..part.end;
            if before == part { [before, 0..0] } else { [before, after] }
        };
        left = left.into_iter().flat_map(cut).filter(|part| !part.is_empty()).collect();
    }
    left
}

#[cfg(test)]
#[path = "held_tests.rs"]
mod tests;
