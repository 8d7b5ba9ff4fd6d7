//! `weft codes check SPEC...`: random bytes encoded, nodes lost, everything decoded and compared; one or two nodes also rebuilt
//! by nodes that compute before they send.

use super::figures::{self, Losses, SEED};
use super::stripe::{Stripe, compute};
use crate::arguments::Output;
use crate::compose;
use crate::render::say;
use anyhow::{Result, ensure};
use indicatif::{ProgressBar, ProgressStyle};
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::index::sample;
use serde::Serialize;
use std::process::ExitCode;
use std::sync::Arc;
use weft_codes::{Code, Erasures, Matrix, Offer, Offers, Program, Read, Wanted, analysis, measure};

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  weft codes check rs:4+2 lrc:6+2+2")]
pub struct Arguments {
    /// Code, as in rs:4+2 (`weft codes list`), or ldpc:@FILE of a graph file
    #[arg(required = true)]
    codes: Vec<String>,
    /// Try every pattern, even where a sample is the default
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    output: Output,
}

/// Beyond the promise, a number of losses is tried if it has at most this many patterns.
const PATTERNS_MAX: u64 = 20_000;
/// Operations that a check takes by default: some seconds. They are counted, not timed, so that equal checks try equal
/// patterns.
const EFFORT: u64 = 1 << 29;
/// What becomes of a stored symbol besides planning: it is lost or offered, computed and compared.
const OPERATIONS_PER_SYMBOL: u64 = 32;
/// What becomes of a pattern besides that.
const OPERATIONS_PER_PATTERN: u64 = 1 << 15;
/// Patterns of a sample, whatever they take.
const SAMPLE_MIN: u64 = 1;
const SAMPLE_MAX: u64 = 500;
/// Numbers of losses that are tried where not all patterns are asked for.
const COUNTS_MAX: usize = 12;
/// Patterns that tell what one takes; fewer where these take a noticeable part of the effort.
const PROBES: u64 = 8;
const OFFER: Offer = Offer { combines: false, request_price: 1, symbol_price: 1 };

#[derive(Serialize)]
struct Checked {
    code: String,
    tolerance: usize,
    keeps_its_promise: bool,
    /// Of the samples.
    seed: u64,
    /// Every pattern of every number of losses was tried.
    exact: bool,
    losses: Vec<Losses>,
}

pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    // A misspelt last code is told before the first is checked for minutes.
    let codes = arguments.codes.iter().map(|spec| compose::code(spec)).collect::<Result<Vec<_>>>()?;
    let mut checked = Vec::new();
    for code in &codes {
        let of_code = check(code, arguments.all)?;
        if !arguments.output.json {
            of_code.tell(code.shape().n);
        }
        checked.push(of_code);
    }
    if arguments.output.json {
        say(format_args!("{}\n", serde_json::to_string_pretty(&checked)?));
    }
    let sound = checked.iter().all(|checked| checked.keeps_its_promise);
    Ok(if sound { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Every number of losses that is promised to be survived, and one more; beyond that those that leave as much as was stored,
/// as long as there are few patterns. Of many numbers some are tried unless all are asked for.
fn check(code: &Arc<dyn Code>, all: bool) -> Result<Checked> {
    let bench = Bench::new(code)?;
    let (n, tolerance) = (code.shape().n, code.shape().tolerance);
    let are_few = |lost_count: &usize| analysis::binomial(n, *lost_count) <= PATTERNS_MAX;
    let beyond = (tolerance + 2..=analysis::most_lost(code.shape())).take_while(are_few).last();
    let most_lost = beyond.unwrap_or(tolerance + 1).min(n - 1);
    let tried = if all {
        (1..=most_lost).map(|count| (count, analysis::binomial(n, count))).collect()
    } else {
        bench.tried(&spread(most_lost, tolerance), EFFORT)?
    };
    let is_whole = tried.len() == most_lost;
    let style = ProgressStyle::with_template("{prefix} {wide_bar} {pos}/{len} patterns, {eta} left");
    let bar = ProgressBar::new(tried.iter().map(|(_, tried)| tried).fold(0, |sum, tried| sum.saturating_add(*tried)));
    let bar =
        bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar())).with_prefix(code.spec().to_owned());
    let losses =
        tried.into_iter().map(|(count, tried)| bench.losses(count, tried, &bar)).collect::<Result<Vec<_>>>()?;
    bar.finish_and_clear();
    let kept = |losses: &Losses| losses.lost > tolerance || losses.decodable == losses.tried;
    let keeps_its_promise = losses.iter().all(kept);
    let exact = is_whole && losses.iter().all(|losses| losses.exact);
    Ok(Checked { code: code.spec().to_owned(), tolerance, keeps_its_promise, seed: SEED, exact, losses })
}

impl Checked {
    fn tell(&self, n: usize) {
        say(format_args!("{}\n", self.code));
        for losses in &self.losses {
            let Losses { lost, tried, decodable, .. } = losses;
            let how = match losses.patterns {
                _ if losses.exact => "patterns, all of them,".to_owned(),
                u64::MAX => "sampled patterns, of more than 2^64,".to_owned(),
                patterns => format!("sampled patterns, of {patterns},"),
            };
            // Beyond the promise nothing is owed; it is told because codes differ.
            let promised = if *lost > self.tolerance { ", which is not promised" } else { "" };
            say(format_args!("  {lost} lost: {decodable} of {tried} {how} decoded{promised}\n"));
        }
        if !self.exact {
            say(format_args!("  samples are drawn with seed {}; --all tries every pattern of losses\n", self.seed));
        }
        if self.keeps_its_promise {
            let proof = if self.exact { "" } else { ", as far as that was tried" };
            say(format_args!("  keeps its promise: any {} of {n} nodes may be lost{proof}\n", self.tolerance));
        } else {
            say(format_args!("  does not keep its promise: do not store anything with it\n"));
        }
    }
}

/// A code with one encoded stripe.
struct Bench<'a> {
    code: &'a Arc<dyn Code>,
    /// `None` where they are too large.
    erasures: Option<Erasures>,
    stripe: Stripe,
}

impl<'a> Bench<'a> {
    fn new(code: &'a Arc<dyn Code>) -> Result<Self> {
        Ok(Self { code, erasures: figures::erasures(&**code)?, stripe: Stripe::encoded(code)? })
    }

    /// With each of these numbers of losses how many patterns are tried. What one number leaves of the effort is for the next.
    fn tried(&self, lost_counts: &[usize], effort: u64) -> Result<Vec<(usize, u64)>> {
        let mut tried = Vec::new();
        let mut left = effort;
        for &lost_count in lost_counts {
            let share = left / (lost_counts.len() - tried.len()) as u64;
            let cost = self.cost(lost_count, share)?;
            let count = patterns_tried(analysis::binomial(self.code.shape().n, lost_count), share / cost);
            left = left.saturating_sub(count * cost);
            tried.push((lost_count, count));
        }
        Ok(tried)
    }

    /// What trying one pattern takes on average, as the first ones of the sample say.
    fn cost(&self, lost_count: usize, effort: u64) -> Result<u64> {
        let shape = self.code.shape();
        let mut random = StdRng::seed_from_u64(SEED);
        let (mut spent, mut probes) = (0, 0);
        while probes == 0 || probes < PROBES && spent < effort / PROBES {
            let lost = sample(&mut random, shape.n, lost_count).into_vec();
            let (survived, operations) = measure::planned(|| self.survives(&lost));
            survived?;
            spent += operations + OPERATIONS_PER_PATTERN + OPERATIONS_PER_SYMBOL * shape.contents.len() as u64;
            probes += 1;
        }
        Ok(spent / probes)
    }

    /// Loses `tried` patterns in turn, all or a sample; decodes all data and rebuilds the lost nodes.
    fn losses(&self, lost_count: usize, tried: u64, bar: &ProgressBar) -> Result<Losses> {
        let n = self.code.shape().n;
        let patterns = analysis::binomial(n, lost_count);
        let mut losses = Losses { lost: lost_count, patterns, tried, decodable: 0, exact: tried == patterns };
        let mut attempt = |lost: &[usize]| {
            losses.decodable += u64::from(self.survives(lost)?);
            bar.inc(1);
            Ok(())
        };
        if tried == patterns {
            combinations(n, lost_count, &mut attempt)?;
        } else {
            let mut random = StdRng::seed_from_u64(SEED);
            for _ in 0..tried {
                attempt(&sample(&mut random, n, lost_count).into_vec())?;
            }
        }
        Ok(losses)
    }

    /// Is everything to be had without these nodes? Wrong bytes are an error, not a no, and so is a planner that answers
    /// otherwise than the rank.
    fn survives(&self, lost: &[usize]) -> Result<bool> {
        let shape = self.code.shape();
        let offers = |offer| Offers((0..shape.n).map(|shard| (!lost.contains(&shard)).then_some(offer)).collect());
        let have = offers(OFFER);
        let data = Wanted::Natives((0..shape.native_count).collect());
        let decoded = self.fetch(&data, &have)?;
        let is_right = self.erasures.as_ref().is_none_or(|erasures| erasures.decodes(lost) == decoded.is_some());
        ensure!(is_right, "{} is wrong about what it can do without {lost:?}", self.code.spec());
        let Some(decoded) = decoded else { return Ok(false) };
        ensure!(decoded == self.stripe.natives, "{} decoded wrong bytes without nodes {lost:?}", self.code.spec());
        // By nodes that only send; one node or two also by nodes that compute.
        let ways = [have, offers(Offer { combines: true, ..OFFER })];
        for have in &ways[..if lost.len() <= 2 { 2 } else { 1 }] {
            let Some(rebuilt) = self.fetch(&Wanted::Shards(lost.to_vec()), have)? else { return Ok(false) };
            let symbols = lost.iter().flat_map(|shard| shard * shape.alpha..(shard + 1) * shape.alpha);
            let right = symbols.zip(&rebuilt).all(|(symbol, bytes)| self.stripe.stored[symbol] == *bytes);
            ensure!(right, "{} rebuilt nodes {lost:?} wrongly", self.code.spec());
        }
        Ok(true)
    }

    /// `None`: the code has no plan.
    fn fetch(&self, wanted: &Wanted, have: &Offers) -> Result<Option<Vec<Vec<u8>>>> {
        let Ok(plan) = self.code.plan(wanted, have) else { return Ok(None) };
        let sent = plan.reads.iter().map(|read| self.sent(read)).collect::<Result<Vec<_>>>()?;
        let mut outputs = vec![vec![0; self.stripe.natives[0].len()]; plan.program.output_count];
        compute(plan.program, &sent.iter().collect::<Vec<_>>(), &mut outputs)?;
        Ok(Some(outputs))
    }

    /// A symbol as it is stored, or what a node makes of several.
    fn sent(&self, read: &Read) -> Result<Vec<u8>> {
        let stored = |sub: usize| &self.stripe.stored[read.shard * self.code.shape().alpha + sub];
        if let [(sub, 1)] = read.terms[..] {
            return Ok(stored(sub).clone());
        }
        let terms: Vec<&Vec<u8>> = read.terms.iter().map(|&(sub, _)| stored(sub)).collect();
        let coefficients = Matrix::from_fn(1, terms.len(), |_, term| read.terms[term].1);
        let mut sent = [vec![0; self.stripe.natives[0].len()]];
        compute(Program::from_matrix(&coefficients), &terms, &mut sent)?;
        let [sent] = sent;
        Ok(sent)
    }
}

/// Numbers of losses from 1 to `most_lost`: all, or some evenly spread, among them the tolerance and one more.
fn spread(most_lost: usize, tolerance: usize) -> Vec<usize> {
    let steps = COUNTS_MAX.min(most_lost);
    let mut counts: Vec<usize> = (1..=steps).map(|step| (step * most_lost).div_ceil(steps)).collect();
    counts.extend([1, tolerance, tolerance + 1]);
    counts.retain(|&count| (1..=most_lost).contains(&count));
    counts.sort_unstable();
    counts.dedup();
    counts
}

/// All patterns where they can be afforded, or a sample.
fn patterns_tried(patterns: u64, affordable: u64) -> u64 {
    if patterns <= affordable { patterns } else { patterns.min(affordable.clamp(SAMPLE_MIN, SAMPLE_MAX)) }
}

/// Every way to choose `count` of `n`, in lexicographic order.
fn combinations(n: usize, count: usize, visit: &mut impl FnMut(&[usize]) -> Result<()>) -> Result<()> {
    let mut chosen: Vec<usize> = (0..count).collect();
    loop {
        visit(&chosen)?;
        // The last place that can still be moved up.
        let Some(place) = (0..count).rev().find(|&place| chosen[place] < n - count + place) else { return Ok(()) };
        chosen[place] += 1;
        for later in place + 1..count {
            chosen[later] = chosen[later - 1] + 1;
        }
    }
}

#[cfg(test)]
#[path = "check_tests.rs"]
mod tests;
