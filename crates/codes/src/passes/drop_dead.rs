//! Drops operations whose results nothing uses, and the temporaries they wrote.

use crate::program::{Op, Program, SymbolId};
use alloc::vec;
use alloc::vec::Vec;

/// Drops every operation, and every row of a dot product, that no output depends on, and the temporaries that are then
/// unused.
#[must_use]
pub fn drop_dead(mut program: Program) -> Program {
    crate::work::spend(program.access_count() + program.symbol_count());
    let mut live = vec![false; program.symbol_count()];
    live[program.outputs()].fill(true);
    let mut kept = Vec::with_capacity(program.ops.len());
    for op in program.ops.into_iter().rev() {
        let Some(op) = live_part(op, &live) else {
            continue;
        };
        for &source in op.sources() {
            live[source] = true;
        }
        kept.push(op);
    }
    kept.reverse();
    program.ops = kept;
    renumber_temporaries(&mut program, &live);
    program
}

/// Drops inputs that no operation reads. Returns which are left.
#[must_use]
pub fn drop_unread(mut program: Program) -> (Program, Vec<SymbolId>) {
    let mut is_read = vec![false; program.symbol_count()];
    program.ops.iter().flat_map(Op::sources).for_each(|&source| is_read[source] = true);
    let kept: Vec<SymbolId> = (0..program.input_count).filter(|&input| is_read[input]).collect();
    let dropped_count = program.input_count - kept.len();
    let number: Vec<SymbolId> = (0..program.symbol_count())
        .map(|symbol| match kept.binary_search(&symbol) {
            Ok(number) => number,
            Err(_) => symbol.saturating_sub(dropped_count),
        })
        .collect();
    renumber(&mut program, &number);
    program.input_count = kept.len();
    (program, kept)
}

/// Numbers the remaining temporaries without gaps.
fn renumber_temporaries(program: &mut Program, live: &[bool]) {
    let first_temporary = program.outputs().end;
    let mut number: Vec<SymbolId> = (0..program.symbol_count()).collect();
    program.temporary_count = 0;
    for symbol in (first_temporary..live.len()).filter(|&symbol| live[symbol]) {
        number[symbol] = first_temporary + program.temporary_count;
        program.temporary_count += 1;
    }
    renumber(program, &number);
}

fn renumber(program: &mut Program, number: &[SymbolId]) {
    for op in &mut program.ops {
        let (from, to) = match op {
            Op::Copy { from, to } => (core::slice::from_mut(from), core::slice::from_mut(to)),
            Op::Xor { from, to } => (&mut from[..], core::slice::from_mut(to)),
            Op::Dot { from, to, .. } => (&mut from[..], &mut to[..]),
        };
        from.iter_mut().chain(to).for_each(|symbol| *symbol = number[*symbol]);
    }
}

fn live_part(op: Op, live: &[bool]) -> Option<Op> {
    let rows: Vec<usize> = (0..op.targets().len()).filter(|&row| live[op.targets()[row]]).collect();
    match op {
        _ if rows.is_empty() => None,
        Op::Dot { from, to, coefficients } if rows.len() < to.len() => {
            let to = rows.iter().map(|&row| to[row]).collect();
            Some(Op::Dot { from, to, coefficients: coefficients.select_rows(&rows) })
        }
        op => Some(op),
    }
}
