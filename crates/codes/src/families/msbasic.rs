//! MS-BASIC exactly as printed: `k` data shards and `k` parities, each parity the sum of `k/2` shifted data shards.
//!
//! Number data `D_1 .. D_k` and parities `P_1 .. P_k`. A cell is a word of `p` strips, where `p` is the smallest prime
//! greater than `k/2`. Its first `p - 1` strips are stored; the last is their XOR. Let `z^s` be the rotation by `s`
//! strips. Then (eqs. 1 and 2; indices of data run cyclically from `k` to 1)
//!
//! ```text
//! P_i = sum over t = 0 .. k/2 - 1 of z^(t i mod p) D_(i + t)
//! ```
//!
//! so only XOR and renaming are needed. Any one shard follows from `k/2` others: `P_i` from its data, and `D_j` from a
//! parity that contains it and that parity's other data.
//!
//! It is **not** maximum distance separable, although the paper says so: `D_1, D_2, D_3, P_1` of `msbasic:4` do not
//! determine `D_4`. No code that repairs from `k/2` whole shards can be, since losing a data shard and its `k/2`
//! parities is then fatal. Any `k/2` losses can be decoded (found by trying all patterns up to `k` = 16, which is why
//! this family stops there). Of more losses most can be:
//!
//! | k | of k/2 + 1 losses | of k/2 + 2 | of k/2 + 3 | of k |
//! |---|---|---|---|---|
//! | 4 | 52 of 56 | | | 46 of 70 |
//! | 6 | 488 of 495 | 726 of 792 | | 641 of 924 |
//! | 8 | 4360 of 4368 | 7896 of 8008 | 10725 of 11440 | 10003 of 12870 |
//!
//! Cost: 2 bytes stored per byte; the repair of a shard reads `k/2`. Take [`super::basic`] for a code that does what
//! the paper meant.
//!
//! Source: Minimum Storage BASIC Codes: A System Perspective, equations (1) and (2). The paper's worked example (`k` =
//! 4, `p` = 3) shows that `p` is greater than `k/2`, not equal.
//!
//! ```
//! use weft_codes::{Offer, Offers, Wanted};
//!
//! let code = weft_codes::parse("msbasic:4")?;
//! let offer = Offer { combines: false, request_price: 1, symbol_price: 1 };
//! let have = Offers((0..8).map(|shard| (shard != 1).then_some(offer)).collect());
//! let plan = code.plan(&Wanted::Shards(vec![1]), &have)?;
//! let mut shards: Vec<usize> = plan.reads.iter().map(|read| read.shard).collect();
//! shards.dedup();
//! assert_eq!(shards.len(), 2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use super::Family;
use super::parameters::{Problem, count, require};
use super::ring::{Builder, Word};
use crate::code::{Code, Group};
use crate::linear::LinearCode;
use crate::program::Program;
use alloc::format;
use alloc::sync::Arc;
use alloc::vec::Vec;

pub(super) const FAMILY: Family = Family {
    name: "msbasic",
    syntax: "msbasic:data",
    example: "msbasic:4",
    description: "as many parities as data, XOR and shifts; any data/2 may be lost, one reads data/2 shards",
    source: "Minimum Storage BASIC Codes: A System Perspective, as printed",
    build,
};

/// All patterns of k/2 losses were tried up to this k.
const MOST_DATA: usize = 16;

fn build(parameters: &str) -> Result<Arc<dyn Code>, Problem> {
    let k = count(parameters)?;
    require((2..=MOST_DATA).contains(&k) && k.is_multiple_of(2), || {
        format!(
            "as printed it has an even number of data shards, and what it survives is known for 2 to {MOST_DATA}, not {k}"
        )
    })?;
    let strip_count = smallest_prime_above(k / 2);
    let groups = (0..k).map(|parity| Group { shards: window(k, parity).chain([k + parity]).collect(), repairs: 1 });
    let encode = encode(k, strip_count);
    let spec = format!("msbasic:{k}");
    Ok(Arc::new(LinearCode::systematic(spec, k, strip_count - 1, k / 2, groups.collect(), encode)))
}

/// Data shards of the parity, in the order of the sum.
fn window(k: usize, parity: usize) -> impl Iterator<Item = usize> {
    (0..k / 2).map(move |t| (parity + t) % k)
}

/// The program of the parities over words of this many strips, which determine the code.
fn encode(k: usize, strip_count: usize) -> Program {
    let alpha = strip_count - 1;
    let mut builder = Builder::new(strip_count, k * alpha, k * alpha);
    let data: Vec<Word> = (0..k).map(|shard| builder.input(shard * alpha)).collect();
    for parity in 0..k {
        // Parities are numbered from 1 in the shifts.
        let shifted = |(t, shard): (usize, usize)| data[shard].shifted(t * (parity + 1));
        let terms: Vec<Word> = window(k, parity).enumerate().map(shifted).collect();
        (0..alpha).for_each(|place| builder.output(parity * alpha + place, &terms, place));
    }
    builder.finish()
}

fn smallest_prime_above(number: usize) -> usize {
    let is_prime = |candidate: &usize| (2..*candidate).all(|divisor| !candidate.is_multiple_of(divisor));
    (number.max(1) + 1..).find(is_prime).unwrap_or(2)
}

#[cfg(test)]
#[path = "msbasic_tests.rs"]
mod tests;
