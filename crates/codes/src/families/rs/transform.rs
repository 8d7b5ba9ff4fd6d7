//! Sums over Cauchy matrices in O(n log n), for encoding and decoding wide stripes.
//!
//! Parities, and lost shards of any kind, are sums over the shards read (`rs/plan.rs`):
//!
//! ```text
//! target t = r_t * sum of u_s * source s / (t ^ s)      over the sources s
//! ```
//!
//! The elements of GF(2^8) are numbered as bytes. Let `V` be the elements below 2^b, and `W(x)` the product of all `x ^
//! v` with `v` in `V`, a polynomial that is linear over GF(2). Let `X = x0 ^ V` and `Y = y0 ^ V` be different cosets.
//! By Lagrange's formula the polynomial `p` of least degree that takes the values `d_x` on `X` has on `Y` the values
//!
//! ```text
//! p(y) = W(x0 ^ y0) / c * sum of d_x / (y ^ x) over x in X,    c = product of all of V but 0
//! ```
//!
//! because every `W'` is `c` and `W` is constant on cosets. So the sums over `X` are, up to a constant, an
//! interpolation on `X` and an evaluation on `Y`. Both are networks of butterflies in the basis of Lin, Chung and Han
//! ("Novel polynomial basis and its application to Reed-Solomon erasure codes", 2014): element number `i` of the basis
//! is the product of the `W_b(x) / W_b(2^b)` for the bits `b` of `i`. The coefficients of several `X`, times the
//! constants, are added up before one evaluation on `Y`. Sources and targets in the same coset are summed directly.
//!
//! A few sources `R` that share a coset with targets, as the last data of a stripe do with the first parities, are not
//! interpolated. Let `S` be the sum of `u_s * source s / (t ^ s)` over all sources, and `R(t)` the product of all `t ^
//! r`. Then
//!
//! ```text
//! R(t) S(t) = sum of u_s R(s) * source s / (t ^ s) over the other sources + h(t),    h of degree below |R|
//! ```
//!
//! which is `u_r R'(r) * source r` at each `r`. From that follow the first `|R|` coefficients on the coset of `R`,
//! given its other coefficients, which the other sources determine; and `h` follows from these. The same `h` is added
//! on every coset, and in this basis it has only as many coefficients.
//!
//! Of n shards, cosets of `L` take about `n log L` products in networks and `(n / 2)^2 / L` where cosets meet. That is
//! least for `L` of 8 or 16 at n up to 256, which is the largest network that fits into registers. Each shard is then
//! read and written three times. (Smaller networks in sequence would meet in larger cosets, with fewer products. But
//! the shards would be read and written once more, which costs more than the products.)

use crate::exec::MOST_TARGETS;
use crate::gf;
use crate::matrix::Matrix;
use crate::program::{Op, Program, SymbolId};
use alloc::vec;
use alloc::vec::Vec;

/// The element of a shard, and the factor of its column or row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Point {
    pub(super) element: u8,
    pub(super) factor: u8,
}

/// The matrix of `target factor * source factor / (target ^ source)`: a row per target, a column per source. No source
/// is a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cauchy {
    pub(super) sources: Vec<Point>,
    pub(super) targets: Vec<Point>,
}

/// The number of nonzero elements: logarithms count modulo this.
const GROUP: usize = 255;

/// Points in the same coset.
struct Coset {
    number: usize,
    /// Indices of the points, by element.
    members: Vec<usize>,
}

/// A network takes the time of this many products for each of its values, whatever its size: the time of its loads and
/// stores, which hide the butterflies. Measured with GFNI, where a product takes half a cycle for 64 bytes, by the
/// matrix and by two networks of 16, in GB/s: 16+16 27 and 37, 50+50 9 and 19, 20+20 23 and 25, 32+8 60 and 55. Where
/// products are slower, transforms lose nothing by this value.
const NETWORK_PRODUCTS: usize = 7;

/// At most this many points of a coset are summed by products; a network costs more.
const MOST_SINGLE: usize = NETWORK_PRODUCTS - 1;

/// The time of taking one value from a network's temporaries, in the same unit.
const PICK_PRODUCTS: usize = 4;

/// Sizes of cosets that are tried. Larger networks have no kernel.
const TRANSFORM_BITS: [usize; 2] = [3, 4];

/// The least time of a transform: two networks of 8.
const LEAST_TRANSFORM_PRODUCTS: usize = 2 * 8 * NETWORK_PRODUCTS;

impl Cauchy {
    /// Adds operations that compute `to` from `from` in the fastest way.
    pub(super) fn append(&self, program: &mut Program, from: &[SymbolId], to: &[SymbolId]) {
        match self.fastest_bits() {
            Some(bits) => self.transform(bits, program, from, to),
            None => program.ops.push(match to[..] {
                [to] if self.is_sum() => Op::Xor { from: from.to_vec(), to },
                _ => Op::Dot { from: from.to_vec(), to: to.to_vec(), coefficients: self.matrix() },
            }),
        }
    }

    /// The logarithm of the size of the cosets that compute it fastest; `None` if plain products do.
    pub(super) fn fastest_bits(&self) -> Option<usize> {
        let products = self.sources.len() * self.targets.len();
        if products <= LEAST_TRANSFORM_PRODUCTS {
            return None;
        }
        let costs = TRANSFORM_BITS.map(|bits| (self.cost_products(bits), bits));
        // In a near tie the matrix wins: it needs no temporaries and is planned sooner.
        let fastest = costs.into_iter().min().filter(|(cost, _)| cost + cost / 8 < products);
        fastest.map(|(_, bits)| bits)
    }

    /// The time of [`Cauchy::transform`], in products.
    fn cost_products(&self, bits: usize) -> usize {
        let size = 1 << bits;
        let (sources, targets) = (count(&self.sources, bits), count(&self.targets, bits));
        let of_points = |count: usize| if count <= MOST_SINGLE { count * size } else { NETWORK_PRODUCTS * size };
        let is_met =
            |counts: &[usize], own: usize| counts.iter().enumerate().any(|(at, &count)| at != own && count > 0);
        let (mut met_sources, mut met_targets, mut cost) = (0, 0, 0);
        let rest = rest(&sources, &targets);
        for coset in 0..sources.len() {
            let (source_count, target_count) = (sources[coset], targets[coset]);
            let is_rest = rest == Some(coset);
            if is_rest {
                // These are few products, but in steps of their own.
                cost += 2 * source_count * size;
            } else if source_count > 0 && is_met(&targets, coset) {
                met_sources += 1;
                cost += of_points(source_count);
            }
            if target_count > 0 && (rest.is_some() || is_met(&sources, coset)) {
                met_targets += 1;
                cost += of_points(target_count);
            }
            if source_count > 0 && !is_rest {
                cost += source_count * target_count;
                // These are picked from the network's values.
                cost += if target_count > MOST_SINGLE { PICK_PRODUCTS * target_count } else { 0 };
            }
        }
        // One source and one target take no product, because the source's factors include it.
        let meetings = if met_sources * met_targets > 1 { met_sources * met_targets } else { 0 };
        cost + size * meetings
    }

    /// Is it a row of ones?
    fn is_sum(&self) -> bool {
        self.targets.len() == 1 && (0..self.sources.len()).all(|column| self.at(0, column) == 1)
    }

    /// All elements.
    pub(super) fn matrix(&self) -> Matrix {
        Matrix::from_fn(self.targets.len(), self.sources.len(), |row, column| self.at(row, column))
    }

    fn at(&self, row: usize, column: usize) -> u8 {
        let (target, source) = (self.targets[row], self.sources[column]);
        // Neither factors nor differences of elements are zero, so all have logarithms.
        let log = |element: u8| usize::from(gf::LOG[usize::from(element)]);
        let divisor = log(target.element ^ source.element);
        gf::power_of_two(log(target.factor) + log(source.factor) + GROUP - divisor)
    }

    /// Adds operations that compute `to` from `from` through cosets of 2^`bits`.
    pub(super) fn transform(&self, bits: usize, program: &mut Program, from: &[SymbolId], to: &[SymbolId]) {
        let rest = rest(&count(&self.sources, bits), &count(&self.targets, bits));
        let (rest, sources): (Vec<Coset>, Vec<Coset>) =
            cosets(&self.sources, bits).into_iter().partition(|coset| Some(coset.number) == rest);
        let rest = rest.first();
        match rest {
            None => self.transform_cosets(bits, (&sources, None), program, from, to),
            Some(rest) => self.times_zeros_of(rest).transform_cosets(bits, (&sources, Some(rest)), program, from, to),
        }
    }

    /// The sums times the polynomial that is zero at these sources; for the sources themselves, their factors times its
    /// derivative.
    fn times_zeros_of(&self, rest: &Coset) -> Cauchy {
        let zeros: Vec<u8> = rest.members.iter().map(|&source| self.sources[source].element).collect();
        let product = |element: u8| {
            let differences = zeros.iter().filter(|&&zero| zero != element).map(|zero| zero ^ element);
            differences.fold(1, gf::mul)
        };
        let source = |point: &Point| Point { factor: gf::mul(point.factor, product(point.element)), ..*point };
        let target = |point: &Point| {
            // No target is a source.
            Point { factor: gf::divide(point.factor, product(point.element)).unwrap_or(0), ..*point }
        };
        Cauchy {
            sources: self.sources.iter().map(source).collect(),
            targets: self.targets.iter().map(target).collect(),
        }
    }

    /// [`Cauchy::transform`] by these cosets of sources and the rest, if there is one; the factors are for the rest.
    fn transform_cosets(
        &self,
        bits: usize,
        (sources, rest): (&[Coset], Option<&Coset>),
        program: &mut Program,
        from: &[SymbolId],
        to: &[SymbolId],
    ) {
        let mut builder = Builder { program, zero: None };
        let targets = cosets(&self.targets, bits);
        // Meetings there are plain sums, because the factors of the sources already include the constants.
        let is_apart = |target: &&Coset| sources.iter().all(|source| source.number != target.number);
        let main = targets.iter().find(is_apart).or(targets.first()).map_or(0, |target| target.number);
        let scale = |source: usize| if source == main { 1 } else { meeting(bits, source, main) };

        // The rest adds to all cosets.
        let is_met = |y: &&Coset| rest.is_some() || sources.iter().any(|x| x.number != y.number);
        let met: Vec<&Coset> = targets.iter().filter(is_met).collect();
        let meeting_sources: Vec<&Coset> =
            sources.iter().filter(|x| met.iter().any(|y| x.number != y.number)).collect();
        let coefficients: Vec<Vec<SymbolId>> = meeting_sources
            .iter()
            .map(|coset| self.interpolate(bits, coset, scale(coset.number), &mut builder, from))
            .collect();
        let meetings = Matrix::from_fn(met.len(), meeting_sources.len(), |row, column| {
            let (x, y) = (meeting_sources[column].number, met[row].number);
            if x == y { 0 } else { gf::divide(meeting(bits, x, y), scale(x)).unwrap_or(0) }
        });
        let rest = rest.map(|rest| Rest {
            row: met.iter().position(|target| target.number == rest.number).expect("its coset has targets"),
            symbols: rest.members.iter().map(|&source| from[source]).collect(),
            matrix: self.first_coefficients(bits, rest),
        });
        let mut sums = builder.meet(&meetings, &coefficients, rest.as_ref()).into_iter();
        for target in &targets {
            let own = sources.iter().find(|source| source.number == target.number);
            let own = own.map_or(&[][..], |coset| &coset.members);
            let is_met = met.iter().any(|met| met.number == target.number);
            let sums = if is_met { sums.next().unwrap_or_default() } else { Vec::new() };
            self.evaluate(bits, target, &sums, own, &mut builder, (from, to));
        }
    }

    /// The first coefficients, as many as the rest has sources, of the polynomial that takes the values of these
    /// sources times their factors; computed from these sources and its other coefficients.
    fn first_coefficients(&self, bits: usize, rest: &Coset) -> Matrix {
        let (size, count) = (1 << bits, rest.members.len());
        let points: Vec<Point> = rest.members.iter().map(|&source| self.sources[source]).collect();
        let places: Vec<usize> = points.iter().map(|point| usize::from(point.element) % size).collect();
        let at_points = evaluation(bits, rest.number << bits).select_rows(&places);
        let columns = |range: core::ops::Range<usize>| at_points.select_columns(&range.collect::<Vec<_>>());
        let values = Matrix::from_fn(count, count, |row, column| if row == column { points[row].factor } else { 0 });
        let inverse = columns(0..count).inverse().expect("a polynomial follows from as many values as coefficients");
        inverse.multiply(&values.beside(&columns(count..size)))
    }

    /// The coefficients of the polynomial that takes on the coset the sources' values, times their factors and `scale`.
    fn interpolate(
        &self,
        bits: usize,
        coset: &Coset,
        scale: u8,
        builder: &mut Builder<'_>,
        from: &[SymbolId],
    ) -> Vec<SymbolId> {
        let size = 1 << bits;
        let mut place = vec![None; size];
        coset.members.iter().for_each(|&member| place[usize::from(self.sources[member].element) % size] = Some(member));
        let is_dense = coset.members.len() <= MOST_SINGLE;
        let zero = (!is_dense && coset.members.len() < size).then(|| builder.zero());
        let columns: Vec<usize> = (0..size).filter(|&column| !is_dense || place[column].is_some()).collect();
        let factor = |column: usize| place[column].map_or(scale, |member| gf::mul(self.sources[member].factor, scale));
        let symbols: Vec<SymbolId> =
            columns.iter().filter_map(|&column| place[column].map(|member| from[member]).or(zero)).collect();
        let interpolation = interpolation(bits, coset.number << bits);
        let matrix = Matrix::from_fn(size, columns.len(), |row, i| {
            gf::mul(interpolation.at(row, columns[i]), factor(columns[i]))
        });
        let to = builder.temporaries(size);
        builder.combine(matrix, &symbols, &to);
        to
    }

    /// The targets in a coset, from the polynomial with these coefficients (unless there are none) and the sources in
    /// the same coset.
    fn evaluate(
        &self,
        bits: usize,
        coset: &Coset,
        coefficients: &[SymbolId],
        own: &[usize],
        builder: &mut Builder<'_>,
        (from, to): (&[SymbolId], &[SymbolId]),
    ) {
        let size = 1 << bits;
        let members = &coset.members;
        let places: Vec<usize> =
            members.iter().map(|&member| usize::from(self.targets[member].element) % size).collect();
        let symbols: Vec<SymbolId> = members.iter().map(|&member| to[member]).collect();
        let direct = Matrix::from_fn(members.len(), own.len(), |row, column| self.at(members[row], own[column]));
        let of_own: Vec<SymbolId> = own.iter().map(|&source| from[source]).collect();
        if coefficients.is_empty() {
            return builder.combine(direct, &of_own, &symbols);
        }
        let mut factors = vec![1; size];
        places.iter().zip(members).for_each(|(&place, &member)| factors[place] = self.targets[member].factor);
        let evaluation = evaluation(bits, coset.number << bits);
        let evaluation = Matrix::from_fn(size, size, |row, column| gf::mul(evaluation.at(row, column), factors[row]));
        if members.len() <= MOST_SINGLE {
            let matrix = evaluation.select_rows(&places).beside(&direct);
            return builder.combine(matrix, &[coefficients, &of_own].concat(), &symbols);
        }
        let mut all = builder.temporaries(size);
        if own.is_empty() {
            // The others are computed with them, but are not needed.
            places.iter().zip(&symbols).rev().for_each(|(&place, &symbol)| all[place] = symbol);
            builder.combine(evaluation, coefficients, &all);
            let copies = places.iter().zip(symbols).filter(|&(&place, symbol)| all[place] != symbol);
            return builder.program.ops.extend(copies.map(|(&place, to)| Op::Copy { from: all[place], to }));
        }
        builder.combine(evaluation, coefficients, &all);
        let evaluated: Vec<SymbolId> = places.iter().map(|&place| all[place]).collect();
        let matrix = Matrix::identity(members.len()).beside(&direct);
        builder.combine(matrix, &[evaluated, of_own].concat(), &symbols);
    }
}

/// The cosets of 2^`bits` that contain points.
fn cosets(points: &[Point], bits: usize) -> Vec<Coset> {
    let mut order: Vec<usize> = (0..points.len()).collect();
    order.sort_by_key(|&point| points[point].element);
    let number = |point: usize| usize::from(points[point].element) >> bits;
    let same = order.chunk_by(|&a, &b| number(a) == number(b));
    same.map(|members| Coset { number: number(members[0]), members: members.to_vec() }).collect()
}

/// The number of points in each coset of 2^`bits`, of at least 4.
fn count(points: &[Point], bits: usize) -> [usize; 64] {
    let mut counts = [0; 64];
    points.iter().for_each(|point| counts[usize::from(point.element) >> bits] += 1);
    counts
}

/// The first coset with targets and with few enough sources for one step, if there are sources elsewhere.
fn rest(sources: &[usize], targets: &[usize]) -> Option<usize> {
    let is_alone = |coset: usize| sources.iter().sum::<usize>() == sources[coset];
    (0..sources.len())
        .find(|&coset| (1..=MOST_TARGETS).contains(&sources[coset]) && targets[coset] > 0 && !is_alone(coset))
}

/// `c / W(x0 ^ y0)` for the cosets with these numbers, which differ.
fn meeting(bits: usize, x: usize, y: usize) -> u8 {
    let nonzero = (0..bits).fold(1, |product, bit| gf::mul(product, SUBSPACES[bit][1 << bit]));
    gf::divide(nonzero, SUBSPACES[bits][(x ^ y) << bits]).unwrap_or(0)
}

/// `SUBSPACES[b][x]` is `W_b(x)`, the product of all `x ^ v` with `v` below 2^b.
static SUBSPACES: [[u8; 256]; 8] = subspaces();

const fn subspaces() -> [[u8; 256]; 8] {
    let mut of = [[0; 256]; 8];
    let mut x = 0;
    while x < 256 {
        of[0][x] = x as u8;
        x += 1;
    }
    let mut bit = 1;
    while bit < 8 {
        let mut x = 0;
        while x < 256 {
            of[bit][x] = gf::mul(of[bit - 1][x], of[bit - 1][x ^ 1 << (bit - 1)]);
            x += 1;
        }
        bit += 1;
    }
    of
}

/// The factor of the butterflies of a block: `W_b` of its first element over `W_b` of 2^b, if its halves have 2^b
/// elements.
fn factor(bit: usize, first: usize) -> u8 {
    gf::divide(SUBSPACES[bit][first], SUBSPACES[bit][1 << bit]).unwrap_or(0)
}

/// Values on the coset of 2^`bits` with this first element, from coefficients: a row per element, a column per element
/// of the basis.
fn evaluation(bits: usize, first: usize) -> Matrix {
    let mut matrix = Matrix::identity(1 << bits);
    for bit in (0..bits).rev() {
        each_butterfly(bits, bit, first, |a, b, factor| {
            let of_b = matrix.row(b).to_vec();
            gf::add_multiple(matrix.row_mut(a), &of_b, factor);
            let of_a = matrix.row(a).to_vec();
            gf::add_multiple(matrix.row_mut(b), &of_a, 1);
        });
    }
    matrix
}

/// The inverse of [`evaluation`].
fn interpolation(bits: usize, first: usize) -> Matrix {
    let mut matrix = Matrix::identity(1 << bits);
    for bit in 0..bits {
        each_butterfly(bits, bit, first, |a, b, factor| {
            let of_a = matrix.row(a).to_vec();
            gf::add_multiple(matrix.row_mut(b), &of_a, 1);
            let of_b = matrix.row(b).to_vec();
            gf::add_multiple(matrix.row_mut(a), &of_b, factor);
        });
    }
    matrix
}

/// All pairs of places that differ in this bit, and the factor of their block.
fn each_butterfly(bits: usize, bit: usize, first: usize, mut butterfly: impl FnMut(usize, usize, u8)) {
    for a in (0..1usize << bits).filter(|a| a >> bit & 1 == 0) {
        let block = a >> bit << bit;
        butterfly(a, a | 1 << bit, factor(bit, first ^ block));
    }
}

/// Sources that are not interpolated; see the module's text.
struct Rest {
    /// The index of their coset among those that meet.
    row: usize,
    symbols: Vec<SymbolId>,
    /// See [`Cauchy::first_coefficients`].
    matrix: Matrix,
}

struct Builder<'a> {
    program: &'a mut Program,
    /// See [`Builder::zero`].
    zero: Option<SymbolId>,
}

impl Builder<'_> {
    fn temporaries(&mut self, count: usize) -> Vec<SymbolId> {
        let first = self.program.symbol_count();
        self.program.temporary_count += count;
        (first..first + count).collect()
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

    /// For each row of `meetings` the coefficients of a polynomial: the sum over those of each column, plus the part of
    /// the rest.
    fn meet(&mut self, meetings: &Matrix, coefficients: &[Vec<SymbolId>], rest: Option<&Rest>) -> Vec<Vec<SymbolId>> {
        if rest.is_none() && *meetings == Matrix::identity(meetings.rows()) {
            return coefficients.to_vec();
        }
        let size = coefficients.first().map_or(0, Vec::len);
        let to: Vec<Vec<SymbolId>> = (0..meetings.rows()).map(|_| self.temporaries(size)).collect();
        let first = rest.map_or(0, |rest| rest.symbols.len());
        self.add_up(meetings, coefficients, &to, first..size);
        if let Some(Rest { row: own, symbols, matrix }) = rest {
            self.combine(matrix.clone(), &[symbols, &to[*own][first..]].concat(), &to[*own][..first]);
            // The rest adds the difference to what the meetings give there, and the same on every coset.
            let others: Vec<usize> = (0..to.len()).filter(|row| row != own).collect();
            let differences = Matrix::from_fn(others.len(), coefficients.len(), |row, column| {
                meetings.at(others[row], column) ^ meetings.at(*own, column)
            });
            let added = Matrix::from_fn(others.len(), 1, |_, _| 1);
            let to_others: Vec<Vec<SymbolId>> = others.iter().map(|&row| to[row].clone()).collect();
            let with_own = [coefficients, &to[*own..=*own]].concat();
            self.add_up(&differences.beside(&added), &with_own, &to_others, 0..first);
        }
        to
    }

    /// These coefficients of each row, as the sum over those of each column.
    fn add_up(
        &mut self,
        matrix: &Matrix,
        coefficients: &[Vec<SymbolId>],
        to: &[Vec<SymbolId>],
        indices: core::ops::Range<usize>,
    ) {
        let rows: Vec<usize> = (0..matrix.rows()).collect();
        // As many rows as a kernel takes, so that the operations for all coefficients form one run.
        for rows in rows.chunks(rows.len().div_ceil(rows.len().div_ceil(MOST_TARGETS).max(1)).max(1)) {
            let matrix = matrix.select_rows(rows);
            for index in indices.clone() {
                let from: Vec<SymbolId> = coefficients.iter().map(|of| of[index]).collect();
                let to: Vec<SymbolId> = rows.iter().map(|&row| to[row][index]).collect();
                self.combine(matrix.clone(), &from, &to);
            }
        }
    }
}

#[cfg(test)]
#[path = "transform_tests.rs"]
mod tests;
