//! `weft care META`: keeps a volume whole while it runs; `weft care status|pause|resume|cancel META`: what all workers are at,
//! and whether they may.

use crate::amount;
use crate::arguments::{Bandwidth, META_HELP, Meta, Output, meta_url};
use crate::care;
use crate::metrics::{self, Endpoint};
use crate::render;
use crate::signals::Ending;
use anyhow::{Context, Result};
use std::net::SocketAddr;
use std::process::ExitCode;
use weft_engine::CareRequest;
use weft_engine::MetaUrl;
use weft_engine::care::{BalanceEstimate, LEASE_MS, Load, Timeouts, Verdict};
use weft_engine::reports::CareReport;
use weft_engine::{Caring, Keeper};

/// Keep a volume whole: watch its nodes, rebuild lost shards, scrub, balance, collect garbage
///
/// A mount does this by itself. Use `weft care` for volumes that are not mounted, or on a machine with time to spare. Any number may run
/// on any machines; one at a time does the work.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  weft care meta.db
  weft care meta.db --bwlimit 50M --metrics localhost:9100")]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    #[arg(help = META_HELP, value_parser = meta_url(), required = true)]
    meta: Option<MetaUrl>,
    /// Give up a node after this long without an answer, and rebuild its shards elsewhere; it is taken back if it returns
    #[arg(long, value_name = "TIME", value_parser = care::parse_duration, default_value = "15m")]
    give_up_after: u64,
    /// Read every shard this often (0 = never)
    #[arg(long, value_name = "TIME", value_parser = care::parse_duration, default_value = "30d")]
    scrub_every: u64,
    /// Balance the nodes this often, and whenever nodes change (0 = never)
    #[arg(long, value_name = "TIME", value_parser = care::parse_duration, default_value = "1d")]
    balance_every: u64,
    /// Serve metrics for Prometheus at this local address: progress, suspect nodes, segments at risk
    #[arg(long, value_name = "HOST:PORT", value_parser = amount::parse_listen)]
    metrics: Option<SocketAddr>,
    #[command(flatten)]
    bandwidth: Bandwidth,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Show the task in progress, the tasks that ended, and suspected nodes
    #[command(after_help = "Example:
  weft care status meta.db")]
    Status {
        #[command(flatten)]
        meta: Meta,
        #[command(flatten)]
        output: Output,
    },
    /// Pause the task in progress, and start no other
    #[command(after_help = "Example:
  weft care pause meta.db")]
    Pause {
        #[command(flatten)]
        meta: Meta,
    },
    /// Resume after a pause
    #[command(
        visible_alias = "start",
        after_help = "Example:
  weft care resume meta.db"
    )]
    Resume {
        #[command(flatten)]
        meta: Meta,
    },
    /// Cancel the task in progress; the worker starts it again when it is due
    #[command(after_help = "Example:
  weft care cancel meta.db")]
    Cancel {
        #[command(flatten)]
        meta: Meta,
    },
}

pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    match &arguments.command {
        None => serve(arguments)?,
        Some(Command::Status { meta, output }) => return status(meta, output.json),
        Some(Command::Pause { meta }) => weft_engine::request_care(meta, CareRequest::Pause)?,
        Some(Command::Resume { meta }) => weft_engine::request_care(meta, CareRequest::Resume)?,
        Some(Command::Cancel { meta }) => weft_engine::request_care(meta, CareRequest::Cancel)?,
    }
    Ok(ExitCode::SUCCESS)
}

impl Arguments {
    /// Does it run until it is told to end?
    pub fn is_service(&self) -> bool {
        self.command.is_none()
    }

    fn timeouts(&self) -> Timeouts {
        let unless_never = |every_ms: u64| Some(every_ms).filter(|every_ms| *every_ms > 0);
        Timeouts {
            give_up_after_ms: self.give_up_after,
            scrub_every_ms: unless_never(self.scrub_every),
            balance_every_ms: unless_never(self.balance_every),
            ..Timeouts::default()
        }
    }
}

fn serve(arguments: &Arguments) -> Result<()> {
    let meta = arguments.meta.as_ref().context("no metadata file is given")?;
    let listener = arguments.metrics.map(metrics::listen).transpose()?;
    let keeper = Keeper::limited(meta, &weft_engine::Env::system(), arguments.bandwidth.bwlimit)?;
    let runtime = keeper.runtime.handle();
    // Caught before the worker begins.
    let mut ending = runtime.block_on(async { Ending::catch() })?;
    let caring = Caring::of_keeper(&keeper, meta, arguments.timeouts())?;
    let start = |listener| Endpoint::start(listener, caring.metrics(), runtime);
    let _endpoint = listener.map(start).transpose()?;
    tracing::info!(meta = %meta, "caring for the volume: Ctrl-C ends it");
    runtime.block_on(ending.asked());
    tracing::info!("ending after the segments in hand");
    Ok(caring.end(runtime)?)
}

fn status(meta: &MetaUrl, json: bool) -> Result<ExitCode> {
    let status = Keeper::open(meta, &weft_engine::Env::system())?.care_report()?;
    if json {
        println!("{}", serde_json::to_string_pretty(&status)?);
    } else {
        lines(meta, &status).iter().for_each(|line| println!("{}", render::line(line)));
    }
    Ok(ExitCode::SUCCESS)
}

/// What is to move, and which nodes it is about.
fn balance_lines(balance: &BalanceEstimate) -> Vec<String> {
    if !balance.is_out {
        return Vec::new();
    }
    let line = |load: &Load| {
        format!(
            "  node {} holds {} of its {}",
            load.node,
            render::bytes(load.held_bytes),
            render::bytes(load.share_bytes)
        )
    };
    std::iter::once(care::balance_sentence(balance)).chain(balance.loads.iter().map(line)).collect()
}

fn lines(meta: &MetaUrl, status: &CareReport) -> Vec<String> {
    let mut lines = Vec::new();
    let Some(record) = &status.record else {
        return vec![format!("no worker has cared for the volume yet: weft care {}, or mount it", meta)];
    };
    lines.push(match (status.is_cared_for, record.is_paused) {
        (true, false) => format!("{} cares for the volume", record.holder),
        (true, true) => {
            format!("{} is paused: weft care resume {}", record.holder, meta)
        }
        (false, _) => format!(
            "no worker has cared for the volume since {} (the last was {}): weft care {}, or mount it",
            care::moment(record.updated_ms),
            record.holder,
            meta
        ),
    });
    if let (true, Some((task, progress))) = (status.is_cared_for, &record.now) {
        lines.push(format!("{task} in progress: {}", care::progress_line(progress)));
    }
    if let Some(holder) = status.lease_holder.as_ref().filter(|holder| **holder != record.holder) {
        let seconds = LEASE_MS / 1000;
        lines.push(format!("{holder} is changing segments, or died less than {seconds} s ago"));
    }
    lines.extend(balance_lines(&status.balance));
    for (node, verdict) in &record.doubted {
        lines.push(match verdict {
            Verdict::GivenUp => {
                format!("node {node} is given up: its shards are rebuilt on other nodes, as far as they have room")
            }
            _ => format!("node {node} cannot be used now; its shards do not count as lost yet"),
        });
    }
    lines.extend(
        status
            .replaced
            .iter()
            .map(|node| format!("{node} was replaced by a new node, and is forgotten when all its shards are rebuilt")),
    );
    lines.extend(status.conversion.as_ref().map(care::conversion_line));
    lines.extend(care::kept_line(status.kept));
    for entry in &record.history {
        let took = care::duration(entry.ended_ms.saturating_sub(entry.started_ms));
        let mark = if entry.is_well { "" } else { " INCOMPLETE" };
        lines.push(format!("{}{mark}, {}, in {took}: {}", care::moment(entry.ended_ms), entry.task, entry.what));
    }
    lines
}
