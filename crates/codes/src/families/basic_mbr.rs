//! BASIC codes at the bandwidth end: minimum-bandwidth regenerating codes of shifts and XOR only. Any `m` of `k + m`
//! shards may be lost. The repair of one receives no more than it stores: one word from each of `d` helpers that
//! combine.
//!
//! Words and ring are those of [`super::basic`]. The `B = k d - k(k-1)/2` native words are the upper triangle, row by row,
//! of a symmetric `d x d` matrix
//!
//! ```text
//! M = [ S   T ]        S symmetric k x k, T k x (d-k)
//!     [ T^T 0 ]
//! ```
//!
//! and shard `i` stores the `d` words `psi_i^T M`, `psi_i = (1, z^i, ..., z^((d-1)i))`. No shard holds plain data, so
//! every read decodes, from any `k` shards. Helper `i` sends `psi_i^T M psi_f`. These are the values at `z^i` of a
//! polynomial with coefficients `M psi_f`, which shard `f` stores.
//!
//! Cost: `(k + m) d / B` bytes stored per byte; the repair of one shard receives exactly its size. If helpers cannot
//! combine, the generic engine plans.
//!
//! Source: as [`super::basic`].
//!
//! ```
//! use weft_codes::{Offer, Offers, Wanted};
//!
//! let code = weft_codes::parse("basic-mbr:3+3,d=5")?;
//! let offer = Offer { combines: true, request_price: 0, symbol_price: 1 };
//! let have = Offers((0..6).map(|shard| (shard != 1).then_some(offer)).collect());
//! let plan = code.plan(&Wanted::Shards(vec![1]), &have)?;
//! assert_eq!(plan.reads.len(), code.shape().alpha);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use super::Family;
use super::parameters::{Problem, data_and_parity, named_count, require};
use super::product_matrix::{self, Regenerating};
use super::ring::{Builder, Word, check_shard_count, check_size, smallest_strip_count, value_terms};
use crate::code::{Code, Offers, Plan, PlanError, Price, Read, Shape, Wanted};
use crate::linear::{self, LinearCode};
use crate::matrix::Matrix;
use crate::program::Program;
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

pub(super) const FAMILY: Family = Family {
    name: "basic-mbr",
    syntax: "basic-mbr:data+parity,d=helpers",
    example: "basic-mbr:3+3,d=5",
    description: "regenerating code of XOR and shifts whose repair receives what it stores; reads always decode",
    source: "Hou et al.: BASIC codes: low-complexity regenerating codes for distributed storage systems (2016)",
    build,
};

fn build(parameters: &str) -> Result<Arc<dyn Code>, Problem> {
    let (counts, helpers) = parameters.split_once(',').ok_or(Problem::Syntax)?;
    let (k, m) = data_and_parity(counts)?;
    let d = named_count(helpers, "d")?;
    require(k >= 1 && m >= 1, || "at least 1 data and 1 parity shard are needed".to_owned())?;
    require((k..k + m).contains(&d), || {
        format!("{k}+{m} shards are repaired from {k} to {} helpers (k to n - 1), not {d}", k + m - 1)
    })?;
    check_shard_count(k + m)?;
    let strip_count = smallest_strip_count(k + m);
    let native_count = (k * d - k * (k - 1) / 2) * (strip_count - 1);
    check_size(k + m, d * (strip_count - 1), native_count)?;
    let spec = format!("basic-mbr:{k}+{m},d={d}");
    let encode = encode(k, m, d, strip_count);
    let linear = LinearCode::coded(spec, k, d * (strip_count - 1), m, encode);
    Ok(Arc::new(BasicMbr { linear, helper_count: d, strip_count }))
}

/// A code of this family.
#[derive(Debug)]
struct BasicMbr {
    linear: LinearCode,
    helper_count: usize,
    strip_count: usize,
}

fn encode(k: usize, m: usize, d: usize, strip_count: usize) -> Program {
    let stored_count = strip_count - 1;
    let native_words = k * d - k * (k - 1) / 2;
    let mut builder = Builder::new(strip_count, native_words * stored_count, (k + m) * d * stored_count);
    let mut matrix = vec![vec![Word::zero(); d]; d];
    let upper = (0..k).flat_map(|row| (row..d).map(move |column| (row, column)));
    for (native, (row, column)) in upper.enumerate() {
        matrix[row][column] = builder.input(native * stored_count);
        matrix[column][row] = matrix[row][column].clone();
    }
    for shard in 0..k + m {
        for (word, column) in matrix.iter().enumerate() {
            // Symmetric, so a row is a column.
            let terms: Vec<Word> = column.iter().enumerate().map(|(power, w)| w.shifted(power * shard)).collect();
            let first = (shard * d + word) * stored_count;
            (0..stored_count).for_each(|place| builder.output(first + place, &terms, place));
        }
    }
    builder.finish()
}

impl Code for BasicMbr {
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
        let generic = self.linear.plan(wanted, have)?;
        let (repaired, together) = match wanted {
            Wanted::Shards(shards) => (self.repaired(shards, have), self.together(wanted, have)),
            Wanted::Natives(_) => (None, None),
        };
        Ok(repaired.into_iter().chain(together).fold(generic, |a, b| if b.price <= a.price { b } else { a }))
    }
}

impl Regenerating for BasicMbr {
    fn helper_count(&self) -> usize {
        self.helper_count
    }

    fn generator(&self) -> &Matrix {
        self.linear.generator()
    }

    fn contribution(&self, _: usize, lost: usize) -> Vec<Vec<(usize, u8)>> {
        value_terms(self.strip_count, self.helper_count, lost)
    }
}

impl BasicMbr {
    /// The plan for several lost shards together, where helpers combine.
    fn together(&self, wanted: &Wanted, have: &Offers) -> Option<Plan> {
        let are_several = have.0.iter().filter(|offer| offer.is_none()).count() > 1;
        let combine = have.0.iter().flatten().any(|offer| offer.combines);
        (are_several && combine).then(|| product_matrix::regenerated(self, wanted, have)).flatten()
    }

    /// The wanted shards as far as they are offered, the others from the cheapest helpers that combine; `None` if there
    /// are too few helpers.
    fn repaired(&self, shards: &[usize], have: &Offers) -> Option<Plan> {
        let (d, alpha, stored_count) = (self.helper_count, self.shape().alpha, self.strip_count - 1);
        let word_price = |shard: usize| -> Option<(Price, usize)> {
            let offer = have.0[shard].filter(|offer| offer.combines)?;
            let symbols_price = offer.symbol_price.saturating_mul(stored_count as Price);
            Some((offer.request_price.saturating_add(symbols_price), shard))
        };
        let mut helpers: Vec<(Price, usize)> = (0..self.shape().n).filter_map(word_price).collect();
        helpers.sort_unstable();
        let mut helpers: Vec<usize> = helpers.into_iter().map(|(_, shard)| shard).take(d).collect();
        helpers.sort_unstable();

        let mut reads: Vec<Read> = Vec::new();
        // By shard: its first read, or the first of its helpers.
        let mut first = vec![None; self.shape().n];
        for &shard in shards {
            if first[shard].is_some() {
                continue;
            }
            first[shard] = Some(reads.len());
            if have.0[shard].is_some() {
                reads.extend((0..alpha).map(|sub| Read { shard, terms: vec![(sub, 1)] }));
            } else if helpers.len() == d {
                let terms = value_terms(self.strip_count, d, shard);
                let of_helper = |&shard| terms.iter().cloned().map(move |terms| Read { shard, terms });
                reads.extend(helpers.iter().flat_map(of_helper));
            } else {
                return None;
            }
        }
        let mut builder = Builder::new(self.strip_count, reads.len(), shards.len() * alpha);
        for (index, &shard) in shards.iter().enumerate() {
            let (first, output) = (first[shard]?, index * alpha);
            if have.0[shard].is_some() {
                (0..alpha).for_each(|sub| builder.copy(output + sub, first + sub));
                continue;
            }
            let sent = (0..d).map(|helper| builder.input(first + helper * stored_count)).collect();
            for (word, value) in builder.interpolated(&helpers, sent).into_iter().enumerate() {
                let value = [value];
                (0..stored_count).for_each(|place| builder.output(output + word * stored_count + place, &value, place));
            }
        }
        Some(Plan { price: have.price(&reads), program: builder.finish(), reads })
    }
}

#[cfg(test)]
#[path = "basic_mbr_tests.rs"]
mod tests;
