//! `weft codes search-ldpc`.

use crate::render::say;
use anyhow::{Result, anyhow};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use std::ops::ControlFlow;
use weft_codes::families::Problem;
use weft_codes::families::ldpc::{self, Decoder, Found, Goal, Search};

#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Data nodes
    #[arg(short = 'n', long, value_name = "COUNT")]
    data: usize,
    /// Check nodes
    #[arg(short = 'm', long, value_name = "COUNT")]
    checks: usize,
    /// Of the pseudo-random numbers: equal seeds find equal graphs
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Graphs to look at
    #[arg(long, value_name = "GRAPHS", default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..))]
    budget: u64,
    /// For programs
    #[arg(long)]
    json: bool,
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
    let &Arguments { data, checks, seed, budget, json } = arguments;
    let task = Search {
        data_count: data,
        check_count: checks,
        decoder: Decoder::Peeling,
        goal: Goal::MostLosses,
        seed,
        iterations: budget,
    };
    let style = ProgressStyle::with_template("{wide_bar} {pos}/{len} graphs, {eta} left\n{msg}");
    let bar = ProgressBar::new(budget).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    let watch = |looked_at: u64, best: &Found| {
        bar.set_position(looked_at);
        if best.iteration == looked_at {
            bar.set_message(format!("any {} lost, overhead {:.4}", best.losses_survived, best.overhead()));
        }
        ControlFlow::Continue(())
    };
    let found = ldpc::search(&task, watch).map_err(|problem| match problem {
        Problem::Impossible(reason) => anyhow!("{data}+{checks} cannot be searched: {reason}"),
        Problem::Syntax => anyhow!("{data}+{checks} is no graph"),
    })?;
    bar.finish_and_clear();
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
