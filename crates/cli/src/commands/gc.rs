//! `weft gc META`: shards that nothing needs are removed, and segments that are mostly dead are compacted.

use crate::arguments::{Bandwidth, Meta, Output};
use crate::care::{self, DEGRADED, count};
use crate::render;
use anyhow::Result;
use serde::Serialize;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use weft_engine::care::{CollectReport, Job, Retained};
use weft_engine::{Compaction, Keeper};

/// Remove unneeded shards of deleted files and of interrupted writes and repairs
///
/// While the volume is mounted, this command removes nothing: the mount or `weft care` does it. Segments with more dead than live
/// bytes are compacted, many small segments are merged, and segments shared by files of different policies are divided. Exit status: 0, or 2 if
/// something was kept because a node did not answer.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  weft gc meta.db --dry-run
  weft gc meta.db")]
pub struct Arguments {
    #[command(flatten)]
    meta: Meta,
    /// Keep everything younger than this, as in 30s or 2h
    #[arg(long, value_name = "TIME", value_parser = care::parse_duration, default_value = "10m")]
    grace: u64,
    /// Only report what would be removed and compacted
    #[arg(short = 'n', long)]
    dry_run: bool,
    #[command(flatten)]
    bandwidth: Bandwidth,
    #[command(flatten)]
    output: Output,
}

pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let keeper = Keeper::open(&arguments.meta, &weft_engine::Env::system())?;
    let hold = keeper.hold()?;
    let (job, bar) = (Job::new(&keeper.store.env().clock), care::progress_bar());
    let what = (arguments.grace, arguments.dry_run);
    let work = keeper.collect(&job, hold.as_ref(), what, care::waits(&bar));
    let report = care::watch(&keeper, &job, &bar, work)?;
    drop(hold);
    // After the collection, which makes room for it.
    let work_count = report.thin_count + report.small_count + keeper.divided_count()?;
    let compaction = match work_count {
        0 => Compaction::default(),
        _ if arguments.dry_run => Compaction::default(),
        _ => compact(arguments, &keeper, work_count),
    };
    if arguments.output.json {
        println!("{}", serde_json::to_string_pretty(&Outcome { report: &report, compaction: &compaction })?);
    } else {
        let lines = [lines(arguments, &report), compaction_lines(&report, &compaction)].concat();
        lines.iter().for_each(|line| println!("{}", render::line(line)));
    }
    let orphans = &report.orphans;
    let left = report.trash.kept_count + report.retained.kept_count > 0
        || !orphans.skipped_nodes.is_empty()
        || !orphans.failures.is_empty();
    Ok(if left || compaction.failure.is_some() { ExitCode::from(DEGRADED) } else { ExitCode::SUCCESS })
}

/// All that is told to programs.
#[derive(Serialize)]
struct Outcome<'r> {
    #[serde(flatten)]
    report: &'r CollectReport,
    compaction: &'r Compaction,
}

/// Until nothing is left to compact. Ctrl-C ends it after the round at hand, a second one at once.
fn compact(arguments: &Arguments, keeper: &Keeper, work_count: u64) -> Compaction {
    let interrupted = Arc::new(AtomicBool::new(false));
    let flag = interrupted.clone();
    let watch = keeper.runtime.spawn(async move {
        while tokio::signal::ctrl_c().await.is_ok() {
            if flag.swap(true, Ordering::Relaxed) {
                // Nothing is lost: what is half done was not begun as far as files are concerned.
                std::process::exit(130);
            }
        }
    });
    let bar = care::progress_bar();
    bar.set_length(work_count);
    let compaction = Compaction::run(&arguments.meta, arguments.bandwidth.bwlimit, |so_far, tried| {
        bar.set_position(tried);
        bar.set_message(format!("compacting: {} moved", render::bytes(so_far.moved_bytes)));
        !interrupted.load(Ordering::Relaxed)
    });
    bar.finish_and_clear();
    watch.abort();
    compaction
}

fn lines(arguments: &Arguments, report: &CollectReport) -> Vec<String> {
    let (trash, retained, orphans) = (&report.trash, &report.retained, &report.orphans);
    let removed = if arguments.dry_run { "would remove" } else { "removed" };
    let mut lines = Vec::new();
    if report.in_use {
        let what = "the volume is in use or under repair: the mount or weft care, which has watched it, removes unneeded shards";
        lines.push(what.into());
    }
    lines.push(format!(
        "{removed} {} of deleted files ({}); {} within the grace time",
        count(trash.segment_count, "segment"),
        render::bytes(trash.bytes),
        count(trash.young_count, "segment"),
    ));
    if trash.kept_count > 0 {
        let segments = count(trash.kept_count, "segment");
        lines.push(format!("{segments} of deleted files are kept until every node with a shard of them answers"));
    }
    if *retained != Retained::default() {
        lines.push(format!(
            "{removed} {} of segments that were converted or moved ({}); {} ({}) within the grace time",
            count(retained.generation_count, "previous generation"),
            render::bytes(retained.bytes),
            retained.young_count,
            render::bytes(retained.young_bytes),
        ));
    }
    if retained.kept_count > 0 {
        let generations = count(retained.kept_count, "previous generation");
        lines.push(format!("{generations} are kept until every node with a shard of them answers"));
    }
    lines.push(format!(
        "{removed} {} that no file needs ({}) of {} checked; {} within the grace time",
        count(orphans.removed_count, "shard"),
        render::bytes(orphans.removed_bytes),
        orphans.listed_count,
        count(orphans.young_count, "shard"),
    ));
    for (node, why) in &orphans.skipped_nodes {
        lines.push(format!("nothing was removed from node {node}: {why}"));
    }
    lines.extend(orphans.failures.iter().map(|failure| format!("not removed: {failure}")));
    if orphans.unknown_count > 0 {
        lines.push(format!(
            "{} of openings that this metadata does not know are kept: they belong to other metadata of the volume",
            count(orphans.unknown_count, "shard")
        ));
    }
    if orphans.foreign_count > 0 {
        lines.push(format!(
            "{} in node folders do not belong to WeftFS and were left alone",
            count(orphans.foreign_count, "file")
        ));
    }
    lines
}

fn compaction_lines(report: &CollectReport, compaction: &Compaction) -> Vec<String> {
    let mut lines = Vec::new();
    if compaction.segment_count + compaction.merged_count > 0 {
        let of_these = match compaction.merged_count {
            0 => String::new(),
            small => format!(", {small} of them small"),
        };
        lines.push(format!(
            "compacted {}{of_these}: {} moved; their shards ({}) are removed after the grace time",
            count(compaction.segment_count + compaction.merged_count, "segment"),
            render::bytes(compaction.moved_bytes),
            render::bytes(compaction.freed_bytes),
        ));
    }
    if compaction.segment_count < report.thin_count {
        let left = count(report.thin_count - compaction.segment_count, "segment");
        let verb = if report.thin_count - compaction.segment_count == 1 { "holds" } else { "hold" };
        let mut line = format!("{left} {verb} more dead than live bytes");
        if compaction.segment_count == 0 {
            line += &format!(": compacting would free {} of data", render::bytes(report.thin_dead_bytes));
        }
        lines.push(line);
    }
    lines.extend(compaction.left_to.iter().map(|who| format!("not compacted: {who}")));
    lines.extend(compaction.failure.iter().map(|failure| format!("not compacted: {failure}")));
    lines
}
