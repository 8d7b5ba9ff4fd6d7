//! `weft meta dump|load|copy`: metadata as text, and in another engine.

use super::restore;
use crate::arguments::{Meta, meta_url};
use crate::care::count;
use anyhow::{Context, Result};
use std::fs::{File, OpenOptions};
use std::io::{BufReader, BufWriter, IsTerminal, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use weft_engine::{MetaUrl, dump};

#[derive(Debug, clap::Subcommand)]
#[command(after_help = "Example:
  weft meta dump meta.db meta.txt")]
pub enum Arguments {
    /// Write a volume's metadata to a new file as text, even while the volume is mounted. It contains the keys of nodes
    #[command(after_help = "Example:
  weft meta dump meta.db meta.txt")]
    Dump {
        #[command(flatten)]
        meta: Meta,
        /// File to write
        file: PathBuf,
    },
    /// Continue a volume from a dump of its metadata, as `weft restore` does from a backup
    #[command(after_help = "Example:
  weft meta load meta.txt meta.db")]
    Load {
        /// The dump
        file: PathBuf,
        /// The metadata to write
        #[arg(value_parser = meta_url())]
        meta: MetaUrl,
    },
    /// Move a volume's metadata to another place or engine: it is copied, compared, and the volume's metadata from then on. The old
    /// metadata can be read and changes nothing any more
    #[command(after_help = "Example:
  weft meta copy meta.db postgres://weft@db.example/weft")]
    Copy {
        #[command(flatten)]
        meta: Meta,
        /// The metadata to write
        #[arg(value_parser = meta_url())]
        to: MetaUrl,
    },
}

pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    match arguments {
        Arguments::Dump { meta, file } => {
            let records = write_dump(meta, file)?;
            println!("Wrote {} to {}: `weft meta load` continues from it", count(records, "record"), file.display());
            Ok(ExitCode::SUCCESS)
        }
        Arguments::Load { file, meta } => {
            let input = File::open(file).with_context(|| format!("{} cannot be read", file.display()))?;
            let report = dump::load(&mut BufReader::new(input), meta)?;
            println!("Loaded {}", count(report.record_count, "record"));
            Ok(restore::say(meta, &report.restored))
        }
        Arguments::Copy { meta, to } => {
            let is_watched = std::io::stderr().is_terminal();
            let mut progress = |records: u64| {
                if is_watched {
                    eprint!("\r{} copied", count(records, "record"));
                }
            };
            let copied = dump::copy(meta, to, &mut progress);
            if is_watched {
                eprintln!();
            }
            let report = copied?;
            println!("Copied {} to {to}, and compared them", count(report.record_count, "record"));
            Ok(restore::say(to, &report.restored))
        }
    }
}

/// A file that is new, of this user alone, and whole or not there.
fn write_dump(meta: &MetaUrl, file: &Path) -> Result<u64> {
    let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(file);
    let mut output = BufWriter::new(made.with_context(|| format!("{} cannot be made", file.display()))?);
    let written = dump::dump(meta, &mut output).map_err(anyhow::Error::from).and_then(|records| {
        output
            .flush()
            .and_then(|()| output.get_ref().sync_all())
            .with_context(|| format!("{} cannot be written", file.display()))?;
        Ok(records)
    });
    if written.is_err() {
        // What is there is no dump.
        let _ = std::fs::remove_file(file);
    }
    written
}
