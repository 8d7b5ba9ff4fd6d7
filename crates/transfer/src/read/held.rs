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
    shards: Vec<Vec<Run>>,
}

impl Held {
    /// Nothing, and of no shard.
    pub(crate) const fn nothing() -> Self {
        Self { shards: Vec::new() }
    }

    pub(crate) fn new(shard_count: usize) -> Self {
        Self { shards: (0..shard_count).map(|_| Vec::new()).collect() }
    }

    /// Takes in frames whose checks hold. `payload` is of whole frames.
    pub(crate) fn insert(&mut self, shard: usize, payload: Range<u64>, raw: Bytes) {
        self.shards[shard].push(Run { payload, raw });
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
}

#[cfg(test)]
#[path = "held_tests.rs"]
mod tests;
