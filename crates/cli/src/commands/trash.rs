//! `weft trash keep|list|restore|purge META`: what was deleted, for a while.

use crate::arguments::{Meta, Output};
use crate::care::{self, count};
use crate::render;
use crate::tree;
use anyhow::Result;
use std::path::PathBuf;
use weft_engine::files::volume_path;
use weft_engine::trash::{Trash, TrashLine};

#[derive(Debug, clap::Subcommand)]
#[command(after_help = "Examples:
  weft trash keep meta.db 7d
  weft trash restore meta.db /photos/cat.jpg")]
pub enum Arguments {
    /// Show or choose how long deleted files are kept; new volumes keep none
    #[command(after_help = "Example:
  weft trash keep meta.db 7d")]
    Keep {
        #[command(flatten)]
        meta: Meta,
        /// Time to keep them, as in 12h or 7d; 0 keeps nothing, and deletes the kept files
        #[arg(value_parser = care::parse_duration)]
        time: Option<u64>,
    },
    /// List deleted files that can be restored, the last deleted first
    #[command(
        visible_alias = "ls",
        after_help = "Example:
  weft trash list meta.db"
    )]
    List {
        #[command(flatten)]
        meta: Meta,
        #[command(flatten)]
        output: Output,
    },
    /// Restore a deleted file, or a directory with everything deleted from it. If several share the name, the most recent is
    /// restored unless --version says which
    #[command(after_help = "Example:
  weft trash restore meta.db /photos/cat.jpg")]
    Restore {
        #[command(flatten)]
        meta: Meta,
        /// Path in the volume, as `weft trash list` shows it
        #[arg(value_name = "/PATH")]
        path: PathBuf,
        /// Version, if several share the path, as `weft trash list` shows it
        #[arg(long, value_name = "VERSION")]
        version: Option<u64>,
    },
    /// Delete kept files for good: all versions of a path with everything deleted from below it, or all kept files
    #[command(after_help = "Examples:
  weft trash purge meta.db /photos
  weft trash purge meta.db --all")]
    Purge {
        #[command(flatten)]
        meta: Meta,
        /// Path in the volume, as `weft trash list` shows it
        #[arg(value_name = "/PATH", required_unless_present = "all")]
        path: Option<PathBuf>,
        /// Only this version of the path, as `weft trash list` shows it
        #[arg(long, value_name = "VERSION", requires = "path")]
        version: Option<u64>,
        /// Delete all kept files
        #[arg(long, conflicts_with = "path")]
        all: bool,
    },
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let meta = match arguments {
        Arguments::Keep { meta, .. }
        | Arguments::List { meta, .. }
        | Arguments::Restore { meta, .. }
        | Arguments::Purge { meta, .. } => meta,
    };
    let mountpoint = tree::mountpoint(meta)?;
    let trash = Trash::new(meta, mountpoint.as_deref());
    match arguments {
        Arguments::Keep { time, .. } => keep(&trash, *time),
        Arguments::List { output, .. } => list(&trash, output.json),
        Arguments::Restore { path, version, .. } => {
            let path = volume_path(path)?;
            let restored = count(trash.restore(&path, *version)?, "inode");
            println!("Restored {} with {restored}", render::line(&path.to_string_lossy()));
            Ok(())
        }
        Arguments::Purge { path, version, .. } => {
            let path = path.as_deref().map(volume_path).transpose()?;
            println!("Deleted {} for good", count(trash.purge(path.as_deref(), *version)?, "inode"));
            Ok(())
        }
    }
}

fn keep(trash: &Trash<'_>, time_ms: Option<u64>) -> Result<()> {
    if let Some(time_ms) = time_ms {
        trash.set_keep_ms(time_ms)?;
    }
    match trash.keep_ms()? {
        0 => println!("Deleted files are not kept"),
        keep_ms => println!("Deleted files are kept for {}", care::duration(keep_ms)),
    }
    Ok(())
}

fn list(trash: &Trash<'_>, json: bool) -> Result<()> {
    let lines = trash.list()?;
    if json {
        println!("{}", serde_json::to_string_pretty(&lines)?);
        return Ok(());
    }
    let header = ["DELETED", "KEPT UNTIL", "KIND", "SIZE", "VERSION", "PATH"].map(str::to_owned).to_vec();
    let row = |line: &TrashLine| {
        let times = (care::moment(line.deleted_ms), care::moment(line.until_ms));
        let (size, version) = (render::bytes(line.size), line.version.to_string());
        vec![times.0, times.1, line.kind.to_owned(), size, version, render::line(&line.path)]
    };
    let rows: Vec<_> = std::iter::once(header).chain(lines.iter().map(row)).collect();
    print!("{}", render::table(&rows, &[3, 4]));
    Ok(())
}
