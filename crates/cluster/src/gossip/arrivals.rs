//! When a member was heard, and how unusual its silence is: an accrual failure detector.
//!
//! Source: Hayashibara, Defago, Yared and Katayama, "The phi accrual failure detector", SRDS 2004, section 4: intervals are
//! taken for normally distributed, and `phi = -log10(P(an interval is longer than the silence so far))`.

use std::collections::VecDeque;

/// Intervals that are remembered.
const INTERVALS_MAX: usize = 32;

/// From here on silence is more than chance: once in 10^8.
pub(super) const PHI_SUSPECT: f64 = 8.0;

/// Rumours take several hops, so intervals vary by half a heartbeat even if few have been seen yet to vary less.
const DEVIATION_SHARE_MIN: f64 = 0.5;

/// When news came.
#[derive(Debug)]
pub(super) struct Arrivals {
    last_ms: u64,
    intervals_ms: VecDeque<u64>,
}

impl Arrivals {
    pub(super) fn new(now_ms: u64) -> Self {
        Self { last_ms: now_ms, intervals_ms: VecDeque::new() }
    }

    /// News came. After a new start, what was between is no interval.
    pub(super) fn heard(&mut self, now_ms: u64, is_new_start: bool) {
        if is_new_start {
            self.intervals_ms.clear();
        } else {
            if self.intervals_ms.len() == INTERVALS_MAX {
                self.intervals_ms.pop_front();
            }
            self.intervals_ms.push_back(self.silence_ms(now_ms));
        }
        self.last_ms = now_ms;
    }

    pub(super) fn silence_ms(&self, now_ms: u64) -> u64 {
        now_ms.saturating_sub(self.last_ms)
    }

    /// How unusual the silence is at `now_ms`, where heartbeats are meant to come every `heartbeat_ms`.
    pub(super) fn phi(&self, now_ms: u64, heartbeat_ms: u64) -> f64 {
        let heartbeat_ms = heartbeat_ms as f64;
        let count = self.intervals_ms.len() as f64;
        let (mut mean, mut deviation) = (heartbeat_ms, 0.0);
        if count > 0.0 {
            let seen = self.intervals_ms.iter().map(|interval| *interval as f64);
            let seen_mean = seen.clone().sum::<f64>() / count;
            deviation = (seen.map(|interval| (interval - seen_mean).powi(2)).sum::<f64>() / count).sqrt();
            // Several that came at once do not make the next one due sooner.
            mean = seen_mean.max(heartbeat_ms);
        }
        let deviation = deviation.max(DEVIATION_SHARE_MIN * heartbeat_ms);
        minus_log10_tail((self.silence_ms(now_ms) as f64 - mean) / deviation)
    }
}

/// `-log10` of the probability that a standard normal variable is more than `x`, by the logistic approximation of Bowling et
/// al. (2009): within 0.0002 of the probability, and the same order far out, where a few units of phi do not matter.
fn minus_log10_tail(x: f64) -> f64 {
    let y = x * (1.5976 + 0.070_566 * x * x);
    // ln(1 + e^y), which for large y is y.
    let ln = if y > 30.0 { y } else { y.exp().ln_1p() };
    ln / std::f64::consts::LN_10
}

#[cfg(test)]
#[path = "arrivals_tests.rs"]
mod tests;
