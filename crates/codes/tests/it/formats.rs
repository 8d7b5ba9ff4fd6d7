//! What is stored never changes: a digest of the stripe that made-up data become, for codes of every family. Vectors from
//! elsewhere say whether a code is right; this says that it stays what it was when the first volume was written.

use crate::stripe::Stripe;
use std::collections::BTreeSet;
use weft_codes::families;

/// Odd, so that no shape of it suits a kernel.
const SYMBOL_BYTES: usize = 13;

/// `spec: n, symbols a cell, native symbols, digest`, a line each.
const GOLDEN: &str = include_str!("../golden/formats.txt");

/// FNV-1a: its definition is two lines, and it will not change either.
fn digest(stored: &[Vec<u8>]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    stored.iter().flatten().fold(0xcbf2_9ce4_8422_2325, step)
}

#[test]
fn every_format_is_as_it_was() {
    let mut found = String::new();
    let mut seen = BTreeSet::new();
    for line in GOLDEN.lines() {
        let (spec, _) = line.rsplit_once(": ").expect("a line has a spec and what it means");
        let code = weft_codes::parse(spec).unwrap_or_else(|error| panic!("{error}"));
        let (shape, stripe) = (code.shape(), Stripe::made_up(&*code, SYMBOL_BYTES));
        let digest = digest(&stripe.stored);
        found += &format!("{spec}: {}, {}, {}, {digest:016x}\n", shape.n, shape.alpha, shape.native_count);
        seen.extend(spec.split(':').next());
    }
    let missing: Vec<&str> = families().iter().map(|family| family.name).filter(|name| !seen.contains(name)).collect();
    assert!(missing.is_empty(), "these families are pinned by no line: {missing:?}");
    assert!(found == GOLDEN, "stored bytes have changed; they are now\n{found}");
}
