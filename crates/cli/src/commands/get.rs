//! `weft get META /SRC... DST`: files out of a volume.

use super::put::progress_bar;
use crate::arguments::{Bandwidth, Meta};
use crate::trace;
use crate::tree::{self, Shown};
use anyhow::{Context, Result, bail};
use indicatif::ProgressBar;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use weft_engine::files::{Copying, FolderTree, ReaderTree, Tree, Walk, copy, require, volume_path};
use weft_engine::transfers::{Profile, Settings};
use weft_format::records::Kind;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  weft get meta.db /photos ./photos
  weft get meta.db /notes.txt -
  weft get meta.db /big.iso big.iso --trace download.svg")]
pub struct Arguments {
    #[command(flatten)]
    meta: Meta,
    /// Paths in the volume
    #[arg(required = true, value_name = "/SRC")]
    sources: Vec<PathBuf>,
    /// An existing directory, or the new name of a single SRC; `-` is standard output
    #[arg(value_name = "DST")]
    destination: PathBuf,
    /// Order of requests to nodes: `adaptive`, or as in `fastest1,T=20,R=2,P=30` (ARCHITECTURE.md)
    #[arg(long, value_name = "PROFILE")]
    read_profile: Option<Profile>,
    /// Write a trace of all requests to nodes: a picture if FILE ends in `.svg`, else JSON
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    #[command(flatten)]
    bandwidth: Bandwidth,
    /// Keep owners and set-user-id, set-group-id and sticky bits [default: everything belongs to you]
    #[arg(short, long)]
    preserve: bool,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    if arguments.read_profile.is_some() || arguments.trace.is_some() {
        return traced(arguments);
    }
    let volume = tree::open_to_read(&arguments.meta, arguments.bandwidth.bwlimit)?;
    let progress = progress_bar(total_bytes(&*volume, &arguments.sources));
    let copied = get(&*volume, arguments, &progress);
    progress.finish_and_clear();
    volume.close()?;
    copied
}

/// With an engine of its own: a mount's cannot be asked.
fn traced(arguments: &Arguments) -> Result<()> {
    let profile = arguments.read_profile.unwrap_or_default();
    let settings = Settings { profile, bytes_per_second: arguments.bandwidth.bwlimit, ..Settings::default() };
    let tree = ReaderTree::open(&arguments.meta, settings)?;
    if arguments.trace.is_some() {
        tree.start_trace();
    }
    let progress = progress_bar(total_bytes(&tree, &arguments.sources));
    let copied = get(&tree, arguments, &progress);
    progress.finish_and_clear();
    let events = tree.finish_trace();
    Box::new(tree).close()?;
    if let Some(file) = &arguments.trace {
        trace::write(file, &events)?;
    }
    copied
}

/// What there is to copy, for those who watch. What cannot be looked at is told when it is copied.
fn total_bytes(volume: &dyn Tree, sources: &[PathBuf]) -> Option<u64> {
    let bytes_below = |source: &PathBuf| {
        let mut walk = Walk::new(volume, &volume_path(source).ok()?).ok()?;
        let mut bytes = 0u64;
        while let Some((_, _, entry)) = walk.step().ok()? {
            bytes = bytes.saturating_add(if entry.kind == Kind::File { entry.size } else { 0 });
        }
        Some(bytes)
    };
    std::io::stderr().is_terminal().then(|| sources.iter().map(bytes_below).sum())?
}

fn get(volume: &dyn Tree, arguments: &Arguments, progress: &ProgressBar) -> Result<()> {
    let Arguments { sources, destination, preserve, .. } = arguments;
    if destination == Path::new("-") {
        let mut output = std::io::stdout().lock();
        for source in sources {
            let source = volume_path(source)?;
            if require(volume, &source)?.kind != Kind::File {
                bail!("{} is not a file: only files can be written to standard output", source.display());
            }
            std::io::copy(&mut volume.read(&source)?, &mut output)?;
        }
        return Ok(output.flush()?);
    }
    let destination = std::path::absolute(destination).context("the current directory does not exist any more")?;
    let into = destination.is_dir();
    if sources.len() > 1 && !into {
        bail!("{} is not a directory: several files need one", destination.display());
    }
    // Links on the way there are the user's choice; below, none is followed.
    let (folder, new_name) = match (into, destination.parent(), destination.file_name()) {
        (false, Some(parent), Some(name)) => (parent, Some(name)),
        _ => (destination.as_path(), None),
    };
    if !folder.is_dir() {
        bail!("the folder {} does not exist: make it with `mkdir -p`", folder.display());
    }
    let here = FolderTree::of_folder(folder.to_path_buf())?;
    let how = Copying { preserve: *preserve, progress: &Shown(progress) };
    for source in sources {
        let source = volume_path(source)?;
        let target = match new_name.or(source.file_name()) {
            Some(name) => Path::new("/").join(name),
            None => PathBuf::from("/"),
        };
        copy(volume, &source, &here, &target, how)?;
    }
    Ok(())
}
