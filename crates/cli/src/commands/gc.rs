//! `weft gc META`: shards that nothing needs are removed, and segments that are mostly dead are compacted.

use crate::amount;
use crate::care::{self, DEGRADED, Owner, count};
use crate::render;
use anyhow::{Result, bail};
use serde::Serialize;
use std::collections::HashSet;
use std::num::NonZeroU64;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::runtime::Runtime;
use weft_care::collect::{Beside, Options, Report, Retired, Sightings};
use weft_care::{Catalogue, ConvertRecord, Job};
use weft_engine::{Engine, Keeper};
use weft_meta::MetaError;
use weft_transfer::Settings;
use weft_vfs::open::own_store;
use weft_vfs::{Demand, Volume};

/// Remove shards that nothing needs: of deleted files, and what killed writers and repairs left behind
///
/// While the volume is mounted nothing is removed: a mount does so by itself, or `weft care` beside it. Segments with more dead bytes
/// than living ones are compacted, small segments are merged if there are many of them, and segments whose files want unlike codes are
/// divided. Status: 0, or 2 when something stays because a node did not answer.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Metadata file of the volume
    meta: PathBuf,
    /// Leave alone what is younger than this by the machine's clock, as in 30s or 2h
    #[arg(long, value_name = "DURATION", value_parser = care::parse_duration, default_value = "10m")]
    grace: u64,
    /// Only say what would be removed and compacted
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// Compacting, read and write at most this many bytes per second, as in 10M
    #[arg(long, value_name = "RATE", value_parser = amount::parse_rate)]
    bwlimit: Option<NonZeroU64>,
    /// For programs
    #[arg(long)]
    json: bool,
}

pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let keeper = Keeper::open(&arguments.meta)?;
    // Held meanwhile, so that nobody begins to write, as an opening of its own, after which nobody commits what others stored. Who has
    // seen nothing yet removes nothing beside others.
    let alone = match own_store(&arguments.meta, &keeper.transfer, keeper.runtime.handle()) {
        Ok(store) => Some(store),
        Err(MetaError::InUse(_)) => None,
        Err(error) => return Err(error.into()),
    };
    let sightings = Sightings::default();
    let in_use = alone.is_none().then_some(Beside { sightings: &sightings, at_ms: 0 });
    let options = Options { grace_ms: arguments.grace, in_use, dry_run: arguments.dry_run };
    let (job, bar) = (Job::default(), care::progress_bar());
    let catalogue: Arc<dyn Catalogue> = keeper.catalogue.clone();
    let work = weft_care::collect::collect(catalogue, &keeper.transfer, &job, options, weft_engine::now_ms()?);
    let report = care::watch(&keeper, &job, &bar, work)?;
    drop(alone);
    let mut compaction = Compaction::default();
    // After the collection, which makes room for it.
    let divided_count = ConvertRecord::load(&*keeper.catalogue)?.map_or(0, |last| last.divided_count);
    let work_count = report.thin_count + report.small_count + divided_count;
    if work_count > 0
        && !arguments.dry_run
        && let Err(error) = compaction.run(arguments, work_count, &keeper.runtime)
    {
        compaction.failure = Some(format!("{error:#}"));
    }
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&Outcome { report: &report, compaction: &compaction })?);
    } else {
        let lines = [lines(arguments, &report), compaction_lines(&report, &compaction)].concat();
        lines.iter().for_each(|line| println!("{}", render::line(line)));
    }
    let orphans = &report.orphans;
    let left = report.trash.kept_count + report.retired.kept_count > 0
        || !orphans.skipped_nodes.is_empty()
        || !orphans.failures.is_empty();
    Ok(if left || compaction.failure.is_some() { ExitCode::from(DEGRADED) } else { ExitCode::SUCCESS })
}

/// All that is told to programs.
#[derive(Serialize)]
struct Outcome<'r> {
    #[serde(flatten)]
    report: &'r Report,
    compaction: &'r Compaction,
}

/// What became of segments that are mostly dead, and of small ones.
#[derive(Default, Serialize)]
struct Compaction {
    /// Segments that were mostly dead and now have no living byte.
    segment_count: u64,
    /// Small segments whose bytes are now in larger ones.
    merged_count: u64,
    /// Living bytes that were moved to new segments.
    moved_bytes: u64,
    /// Bytes of shards that will be removed with the emptied segments.
    freed_bytes: u64,
    /// Who has the volume: only its owner may compact it.
    left_to: Option<String>,
    /// Why it ended early.
    failure: Option<String>,
}

impl Compaction {
    /// As the volume's owner for the time it takes; what was done before a failure counts.
    fn run(&mut self, arguments: &Arguments, work_count: u64, runtime: &Runtime) -> Result<()> {
        match care::owner(&arguments.meta) {
            Owner::Nobody => {}
            Owner::Somebody(holder) => {
                let and = match holder.mountpoint {
                    Some(_) => "which compacts by itself when it is quiet and enough is dead",
                    None => "so run gc again when it has ended",
                };
                self.left_to = Some(format!("the volume is in use by {holder}, {and}"));
                return Ok(());
            }
            Owner::Unknown => bail!("it cannot be told whether the volume is in use"),
        }
        let settings = Settings { bytes_per_second: arguments.bwlimit, ..Settings::default() };
        let options = weft_engine::Options { transfer: settings, ..weft_engine::Options::default() };
        let engine = Engine::open(&arguments.meta, options)?;
        let outcome = self.rounds(engine.volume(), work_count, runtime);
        engine.close()?;
        outcome
    }

    /// Until nothing is left to compact. Ctrl-C ends it after the round at hand, a second one at once.
    fn rounds(&mut self, volume: &Volume, work_count: u64, runtime: &Runtime) -> Result<()> {
        let interrupted = Arc::new(AtomicBool::new(false));
        let flag = interrupted.clone();
        let watch = runtime.spawn(async move {
            while tokio::signal::ctrl_c().await.is_ok() {
                if flag.swap(true, Ordering::Relaxed) {
                    // Nothing is lost: what is half done was not begun as far as files are concerned.
                    std::process::exit(130);
                }
            }
        });
        let bar = care::progress_bar();
        bar.set_length(work_count);
        let mut tried = HashSet::new();
        let mut outcome = Ok(());
        while !interrupted.load(Ordering::Relaxed) {
            match volume.compact(Demand::Any, &mut tried) {
                Ok(round) if round.chosen_count == 0 => break,
                Ok(round) => {
                    self.segment_count += round.emptied_count - round.merged_count;
                    self.merged_count += round.merged_count;
                    self.moved_bytes += round.moved_bytes;
                    self.freed_bytes += round.freed_bytes;
                    bar.set_position(tried.len() as u64);
                    bar.set_message(format!("compacting: {} moved", render::bytes(self.moved_bytes)));
                }
                Err(error) => {
                    outcome = Err(error.into());
                    break;
                }
            }
        }
        bar.finish_and_clear();
        watch.abort();
        outcome
    }
}

fn lines(arguments: &Arguments, report: &Report) -> Vec<String> {
    let (trash, retired, orphans) = (&report.trash, &report.retired, &report.orphans);
    let removed = if arguments.dry_run { "would remove" } else { "removed" };
    let mut lines = Vec::new();
    if report.in_use {
        let what = "the volume is in use or under repair: what nobody needs is left to the mount, or to weft care, which has watched it";
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
        lines.push(format!("{segments} of deleted files stay until every node with a shard of them answers"));
    }
    if *retired != Retired::default() {
        lines.push(format!(
            "{removed} {} of segments that were converted or moved ({}); {} ({}) kept until their time is over",
            count(retired.generation_count, "former generation"),
            render::bytes(retired.bytes),
            retired.young_count,
            render::bytes(retired.young_bytes),
        ));
    }
    if retired.kept_count > 0 {
        let generations = count(retired.kept_count, "former generation");
        lines.push(format!("{generations} stay until every node with a shard of them answers"));
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
    if orphans.unknown_count > 0 {
        lines.push(format!(
            "{} of openings that this metadata does not know are kept: other metadata of the volume stored them",
            count(orphans.unknown_count, "shard")
        ));
    }
    if orphans.foreign_count > 0 {
        lines
            .push(format!("{} in node folders are not ours and were left alone", count(orphans.foreign_count, "file")));
    }
    lines
}

fn compaction_lines(report: &Report, compaction: &Compaction) -> Vec<String> {
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
        let mut line = format!("{left} {verb} more dead bytes than living ones");
        if compaction.segment_count == 0 {
            line += &format!(": {} of data that compacting would free", render::bytes(report.thin_dead_bytes));
        }
        lines.push(line);
    }
    lines.extend(compaction.left_to.iter().map(|who| format!("not compacted: {who}")));
    lines.extend(compaction.failure.iter().map(|failure| format!("not compacted: {failure}")));
    lines
}
