//! Program -> steps: what the kernels run.

use super::Compiled;
use super::arch::{MOST_TARGETS, Step, Steps};
use crate::matrix::Matrix;
use crate::program::{Op, Program, SymbolId};

/// What one slice of all symbols may take of L1 (32 KiB at least on all machines we know) in programs of several steps.
const SLICE_SET_BYTES: usize = 32 * 1024;

/// Kernels work in steps of 256 bytes; a shorter slice would never fill one.
const LEAST_SLICE_BYTES: usize = 256;

/// Lowers a valid program.
pub(super) fn lower(program: &Program) -> Steps {
    let steps: Vec<Step> = program.ops.iter().flat_map(lower_op).collect();
    let slice_bytes = match steps.len() {
        // A single step touches every byte once: nothing to keep in cache.
        0 | 1 => usize::MAX,
        _ => {
            let even = SLICE_SET_BYTES / program.symbol_count();
            (even - even % LEAST_SLICE_BYTES).max(LEAST_SLICE_BYTES)
        }
    };
    Steps::new(program.input_count, program.output_count, program.temporary_count, steps, slice_bytes)
}

/// One step per at most [`MOST_TARGETS`] targets, evenly shared; a row of ones comes first, where kernels expect it.
fn lower_op(op: &Op) -> Vec<Step> {
    let coefficients = op.coefficients();
    let mut rows: Vec<usize> = (0..coefficients.rows()).collect();
    let is_sum = |row: usize| coefficients.row(row).iter().all(|&coefficient| coefficient == 1);
    if let Some(sum) = rows.iter().position(|&row| is_sum(row)) {
        rows.swap(0, sum);
    }
    let step_count = rows.len().div_ceil(MOST_TARGETS);
    let rows_per_step = rows.len().div_ceil(step_count.max(1)).max(1);
    rows.chunks(rows_per_step)
        .map(|rows| {
            let targets: Vec<SymbolId> = rows.iter().map(|&row| op.targets()[row]).collect();
            Step::new(op.sources(), &targets, &coefficients.select_rows(rows))
        })
        .collect()
}

/// Programs that between them use every kernel, with and without a first row of ones, and every coefficient.
pub(super) fn probes() -> impl Iterator<Item = Compiled> {
    let shapes = (1..=MOST_TARGETS).flat_map(|targets| [(targets, false), (targets, true)]);
    shapes.filter_map(|(targets, first_is_sum)| {
        // Odd, so that kernels that take sources in pairs have one left; 6 targets see 6 * 43 > 256 coefficients.
        let sources = 43;
        let coefficients = Matrix::from_fn(targets, sources, |row, column| {
            if first_is_sum && row == 0 { 1 } else { (row * sources + column) as u8 }
        });
        let op = Op::Dot { from: (0..sources).collect(), to: (sources..sources + targets).collect(), coefficients };
        Compiled::new(Program { input_count: sources, output_count: targets, temporary_count: 0, ops: vec![op] }).ok()
    })
}
