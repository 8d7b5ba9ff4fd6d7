//! `weft backup META FILE`: a copy of the metadata that can be made the volume's again.

use anyhow::Result;
use std::path::PathBuf;
use weft_meta::engines::SqliteKv;

/// Copy a volume's metadata to a new file, also while it is mounted
///
/// The copy is as of one moment, at most a tenth of a second ago. `weft restore FILE META` makes metadata of it again; nothing else
/// opens it.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Metadata file of the volume
    meta: PathBuf,
    /// The file to make, best on another disk
    file: PathBuf,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let Arguments { meta, file } = arguments;
    SqliteKv::back_up(meta, file)?;
    println!(
        "Copied {} to {}: `weft restore {} META` continues from it",
        meta.display(),
        file.display(),
        file.display()
    );
    Ok(())
}
