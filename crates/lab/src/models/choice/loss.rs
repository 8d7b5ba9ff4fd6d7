//! The chance to lose data in a year, of one file and of a volume.

use crate::models::availability::FatalShares;
use crate::models::markov::Chain;

/// What the chain of failures and repairs needs, beside the code.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rates {
    /// Of one node.
    pub failures_per_year: f64,
    /// Of nodes that are gone, one after the other.
    pub repairs_per_year: f64,
}

/// The chance that a given segment is lost within a year.
pub(super) fn of_one_segment(fatal: &[f64], rates: Rates) -> f64 {
    of_chain(fatal.len() - 1, fatal, rates)
}

/// The chance that any of a volume's segments is lost within a year, if these lie on `sets` sets of nodes that are drawn independently
/// from `nodes` nodes.
///
/// `fatal` has the share of fatal patterns for each number of lost shards, from none to all. Nodes fail one by one; with `j` of them gone, the losses of a set are hypergeometric, and the code says how many of them are fatal.
#[must_use]
pub fn of_volume(nodes: usize, fatal: &[f64], sets: f64, rates: Rates) -> f64 {
    let of_any = |failed: usize| {
        let of_one = of_a_set(nodes, failed, fatal);
        if of_one >= 1.0 { 1.0 } else { -(sets * (-of_one).ln_1p()).exp_m1() }
    };
    let of_any: Vec<f64> = (0..=nodes).map(of_any).collect();
    of_chain(nodes, &of_any, rates)
}

/// How many sets of nodes, and orders on them, segments can differ in: an order matters unless every loss of a size has the same end.
pub(super) fn set_count(nodes: usize, shares: &FatalShares, segments: f64) -> f64 {
    let is_mds = shares.shares().iter().all(|share| share.value == 0.0 || share.value == 1.0);
    let width = shares.shares().len() - 1;
    if is_mds { segments.min(ln_choose(nodes, width).exp().round()) } else { segments }
}

/// `ln(n choose count)`, also where that is larger than any integer; minus infinity where there is no way to choose.
fn ln_choose(n: usize, count: usize) -> f64 {
    if count > n {
        return f64::NEG_INFINITY;
    }
    (1..=count).map(|i| ((n - count + i) as f64 / i as f64).ln()).sum()
}

/// The chance that a set of nodes loses data when `failed` of all nodes are gone.
fn of_a_set(nodes: usize, failed: usize, fatal: &[f64]) -> f64 {
    let width = fatal.len() - 1;
    let share = |lost: usize| {
        let log = ln_choose(width, lost) + ln_choose(nodes - width, failed - lost) - ln_choose(nodes, failed);
        log.exp() * fatal[lost]
    };
    (0..=failed.min(width)).filter(|&lost| fatal[lost] > 0.0).map(share).sum::<f64>().min(1.0)
}

fn of_chain(n: usize, fatal: &[f64], rates: Rates) -> f64 {
    let chain = Chain::of_stripe(n, rates.failures_per_year, fatal, |_| rates.repairs_per_year);
    -(-1.0 / chain.mean_time_to_loss()).exp_m1()
}
