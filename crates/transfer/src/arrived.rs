//! Which parts of a set's shards have come: ranges, no bytes.

use std::ops::Range;
use weft_format::shard::FRAME_PAYLOAD_BYTES;

const FRAME: u64 = FRAME_PAYLOAD_BYTES as u64;

/// Parts of the payloads of a segment's shards.
#[derive(Clone, Debug)]
pub(crate) struct Arrived {
    payload_bytes: u64,
    /// By shard: in order, no two of them touching.
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
        let parts = &mut self.shards[shard];
        let first = parts.partition_point(|part| part.end < payload.start);
        let last = parts.partition_point(|part| part.start <= payload.end);
        let joined = parts[first..last].iter();
        let start = joined.clone().map(|part| part.start).min().map_or(payload.start, |start| start.min(payload.start));
        let end = joined.map(|part| part.end).max().map_or(payload.end, |end| end.max(payload.end));
        parts.splice(first..last, std::iter::once(start..end));
    }

    /// Has all of `payload` come?
    pub(crate) fn covers(&self, shard: usize, payload: &Range<u64>) -> bool {
        let part = self.first_touching(shard, payload);
        part.is_some_and(|part| part.start <= payload.start && payload.end <= part.end)
    }

    /// Has any of `payload` come?
    pub(crate) fn touches(&self, shard: usize, payload: &Range<u64>) -> bool {
        self.first_touching(shard, payload).is_some()
    }

    /// The parts of `payload` that have not come.
    pub(crate) fn lacks(&self, shard: usize, payload: Range<u64>) -> Vec<Range<u64>> {
        subtract(payload, self.shards[shard].iter().cloned())
    }

    fn first_touching(&self, shard: usize, payload: &Range<u64>) -> Option<&Range<u64>> {
        let parts = &self.shards[shard];
        let part = parts.get(parts.partition_point(|part| part.end <= payload.start))?;
        (part.start < payload.end).then_some(part)
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
