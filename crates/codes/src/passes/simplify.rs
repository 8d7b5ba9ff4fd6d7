//! Turns dot products that need no multiplication into XORs and copies.

use crate::program::{Op, Program};

/// Turns single-output dot products whose coefficients are all ones into XORs, and sums of one symbol into copies. Rows
/// of ones in wider dot products stay: the kernels know them, and the symbols are read only once.
#[must_use]
pub fn simplify(mut program: Program) -> Program {
    for op in &mut program.ops {
        if let Op::Dot { from, to, coefficients } = op
            && let [to] = to[..]
            && coefficients.row(0).iter().all(|&coefficient| coefficient == 1)
        {
            *op = Op::Xor { from: core::mem::take(from), to };
        }
        if let Op::Xor { from, to } = op
            && let [from] = from[..]
        {
            *op = Op::Copy { from, to: *to };
        }
    }
    program
}
