//! `weft rm META /PATH...`: files out of existence.

use crate::tree::{self, Tree};
use anyhow::{Result, bail};
use std::path::{Path, PathBuf};
use weft_format::records::Kind;

#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Metadata file of the volume
    meta: PathBuf,
    /// Paths in the volume
    #[arg(required = true, value_name = "/PATH")]
    paths: Vec<PathBuf>,
    /// Directories too, with everything below them
    #[arg(short, long, visible_short_alias = 'R')]
    recursive: bool,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let volume = tree::open(&arguments.meta)?;
    let removed = remove(&*volume, arguments);
    volume.close()?;
    removed
}

fn remove(volume: &dyn Tree, arguments: &Arguments) -> Result<()> {
    for path in &arguments.paths {
        let path = tree::volume_path(path)?;
        if path == Path::new("/") {
            bail!("the root directory stays: name what is in it");
        }
        let kind = tree::require(volume, &path)?.kind;
        if kind == Kind::Directory && !arguments.recursive {
            bail!("{} is a directory: remove it with -r", path.display());
        }
        tree::remove_all(volume, &path)?;
    }
    Ok(())
}
