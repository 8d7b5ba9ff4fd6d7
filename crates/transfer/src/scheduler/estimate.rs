//! How long a node takes: learned from what it was asked, without a history. Pure.

/// What an older answer counts beside the next: the last ten or so decide.
const FADING: f64 = 0.9;

/// Nothing is late sooner: a busy machine delays healthy answers by tens of milliseconds, and hedging doubles the load.
pub(crate) const LATE_FLOOR_US: u64 = 50_000;

/// Late is what takes so many mean deviations longer than expected, as for TCP's time-outs (RFC 6298), ...
const DEVIATIONS: f64 = 4.0;
/// ... and this much longer at least.
const LATE_FACTOR: f64 = 1.5;

/// Until a node has answered: 10 MB/s, a slow disk or a 100 Mbit line.
pub(super) const UNKNOWN_BYTES_PER_US: u64 = 10;

/// An answer is taken for no slower than so many times what was expected, and this much: one that got stuck says little of the
/// next, and a node that is slow now is known after a few.
const SURPRISE_FACTOR: f64 = 4.0;
const SURPRISE_US: f64 = 20_000.0;

/// A node that has not been heard of for so long may have become another: it is tried again.
const FORGOTTEN_US: u64 = 60_000_000;

/// Time of an answer as a straight line over its bytes, fitted by least squares that fade, and how far they lie from it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Estimate {
    weight: f64,
    bytes: f64,
    us: f64,
    bytes_squared: f64,
    bytes_us: f64,
    /// How far answers lie from the line.
    deviation_us: f64,
    heard_us: u64,
}

impl Estimate {
    /// Takes in an answer that took `elapsed_us` and ended at `now_us`; `bytes` are its own and those that were under way to
    /// the node when it was asked for, which came first.
    pub fn observe(&mut self, bytes: u64, elapsed_us: u64, now_us: u64) {
        let (x, mut y) = (bytes as f64, elapsed_us.max(1) as f64);
        let mut deviation = y / 2.0;
        if self.weight > 0.0 {
            let expected = self.line(x).max(1.0);
            y = y.min(expected * SURPRISE_FACTOR + SURPRISE_US);
            deviation = (y - expected).abs();
        }
        self.deviation_us = self.deviation_us * FADING + deviation;
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
        let line_us = self.line(bytes as f64);
        let late_us = line_us + DEVIATIONS * self.deviation_us / self.weight;
        (late_us.max(line_us * LATE_FACTOR) as u64).max(LATE_FLOOR_US)
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
