//! Computes once what several XORs have in common.

use crate::program::{Op, Program, SymbolId};
use std::collections::{BTreeMap, BinaryHeap};

/// No more is shared after so many operations on words: some milliseconds. The most useful pairs come first.
const MOST_WORD_OPERATIONS: usize = 1 << 23;

/// Replaces the pair of symbols that most XORs have in common by a temporary, and so on as long as two XORs have one in
/// common.
///
/// This is Paar's greedy algorithm for linear circuits, or RePair on sets, as Uezato (Accelerating XOR-based erasure
/// coding using program optimization techniques, SC 2021) applies it to erasure codes. Each temporary saves as many
/// operations as there are XORs with the pair, less one.
#[must_use]
pub fn share(program: Program) -> Program {
    let is_row = |op: &Op| matches!(op, Op::Xor { from, .. } if from.len() > 1);
    let rows: Vec<usize> = (0..program.ops.len()).filter(|&op| is_row(&program.ops[op])).collect();
    let mut occurrences = Occurrences::of(&program, &rows);
    let mut candidates = Candidates::new();
    let mut operations_left = MOST_WORD_OPERATIONS;
    for later in 0..occurrences.symbols.len() {
        operations_left = operations_left.saturating_sub(occurrences.find(later, &mut candidates));
    }
    // By operation: the temporaries to be computed just before it, the first that needs them.
    let mut temporaries: Vec<Vec<Op>> = vec![Vec::new(); program.ops.len()];
    let mut next = program.symbol_count();
    while let Some((count, b, a)) = candidates.pop() {
        let now = occurrences.common_count(a, b);
        if now < count {
            // Earlier temporaries took some of them.
            if now > 1 {
                candidates.push((now, b, a));
            }
            continue;
        }
        let first_row = rows[occurrences.merge(a, b, next)];
        temporaries[first_row].push(Op::Xor { from: vec![occurrences.symbols[a], occurrences.symbols[b]], to: next });
        next += 1;
        if operations_left == 0 {
            break;
        }
        operations_left =
            operations_left.saturating_sub(occurrences.find(occurrences.symbols.len() - 1, &mut candidates));
    }
    let mut sources = occurrences.rows(rows.len()).into_iter();
    let mut ops = Vec::with_capacity(program.ops.len() + next - program.symbol_count());
    for (index, (mut op, before)) in program.ops.into_iter().zip(temporaries).enumerate() {
        ops.extend(before);
        if let Op::Xor { from, .. } = &mut op
            && rows.binary_search(&index).is_ok()
        {
            *from = sources.next().unwrap_or_default();
        }
        ops.push(op);
    }
    let given_count = program.input_count + program.output_count;
    Program { temporary_count: next - given_count, ops, ..program }
}

/// How many XORs have the pair, and the pair, as indices among the occurrences, the later first: of equally frequent pairs
/// the newest is taken, which makes for slightly fewer operations than other rules.
type Candidates = BinaryHeap<(u32, usize, usize)>;

/// Which XORs have which symbols.
struct Occurrences {
    symbols: Vec<SymbolId>,
    words_per_symbol: usize,
    /// For each symbol a bit per XOR.
    bits: Vec<u64>,
}

impl Occurrences {
    /// The occurrences in these operations; symbols that one names twice cancel out.
    fn of(program: &Program, rows: &[usize]) -> Occurrences {
        let words_per_symbol = rows.len().div_ceil(64);
        let mut by_symbol: BTreeMap<SymbolId, Vec<u64>> = BTreeMap::new();
        for (row, &op) in rows.iter().enumerate() {
            for &source in program.ops[op].sources() {
                by_symbol.entry(source).or_insert_with(|| vec![0; words_per_symbol])[row / 64] ^= 1 << (row % 64);
            }
        }
        let symbols = by_symbol.keys().copied().collect();
        Occurrences { symbols, words_per_symbol, bits: by_symbol.into_values().flatten().collect() }
    }

    fn of_symbol(&self, index: usize) -> &[u64] {
        &self.bits[index * self.words_per_symbol..(index + 1) * self.words_per_symbol]
    }

    fn common_count(&self, a: usize, b: usize) -> u32 {
        self.of_symbol(a).iter().zip(self.of_symbol(b)).map(|(a, b)| (a & b).count_ones()).sum()
    }

    /// Finds the pairs of this symbol and an earlier one that two or more XORs have; returns operations on words.
    fn find(&self, later: usize, candidates: &mut Candidates) -> usize {
        for earlier in 0..later {
            let count = self.common_count(earlier, later);
            if count > 1 {
                candidates.push((count, later, earlier));
            }
        }
        later * self.words_per_symbol
    }

    /// Puts a new symbol in the place of a pair; the first XOR that has it.
    fn merge(&mut self, a: usize, b: usize, symbol: SymbolId) -> usize {
        let common: Vec<u64> = self.of_symbol(a).iter().zip(self.of_symbol(b)).map(|(a, b)| a & b).collect();
        for index in [a, b] {
            let bits = &mut self.bits[index * self.words_per_symbol..(index + 1) * self.words_per_symbol];
            bits.iter_mut().zip(&common).for_each(|(bits, common)| *bits &= !common);
        }
        let first_word = common.iter().position(|&word| word != 0).unwrap_or(0);
        let first = 64 * first_word + common[first_word].trailing_zeros() as usize;
        self.symbols.push(symbol);
        self.bits.extend(common);
        first
    }

    /// The symbols of each XOR.
    fn rows(&self, row_count: usize) -> Vec<Vec<SymbolId>> {
        let mut rows = vec![Vec::new(); row_count];
        for (index, &symbol) in self.symbols.iter().enumerate() {
            for (row, symbols) in rows.iter_mut().enumerate() {
                if self.of_symbol(index)[row / 64] >> (row % 64) & 1 == 1 {
                    symbols.push(symbol);
                }
            }
        }
        rows
    }
}
