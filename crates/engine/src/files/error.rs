//! Why a tree of files cannot be read, changed or copied.

use crate::error::EngineError;
use rustix::io::Errno;
use std::io;
use std::path::{Path, PathBuf};
use weft_meta::MetaError;
use weft_vfs::VfsError;

/// A failed step; earlier steps stay.
#[derive(Debug, thiserror::Error)]
pub enum FilesError {
    /// The system says no.
    #[error("{}: {error}", path.display())]
    System {
        /// About what.
        path: PathBuf,
        /// The error.
        error: io::Error,
    },
    /// The volume says no.
    #[error("{}: {error}", path.display())]
    Volume {
        /// About what.
        path: PathBuf,
        /// The error.
        error: Box<VfsError>,
    },
    /// A stream broke; its errors name the file.
    #[error(transparent)]
    Stream(#[from] io::Error),
    /// Nothing has this path.
    #[error("{}: no such file or directory", .0.display())]
    Missing(PathBuf),
    /// It is of the wrong kind; a sentence.
    #[error("{0}")]
    Refused(String),
    /// A call that is about no path.
    #[error(transparent)]
    Call(#[from] VfsError),
    /// Metadata.
    #[error(transparent)]
    Meta(#[from] MetaError),
    /// Opening or closing the volume.
    #[error(transparent)]
    Engine(Box<EngineError>),
}

impl From<EngineError> for FilesError {
    fn from(error: EngineError) -> Self {
        FilesError::Engine(Box::new(error))
    }
}

/// Of everything in a tree.
pub type Result<T> = std::result::Result<T, FilesError>;

/// The volume's error about `path`.
pub(super) fn at(path: &Path) -> impl Fn(VfsError) -> FilesError {
    move |error| FilesError::Volume { path: path.to_owned(), error: Box::new(error) }
}

/// The system's error about `path`.
pub(super) fn system(path: &Path, errno: Errno) -> FilesError {
    FilesError::System { path: path.to_owned(), error: errno.into() }
}

/// A refusal in a sentence.
pub(super) fn refused<T>(sentence: String) -> Result<T> {
    Err(FilesError::Refused(sentence))
}
