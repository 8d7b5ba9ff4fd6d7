//! Computes once what several XORs have in common.

use crate::program::{Op, Program, SymbolId};
use crate::work::spend;
use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;

/// The most operations on words of 64 XORs for all blocks together: some milliseconds.
const MOST_OPERATIONS: usize = 1 << 22;

/// Symbols of a block, if one block of all symbols would take too long.
const BLOCK_SYMBOLS: usize = 64;

/// The most operations for comparing all symbols of a single block with each other.
const MOST_BLOCK_OPERATIONS: usize = 1 << 15;

/// Replaces the pair of symbols that most XORs have in common by a temporary, and repeats this as long as two XORs have
/// a pair in common.
///
/// This is Paar's greedy algorithm for linear circuits, or RePair on sets, as Uezato (Accelerating XOR-based erasure
/// coding using program optimization techniques, SC 2021) applies it to erasure codes. Each temporary saves as many
/// operations as there are XORs with the pair, less one. Symbols of large programs are paired within blocks. When the
/// budget is spent, the remaining XORs stay as they are.
#[must_use]
pub fn share(program: Program) -> Program {
    let is_row = |op: &Op| matches!(op, Op::Xor { from, .. } if from.len() > 1);
    let rows: Vec<usize> = (0..program.ops.len()).filter(|&op| is_row(&program.ops[op])).collect();
    let symbols = occurrences(&program, &rows);
    let word_count = rows.len().div_ceil(64);
    let is_small = symbols.len() * symbols.len() * word_count <= MOST_BLOCK_OPERATIONS;
    let block_symbols = if is_small { symbols.len() } else { BLOCK_SYMBOLS }.max(1);
    let most_operations = MOST_OPERATIONS / symbols.len().div_ceil(block_symbols).max(1);

    let mut next = program.symbol_count();
    // By XOR: the temporaries to compute just before it, because it is the first that needs them; and the symbols that
    // it then reads.
    let mut temporaries: Vec<Vec<Op>> = vec![Vec::new(); rows.len()];
    let mut sources: Vec<Vec<SymbolId>> = vec![Vec::new(); rows.len()];
    for block in symbols.chunks(block_symbols) {
        let mut block = block.to_vec();
        pair_up(&mut block, most_operations, |from, common| {
            temporaries[first_row(common)].push(Op::Xor { from, to: next });
            next += 1;
            next - 1
        });
        for Occurrences { symbol, bits } in block {
            let has = |row: &usize| bits[row / 64] >> (row % 64) & 1 == 1;
            spend(rows.len());
            (0..rows.len()).filter(has).for_each(|row| sources[row].push(symbol));
        }
    }
    let given_count = program.input_count + program.output_count;
    let mut shared = rows.into_iter().zip(temporaries.into_iter().zip(sources)).peekable();
    let mut ops = Vec::with_capacity(program.ops.len() + next - program.symbol_count());
    for (index, mut op) in program.ops.into_iter().enumerate() {
        if let Some((_, (before, sources))) = shared.next_if(|&(row, _)| row == index)
            && let Op::Xor { from, .. } = &mut op
        {
            ops.extend(before);
            *from = sources;
        }
        ops.push(op);
    }
    Program { temporary_count: next - given_count, ops, ..program }
}

/// A symbol, and a bit for each XOR that has it.
#[derive(Clone, Debug)]
struct Occurrences {
    symbol: SymbolId,
    bits: Vec<u64>,
}

/// Which of these operations have which symbols. A symbol that an operation names twice cancels.
fn occurrences(program: &Program, rows: &[usize]) -> Vec<Occurrences> {
    let mut by_symbol: BTreeMap<SymbolId, Vec<u64>> = BTreeMap::new();
    for (row, &op) in rows.iter().enumerate() {
        for &source in program.ops[op].sources() {
            let bits = by_symbol.entry(source).or_insert_with(|| vec![0; rows.len().div_ceil(64)]);
            bits[row / 64] ^= 1 << (row % 64);
        }
    }
    spend(program.access_count() + by_symbol.len() * rows.len().div_ceil(64));
    by_symbol.into_iter().map(|(symbol, bits)| Occurrences { symbol, bits }).collect()
}

/// Replaces pairs, most common first. `define` is given each pair and the XORs that have it, and returns the symbol
/// that replaces it.
fn pair_up(
    symbols: &mut Vec<Occurrences>,
    mut operations_left: usize,
    mut define: impl FnMut(Vec<SymbolId>, &[u64]) -> SymbolId,
) {
    let common_count = |a: &Occurrences, b: &Occurrences| -> u32 {
        a.bits.iter().zip(&b.bits).map(|(a, b)| (a & b).count_ones()).sum()
    };
    let count_of = |symbol: &Occurrences| common_count(symbol, symbol);
    let mut level = symbols.iter().map(count_of).max().unwrap_or(0);
    while level > 1 {
        // Only symbols that are frequent enough can be in such a pair.
        let mut pending: Vec<usize> = (0..symbols.len()).filter(|&index| count_of(&symbols[index]) >= level).collect();
        let mut frequent = pending.clone();
        while let Some(later) = pending.pop() {
            let earlier_count = frequent.partition_point(|&index| index < later);
            for place in (0..earlier_count).rev() {
                let (a, b) = (frequent[place], later);
                if common_count(&symbols[a], &symbols[b]) < level {
                    continue;
                }
                let common: Vec<u64> = symbols[a].bits.iter().zip(&symbols[b].bits).map(|(a, b)| a & b).collect();
                for index in [a, b] {
                    symbols[index].bits.iter_mut().zip(&common).for_each(|(bits, common)| *bits &= !common);
                }
                let symbol = define(vec![symbols[a].symbol, symbols[b].symbol], &common);
                pending.push(symbols.len());
                frequent.push(symbols.len());
                symbols.push(Occurrences { symbol, bits: common });
            }
            let operations = earlier_count * symbols[later].bits.len();
            if operations_left < operations {
                return;
            }
            operations_left -= operations;
            spend(operations);
        }
        // Exact where it matters: for hundreds in common, an eighth less is as good.
        level -= level.div_ceil(8);
    }
}

fn first_row(bits: &[u64]) -> usize {
    let word = bits.iter().position(|&word| word != 0).unwrap_or(0);
    64 * word + bits[word].trailing_zeros() as usize
}
