//! Encoding wide stripes in O(n log n): the same parities as by the matrix, by additive Fourier transforms.
//!
//! With the elements of GF(2^8) numbered as bytes, `V` the elements below 2^s, and `W(x)` the product of all `x ^ v` with `v`
//! in `V`, a polynomial that is linear over GF(2), let `X = x0 ^ V` and `Y = y0 ^ V` be different cosets. By Lagrange's
//! formula the polynomial `p` of least degree that takes the values `d_x` on `X` is on `Y`
//!
//! ```text
//! p(y) = W(x0 ^ y0) / c * sum of d_x / (y ^ x) over x in X,    c = product of all of V but 0
//! ```
//!
//! because every `W'` is `c` and `W` is constant on cosets. So a Cauchy matrix over two cosets is, but for a constant, an
//! interpolation and an evaluation. Both are fast in the basis of Lin, Chung and Han ("Novel polynomial basis and its
//! application to Reed-Solomon erasure codes", 2014): the element number `i` of the basis is the product of the
//! `W_b(x) / W_b(2^b)` for the bits `b` of `i`. Coefficients from several `X` are added up before one evaluation on `Y`.
//!
//! Here cosets have 64 elements, 8, or 1, an interpolation or evaluation goes three levels at a time, as a product
//! with an 8 x 8 matrix that the executor runs as butterflies, and data and parities meet in the largest cosets that keep
//! them apart. Points that are no data are zeros, and what is no parity is not computed.

use crate::gf;
use crate::matrix::Matrix;
use crate::program::{Op, Program, SymbolId};
use alloc::vec;
use alloc::vec::Vec;

/// Children of a coset.
const RADIX: usize = 8;

/// Numbers of the children.
const ALL: [usize; RADIX] = [0, 1, 2, 3, 4, 5, 6, 7];

/// Bits of the numbers of elements within a coset, by the number of levels below it.
const fn bits(levels: usize) -> usize {
    3 * levels
}

/// The program that computes the parities of `rs:k+m`; needs `k + m <= 256`.
#[must_use]
pub fn encode(k: usize, m: usize) -> Program {
    let program = Program { input_count: k, output_count: m, temporary_count: 0, ops: Vec::new() };
    let mut builder = Builder { program, zero: None };
    let scale = Scale { k, main: (k + m - 1) / 64 };

    // Coefficients on cosets of 8 data, then on cosets of 64.
    let mut on_8: Vec<Vec<SymbolId>> = Vec::new();
    for (coset, data) in (0..k).collect::<Vec<_>>().chunks(RADIX).enumerate() {
        let to = builder.temporaries(RADIX);
        let interpolate = interpolation(0, RADIX * coset);
        let matrix = Matrix::from_fn(RADIX, RADIX, |row, column| {
            gf::mul(interpolate.at(row, column), scale.of_datum(RADIX * coset + column))
        });
        builder.multiply(&matrix, &ALL, data, &to);
        on_8.push(to);
    }
    let parity_64s: Vec<usize> = (k / 64..=(k + m - 1) / 64).collect();
    let data_64s: Vec<usize> = (0..k.div_ceil(64)).collect();
    let on_64: Vec<Vec<SymbolId>> = data_64s
        .iter()
        .map(|&x| {
            if !parity_64s.iter().any(|&y| x != y) {
                return Vec::new();
            }
            let to = builder.temporaries(RADIX * RADIX);
            let children = &on_8[RADIX * x..on_8.len().min(RADIX * (x + 1))];
            let matrix = interpolation(1, 64 * x);
            for low in 0..RADIX {
                let from: Vec<SymbolId> = children.iter().map(|child| child[low]).collect();
                let to: Vec<SymbolId> = (0..RADIX).map(|high| to[RADIX * high + low]).collect();
                builder.multiply(&matrix, &ALL, &from, &to);
            }
            to
        })
        .collect();

    // Where they meet in cosets of 64, and down to cosets of 8 parities.
    let mut at_8: Vec<Option<Vec<SymbolId>>> = vec![None; 256 / RADIX];
    let met: Vec<(usize, Vec<usize>)> = parity_64s
        .iter()
        .map(|&y| (y, data_64s.iter().copied().filter(|&x| x != y).collect::<Vec<_>>()))
        .filter(|(_, met)| !met.is_empty())
        .collect();
    let at_64 = builder.meet(&met, &on_64, |x, y| scale.of_meeting(2, x, y));
    for (&(y, _), coefficients) in met.iter().zip(&at_64) {
        let cosets: Vec<usize> = (k.max(64 * y) / RADIX..(k + m).min(64 * (y + 1)).div_ceil(RADIX)).collect();
        let rows: Vec<usize> = cosets.iter().map(|coset| coset % RADIX).collect();
        let to: Vec<Vec<SymbolId>> = cosets.iter().map(|_| builder.temporaries(RADIX)).collect();
        let matrix = evaluation(1, 64 * y);
        for low in 0..RADIX {
            let from: Vec<SymbolId> = (0..RADIX).map(|high| coefficients[RADIX * high + low]).collect();
            let to: Vec<SymbolId> = to.iter().map(|to| to[low]).collect();
            builder.multiply(&matrix, &rows, &from, &to);
        }
        for (coset, to) in cosets.into_iter().zip(to) {
            at_8[coset] = Some(to);
        }
    }

    // Where they meet in cosets of 8 within the one of 64 that both are in.
    let shared_64 = k / 64;
    let parity_8s = k / RADIX..(k + m).min(64 * (shared_64 + 1)).div_ceil(RADIX);
    let data_8s = RADIX * shared_64..on_8.len();
    let sources: Vec<Vec<SymbolId>> =
        on_8.iter().cloned().chain(at_8.iter().map(|at| at.clone().unwrap_or_default())).collect();
    let met: Vec<(usize, Vec<usize>)> = parity_8s
        .map(|y| {
            let from_above = at_8[y].is_some().then_some(on_8.len() + y);
            (y, data_8s.clone().filter(|&x| x != y).chain(from_above).collect::<Vec<_>>())
        })
        .filter(|(_, met)| !met.is_empty())
        .collect();
    let met_at_8 = builder.meet(&met, &sources, |x, y| if x < on_8.len() { scale.of_meeting(1, x, y) } else { 1 });
    for (&(y, _), coefficients) in met.iter().zip(met_at_8) {
        at_8[y] = Some(coefficients);
    }

    // The parities; where there are data in the same coset of 8, each with each.
    for (coset, at) in at_8.iter().enumerate().take((k + m).div_ceil(RADIX)).skip(k / RADIX) {
        let parities: Vec<usize> = (k.max(RADIX * coset)..(k + m).min(RADIX * (coset + 1))).collect();
        let data: Vec<usize> = (RADIX * coset..k).collect();
        let rows: Vec<usize> = parities.iter().map(|parity| parity % RADIX).collect();
        let direct = || {
            Matrix::from_fn(rows.len(), data.len(), |row, column| {
                super::coefficient(k, parities[row] - k, data[column])
            })
        };
        let evaluate = evaluation(0, RADIX * coset);
        match at {
            Some(coefficients) if data.is_empty() => builder.multiply(&evaluate, &rows, coefficients, &parities),
            Some(coefficients) => {
                let matrix = evaluate.select_rows(&rows).beside(&direct());
                builder.combine(matrix, &[coefficients, &data[..]].concat(), &parities);
            }
            None => builder.combine(direct(), &data, &parities),
        }
    }
    builder.program
}

/// Is the program faster than the matrix, on machines where a product of a vector is one instruction? Temporaries cost
/// beside products: with three quarters of them 32+8 lost a fifth, with five eighths 16+16 won a tenth.
pub(super) fn is_faster(program: &Program) -> bool {
    3 * cost_products(program) < 2 * program.input_count * program.output_count
}

/// About how many products cost as much as the program.
fn cost_products(program: &Program) -> usize {
    // Butterflies: 12 products, and twice as many sums.
    const NETWORK_PRODUCTS: usize = 24;
    let of_op = |op: &Op| match (op.targets().len(), op.sources().len()) {
        (RADIX, RADIX) => NETWORK_PRODUCTS,
        (targets, sources) => targets * sources + sources + targets,
    };
    program.ops.iter().map(of_op).sum()
}

/// By what data are multiplied beforehand, which all later constants take into account.
struct Scale {
    k: usize,
    /// The coset of 64 that most parities are in: with those there, meetings are plain sums.
    main: usize,
}

impl Scale {
    /// The column's own factor times that of its coset of 64.
    fn of_datum(&self, datum: usize) -> u8 {
        gf::mul((self.k ^ datum) as u8, self.of_coset(datum / 64))
    }

    fn of_coset(&self, x: usize) -> u8 {
        if x == self.main { 1 } else { cauchy_constant(2, x, self.main) }
    }

    /// The constant between the cosets of these numbers, so many levels up.
    fn of_meeting(&self, levels: usize, x: usize, y: usize) -> u8 {
        let coset_64 = if levels == 2 { x } else { x / RADIX };
        gf::divide(cauchy_constant(levels, x, y), self.of_coset(coset_64)).unwrap_or(0)
    }
}

/// `c / W(x0 ^ y0)` for the cosets of these numbers, so many levels up.
fn cauchy_constant(levels: usize, x: usize, y: usize) -> u8 {
    let nonzero = (1..1usize << bits(levels)).fold(1, |product, v| gf::mul(product, v as u8));
    gf::divide(nonzero, subspace(bits(levels), ((x ^ y) << bits(levels)) as u8)).unwrap_or(0)
}

/// `W(x)`: the product of all `x ^ v` with `v` of so many bits.
fn subspace(bits: usize, x: u8) -> u8 {
    (0..1usize << bits).fold(1, |product, v| gf::mul(product, x ^ v as u8))
}

/// From coefficients on a coset, whose first element is `base`, to those on its children, which are so many levels up: a
/// row per child, a column per `high` in the coefficient's number `high * size of a child + low`; the same for every `low`.
fn evaluation(levels: usize, base: usize) -> Matrix {
    let bits = bits(levels);
    let basis = |bit: usize, x: usize| {
        gf::divide(subspace(bits + bit, x as u8), subspace(bits + bit, (1 << (bits + bit)) as u8)).unwrap_or(0)
    };
    Matrix::from_fn(RADIX, RADIX, |child, high| {
        let set = (0..3).filter(|bit| high >> bit & 1 == 1);
        set.fold(1, |product, bit| gf::mul(product, basis(bit, base ^ child << bits)))
    })
}

/// The inverse of [`evaluation`].
fn interpolation(levels: usize, base: usize) -> Matrix {
    evaluation(levels, base).inverse().expect("a polynomial follows from its values at as many points")
}

/// With fewer products, the few rows or columns are cheaper than a network with zeros and rows to spare.
const LEAST_PRODUCTS: usize = 30;

struct Builder {
    program: Program,
    /// See [`Builder::zero`].
    zero: Option<SymbolId>,
}

impl Builder {
    fn temporaries(&mut self, count: usize) -> Vec<SymbolId> {
        let first = self.program.symbol_count();
        self.program.temporary_count += count;
        (first..first + count).collect()
    }

    /// `to` = these rows of `matrix`, which is square, times `from` and zeros.
    fn multiply(&mut self, matrix: &Matrix, rows: &[usize], from: &[SymbolId], to: &[SymbolId]) {
        if rows.len() * from.len() < LEAST_PRODUCTS {
            let columns: Vec<usize> = (0..from.len()).collect();
            return self.combine(matrix.select_rows(rows).select_columns(&columns), from, to);
        }
        let mut from = from.to_vec();
        if from.len() < RADIX {
            let zero = self.zero();
            from.resize(RADIX, zero);
        }
        let mut all: Vec<Option<SymbolId>> = vec![None; RADIX];
        rows.iter().zip(to).for_each(|(&row, &to)| all[row] = Some(to));
        let to: Vec<SymbolId> = all.into_iter().map(|to| to.unwrap_or_else(|| self.temporaries(1)[0])).collect();
        self.combine(matrix.clone(), &from, &to);
    }

    fn combine(&mut self, coefficients: Matrix, from: &[SymbolId], to: &[SymbolId]) {
        self.program.ops.push(Op::Dot { from: from.to_vec(), to: to.to_vec(), coefficients });
    }

    /// A temporary of zeros.
    fn zero(&mut self) -> SymbolId {
        match self.zero {
            Some(zero) => zero,
            None => {
                let zero = self.temporaries(1)[0];
                self.program.ops.push(Op::Xor { from: Vec::new(), to: zero });
                *self.zero.insert(zero)
            }
        }
    }

    /// For each coset of parities its coefficients, as sums over the cosets of data that it meets, times constants.
    fn meet(
        &mut self,
        met: &[(usize, Vec<usize>)],
        on: &[Vec<SymbolId>],
        constant: impl Fn(usize, usize) -> u8,
    ) -> Vec<Vec<SymbolId>> {
        let mut all: Vec<usize> = met.iter().flat_map(|(_, met)| met).copied().collect();
        all.sort_unstable();
        all.dedup();
        let Some(size) = all.first().map(|&x| on[x].len()) else {
            return Vec::new();
        };
        let matrix = Matrix::from_fn(met.len(), all.len(), |row, column| {
            let (y, met) = &met[row];
            if met.contains(&all[column]) { constant(all[column], *y) } else { 0 }
        });
        if matrix == Matrix::identity(met.len()) {
            return all.iter().map(|&x| on[x].clone()).collect();
        }
        let to: Vec<Vec<SymbolId>> = met.iter().map(|_| self.temporaries(size)).collect();
        for index in 0..size {
            let from: Vec<SymbolId> = all.iter().map(|&x| on[x][index]).collect();
            let to: Vec<SymbolId> = to.iter().map(|to| to[index]).collect();
            self.combine(matrix.clone(), &from, &to);
        }
        to
    }
}

#[cfg(test)]
#[path = "transform_tests.rs"]
mod tests;
