//! How long data last, as published calculators have it: a window (Backblaze), a Markov chain (Azure, Xorbas), one burst (copysets).

use super::availability::binomial_distribution;
use super::markov::Chain;

/// Days of a year, as the published calculators count.
pub const DAYS_PER_YEAR: f64 = 365.0;

/// The chance to lose data in a year by Backblaze's model: more than `tolerance` of `n` drives fail within one window of `repair_days`.
///
/// Each drive fails in a window with `1 - exp(-annual_failure_rate * repair_days / 365)`; a year has `365 / repair_days` windows, one after
/// the other. (Backblaze, "Backblaze durability calculates at 99.999999999 %", 2018.)
#[must_use]
pub fn annual_loss_by_windows(n: usize, tolerance: usize, annual_failure_rate: f64, repair_days: f64) -> f64 {
    let fails = -(-annual_failure_rate * repair_days / DAYS_PER_YEAR).exp_m1();
    let loss: f64 = binomial_distribution(n, fails)[tolerance + 1..].iter().sum();
    -((-loss).ln_1p() * DAYS_PER_YEAR / repair_days).exp_m1()
}

/// A cluster as in Azure's model: a lost node is rebuilt by all others together, and what lost several shards is rebuilt as soon as that is noticed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cluster {
    /// How many nodes there are.
    pub nodes: usize,
    /// What each of them stores.
    pub bytes_per_node: f64,
    /// What each of them can send.
    pub bytes_per_second: f64,
    /// The share of that for repair.
    pub repair_share: f64,
    /// Until a failure of several shards is noticed.
    pub detection_seconds: f64,
    /// Of each node.
    pub failures_per_year: f64,
}

/// Seconds of a year, as the published calculators count.
pub const SECONDS_PER_YEAR: f64 = DAYS_PER_YEAR * 24.0 * 3600.0;

/// Bytes of a GiB; of a gigabit, an eighth of that, in the published calculators.
pub const GIB: f64 = (1u64 << 30) as f64;

/// Table 1 of Huang et al.: Erasure coding in Windows Azure Storage (ATC 2012), in binary units.
pub const AZURE: Cluster = Cluster {
    nodes: 400,
    bytes_per_node: 16.0 * 1024.0 * GIB,
    bytes_per_second: GIB / 8.0,
    repair_share: 0.1,
    detection_seconds: 1800.0,
    failures_per_year: 0.2,
};

impl Cluster {
    /// Repairs a year of one of `missing` shards: (Huang et al.: Erasure coding in Windows Azure Storage, ATC 2012, section 3.2).
    #[must_use]
    pub fn repairs_per_year(&self, missing: usize) -> f64 {
        match missing {
            0 | 1 => {
                let bytes_per_second = self.repair_share * (self.nodes - 1) as f64 * self.bytes_per_second;
                bytes_per_second / self.bytes_per_node * SECONDS_PER_YEAR
            }
            _ => SECONDS_PER_YEAR / self.detection_seconds,
        }
    }

    /// Years until a stripe with these shares of fatal patterns, by number of lost shards, loses data, in the mean.
    #[must_use]
    pub fn years_to_loss(&self, fatal_shares: &[f64]) -> f64 {
        let repairs = |missing| self.repairs_per_year(missing);
        Chain::of_stripe(fatal_shares.len() - 1, self.failures_per_year, fatal_shares, repairs).mean_time_to_loss()
    }
}

/// The chance that a burst which takes `failed` of `nodes` nodes for good takes all of one of `sets` different sets of `copies` nodes
/// (Cidon et al.: Copysets, ATC 2013).
#[must_use]
pub fn burst_loss(nodes: usize, failed: usize, copies: usize, sets: f64) -> f64 {
    // C(failed, copies) / C(nodes, copies)
    let hit: f64 = (0..copies).map(|taken| (failed - taken) as f64 / (nodes - taken) as f64).product();
    -(sets * (-hit).ln_1p()).exp_m1()
}

#[cfg(test)]
#[path = "durability_tests.rs"]
mod tests;
