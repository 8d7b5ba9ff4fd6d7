//! `weft-sim`: runs histories of the simulator.

use anyhow::{Result, bail};
use clap::Parser;
use std::ops::Range;
use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;
use weft_env::planted::{Planted, with_planted};
use weft_sim::chaos;
use weft_sim::engine;
use weft_sim::history::run;
use weft_sim::length::Length;
use weft_sim::many_care;
use weft_sim::product_log;
use weft_sim::shrink::shrink;

/// Histories that one process runs: what killed processes leave is never dropped.
const BATCH: u64 = 50;
const CANARY_BATCH: u64 = 20;
/// A process may have the open files that this number leaves.
const ENGINE_BATCH: u64 = 200;
/// This number of brief histories takes as long as a whole one.
const BRIEF_FACTOR: u64 = 20;

/// Run histories of the simulator.
#[derive(Debug, clap::Parser)]
#[command(name = "weft-sim", version)]
enum Arguments {
    /// Run the histories of many seeds and list those that fail
    Run {
        /// The seeds, as in 0..1000
        #[arg(long, value_parser = parse_seeds)]
        seeds: Range<u64>,
        /// The most faults of a history [default: as many as it has]
        #[arg(long)]
        faults: Option<u64>,
        /// Brief histories: few steps and faults, but many of them
        #[arg(long)]
        brief: bool,
        /// Reach the nodes over HTTP in all of them
        #[arg(long)]
        http: bool,
        /// Processes at once
        #[arg(long, default_value_t = 2)]
        jobs: usize,
    },
    /// Run histories of several mounts that change one volume together
    Many {
        /// The seeds, as in 0..1000
        #[arg(long, value_parser = parse_seeds)]
        seeds: Range<u64>,
        /// Together with workers, commands and faults of nodes
        #[arg(long)]
        care: bool,
        /// Reach the nodes over HTTP in all of them
        #[arg(long, requires = "care")]
        http: bool,
        /// Processes at once
        #[arg(long, default_value_t = 2)]
        jobs: usize,
    },
    /// Run histories of daemons that gossip
    Gossip {
        /// The seeds, as in 0..1000
        #[arg(long, value_parser = parse_seeds)]
        seeds: Range<u64>,
        /// Processes at once
        #[arg(long, default_value_t = 2)]
        jobs: usize,
    },
    /// Run histories of a store of objects without a catalogue
    Objects {
        /// The seeds, as in 0..1000
        #[arg(long, value_parser = parse_seeds)]
        seeds: Range<u64>,
        /// Processes at once
        #[arg(long, default_value_t = 2)]
        jobs: usize,
    },
    /// Run histories of the SQLite engine alone: its threads in many orders, and crashes that take what was not synced
    Engine {
        /// The seeds, as in 0..1000
        #[arg(long, value_parser = parse_seeds)]
        seeds: Range<u64>,
        /// Processes at once
        #[arg(long, default_value_t = 2)]
        jobs: usize,
    },
    /// Run histories of the write-behind that owners of volumes on servers have
    Behind {
        /// The seeds, as in 0..1000
        #[arg(long, value_parser = parse_seeds)]
        seeds: Range<u64>,
        /// Processes at once
        #[arg(long, default_value_t = 2)]
        jobs: usize,
    },
    /// Run one history and print all that happens
    Replay {
        /// The seed
        seed: u64,
        /// The most faults of the history [default: as many as it has]
        #[arg(long)]
        faults: Option<u64>,
        /// The brief history of the seed
        #[arg(long)]
        brief: bool,
        /// The history of the seed with nodes that are reached over HTTP
        #[arg(long)]
        http: bool,
        /// The history of the SQLite engine of the seed
        #[arg(long, conflicts_with_all = ["faults", "brief", "http", "without"])]
        engine: bool,
        /// The history of the write-behind of the seed
        #[arg(long, conflicts_with_all = ["faults", "brief", "without", "engine"])]
        behind: bool,
        /// The history of daemons that gossip of the seed
        #[arg(long, conflicts_with_all = ["faults", "brief", "without", "engine", "behind", "log"])]
        gossip: bool,
        /// The history of several mounts with workers, commands and faults of nodes of the seed
        #[arg(long, conflicts_with_all = ["brief", "engine", "behind", "gossip"])]
        care: bool,
        /// The history of a store of objects of the seed
        #[arg(long, conflicts_with_all = ["faults", "brief", "without", "engine", "behind", "gossip", "care"])]
        objects: bool,
        /// Numbers of faults that do not strike, as `shrink` prints them
        #[arg(long, value_delimiter = ',')]
        without: Vec<u64>,
        /// Tell what the product's code logs, too: error, warn, info, debug or trace
        #[arg(long)]
        log: Option<tracing::Level>,
    },
    /// Find a smaller history of this seed that fails too
    Shrink {
        /// The seed
        seed: u64,
        /// The brief history of the seed
        #[arg(long)]
        brief: bool,
        /// The history of the seed with nodes that are reached over HTTP
        #[arg(long)]
        http: bool,
        /// The history of several mounts with workers, commands and faults of nodes of the seed
        #[arg(long, conflicts_with = "brief")]
        care: bool,
    },
    /// Plant bugs, one at a time, and say after how many seeds each is found
    Canaries {
        /// The most seeds for each
        #[arg(long, default_value_t = 300)]
        seeds_max: u64,
        /// Brief histories
        #[arg(long)]
        brief: bool,
        /// Bugs of daemons and their users, in histories in which nodes are reached over HTTP
        #[arg(long)]
        http: bool,
        /// Bugs of the SQLite engine, in its histories
        #[arg(long, conflicts_with_all = ["brief", "http"])]
        engine: bool,
        /// Bugs of the store of objects, in its histories
        #[arg(long, conflicts_with_all = ["brief", "http", "engine"])]
        objects: bool,
        /// Bugs of a volume, in histories of several mounts with workers, commands and faults of nodes
        #[arg(long, conflicts_with_all = ["brief", "engine", "objects"])]
        care: bool,
    },
    /// Let programs work on a real mount with real daemons while they are killed, stopped, cut off and without power (as root)
    Chaos {
        /// How long faults strike
        #[arg(long)]
        minutes: f64,
        /// Decides which faults strike and what programs do [default: a random one]
        #[arg(long)]
        seed: Option<u64>,
        /// On how many machines the volume is mounted; several have its metadata on PostgreSQL
        #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=5))]
        mounts: u8,
        /// The program `weft` [default: the one beside this program]
        #[arg(long, value_name = "PROGRAM")]
        weft: Option<PathBuf>,
        /// Print the log while it is written
        #[arg(long)]
        verbose: bool,
    },
    /// Look for one planted bug in this process
    #[command(hide = true)]
    Canary {
        /// Its number in the list of all
        number: usize,
        /// The seeds
        #[arg(value_parser = parse_seeds)]
        seeds: Range<u64>,
        /// Brief histories
        #[arg(long)]
        brief: bool,
        /// Histories over HTTP
        #[arg(long)]
        http: bool,
        /// Histories of the SQLite engine
        #[arg(long)]
        engine: bool,
        /// Histories of a store of objects
        #[arg(long)]
        objects: bool,
        /// Histories of several mounts with care
        #[arg(long)]
        care: bool,
    },
    /// Run a batch in this process; prints a line for each failure and a sum
    #[command(hide = true)]
    Batch {
        /// The seeds
        #[arg(value_parser = parse_seeds)]
        seeds: Range<u64>,
        /// The most faults of a history
        #[arg(long)]
        faults: Option<u64>,
        /// Brief histories
        #[arg(long)]
        brief: bool,
        /// Histories over HTTP
        #[arg(long)]
        http: bool,
        /// Histories of the SQLite engine
        #[arg(long)]
        engine: bool,
        /// Histories of the write-behind
        #[arg(long)]
        behind: bool,
        /// Histories of daemons that gossip
        #[arg(long)]
        gossip: bool,
        /// Histories of several mounts with care
        #[arg(long)]
        care: bool,
        /// Histories of a store of objects
        #[arg(long)]
        objects: bool,
    },
}

fn length(faults: Option<u64>, is_brief: bool, is_over_http: bool) -> Length {
    let whole = Length { is_over_http, ..Length::whole(is_brief) };
    Length { faults: faults.unwrap_or(whole.faults), ..whole }
}

fn parse_seeds(text: &str) -> Result<Range<u64>, String> {
    let parse = || {
        let (first, end) = text.split_once("..")?;
        Some(first.parse().ok()?..end.parse().ok()?)
    };
    parse().ok_or_else(|| format!("`{text}` is no range of seeds: give FIRST..END"))
}

fn main() -> Result<()> {
    match Arguments::parse() {
        Arguments::Run { seeds, faults, brief, http, jobs } => {
            let mut options: Vec<String> = faults.map(|faults| format!("--faults={faults}")).into_iter().collect();
            options.extend(brief.then(|| "--brief".to_owned()));
            options.extend(http.then(|| "--http".to_owned()));
            let batch = BATCH * if brief { BRIEF_FACTOR } else { 1 };
            run_many(seeds, batch, &options, jobs, ["steps", "operations", "fsyncs", "faults"])
        }
        Arguments::Engine { seeds, jobs } => {
            run_many(seeds, ENGINE_BATCH, &["--engine".into()], jobs, ["steps", "commits", "flushes", "deaths"])
        }
        Arguments::Behind { seeds, jobs } => {
            run_many(seeds, ENGINE_BATCH, &["--behind".into()], jobs, ["steps", "commits", "flushes", "deaths"])
        }
        Arguments::Many { seeds, care: true, http, jobs } => {
            let mut options = vec!["--care".to_owned()];
            options.extend(http.then(|| "--http".to_owned()));
            run_many(seeds, CANARY_BATCH, &options, jobs, ["steps", "operations", "mounts", "faults"])
        }
        Arguments::Many { seeds, .. } => {
            let count = seeds.end - seeds.start;
            let failed: Vec<_> = seeds
                .map(|seed| (seed, weft_sim::many::run(seed).complaints))
                .filter(|(_, found)| !found.is_empty())
                .collect();
            failed.iter().for_each(|(seed, complaints)| println!("FAILED {seed}: {}", complaints.join("; ")));
            println!("{count} histories, {} failed", failed.len());
            if failed.is_empty() { Ok(()) } else { bail!("not as promised") }
        }
        Arguments::Gossip { seeds, jobs } => {
            run_many(seeds, ENGINE_BATCH, &["--gossip".into()], jobs, ["steps", "packets", "starts", "faults"])
        }
        Arguments::Objects { seeds, jobs } => {
            run_many(seeds, BATCH, &["--objects".into()], jobs, ["steps", "operations", "answered", "faults"])
        }
        Arguments::Shrink { seed, brief, http, care } => shrink_one(seed, brief, http, care),
        Arguments::Chaos { minutes, seed, mounts, weft, verbose } => {
            let weft = weft.map_or_else(|| Ok(std::env::current_exe()?.with_file_name("weft")), anyhow::Ok)?;
            let seed = seed.unwrap_or_else(|| rand::random::<u32>().into());
            run_chaos(&chaos::Settings { minutes, seed, mounts: mounts.into(), weft, is_verbose: verbose })
        }
        Arguments::Replay { seed, gossip: true, .. } => {
            let outcome = weft_sim::gossip::run(seed, true);
            outcome.lines.iter().for_each(|line| println!("{line}"));
            println!("{} steps, {} faults, digest {}", outcome.steps, outcome.faults, outcome.digest);
            whole(seed, &outcome.complaints)
        }
        Arguments::Replay { seed, objects: true, log, .. } => {
            log.map_or(Ok(()), product_log::keep)?;
            let outcome = weft_sim::objects::run(seed, true);
            outcome.lines.iter().for_each(|line| println!("{line}"));
            println!("{} steps, {} operations, digest {}", outcome.steps, outcome.operations, outcome.digest);
            whole(seed, &outcome.complaints)
        }
        Arguments::Replay { seed, faults, care: true, http, without, log, .. } => {
            log.map_or(Ok(()), product_log::keep)?;
            let all = many_care::whole(http);
            let faults = faults.unwrap_or(all.faults);
            let length = Length { faults, without: without.into_iter().collect(), ..all };
            let outcome = many_care::run(seed, &length, true);
            outcome.lines.iter().for_each(|line| println!("{line}"));
            println!("{} steps, {} operations, digest {}", outcome.steps, outcome.operations, outcome.digest);
            whole(seed, &outcome.complaints)
        }
        Arguments::Replay { seed, engine: true, log, .. } => {
            log.map_or(Ok(()), product_log::keep)?;
            whole(seed, &told(engine::history::run(seed, true)).complaints)
        }
        Arguments::Replay { seed, behind: true, log, .. } => {
            log.map_or(Ok(()), product_log::keep)?;
            whole(seed, &told(engine::behind::run(seed, true)).complaints)
        }
        Arguments::Replay { seed, faults, brief, http, without, log, .. } => {
            log.map_or(Ok(()), product_log::keep)?;
            let length = Length { without: without.into_iter().collect(), ..length(faults, brief, http) };
            let outcome = run(seed, &length, true);
            outcome.lines.iter().for_each(|line| println!("{line}"));
            println!(
                "{} steps, {} operations, {} fsyncs, digest {}",
                outcome.steps, outcome.operations, outcome.fsyncs, outcome.digest
            );
            whole(seed, &outcome.complaints)
        }
        Arguments::Canaries { seeds_max, brief, http, engine, objects, care } => {
            let (bugs, batch, option) = match (care, objects, engine) {
                (true, ..) => (&Planted::OF_MOUNTS[..], CANARY_BATCH, Some("--care")),
                (_, true, _) => (&Planted::OF_OBJECTS[..], CANARY_BATCH, Some("--objects")),
                (.., true) => (&Planted::OF_ENGINE[..], ENGINE_BATCH, Some("--engine")),
                _ if http => (&Planted::OF_HTTP[..], CANARY_BATCH, Some("--http")),
                _ => (&Planted::OF_VOLUME[..], CANARY_BATCH, None),
            };
            let batch = batch * if brief { BRIEF_FACTOR } else { 1 };
            let of_care = (care && http).then_some("--http");
            let options: Vec<&str> = option.into_iter().chain(brief.then_some("--brief")).chain(of_care).collect();
            find_canaries(bugs, seeds_max, batch, &options)
        }
        Arguments::Canary { number, seeds, brief, http, engine, objects, care } => {
            std::panic::set_hook(Box::new(|_| {}));
            let complaints = |seed| match (care, objects, engine) {
                (true, ..) => {
                    let length = many_care::whole(http);
                    with_planted(Planted::OF_MOUNTS[number], || many_care::run(seed, &length, false)).complaints
                }
                (_, true, _) => {
                    with_planted(Planted::OF_OBJECTS[number], || weft_sim::objects::run(seed, false)).complaints
                }
                (.., true) => with_planted(Planted::OF_ENGINE[number], || engine::history::run(seed, false)).complaints,
                _ => {
                    let bug = if http { Planted::OF_HTTP[number] } else { Planted::OF_VOLUME[number] };
                    with_planted(bug, || run(seed, &length(None, brief, http), false)).complaints
                }
            };
            let found = seeds.map(|seed| (seed, complaints(seed))).find(|(_, complaints)| !complaints.is_empty());
            if let Some((seed, complaints)) = found {
                println!("found by seed {seed}: {}", complaints[0]);
            }
            Ok(())
        }
        Arguments::Batch { seeds, faults, brief, http, engine, behind, gossip, care, objects } => {
            std::panic::set_hook(Box::new(|_| {}));
            let mut sums = [0; 4];
            for seed in seeds {
                let (complaints, counts) = if engine || behind {
                    let run = if engine { engine::history::run } else { engine::behind::run };
                    let outcome = run(seed, false);
                    (outcome.complaints, [outcome.steps, outcome.commits, outcome.flushes, outcome.deaths])
                } else if objects {
                    let outcome = weft_sim::objects::run(seed, false);
                    (outcome.complaints, [outcome.steps, outcome.operations, outcome.answered, outcome.faults])
                } else if care {
                    let outcome = many_care::run(seed, &many_care::whole(http), false);
                    (outcome.complaints, [outcome.steps, outcome.operations, outcome.mounts, outcome.faults])
                } else if gossip {
                    let outcome = weft_sim::gossip::run(seed, false);
                    (outcome.complaints, [outcome.steps, outcome.packets, outcome.starts, outcome.faults])
                } else {
                    let outcome = run(seed, &length(faults, brief, http), false);
                    (outcome.complaints, [outcome.steps, outcome.operations, outcome.fsyncs, outcome.faults])
                };
                if !complaints.is_empty() {
                    println!("FAILED {seed}: {}", complaints.join("; "));
                }
                sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
            }
            println!("SUM {}", sums.map(|sum| sum.to_string()).join(" "));
            Ok(())
        }
    }
}

fn told(outcome: engine::history::Outcome) -> engine::history::Outcome {
    outcome.lines.iter().for_each(|line| println!("{line}"));
    println!(
        "{} steps, {} commits, {} conflicts, {} looks, {} flushes, {} deaths, digest {}",
        outcome.steps,
        outcome.commits,
        outcome.conflicts,
        outcome.looks,
        outcome.flushes,
        outcome.deaths,
        outcome.digest
    );
    outcome
}

fn whole(seed: u64, complaints: &[String]) -> Result<()> {
    if complaints.is_empty() { Ok(()) } else { bail!("seed {seed}: {}", complaints.join("; ")) }
}

fn run_chaos(settings: &chaos::Settings) -> Result<()> {
    println!("seed {}", settings.seed);
    let outcome = chaos::run(settings)?;
    println!("{outcome}");
    let Some(folder) = &outcome.folder else { return Ok(()) };
    outcome.complaints.iter().for_each(|complaint| println!("{complaint}"));
    bail!("seed {}: not as promised; what happened is in {}", settings.seed, folder.join("chaos.log").display())
}

/// Looks for each planted bug, some seeds in a process of their own: what killed processes leave is never dropped.
fn find_canaries(bugs: &[Planted], seeds_max: u64, batch: u64, options: &[&str]) -> Result<()> {
    let own = std::env::current_exe()?;
    let mut missed = 0;
    for (number, bug) in bugs.iter().enumerate() {
        let mut found = String::new();
        for start in (0..seeds_max).step_by(batch as usize) {
            let range = format!("{start}..{}", (start + batch).min(seeds_max));
            let mut command = Command::new(&own);
            command.args(["canary", &number.to_string(), &range]).args(options);
            let output = command.output()?;
            found = String::from_utf8_lossy(&output.stdout).trim().to_owned();
            if !output.status.success() {
                found = format!("found by seeds {range}: {}", output.status);
            }
            if !found.is_empty() {
                break;
            }
        }
        if found.is_empty() {
            missed += 1;
            found = format!("NOT FOUND by {seeds_max} seeds");
        }
        println!("{bug:?}: {found}");
    }
    if missed > 0 { bail!("{missed} bugs are not found: the checker has holes") } else { Ok(()) }
}

fn shrink_one(seed: u64, is_brief: bool, is_over_http: bool, has_care: bool) -> Result<()> {
    std::panic::set_hook(Box::new(|_| {}));
    let complaints = |length: &Length| match has_care {
        true => many_care::run(seed, length, false).complaints,
        false => run(seed, length, false).complaints,
    };
    let whole = if has_care { many_care::whole(is_over_http) } else { length(None, is_brief, is_over_http) };
    let Some(length) = shrink(whole, |length| !complaints(length).is_empty()) else {
        bail!("seed {seed} does not fail")
    };
    let without: Vec<String> = length.without.iter().map(u64::to_string).collect();
    let mut option = if without.is_empty() { String::new() } else { format!(" --without {}", without.join(",")) };
    option.push_str(if is_brief { " --brief" } else { "" });
    option.push_str(if is_over_http { " --http" } else { "" });
    option.push_str(if has_care { " --care" } else { "" });
    println!("{}", complaints(&length).join("; "));
    println!(
        "{} faults are left: weft-sim replay {seed} --faults {}{option}",
        length.faults - without.len() as u64,
        length.faults
    );
    Ok(())
}

/// Runs batches in processes of their own, so that one that ends badly ends no other. `names` are what is counted.
fn run_many(seeds: Range<u64>, batch: u64, options: &[String], jobs: usize, names: [&str; 4]) -> Result<()> {
    let began = Instant::now();
    let own = std::env::current_exe()?;
    let starts: Vec<u64> = (seeds.start..seeds.end).step_by(batch as usize).collect();
    let (mut failed, mut sums) = (0, [0u64; 4]);
    for group in starts.chunks(jobs.max(1)) {
        let begin = |start: &u64| {
            let mut command = Command::new(&own);
            command.args(["batch", &format!("{start}..{}", (start + batch).min(seeds.end))]).args(options);
            command.stdout(std::process::Stdio::piped()).spawn()
        };
        for (start, child) in group.iter().zip(group.iter().map(begin).collect::<Result<Vec<_>, _>>()?) {
            let output = child.wait_with_output()?;
            let text = String::from_utf8_lossy(&output.stdout);
            for line in text.lines() {
                if let Some(sum) = line.strip_prefix("SUM ") {
                    sum.split(' ').zip(&mut sums).for_each(|(part, sum)| *sum += part.parse::<u64>().unwrap_or(0));
                } else {
                    failed += 1;
                    println!("{line}");
                }
            }
            if !output.status.success() {
                failed += 1;
                println!("FAILED between {start} and {}: {}", start + batch, output.status);
            }
        }
    }
    let (count, seconds) = (seeds.end.saturating_sub(seeds.start), began.elapsed().as_secs_f64());
    let counted: Vec<String> = sums.iter().zip(names).map(|(sum, name)| format!("{sum} {name}")).collect();
    println!(
        "{count} histories in {seconds:.1} s, {:.1} a second: {}, {failed} failed",
        count as f64 / seconds,
        counted.join(", ")
    );
    if failed > 0 { bail!("{failed} histories failed: `weft-sim replay SEED` shows one") } else { Ok(()) }
}
