//! `weft scrub META`: every shard is read and checked.

use crate::arguments::{Bandwidth, Meta, Output};
use crate::care::{self, DEGRADED, count};
use crate::render;
use anyhow::Result;
use serde::Serialize;
use std::process::ExitCode;
use weft_engine::Keeper;
use weft_engine::care::{Job, ScrubFinding, ScrubOptions, ScrubReport};

/// Read every shard, report damaged, missing or misplaced ones, and repair them
///
/// The metadata is also compared with its checksums. An interrupted scrub resumes where it stopped. Exit status: 0 if everything was read and
/// nothing is left to repair, 2 otherwise.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  weft scrub meta.db
  weft scrub meta.db --bwlimit 50M")]
pub struct Arguments {
    #[command(flatten)]
    meta: Meta,
    /// Only report, and mark for `weft repair`
    #[arg(short = 'n', long)]
    no_repair: bool,
    #[command(flatten)]
    bandwidth: Bandwidth,
    #[command(flatten)]
    output: Output,
}

#[derive(Serialize)]
struct Outcome {
    report: ScrubReport,
    findings: Vec<ScrubFinding>,
    /// What is wrong with the metadata store itself.
    metadata_faults: Vec<String>,
}

pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let keeper = Keeper::limited(&arguments.meta, &weft_engine::Env::system(), arguments.bandwidth.bwlimit)?;
    let options = ScrubOptions { repair: !arguments.no_repair, ..ScrubOptions::default() };
    let bar = care::progress_bar();
    let metadata_faults =
        keeper.verify_metadata(&mut |records| care::show_records(&bar, "comparing checksums", records, None));
    bar.finish_and_clear();
    let metadata_faults = metadata_faults?;
    if !arguments.output.json {
        let fault = |fault: &String| println!("the metadata store is damaged: {fault}");
        metadata_faults.iter().for_each(fault);
    }
    let (job, bar) = (Job::new(&keeper.store.env().clock), care::progress_bar());
    let mut findings = Vec::new();
    let tell = |finding: &ScrubFinding| {
        if arguments.output.json {
            findings.push(finding.clone());
        } else {
            bar.suspend(|| println!("{}", render::line(&line(finding))));
        }
    };
    let work = keeper.scrub(&job, options, tell, care::waits(&bar));
    let report = care::watch(&keeper, &job, &bar, work)?;
    let is_sound = metadata_faults.is_empty();
    let all_read = report.silent_shard_count + report.refused_shard_count == 0;
    let is_clean = is_sound && report.repaired_count == report.finding_count && all_read;
    if arguments.output.json {
        println!("{}", serde_json::to_string_pretty(&Outcome { report, findings, metadata_faults })?);
    } else {
        summary(arguments, &report, job.progress().worked_ms).iter().for_each(|line| println!("{line}"));
    }
    Ok(if is_clean { ExitCode::SUCCESS } else { ExitCode::from(DEGRADED) })
}

/// `segment ...: shard 3 on node b: frame 7 is damaged ...; repaired (/a, /b)`
fn line(finding: &ScrubFinding) -> String {
    let outcome = if finding.repaired { "repaired" } else { "NOT repaired" };
    let ScrubFinding { segment, shard, node, complaint, .. } = finding;
    format!(
        "segment {segment}: shard {shard} on node {node}: {complaint}; {outcome} ({})",
        render::line(&finding.paths.join(", "))
    )
}

fn summary(arguments: &Arguments, report: &ScrubReport, worked_ms: u64) -> Vec<String> {
    let resumed = match report.resumed {
        true => format!(" (resuming the scrub that began {})", care::moment(report.started_ms)),
        false => String::new(),
    };
    let mut lines = vec![format!(
        "read {} of {} in {}{resumed}: {} found lost or damaged, {} repaired",
        render::bytes(report.bytes_verified),
        count(report.segment_count, "segment"),
        care::duration(worked_ms),
        count(report.finding_count, "shard"),
        report.repaired_count,
    )];
    lines.extend(report.failures.iter().map(|failure| format!("not repaired: {failure}")));
    if report.silent_shard_count > 0 {
        let shards = count(report.silent_shard_count, "shard");
        lines.push(format!("{shards} could not be read because their nodes do not answer"));
    }
    if report.refused_shard_count > 0 {
        let shards = count(report.refused_shard_count, "shard");
        lines.push(format!("this user may not read {shards}"));
    }
    lines.extend(care::silent_nodes(&arguments.meta, &report.out_of_reach));
    lines
}
