//! Local reconstruction codes as in Azure: data in `l` groups, each with the XOR of its data as local parity, and `g`
//! global parities over all data. A single loss in a group is repaired from the group.
//!
//! Shards in order: `k` data, `l` local parities, `g` global parities. Data shard `j` is in group `floor(j * l / k)`,
//! so the sizes of groups differ by at most one. Any `g + 1` losses can be decoded, which is the most that this
//! locality allows.
//!
//! A persistent format, pinned by golden values. The coefficients of the global parities:
//!
//! * `g = 2`, groups of at most 15 in at most 17 groups: global parity `r` multiplies data shard `j` by `x^(2^r)`,
//!   where `x = 2^(i + 17 p)` for the shard at place `p` of group `i`. The multiplicative group of GF(16) is the powers
//!   of 2^17, so with zero the `x` of one group lie in a copy of GF(16), and these copies share nothing but zero. That
//!   makes the code **maximally recoverable**: it decodes every pattern that any code with these groups can. Proof:
//!   solving a group by its parity leaves the difference `(d, d^2)` of two columns, `d` a non-zero element of that
//!   group's copy; two such columns, or one and a plain `(x, x^2)`, are dependent only where their elements are equal,
//!   which they are not in two copies. Within a group `(1, x, x^2)` is a Vandermonde matrix.
//! * all others: rows 1 to `g` of the coding matrix of [`super::rs`]`:k+(g+1)`, of which row 0, all ones, is the sum of
//!   the local parities. With `b` local parities among the `g + 1` losses: where `b = 0`, that sum stands in for row 0
//!   of a maximum distance separable code, otherwise at most `g - b + 1 <= g` others are lost and the global rows
//!   suffice. With `g <= 1` this too is maximally recoverable; with more it is not promised.
//!
//! Cost: `(k + l + g) / k` bytes stored per byte; repair of a data shard or a local parity reads its group, `k / l`
//! shards, of a global parity at most `k`.
//!
//! Sources: Huang et al., Erasure coding in Windows Azure storage (ATC 2012), whose two groups have the subspaces of low
//! and high bits; the many subspaces are a spread, as in Gopalan et al., Explicit maximally recoverable codes with
//! locality (2014).
//!
//! ```
//! use weft_codes::{Offer, Offers, Wanted};
//!
//! let code = weft_codes::parse("lrc:6+2+2")?;
//! let offer = Offer { combines: false, request_price: 1, symbol_price: 1 };
//! let have = Offers((0..10).map(|shard| (shard != 1).then_some(offer)).collect());
//! let plan = code.plan(&Wanted::Shards(vec![1]), &have)?;
//! assert_eq!(plan.reads.iter().map(|read| read.shard).collect::<Vec<_>>(), [0, 2, 6]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use super::parameters::{Problem, count, require};
use super::{Family, rs};
use crate::code::{Code, Group};
use crate::gf;
use crate::linear::LinearCode;
use crate::matrix::Matrix;
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::sync::Arc;
use alloc::vec::Vec;

pub(super) const FAMILY: Family = Family {
    name: "lrc",
    syntax: "lrc:data+local+global",
    example: "lrc:6+2+2",
    description: "local groups with an XOR each, global parities; any global + 1 may be lost, one reads its group",
    source: "Huang et al.: Erasure coding in Windows Azure storage (ATC 2012), coefficients by a spread, else Cauchy",
    build,
};

/// The cosets of GF(16)* in GF(256)*: their number, and the elements of each.
const COSETS: usize = 17;
const COSET_ELEMENTS: usize = 15;

/// The Cauchy matrix has a column per data shard and a row per global parity and one more.
const MOST_ELEMENTS: usize = 256;

fn build(parameters: &str) -> Result<Arc<dyn Code>, Problem> {
    let (k, l, g) = data_local_global(parameters)?;
    check_counts(k, l)?;
    require(k + g < MOST_ELEMENTS, || format!("GF(2^8) allows 255 data and global shards, not {}", k + g))?;
    let local = Matrix::from_fn(l, k, |group, data| u8::from(group_of(data, k, l) == group));
    let generator = Matrix::identity(k).stack(&local).stack(&global_parities(k, l, g));
    let members = |group| (0..k).filter(move |&data| group_of(data, k, l) == group).chain([k + group]).collect();
    let groups = (0..l).map(|group| Group { shards: members(group), repairs: 1 }).collect();
    Ok(Arc::new(LinearCode::new(format!("lrc:{k}+{l}+{g}"), k, 1, g + 1, groups, generator)))
}

/// `k+l+g` as three counts.
pub(super) fn data_local_global(text: &str) -> Result<(usize, usize, usize), Problem> {
    let mut counts = text.splitn(3, '+').map(count);
    let mut next = || counts.next().ok_or(Problem::Syntax)?;
    Ok((next()?, next()?, next()?))
}

/// Refuses more groups than the data can fill.
pub(super) fn check_counts(k: usize, l: usize) -> Result<(), Problem> {
    require(k >= 1, || "at least 1 data shard is needed".to_owned())?;
    require(l >= 1, || "at least 1 local group is needed, else it is rs".to_owned())?;
    require(l <= k, || format!("{k} data shards cannot be in {l} groups"))
}

/// The group of the shard with this index when `count` shards are in `groups` groups.
pub(super) fn group_of(index: usize, count: usize, groups: usize) -> usize {
    index * groups / count
}

/// The coefficients of the global parities: `g` rows, `k` columns; needs `1 <= l <= k` and `k + g < 256`.
#[must_use]
fn global_parities(k: usize, l: usize, g: usize) -> Matrix {
    if g == 2 && k.div_ceil(l) <= COSET_ELEMENTS && l <= COSETS {
        return Matrix::from_fn(g, k, |row, data| {
            let group = group_of(data, k, l);
            let place = data - (group * k).div_ceil(l);
            gf::power_of_two((group + COSETS * place) << row)
        });
    }
    rs::normalised_cauchy(k, g + 1).select_rows(&(1..=g).collect::<Vec<_>>())
}
