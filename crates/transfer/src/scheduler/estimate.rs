//! How long a node takes: learned from what it was asked, without a history. Pure.

/// What an older answer counts beside the next: the last ten or so decide.
const FADING: f64 = 0.9;

/// Nothing is late sooner: a busy machine delays healthy answers by tens of milliseconds, and hedging doubles the load.
pub(crate) const LATE_FLOOR_US: u64 = 50_000;

/// Until a node has answered: 10 MB/s, a slow disk or a 100 Mbit line.
const UNKNOWN_BYTES_PER_US: u64 = 10;

/// An answer is taken for no slower than so many times what was expected, and this much: one that got stuck says little of the
/// next, and a node that is slow now is known after a few.
const SURPRISE_FACTOR: f64 = 4.0;
const SURPRISE_US: f64 = 20_000.0;

/// A node that has not been heard of for so long may have become another: it is tried again.
const FORGOTTEN_US: u64 = 10_000_000;

/// Time of an answer as a straight line over its bytes, fitted by least squares that fade, and the tail above it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Estimate {
    weight: f64,
    bytes: f64,
    us: f64,
    bytes_squared: f64,
    bytes_us: f64,
    /// How often the line is exceeded so much that only one answer in a hundred does; in thousandths.
    tail_permille: f64,
    heard_us: u64,
}

impl Estimate {
    /// Takes in an answer of `bytes` that took `elapsed_us` and ended at `now_us`.
    pub fn observe(&mut self, bytes: u64, elapsed_us: u64, now_us: u64) {
        let (x, mut y) = (bytes as f64, elapsed_us.max(1) as f64);
        if self.weight > 0.0 {
            let expected = self.line(x).max(1.0);
            let ratio = 1000.0 * y / expected;
            // Rises by a quarter of an excess and falls by 1/400, so it rests where one answer in a hundred exceeds it.
            let excess = ratio - self.tail_permille;
            self.tail_permille =
                if excess > 0.0 { self.tail_permille + excess / 4.0 } else { self.tail_permille * (1.0 - 1.0 / 400.0) };
            y = y.min(expected * SURPRISE_FACTOR + SURPRISE_US);
        } else {
            self.tail_permille = 2000.0;
        }
        self.tail_permille = self.tail_permille.clamp(1000.0, 100_000.0);
        self.weight = self.weight * FADING + 1.0;
        self.bytes = self.bytes * FADING + x;
        self.us = self.us * FADING + y;
        self.bytes_squared = self.bytes_squared * FADING + x * x;
        self.bytes_us = self.bytes_us * FADING + x * y;
        self.heard_us = now_us;
    }

    /// How long an answer of `bytes` is expected to take; `None`: nothing is known, or nothing that still counts.
    pub fn expected_us(&self, bytes: u64, now_us: u64) -> Option<u64> {
        let known = self.weight > 0.0 && now_us.saturating_sub(self.heard_us) < FORGOTTEN_US;
        known.then(|| self.line(bytes as f64) as u64)
    }

    /// How long to wait for an answer of `bytes` before it is late.
    pub fn late_after_us(&self, bytes: u64) -> u64 {
        if self.weight == 0.0 {
            return LATE_FLOOR_US + bytes / UNKNOWN_BYTES_PER_US;
        }
        // Half as much again as the one in a hundred: what is later is trouble, not the tail.
        let late_us = self.line(bytes as f64) * self.tail_permille / 1000.0 * 1.5;
        (late_us as u64).max(LATE_FLOOR_US)
    }

    fn line(&self, bytes: f64) -> f64 {
        let (mean_bytes, mean_us) = (self.bytes / self.weight, self.us / self.weight);
        let variance = self.bytes_squared / self.weight - mean_bytes * mean_bytes;
        // Answers of about one length say nothing of others: their time is taken for the bytes' where these are many, and
        // for the request's where they are few.
        if variance < 0.01 * mean_bytes * mean_bytes + 1.0 {
            let is_long = mean_bytes > LONG_BYTES;
            return if is_long { mean_us * (bytes / mean_bytes).max(0.1) } else { mean_us };
        }
        let slope = ((self.bytes_us / self.weight - mean_bytes * mean_us) / variance).max(0.0);
        let start = mean_us - slope * mean_bytes;
        if start >= 0.0 { start + slope * bytes } else { mean_us * bytes / mean_bytes }
    }
}

/// More bytes than this take a common link longer than a request does.
const LONG_BYTES: f64 = 64.0 * 1024.0;

#[cfg(test)]
#[path = "estimate_tests.rs"]
mod tests;
