//! `weft policy get|set META [/DIR]`: how what is in a directory is protected, and changing one's mind about it.

use crate::amount::parse_size;
use crate::arguments::{Meta, Output};
use crate::care::{self, count};
use crate::compose;
use crate::tree;
use anyhow::Result;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use weft_engine::files::policies::{self, Change, To};
use weft_engine::files::volume_path;
use weft_engine::{CareRequest, MetaUrl, nodes};
use weft_format::amount::show_bytes;
use weft_format::records::{CELL_BYTES, Later, SEGMENT_BYTES};

#[derive(Debug, clap::Subcommand)]
#[command(after_help = "Examples:
  weft policy get meta.db /photos
  weft policy set meta.db /photos rs:4+2 --convert")]
pub enum Arguments {
    /// Show the code of new files in a directory
    #[command(after_help = "Example:
  weft policy get meta.db /photos")]
    Get {
        #[command(flatten)]
        meta: Meta,
        /// Directory or file in the volume
        #[arg(value_name = "/DIR", default_value = "/")]
        directory: PathBuf,
        #[command(flatten)]
        output: Output,
    },
    /// Set the code of new files in a directory. Existing files keep their code unless --convert or --after is given
    ///
    /// The mount or `weft care META` converts in the background; `weft care status META` shows the progress, `weft care pause META` pauses it.
    /// The previous shards are kept for an hour: setting the previous code with --convert within that hour uses them again. When large files
    /// change from copies to a wider code, one copy becomes the data of the new code and only parities are written; `weft care META` beside a
    /// mount cannot do that and writes all shards.
    #[command(after_help = "Examples:
  weft policy set meta.db /photos raid6:6
  weft policy set meta.db /photos rs:4+2 --convert
  weft policy set meta.db /logs rs:8+3 --after 30d")]
    Set {
        #[command(flatten)]
        meta: Meta,
        /// Directory in the volume
        #[arg(value_name = "/DIR")]
        directory: PathBuf,
        /// Code, as in rs:4+2, raid6:6 or replica:3 (`weft codes list`)
        #[arg(value_name = "CODE")]
        code: String,
        /// Convert everything below the directory too
        #[arg(long)]
        convert: bool,
        /// Keep writing with the present codes; convert a file to this one when it has not changed for this long, as in 30d
        #[arg(long, value_name = "TIME", value_parser = care::parse_duration, conflicts_with = "convert")]
        after: Option<u64>,
        /// Losses that new data must survive at once even if nodes are away or full; `none`: every shard is stored except those of nodes that
        /// are away
        #[arg(long, value_name = "COUNT|none", value_parser = parse_margin)]
        write_margin: Option<Margin>,
        /// Data bytes of a full segment, 1M to 64M, or `default`. Existing segments stay as they are
        #[arg(long, value_name = "SIZE|default", value_parser = parse_segment)]
        segment: Option<Chosen<u64>>,
        /// Bytes of a shard in a full stripe, 4K to 64M, or `default`; a code of many symbols takes at least 4K for each
        #[arg(long, value_name = "SIZE|default", value_parser = parse_cell)]
        cell: Option<Chosen<u32>>,
    },
}

/// A margin, or that there is to be none.
#[derive(Clone, Copy, Debug)]
pub struct Margin(Option<u16>);

fn parse_margin(text: &str) -> Result<Margin, String> {
    match text {
        "none" => Ok(Margin(None)),
        _ => text
            .parse()
            .map(|count| Margin(Some(count)))
            .map_err(|_| format!("`{text}` is not a number of losses: write it as in 1")),
    }
}

/// A size, or that there is to be none of one's own.
#[derive(Clone, Copy, Debug)]
pub struct Chosen<T>(Option<T>);

fn parse_segment(text: &str) -> Result<Chosen<u64>, String> {
    parse_chosen(text, &SEGMENT_BYTES)
}

fn parse_cell(text: &str) -> Result<Chosen<u32>, String> {
    let Chosen(bytes) = parse_chosen(text, &(u64::from(*CELL_BYTES.start())..=u64::from(*CELL_BYTES.end())))?;
    Ok(Chosen(bytes.map(|bytes| u32::try_from(bytes).expect("within a range of such numbers"))))
}

fn parse_chosen(text: &str, limits: &RangeInclusive<u64>) -> Result<Chosen<u64>, String> {
    if text == "default" {
        return Ok(Chosen(None));
    }
    let bytes = parse_size(text)?.get();
    match limits.contains(&bytes) {
        true => Ok(Chosen(Some(bytes))),
        false => Err(format!("choose {} to {}", show_bytes(*limits.start()), show_bytes(*limits.end()))),
    }
}

pub fn run(arguments: &Arguments) -> Result<()> {
    match arguments {
        Arguments::Get { meta, directory, output } => get(meta, directory, output.json),
        Arguments::Set { meta, directory, code, convert, after, write_margin, segment, cell } => {
            let code = compose::code(code)?;
            let path = volume_path(directory)?;
            nodes::require(meta, Some(&*code))?;
            let code = code.spec().to_owned();
            let to = match after {
                Some(after_ms) => To::Later(Later { code, after_ms: *after_ms }),
                None => To::Now(code),
            };
            let change = Change {
                to,
                write_margin: write_margin.map(|margin| margin.0),
                segment_bytes: segment.map(|segment| segment.0),
                cell_bytes: cell.map(|cell| cell.0),
            };
            let is_for_all = *convert || after.is_some();
            let volume = tree::open(meta, None)?;
            let changed = policies::set(&*volume, &path, &change, is_for_all)?;
            // Durable before anybody goes by it.
            volume.close()?;
            if is_for_all {
                weft_engine::request_care(meta, CareRequest::Convert)?;
                let when =
                    if after.is_some() { "when they have not changed for that long" } else { "in the background" };
                println!("{} to be converted {when}: weft care status {meta}", count(changed, "file"));
            }
            Ok(())
        }
    }
}

fn get(meta: &MetaUrl, directory: &Path, json: bool) -> Result<()> {
    let path = volume_path(directory)?;
    let volume = tree::open(meta, None)?;
    if json {
        let report = policies::report(&*volume, &path)?;
        volume.close()?;
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        let text = policies::text(&*volume, &path)?;
        volume.close()?;
        println!("{text}");
    }
    Ok(())
}
