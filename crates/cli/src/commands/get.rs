//! `weft get META /SRC... DST`: files out of a volume.

use super::put::progress_bar;
use crate::tree::{self, FolderTree, Tree};
use anyhow::{Context, Result, bail};
use indicatif::ProgressBar;
use std::io::Write;
use std::path::{Path, PathBuf};
use weft_format::records::Kind;

#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Metadata file of the volume
    meta: PathBuf,
    /// Paths in the volume
    #[arg(required = true, value_name = "/SRC")]
    sources: Vec<PathBuf>,
    /// A directory that is there, or the new name of a single SRC; `-` is standard output
    #[arg(value_name = "DST")]
    destination: PathBuf,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let volume = tree::open(&arguments.meta)?;
    let progress = progress_bar();
    let copied = get(&*volume, &arguments.sources, &arguments.destination, &progress);
    progress.finish_and_clear();
    volume.close()?;
    copied
}

fn get(volume: &dyn Tree, sources: &[PathBuf], destination: &Path, progress: &ProgressBar) -> Result<()> {
    if destination == Path::new("-") {
        let mut output = std::io::stdout().lock();
        for source in sources {
            let source = tree::volume_path(source)?;
            if tree::require(volume, &source)?.kind != Kind::File {
                bail!("{} is no file: only files can be written to standard output", source.display());
            }
            std::io::copy(&mut volume.read(&source)?, &mut output)?;
        }
        return Ok(output.flush()?);
    }
    let here = FolderTree::whole();
    let destination = std::path::absolute(destination).context("the current directory is gone")?;
    let into = destination.is_dir();
    if sources.len() > 1 && !into {
        bail!("{} is no directory: several files need one", destination.display());
    }
    if let (false, Some(parent)) = (into, destination.parent())
        && !parent.is_dir()
    {
        bail!("there is no folder {}: make it with `mkdir -p`", parent.display());
    }
    for source in sources {
        let source = tree::volume_path(source)?;
        let target = match source.file_name() {
            Some(name) if into => destination.join(name),
            _ => destination.clone(),
        };
        tree::copy(volume, &source, &here, &target, progress)?;
    }
    Ok(())
}
