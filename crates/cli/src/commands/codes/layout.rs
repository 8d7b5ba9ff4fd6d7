//! Which symbol lies on which node, by name: `M3` is native (message) symbol 3, `C0` the first coded one, `M3'` a
//! duplicate, as in Fig. 1 of the NCFS paper.

use std::collections::HashMap;
use weft_codes::{Content, Shape};

/// What a stored symbol is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symbol {
    pub kind: Kind,
    /// Number among its kind.
    pub index: usize,
    /// Lies on an earlier node, too.
    pub is_duplicate: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    Native,
    Coded,
}

impl Symbol {
    pub fn name(&self) -> String {
        let letter = if self.kind == Kind::Native { 'M' } else { 'C' };
        format!("{letter}{}{}", self.index, if self.is_duplicate { "'" } else { "" })
    }
}

/// By stored symbol; `stored` are the symbols of a stripe of random data, where only duplicates are equal.
pub fn symbols(shape: &Shape, stored: &[Vec<u8>]) -> Vec<Symbol> {
    let mut seen: HashMap<&Vec<u8>, (Kind, usize)> = HashMap::new();
    let mut coded_count = 0;
    let symbol = |(bytes, content): (_, &Content)| {
        if let Some(&(kind, index)) = seen.get(bytes) {
            return Symbol { kind, index, is_duplicate: true };
        }
        let (kind, index) = match content {
            Content::Native(native) => (Kind::Native, *native),
            Content::Coded => {
                coded_count += 1;
                (Kind::Coded, coded_count - 1)
            }
        };
        seen.insert(bytes, (kind, index));
        Symbol { kind, index, is_duplicate: false }
    };
    stored.iter().zip(&shape.contents).map(symbol).collect()
}

/// `M0 + 3*M1`; of many terms the first ones.
pub fn sum(row: &[u8]) -> String {
    const MOST_TERMS: usize = 12;
    let term = |native: usize| match row[native] {
        1 => format!("M{native}"),
        coefficient => format!("{coefficient}*M{native}"),
    };
    let natives: Vec<usize> = (0..row.len()).filter(|&native| row[native] != 0).collect();
    let shown: Vec<String> = natives.iter().take(MOST_TERMS).map(|&native| term(native)).collect();
    match natives.len().saturating_sub(MOST_TERMS) {
        0 if shown.is_empty() => "0".to_owned(),
        0 => shown.join(" + "),
        more => format!("{} + ... ({more} more)", shown.join(" + ")),
    }
}

#[cfg(test)]
#[path = "layout_tests.rs"]
mod tests;
