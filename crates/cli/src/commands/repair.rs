//! `weft repair META`: what was lost is rebuilt from what is left.

use crate::arguments::{Bandwidth, Meta, Output};
use crate::care::{self, DEGRADED, count};
use crate::render;
use anyhow::Result;
use serde::Serialize;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use weft_engine::care::{Job, RepairEstimate, RepairOptions, RepairReport};
use weft_engine::nodes::NodeTable;
use weft_engine::{Keeper, MetaUrl};

/// Rebuild lost shards now, the most endangered files first, and count all shards afterwards
///
/// A mount and `weft care` repair by themselves. A repair may be stopped at any time (Ctrl-C, kill -9) and run again to resume. Exit status: 0 if
/// nothing is missing, 2 if some file survives fewer losses than it should, 3 if some file cannot be read.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  weft repair meta.db
  weft repair meta.db --dry-run
  weft repair meta.db --assume-lost disk2")]
pub struct Arguments {
    #[command(flatten)]
    meta: Meta,
    /// Only report what would be rebuilt, and the cost
    #[arg(short = 'n', long)]
    dry_run: bool,
    #[command(flatten)]
    bandwidth: Bandwidth,
    /// Give up a node that does not answer, and rebuild its shards
    #[arg(long, value_name = "NAME")]
    assume_lost: Vec<String>,
    /// Give nodes up even if this loses files
    #[arg(long, requires = "assume_lost")]
    force: bool,
    /// Read every shard at the end, instead of only asking for its length
    #[arg(long)]
    verify: bool,
    #[command(flatten)]
    output: Output,
}

#[derive(Serialize)]
struct Outcome {
    estimate: RepairEstimate,
    /// Missing after a dry run.
    report: Option<RepairReport>,
}

pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let meta = &arguments.meta;
    let nodes = NodeTable::open(meta)?;
    let presumed_lost = nodes.give_up(&arguments.assume_lost, arguments.force, arguments.dry_run)?;
    let options = RepairOptions { verify: arguments.verify, presumed_lost, ..RepairOptions::default() };
    let keeper = Keeper::limited(meta, &weft_engine::Env::system(), arguments.bandwidth.bwlimit)?;
    let (interrupted, estimate) = (keeper.unfinished_repair()?, keeper.estimate_repair(&options)?);
    if !arguments.output.json {
        if let Some(record) = interrupted {
            let done = count(record.segment_count, "segment");
            println!("resuming the repair that began {}: {done} done before", care::moment(record.started_ms));
        }
        before(&estimate).iter().for_each(|line| println!("{line}"));
    }
    if arguments.dry_run {
        if arguments.output.json {
            println!("{}", serde_json::to_string_pretty(&Outcome { estimate, report: None })?);
        } else {
            care::silent_nodes(meta, &estimate.out_of_reach).iter().for_each(|line| println!("{line}"));
        }
        return Ok(ExitCode::SUCCESS);
    }
    let (job, bar) = (Job::new(&keeper.store.env().clock), care::progress_bar());
    let work = keeper.repair(&job, options, care::waits(&bar));
    let began = Instant::now();
    let report = care::watch(&keeper, &job, &bar, work)?;
    let code = match report.failures.is_empty() || !report.census.is_whole() {
        true => care::exit_code(&report.census),
        // Something could not be mended, whatever the count says.
        false => ExitCode::from(DEGRADED),
    };
    if arguments.output.json {
        println!("{}", serde_json::to_string_pretty(&Outcome { estimate, report: Some(report) })?);
    } else {
        after(meta, &report, began.elapsed()).iter().for_each(|line| println!("{}", render::line(line)));
    }
    Ok(code)
}

/// What is ahead and what it costs.
fn before(estimate: &RepairEstimate) -> Vec<String> {
    let mut lines = Vec::new();
    if estimate.segment_count > 0 {
        let moved = match estimate.misplaced_shard_count {
            0 => String::new(),
            moved => format!(" and {} to move", count(moved, "shard")),
        };
        lines.push(format!(
            "{} to repair: {} to rebuild{moved}, reading {} and writing {}",
            count(estimate.segment_count, "segment"),
            count(estimate.lost_shard_count, "shard"),
            render::bytes(estimate.bytes_to_read),
            render::bytes(estimate.bytes_to_write),
        ));
    } else {
        lines.push("according to the records, nothing needs rebuilding".into());
    }
    if estimate.marked_count > 0 {
        lines.push(format!(
            "{} of them marked as damaged: read completely first",
            count(estimate.marked_count, "segment")
        ));
    }
    if estimate.unreadable_count > 0 {
        let segments = count(estimate.unreadable_count, "segment");
        lines.push(format!("{segments} cannot be rebuilt from the nodes that answer"));
    }
    lines
}

/// What was done, and what the count at the end says.
fn after(meta: &MetaUrl, report: &RepairReport, took: Duration) -> Vec<String> {
    let census = &report.census;
    let moved = match report.moved_count {
        0 => String::new(),
        moved => format!(", moved {}", count(moved, "shard")),
    };
    let sent = render::bytes(report.bytes_read);
    let read = match report.bytes_read_by_nodes > report.bytes_read {
        true => format!("nodes read {} and sent {sent}", render::bytes(report.bytes_read_by_nodes)),
        false => format!("read {sent}"),
    };
    let mut lines = vec![format!(
        "rebuilt {}{moved} of {}: {read}, wrote {}, in {}",
        count(report.rebuilt_count, "shard"),
        count(report.segment_count, "segment"),
        render::bytes(report.bytes_written),
        care::duration(took.as_millis() as u64),
    )];
    for failure in &report.failures {
        lines.push(format!("{} not repaired: {}", count(failure.segment_count, "segment"), failure.reason));
    }
    for node in &report.forgotten_nodes {
        lines.push(format!(
            "node {node} is forgotten, since nothing refers to it any more; the rest of it can be deleted"
        ));
    }
    let how = match census.bytes_verified {
        0 => "counted every shard".to_owned(),
        bytes => format!("read every shard ({})", render::bytes(bytes)),
    };
    lines.push(format!("{how}: {} of {} whole", census.whole_count, count(census.segment_count, "segment")));
    // Of what is lost every name is told.
    lines.extend(care::troubles(census, usize::MAX));
    lines.extend(care::silent_nodes(meta, &report.out_of_reach));
    lines.push(care::survival(census));
    lines
}
