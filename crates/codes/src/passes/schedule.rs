//! Computes each temporary shortly before it is needed, so that it is still in cache and its place is soon free again.

use crate::program::{Op, Program};
use alloc::vec;
use alloc::vec::Vec;

/// Orders operations depth first from the outputs: each output's operation, preceded by the operations whose results it
/// reads and that have not run yet.
#[must_use]
pub fn schedule(mut program: Program) -> Program {
    crate::work::spend(program.access_count() + program.symbol_count());
    let mut writer = vec![None; program.symbol_count()];
    for (index, op) in program.ops.iter().enumerate() {
        op.targets().iter().for_each(|&target| writer[target] = Some(index));
    }
    let mut order = Vec::with_capacity(program.ops.len());
    let mut is_seen = vec![false; program.ops.len()];
    for output in program.outputs() {
        // Operations on the way to the output, each with the number of its sources that are done.
        let mut path: Vec<(usize, usize)> = Vec::new();
        let mut next = writer[output];
        loop {
            if let Some(op) = next.take()
                && !core::mem::replace(&mut is_seen[op], true)
            {
                path.push((op, 0));
            }
            let Some((op, done_count)) = path.last_mut() else {
                break;
            };
            match program.ops[*op].sources().get(*done_count) {
                Some(&source) => {
                    *done_count += 1;
                    next = writer[source];
                }
                None => {
                    order.push(*op);
                    path.pop();
                }
            }
        }
    }
    let mut ops: Vec<Option<Op>> = program.ops.into_iter().map(Some).collect();
    program.ops = order.into_iter().filter_map(|op| ops[op].take()).collect();
    program
}
