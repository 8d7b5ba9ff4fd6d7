//! `weft put META SRC... /DST`: files into a volume.

use crate::arguments::{Bandwidth, Meta};
use crate::tree::{self, Shown};
use anyhow::{Context, Result, bail};
use indicatif::{ProgressBar, ProgressStyle};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use weft_engine::files::{Copying, FolderTree, Tree, copy, copy_bytes, volume_path};
use weft_format::records::Kind;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  weft put meta.db ./photos /
  tar c src | weft put meta.db - /src.tar")]
pub struct Arguments {
    #[command(flatten)]
    meta: Meta,
    /// Files and directories to copy; `-` is standard input
    #[arg(required = true, value_name = "SRC")]
    sources: Vec<PathBuf>,
    /// Path in the volume: an existing directory, or the new name of a single SRC
    #[arg(value_name = "/DST")]
    destination: PathBuf,
    #[command(flatten)]
    bandwidth: Bandwidth,
    /// Keep owners and set-user-id, set-group-id and sticky bits [default: everything belongs to you]
    #[arg(short, long)]
    preserve: bool,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let destination = volume_path(&arguments.destination)?;
    let volume = tree::open(&arguments.meta, arguments.bandwidth.bwlimit)?;
    weft_engine::nodes::require(&arguments.meta, None)?;
    let progress = progress_bar(total_bytes(&arguments.sources));
    let copied = put(&*volume, arguments, &destination, &progress);
    progress.finish_and_clear();
    // What was copied before a failure stays, and is made durable.
    volume.close()?;
    copied
}

fn put(volume: &dyn Tree, arguments: &Arguments, destination: &Path, progress: &ProgressBar) -> Result<()> {
    let sources = &arguments.sources;
    let into = volume.entry(destination)?.is_some_and(|entry| entry.kind == Kind::Directory);
    if sources.len() > 1 && !into {
        bail!("{} is not a directory of the volume: several files need one", destination.display());
    }
    for source in sources {
        if source == Path::new("-") {
            if into {
                let example = destination.join("NAME");
                bail!("standard input has no name: write {} as the destination", example.display());
            }
            copy_bytes(&mut std::io::stdin().lock(), volume, destination, &Shown(progress))?;
            continue;
        }
        let source = std::path::absolute(source).context("the current directory does not exist any more")?;
        // As cp does: a link that is named itself is followed.
        let source = source.canonicalize().with_context(|| source.display().to_string())?;
        // Below it, no link is followed.
        let (folder, name) = match (source.parent(), source.file_name()) {
            (Some(folder), Some(name)) => (folder, name),
            _ => (source.as_path(), OsStr::new("")),
        };
        let here = FolderTree::of_folder(folder.to_path_buf())?;
        let target = if into && !name.is_empty() { destination.join(name) } else { destination.to_path_buf() };
        let how = Copying { preserve: arguments.preserve, progress: &Shown(progress) };
        copy(&here, &Path::new("/").join(name), volume, &target, how)?;
    }
    Ok(())
}

/// What there is to copy; `None` where that cannot be told, as of standard input. What cannot be read is told when it is copied.
fn total_bytes(sources: &[PathBuf]) -> Option<u64> {
    sources.iter().map(|source| bytes_below(source)).sum()
}

fn bytes_below(path: &Path) -> Option<u64> {
    if path == Path::new("-") {
        return None;
    }
    let mut bytes = 0;
    // A link that is named itself is followed, as it is copied.
    let mut waiting = vec![path.canonicalize().ok()?];
    while let Some(path) = waiting.pop() {
        let found = path.symlink_metadata().ok()?;
        if found.is_dir() {
            for child in std::fs::read_dir(&path).ok()? {
                waiting.push(child.ok()?.path());
            }
        } else if found.is_file() {
            bytes += found.len();
        }
    }
    Some(bytes)
}

/// Bytes of all, rate, time left and the file under way; where the total is not known, without that. Shown only on a terminal.
pub fn progress_bar(total_bytes: Option<u64>) -> ProgressBar {
    let style = |template| ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    match total_bytes {
        Some(bytes) => ProgressBar::new(bytes).with_style(style(
            "{percent:>3}%  {binary_bytes} of {binary_total_bytes}  {binary_bytes_per_sec}  {eta} left  {wide_msg}",
        )),
        None => {
            ProgressBar::new_spinner().with_style(style("{spinner} {binary_bytes}  {binary_bytes_per_sec}  {wide_msg}"))
        }
    }
}

#[cfg(test)]
#[path = "put_tests.rs"]
mod tests;
