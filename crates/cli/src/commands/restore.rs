//! `weft restore FILE META`: the volume goes on from a copy of its metadata.

use crate::arguments::{Output, meta_url};
use crate::care::{self, PATHS_SHOWN, count, moment};
use crate::render;
use anyhow::Result;
use std::path::PathBuf;
use std::process::ExitCode;
use weft_engine::copies::UnknownSegment;
use weft_engine::{MetaUrl, copies};
use weft_format::records::Opening;

/// Unknown segments shown.
const SHOWN: usize = 10;

/// Continue a volume from a copy of its metadata
///
/// FILE comes from `weft backup`, or is any copy of a metadata file. Files are as they were at that time; later changes are lost. The command
/// reports shards that were removed from the nodes since. From now on other metadata of the volume can change nothing. The exit status is
/// that of `weft status`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  weft restore /media/usb/meta.backup meta.db")]
pub struct Arguments {
    /// The copy of the metadata
    file: PathBuf,
    /// The metadata to write: FILE, postgres://HOST/DATABASE or etcd://HOST/NAME
    #[arg(value_parser = meta_url())]
    meta: MetaUrl,
    #[command(flatten)]
    output: Output,
}

pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let Arguments { file, meta, output } = arguments;
    let report = copies::restore(file, meta)?;
    if output.json {
        println!("{:#}", json(&report));
        return Ok(care::exit_code(&report.tally));
    }
    Ok(say(meta, &report))
}

/// How the volume continues, for programs.
pub(super) fn json(report: &copies::RestoreReport) -> serde_json::Value {
    let opening = |opening: Option<Opening>| {
        opening.map(|opening| serde_json::json!({ "number": opening.number, "began_ms": opening.began_ms }))
    };
    serde_json::json!({
        "known_opening": opening(report.known),
        "newest_opening": opening(report.newest),
        "silent_count": report.silent_count,
        "gone_count": report.gone_count,
        "moved_count": report.moved_count,
        "unknown_segments": report.unknown_segments,
        "tally": report.tally,
    })
}

/// Says how the volume continues.
pub(super) fn say(meta: &MetaUrl, report: &copies::RestoreReport) -> ExitCode {
    println!("{} is the volume's metadata from now on: {}", meta, distance(report.known, report.newest));
    if report.silent_count > 0 {
        println!(
            "{} did not answer: if it knows a newer opening, that is found out when it answers",
            count(report.silent_count, "node")
        );
    }
    if report.gone_count > 0 {
        println!("{} that it names are missing on the nodes", count(report.gone_count, "shard"));
    }
    if report.moved_count > 0 {
        println!(
            "{} that were moved or rebuilt since are named where they are now",
            count(report.moved_count, "shard")
        );
    }
    unknown(&report.unknown_segments).iter().for_each(|line| println!("{line}"));
    println!("{}", care::survival(&report.tally));
    care::troubles(&report.tally, PATHS_SHOWN).iter().for_each(|line| println!("{line}"));
    care::exit_code(&report.tally)
}

/// The newest of the segments that it does not have.
fn unknown(segments: &[UnknownSegment]) -> Vec<String> {
    if segments.is_empty() {
        return Vec::new();
    }
    let total = count(segments.len() as u64, "segment");
    let mut lines = vec![format!("{total} on the nodes are not in it: written later, or deleted; they stay")];
    lines.extend(segments.iter().take(SHOWN).map(|unknown| {
        let what = match (unknown.data_bytes, &unknown.code) {
            (Some(bytes), Some(code)) => format!("{} of {code}", render::bytes(bytes)),
            _ => "no shard of it can be read".into(),
        };
        let (made, shards) = (moment(unknown.made_ms), count(unknown.shard_count, "shard"));
        format!("  {}: {what}, made {made}, {shards}", unknown.segment)
    }));
    if let more @ 1.. = segments.len().saturating_sub(SHOWN) {
        lines.push(format!("  and {more} older ones: `--json` lists them all"));
    }
    lines
}

/// How far the copy is behind what nodes have seen.
fn distance(before: Option<Opening>, newest: Option<Opening>) -> String {
    let (Some(before), Some(newest)) = (before, newest) else {
        return "neither the copy nor the nodes know an opening of the volume".into();
    };
    let began = moment(before.began_ms);
    match newest.number.saturating_sub(before.number) {
        0 => format!("it is from the newest opening that the nodes know, which began {began}"),
        behind => {
            let by = care::duration(newest.began_ms.saturating_sub(before.began_ms));
            let openings = count(behind.into(), "opening");
            format!("it is {openings} and {by} behind the newest that the nodes know; its own began {began}")
        }
    }
}
