//! BASIC codes: minimum-storage regenerating codes of shifts and XOR only. Any `m` of `k + m` shards may be lost, and the
//! repair of one from `d` helpers that combine reads `1/(d-k+1)` of a shard from each.
//!
//! A symbol is a word of `M` strips, `M - 1` stored, in the ring GF(2)\[z\] / (1 + z^M) (see `ring.rs`); a shard has
//! `alpha = d - k + 1` words. With `phi_i = (1, z^i, ..., z^((alpha-1)i))` and `l_i = z^(alpha i)`, node `i` stores
//!
//! ```text
//! phi_i^T (S1 + l_i S2)         S1, S2 symmetric, alpha x alpha
//! ```
//!
//! This is the product-matrix construction for `d = 2k - 2`. Differences of powers of `z` have inverses if all prime
//! factors of `M` are at least the number of nodes; `M` is the smallest such odd number. A code of larger `d` is one of
//! `k + s`, `d + s` with `s = d - 2k + 2` whose first `s` nodes are zero and are not stored: shard `i` is node `i + s`.
//!
//! *Systematic*: any `k` nodes determine `S1` and `S2`, so data shards hold plain data, and `S1` and `S2` follow from
//! them. Neither is ever computed as a whole. For known nodes `i, j` the words `X_ij = phi_i^T (S1 + l_i S2) phi_j` are
//! available, and `(X_ij + X_ji) / (l_i + l_j) = phi_i^T S2 phi_j`; `S1` likewise. For each `i` these are values of a
//! polynomial at `z^j`, whose value at `z^f` belongs to the wanted node `f`. For each `f` these are again values at
//! `z^i` of the polynomial whose coefficients are node `f`. Division and interpolation visit the strips once each, so
//! programs have thousands of strips, where the generator matrix has hundreds of thousands of ones.
//!
//! *Repair* of node `f`: helper `i` sends one word `X_if`, a [`crate::Read`] of several terms per strip. The `d` words
//! are values at `z^i` of a polynomial with coefficients `S1 phi_f, S2 phi_f`, and by symmetry node `f` is a sum of
//! these. A helper that cannot combine is read whole. Several lost shards are repaired in this way, too, if that is
//! cheaper than reading `k` shards: `h` of them from `h` words of each of `d - h + 1` helpers that combine.
//!
//! Cost: `(k + m) / k` bytes stored per byte; the repair of one shard reads `d / (d - k + 1)` shards' worth if helpers
//! combine, otherwise `k`.
//!
//! Source: Hou, Shum, Chen, Li: BASIC regenerating code (2013) and BASIC codes: low-complexity regenerating codes for
//! distributed storage systems (2016); Rashmi, Shah, Kumar: Optimal exact-regenerating codes by a product-matrix
//! construction (2011).
//!
//! ```
//! use weft_codes::{Offer, Offers, Wanted};
//!
//! let code = weft_codes::parse("basic:4+4,d=6")?;
//! let alpha = code.shape().alpha;
//! let offer = Offer { combines: true, request_price: 0, symbol_price: 1 };
//! let have = Offers((0..8).map(|shard| (shard != 1).then_some(offer)).collect());
//! let plan = code.plan(&Wanted::Shards(vec![1]), &have)?;
//! assert_eq!(plan.reads.len(), 6 * alpha / 3);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod nodes;

use super::Family;
use super::parameters::{Problem, data_and_parity, named_count, require};
use super::product_matrix::{self, Regenerating};
use super::ring::{Builder, check_shard_count, check_size};
use crate::code::{Code, Offers, Plan, PlanError, Price, Read, Shape, Wanted};
use crate::linear::{self, LinearCode};
use crate::matrix::Matrix;
use crate::passes;
use crate::program::Program;
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use nodes::Nodes;

pub(super) const FAMILY: Family = Family {
    name: "basic",
    syntax: "basic:data+parity,d=helpers",
    example: "basic:4+4,d=6",
    description: "regenerating code of XOR and shifts; any parity shards may be lost, d helpers send a part each",
    source: "Hou et al.: BASIC codes: low-complexity regenerating codes for distributed storage systems (2016)",
    build,
};

fn build(parameters: &str) -> Result<Arc<dyn Code>, Problem> {
    let (counts, helpers) = parameters.split_once(',').ok_or(Problem::Syntax)?;
    let (k, m) = data_and_parity(counts)?;
    let d = named_count(helpers, "d")?;
    require(k >= 2, || "at least 2 data shards are needed, else it is replica".to_owned())?;
    require(m + 1 >= k, || format!("{k} data shards need at least {} parities, not {m}", k - 1))?;
    require((2 * k - 2..k + m).contains(&d), || {
        format!("{k}+{m} shards are repaired from {} to {} helpers (2k - 2 to n - 1), not {d}", 2 * k - 2, k + m - 1)
    })?;
    check_shard_count(k + m)?;
    let nodes = Nodes::new(k, m, d);
    check_size(k + m, nodes.cell_symbols(), k * nodes.cell_symbols())?;
    let spec = format!("basic:{k}+{m},d={d}");
    let linear = LinearCode::systematic(spec, k, nodes.cell_symbols(), m, Vec::new(), encode(k, m, &nodes));
    Ok(Arc::new(Basic { linear, nodes, helper_count: d }))
}

/// A code of this family.
#[derive(Debug)]
struct Basic {
    linear: LinearCode,
    nodes: Nodes,
    helper_count: usize,
}

fn encode(k: usize, m: usize, nodes: &Nodes) -> Program {
    let cell = nodes.cell_symbols();
    let mut builder = Builder::new(nodes.strip_count, k * cell, m * cell);
    let known = (0..k).map(|shard| (shard, nodes.cell(&mut builder, shard * cell))).collect();
    let parities: Vec<usize> = (k..k + m).collect();
    for (parity, words) in nodes.decoded(&mut builder, known, &parities).iter().enumerate() {
        (0..cell).for_each(|sub| nodes.output(&mut builder, parity * cell + sub, words, sub));
    }
    builder.finish()
}

impl Code for Basic {
    fn spec(&self) -> &str {
        self.linear.spec()
    }

    fn shape(&self) -> &Shape {
        self.linear.shape()
    }

    fn encode(&self) -> &Program {
        self.linear.encode()
    }

    fn plan(&self, wanted: &Wanted, have: &Offers) -> Result<Plan, PlanError> {
        linear::check(self, wanted, have)?;
        let cell = self.nodes.cell_symbols();
        // Data shards hold the native symbols in order.
        let symbols: Vec<(usize, usize)> = match wanted {
            Wanted::Natives(natives) => natives.iter().map(|native| (native / cell, native % cell)).collect(),
            Wanted::Shards(shards) => shards.iter().flat_map(|&shard| (0..cell).map(move |sub| (shard, sub))).collect(),
        };
        let ways =
            self.rebuilt_sets(&symbols, have).into_iter().flat_map(|rebuilt| self.ways(&symbols, &rebuilt, have));
        let planned = ways.min_by_key(|way| way.price).map(|way| self.describe(&symbols, &way, have));
        let together = self.together(&symbols, wanted, have);
        // For parts of lost shards, some strips of the others and some steps may not be needed.
        let lost_count = symbols.iter().filter(|symbol| have.0[symbol.0].is_none()).count();
        let is_whole = lost_count.is_multiple_of(cell) && !linear::may_be_cheaper(self.shape(), have);
        let generic = if planned.is_some() && is_whole { None } else { Some(self.linear.plan(wanted, have)?) };
        let cost = |plan: &Plan| (plan.price, plan.program.xor_count());
        let plans = planned.into_iter().chain(together).chain(generic);
        Ok(plans.min_by_key(cost).expect("the generic engine plans where there is no other plan"))
    }
}

impl Regenerating for Basic {
    fn helper_count(&self) -> usize {
        self.helper_count
    }

    fn generator(&self) -> &Matrix {
        self.linear.generator()
    }

    fn contribution(&self, _: usize, lost: usize) -> Vec<Vec<(usize, u8)>> {
        self.nodes.help(lost)
    }
}

/// How much of a shard is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// Only its wanted symbols.
    Wanted,
    /// These, and a word for each shard that is rebuilt.
    Combined,
    /// All.
    Whole,
}

/// One way to compute the wanted symbols.
#[derive(Debug)]
struct Way {
    price: Price,
    /// Shards that are computed and not read.
    rebuilt: Vec<usize>,
    /// From the help of `d` shards, or from all of `k`?
    is_repair: bool,
    /// By shard.
    parts: Vec<Part>,
    /// Shards that the rebuilt ones are computed from.
    sources: Vec<usize>,
}

impl Basic {
    /// The plan for whole shards that are repaired with others that cannot be read, where helpers combine.
    fn together(&self, symbols: &[(usize, usize)], wanted: &Wanted, have: &Offers) -> Option<Plan> {
        let is_lost = |shard: &usize| have.0[*shard].is_none();
        let lost_count = symbols.iter().filter(|(shard, _)| is_lost(shard)).count();
        let are_several = (0..self.shape().n).filter(is_lost).count() > 1 && lost_count >= self.nodes.cell_symbols();
        let combine = have.0.iter().flatten().any(|offer| offer.combines);
        (are_several && combine).then(|| product_matrix::regenerated(self, wanted, have)).flatten()
    }

    /// Sets of shards to compute instead of reading them: the lost ones, these and the dearest wanted one, these and
    /// the two dearest, ...
    fn rebuilt_sets(&self, symbols: &[(usize, usize)], have: &Offers) -> Vec<Vec<usize>> {
        let shards = 0..self.shape().n;
        let wanted_counts: Vec<usize> =
            shards.clone().map(|shard| symbols.iter().filter(|symbol| symbol.0 == shard).count()).collect();
        let (mut present, lost): (Vec<usize>, Vec<usize>) =
            shards.filter(|&shard| wanted_counts[shard] > 0).partition(|&shard| have.0[shard].is_some());
        present.sort_by_key(|&shard| core::cmp::Reverse(price(have, shard, wanted_counts[shard])));
        (0..=present.len()).map(|count| [&lost[..], &present[..count]].concat()).collect()
    }

    /// From the cheapest `k` shards, read whole, and from the cheapest `d` helpers.
    fn ways(&self, symbols: &[(usize, usize)], rebuilt: &[usize], have: &Offers) -> Vec<Way> {
        let (n, cell) = (self.shape().n, self.nodes.cell_symbols());
        let mut wanted_subs: Vec<Vec<usize>> = vec![Vec::new(); n];
        for &(shard, sub) in symbols.iter().filter(|symbol| !rebuilt.contains(&symbol.0)) {
            wanted_subs[shard].push(sub);
        }
        for subs in &mut wanted_subs {
            subs.sort_unstable();
            subs.dedup();
        }
        let direct_price =
            (0..n).fold(0, |sum: Price, shard| sum.saturating_add(price(have, shard, wanted_subs[shard].len())));
        if rebuilt.is_empty() {
            let parts = vec![Part::Wanted; n];
            return vec![Way {
                price: direct_price,
                rebuilt: Vec::new(),
                is_repair: false,
                parts,
                sources: Vec::new(),
            }];
        }
        let way = |is_repair: bool| {
            let read = |shard: usize| {
                let direct_count = wanted_subs[shard].len();
                let combined_count = direct_count + rebuilt.len() * self.nodes.word_symbols();
                let combines = have.0[shard].is_some_and(|offer| offer.combines);
                let (part, count) = match is_repair && combines && combined_count < cell {
                    true => (Part::Combined, combined_count),
                    false => (Part::Whole, cell),
                };
                // The price of the shard beyond the symbols that are read of it anyway.
                let added_price = price(have, shard, count).saturating_sub(price(have, shard, direct_count));
                (added_price, shard, part)
            };
            let offered = (0..n).filter(|shard| have.0[*shard].is_some() && !rebuilt.contains(shard));
            let mut reads: Vec<(Price, usize, Part)> = offered.map(read).collect();
            reads.sort_unstable_by_key(|&(added_price, shard, _)| (added_price, shard));
            let count = if is_repair { self.helper_count } else { self.shape().k };
            let reads = reads.get(..count)?;
            let mut parts = vec![Part::Wanted; n];
            reads.iter().for_each(|&(_, shard, part)| parts[shard] = part);
            let price = reads.iter().fold(direct_price, |sum, &(added_price, ..)| sum.saturating_add(added_price));
            let mut sources: Vec<usize> = reads.iter().map(|&(_, shard, _)| shard).collect();
            sources.sort_unstable();
            Some(Way { price, rebuilt: rebuilt.to_vec(), is_repair, parts, sources })
        };
        [way(false), way(true)].into_iter().flatten().collect()
    }

    fn describe(&self, symbols: &[(usize, usize)], way: &Way, have: &Offers) -> Plan {
        let (n, cell) = (self.shape().n, self.nodes.cell_symbols());
        let mut reads: Vec<Read> = Vec::new();
        // By shard: its first read of a word for a rebuilt shard, and the read of each symbol that is read plainly.
        let mut first_combined = vec![0; n];
        let mut plain = vec![vec![None; cell]; n];
        for (shard, plain) in plain.iter_mut().enumerate() {
            for (sub, read) in plain.iter_mut().enumerate() {
                let is_wanted = !way.rebuilt.contains(&shard) && symbols.contains(&(shard, sub));
                if way.parts[shard] == Part::Whole || is_wanted {
                    *read = Some(reads.len());
                    reads.push(Read { shard, terms: vec![(sub, 1)] });
                }
            }
            first_combined[shard] = reads.len();
            if way.parts[shard] == Part::Combined {
                let terms = way.rebuilt.iter().flat_map(|&lost| self.nodes.help(lost));
                reads.extend(terms.map(|terms| Read { shard, terms }));
            }
        }
        let mut builder = Builder::new(self.nodes.strip_count, reads.len(), symbols.len());
        let whole = |builder: &mut Builder, shard: usize| {
            // Reads of a whole shard are consecutive.
            self.nodes.cell(builder, plain[shard][0].unwrap_or_default())
        };
        let rebuilt = if way.is_repair {
            let mut help: Vec<Vec<_>> = vec![Vec::new(); way.rebuilt.len()];
            for &shard in &way.sources {
                let cell = (way.parts[shard] == Part::Whole).then(|| whole(&mut builder, shard));
                for (index, &lost) in way.rebuilt.iter().enumerate() {
                    let word = match &cell {
                        Some(cell) => self.nodes.helped(&mut builder, cell, lost),
                        None => builder.input(first_combined[shard] + index * self.nodes.word_symbols()),
                    };
                    help[index].push((shard, word));
                }
            }
            let pairs = way.rebuilt.iter().zip(help);
            pairs.map(|(&lost, help)| self.nodes.repaired(&mut builder, help, lost)).collect()
        } else if way.rebuilt.is_empty() {
            Vec::new()
        } else {
            let known = way.sources.iter().map(|&shard| (shard, whole(&mut builder, shard))).collect();
            self.nodes.decoded(&mut builder, known, &way.rebuilt)
        };
        for (output, &(shard, sub)) in symbols.iter().enumerate() {
            match (way.rebuilt.iter().position(|&lost| lost == shard), plain[shard][sub]) {
                (None, Some(read)) => builder.copy(output, read),
                (index, _) => self.nodes.output(&mut builder, output, &rebuilt[index.unwrap_or_default()], sub),
            }
        }
        // For parts of shards, some strips of the others may not be needed.
        let (program, kept) = passes::drop_unread(builder.finish());
        let reads: Vec<Read> = kept.into_iter().map(|read| reads[read].clone()).collect();
        Plan { price: have.price(&reads), program, reads }
    }
}

/// The price of reading `count` symbols of this shard.
fn price(have: &Offers, shard: usize, symbol_count: usize) -> Price {
    match have.0[shard] {
        Some(offer) if symbol_count > 0 => {
            offer.symbol_price.saturating_mul(symbol_count as Price).saturating_add(offer.request_price)
        }
        _ => 0,
    }
}

#[cfg(test)]
#[path = "basic_tests.rs"]
mod tests;
