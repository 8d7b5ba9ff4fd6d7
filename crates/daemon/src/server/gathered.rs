//! A body as it comes, in parts that hold little more memory than they have bytes.

use bytes::Bytes;

/// A part so long is kept as it came: its buffer is a few times as long at most. Shorter ones are joined. Each is cut from a buffer of 8 KiB
/// or more, and may be a single byte.
const KEPT_BYTES_MIN: usize = 128 << 10;

/// The parts that have come so far.
#[derive(Default)]
pub(super) struct Gathered {
    parts: Vec<Bytes>,
    /// Short ones that go behind them.
    joined: Vec<u8>,
}

impl Gathered {
    pub(super) fn add(&mut self, part: Bytes) {
        if part.len() >= KEPT_BYTES_MIN {
            self.end_joined();
            self.parts.push(part);
            return;
        }
        self.joined.extend_from_slice(&part);
        if self.joined.len() >= KEPT_BYTES_MIN {
            self.end_joined();
        }
    }

    pub(super) fn finish(mut self) -> Vec<Bytes> {
        self.end_joined();
        self.parts
    }

    fn end_joined(&mut self) {
        if !self.joined.is_empty() {
            // In a box it has no room to spare.
            self.parts.push(std::mem::take(&mut self.joined).into_boxed_slice().into());
        }
    }
}

#[cfg(test)]
#[path = "gathered_tests.rs"]
mod tests;
