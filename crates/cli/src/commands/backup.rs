//! `weft backup META FILE`: a copy of the metadata that can be made the volume's again.

use crate::arguments::Meta;
use anyhow::Result;
use std::path::PathBuf;
use weft_engine::copies;

/// Copy a volume's metadata to a new file, even while the volume is mounted
///
/// The copy is a consistent snapshot, at most a tenth of a second old. Only `weft restore FILE META` opens it.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  weft backup meta.db /media/usb/meta.backup")]
pub struct Arguments {
    #[command(flatten)]
    meta: Meta,
    /// File to write, best on another disk
    file: PathBuf,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let Arguments { meta, file } = arguments;
    copies::back_up(meta, file)?;
    println!("Copied {} to {}: `weft restore {} META` continues from it", meta, file.display(), file.display());
    Ok(())
}
