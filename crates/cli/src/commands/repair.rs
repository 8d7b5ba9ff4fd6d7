//! `weft repair META`: what was lost is rebuilt from what is left.

use crate::amount;
use crate::care::{self, DEGRADED, count};
use crate::render;
use anyhow::{Context, Result, bail};
use serde::Serialize;
use std::collections::BTreeSet;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use weft_care::record::REPAIR;
use weft_care::repair::{Estimate, Options, Report};
use weft_care::{Catalogue, Job, JobRecord, Roster};
use weft_engine::Keeper;
use weft_format::NodeId;
use weft_format::records::{NodeRecord, NodeState};

/// Rebuild what was lost, most endangered files first, and count everything afterwards
///
/// Can be stopped (Ctrl-C, or even kill -9) and started again at any time, also while the volume is mounted. Status: 0 when
/// everything is whole, 2 when some file survives fewer losses than it should, 3 when some file cannot be read.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Metadata file of the volume
    meta: PathBuf,
    /// Only say what would be rebuilt and what it costs
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// Read and write at most this many bytes per second, as in 10M
    #[arg(long, value_name = "RATE", value_parser = amount::parse_rate)]
    bwlimit: Option<NonZeroU64>,
    /// Give up a node that does not answer, and rebuild what it held
    #[arg(long, value_name = "NAME")]
    assume_lost: Vec<String>,
    /// Give nodes up also where files are lost by it
    #[arg(long, requires = "assume_lost")]
    force: bool,
    /// At the end read every shard instead of only asking for its length
    #[arg(long)]
    verify: bool,
    /// For programs
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Outcome {
    estimate: Estimate,
    /// Missing after a dry run.
    report: Option<Report>,
}

pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let meta = &arguments.meta;
    let options = Options { verify: arguments.verify, presumed_lost: give_up(arguments)?, ..Options::default() };
    let keeper = Keeper::limited(meta, arguments.bwlimit)?;
    let interrupted = JobRecord::load(&*keeper.catalogue, REPAIR)?.filter(|record| record.ended_ms.is_none());
    let estimate =
        keeper.runtime.block_on(weft_care::repair::estimate(&*keeper.catalogue, &keeper.transfer, &options))?;
    if !arguments.json {
        if let Some(record) = interrupted {
            let done = count(record.segment_count, "segment");
            println!("going on with the repair begun {}: {done} done before", care::moment(record.started_ms));
        }
        before(&estimate).iter().for_each(|line| println!("{line}"));
    }
    if arguments.dry_run {
        if arguments.json {
            println!("{}", serde_json::to_string_pretty(&Outcome { estimate, report: None })?);
        } else {
            care::silent_nodes(meta, &estimate.out_of_reach).iter().for_each(|line| println!("{line}"));
        }
        return Ok(ExitCode::SUCCESS);
    }
    let (job, bar) = (Job::default(), care::progress_bar());
    let catalogue: std::sync::Arc<dyn Catalogue> = keeper.catalogue.clone();
    let work = weft_care::repair::repair(catalogue, &keeper.transfer, &job, options, weft_engine::now_ms()?);
    let began = Instant::now();
    let report = care::watch(&keeper, &job, &bar, work)?;
    let code = match report.failures.is_empty() || !report.census.is_whole() {
        true => care::exit_code(&report.census),
        // Something could not be mended, whatever the count says.
        false => ExitCode::from(DEGRADED),
    };
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&Outcome { estimate, report: Some(report) })?);
    } else {
        after(meta, &report, began.elapsed()).iter().for_each(|line| println!("{}", render::line(line)));
    }
    Ok(code)
}

/// Marks the nodes to be assumed lost as such (not in a dry run). One that answers has lost nothing and is refused.
fn give_up(arguments: &Arguments) -> Result<BTreeSet<NodeId>> {
    if arguments.assume_lost.is_empty() {
        return Ok(BTreeSet::new());
    }
    let meta = &arguments.meta;
    let keeper = Keeper::open(meta)?;
    let roster = keeper.runtime.block_on(Roster::probe(&*keeper.catalogue, &keeper.transfer))?;
    let find = |name: &String| -> Result<(NodeId, NodeRecord)> {
        let found = roster.nodes.iter().find(|(_, facts)| facts.record.name == *name);
        let (id, facts) = found
            .with_context(|| format!("{} has no node {name}: `weft node list` shows those it has", meta.display()))?;
        if facts.answers() {
            bail!(
                "node {name} answers, so nothing of it is lost: to give it up all the same use `weft node replace {} {name} FOLDER`",
                meta.display()
            );
        }
        Ok((*id, facts.record.clone()))
    };
    let nodes = arguments.assume_lost.iter().map(find).collect::<Result<Vec<_>>>()?;
    if !arguments.dry_run {
        if !arguments.force {
            care::refuse_losses(meta, &nodes.iter().map(|(id, _)| *id).collect::<Vec<_>>())?;
        }
        for (id, record) in &nodes {
            keeper.store.update_node(*id, record, &NodeRecord { state: NodeState::Lost, ..record.clone() })?;
        }
        keeper.store.flush()?;
    }
    Ok(nodes.into_iter().map(|(id, _)| id).collect())
}

/// What is ahead and what it costs.
fn before(estimate: &Estimate) -> Vec<String> {
    let mut lines = Vec::new();
    if estimate.segment_count > 0 {
        let moved = match estimate.misplaced_shard_count {
            0 => String::new(),
            moved => format!(" and {} to move", count(moved, "shard")),
        };
        lines.push(format!(
            "{} to mend: {} to rebuild{moved}, reading {} and writing {}",
            count(estimate.segment_count, "segment"),
            count(estimate.lost_shard_count, "shard"),
            render::bytes(estimate.bytes_to_read),
            render::bytes(estimate.bytes_to_write),
        ));
    } else {
        lines.push("by the records nothing is to be rebuilt".into());
    }
    if estimate.marked_count > 0 {
        lines.push(format!("{} of them marked as damaged: read whole first", count(estimate.marked_count, "segment")));
    }
    if estimate.unreadable_count > 0 {
        let segments = count(estimate.unreadable_count, "segment");
        lines.push(format!("{segments} cannot be rebuilt from the nodes that answer"));
    }
    lines
}

/// What was done, and what the count at the end says.
fn after(meta: &Path, report: &Report, took: Duration) -> Vec<String> {
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
        lines.push(format!("{} not mended: {}", count(failure.segment_count, "segment"), failure.reason));
    }
    for node in &report.forgotten_nodes {
        lines.push(format!("nothing refers to node {node} any more: forgotten, what is left of it can be deleted"));
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
