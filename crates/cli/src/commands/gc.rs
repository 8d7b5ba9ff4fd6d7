//! `weft gc META`: shards that nothing needs are removed.

use crate::care::{self, DEGRADED, Keeper, Owner, count};
use crate::render;
use anyhow::Result;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use weft_care::collect::{GRACE_MS, Options, Report};
use weft_care::{Catalogue, Job};

/// Remove shards that nothing needs: of deleted files, and what killed writers and repairs left behind
///
/// What seems to be left behind is only noted when it is seen first, and removed by a later run. Status: 0, or 2 when
/// something stays because a node did not answer.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Metadata file of the volume
    meta: PathBuf,
    /// Leave alone what is younger than this, as in 30s or 2h; while the volume is in use at least 10m
    #[arg(long, value_name = "DURATION", value_parser = care::parse_duration, default_value = "10m")]
    grace: u64,
    /// Only say what would be removed
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// For programs
    #[arg(long)]
    json: bool,
}

pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let keeper = Keeper::open(&arguments.meta)?;
    let in_use = !matches!(care::owner(&arguments.meta), Owner::Nobody);
    let options = Options { grace_ms: arguments.grace, in_use, dry_run: arguments.dry_run };
    let (job, bar) = (Job::default(), care::progress_bar());
    let catalogue: Arc<dyn Catalogue> = keeper.catalogue.clone();
    let work = weft_care::collect::collect(catalogue, &keeper.transfer, &job, options, care::now_ms()?);
    let report = keeper.watch(&job, &bar, work)?;
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        lines(arguments, &report).iter().for_each(|line| println!("{line}"));
    }
    let orphans = &report.orphans;
    let left = report.trash.kept_count > 0 || !orphans.skipped_nodes.is_empty() || !orphans.failures.is_empty();
    Ok(if left { ExitCode::from(DEGRADED) } else { ExitCode::SUCCESS })
}

fn lines(arguments: &Arguments, report: &Report) -> Vec<String> {
    let (trash, orphans) = (&report.trash, &report.orphans);
    let removed = if arguments.dry_run { "would remove" } else { "removed" };
    let mut lines = Vec::new();
    if report.grace_ms > arguments.grace {
        let grace = care::duration(GRACE_MS);
        lines.push(format!("the volume is in use or under repair: what is younger than {grace} is left alone"));
    }
    lines.push(format!(
        "{removed} {} of deleted files ({}); {} within the grace time",
        count(trash.segment_count, "segment"),
        render::bytes(trash.bytes),
        count(trash.young_count, "segment"),
    ));
    if trash.kept_count > 0 {
        let segments = count(trash.kept_count, "segment");
        lines.push(format!("{segments} of deleted files stay until every node with a shard of them answers"));
    }
    lines.push(format!(
        "{removed} {} that no file needs ({}) of {} looked at; {} within the grace time",
        count(orphans.removed_count, "shard"),
        render::bytes(orphans.removed_bytes),
        orphans.listed_count,
        count(orphans.young_count, "shard"),
    ));
    for (node, why) in &orphans.skipped_nodes {
        lines.push(format!("nothing was removed from node {node}: {why}"));
    }
    lines.extend(orphans.failures.iter().map(|failure| format!("not removed: {failure}")));
    if orphans.foreign_count > 0 {
        lines
            .push(format!("{} in node folders are not ours and were left alone", count(orphans.foreign_count, "file")));
    }
    if report.thin_count > 0 {
        lines.push(format!(
            "{} hold more dead bytes than living ones: {} of data that compacting them would free",
            count(report.thin_count, "segment"),
            render::bytes(report.thin_dead_bytes),
        ));
    }
    lines
}
