//! Is a file being read in order, and how far ahead should be fetched? One state machine per open file; pure.

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

/// What was seen of the reads of one handle.
#[derive(Clone, Debug, Default)]
pub struct Readahead {
    /// Where the furthest read of the stream ended; `None`: nothing was read yet.
    stream_end: Option<u64>,
    /// Bytes to keep ahead; 0 while reads are random.
    window_bytes: u64,
    /// What was asked for so far ends here.
    prefetched_end: u64,
}

impl Readahead {
    /// Takes in a read of `len` bytes at `offset` of a file of `file_size` bytes; what to prefetch now, if anything. The window
    /// doubles while reads go on in order, and closes at the first that does not.
    pub fn on_read(&mut self, offset: u64, len: u64, file_size: u64) -> Option<Range<u64>> {
        let end = offset.saturating_add(len).min(file_size);
        let in_order = match self.stream_end {
            Some(stream_end) if self.window_bytes > 0 => stream_end.abs_diff(offset) <= DISORDER_BYTES,
            Some(stream_end) => offset == stream_end,
            None => offset == 0 && len >= LONG_FIRST_READ_BYTES,
        };
        if !in_order {
            *self = Self { stream_end: Some(end), ..Self::default() };
            return None;
        }
        let stream_end = end.max(self.stream_end.unwrap_or(0));
        self.stream_end = Some(stream_end);
        if self.window_bytes == 0 {
            self.window_bytes = FIRST_WINDOW_BYTES;
        }
        let start = self.prefetched_end.max(stream_end);
        // Asked for in halves of the window, so that it is seldom and never too late.
        if start - stream_end > self.window_bytes / 2 {
            return None;
        }
        let window_end = stream_end.saturating_add(self.window_bytes).min(file_size);
        self.window_bytes = (self.window_bytes * 2).min(WIDEST_WINDOW_BYTES);
        self.prefetched_end = window_end.max(start);
        (start < window_end).then_some(start..window_end)
    }
}

#[cfg(test)]
#[path = "readahead_tests.rs"]
mod tests;
