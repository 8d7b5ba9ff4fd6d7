//! `weft fsck META`: is the metadata consistent?

use crate::arguments::{Meta, Output};
use crate::care::{self, DEGRADED, count};
use crate::render;
use anyhow::Result;
use std::process::ExitCode;
use weft_engine::{CheckProgress, CheckReport};

/// Check that the metadata is consistent: names, links, sizes, extents, segments, counts
///
/// `weft scrub` checks the shards. Exit status: 0 if everything is consistent or was repaired, 2 otherwise.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  weft fsck meta.db
  weft fsck meta.db --repair")]
pub struct Arguments {
    #[command(flatten)]
    meta: Meta,
    /// Repair records that follow from others; the volume must not be mounted
    #[arg(long)]
    repair: bool,
    #[command(flatten)]
    output: Output,
}

pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let bar = care::progress_bar();
    let mut progress = |progress: CheckProgress| {
        care::show_records(&bar, progress.phase, progress.records, Some(progress.records_total));
    };
    let report = weft_engine::check(&arguments.meta, arguments.repair, &mut progress);
    bar.finish_and_clear();
    let report = report?;
    if arguments.output.json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        print(arguments, &report);
    }
    Ok(if report.is_clean { ExitCode::SUCCESS } else { ExitCode::from(DEGRADED) })
}

fn print(arguments: &Arguments, report: &CheckReport) {
    for finding in &report.findings {
        let outcome = if finding.mend == "done" { "; repaired" } else { "" };
        println!("{}{outcome}", render::line(&finding.finding));
    }
    let with = |mend: &str| report.findings.iter().filter(|finding| finding.mend == mend).count() as u64;
    let (inodes, segments) = (count(report.inode_count, "inode"), count(report.segment_count, "segment"));
    let findings = count(report.findings.len() as u64, "finding");
    println!("checked {inodes} and {segments}: {findings}, {} repaired", with("done"));
    let mendable = with("possible");
    if mendable > 0 {
        let findings = count(mendable, "finding");
        println!("{findings} can be repaired while the volume is not mounted: weft fsck --repair {}", *arguments.meta);
    }
}
