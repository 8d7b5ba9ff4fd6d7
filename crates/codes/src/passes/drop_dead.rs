//! Drops operations whose results nothing uses, and the temporaries they wrote.

use crate::program::{Op, Program, SymbolId};

/// Drops every operation, and every row of a dot product, that no output depends on;
/// temporaries nothing writes any more are gone.
#[must_use]
pub fn drop_dead(mut program: Program) -> Program {
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

/// Numbers the temporaries that are left without gaps.
fn renumber_temporaries(program: &mut Program, live: &[bool]) {
    let first_temporary = program.outputs().end;
    let mut number: Vec<SymbolId> = (0..program.symbol_count()).collect();
    program.temporary_count = 0;
    for symbol in (first_temporary..live.len()).filter(|&symbol| live[symbol]) {
        number[symbol] = first_temporary + program.temporary_count;
        program.temporary_count += 1;
    }
    for op in &mut program.ops {
        let (from, to) = match op {
            Op::Copy { from, to } => (std::slice::from_mut(from), std::slice::from_mut(to)),
            Op::Xor { from, to } => (&mut from[..], std::slice::from_mut(to)),
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
