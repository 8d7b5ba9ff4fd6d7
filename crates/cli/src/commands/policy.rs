//! `weft policy get|set META [/DIR]`: how what is in a directory is protected, and changing one's mind about it.

use crate::amount::parse_size;
use crate::care::{self, count};
use crate::compose;
use crate::tree::{self, Tree, Visit, Walk};
use anyhow::{Result, bail};
use serde::Serialize;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use weft_format::amount::show_bytes;
use weft_format::records::{CELL_BYTES, Kind, Later, PolicyRecord, SEGMENT_BYTES, Sizes};
use weft_vfs::{policy_for, policy_text};

#[derive(Debug, clap::Subcommand)]
pub enum Arguments {
    /// Say how what is made in a directory is protected
    Get {
        /// Metadata file of the volume
        meta: PathBuf,
        /// Directory or file in the volume
        #[arg(value_name = "/DIR", default_value = "/")]
        directory: PathBuf,
        /// For programs
        #[arg(long)]
        json: bool,
    },
    /// Protect what is made in a directory from now on by this code; what is in it stays as it is, unless it is said
    ///
    /// Converting is the work of whoever cares for the volume, a mount or `weft care META`: `weft care status META` shows how far
    /// it is, `weft care pause` holds it. The former shards are kept for an hour: set the former code with `--convert` within it,
    /// and they are taken again. Large files in copies keep one copy of their data as the data of the wider code, and only parities
    /// are written, unless it is `weft care META` beside a mount that converts them.
    Set {
        /// Metadata file of the volume
        meta: PathBuf,
        /// Directory in the volume
        #[arg(value_name = "/DIR")]
        directory: PathBuf,
        /// As `weft codes list` has them: rs:4+2, raid6:6, replica:3
        #[arg(value_name = "CODE")]
        code: String,
        /// Give all that is below it this code too
        #[arg(long)]
        convert: bool,
        /// Write by the codes that there are, and give a file this one when it has not changed for so long, as in 30d
        #[arg(long, value_name = "TIME", value_parser = care::parse_duration, conflicts_with = "convert")]
        after: Option<u64>,
        /// Losses that what is written must survive at once, though nodes are away or full, or `none`: then every shard is stored but
        /// for those of nodes that are away
        #[arg(long, value_name = "COUNT|none", value_parser = parse_margin)]
        write_margin: Option<Margin>,
        /// Data bytes of a full segment, 1M to 64M, or `default`: as suits the code. Segments that are there stay as they are
        #[arg(long, value_name = "SIZE|default", value_parser = parse_segment)]
        segment: Option<Chosen<u64>>,
        /// Bytes of a shard in a full stripe, 4K to 64M, or `default`; a code of many symbols takes 4K for each at least
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
        _ => {
            text.parse().map(|count| Margin(Some(count))).map_err(|_| format!("`{text}` is no number of losses like 1"))
        }
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

#[derive(Serialize)]
struct Answer {
    path: PathBuf,
    policy: String,
    nodes: usize,
    tolerance: usize,
    /// The code of what has not changed for so long.
    later: Option<String>,
    later_after_ms: Option<u64>,
    /// Losses that what is written survives at once; missing: all shards are stored but for those of nodes that are away.
    write_margin: Option<u16>,
    /// Data bytes of a full segment, and bytes of a shard in a full stripe; missing: as suits the code.
    segment_bytes: Option<u64>,
    cell_bytes: Option<u32>,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    match arguments {
        Arguments::Get { meta, directory, json } => get(meta, directory, *json),
        Arguments::Set { meta, directory, code, convert, after, write_margin, segment, cell } => {
            let code = compose::code(code)?.spec().to_owned();
            let path = tree::volume_path(directory)?;
            compose::require_nodes(meta, &weft_engine::open_store(meta)?, &code)?;
            let volume = tree::open(meta)?;
            if tree::require(&*volume, &path)?.kind != Kind::Directory {
                bail!("{} is no directory: policies are set on directories", path.display());
            }
            let to = match after {
                Some(after_ms) => To::Later(Later { code, after_ms: *after_ms }),
                None => To::Now(code),
            };
            let change = Change { to, margin: *write_margin, segment: *segment, cell: *cell };
            if let To::Later(later) = &change.to
                && policy_for(&volume.policy(&path)?)?.code == later.code
            {
                bail!("{} is written by {} already: choose another code for later", path.display(), later.code);
            }
            if !convert && after.is_none() {
                change.apply(&*volume, &path)?;
                return volume.close();
            }
            let mut changed = Changed::default();
            changed.below(&*volume, &path, &change)?;
            // Durable before anybody goes by it.
            volume.close()?;
            super::care::wish(meta, |wish| wish.convert_count += 1)?;
            let when = if after.is_some() { "as they come to rest" } else { "by whoever cares for the volume" };
            println!("{} converted {when}: weft care status {}", count(changed.files, "file"), meta.display());
            Ok(())
        }
    }
}

fn get(meta: &Path, directory: &Path, json: bool) -> Result<()> {
    let path = tree::volume_path(directory)?;
    let volume = tree::open(meta)?;
    tree::require(&*volume, &path)?;
    let text = volume.policy(&path)?;
    volume.close()?;
    if json {
        let PolicyRecord { code, later, write_margin, sizes } = policy_for(&text)?;
        let Sizes { segment_bytes, cell_bytes } = sizes;
        let parsed = compose::code(&code)?;
        let (nodes, tolerance) = (parsed.shape().n, parsed.shape().tolerance);
        let (later, later_after_ms) = later.map(|later| (later.code, later.after_ms)).unzip();
        let policy = code;
        let answer =
            Answer { path, policy, nodes, tolerance, later, later_after_ms, write_margin, segment_bytes, cell_bytes };
        println!("{}", serde_json::to_string_pretty(&answer)?);
    } else {
        println!("{text}");
    }
    Ok(())
}

/// What becomes of a policy.
struct Change {
    to: To,
    /// `None`: it stays as it is.
    margin: Option<Margin>,
    segment: Option<Chosen<u64>>,
    cell: Option<Chosen<u32>>,
}

enum To {
    /// This code, for good.
    Now(String),
    /// The code that there is, and this one later.
    Later(Later),
}

impl Change {
    fn apply(&self, volume: &dyn Tree, path: &Path) -> Result<()> {
        let before = policy_for(&volume.policy(path)?)?;
        let margin = self.margin.map_or(before.write_margin, |margin| margin.0);
        let sizes = Sizes {
            segment_bytes: self.segment.map_or(before.sizes.segment_bytes, |segment| segment.0),
            cell_bytes: self.cell.map_or(before.sizes.cell_bytes, |cell| cell.0),
        };
        let after = match &self.to {
            To::Now(code) => PolicyRecord { sizes, ..PolicyRecord::of(code, margin) },
            To::Later(later) => {
                let later = Some(later.clone()).filter(|later| later.code != before.code);
                PolicyRecord { later, write_margin: margin, sizes, ..before }
            }
        };
        volume.set_policy(path, &policy_text(&after))
    }
}

/// What was given another policy.
#[derive(Default)]
struct Changed {
    files: u64,
}

impl Changed {
    /// A directory first, so that what is made in it meanwhile has the new policy too.
    fn below(&mut self, volume: &dyn Tree, directory: &Path, change: &Change) -> Result<()> {
        let mut walk = Walk::new(volume, directory)?;
        while let Some((visit, path, entry)) = walk.step()? {
            match (visit, entry.kind) {
                (Visit::Enter, _) => change.apply(volume, &path)?,
                (Visit::Other, Kind::File) => {
                    change.apply(volume, &path)?;
                    self.files += 1;
                }
                (Visit::Leave | Visit::Other, _) => {}
            }
        }
        Ok(())
    }
}
