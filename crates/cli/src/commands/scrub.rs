//! `weft scrub META`: every shard is read and checked.

use crate::amount;
use crate::care::{self, DEGRADED, count};
use crate::render;
use anyhow::Result;
use serde::Serialize;
use std::num::NonZeroU64;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use weft_care::scrub::{Finding, Options, Report};
use weft_care::{Catalogue, Job};
use weft_engine::Keeper;

/// Read every shard, tell what is damaged, missing or misplaced, and repair it
///
/// The metadata is read and compared with its checksums, too. An interrupted scrub goes on where it stopped. Status: 0 when
/// everything was read and nothing is left to repair, 2 otherwise.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Metadata file of the volume
    meta: PathBuf,
    /// Only tell, and mark for `weft repair`
    #[arg(short = 'n', long)]
    no_repair: bool,
    /// Read and write at most this many bytes per second, as in 10M
    #[arg(long, value_name = "RATE", value_parser = amount::parse_rate)]
    bwlimit: Option<NonZeroU64>,
    /// For programs
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Outcome {
    report: Report,
    findings: Vec<Finding>,
    /// What is wrong with the metadata store itself.
    metadata_faults: Vec<String>,
}

pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let keeper = Keeper::limited(&arguments.meta, arguments.bwlimit)?;
    let options = Options { repair: !arguments.no_repair, ..Options::default() };
    let metadata_faults = keeper.store.verify()?;
    if !arguments.json {
        let fault = |fault: &String| println!("the metadata store is not as it was left: {fault}");
        metadata_faults.iter().for_each(fault);
    }
    let (job, bar) = (Job::default(), care::progress_bar());
    let mut findings = Vec::new();
    let tell = |finding: &Finding| {
        if arguments.json {
            findings.push(finding.clone());
        } else {
            bar.suspend(|| println!("{}", render::line(&line(finding))));
        }
    };
    let catalogue: Arc<dyn Catalogue> = keeper.catalogue.clone();
    let work = weft_care::scrub::scrub(catalogue, &keeper.transfer, &job, options, weft_engine::now_ms()?, tell);
    let report = care::watch(&keeper, &job, &bar, work)?;
    let is_sound = metadata_faults.is_empty();
    let all_read = report.silent_shard_count + report.refused_shard_count == 0;
    let is_clean = is_sound && report.repaired_count == report.finding_count && all_read;
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&Outcome { report, findings, metadata_faults })?);
    } else {
        summary(arguments, &report, job.progress().worked_ms).iter().for_each(|line| println!("{line}"));
    }
    Ok(if is_clean { ExitCode::SUCCESS } else { ExitCode::from(DEGRADED) })
}

/// `segment ...: shard 3 on node b: frame 7 is damaged ...; repaired (/a, /b)`
fn line(finding: &Finding) -> String {
    let outcome = if finding.repaired { "repaired" } else { "NOT repaired" };
    let Finding { segment, shard, node, complaint, .. } = finding;
    format!(
        "segment {segment}: shard {shard} on node {node}: {complaint}; {outcome} ({})",
        render::line(&finding.paths.join(", "))
    )
}

fn summary(arguments: &Arguments, report: &Report, worked_ms: u64) -> Vec<String> {
    let resumed = match report.resumed {
        true => format!(" (going on with the scrub begun {})", care::moment(report.started_ms)),
        false => String::new(),
    };
    let mut lines = vec![format!(
        "read {} of {} in {}{resumed}: {} found wanting, {} repaired",
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
        lines.push(format!("{shards} could not be read because this user may not read them"));
    }
    lines.extend(care::silent_nodes(&arguments.meta, &report.out_of_reach));
    lines
}
