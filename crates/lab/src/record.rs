//! What a run leaves in its directory: `run.json`, who measured what and where, and `data.jsonl`, the samples.
//!
//! `data.jsonl` is lines of JSON: the samples of a point, and a line that says that the point is complete. Nothing else is
//! in it, so that two simulated runs of one seed leave the same bytes. A run that was interrupted leaves lines of a point
//! that is not complete; the next one drops them and goes on there.

use crate::error::LabError;
use crate::experiment::{Sample, Scale};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

/// Of `run.json` and `data.jsonl`; another number is refused.
pub const FORMAT: u32 = 1;

/// Who measured what, where.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunInfo {
    /// [`FORMAT`].
    pub format: u32,
    /// [`crate::About::name`].
    pub experiment: String,
    /// How much of it.
    pub scale: Scale,
    /// Of all chance in it.
    pub seed: u64,
    /// Of the program that measured.
    pub version: String,
    /// The machine: processor, cores, system.
    pub machine: String,
}

/// A line of `data.jsonl`.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Line {
    Complete { complete: String },
    Sample(Sample),
}

/// A run's directory, open for more points.
pub(crate) struct Recording {
    file: File,
    path: PathBuf,
    complete: BTreeSet<String>,
}

impl Recording {
    /// Opens the directory for this run, made where it is not there. Points that a former run left incomplete are dropped.
    ///
    /// # Errors
    /// [`LabError::OtherRun`] where another run is in it, [`LabError::File`].
    pub(crate) fn open(directory: &Path, info: &RunInfo) -> Result<Recording, LabError> {
        fs::create_dir_all(directory).map_err(LabError::file(directory))?;
        let path = directory.join("run.json");
        match read_info(directory) {
            Ok(found) if found.is_same_run(info) => {}
            Ok(_) => return Err(LabError::OtherRun { directory: directory.to_owned() }),
            Err(LabError::File { source, .. }) if source.kind() == ErrorKind::NotFound => {
                let text = serde_json::to_string_pretty(info).expect("plain values") + "\n";
                fs::write(&path, text).map_err(LabError::file(&path))?;
            }
            Err(error) => return Err(error),
        }
        let path = directory.join("data.jsonl");
        let mut options = OpenOptions::new();
        let mut file = options.create(true).append(true).read(true).open(&path).map_err(LabError::file(&path))?;
        let text = fs::read_to_string(&path).map_err(LabError::file(&path))?;
        let (complete, bytes) = complete_points(&text, &path)?;
        file.set_len(bytes as u64).and_then(|()| file.flush()).map_err(LabError::file(&path))?;
        Ok(Recording { file, path, complete })
    }

    /// Was this point measured before?
    pub(crate) fn has(&self, point: &str) -> bool {
        self.complete.contains(point)
    }

    /// Adds the samples of a point, and that it is complete.
    pub(crate) fn add(&mut self, point: &str, samples: Vec<Sample>) -> Result<(), LabError> {
        let lines = samples.into_iter().map(Line::Sample).chain([Line::Complete { complete: point.to_owned() }]);
        let text: String = lines.map(|line| serde_json::to_string(&line).expect("plain values") + "\n").collect();
        self.file.write_all(text.as_bytes()).map_err(LabError::file(&self.path))?;
        self.complete.insert(point.to_owned());
        Ok(())
    }
}

impl RunInfo {
    /// Do both measure the same? The program and the machine may be others: `data.jsonl` of a simulation is the same.
    fn is_same_run(&self, other: &RunInfo) -> bool {
        (&self.experiment, self.scale, self.seed) == (&other.experiment, other.scale, other.seed)
    }
}

/// The points that are complete, and where the last of them ends.
fn complete_points(text: &str, path: &Path) -> Result<(BTreeSet<String>, usize), LabError> {
    let (mut complete, mut end, mut at) = (BTreeSet::new(), 0, 0);
    for line in text.split_inclusive('\n') {
        at += line.len();
        match serde_json::from_str(line) {
            Ok(Line::Complete { complete: point }) if line.ends_with('\n') => {
                complete.insert(point);
                end = at;
            }
            Ok(_) => {}
            // The end of what was cut off.
            Err(_) if !line.ends_with('\n') => {}
            Err(error) => return Err(LabError::Line { path: path.to_owned(), detail: error.to_string() }),
        }
    }
    Ok((complete, end))
}

/// What `run.json` says.
///
/// # Errors
/// [`LabError::File`], [`LabError::Line`] for what is no `run.json`, [`LabError::Format`].
pub fn read_info(directory: &Path) -> Result<RunInfo, LabError> {
    let path = directory.join("run.json");
    let text = fs::read_to_string(&path).map_err(LabError::file(&path))?;
    let info: RunInfo = serde_json::from_str(&text)
        .map_err(|error| LabError::Line { path: path.clone(), detail: error.to_string() })?;
    if info.format == FORMAT { Ok(info) } else { Err(LabError::Format { path, format: info.format, newest: FORMAT }) }
}

/// The samples of all points that are complete, and how many these points are.
///
/// # Errors
/// [`LabError::File`], [`LabError::Line`].
pub fn read_samples(directory: &Path) -> Result<(Vec<Sample>, usize), LabError> {
    let path = directory.join("data.jsonl");
    let text = fs::read_to_string(&path).map_err(LabError::file(&path))?;
    let (complete, end) = complete_points(&text, &path)?;
    let samples = text[..end].lines().filter_map(|line| match serde_json::from_str(line) {
        Ok(Line::Sample(sample)) => Some(sample),
        _ => None,
    });
    Ok((samples.collect(), complete.len()))
}
