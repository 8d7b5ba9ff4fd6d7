//! `weft fsck META`: is the metadata consistent?

use crate::care::{DEGRADED, count};
use crate::render;
use anyhow::Result;
use serde::Serialize;
use std::path::PathBuf;
use std::process::ExitCode;
use weft_format::records::Timestamp;
use weft_meta::Access;
use weft_meta::fsck::{self, Mend, Report};

/// Check that the metadata fits together: names, links, sizes, extents, segments, counts
///
/// Shards are not looked at: that is `weft scrub`. Status: 0 when everything fits (again), 2 otherwise.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Metadata file of the volume
    meta: PathBuf,
    /// Mend what follows from other records; the volume must not be mounted
    #[arg(long)]
    repair: bool,
    /// For programs
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Outcome {
    inode_count: u64,
    segment_count: u64,
    is_clean: bool,
    findings: Vec<Line>,
}

#[derive(Serialize)]
struct Line {
    finding: String,
    mend: &'static str,
}

pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let report = if arguments.repair {
        let store = weft_vfs::open::open_store(&arguments.meta, Access::Owner, None)?;
        let now_ms = weft_engine::now_ms()?;
        let seconds = i64::try_from(now_ms / 1000)?;
        fsck::repair(&store, Timestamp { seconds, nanoseconds: (now_ms % 1000) as u32 * 1_000_000 })?
    } else {
        fsck::check(&weft_engine::open_store(&arguments.meta)?)?
    };
    let is_clean = report.is_clean();
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&outcome(&report))?);
    } else {
        print(arguments, &report);
    }
    Ok(if is_clean { ExitCode::SUCCESS } else { ExitCode::from(DEGRADED) })
}

fn outcome(report: &Report) -> Outcome {
    let line = |(finding, mend): &(fsck::Finding, Mend)| Line {
        finding: finding.to_string(),
        mend: match mend {
            Mend::Impossible => "impossible",
            Mend::Possible => "possible",
            Mend::Done => "done",
        },
    };
    Outcome {
        inode_count: report.inodes,
        segment_count: report.segments,
        is_clean: report.is_clean(),
        findings: report.findings.iter().map(line).collect(),
    }
}

fn print(arguments: &Arguments, report: &Report) {
    for (finding, mend) in &report.findings {
        let outcome = match mend {
            Mend::Done => "; mended",
            Mend::Possible | Mend::Impossible => "",
        };
        println!("{}{outcome}", render::line(&finding.to_string()));
    }
    let with = |wanted: Mend| report.findings.iter().filter(|(_, mend)| *mend == wanted).count() as u64;
    let (inodes, segments) = (count(report.inodes, "inode"), count(report.segments, "segment"));
    println!(
        "checked {inodes} and {segments}: {}, {} mended",
        count(report.findings.len() as u64, "finding"),
        with(Mend::Done)
    );
    let mendable = with(Mend::Possible);
    if mendable > 0 {
        let findings = count(mendable, "finding");
        println!(
            "{findings} can be mended, with the volume unmounted: weft fsck --repair {}",
            arguments.meta.display()
        );
    }
}
