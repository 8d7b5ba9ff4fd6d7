//! What the number of distinct node sets does to the chance of losing data: the copyset trade-off.
//!
//! If nodes fail at random, each further set is a further chance that some segment loses too much; with fewer sets that
//! happens more seldom and then costs more segments, the mean being the same. Source: Cidon et al., "Copysets: reducing the
//! frequency of data loss in cloud storage", ATC 2013.

/// What is lost when some of the nodes fail at once, for good.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LossRisk {
    /// How likely it is that any segment is lost.
    pub any_loss: f64,
    /// Share of the segments that is lost, in the mean over all such failures; the sets do not change it.
    pub lost_share: f64,
}

/// The risk when `failed` of `nodes` equal nodes are gone at once, and segments of `shards` shards lie on `sets` distinct sets of
/// nodes, drawn independently. `fatal_share` says, by the number of shards that a segment loses, what share of the ways to lose so
/// many loses data; where it ends, all do.
pub fn loss_risk(nodes: u64, failed: u64, shards: u64, fatal_share: &[f64], sets: f64) -> LossRisk {
    let fatal = |hit: u64| fatal_share.get(hit as usize).copied().unwrap_or(1.0);
    let chance =
        |hit: u64| (ln_choose(failed, hit) + ln_choose(nodes - failed, shards - hit) - ln_choose(nodes, shards)).exp();
    let of_one_set = (0..=shards.min(failed)).map(|hit| fatal(hit) * chance(hit)).sum::<f64>().min(1.0);
    // Of no sets none is lost, however likely that is for one.
    let any_loss = if sets > 0.0 { -(sets * (-of_one_set).ln_1p()).exp_m1() } else { 0.0 };
    LossRisk { any_loss, lost_share: of_one_set }
}

/// How many distinct sets there are at most: of the segments, of the sets that the volume allows (0: any number), and of
/// `nodes` choose `shards`.
pub fn set_count(nodes: u64, shards: u64, segments: u64, allowed: u64) -> f64 {
    let allowed = if allowed == 0 { f64::INFINITY } else { allowed as f64 };
    ln_choose(nodes, shards).exp().min(allowed).min(segments as f64)
}

/// `ln(n choose k)`; minus infinity where there is no way to choose.
fn ln_choose(n: u64, k: u64) -> f64 {
    if k > n {
        return f64::NEG_INFINITY;
    }
    (1..=k).map(|i| ((n - k + i) as f64 / i as f64).ln()).sum()
}

#[cfg(test)]
#[path = "risk_tests.rs"]
mod tests;
