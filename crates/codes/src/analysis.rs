//! What a code is worth, computed from the code alone: which losses it survives, what it stores, what a repair reads,
//! how much its programs compute. Pure functions, for people who choose a code and for tests that check what codes
//! promise.
//!
//! ```
//! use weft_codes::{Erasures, analysis};
//!
//! let code = weft_codes::parse("lrc:6+2+2")?;
//! let four = analysis::survival(&Erasures::new(&*code)?, 4, analysis::EFFORT, 1);
//! assert_eq!((four.decodable, four.tried, four.is_exact()), (180, 210, true));
//! assert_eq!(analysis::repair(&*code, &[0], false)?.symbols_received, 3);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use crate::code::{Code, Content, Offer, Offers, Plan, PlanError, Price, Shape, Wanted};
use crate::linear::Erasures;
use crate::program::{Op, Program};
use crate::random::Random;
use alloc::vec::Vec;

/// The usual effort of [`survival`], in element operations: about one second of one core.
pub const EFFORT: u64 = 1 << 29;

/// A sample of fewer patterns says nothing; more patterns say little more.
const LEAST_SAMPLES: u64 = 100;
const MOST_SAMPLES: u64 = 10_000;

/// How many patterns of a number of losses are survived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Survival {
    /// Shards lost at a time.
    pub lost_count: usize,
    /// The number of such patterns; `u64::MAX` stands for more.
    pub patterns: u64,
    /// The number of patterns tried: all, or a sample.
    pub tried: u64,
    /// The number of these that can be decoded.
    pub decodable: u64,
    /// The first pattern found that cannot be decoded, or as many of its shards as are already fatal.
    pub fatal: Option<Vec<usize>>,
}

impl Survival {
    /// Were all patterns tried?
    #[must_use]
    pub fn is_exact(&self) -> bool {
        self.tried == self.patterns
    }

    /// The share that can be decoded; 1 if no pattern was tried.
    #[must_use]
    pub fn share(&self) -> f64 {
        if self.tried == 0 { 1.0 } else { self.decodable as f64 / self.tried as f64 }
    }
}

/// With more losses than this, fewer symbols are left than natives were stored.
#[must_use]
pub fn most_lost(shape: &Shape) -> usize {
    shape.n.saturating_sub(shape.native_count.div_ceil(shape.alpha))
}

/// The result of [`survival`] for more losses than [`most_lost`], which needs no trial and no knowledge of the code.
#[must_use]
pub fn none_survive(n: usize, lost_count: usize) -> Survival {
    let patterns = binomial(n, lost_count);
    let fatal = (lost_count <= n).then(|| (0..lost_count).collect());
    Survival { lost_count, patterns, tried: patterns, decodable: 0, fatal }
}

/// Tries all patterns of `lost_count` losses if they are few or take at most about `effort` element operations;
/// otherwise a sample drawn by `seed`.
#[must_use]
pub fn survival(erasures: &Erasures, lost_count: usize, effort: u64, seed: u64) -> Survival {
    let n = erasures.shard_count();
    if lost_count > erasures.most_lost() {
        return none_survive(n, lost_count);
    }
    let patterns = binomial(n, lost_count);
    let affordable = effort / erasures.operations(lost_count);
    let mut survival = Survival { lost_count, patterns, tried: patterns, decodable: 0, fatal: None };
    if patterns <= affordable.max(LEAST_SAMPLES) {
        let mut fatal = None;
        survival.decodable = erasures.count(lost_count, &mut |lost| {
            fatal.get_or_insert_with(|| lost.to_vec());
        });
        survival.fatal = fatal;
    } else {
        survival.tried = affordable.clamp(LEAST_SAMPLES, MOST_SAMPLES);
        let mut random = Random::new(seed);
        for _ in 0..survival.tried {
            let lost = random.choice(n, lost_count);
            if erasures.decodes(&lost) {
                survival.decodable += 1;
            } else if survival.fatal.is_none() {
                survival.fatal = Some(lost);
            }
        }
    }
    survival
}

/// Does [`survival`] with this effort take at most about twice that? Even the smallest sample of a code of thousands of
/// symbols takes minutes.
#[must_use]
pub fn is_affordable(erasures: &Erasures, lost_count: usize, effort: u64) -> bool {
    let samples = binomial(erasures.shard_count(), lost_count).min(LEAST_SAMPLES);
    lost_count > erasures.most_lost() || erasures.operations(lost_count).saturating_mul(samples) / 2 <= effort
}

/// Stored bytes per byte of data.
#[must_use]
pub fn storage_factor(shape: &Shape) -> f64 {
    shape.contents.len() as f64 / shape.native_count as f64
}

/// Is every native symbol stored plainly somewhere? Reads of a healthy stripe then compute nothing.
#[must_use]
pub fn is_systematic(shape: &Shape) -> bool {
    (0..shape.native_count).all(|native| shape.contents.contains(&Content::Native(native)))
}

/// The cost of repairing lost shards together when all others can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repair {
    /// Symbols that the repairer receives.
    pub symbols_received: usize,
    /// Symbols that helpers read from their storage; more than are received if they combine.
    pub symbols_read: usize,
    /// Shards asked.
    pub requests: usize,
    /// Shards that are asked to compute.
    pub computing_helpers: usize,
    /// The size of the program that follows.
    pub size: Size,
}

/// The repair of these shards, all at one place, that receives the fewest symbols and, among these, makes the fewest
/// requests, as far as the code's planner finds it.
///
/// # Errors
/// The shards cannot be repaired from all others, or do not exist.
pub fn repair(code: &dyn Code, lost: &[usize], helpers_combine: bool) -> Result<Repair, PlanError> {
    // One symbol costs more than requests to all shards.
    let symbol_price = code.shape().n as Price + 1;
    let offer = Offer { combines: helpers_combine, request_price: 1, symbol_price };
    repair_at(code, lost, offer).map(|plan| described(&plan))
}

/// The fewest symbols that the repair of `lost_count` shards together, at one place, from all others receives: the
/// cut-set bound, in whole symbols. `None` for codes for which it is not known: those that lose data with some `n - k`
/// shards, and those that are neither MDS nor store `k (2 alpha - k + 1) / 2` native symbols, as minimum-bandwidth codes
/// do.
///
/// The lost shards and `k - h` others together give everything, `h` being the number of lost ones. So any `n - k`
/// helpers, which are the rest, send what `k - h` shards do not have. In an MDS code these have `alpha` symbols each and
/// the bound is `h d alpha / (d - k + h)`, `d = n - h` helpers (Zorgui, Wang: Centralized multi-node repair regenerating
/// codes, 2019; Ye, Barg: Explicit constructions of high-rate MDS array codes with optimal repair bandwidth, 2017). In a
/// minimum-bandwidth code the `j`-th shard adds one symbol fewer than the one before.
#[must_use]
pub fn least_received(shape: &Shape, lost_count: usize) -> Option<usize> {
    let Shape { n, k, alpha, native_count, tolerance, .. } = *shape;
    let is_mds = native_count == k * alpha;
    let is_least_bandwidth = alpha + 1 >= k && 2 * native_count == k * (2 * alpha + 1 - k);
    if tolerance + k != n || tolerance < lost_count || lost_count == 0 || !(is_mds || is_least_bandwidth) {
        return None;
    }
    let others = k.saturating_sub(lost_count);
    let known = if is_mds { others * alpha } else { others * (2 * alpha + 1 - others) / 2 };
    let missing = native_count - known;
    // The others send no less than the most that one of the `n - k` sends.
    Some(missing + others * missing.div_ceil(n - k))
}

/// The fewest shards that a repair of this shard asks, as far as the code's planner finds them.
///
/// # Errors
/// As [`repair`].
pub fn locality(code: &dyn Code, shard: usize) -> Result<usize, PlanError> {
    // One request costs more than all symbols.
    let request_price = code.shape().contents.len() as Price + 1;
    let offer = Offer { combines: false, request_price, symbol_price: 1 };
    repair_at(code, &[shard], offer).map(|plan| described(&plan).requests)
}

fn repair_at(code: &dyn Code, lost: &[usize], offer: Offer) -> Result<Plan, PlanError> {
    let have = Offers((0..code.shape().n).map(|shard| (!lost.contains(&shard)).then_some(offer)).collect());
    code.plan(&Wanted::Shards(lost.to_vec()), &have)
}

fn described(plan: &Plan) -> Repair {
    let mut symbols: Vec<(usize, usize)> =
        plan.reads.iter().flat_map(|read| read.terms.iter().map(|&(sub, _)| (read.shard, sub))).collect();
    let mut helpers: Vec<usize> = plan.reads.iter().map(|read| read.shard).collect();
    let computes = |read: &&crate::code::Read| !matches!(read.terms[..], [(_, 1)]);
    let mut computing: Vec<usize> = plan.reads.iter().filter(computes).map(|read| read.shard).collect();
    for list in [&mut helpers, &mut computing] {
        list.sort_unstable();
        list.dedup();
    }
    symbols.sort_unstable();
    symbols.dedup();
    Repair {
        symbols_received: plan.reads.len(),
        symbols_read: symbols.len(),
        requests: helpers.len(),
        computing_helpers: computing.len(),
        size: size(&plan.program),
    }
}

/// How much a program computes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    /// Operations.
    pub ops: usize,
    /// Additions (XORs) of one symbol to another.
    pub additions: usize,
    /// Multiplications of a symbol by an element other than 0 and 1.
    pub multiplications: usize,
    /// Symbols needed only on the way.
    pub temporaries: usize,
}

/// The size of a valid program.
#[must_use]
pub fn size(program: &Program) -> Size {
    let multiplications = |op: &Op| -> usize {
        let coefficients = op.coefficients();
        (0..coefficients.rows()).map(|row| coefficients.row(row).iter().filter(|&&element| element > 1).count()).sum()
    };
    Size {
        ops: program.ops.len(),
        additions: program.xor_count(),
        multiplications: program.ops.iter().map(multiplications).sum(),
        temporaries: program.temporary_count,
    }
}

/// The number of ways to choose `count` of `n`; `u64::MAX` stands for more.
#[must_use]
pub fn binomial(n: usize, count: usize) -> u64 {
    if count > n {
        return 0;
    }
    let next = |ways: u128, i: usize| Some(ways.checked_mul((n - i) as u128)? / (i as u128 + 1));
    let ways = (0..count.min(n - count)).try_fold(1, next);
    ways.and_then(|ways| u64::try_from(ways).ok()).unwrap_or(u64::MAX)
}

#[cfg(test)]
#[path = "analysis_tests.rs"]
mod tests;
