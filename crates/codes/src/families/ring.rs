//! Programs of shifts and sums: arithmetic in GF(2)[z] / (1 + z^M), M odd, on words of even parity.
//!
//! A word is `M` strips, each a symbol of a program. The last is the XOR of the others, so `M - 1` are stored.
//! Multiplication by `z^s` moves strip `i` to place `i + s mod M`; it costs nothing, because only names change.
//! Addition is an XOR per strip. Words of even parity are the ideal of `1 + z`, in which `1 + z^b` has an inverse if
//! `b` is prime to `M`: [`Builder::quotient`] visits the strips once.

use super::parameters::{Problem, require};
use crate::passes;
use crate::program::{Op, Program, SymbolId};
use alloc::format;
use alloc::vec::Vec;

/// As of the other families, whose fields allow no more.
const MOST_SHARDS: usize = 256;

/// Elimination over more native symbols would take tens of milliseconds per plan, and their stripes would be large.
const MOST_NATIVES: usize = 2048;

/// Elements of a generator matrix: it is made as soon as a spec is read, which may be anybody's.
const MOST_ELEMENTS: usize = 1 << 24;

/// Refuses more shards than a code has.
pub(super) fn check_shard_count(n: usize) -> Result<(), Problem> {
    require(n <= MOST_SHARDS, || format!("there are at most {MOST_SHARDS} shards, not {n}"))
}

/// Refuses codes that are too large to be planned for, of `n` shards with `alpha` strips each.
pub(super) fn check_size(n: usize, alpha: usize, native_count: usize) -> Result<(), Problem> {
    require(native_count <= MOST_NATIVES, || {
        format!("a stripe would have {native_count} strips of data, more than {MOST_NATIVES}")
    })?;
    let elements = n * alpha * native_count;
    require(elements <= MOST_ELEMENTS, || {
        format!("the generator matrix would have {elements} elements, more than {MOST_ELEMENTS}")
    })
}

/// The strips of a word by place; empty for the zero word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Word(Vec<SymbolId>);

impl Word {
    /// Zero.
    pub(super) fn zero() -> Word {
        Word(Vec::new())
    }

    /// The word times `z^exponent`.
    pub(super) fn shifted(&self, exponent: usize) -> Word {
        let mut strips = self.0.clone();
        if !strips.is_empty() {
            strips.rotate_right(exponent % self.0.len());
        }
        Word(strips)
    }
}

/// A program under construction.
#[derive(Debug)]
pub(super) struct Builder {
    strip_count: usize,
    program: Program,
}

impl Builder {
    /// A program over words of `strip_count` strips. Inputs and outputs are counted in strips, `strip_count - 1` per
    /// word.
    pub(super) fn new(strip_count: usize, input_count: usize, output_count: usize) -> Builder {
        Builder { strip_count, program: Program { input_count, output_count, temporary_count: 0, ops: Vec::new() } }
    }

    /// The word whose stored strips are the inputs that begin at `first`.
    pub(super) fn input(&mut self, first: SymbolId) -> Word {
        let mut strips: Vec<SymbolId> = (first..first + self.strip_count - 1).collect();
        let parity = self.temporaries(1);
        self.program.ops.push(Op::Xor { from: strips.clone(), to: parity });
        strips.push(parity);
        Word(strips)
    }

    /// The sum of some words.
    pub(super) fn sum(&mut self, words: &[Word]) -> Word {
        match &nonzero(words)[..] {
            [] => Word::zero(),
            [word] => (*word).clone(),
            words => {
                let first = self.temporaries(self.strip_count);
                let strips = first..first + self.strip_count;
                for (place, to) in strips.clone().enumerate() {
                    self.program.ops.push(Op::Xor { from: words.iter().map(|word| word.0[place]).collect(), to });
                }
                Word(strips.collect())
            }
        }
    }

    /// Makes the strip at this place of the sum of some words the given output.
    pub(super) fn output(&mut self, output: usize, words: &[Word], place: usize) {
        let from = nonzero(words).iter().map(|word| word.0[place]).collect();
        self.program.ops.push(Op::Xor { from, to: self.program.input_count + output });
    }

    /// Makes an input the given output.
    pub(super) fn copy(&mut self, output: usize, from: SymbolId) {
        self.program.ops.push(Op::Copy { from, to: self.program.input_count + output });
    }

    /// The sum of some words divided by `z^a + z^b`; `a - b` is prime to the number of strips.
    ///
    /// With the sum `c` and the step `s = |a - b|`, the quotient is `q` with `q[i] = q[i - s] + c[i]`, up to a shift. All
    /// `M` strips of `q` sum to zero, which fixes the first: of `q[0] + c[s] + ... + c[ts]`, `t < M`, each `c[ts]` is in
    /// `M - t` sums, so `q[0]` is the sum of the `c[ts]` with even `t > 0`.
    pub(super) fn quotient(&mut self, words: &[Word], a: usize, b: usize) -> Word {
        let words = nonzero(words);
        if words.is_empty() {
            return Word::zero();
        }
        let (count, step, shift) = (self.strip_count, a.abs_diff(b), a.min(b));
        let first = self.temporaries(count);
        let at = |place: usize| words.iter().map(move |word| word.0[place]);
        let even_steps = (2..count).step_by(2).flat_map(|t| at(t * step % count)).collect();
        self.program.ops.push(Op::Xor { from: even_steps, to: first });
        let mut last = first;
        for place in (1..count).map(|t| t * step % count) {
            self.program
                .ops
                .push(Op::Xor { from: core::iter::once(last).chain(at(place)).collect(), to: first + place });
            last = first + place;
        }
        Word((first..first + count).collect()).shifted(count - shift % count)
    }

    /// The coefficients, lowest first, of the polynomial of degree below the number of points with these values at
    /// `z^exponent`. Differences of exponents are prime to the number of strips.
    pub(super) fn interpolated(&mut self, exponents: &[usize], mut words: Vec<Word>) -> Vec<Word> {
        let count = words.len();
        // Newton's divided differences, then products with (x + z^exponent) from the last to the first.
        for level in 1..count {
            for i in (level..count).rev() {
                words[i] = self.quotient(&[words[i].clone(), words[i - 1].clone()], exponents[i], exponents[i - level]);
            }
        }
        for level in (0..count.saturating_sub(1)).rev() {
            for i in level..count - 1 {
                words[i] = self.sum(&[words[i].clone(), words[i + 1].shifted(exponents[level])]);
            }
        }
        words
    }

    /// The value at `z^exponent` of the polynomial with these coefficients, lowest first.
    pub(super) fn evaluated(&mut self, coefficients: &[Word], exponent: usize) -> Word {
        let terms = coefficients.iter().enumerate().map(|(power, word)| word.shifted(power * exponent));
        self.sum(&terms.collect::<Vec<_>>())
    }

    /// The program, without operations that no output needs.
    pub(super) fn finish(self) -> Program {
        passes::simplify(passes::drop_dead(self.program))
    }

    fn temporaries(&mut self, count: usize) -> SymbolId {
        let first = self.program.symbol_count();
        self.program.temporary_count += count;
        first
    }
}

/// The value at `z^exponent` of the polynomial whose coefficients are the words of a shard, as its node can compute it:
/// the terms (symbol of the shard, coefficient) of each stored strip.
pub(super) fn value_terms(strip_count: usize, word_count: usize, exponent: usize) -> Vec<Vec<(usize, u8)>> {
    let stored_count = strip_count - 1;
    let terms_of_strip = |strip: usize| {
        let mut symbols: Vec<usize> = Vec::new();
        for word in 0..word_count {
            let place = (strip + strip_count - word * exponent % strip_count) % strip_count;
            let first = word * stored_count;
            if place < stored_count {
                symbols.push(first + place);
            } else {
                // The parity strip is not stored; it is the sum of all others.
                symbols.extend(first..first + stored_count);
            }
        }
        symbols.into_iter().map(|symbol| (symbol, 1)).collect()
    };
    (0..stored_count).map(terms_of_strip).collect()
}

/// The smallest odd number whose prime factors are all at least `node_count`: the strips of a word in codes that divide
/// by differences of `z^i` for that many nodes `i`.
pub(super) fn smallest_strip_count(node_count: usize) -> usize {
    let fits = |number: &usize| (2..node_count).all(|divisor| !number.is_multiple_of(divisor));
    (node_count.max(3)..).find(|number| number % 2 == 1 && fits(number)).unwrap_or(3)
}

fn nonzero(words: &[Word]) -> Vec<&Word> {
    words.iter().filter(|word| !word.0.is_empty()).collect()
}

#[cfg(test)]
#[path = "ring_tests.rs"]
mod tests;
