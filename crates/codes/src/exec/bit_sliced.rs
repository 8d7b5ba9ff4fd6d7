//! Programs of many XORs as products of bit matrices.
//!
//! A block is eight symbols. Bit-slicing transposes its bits: of the eight bytes at one offset, byte `i` of the result
//! holds bit `i` of each. Eight sums of any of these symbols are then the product of each byte with one 8 x 8 matrix of
//! bits, which `gf2p8affineqb` computes. So a program of sums takes three kinds of steps: bit-slice the inputs, combine
//! them block by block as a code over bytes does, and transpose the results back. Its cost follows from the matrix of
//! blocks, not from the number of ones.

use super::arch::{BLOCK_SYMBOLS, LINE_BYTES, MOST_TARGETS, Step, Steps};
use crate::matrix::Matrix;
use crate::program::{Op, Program, SymbolId};
use alloc::vec::Vec;

/// Cost of bit-slicing a vector, in products of a vector with a block of the matrix.
const BIT_SLICE_COST: usize = 6;

/// Cost of reading or writing a vector in a program of sums, in the same unit.
const ACCESS_COST: usize = 2;

/// Bytes of a slice of all bit-sliced inputs. From 16 to 96 KiB it hardly matters: longer slices lose in L1 misses what
/// shorter ones lose in calls.
const SLICES_BYTES: usize = 48 * 1024;

/// The bit-sliced steps of a valid program; `None` unless it only adds and gains by it.
pub(super) fn lower(program: &Program) -> Option<Steps> {
    let adds = |op: &Op| matches!(op, Op::Copy { .. } | Op::Xor { .. });
    if !is_worth_it(program) || !program.ops.iter().all(adds) {
        return None;
    }
    let matrix = program.to_matrix().ok()?;
    let (input_count, output_count) = (program.input_count, program.output_count);
    let inputs: Vec<SymbolId> = (0..input_count).collect();
    let outputs: Vec<SymbolId> = program.outputs().collect();
    // Temporaries: a place for each block of inputs, then one for each target of a step.
    let first_place = input_count + output_count;
    let place = |index: usize| first_place + index * BLOCK_SYMBOLS;
    let given_count = input_count.div_ceil(BLOCK_SYMBOLS);
    let given: Vec<SymbolId> = (0..given_count).map(place).collect();

    let mut steps: Vec<Step> =
        inputs.chunks(BLOCK_SYMBOLS).zip(&given).map(|(block, &place)| Step::bit_slice(block, place)).collect();
    let blocks: Vec<&[SymbolId]> = outputs.chunks(BLOCK_SYMBOLS).collect();
    for blocks in blocks.chunks(MOST_TARGETS) {
        let targets: Vec<SymbolId> = (0..blocks.len()).map(|target| place(given_count + target)).collect();
        let of_source = |source: usize| {
            let matrix = &matrix;
            blocks.iter().map(move |block| bits(matrix, block[0] - input_count, source * BLOCK_SYMBOLS))
        };
        steps.push(Step::blocks(&given, &targets, (0..given_count).flat_map(of_source).collect()));
        steps.extend(blocks.iter().zip(&targets).map(|(block, &place)| Step::unslice(place, block)));
    }
    let temporary_count = (given_count + blocks.len().min(MOST_TARGETS)) * BLOCK_SYMBOLS;
    let lines = (SLICES_BYTES / (given_count * BLOCK_SYMBOLS * LINE_BYTES)).max(1);
    Some(Steps::new(input_count, output_count, temporary_count, steps, lines * LINE_BYTES))
}

/// Does the program's matrix of blocks cost less than its sums?
fn is_worth_it(program: &Program) -> bool {
    let given_count = program.input_count + program.output_count;
    let [rows, columns] = [program.output_count, program.input_count].map(|count| count.div_ceil(BLOCK_SYMBOLS));
    columns > 0 && ACCESS_COST * program.access_count() > BIT_SLICE_COST * given_count + rows * columns * BLOCK_SYMBOLS
}

/// The block of the matrix that begins at this row and column, as `gf2p8affineqb` takes it for bit-sliced symbols: byte
/// `i` is row `i`, and its bit `7 - j` is column `j`.
fn bits(matrix: &Matrix, first_row: usize, first_column: usize) -> u64 {
    let rows = first_row..matrix.rows().min(first_row + BLOCK_SYMBOLS);
    let of_row = |row: usize| {
        let columns = &matrix.row(row)[first_column..matrix.columns().min(first_column + BLOCK_SYMBOLS)];
        let byte = columns.iter().enumerate().fold(0, |byte, (column, &bit)| byte | bit << (7 - column));
        u64::from(byte) << (8 * (row - first_row))
    };
    rows.map(of_row).sum()
}
