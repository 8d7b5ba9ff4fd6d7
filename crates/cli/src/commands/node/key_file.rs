//! Files with what nodes ask of their users: only their owner may read them, and nothing of them is repeated.

use anyhow::{Context, Result, bail};
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use weft_format::records::Secret;
use weft_nodes::NodeUrl;

/// Longer than any key or token; whatever goes on is no key file.
const KEY_FILE_BYTES_MAX: u64 = 64 << 10;

/// What the record of a node at `url` remembers of the key file.
pub fn secret(url: &NodeUrl, file: Option<&Path>) -> Result<Secret> {
    let Some(file) = file else { return Ok(Secret::default()) };
    let text = read(file)?;
    weft_engine::kinds().secret_of(url, &text).with_context(|| format!("{} does not fit {url}", file.display()))
}

/// The text of a file that only its owner may read.
pub fn read(path: &Path) -> Result<String> {
    refuse_readable_by_others(path)?;
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(KEY_FILE_BYTES_MAX).read_to_string(&mut text));
    read.with_context(|| format!("{} cannot be read", path.display()))?;
    Ok(text)
}

/// Is it a secret? What others can read is none.
pub fn refuse_readable_by_others(path: &Path) -> Result<()> {
    let mode = std::fs::metadata(path).with_context(|| format!("{} cannot be read", path.display()))?.mode();
    if mode & 0o077 != 0 {
        bail!("{} can be read by others: chmod 600 {0}", path.display());
    }
    Ok(())
}
