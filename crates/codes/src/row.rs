//! Rows of a matrix in the form in which elimination is fast: bytes over GF(2^8), or one bit per element if all
//! elements are 0 or 1. Zeros and ones are closed under elimination, so both give the same results. Bits are about a
//! hundred times faster, which codes with hundreds of symbols per shard need.

use crate::gf;
use crate::work::spend;
use alloc::vec;
use alloc::vec::Vec;

/// A row of elements.
pub(crate) trait Row: Clone + Ord {
    /// The number of elements that take the time of one byte, in rows of a hundred or so.
    const ELEMENTS_PER_OPERATION: u64;
    /// A row of `count` zeros.
    fn zeros(count: usize) -> Self;
    /// The row of these elements.
    fn pack(elements: &[u8]) -> Self;
    /// The first `count` elements.
    fn elements(&self, count: usize) -> Vec<u8>;
    /// The element at `index`.
    fn at(&self, index: usize) -> u8;
    /// Turns the element at `index`, a zero, into a one.
    fn set(&mut self, index: usize);
    /// The index of the first element that is not zero.
    fn first_nonzero(&self) -> Option<usize>;
    /// Adds a multiple of a row of the same length.
    fn add_multiple(&mut self, row: &Self, factor: u8);
    /// Multiplies all elements.
    fn scale(&mut self, factor: u8);
    /// Subtracts multiples of the given rows until the first nonzero element is where none of these rows begins, and
    /// returns its index. `by_lead[i]` is a row whose first nonzero element is a one at `i`. `None`: the row became
    /// zero.
    fn reduce(&mut self, by_lead: &[Option<Self>]) -> Option<usize>;
}

/// Elements of GF(2^8), a byte each.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Bytes(Vec<u8>);

impl Row for Bytes {
    const ELEMENTS_PER_OPERATION: u64 = 1;

    fn zeros(count: usize) -> Bytes {
        spend(count);
        Bytes(vec![0; count])
    }

    fn pack(elements: &[u8]) -> Bytes {
        spend(elements.len());
        Bytes(elements.to_vec())
    }

    fn elements(&self, count: usize) -> Vec<u8> {
        spend(count);
        self.0[..count].to_vec()
    }

    fn at(&self, index: usize) -> u8 {
        self.0[index]
    }

    fn set(&mut self, index: usize) {
        self.0[index] = 1;
    }

    fn first_nonzero(&self) -> Option<usize> {
        spend(self.0.len());
        self.0.iter().position(|&element| element != 0)
    }

    fn add_multiple(&mut self, row: &Bytes, factor: u8) {
        spend(self.0.len());
        gf::add_multiple(&mut self.0, &row.0, factor);
    }

    fn scale(&mut self, factor: u8) {
        spend(self.0.len());
        gf::scale(&mut self.0, factor);
    }

    fn reduce(&mut self, by_lead: &[Option<Bytes>]) -> Option<usize> {
        let mut spent = self.0.len();
        let mut first = 0;
        let lead = loop {
            let Some(zeros) = self.0[first..].iter().position(|&element| element != 0) else { break None };
            let lead = first + zeros;
            let Some(row) = &by_lead[lead] else { break Some(lead) };
            let rest = &mut self.0[lead..];
            spent += rest.len();
            let factor = rest[0];
            gf::add_multiple(rest, &row.0[lead..], factor);
            first = lead + 1;
        };
        spend(spent);
        lead
    }
}

/// Zeros and ones, 64 to a word, the first in the lowest bit. Every factor must be 0 or 1.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Bits(Vec<u64>);

impl Row for Bits {
    const ELEMENTS_PER_OPERATION: u64 = 8;

    fn zeros(count: usize) -> Bits {
        spend(count.div_ceil(64));
        Bits(vec![0; count.div_ceil(64)])
    }

    fn pack(elements: &[u8]) -> Bits {
        spend(elements.len());
        let word = |chunk: &[u8]| chunk.iter().rev().fold(0, |word, &bit| word << 1 | u64::from(bit));
        Bits(elements.chunks(64).map(word).collect())
    }

    fn elements(&self, count: usize) -> Vec<u8> {
        spend(count);
        (0..count).map(|index| self.at(index)).collect()
    }

    fn at(&self, index: usize) -> u8 {
        (self.0[index / 64] >> (index % 64) & 1) as u8
    }

    fn set(&mut self, index: usize) {
        self.0[index / 64] |= 1 << (index % 64);
    }

    fn first_nonzero(&self) -> Option<usize> {
        spend(self.0.len());
        let word = self.0.iter().position(|&word| word != 0)?;
        Some(64 * word + self.0[word].trailing_zeros() as usize)
    }

    fn add_multiple(&mut self, row: &Bits, factor: u8) {
        if factor != 0 {
            spend(self.0.len());
            for (word, &added) in self.0.iter_mut().zip(&row.0) {
                *word ^= added;
            }
        }
    }

    fn scale(&mut self, factor: u8) {
        debug_assert_eq!(factor, 1, "bits are not scaled");
    }

    fn reduce(&mut self, by_lead: &[Option<Bits>]) -> Option<usize> {
        let mut spent = 0;
        let lead = loop {
            spent += self.0.len();
            let Some(word) = self.0.iter().position(|&word| word != 0) else { break None };
            let lead = 64 * word + self.0[word].trailing_zeros() as usize;
            let Some(row) = &by_lead[lead] else { break Some(lead) };
            for (word, &added) in self.0.iter_mut().zip(&row.0) {
                *word ^= added;
            }
        };
        // Counted once for all words: rows of few words take no longer than counting does.
        spend(spent);
        lead
    }
}

/// The reduced row echelon form of rows of `columns` elements without its zero rows, and the pivot column of each row.
pub(crate) fn reduced<R: Row>(mut rows: Vec<R>, columns: usize) -> (Vec<R>, Vec<usize>) {
    let mut pivots = Vec::new();
    for column in 0..columns {
        let top = pivots.len();
        let Some(found) = (top..rows.len()).find(|&row| rows[row].at(column) != 0) else {
            continue;
        };
        rows.swap(top, found);
        if let Some(inverse) = gf::inverse(rows[top].at(column)) {
            rows[top].scale(inverse);
        }
        let pivot_row = rows[top].clone();
        for (index, row) in rows.iter_mut().enumerate() {
            if index != top {
                let factor = row.at(column);
                row.add_multiple(&pivot_row, factor);
            }
        }
        pivots.push(column);
    }
    rows.truncate(pivots.len());
    (rows, pivots)
}
