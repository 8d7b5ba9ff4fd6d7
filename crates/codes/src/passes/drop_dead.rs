//! Drops operations whose results nothing uses.

use crate::program::{Op, Program};

/// Drops every operation, and every row of a dot product, that no output depends on.
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
    program
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
