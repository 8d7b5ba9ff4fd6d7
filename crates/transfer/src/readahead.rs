//! Is a file being read in order, or in steps of one length, and how far ahead should be fetched? One state machine per open
//! file; pure.

use crate::cache::BLOCK_BYTES;
use std::ops::Range;

/// The first window: one cached block.
const FIRST_WINDOW_BYTES: u64 = 1 << 20;

/// The widest window: at a GB/s, 8 ms of reading, which hides the latency of a busy disk.
const WIDEST_WINDOW_BYTES: u64 = 8 << 20;

/// A kernel sends the reads of one stream in parallel, and they arrive out of order by as much as it reads ahead itself.
const DISORDER_BYTES: u64 = 2 << 20;

/// A first read at the beginning of a file is the start of a stream if it is this long; shorter ones are often a look at the
/// header and no more.
const LONG_FIRST_READ_BYTES: u64 = 64 << 10;

/// So many steps of one length, one after another, are no chance.
const STEPS_NOTICED: u32 = 2;

/// Whole blocks are fetched, so of steps one in so many of the bytes fetched must be wanted: more would cost the nodes more
/// than the reader gains.
const WASTE_MAX: u64 = 8;

/// What was seen of the reads of one handle.
#[derive(Clone, Debug, Default)]
pub struct Readahead {
    /// Where the furthest read of the stream ended; `None`: nothing was read yet.
    stream_end: Option<u64>,
    /// Bytes to keep ahead; 0 while reads are random.
    window_bytes: u64,
    /// What was asked for so far ends here.
    prefetched_end: u64,
    steps: Steps,
}

/// Reads that begin at one distance from each other, forwards or backwards.
#[derive(Clone, Copy, Debug, Default)]
struct Steps {
    offset: u64,
    /// From the last read's beginning to the one before it; 0: there was none.
    distance: i64,
    /// How many steps in a row were so long.
    count: u32,
    /// Steps to keep ahead, and those of them that were asked for.
    window: u64,
    ahead: u64,
}

impl Readahead {
    /// Takes in a read of `len` bytes at `offset` of a file of `file_size` bytes; what to prefetch now, if anything. The window
    /// doubles while reads go on in order, or in steps, and closes at the first that does not.
    pub fn on_read(&mut self, offset: u64, len: u64, file_size: u64) -> Vec<Range<u64>> {
        let end = offset.saturating_add(len).min(file_size);
        let in_order = match self.stream_end {
            Some(stream_end) if self.window_bytes > 0 => stream_end.abs_diff(offset) <= DISORDER_BYTES,
            Some(stream_end) => offset == stream_end,
            None => offset == 0 && len >= LONG_FIRST_READ_BYTES,
        };
        if !in_order {
            let mut steps = self.steps;
            let is_first = self.stream_end.is_none();
            let ranges = if is_first { Vec::new() } else { steps.on_read(offset, len, file_size) };
            steps.offset = offset;
            *self = Self { stream_end: Some(end), steps, ..Self::default() };
            return ranges;
        }
        self.steps = Steps { offset, ..Steps::default() };
        let stream_end = end.max(self.stream_end.unwrap_or(0));
        self.stream_end = Some(stream_end);
        if self.window_bytes == 0 {
            self.window_bytes = FIRST_WINDOW_BYTES;
        }
        let start = self.prefetched_end.max(stream_end);
        // Asked for in halves of the window, so that it is seldom and never too late.
        if start - stream_end > self.window_bytes / 2 {
            return Vec::new();
        }
        let window_end = stream_end.saturating_add(self.window_bytes).min(file_size);
        self.window_bytes = (self.window_bytes * 2).min(WIDEST_WINDOW_BYTES);
        self.prefetched_end = window_end.max(start);
        (start < window_end).then_some(start..window_end).into_iter().collect()
    }
}

impl Steps {
    fn on_read(&mut self, offset: u64, len: u64, file_size: u64) -> Vec<Range<u64>> {
        let distance = i128::from(offset) - i128::from(self.offset);
        let distance = i64::try_from(distance).unwrap_or(0);
        if distance == 0 || distance != self.distance {
            *self = Self { offset, distance, count: 1, ..Self::default() };
            return Vec::new();
        }
        self.count = self.count.saturating_add(1);
        self.ahead = self.ahead.saturating_sub(1);
        // Of each step whole blocks come, or all that lies between where several are in one.
        let fetched_bytes = len.next_multiple_of(BLOCK_BYTES).min(distance.unsigned_abs().max(len)).max(1);
        if self.count < STEPS_NOTICED || fetched_bytes > len.saturating_mul(WASTE_MAX) {
            return Vec::new();
        }
        let widest = (WIDEST_WINDOW_BYTES / fetched_bytes).max(1);
        self.window = (self.window * 2).clamp(1, widest);
        if self.ahead > self.window / 2 {
            return Vec::new();
        }
        let step = |number: u64| {
            let start = i128::from(offset) + i128::from(distance) * i128::from(number);
            let start = u64::try_from(start).ok().filter(|start| *start < file_size)?;
            Some(start..start.saturating_add(len).min(file_size))
        };
        let ranges = (self.ahead + 1..=self.window).filter_map(step).collect();
        self.ahead = self.ahead.max(self.window);
        ranges
    }
}

#[cfg(test)]
#[path = "readahead_tests.rs"]
mod tests;
