//! The nodes of a BASIC code as words of a program, and how one follows from others.

use crate::families::ring::{Builder, Word, smallest_strip_count, value_terms};
use crate::program::SymbolId;
use alloc::vec;
use alloc::vec::Vec;

/// The numbers of a code that its arithmetic needs.
#[derive(Clone, Debug)]
pub(super) struct Nodes {
    /// Words per shard.
    word_count: usize,
    /// Nodes that are zero and not stored; shard `i` is node `zero_count + i`.
    zero_count: usize,
    /// Strips of a word, the parity strip included.
    pub(super) strip_count: usize,
}

impl Nodes {
    /// For `k + m` shards and `d` helpers; needs `k >= 2` and `2k - 2 <= d < k + m`.
    pub(super) fn new(k: usize, m: usize, d: usize) -> Nodes {
        let zero_count = d + 2 - 2 * k;
        Nodes { word_count: d - k + 1, zero_count, strip_count: smallest_strip_count(k + m + zero_count) }
    }

    /// Stored strips of a word.
    pub(super) fn word_symbols(&self) -> usize {
        self.strip_count - 1
    }

    /// Stored strips of a shard.
    pub(super) fn cell_symbols(&self) -> usize {
        self.word_count * self.word_symbols()
    }

    /// The shard whose strips are the inputs that begin at `first`.
    pub(super) fn cell(&self, builder: &mut Builder, first: SymbolId) -> Vec<Word> {
        (0..self.word_count).map(|word| builder.input(first + word * self.word_symbols())).collect()
    }

    /// Makes strip `sub` of the shard with these words the given output.
    pub(super) fn output(&self, builder: &mut Builder, output: usize, words: &[Word], sub: usize) {
        let (word, place) = (sub / self.word_symbols(), sub % self.word_symbols());
        builder.output(output, &words[word..=word], place);
    }

    /// The wanted shards from `k` known ones, given as (shard, words).
    pub(super) fn decoded(
        &self,
        builder: &mut Builder,
        known: Vec<(usize, Vec<Word>)>,
        wanted: &[usize],
    ) -> Vec<Vec<Word>> {
        let zeros = (0..self.zero_count).map(|node| (node, vec![Word::zero(); self.word_count]));
        let stored = known.into_iter().map(|(shard, words)| (self.exponent(shard), words));
        let known: Vec<(usize, Vec<Word>)> = zeros.chain(stored).collect();
        let exponents: Vec<usize> = known.iter().map(|&(exponent, _)| exponent).collect();
        let count = known.len();

        // x[i][j] = phi_i^T (S1 + l_i S2) phi_j; s2[i][j] = phi_i^T S2 phi_j for i != j.
        let x: Vec<Vec<Word>> = known
            .iter()
            .map(|(_, words)| exponents.iter().map(|&exponent| builder.evaluated(words, exponent)).collect())
            .collect();
        let mut s2 = vec![vec![Word::zero(); count]; count];
        for i in 0..count {
            for j in 0..i {
                let sum = [x[i][j].clone(), x[j][i].clone()];
                s2[i][j] = builder.quotient(&sum, self.word_count * exponents[i], self.word_count * exponents[j]);
                s2[j][i] = s2[i][j].clone();
            }
        }

        // A single known node gives more than the words of a node need.
        let used = 0..self.word_count;
        let others = |i: usize| (0..count).filter(move |&j| j != i);
        let exponents_of_others = |i: usize| others(i).map(|j| exponents[j]).collect::<Vec<_>>();
        let l = |node: usize| self.word_count * exponents[node];
        // values[w][i] = phi_w^T (S1 + l_w S2) phi_i for the wanted w.
        let values: Vec<Vec<Word>> = if let [wanted] = wanted {
            // For one wanted node, S1 + l_w S2 is interpolated at once.
            let exponent = self.exponent(*wanted);
            let value = |i: usize| {
                let at = |j: usize| {
                    let s2 = &s2[i][j];
                    [x[i][j].clone(), s2.shifted(l(i)), s2.shifted(self.word_count * exponent)]
                };
                let values = others(i).map(|j| builder.sum(&at(j))).collect();
                let polynomial = builder.interpolated(&exponents_of_others(i), values);
                builder.evaluated(&polynomial, exponent)
            };
            vec![used.map(value).collect()]
        } else {
            let polynomial = |i: usize| {
                let s1 = others(i).map(|j| builder.sum(&[x[i][j].clone(), s2[i][j].shifted(l(i))])).collect();
                let s1 = builder.interpolated(&exponents_of_others(i), s1);
                let s2 = others(i).map(|j| s2[i][j].clone()).collect();
                // The powers of z^w of the coefficients of l_w S2 follow those of S1.
                [s1, builder.interpolated(&exponents_of_others(i), s2)].concat()
            };
            let polynomials: Vec<Vec<Word>> = used.map(polynomial).collect();
            let exponents = wanted.iter().map(|&wanted| self.exponent(wanted));
            exponents.map(|exponent| polynomials.iter().map(|p| builder.evaluated(p, exponent)).collect()).collect()
        };
        values.into_iter().map(|values| builder.interpolated(&exponents[..self.word_count], values)).collect()
    }

    /// The word that a helper sends for the repair of shard `lost`: the terms of each strip.
    pub(super) fn help(&self, lost: usize) -> Vec<Vec<(usize, u8)>> {
        value_terms(self.strip_count, self.word_count, self.exponent(lost))
    }

    /// The same word, computed from the helper's words.
    pub(super) fn helped(&self, builder: &mut Builder, words: &[Word], lost: usize) -> Word {
        builder.evaluated(words, self.exponent(lost))
    }

    /// Shard `lost` from the words that `d` helpers sent, given as (shard, word).
    pub(super) fn repaired(&self, builder: &mut Builder, help: Vec<(usize, Word)>, lost: usize) -> Vec<Word> {
        let zeros = (0..self.zero_count).map(|node| (node, Word::zero()));
        let sent = help.into_iter().map(|(shard, word)| (self.exponent(shard), word));
        let (exponents, values): (Vec<usize>, Vec<Word>) = zeros.chain(sent).unzip();
        let products = builder.interpolated(&exponents, values);
        let (s1, s2) = products.split_at(self.word_count);
        let shift = self.word_count * self.exponent(lost);
        s1.iter().zip(s2).map(|(s1, s2)| builder.sum(&[s1.clone(), s2.shifted(shift)])).collect()
    }

    fn exponent(&self, shard: usize) -> usize {
        self.zero_count + shard
    }
}
