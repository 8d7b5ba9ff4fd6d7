//! A code put to the test: random bytes encoded, shards lost, everything decoded and compared.

use anyhow::{Result, ensure};
use rand::rngs::StdRng;
use rand::seq::index::sample;
use rand::{RngCore, SeedableRng};
use weft_codes::{Code, Compiled, Content, Offer, Offers, Wanted, executor};

/// Every pattern of a number of losses is tried up to this many; more are sampled.
const PATTERNS_MAX: u64 = 20_000;
/// Patterns of a sample.
const SAMPLE_COUNT: usize = 500;
/// Symbols' length; a multiple of it where the code's alignment is no divisor.
const SYMBOL_BYTES: usize = 64;
/// The same bytes and the same sample every time.
const SEED: u64 = 1;

/// Which shards are lost.
pub enum Losses {
    /// Every pattern of this many of n.
    All { n: usize, count: usize },
    /// Some of them.
    Sample { n: usize, count: usize },
}

impl Losses {
    /// How many shards are lost at a time.
    pub fn count(&self) -> usize {
        match *self {
            Losses::All { count, .. } | Losses::Sample { count, .. } => count,
        }
    }
}

/// What came of it.
pub struct Outcome {
    pub tried: usize,
    pub decoded: usize,
}

/// A code with one encoded stripe.
pub struct Check<'a> {
    code: &'a dyn Code,
    /// All n * alpha stored symbols.
    stored: Vec<Vec<u8>>,
    natives: Vec<Vec<u8>>,
}

const OFFER: Offer = Offer { combines: false, request_price: 1, symbol_price: 1 };

impl<'a> Check<'a> {
    pub fn new(code: &'a dyn Code) -> Result<Self> {
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
        run(code.encode().clone(), &natives.iter().collect::<Vec<_>>(), &mut coded)?;
        let mut coded = coded.into_iter();
        let symbol_of = |content: &Content| match content {
            Content::Native(native) => natives[*native].clone(),
            Content::Coded => coded.next().unwrap_or_default(),
        };
        let stored = shape.contents.iter().map(symbol_of).collect();
        Ok(Self { code, stored, natives })
    }

    /// Losses that the code promises to survive.
    pub fn promised(&self) -> Vec<Losses> {
        (1..=self.code.shape().tolerance).map(|count| self.losses(count)).collect()
    }

    /// One more than it promises, where that leaves anything.
    pub fn beyond(&self) -> Option<Losses> {
        let shape = self.code.shape();
        (shape.tolerance + 1 < shape.n).then(|| self.losses(shape.tolerance + 1))
    }

    fn losses(&self, count: usize) -> Losses {
        let n = self.code.shape().n;
        if patterns(n, count) <= PATTERNS_MAX { Losses::All { n, count } } else { Losses::Sample { n, count } }
    }

    /// Loses each pattern in turn; decodes all data and rebuilds the lost shards.
    pub fn run(&self, losses: &Losses) -> Result<Outcome> {
        let mut outcome = Outcome { tried: 0, decoded: 0 };
        let mut attempt = |lost: &[usize]| {
            outcome.tried += 1;
            outcome.decoded += usize::from(self.survives(lost)?);
            Ok(())
        };
        match *losses {
            Losses::All { n, count } => combinations(n, count, &mut attempt)?,
            Losses::Sample { n, count } => {
                let mut random = StdRng::seed_from_u64(SEED);
                for _ in 0..SAMPLE_COUNT {
                    attempt(&sample(&mut random, n, count).into_vec())?;
                }
            }
        }
        Ok(outcome)
    }

    /// Is everything to be had without these shards? Wrong bytes are an error, not a no.
    fn survives(&self, lost: &[usize]) -> Result<bool> {
        let shape = self.code.shape();
        let have = Offers((0..shape.n).map(|shard| (!lost.contains(&shard)).then_some(OFFER)).collect());
        let data = Wanted::Natives((0..shape.native_count).collect());
        let Some(decoded) = self.fetch(&data, &have)? else { return Ok(false) };
        ensure!(decoded == self.natives, "{} decoded wrong bytes without shards {lost:?}", self.code.spec());
        let Some(rebuilt) = self.fetch(&Wanted::Shards(lost.to_vec()), &have)? else { return Ok(false) };
        let symbols = lost.iter().flat_map(|shard| shard * shape.alpha..(shard + 1) * shape.alpha);
        let right = symbols.zip(&rebuilt).all(|(symbol, bytes)| self.stored[symbol] == *bytes);
        ensure!(right, "{} rebuilt shards {lost:?} wrongly", self.code.spec());
        Ok(true)
    }

    /// `None`: the code has no plan.
    fn fetch(&self, wanted: &Wanted, have: &Offers) -> Result<Option<Vec<Vec<u8>>>> {
        let shape = self.code.shape();
        let Ok(plan) = self.code.plan(wanted, have) else { return Ok(None) };
        // Nobody here combines, so each read is one symbol as it is stored.
        let read = |read: &weft_codes::Read| &self.stored[read.shard * shape.alpha + read.terms[0].0];
        let inputs: Vec<&Vec<u8>> = plan.reads.iter().map(read).collect();
        let count = match wanted {
            Wanted::Natives(natives) => natives.len(),
            Wanted::Shards(shards) => shards.len() * shape.alpha,
        };
        let mut outputs = vec![vec![0; self.natives[0].len()]; count];
        run(plan.program, &inputs, &mut outputs)?;
        Ok(Some(outputs))
    }
}

/// Shards' worth of symbols that the repair of one shard reads, averaged over the shards.
pub fn repair_reads_shards(code: &dyn Code) -> Result<f64> {
    let shape = code.shape();
    let mut symbols = 0;
    for lost in 0..shape.n {
        let have = Offers((0..shape.n).map(|shard| (shard != lost).then_some(OFFER)).collect());
        symbols += code.plan(&Wanted::Shards(vec![lost]), &have)?.reads.len();
    }
    Ok(symbols as f64 / (shape.n * shape.alpha) as f64)
}

fn run(program: weft_codes::Program, inputs: &[&Vec<u8>], outputs: &mut [Vec<u8>]) -> Result<()> {
    let inputs: Vec<&[u8]> = inputs.iter().map(|input| input.as_slice()).collect();
    let mut outputs: Vec<&mut [u8]> = outputs.iter_mut().map(Vec::as_mut_slice).collect();
    Ok(executor().run(&Compiled::new(program)?, &inputs, &mut outputs)?)
}

/// n over count, saturating.
fn patterns(n: usize, count: usize) -> u64 {
    (0..count as u64).fold(1, |product: u64, i| product.saturating_mul(n as u64 - i) / (i + 1))
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
