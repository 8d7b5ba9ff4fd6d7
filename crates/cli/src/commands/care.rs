//! `weft care META`: keeps a volume whole while it runs; `weft care status|pause|resume|cancel META`: what all workers are at,
//! and whether they may.

use crate::amount;
use crate::care;
use crate::metrics::{self, Endpoint};
use crate::render;
use crate::signals::Ending;
use anyhow::{Context, Result};
use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use weft_care::balance::{Estimate, Load};
use weft_care::lease::TTL_MS;
use weft_care::record::CareWish;
use weft_care::watch::{Opinion, Patience};
use weft_engine::reports::CareReport;
use weft_engine::{Caring, Keeper, StoreCatalogue};

/// Keep a volume whole: watch its nodes, rebuild what is lost, scrub, clear away
///
/// A mount does so by itself; this is for volumes that are not mounted, and for machines that have more to spare. Any number may
/// run, anywhere: one at a time works.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    /// Metadata file of the volume
    #[arg(required = true)]
    meta: Option<PathBuf>,
    /// A node silent for so long is given up: what it holds is rebuilt elsewhere. If it comes back it is welcome
    #[arg(long, value_name = "TIME", value_parser = care::parse_duration, default_value = "15m")]
    give_up_after: u64,
    /// Read every shard this often; `0` for never
    #[arg(long, value_name = "TIME", value_parser = care::parse_duration, default_value = "30d")]
    scrub_every: u64,
    /// Look this often whether each node holds its share, beside whenever nodes come, go or change; `0`: move nothing for it
    #[arg(long, value_name = "TIME", value_parser = care::parse_duration, default_value = "1d")]
    balance_every: u64,
    /// Show progress, nodes in doubt and segments at risk to Prometheus, at this address of this machine
    #[arg(long, value_name = "HOST:PORT", value_parser = amount::parse_listen)]
    metrics: Option<SocketAddr>,
    /// Read and write at most this many bytes per second, as in 10M
    #[arg(long, value_name = "RATE", value_parser = amount::parse_rate)]
    bwlimit: Option<NonZeroU64>,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// What the worker is at, what it did, and which nodes it doubts
    Status {
        /// Metadata file of the volume
        meta: PathBuf,
        /// For programs
        #[arg(long)]
        json: bool,
    },
    /// Hold what is under way, and begin nothing
    Pause {
        /// Metadata file of the volume
        meta: PathBuf,
    },
    /// Go on after a pause
    #[command(visible_alias = "start")]
    Resume {
        /// Metadata file of the volume
        meta: PathBuf,
    },
    /// Give up what is under way; it is begun again when there is reason to
    Cancel {
        /// Metadata file of the volume
        meta: PathBuf,
    },
}

pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    match &arguments.command {
        None => serve(arguments)?,
        Some(Command::Status { meta, json }) => return status(meta, *json),
        Some(Command::Pause { meta }) => wish(meta, |wish| wish.is_paused = true)?,
        Some(Command::Resume { meta }) => wish(meta, |wish| wish.is_paused = false)?,
        Some(Command::Cancel { meta }) => wish(meta, |wish| wish.cancel_count += 1)?,
    }
    Ok(ExitCode::SUCCESS)
}

impl Arguments {
    /// Does it run until it is told to end?
    pub fn is_service(&self) -> bool {
        self.command.is_none()
    }

    fn patience(&self) -> Patience {
        let unless_never = |every_ms: u64| Some(every_ms).filter(|every_ms| *every_ms > 0);
        Patience {
            give_up_after_ms: self.give_up_after,
            scrub_every_ms: unless_never(self.scrub_every),
            balance_every_ms: unless_never(self.balance_every),
            ..Patience::default()
        }
    }
}

fn serve(arguments: &Arguments) -> Result<()> {
    let meta = arguments.meta.as_deref().context("no metadata file is given")?;
    let listener = arguments.metrics.map(metrics::listen).transpose()?;
    let keeper = Keeper::limited(meta, arguments.bwlimit)?;
    let runtime = keeper.runtime.handle();
    // Caught before the worker begins.
    let mut ending = runtime.block_on(async { Ending::catch() })?;
    let caring = Caring::of_keeper(&keeper, meta, arguments.patience())?;
    let start = |listener| Endpoint::start(listener, caring.metrics(), runtime);
    let _endpoint = listener.map(start).transpose()?;
    tracing::info!(meta = %meta.display(), "caring: Ctrl-C ends it");
    runtime.block_on(ending.asked());
    tracing::info!("ending after the segments in hand");
    Ok(caring.end(runtime)?)
}

/// Tells all workers what people want of them.
pub fn wish(meta: &Path, change: impl FnOnce(&mut CareWish)) -> Result<()> {
    let catalogue = StoreCatalogue::new(Arc::new(weft_engine::open_store(meta)?));
    let mut wish = CareWish::load(&catalogue)?;
    change(&mut wish);
    Ok(wish.store(&catalogue)?)
}

fn status(meta: &Path, json: bool) -> Result<ExitCode> {
    let status = Keeper::open(meta)?.care_report()?;
    if json {
        println!("{}", serde_json::to_string_pretty(&status)?);
    } else {
        lines(meta, &status).iter().for_each(|line| println!("{}", render::line(line)));
    }
    Ok(ExitCode::SUCCESS)
}

/// What is to move, and which nodes it is about.
fn balance_lines(balance: &Estimate) -> Vec<String> {
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

fn lines(meta: &Path, status: &CareReport) -> Vec<String> {
    let mut lines = Vec::new();
    let Some(record) = &status.record else {
        return vec![format!("nobody has cared for it yet: weft care {}, or mount it", meta.display())];
    };
    lines.push(match (status.is_cared_for, record.is_paused) {
        (true, false) => format!("{} cares for it", record.holder),
        (true, true) => {
            format!("{} would care for it, and is paused: weft care resume {}", record.holder, meta.display())
        }
        (false, _) => format!(
            "nobody cares for it since {} (that was {}): weft care {}, or mount it",
            care::moment(record.updated_ms),
            record.holder,
            meta.display()
        ),
    });
    if let (true, Some((deed, progress))) = (status.is_cared_for, &record.now) {
        lines.push(format!("{deed} under way: {}", care::progress_line(progress)));
    }
    if let Some(holder) = status.lease_holder.as_ref().filter(|holder| **holder != record.holder) {
        let seconds = TTL_MS / 1000;
        lines.push(format!("{holder} changes segments now, or has died less than {seconds} s ago"));
    }
    lines.extend(balance_lines(&status.balance));
    for (node, opinion) in &record.doubted {
        lines.push(match opinion {
            Opinion::GivenUp => {
                format!("node {node} is given up: what it held is rebuilt on other nodes, as far as they can take it")
            }
            _ => format!("node {node} cannot be used now; nothing of it is taken for lost yet"),
        });
    }
    lines.extend(
        status.replaced.iter().map(|node| {
            format!("{node} was replaced by a new node, and is forgotten once all that it held is rebuilt")
        }),
    );
    lines.extend(status.conversion.as_ref().map(care::conversion_line));
    lines.extend(care::kept_line(status.kept));
    for past in &record.past {
        let took = care::duration(past.ended_ms.saturating_sub(past.started_ms));
        let mark = if past.is_well { "" } else { " NOT WELL" };
        lines.push(format!("{}{mark}, {}, in {took}: {}", care::moment(past.ended_ms), past.deed, past.what));
    }
    lines
}
