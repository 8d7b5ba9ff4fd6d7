//! Files with the secrets that nodes ask of their users: only their owner may read them, and nothing prints their contents.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use weft_format::records::Secret;
use weft_nodes::{NodeUrl, SecretError};

/// Longer than any key or token; a longer file is no key file.
const KEY_FILE_BYTES_MAX: u64 = 64 << 10;

/// Why a key file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeyFileError {
    /// Missing, or not for this user.
    #[error("{} cannot be read: {error}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// Group or others may read it.
    #[error("{path} can be read by others: chmod 600 {path}", path = .0.display())]
    Public(PathBuf),
    /// It holds something else.
    #[error("{} does not fit {url}: {error}", path.display())]
    Unfit {
        /// The file.
        path: PathBuf,
        /// The node's place.
        url: String,
        /// Why.
        error: SecretError,
    },
}

/// The secret that metadata keeps for a node at `url`, from its key file.
pub(crate) fn secret(url: &NodeUrl, file: Option<&Path>) -> Result<Secret, KeyFileError> {
    let Some(path) = file else { return Ok(Secret::default()) };
    let unfit = |error| KeyFileError::Unfit { path: path.to_owned(), url: url.to_string(), error };
    crate::kinds().secret_of(url, &read(path)?).map_err(unfit)
}

/// The text of a file that only its owner may read.
///
/// # Errors
/// [`KeyFileError`].
pub fn read(path: &Path) -> Result<String, KeyFileError> {
    refuse_public(path)?;
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(KEY_FILE_BYTES_MAX).read_to_string(&mut text));
    read.map_err(|error| KeyFileError::Unreadable { path: path.to_owned(), error })?;
    Ok(text)
}

/// Refuses a file that others can read: its contents are no secret.
///
/// # Errors
/// [`KeyFileError`].
pub fn refuse_public(path: &Path) -> Result<(), KeyFileError> {
    let found = std::fs::metadata(path).map_err(|error| KeyFileError::Unreadable { path: path.to_owned(), error })?;
    match found.mode() & 0o077 {
        0 => Ok(()),
        _ => Err(KeyFileError::Public(path.to_owned())),
    }
}
