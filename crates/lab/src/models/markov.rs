//! A stripe that loses and gets back shards, one at a time: the mean time until data are lost.
//!
//! State `j` has `j` shards missing. From it the next shard fails at rate `failures[j]`; that is the end of the data with
//! probability `fatal[j]`, the conditional chance that `j + 1` missing shards cost data where `j` did not. At rate
//! `repairs[j]` a shard comes back. The last state always ends.

/// Rates of a stripe, all in one unit of time; `failures`, `repairs` and `fatal` have a value for each state.
#[derive(Clone, Debug, PartialEq)]
pub struct Chain {
    /// How often one more shard fails.
    pub failures: Vec<f64>,
    /// How often a shard comes back; that of state 0 does not matter.
    pub repairs: Vec<f64>,
    /// The chance that the next failure costs data.
    pub fatal: Vec<f64>,
}

impl Chain {
    /// A stripe of `n` shards of which each fails at `failure_rate`; `fatal_shares[j]` is the share of the patterns of `j` lost shards that cost data
    /// and `repair_rate(j)` how often one of `j` missing shards comes back.
    #[must_use]
    pub fn of_stripe(n: usize, failure_rate: f64, fatal_shares: &[f64], repair_rate: impl Fn(usize) -> f64) -> Chain {
        // Of the patterns that were not fatal, those that are with one more.
        let fatal = |missing: usize| {
            let (now, next) = (1.0 - fatal_shares[missing], 1.0 - fatal_shares[missing + 1]);
            if now > 0.0 { (1.0 - next / now).clamp(0.0, 1.0) } else { 1.0 }
        };
        let states = (0..n).take_while(|&missing| fatal_shares[missing] < 1.0);
        let states: Vec<usize> = states.collect();
        Chain {
            failures: states.iter().map(|&missing| (n - missing) as f64 * failure_rate).collect(),
            repairs: states.iter().map(|&missing| repair_rate(missing)).collect(),
            fatal: states.iter().map(|&missing| fatal(missing)).collect(),
        }
    }

    /// The mean time from state 0 to the loss of data, in the rates' unit; infinite where data are never lost.
    ///
    /// Let `t[j]` be the mean time to climb from `j` to `j + 1` or to lose data, `q[j]` the chance that it is a loss. A visit to `j` lasts
    /// `1 / (f + r)`; then with `f / (f + r)` it is over, or one falls to `j - 1` and has to climb again. No difference of
    /// large numbers occurs, so that the times are right to the last digits however long they are.
    #[must_use]
    pub fn mean_time_to_loss(&self) -> f64 {
        // Of the climb from j: its mean time, and the chance that it ends in a loss.
        let (mut climb, mut lost_below) = (0.0, 0.0);
        // Expected time from 0, and the chance to have survived until j.
        let (mut total, mut alive) = (0.0, 1.0);
        let last = self.failures.len().saturating_sub(1);
        for state in 0..=last {
            let (failure, fatal) = (self.failures[state], if state == last { 1.0 } else { self.fatal[state] });
            let repair = if state == 0 { 0.0 } else { self.repairs[state] };
            // f t = 1 + r (time of the climb below + (1 - lost below) t), so t (f + r lost_below) = 1 + r climb_below.
            let leaving = failure + repair * lost_below;
            let time = (1.0 + repair * climb) / leaving;
            let lost = (failure * fatal + repair * lost_below) / leaving;
            total += alive * time;
            alive *= 1.0 - lost;
            (climb, lost_below) = (time, lost);
        }
        total
    }
}

#[cfg(test)]
#[path = "markov_tests.rs"]
mod tests;
