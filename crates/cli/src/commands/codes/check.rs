//! `weft codes check SPEC...`: random bytes encoded, nodes lost, everything decoded and compared; single nodes also rebuilt
//! by nodes that compute before they send.

use super::figures::{Losses, SEED};
use crate::compose;
use crate::render::say;
use anyhow::{Result, ensure};
use indicatif::{ProgressBar, ProgressStyle};
use rand::rngs::StdRng;
use rand::seq::index::sample;
use rand::{RngCore, SeedableRng};
use serde::Serialize;
use std::process::ExitCode;
use weft_codes::{Code, Compiled, Content, Erasures, Matrix, Offer, Offers, Program, Read, Wanted, analysis, executor};

#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// As in rs:4+2 (`weft codes list` has them), or ldpc:@FILE of a graph file
    #[arg(required = true)]
    codes: Vec<String>,
    /// For programs
    #[arg(long)]
    json: bool,
}

/// Every pattern of a number of losses is decoded up to this many; more are sampled.
const PATTERNS_MAX: u64 = 20_000;
/// Patterns of a sample.
const SAMPLE_COUNT: u64 = 500;
/// Symbols' length; a multiple of it where the code's alignment is no divisor.
const SYMBOL_BYTES: usize = 64;
const OFFER: Offer = Offer { combines: false, request_price: 1, symbol_price: 1 };

#[derive(Serialize)]
struct Checked {
    code: String,
    tolerance: usize,
    keeps_its_promise: bool,
    losses: Vec<Losses>,
}

pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    // A misspelt last code is told before the first is checked for minutes.
    let codes = arguments.codes.iter().map(|spec| compose::code(spec)).collect::<Result<Vec<_>>>()?;
    let mut checked = Vec::new();
    for code in &codes {
        let of_code = check(&**code)?;
        if !arguments.json {
            of_code.tell(code.shape().n);
        }
        checked.push(of_code);
    }
    if arguments.json {
        say(format_args!("{}\n", serde_json::to_string_pretty(&checked)?));
    }
    let sound = checked.iter().all(|checked| checked.keeps_its_promise);
    Ok(if sound { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Every number of losses that is promised to be survived, and one more; beyond that those that leave as much as was stored,
/// as long as every pattern can be tried.
fn check(code: &dyn Code) -> Result<Checked> {
    let bench = Bench::new(code)?;
    let (n, tolerance) = (code.shape().n, code.shape().tolerance);
    let is_tried_whole = |lost_count: &usize| analysis::binomial(n, *lost_count) <= PATTERNS_MAX;
    let beyond = (tolerance + 2..=bench.erasures.most_lost()).take_while(is_tried_whole).last();
    let counts = 1..=beyond.unwrap_or(tolerance + 1).min(n - 1);
    let style = ProgressStyle::with_template("{prefix} {wide_bar} {pos}/{len} patterns, {eta} left");
    let bar = ProgressBar::new(counts.clone().map(|count| bench.patterns_tried(count)).sum());
    let bar =
        bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar())).with_prefix(code.spec().to_owned());
    let losses = counts.map(|count| bench.losses(count, &bar)).collect::<Result<Vec<_>>>()?;
    bar.finish_and_clear();
    let kept = |losses: &Losses| losses.lost > tolerance || losses.decodable == losses.tried;
    Ok(Checked { code: code.spec().to_owned(), tolerance, keeps_its_promise: losses.iter().all(kept), losses })
}

impl Checked {
    fn tell(&self, n: usize) {
        say(format_args!("{}\n", self.code));
        for losses in &self.losses {
            let Losses { lost, tried, decodable, .. } = losses;
            let how = if losses.exact { "patterns, all of them," } else { "sampled patterns" };
            // Beyond the promise nothing is owed; it is told because codes differ.
            let promised = if *lost > self.tolerance { ", which is not promised" } else { "" };
            say(format_args!("  {lost} lost: {decodable} of {tried} {how} decoded{promised}\n"));
        }
        if self.keeps_its_promise {
            say(format_args!("  keeps its promise: any {} of {n} nodes may be lost\n", self.tolerance));
        } else {
            say(format_args!("  does not keep its promise: do not store anything by it\n"));
        }
    }
}

/// A code with one encoded stripe.
struct Bench<'a> {
    code: &'a dyn Code,
    erasures: Erasures,
    /// All n * alpha stored symbols.
    stored: Vec<Vec<u8>>,
    natives: Vec<Vec<u8>>,
}

impl<'a> Bench<'a> {
    fn new(code: &'a dyn Code) -> Result<Self> {
        let shape = code.shape();
        let symbol_bytes = SYMBOL_BYTES.next_multiple_of(shape.symbol_alignment_bytes.max(1));
        let mut random = StdRng::seed_from_u64(SEED);
        let mut symbol = || {
            let mut bytes = vec![0; symbol_bytes];
            random.fill_bytes(&mut bytes);
            bytes
        };
        let natives: Vec<Vec<u8>> = (0..shape.native_count).map(|_| symbol()).collect();
        let coded_count = shape.contents.iter().filter(|content| **content == Content::Coded).count();
        let mut coded = vec![vec![0; symbol_bytes]; coded_count];
        compute(code.encode().clone(), &natives.iter().collect::<Vec<_>>(), &mut coded)?;
        let mut coded = coded.into_iter();
        let symbol_of = |content: &Content| match content {
            Content::Native(native) => natives[*native].clone(),
            Content::Coded => coded.next().unwrap_or_default(),
        };
        let stored = shape.contents.iter().map(symbol_of).collect();
        Ok(Self { code, erasures: Erasures::new(code)?, stored, natives })
    }

    fn patterns_tried(&self, lost_count: usize) -> u64 {
        let patterns = analysis::binomial(self.code.shape().n, lost_count);
        if patterns <= PATTERNS_MAX { patterns } else { SAMPLE_COUNT }
    }

    /// Loses each pattern in turn; decodes all data and rebuilds the lost nodes.
    fn losses(&self, lost_count: usize, bar: &ProgressBar) -> Result<Losses> {
        let n = self.code.shape().n;
        let (patterns, tried) = (analysis::binomial(n, lost_count), self.patterns_tried(lost_count));
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
        let decodes = self.erasures.decodes(lost);
        ensure!(decoded.is_some() == decodes, "{} is wrong about what it can do without {lost:?}", self.code.spec());
        let Some(decoded) = decoded else { return Ok(false) };
        ensure!(decoded == self.natives, "{} decoded wrong bytes without nodes {lost:?}", self.code.spec());
        // By nodes that only send; a single node also by nodes that compute.
        let ways = [have, offers(Offer { combines: true, ..OFFER })];
        for have in &ways[..if lost.len() == 1 { 2 } else { 1 }] {
            let Some(rebuilt) = self.fetch(&Wanted::Shards(lost.to_vec()), have)? else { return Ok(false) };
            let symbols = lost.iter().flat_map(|shard| shard * shape.alpha..(shard + 1) * shape.alpha);
            let right = symbols.zip(&rebuilt).all(|(symbol, bytes)| self.stored[symbol] == *bytes);
            ensure!(right, "{} rebuilt nodes {lost:?} wrongly", self.code.spec());
        }
        Ok(true)
    }

    /// `None`: the code has no plan.
    fn fetch(&self, wanted: &Wanted, have: &Offers) -> Result<Option<Vec<Vec<u8>>>> {
        let Ok(plan) = self.code.plan(wanted, have) else { return Ok(None) };
        let sent = plan.reads.iter().map(|read| self.sent(read)).collect::<Result<Vec<_>>>()?;
        let mut outputs = vec![vec![0; self.natives[0].len()]; plan.program.output_count];
        compute(plan.program, &sent.iter().collect::<Vec<_>>(), &mut outputs)?;
        Ok(Some(outputs))
    }

    /// A symbol as it is stored, or what a node makes of several.
    fn sent(&self, read: &Read) -> Result<Vec<u8>> {
        let stored = |sub: usize| &self.stored[read.shard * self.code.shape().alpha + sub];
        if let [(sub, 1)] = read.terms[..] {
            return Ok(stored(sub).clone());
        }
        let terms: Vec<&Vec<u8>> = read.terms.iter().map(|&(sub, _)| stored(sub)).collect();
        let coefficients = Matrix::from_fn(1, terms.len(), |_, term| read.terms[term].1);
        let mut sent = [vec![0; self.natives[0].len()]];
        compute(Program::from_matrix(&coefficients), &terms, &mut sent)?;
        let [sent] = sent;
        Ok(sent)
    }
}

fn compute(program: Program, inputs: &[&Vec<u8>], outputs: &mut [Vec<u8>]) -> Result<()> {
    let inputs: Vec<&[u8]> = inputs.iter().map(|input| input.as_slice()).collect();
    let mut outputs: Vec<&mut [u8]> = outputs.iter_mut().map(Vec::as_mut_slice).collect();
    Ok(executor().run(&Compiled::new(program)?, &inputs, &mut outputs)?)
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
