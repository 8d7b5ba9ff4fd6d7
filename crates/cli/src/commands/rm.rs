//! `weft rm META /PATH...`: files out of existence.

use crate::arguments::Meta;
use crate::tree;
use anyhow::{Result, bail};
use std::path::{Path, PathBuf};
use weft_engine::files::{Tree, remove_all, require, volume_path};
use weft_format::records::Kind;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  weft rm meta.db /notes.txt
  weft rm -r meta.db /photos/2019")]
pub struct Arguments {
    #[command(flatten)]
    meta: Meta,
    /// Paths in the volume
    #[arg(required = true, value_name = "/PATH")]
    paths: Vec<PathBuf>,
    /// Remove directories too, with everything below them
    #[arg(short, long, visible_short_alias = 'R')]
    recursive: bool,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let volume = tree::open(&arguments.meta, None)?;
    let removed = remove(&*volume, arguments);
    volume.close()?;
    removed
}

fn remove(volume: &dyn Tree, arguments: &Arguments) -> Result<()> {
    for path in &arguments.paths {
        let path = volume_path(path)?;
        if path == Path::new("/") {
            bail!("the root directory cannot be removed: name its entries");
        }
        let kind = require(volume, &path)?.kind;
        if kind == Kind::Directory && !arguments.recursive {
            bail!("{} is a directory: remove it with -r", path.display());
        }
        remove_all(volume, &path)?;
    }
    Ok(())
}
