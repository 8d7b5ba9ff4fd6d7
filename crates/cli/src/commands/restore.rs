//! `weft restore FILE META`: the volume goes on from a copy of its metadata.

use crate::arguments::meta_url;
use crate::care::{self, PATHS_SHOWN, count, moment};
use anyhow::Result;
use std::path::PathBuf;
use std::process::ExitCode;
use weft_engine::{MetaUrl, copies};
use weft_format::records::Opening;

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
}

pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let Arguments { file, meta } = arguments;
    Ok(say(meta, &copies::restore(file, meta)?))
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
    if report.unknown_segments > 0 {
        let segments = count(report.unknown_segments, "segment");
        println!("{segments} on the nodes are not in it: written later, or deleted; they stay");
    }
    println!("{}", care::survival(&report.tally));
    care::troubles(&report.tally, PATHS_SHOWN).iter().for_each(|line| println!("{line}"));
    care::exit_code(&report.tally)
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
