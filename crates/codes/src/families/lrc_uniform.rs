//! Wide local reconstruction codes whose groups also cover the global parities: every shard is repaired from its group.
//!
//! Shards in order: `k` data, `l` local parities, `g` global parities. Data and global parities, in this order, are
//! numbered `0 .. k + g`. Number `i` is in group `floor(i * l / (k + g))`, so the sizes of groups differ by at most
//! one. A local parity is the XOR of its group. Any `g + 1` losses can be decoded.
//!
//! A persistent format, pinned by golden values. The Cauchy matrix with rows `0 ..= g` and columns `y`
//!
//! ```text
//! 1 / (r ^ y)      in GF(2^8), ^ is XOR of the indices
//! ```
//!
//! has each column divided by its sum; the columns are the `k` least `y > g` whose sum is not zero. Rows 1 to `g` give
//! the global parities `G`. All rows together now sum to ones, so the local parities sum to `sum(data) + sum(G) = row
//! 0`: as long as no local parity is lost, a maximum distance separable code with `g + 1` parities is available. If `b
//! >= 1` local parities are lost, at most `g + 1 - b <= g` others are, and the global parities suffice.
//!
//! Cost: `(k + l + g) / k` bytes stored per byte; repair of any shard reads `(k + g) / l` shards.
//!
//! Source: Kadekodi et al., Practical design considerations for wide locally recoverable codes (FAST 2023), Uniform
//! Cauchy LRC; the division by column sums, which makes every local parity a plain XOR, is ours.
//!
//! ```
//! let code = weft_codes::parse("lrc-uniform:96+4+5")?;
//! assert_eq!((code.shape().n, code.shape().tolerance), (105, 6));
//! assert!(code.shape().groups.iter().all(|group| group.shards.len() <= 27));
//! # Ok::<(), weft_codes::SpecError>(())
//! ```

use super::Family;
use super::lrc::{check_counts, data_local_global, group_of};
use super::parameters::Problem;
use crate::code::{Code, Group};
use crate::gf;
use crate::linear::LinearCode;
use crate::matrix::Matrix;
use alloc::format;
use alloc::sync::Arc;
use alloc::vec::Vec;

pub(super) const FAMILY: Family = Family {
    name: "lrc-uniform",
    syntax: "lrc-uniform:data+local+global",
    example: "lrc-uniform:24+2+2",
    description: "local groups over data and global parities; any global + 1 may be lost, one reads its group",
    source: "Kadekodi et al.: Practical design considerations for wide locally recoverable codes (FAST 2023)",
    build,
};

fn build(parameters: &str) -> Result<Arc<dyn Code>, Problem> {
    let (k, l, g) = data_local_global(parameters)?;
    check_counts(k, l)?;
    let global = global_parities(k, g).ok_or_else(|| {
        Problem::Impossible(format!("GF(2^8) has not enough elements for {k} data shards and {g} global parities"))
    })?;
    let covered = Matrix::identity(k).stack(&global);
    let member = Matrix::from_fn(l, k + g, |group, index| u8::from(group_of(index, k + g, l) == group));
    let generator = Matrix::identity(k).stack(&member.multiply(&covered)).stack(&global);
    let shard = |index| if index < k { index } else { index + l };
    let members = |group| {
        let covered = (0..k + g).filter(|&index| member.at(group, index) == 1).map(shard);
        covered.chain([k + group]).collect()
    };
    let groups = (0..l).map(|group| Group { shards: members(group), repairs: 1 }).collect();
    Ok(Arc::new(LinearCode::new(format!("lrc-uniform:{k}+{l}+{g}"), k, 1, g + 1, groups, generator)))
}

/// The coefficients of the global parities: `g` rows, `k` columns; `None` if GF(2^8) has too few elements.
#[must_use]
fn global_parities(k: usize, g: usize) -> Option<Matrix> {
    let element = |row: usize, column: usize| gf::inverse((row ^ column) as u8).unwrap_or(0);
    let sum = |column: usize| (0..=g).fold(0, |sum, row| sum ^ element(row, column));
    let columns: Vec<usize> = (g + 1..256).filter(|&column| sum(column) != 0).take(k).collect();
    let row = |row, data: usize| gf::divide(element(row + 1, columns[data]), sum(columns[data])).unwrap_or(0);
    (columns.len() == k).then(|| Matrix::from_fn(g, k, row))
}
