//! Which codes are looked at.
//!
//! Left out are `rs-cauchy`, `rs-klauspost` and `rs-vandermonde`, which are `rs` with other bytes and slower, `basic-mbr`, which is `mbr` with
//! more symbols, and `msbasic`, which does not survive what its paper says.

/// Codes of more shards are not looked at.
pub const WIDTH_MAX: usize = 20;

/// The same for codes with many symbols a cell, whose plans grow with the width.
const WIDTH_MAX_OF_CELLS: usize = 12;

/// The same for codes whose symbols grow with the square of the width, or whose planner is the generic one.
const WIDTH_MAX_OF_GENERIC: usize = 10;

/// Parities of codes that survive the loss of any as many shards.
const PARITIES_MAX: usize = 4;

/// Specs of all codes of at most `width` shards, whether or not their families have them.
#[must_use]
pub fn specs(width: usize) -> Vec<String> {
    let width = width.min(WIDTH_MAX);
    let mut specs: Vec<String> = (2..=width.min(4)).map(|copies| format!("replica:{copies}")).collect();
    specs.extend((3..=width).map(|n| format!("raid5:{n}")));
    specs.extend((4..=width).map(|n| format!("raid6:{n}")));
    for (k, m) in counts(width, PARITIES_MAX) {
        specs.push(format!("rs:{k}+{m}"));
    }
    for (k, g) in counts(width, 2) {
        let locals = (2..=3).filter(|l| k % l == 0 && k > *l && k + l + g <= width);
        specs.extend(locals.flat_map(|l| ["lrc", "lrc-uniform"].map(|family| format!("{family}:{k}+{l}+{g}"))));
    }
    for (k, m) in counts(width.min(WIDTH_MAX_OF_CELLS), PARITIES_MAX) {
        specs.extend(["clay", "mojette"].map(|family| format!("{family}:{k}+{m}")));
    }
    let narrow = width.min(WIDTH_MAX_OF_GENERIC);
    for (k, m) in counts(narrow, PARITIES_MAX) {
        specs.push(format!("crs:{k}+{m}"));
        specs.push(format!("embr:n={},k={k}", k + m));
    }
    // Product matrices need nearly as many parities as data.
    for (k, m) in counts(narrow, narrow).filter(|(k, m)| m + 1 >= *k && m <= k) {
        let d = k + m - 1;
        specs.extend(["msr", "basic", "mbr"].map(|family| format!("{family}:{k}+{m},d={d}")));
    }
    let graphs = [("plank-5", 10), ("cube-8-6", 14), ("plank-10", 20)];
    specs.extend(graphs.into_iter().filter(|(_, n)| *n <= width).map(|(graph, _)| format!("ldpc:{graph}")));
    specs
}

/// Data and parity counts of at most `width` shards, with at least two data shards and at most `parities` others.
fn counts(width: usize, parities: usize) -> impl Iterator<Item = (usize, usize)> {
    (2..width).flat_map(move |k| (1..=parities.min(width - k)).map(move |m| (k, m)))
}
