//! Programs that together test every kernel.

use super::arch::{MOST_SUMMANDS, MOST_TARGETS};
use super::butterflies::Butterflies;
use crate::gf;
use crate::matrix::Matrix;
use crate::program::{Op, Program};
use alloc::vec;
use alloc::vec::Vec;

/// Programs that together use every kernel, every way to compute a first target, and every coefficient.
pub(super) fn probes() -> impl Iterator<Item = Program> {
    // Odd, so that kernels that take sources in pairs have one left; 8 targets see 8 * 33 > 256 coefficients.
    const MOST_SOURCES: usize = 33;
    let combinations = (1..=MOST_TARGETS)
        .flat_map(|targets| [(MOST_SOURCES, targets, false), (MOST_SOURCES, targets, true), (2, targets, false)]);
    let sums = (0..=MOST_SUMMANDS).map(|sources| (sources, 1, true));
    let matrix = |(sources, targets, first_is_sum)| {
        Matrix::from_fn(
            targets,
            sources,
            |row, column| {
                if first_is_sum && row == 0 { 1 } else { (row * sources + column) as u8 }
            },
        )
    };
    let with_addends = (2..=MOST_TARGETS).flat_map(move |targets| {
        [3, 4].map(|sources| Matrix::identity(targets).beside(&matrix((sources, targets, false))))
    });
    // Each first row is the sum of some sources and of all other rows.
    let remainders = (1..=MOST_TARGETS).flat_map(move |targets| {
        [targets, MOST_SOURCES].map(|sources| {
            let others = matrix((sources, targets, false));
            let others_of = |column: usize| (1..targets).fold(0, |sum, row| sum ^ others.at(row, column));
            let first = |column: usize| others_of(column) ^ u8::from(column.is_multiple_of(3));
            Matrix::from_fn(
                targets,
                sources,
                |row, column| if row == 0 { first(column) } else { others.at(row, column) },
            )
        })
    });
    let dense = sums.chain(combinations).map(matrix).chain(with_addends).chain(remainders);
    let pairs = [4, 20].map(|targets| {
        Matrix::from_fn(targets, targets, |row, column| match row / 2 == column / 2 {
            true => (row * 53 + column * 11 + 1) as u8,
            false => 0,
        })
    });
    // An odd number of couples, and single columns beside them.
    let coupled = (3..=MOST_TARGETS).flat_map(|targets| {
        [false, true].map(|first_is_sum| {
            Matrix::from_fn(targets, 7, |row, column| {
                let of_leader =
                    |leader: usize| if first_is_sum && row == 0 { 1 } else { (row * 91 + leader * 37 + 2) as u8 };
                match column {
                    0..4 => of_leader(column),
                    _ => gf::mul(of_leader(column - 4), (column * 59) as u8),
                }
            })
        })
    });
    let networks = [4, 8, 16].into_iter().flat_map(|points| {
        [(false, false), (false, true), (true, false), (true, true)].into_iter().map(move |(is_inverse, is_scaled)| {
            let factors = (1..points).map(|index| (37 * index) as u8).collect();
            let scales = if is_scaled { (1..=points).map(|index| (29 * index) as u8).collect() } else { Vec::new() };
            Butterflies { is_inverse, factors, scales }.matrix()
        })
    });
    // P and Q over few symbols and over many.
    let p_and_q = [1, 2, 5, 22, MOST_SOURCES]
        .into_iter()
        .map(|sources| Matrix::from_fn(2, sources, |row, column| if row == 0 { 1 } else { gf::power_of_two(column) }));
    let products = dense.chain(pairs).chain(coupled).chain(networks).chain(p_and_q).map(|coefficients| {
        let (targets, sources) = (coefficients.rows(), coefficients.columns());
        let op = Op::Dot { from: (0..sources).collect(), to: (sources..sources + targets).collect(), coefficients };
        Program { input_count: sources, output_count: targets, temporary_count: 0, ops: vec![op] }
    });
    // Sums that are worth bit-slicing, with partial blocks; they use every bit of a block's matrix.
    let (inputs, outputs) = (33, 67);
    let sum = |output: usize| Op::Xor {
        from: (0..inputs).filter(|input| (input * 5 + output * 3 + input * output) % 7 < 3).collect(),
        to: inputs + output,
    };
    let ops = (0..outputs).map(sum).collect();
    let sums = Program { input_count: inputs, output_count: outputs, temporary_count: 0, ops };
    products.chain([sums])
}
