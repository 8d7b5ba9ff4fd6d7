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
    let (n, alpha) = (code.shape().n, code.shape().alpha);
    let mut received = 0;
    for shard in 0..n {
        let repair =
            |helpers_combine| analysis::repair(code, shard, helpers_combine).map_err(|error| error.to_string());
        received += repair(false)?.symbols_received.min(repair(true)?.symbols_received);
    }
    Ok(received as f64 / (n * alpha) as f64)
}
