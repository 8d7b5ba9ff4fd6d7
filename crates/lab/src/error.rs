//! What can go wrong in the laboratory.

use std::io;
use std::path::{Path, PathBuf};

/// What can go wrong in the laboratory.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// No experiment has this name.
    #[error("there is no experiment `{name}`: `weft lab list` has them")]
    Name {
        /// As given.
        name: String,
    },
    /// No scale has this name.
    #[error("the scale `{text}` is neither `small` nor `paper`")]
    Scale {
        /// As given.
        text: String,
    },
    /// The directory belongs to another run.
    #[error("{} has another experiment, scale or seed: choose another directory with --out", directory.display())]
    OtherRun {
        /// Which one.
        directory: PathBuf,
    },
    /// A file cannot be read or written.
    #[error("{} cannot be read or written", path.display())]
    File {
        /// Which one.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file has what no run writes.
    #[error("{} is not what a run left ({detail}): run the experiment again in a new directory", path.display())]
    Line {
        /// Which one.
        path: PathBuf,
        /// What is wrong.
        detail: String,
    },
    /// A file of another format.
    #[error("{} has format {format}, and this program reads {newest}: use the program that wrote it", path.display())]
    Format {
        /// Which one.
        path: PathBuf,
        /// Its number.
        format: u32,
        /// The newest that this program reads.
        newest: u32,
    },
    /// A point cannot be measured.
    #[error("{point} cannot be measured: {detail}")]
    Point {
        /// Which one.
        point: String,
        /// Why.
        detail: String,
    },
    /// A plot cannot be drawn.
    #[error("the figure `{figure}` cannot be drawn: {detail}")]
    Plot {
        /// Which one.
        figure: String,
        /// Why.
        detail: String,
    },
}

impl LabError {
    /// Names the file of an error.
    pub(crate) fn file(path: &Path) -> impl FnOnce(io::Error) -> LabError {
        let path = path.to_owned();
        move |source| LabError::File { path, source }
    }
}
