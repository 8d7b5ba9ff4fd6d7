//! `weft codes search-ldpc`.

use crate::arguments::Output;
use crate::render::say;
use anyhow::{Result, anyhow};
use indicatif::{ProgressBar, ProgressStyle};
use parking_lot::Mutex;
use serde::Serialize;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};
use weft_codes::families::Problem;
use weft_codes::families::ldpc::{self, Decoder, Found, Goal, Search};

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  weft codes search-ldpc -n 8 -m 6")]
pub struct Arguments {
    /// Data nodes
    #[arg(short = 'n', long, value_name = "COUNT")]
    data: usize,
    /// Check nodes
    #[arg(short = 'm', long, value_name = "COUNT")]
    checks: usize,
    /// Seed of the random numbers: equal seeds find equal graphs
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Number of graphs to look at
    #[arg(long, value_name = "GRAPHS", default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..))]
    budget: u64,
    #[command(flatten)]
    output: Output,
}

#[derive(Serialize)]
struct Shown {
    code: String,
    /// Any so many nodes may be lost.
    losses_survived: usize,
    /// Nodes read until all data follow, in random order, per data node; exact.
    overhead: f64,
    /// The same where what peeling leaves is eliminated, as `weft` does.
    overhead_with_elimination: Option<f64>,
    found_at: u64,
    looked_at: u64,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let &Arguments { data, checks, seed, budget, output: Output { json } } = arguments;
    let task = Search {
        data_count: data,
        check_count: checks,
        decoder: Decoder::Peeling,
        goal: Goal::MostLosses,
        seed,
        iterations: budget,
    };
    let found = walk_all(&task).map_err(|problem| match problem {
        Problem::Impossible(reason) => anyhow!("{data}+{checks} cannot be searched: {reason}"),
        Problem::Syntax => anyhow!("{data}+{checks} is no graph"),
    })?;
    let eliminated = ldpc::profile(&found.graph, Decoder::Elimination);
    let shown = Shown {
        code: format!("ldpc:{}", found.graph.to_spec()),
        losses_survived: found.losses_survived,
        overhead: found.overhead(),
        overhead_with_elimination: eliminated.map(|profile| profile.mean_blocks() / data as f64),
        found_at: found.iteration,
        looked_at: budget,
    };
    if json {
        say(format_args!("{}\n", serde_json::to_string_pretty(&shown)?));
        return Ok(());
    }
    say(format_args!("{}\n", shown.code));
    say(format_args!("  any {} of {} nodes may be lost\n", shown.losses_survived, data + checks));
    say(format_args!("  all data follow from {:.4} times as many nodes on average by peeling\n", shown.overhead));
    if let Some(overhead) = shown.overhead_with_elimination {
        say(format_args!("  and from {overhead:.4} times where what peeling leaves is eliminated\n"));
    }
    say(format_args!("  graph {} of {budget} looked at from seed {seed}\n", shown.found_at));
    Ok(())
}

/// Threads take one walk after the other; what is found does not depend on how many they are.
fn walk_all(task: &Search) -> Result<Found, Problem> {
    let style = ProgressStyle::with_template("{wide_bar} {pos}/{len} graphs, {eta} left\n{msg}");
    let bar = ProgressBar::new(task.iterations).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    let next = AtomicU64::new(0);
    let best: Mutex<Option<Result<Found, Problem>>> = Mutex::new(None);
    let take_walks = || {
        while let index = next.fetch_add(1, Ordering::Relaxed)
            && index < task.walk_count()
        {
            let found = ldpc::walk(task, index, |_, _| {
                bar.inc(1);
                ControlFlow::Continue(())
            });
            if found.is_err() {
                next.store(task.walk_count(), Ordering::Relaxed);
            }
            let mut best = best.lock();
            let is_better = match (&found, &*best) {
                (Ok(found), Some(Ok(best))) => task.is_better(found, best),
                _ => true,
            };
            if is_better {
                if let Ok(found) = &found {
                    bar.set_message(format!("any {} lost, overhead {:.4}", found.losses_survived, found.overhead()));
                }
                *best = Some(found);
            }
        }
    };
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    // A walk takes some 2^8 bytes for each set of data; more than a gigabyte in all is no help.
    let most = (1usize << 22).checked_shr(task.data_count as u32).unwrap_or(0);
    std::thread::scope(|scope| {
        (1..cores.min(most)).for_each(|_| drop(scope.spawn(take_walks)));
        take_walks();
    });
    bar.finish_and_clear();
    best.into_inner().expect("a search has a walk")
}
