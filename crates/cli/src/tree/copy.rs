//! Copying between trees: files, directories, links, with modes and times.

use super::{Entry, Tree};
use anyhow::{Result, bail};
use indicatif::ProgressBar;
use std::io::Read;
use std::path::Path;
use weft_format::records::Kind;

/// Bytes moved at a time: one request of a mount.
const CHUNK_BYTES: usize = 1 << 20;

/// Copies what is at `from_path` to `to_path`: into a directory that is there under its own entries, over a file that is
/// there. Directories get their modes and times last, so that a read-only one can be filled.
pub fn copy(from: &dyn Tree, from_path: &Path, to: &dyn Tree, to_path: &Path, progress: &ProgressBar) -> Result<()> {
    let entry = super::require(from, from_path)?;
    copy_entry(from, from_path, &entry, to, to_path, progress)
}

fn copy_entry(
    from: &dyn Tree,
    from_path: &Path,
    entry: &Entry,
    to: &dyn Tree,
    to_path: &Path,
    progress: &ProgressBar,
) -> Result<()> {
    let there = to.entry(to_path)?;
    let is_directory = |entry: &Entry| entry.kind == Kind::Directory;
    match (&there, entry.kind) {
        (Some(there), Kind::Directory) if !is_directory(there) => {
            bail!("{} is there and is no directory: remove it first", to_path.display())
        }
        (Some(there), kind) if is_directory(there) && kind != Kind::Directory => {
            bail!("{} is there and is a directory: remove it first", to_path.display())
        }
        (None, Kind::Directory) => to.make_directory(to_path)?,
        // A file is written over; anything else makes way.
        (Some(there), kind) if !is_directory(there) && (kind != Kind::File || there.kind != Kind::File) => {
            to.remove(to_path, there.kind)?;
        }
        _ => {}
    }
    match entry.kind {
        Kind::Directory => {
            for (name, child) in from.list(from_path)? {
                copy_entry(from, &from_path.join(&name), &child, to, &to_path.join(&name), progress)?;
            }
        }
        Kind::File => {
            progress.set_message(from_path.display().to_string());
            copy_bytes(&mut from.read(from_path)?, to, to_path, progress)?;
        }
        Kind::Symlink => to.make_link(to_path, &from.read_link(from_path)?)?,
        Kind::Fifo | Kind::Socket | Kind::CharDevice | Kind::BlockDevice => to.make_special(to_path, entry)?,
    }
    to.set(to_path, entry)
}

/// Copies a stream into a file.
pub fn copy_bytes(source: &mut dyn Read, to: &dyn Tree, to_path: &Path, progress: &ProgressBar) -> Result<()> {
    let mut sink = to.write(to_path)?;
    let mut buffer = vec![0; CHUNK_BYTES];
    loop {
        let bytes = source.read(&mut buffer)?;
        if bytes == 0 {
            return sink.finish();
        }
        // Holes are read as zeros; written, they would take room. What a stream gives in small pieces is written as it is.
        if bytes == CHUNK_BYTES && is_zero(&buffer) {
            sink.skip(bytes as u64)?;
        } else {
            sink.write_all(&buffer[..bytes])?;
        }
        progress.inc(bytes as u64);
    }
}

fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().all(|&byte| byte == 0)
}
