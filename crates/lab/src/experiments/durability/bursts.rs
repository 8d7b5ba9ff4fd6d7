//! Bursts: what a loss of power takes of all nodes at once, beside the exact shares of fatal patterns.

use super::super::counted::{code, mean_and_error};
use super::{EFFORT, MODELLED, RUNS, SIMULATED};
use crate::experiment::{Sample, Scale};
use crate::models::availability::FatalShares;
use crate::models::durability::DAYS_PER_YEAR;
use crate::models::simulation::{Repair, Spread, Volume, simulate};
use rand_chacha::ChaCha8Rng;

pub(super) const BURSTS: &str = "bursts";

/// Which part of all nodes does not come back; 1 % in Cidon et al.: Copysets (ATC 2013).
pub(super) const SHARES: [f64; 4] = [0.01, 0.03, 0.1, 0.2];

/// A burst in the mean every ten days, and all nodes are rebuilt within minutes: of two bursts in one a code loses several times as
/// many stripes, so that one in a hundred would already be seen.
const BURSTS_PER_YEAR: f64 = 36.5;
const REPAIR_DAYS: f64 = 0.001;

/// Stripes lost of a million by one burst, with shards on any nodes: counted, and simulated.
pub(super) fn measure(spec: &str, scale: Scale, random: &mut ChaCha8Rng) -> Result<Vec<Sample>, String> {
    let code = code(spec)?;
    let fatal = FatalShares::of(&*code, EFFORT, 1)?;
    let mut samples = Vec::new();
    for share in SHARES {
        let nodes = scale.choose(500, 5_000);
        let volume = Volume {
            nodes,
            // One rack is the whole building.
            nodes_per_rack: nodes,
            stripes: scale.choose(200, 20_000),
            spread: Spread::Nodes,
            node_failures: 0.0,
            rack_failures: BURSTS_PER_YEAR,
            share_lost_with_rack: share,
            detection: 0.0,
            repair: Repair::Takes(REPAIR_DAYS / DAYS_PER_YEAR),
            warm_up: 0.0,
            years: scale.choose(0.25, 1.0),
        };
        let mut losses = Vec::new();
        for _ in 0..RUNS {
            let outcome = simulate(&volume, &*code, random)?;
            losses.push(1e6 * outcome.losses as f64 / (volume.stripes as f64 * volume.years * BURSTS_PER_YEAR));
        }
        let (counted, _) = fatal.failure(1.0 - share);
        samples.push(Sample::exact(BURSTS, &format!("{spec}{MODELLED}"), share, 1e6 * counted));
        let (mean, error) = mean_and_error(&losses);
        // Of no loss nothing is known but that there are few.
        if mean > 0.0 {
            samples.push(Sample::estimated(BURSTS, &format!("{spec}{SIMULATED}"), share, mean, error));
        }
    }
    Ok(samples)
}
