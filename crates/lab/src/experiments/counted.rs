//! What several experiments ask: of a code, what the repair of one shard receives; of samples, one value.

use crate::experiment::Sample;
use std::sync::Arc;
use weft_codes::{Code, analysis};

/// The value of a series at a place; not a number where it is not there.
pub(super) fn value_at(samples: &[Sample], figure: &str, series: &str, x: f64) -> f64 {
    let is_it = |sample: &&Sample| sample.figure == figure && sample.series == series && sample.x == x;
    samples.iter().find(is_it).map_or(f64::NAN, |sample| sample.y)
}

/// The mean of runs that do not depend on each other, and its standard error.
pub(super) fn mean_and_error(runs: &[f64]) -> (f64, f64) {
    let count = runs.len() as f64;
    let mean = runs.iter().sum::<f64>() / count;
    let variance = runs.iter().map(|run| (run - mean).powi(2)).sum::<f64>() / (count - 1.0).max(1.0);
    (mean, (variance / count).sqrt())
}

/// The code of this spec.
///
/// # Errors
/// A sentence, where there is none.
pub(super) fn code(spec: &str) -> Result<Arc<dyn Code>, String> {
    weft_codes::parse(spec).map_err(|error| error.to_string())
}

/// Shards received for one lost shard, in the mean over all shards, with helpers that compute where that saves.
///
/// # Errors
/// A sentence, where a shard cannot be repaired.
pub(super) fn shards_received(code: &dyn Code) -> Result<f64, String> {
    let single: Vec<Vec<usize>> = (0..code.shape().n).map(|shard| vec![shard]).collect();
    mean_received(code, &single)
}

/// The same for two lost shards that are repaired together, in the mean over all pairs.
///
/// # Errors
/// A sentence, where two shards cannot be repaired.
pub(super) fn shards_received_for_two(code: &dyn Code) -> Result<f64, String> {
    let n = code.shape().n;
    let pairs: Vec<Vec<usize>> = (0..n).flat_map(|a| (a + 1..n).map(move |b| vec![a, b])).collect();
    mean_received(code, &pairs)
}

fn mean_received(code: &dyn Code, lost: &[Vec<usize>]) -> Result<f64, String> {
    let mut received = 0;
    for lost in lost {
        let repair = |helpers_combine| analysis::repair(code, lost, helpers_combine).map_err(|error| error.to_string());
        received += repair(false)?.symbols_received.min(repair(true)?.symbols_received);
    }
    Ok(received as f64 / (lost.len() * code.shape().alpha) as f64)
}
