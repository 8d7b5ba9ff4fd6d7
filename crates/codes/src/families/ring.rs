//! Programs of shifts and sums: arithmetic in GF(2)[z] / (1 + z^M), M odd, on words of even parity.
//!
//! A word is `M` strips, each a symbol of a program, of which the last is the XOR of the others, so that `M - 1` are
//! stored. Multiplication by `z^s` moves strip `i` to place `i + s mod M`: it costs nothing, only names change. Addition
//! is an XOR per strip.

use crate::passes;
use crate::program::{Op, Program, SymbolId};

/// The strips of a word by place; none for the word zero.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Word(Vec<SymbolId>);

impl Word {
    /// The word times `z^exponent`.
    pub(super) fn shifted(&self, exponent: usize) -> Word {
        let mut strips = self.0.clone();
        if !strips.is_empty() {
            strips.rotate_right(exponent % self.0.len());
        }
        Word(strips)
    }
}

/// A program in the making.
#[derive(Debug)]
pub(super) struct Builder {
    strip_count: usize,
    program: Program,
}

impl Builder {
    /// A program over words of so many strips, with so many inputs and outputs (strips, `strip_count - 1` a word).
    pub(super) fn new(strip_count: usize, input_count: usize, output_count: usize) -> Builder {
        Builder { strip_count, program: Program { input_count, output_count, temporary_count: 0, ops: Vec::new() } }
    }

    /// The word whose stored strips are the inputs from `first` on.
    pub(super) fn input(&mut self, first: SymbolId) -> Word {
        let mut strips: Vec<SymbolId> = (first..first + self.strip_count - 1).collect();
        let parity = self.temporaries(1);
        self.program.ops.push(Op::Xor { from: strips.clone(), to: parity });
        strips.push(parity);
        Word(strips)
    }

    /// The sum of some words as the outputs from the `first` on.
    pub(super) fn output(&mut self, first: usize, words: &[Word]) {
        let words = nonzero(words);
        for place in 0..self.strip_count - 1 {
            let to = self.program.input_count + first + place;
            self.program.ops.push(Op::Xor { from: words.iter().map(|word| word.0[place]).collect(), to });
        }
    }

    /// The program, without what no output needs.
    pub(super) fn finish(self) -> Program {
        passes::simplify(passes::drop_dead(self.program))
    }

    fn temporaries(&mut self, count: usize) -> SymbolId {
        let first = self.program.symbol_count();
        self.program.temporary_count += count;
        first
    }
}

fn nonzero(words: &[Word]) -> Vec<&Word> {
    words.iter().filter(|word| !word.0.is_empty()).collect()
}
