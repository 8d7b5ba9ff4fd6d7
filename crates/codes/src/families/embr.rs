//! E-MBR: exact repair by plain transfer. Every block is stored twice.
//!
//! Construction (NCFS, section II-B and Fig. 1): every pair of the `n` shards shares exactly one block. Pairs `(r, d)`,
//! `r < d`, are numbered lexicographically. Block `b` of pair `(r, d)` is sub-symbol `d - 1` of shard `r`, and its
//! duplicate is sub-symbol `r` of shard `d`. So a shard has `n - 1` blocks, one in common with each other shard. With
//!
//! ```text
//! m = k (2n - k - 1) / 2         native blocks, the first m pairs: those with r < k
//! c = (n - k) (n - k - 1) / 2    code blocks, the pairs within the last n - k shards
//! ```
//!
//! any `k` shards hold at least `m` different blocks. So the `c` code blocks can be the parities of any MDS code over
//! the `m` native ones: none for `k = n - 1`, their XOR for `k = n - 2`, and in general rows of the Cauchy matrix `1 /
//! ((m + i) ^ j)` with columns scaled so that the first row is all ones, then rows scaled so that the first column is
//! all ones. That takes `n (n - 1) / 2` elements of GF(2^8), so `n` is at most 23.
//!
//! Cost: `n (n - 1) / m` stored per native byte. A lost shard is repaired by copying one block from each of the `n - 1`
//! others; no helper computes anything. Two lost shards share one block, which follows from any `m` others and from no
//! fewer. If nodes add blocks up before they send, `k - 1` sums are enough for it: `2 (n - 2) + k - 1` symbols in all, the
//! cut-set bound in whole symbols ([`crate::analysis::least_received`]). They are found by elimination, for up to 17 shards
//! or so. For `k = n - 2` the code
//! block and its duplicate always fall on the last two shards; placement should rotate shards over nodes.
//!
//! ```
//! use weft_codes::{Offer, Offers, Wanted};
//!
//! let code = weft_codes::parse("embr:n=6,k=4")?;
//! let offer = Offer { combines: false, request_price: 0, symbol_price: 1 };
//! let have = Offers((0..6).map(|shard| (shard != 2).then_some(offer)).collect());
//! let plan = code.plan(&Wanted::Shards(vec![2]), &have)?;
//! assert_eq!(plan.reads.iter().map(|read| read.shard).collect::<Vec<_>>(), [0, 1, 3, 4, 5]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use super::Family;
use super::parameters::{Problem, named_count, require};
use super::rs::isal_cauchy;
use crate::code::{Code, Content, Offer, Offers, Plan, PlanError, Price, Read, Shape, Wanted};
use crate::linear::{self, LazyGenerator};
use crate::matrix::Matrix;
use crate::program::{Op, Program, SymbolId};
use crate::work::spend;
use crate::{gf, passes};
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

pub(super) const FAMILY: Family = Family {
    name: "embr",
    syntax: "embr:n=shards,k=enough",
    example: "embr:n=6,k=4",
    description: "every two shards share one block; any k shards are enough, repair copies one block from each other",
    source: "Hu et al.: NCFS (NetCod 2011), after Rashmi et al.: Explicit construction of optimal exact regenerating codes (2009)",
    build,
};

/// Blocks and parities together need distinct elements of GF(2^8): n (n - 1) / 2 is 253 for 23 shards.
const MOST_SHARDS: usize = 23;

/// With at most this many offered shards all sets of shards to ask are tried: a thousand, in a fraction of a
/// millisecond.
const MOST_SHARDS_TRIED: u32 = 10;

fn build(parameters: &str) -> Result<Arc<dyn Code>, Problem> {
    let (n, k) = parameters.split_once(',').ok_or(Problem::Syntax)?;
    let (n, k) = (named_count(n, "n")?, named_count(k, "k")?);
    require((2..=MOST_SHARDS).contains(&n), || format!("E-MBR has 2 to {MOST_SHARDS} shards, not {n}"))?;
    require((1..n).contains(&k), || format!("of {n} shards, 1 to {} can be enough, not {k}", n - 1))?;
    Ok(Arc::new(Embr::new(n, k)))
}

struct Embr {
    spec: String,
    shape: Shape,
    /// The code blocks: a row each, a column per native block.
    coding: Matrix,
    encode: Program,
    generator: LazyGenerator,
}

/// A block to read, and the shard to read it from.
type Source = (usize, usize);

/// The price of reading, and whether anything has to be decoded. Smaller is better.
type Cost = (Price, bool);

impl Embr {
    fn new(n: usize, k: usize) -> Embr {
        let native_count = k * (2 * n - k - 1) / 2;
        let block_count = n * (n - 1) / 2;
        let coding = coding(native_count, block_count - native_count);
        let block_of = |symbol| block_of(n, symbol);
        let content = |block| if block < native_count { Content::Native(block) } else { Content::Coded };
        let contents: Vec<Content> = (0..n * (n - 1)).map(|symbol| content(block_of(symbol))).collect();
        let coded: Vec<usize> = (0..n * (n - 1)).map(block_of).filter(|&block| block >= native_count).collect();
        let natives: Vec<usize> = (0..native_count).collect();
        let encode = program(&coding, &natives, &coded);
        let shape = Shape {
            n,
            k,
            alpha: n - 1,
            native_count,
            symbol_alignment_bytes: 1,
            tolerance: n - k,
            contents,
            groups: Vec::new(),
        };
        Embr { spec: format!("embr:n={n},k={k}"), shape, coding, encode, generator: LazyGenerator::new() }
    }

    /// The wanted blocks, one per output.
    fn blocks(&self, wanted: &Wanted) -> Vec<usize> {
        let Shape { n, alpha, .. } = self.shape;
        match wanted {
            Wanted::Natives(natives) => natives.clone(),
            Wanted::Shards(shards) => shards
                .iter()
                .flat_map(|shard| shard * alpha..(shard + 1) * alpha)
                .map(|symbol| block_of(n, symbol))
                .collect(),
        }
    }

    /// The reads of those of these blocks that an offered shard has, from the cheapest.
    fn copies(&self, wanted: &[usize], have: &Offers) -> Vec<Read> {
        let is_offered = |shard: &usize| have.0[*shard].is_some();
        let sources: Vec<Source> = wanted.iter().filter_map(|&block| self.source(block, have, is_offered)).collect();
        reads(self.shape.n, &sources)
    }

    /// The block and the cheapest of these shards that has it.
    fn source(&self, block: usize, have: &Offers, is_asked: impl Fn(&usize) -> bool) -> Option<Source> {
        let (r, d) = pair(self.shape.n, block);
        let symbol_price = |&shard: &usize| have.0[shard].map_or(Price::MAX, |offer| offer.symbol_price);
        let shard = [r, d].into_iter().filter(is_asked).min_by_key(symbol_price)?;
        Some((block, shard))
    }

    /// What to read for these different blocks; `None` if the offers do not determine them.
    fn sources(&self, wanted: &[usize], have: &Offers) -> Option<Vec<Source>> {
        let offered = (0..self.shape.n).filter(|&shard| have.0[shard].is_some());
        let all = offered.fold(0u32, |set, shard| set | 1 << shard);
        let mut costs = Costs::new(self, wanted, have);
        let asked = if all.count_ones() <= MOST_SHARDS_TRIED {
            // The sets within `all`, in order.
            let mut set = 0;
            let mut best = costs.below(set, None).map(|cost| (cost, set));
            while set != all {
                set = set.wrapping_sub(all) & all;
                best = costs.below(set, best.map(|(cost, _)| cost)).map(|cost| (cost, set)).or(best);
            }
            best?.1
        } else {
            let (mut asked, mut best) = (all, costs.below(all, None)?);
            loop {
                let without = (0..self.shape.n).map(|shard| 1 << shard).filter(|shard| asked & shard != 0);
                let found =
                    without.filter_map(|shard| Some((costs.below(asked & !shard, Some(best))?, asked & !shard)));
                match found.min_by_key(|(cost, _)| *cost) {
                    Some((cheaper, fewer)) if cheaper.0 < best.0 => (best, asked) = (cheaper, fewer),
                    _ => break asked,
                }
            }
        };
        let asked: Vec<usize> = (0..self.shape.n).filter(|shard| asked >> shard & 1 == 1).collect();
        self.sources_in(wanted, have, &asked).map(|(_, sources)| sources)
    }

    /// The cheapest blocks to read if only these shards are asked, and their cost. The outer code is MDS, so these are
    /// either the wanted blocks themselves or any `native_count` blocks.
    fn sources_in(&self, wanted: &[usize], have: &Offers, asked: &[usize]) -> Option<(Cost, Vec<Source>)> {
        let n = self.shape.n;
        let symbol_price = |shard: usize| have.0[shard].map_or(Price::MAX, |offer| offer.symbol_price);
        let source = |block: usize| self.source(block, have, |shard| asked.contains(shard));
        let direct: Option<Vec<Source>> = wanted.iter().map(|&block| source(block)).collect();
        let mut any: Vec<Source> = (0..n * (n - 1) / 2).filter_map(source).collect();
        any.sort_by_key(|&(block, shard)| (symbol_price(shard), !wanted.contains(&block)));
        any.truncate(self.shape.native_count);
        let any = (any.len() == self.shape.native_count).then_some(any);
        let costed = |sources: Vec<Source>, decodes| ((have.price(&reads(n, &sources)), decodes), sources);
        let direct = direct.map(|sources| costed(sources, false));
        direct.into_iter().chain(any.map(|sources| costed(sources, true))).min_by_key(|(cost, _)| *cost)
    }
}

/// The cost of [`Embr::sources_in`] for any set of shards to ask, given as bits. One plan compares hundreds of sets.
struct Costs<'a> {
    have: &'a Offers,
    native_count: usize,
    /// Of the wanted blocks.
    pairs: Vec<(usize, usize)>,
    /// All blocks in the order in which they are chosen, from each shard that has them: (block, shard).
    in_order: Vec<Source>,
    /// By block: the last set that chose it, of those counted.
    chosen_for: Vec<u32>,
    counted: u32,
}

impl<'a> Costs<'a> {
    fn new(code: &Embr, wanted: &[usize], have: &'a Offers) -> Costs<'a> {
        let n = code.shape.n;
        let pair_of: Vec<(usize, usize)> = (0..n).flat_map(|r| (r + 1..n).map(move |d| (r, d))).collect();
        let mut is_wanted = vec![false; pair_of.len()];
        wanted.iter().for_each(|&block| is_wanted[block] = true);
        let mut in_order: Vec<Source> = (0..pair_of.len())
            .flat_map(|block| [(block, pair_of[block].0), (block, pair_of[block].1)])
            .filter(|&(_, shard)| have.0[shard].is_some())
            .collect();
        let price = |shard: usize| have.0[shard].map_or(Price::MAX, |offer| offer.symbol_price);
        in_order.sort_by_key(|&(block, shard)| (price(shard), !is_wanted[block]));
        Costs {
            have,
            native_count: code.shape.native_count,
            pairs: wanted.iter().map(|&block| pair_of[block]).collect(),
            chosen_for: vec![0; pair_of.len()],
            in_order,
            counted: 0,
        }
    }

    /// The cost if the shards of this set are asked; `None` if they do not suffice, or if it is not less than `best`.
    fn below(&mut self, asked: u32, best: Option<Cost>) -> Option<Cost> {
        let direct = self.direct(asked, best);
        self.any(asked, direct.or(best)).or(direct)
    }

    /// The cost of the wanted blocks themselves.
    fn direct(&self, asked: u32, best: Option<Cost>) -> Option<Cost> {
        let mut sum = Sum::default();
        for &(r, d) in &self.pairs {
            spend(1);
            let offers = [r, d].into_iter().filter(|shard| asked >> shard & 1 == 1);
            let priced = offers.filter_map(|shard| Some((shard, self.have.0[shard]?)));
            let (shard, offer) = priced.min_by_key(|(_, offer)| offer.symbol_price)?;
            sum.add(shard, offer);
            if best.is_some_and(|best| (sum.price, false) >= best) {
                return None;
            }
        }
        Some((sum.price, false))
    }

    /// The cost of as many blocks as there are native ones.
    fn any(&mut self, asked: u32, best: Option<Cost>) -> Option<Cost> {
        self.counted += 1;
        let (mut sum, mut missing) = (Sum::default(), self.native_count);
        for &(block, shard) in &self.in_order {
            spend(1);
            if asked >> shard & 1 == 0 || self.chosen_for[block] == self.counted {
                continue;
            }
            self.chosen_for[block] = self.counted;
            sum.add(shard, self.have.0[shard]?);
            if best.is_some_and(|best| (sum.price, true) >= best) {
                return None;
            }
            missing -= 1;
            if missing == 0 {
                return Some((sum.price, true));
            }
        }
        None
    }
}

/// As [`Offers::price`], added up symbol by symbol.
#[derive(Default)]
struct Sum {
    price: Price,
    asked: u32,
}

impl Sum {
    fn add(&mut self, shard: usize, offer: Offer) {
        let is_first = self.asked >> shard & 1 == 0;
        self.asked |= 1 << shard;
        let request_price = if is_first { offer.request_price } else { 0 };
        self.price = self.price.saturating_add(request_price).saturating_add(offer.symbol_price);
    }
}

impl Code for Embr {
    fn spec(&self) -> &str {
        &self.spec
    }

    fn shape(&self) -> &Shape {
        &self.shape
    }

    fn encode(&self) -> &Program {
        &self.encode
    }

    fn plan(&self, wanted: &Wanted, have: &Offers) -> Result<Plan, PlanError> {
        linear::check(self, wanted, have)?;
        let n = self.shape.n;
        let blocks = self.blocks(wanted);
        let mut distinct = blocks.clone();
        distinct.sort_unstable();
        distinct.dedup();
        let Some(mut sources) = self.sources(&distinct, have) else {
            let is_lost = |shard: usize| have.0[shard].is_none();
            let lost = match wanted {
                Wanted::Natives(natives) => {
                    let both_lost = |&block: &usize| is_lost(pair(n, block).0) && is_lost(pair(n, block).1);
                    Wanted::Natives(natives.iter().copied().filter(both_lost).collect())
                }
                // Two lost shards share a block, so if one is lost for good, all that are lost are.
                Wanted::Shards(shards) => {
                    Wanted::Shards(shards.iter().copied().filter(|&shard| is_lost(shard)).collect())
                }
            };
            return Err(PlanError::unrecoverable(self, lost, have));
        };
        sources.sort_by_key(|&(block, shard)| symbol(n, block, shard));
        let reads = reads(n, &sources);
        let read: Vec<usize> = sources.iter().map(|&(block, _)| block).collect();
        let price = have.price(&reads);
        let generator = || self.generator.of(self);
        let engine = || linear::plan(self, generator(), wanted, have);
        let found = linear::cheaper_than(price, &self.shape, have, engine)?;
        let copies = self.copies(&distinct, have);
        let are_added = copies.len() < distinct.len() && have.0.iter().flatten().any(|offer| offer.combines);
        let added = are_added.then(|| linear::completed(self, generator(), wanted, have, &copies)).flatten();
        match found.into_iter().chain(added).min_by_key(|plan| plan.price) {
            Some(cheaper) if cheaper.price < price => Ok(cheaper),
            _ => Ok(Plan { reads, program: program(&self.coding, &read, &blocks), price }),
        }
    }
}

/// The coding matrix: a row per code block, a column per native block.
fn coding(native_count: usize, code_count: usize) -> Matrix {
    let cauchy = isal_cauchy(native_count, code_count);
    let quotient = |a, b| gf::divide(a, b).unwrap_or(0);
    let columns_scaled = |row, column| quotient(cauchy.at(row, column), cauchy.at(0, column));
    Matrix::from_fn(code_count, native_count, |row, column| {
        quotient(columns_scaled(row, column), columns_scaled(row, 0))
    })
}

/// The two shards that have the block.
fn pair(n: usize, block: usize) -> (usize, usize) {
    let mut first = 0;
    for r in 0..n {
        let of_r = n - 1 - r;
        if block < first + of_r {
            return (r, r + 1 + block - first);
        }
        first += of_r;
    }
    panic!("{n} shards have no block {block}")
}

/// The block that the stored symbol holds.
fn block_of(n: usize, symbol: usize) -> usize {
    let (shard, sub) = (symbol / (n - 1), symbol % (n - 1));
    let (r, d) = if sub >= shard { (shard, sub + 1) } else { (sub, shard) };
    // Rows 0 to r - 1 have n - 1, n - 2, ... blocks.
    r * (2 * n - r - 1) / 2 + d - r - 1
}

/// The stored symbol that holds the block in this shard.
fn symbol(n: usize, block: usize, shard: usize) -> usize {
    let (r, d) = pair(n, block);
    if shard == r { r * (n - 1) + d - 1 } else { d * (n - 1) + r }
}

fn reads(n: usize, sources: &[Source]) -> Vec<Read> {
    let read = |&(block, shard): &Source| Read { shard, terms: vec![(symbol(n, block, shard) - shard * (n - 1), 1)] };
    sources.iter().map(read).collect()
}

/// The wanted blocks, one per output, from the blocks read. Either these include the wanted ones, or they are as many
/// as there are native blocks.
fn program(coding: &Matrix, read: &[usize], wanted: &[usize]) -> Program {
    let native_count = coding.columns();
    let input_of = |block: usize| read.iter().position(|&r| r == block);
    let is_direct = wanted.iter().all(|&block| input_of(block).is_some());
    let natives = if is_direct { None } else { Some(natives(coding, read)) };
    let mut ops = Vec::with_capacity(wanted.len());
    for (output, &block) in wanted.iter().enumerate() {
        let to: SymbolId = read.len() + output;
        if let Some(input) = input_of(block) {
            ops.push(Op::Copy { from: input, to });
        } else if let Some(earlier) = wanted[..output].iter().position(|&other| other == block) {
            ops.push(Op::Copy { from: read.len() + earlier, to });
        } else if let Some(natives) = &natives {
            let row = match block.checked_sub(native_count) {
                None => natives.select_rows(&[block]),
                Some(code) => coding.select_rows(&[code]).multiply(natives),
            };
            let from: Vec<SymbolId> = (0..read.len()).filter(|&input| row.at(0, input) != 0).collect();
            let coefficients = row.select_columns(&from);
            ops.push(Op::Dot { from, to: vec![to], coefficients });
        }
    }
    passes::optimise(Program { input_count: read.len(), output_count: wanted.len(), temporary_count: 0, ops })
}

/// All native blocks from as many different blocks: a row per native block, a column per block read.
fn natives(coding: &Matrix, read: &[usize]) -> Matrix {
    let native_count = coding.columns();
    let input_of = |block: usize| read.iter().position(|&r| r == block);
    let lost: Vec<usize> = (0..native_count).filter(|&native| input_of(native).is_none()).collect();
    let codes: Vec<usize> = read.iter().filter_map(|block| block.checked_sub(native_count)).collect();
    // Code blocks read + what the natives read contribute to them = the square times the lost natives.
    let right = Matrix::from_fn(codes.len(), read.len(), |row, input| match read[input].checked_sub(native_count) {
        Some(code) => u8::from(code == codes[row]),
        None => coding.at(codes[row], read[input]),
    });
    let square = coding.select_rows(&codes).select_columns(&lost);
    let solved = square.inverse().expect("square parts of a Cauchy matrix are regular").multiply(&right);
    let mut natives = Matrix::from_fn(native_count, read.len(), |native, input| u8::from(read[input] == native));
    for (row, &native) in lost.iter().enumerate() {
        natives.row_mut(native).copy_from_slice(solved.row(row));
    }
    natives
}
