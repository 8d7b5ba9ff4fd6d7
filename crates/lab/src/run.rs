//! Running an experiment: the points that are not there yet, one after the other.

use crate::error::LabError;
use crate::experiment::{Experiment, Scale};
use crate::record::{Recording, RunInfo};
use crate::rig::Bench;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use std::path::Path;

/// How far a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress<'a> {
    /// Points that are complete.
    pub done: usize,
    /// All points.
    pub total: usize,
    /// The next one; empty at the end.
    pub next: &'a str,
}

/// Measures the points of `experiment` that `directory` does not have, and tells `watch` before each and at the end. `bench` is
/// for points with real transfers.
///
/// # Errors
/// Any [`LabError`]; points that were complete stay, and the next run goes on after them.
pub fn run(
    experiment: &dyn Experiment,
    info: &RunInfo,
    directory: &Path,
    bench: &Bench,
    mut watch: impl FnMut(Progress<'_>),
) -> Result<(), LabError> {
    let mut recording = Recording::open(directory, info)?;
    let points = experiment.points(info.scale);
    let total = points.len();
    for (done, point) in points.iter().enumerate() {
        if recording.has(&point.name) {
            continue;
        }
        watch(Progress { done, total, next: &point.name });
        let samples = point.measure(bench, &mut random(info, &point.name))?;
        recording.add(&point.name, samples)?;
    }
    watch(Progress { done: total, total, next: "" });
    Ok(())
}

/// The chance of one point: its own, whatever was measured before it.
fn random(info: &RunInfo, point: &str) -> ChaCha8Rng {
    let name = format!("{}\n{}\n{point}", info.experiment, info.seed);
    ChaCha8Rng::from_seed(*blake3::hash(name.as_bytes()).as_bytes())
}

/// The scale of `info` as a word, for a directory's name.
#[must_use]
pub fn directory_name(experiment: &str, scale: Scale, seed: u64) -> String {
    format!("lab-{experiment}-{scale}-{seed}")
}
