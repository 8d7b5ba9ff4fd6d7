//! Which parts of a set's shards have come: ranges, no bytes.

use std::ops::Range;
use weft_format::shard::FRAME_PAYLOAD_BYTES;

const FRAME: u64 = FRAME_PAYLOAD_BYTES as u64;

/// Parts of the payloads of a segment's shards.
#[derive(Clone, Debug)]
pub(crate) struct Arrived {
    payload_bytes: u64,
    shards: Vec<Vec<Range<u64>>>,
}

impl Arrived {
    pub(crate) fn nothing(shard_count: usize, payload_bytes: u64) -> Self {
        Self { payload_bytes, shards: vec![Vec::new(); shard_count] }
    }

    /// `payload` widened to whole frames, cut at the payload's end.
    pub(crate) fn whole_frames(&self, payload: &Range<u64>) -> Range<u64> {
        payload.start / FRAME * FRAME..payload.end.next_multiple_of(FRAME).min(self.payload_bytes)
    }

    pub(crate) fn insert(&mut self, shard: usize, payload: Range<u64>) {
        self.shards[shard].push(payload);
    }

    /// Has all of `payload` come?
    pub(crate) fn covers(&self, shard: usize, payload: Range<u64>) -> bool {
        !self.shards[shard].is_empty() && self.lacks(shard, payload).is_empty()
    }

    /// Has any of `payload` come?
    pub(crate) fn touches(&self, shard: usize, payload: &Range<u64>) -> bool {
        self.shards[shard].iter().any(|part| part.start < payload.end && payload.start < part.end)
    }

    /// The parts of `payload` that have not come.
    pub(crate) fn lacks(&self, shard: usize, payload: Range<u64>) -> Vec<Range<u64>> {
        subtract(payload, self.shards[shard].iter().cloned())
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
#[path = "arrived_tests.rs"]
mod tests;
