//! Product-matrix MSR codes: MDS, and a lost shard is regenerated from one symbol of each of `d` helpers.
//!
//! Construction (Rashmi, Shah, Kumar: Optimal exact-regenerating codes for distributed storage at the MSR and MBR
//! points via a product-matrix construction, 2011, section V) over GF(2^8), for `d = 2 alpha`, `k = alpha + 1`:
//!
//! ```text
//! M = [S1; S2]                                    two symmetric alpha x alpha matrices
//! phi_i = (1, x_i, ..., x_i^(alpha-1))            l_i = x_i^alpha + c x_i, all different
//! shard i stores phi_i^T S1 + l_i phi_i^T S2
//! ```
//!
//! `c` is the least number for which enough elements have different `l`. The points `x_i` are those elements in order,
//! each the first with its `l`. Any `d` vectors `(phi_i, l_i phi_i)` are independent, because they are values of a
//! basis of all polynomials of degree below `d`. Shortening gives larger `d`: with `s = d - 2k + 2`, take the code of
//! `k + s` data shards of which the first `s` hold zeros and are not stored. So always `alpha = d - k + 1`.
//!
//! Shards store products `U_ij = (phi_i^T S1 + l_i phi_i^T S2) phi_j`: data shard `i` for all other data shards `j`
//! (except unstored ones), which are the native symbols; a parity for all data shards `j` except the last. This makes
//! encoding sparse. For pairs of data shards `U_ij` and `U_ji` give the products with `S1` and `S2`, so with `phi_p =
//! sum of a_i phi_i` over the data shards `i` except `j`
//!
//! ```text
//! U_pj = sum of a_i ((l_j + l_p) U_ij + (l_i + l_p) U_ji) / (l_i + l_j)       d symbols instead of alpha k
//! ```
//!
//! It also makes the repair of a data shard a matter of plain reads: helper `h` contributes `U_hf` to shard `f`, and it
//! stores that. For the last data shard and for parities, helpers have to combine. A repair reads `d` symbols, `d /
//! alpha` shards; that of `h` lost shards together `h (d - h + 1)` symbols, without the `h - 1` helpers that they would be
//! for each other. Encoding multiplies `2 alpha / k` times as often as `rs` does.
//!
//! Decoding from any `k` shards is the same formula with these in place of the data. First it computes their products
//! with each other's directions; then the products of the lost shards with the directions of the known ones; then from
//! these the products that the lost shards store. Plans use these steps where they cost less than a matrix.
//!
//! ```
//! use weft_codes::{Offer, Offers, Wanted};
//!
//! let code = weft_codes::parse("msr:4+4,d=7")?;
//! assert_eq!(code.shape().alpha, 4);
//! let offer = Offer { combines: true, request_price: 0, symbol_price: 1 };
//! let have = Offers((0..8).map(|shard| (shard != 7).then_some(offer)).collect());
//! assert_eq!(code.plan(&Wanted::Shards(vec![7]), &have)?.reads.len(), 7);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use super::parameters::{Problem, data_and_parity, named_count, require};
use super::product_matrix::{self, ProductMatrix, Regenerating, in_basis, powers};
use super::{Family, rs};
use crate::code::{Code, Content, Offers, Plan, PlanError, Shape, Wanted};
use crate::linear::LazyGenerator;
use crate::matrix::Matrix;
use crate::program::{Op, Program, SymbolId};
use crate::{gf, passes};
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

pub(super) const FAMILY: Family = Family {
    name: "msr",
    syntax: "msr:data+parity,d=helpers",
    example: "msr:4+4,d=7",
    description: "product matrix, MDS: any `parity` shards may be lost, repair takes 1/(d-k+1) of each of d helpers",
    source: "Rashmi, Shah, Kumar: Optimal exact-regenerating codes via a product-matrix construction (2011)",
    build,
};

/// Dense matrices of this many native symbols are still quick to invert.
const MOST_NATIVES: usize = 512;

fn build(parameters: &str) -> Result<Arc<dyn Code>, Problem> {
    let (counts, d) = parameters.split_once(',').ok_or(Problem::Syntax)?;
    let ((k, m), d) = (data_and_parity(counts)?, named_count(d, "d")?);
    rs::check_counts(k, m)?;
    require(k >= 2, || "at least 2 data shards are needed, one is only copied".to_owned())?;
    let n = k + m;
    require(d < n, || format!("a lost shard has {} helpers at most, not {d}", n - 1))?;
    require(d >= 2 * k - 2, || {
        format!("a product matrix needs 2 * {k} - 2 helpers at least, not {d}; see clay:{k}+{m}")
    })?;
    let alpha = d + 1 - k;
    require(k * alpha <= MOST_NATIVES, || format!("{} native symbols are more than {MOST_NATIVES}", k * alpha))?;
    let points = points(n + alpha + 1 - k, alpha).ok_or_else(|| {
        Problem::Impossible(format!("GF(2^8) has not as many points as {n} shards with {d} helpers need"))
    })?;
    Ok(Arc::new(Msr::new(k, m, d, &points)))
}

/// A point of a shard: its element and its `l`.
type Point = (u8, u8);

/// This many points with different `l`.
fn points(count: usize, alpha: usize) -> Option<Vec<Point>> {
    (0..=u8::MAX).find_map(|c| {
        let mut points: Vec<Point> = Vec::new();
        for x in 0..=u8::MAX {
            let l = gf::mul(powers(x, alpha)[alpha - 1], x) ^ gf::mul(c, x);
            if points.iter().all(|point| point.1 != l) {
                points.push((x, l));
            }
        }
        points.truncate(count);
        (points.len() == count).then_some(points)
    })
}

struct Msr {
    spec: String,
    shape: Shape,
    d: usize,
    /// Shards not stored, ahead of all others.
    zero_count: usize,
    /// By shard, unstored ones included.
    points: Vec<Point>,
    encode: Program,
    generator: LazyGenerator,
}

impl Msr {
    fn new(k: usize, m: usize, d: usize, points: &[Point]) -> Msr {
        let (n, alpha) = (k + m, d + 1 - k);
        let native_count = k * alpha;
        let content = |symbol| if symbol < native_count { Content::Native(symbol) } else { Content::Coded };
        let shape = Shape {
            n,
            k,
            alpha,
            native_count,
            symbol_alignment_bytes: 1,
            tolerance: m,
            contents: (0..n * alpha).map(content).collect(),
            groups: Vec::new(),
        };
        let mut msr = Msr {
            spec: format!("msr:{k}+{m},d={d}"),
            shape,
            d,
            zero_count: alpha + 1 - k,
            points: points.to_vec(),
            encode: Program { input_count: 0, output_count: 0, temporary_count: 0, ops: Vec::new() },
            generator: LazyGenerator::new(),
        };
        let data: Vec<usize> = (0..k).collect();
        let parities: Vec<usize> = (native_count..n * alpha).collect();
        msr.encode = msr.computed(&data, &parities);
        msr
    }

    /// The number of data shards, unstored ones included. They come first.
    fn data_count(&self) -> usize {
        self.shape.alpha + 1
    }

    fn phi(&self, index: usize) -> Vec<u8> {
        powers(self.points[index].0, self.shape.alpha)
    }

    /// The directions that the shard is stored with; both count unstored shards.
    fn directions(&self, index: usize) -> Vec<usize> {
        let is_stored = |&other: &usize| other != index.min(self.data_count() - 1);
        (0..self.data_count()).filter(is_stored).collect()
    }

    fn basis(&self, indices: &[usize]) -> Matrix {
        Matrix::from_fn(indices.len(), self.shape.alpha, |row, column| self.phi(indices[row])[column])
    }

    /// The stored symbols `wanted` of other shards from all of `k` shards `known`. Each direction is done for all lost
    /// shards at once, because they read the same symbols. If a known shard is not stored with the direction of
    /// another, that product is computed first. Then come the products of lost shards with the directions of the known,
    /// and from these those with their own. Data shards are stored with each other's directions, so parities are
    /// encoded from them in one step.
    fn computed(&self, known: &[usize], wanted: &[usize]) -> Program {
        let (zeros, alpha) = (self.zero_count, self.shape.alpha);
        let mut lost: Vec<usize> = wanted.iter().map(|symbol| symbol / alpha + zeros).collect();
        lost.dedup();
        let known: Vec<usize> = (0..zeros).chain(known.iter().map(|shard| shard + zeros)).collect();
        let mut products = Products::new(self.points.len(), (known.len() - zeros) * alpha, wanted.len());
        for (position, &i) in known[zeros..].iter().enumerate() {
            for (sub, j) in self.directions(i).into_iter().enumerate() {
                products.symbol[i][j] = Some(position * alpha + sub);
            }
        }
        for (output, &symbol) in wanted.iter().enumerate() {
            let i = symbol / alpha + zeros;
            products.symbol[i][self.directions(i)[symbol % alpha]] = Some(products.input_count + output);
        }
        // Any `alpha` directions do. Those of parities are used last, because no data shard is stored with them.
        let through = &known[..alpha];
        for &i in &known[zeros..] {
            let others: Vec<usize> = known.iter().copied().filter(|&j| j != i).collect();
            self.turned(&mut products, i, &self.directions(i), &others);
        }
        for &j in through {
            self.crossed(&mut products, &known, &lost, j);
        }
        for &i in &lost {
            self.turned(&mut products, i, through, &self.directions(i));
        }
        passes::simplify(passes::drop_dead(products.program()))
    }

    /// The products of shard `i` with the directions `to`, unless they are among those `from`, which it has.
    fn turned(&self, products: &mut Products, i: usize, from: &[usize], to: &[usize]) {
        let new: Vec<usize> = to.iter().copied().filter(|j| !from.contains(j)).collect();
        if new.is_empty() {
            return;
        }
        let inverse =
            self.basis(from).inverse().expect("rows of a Vandermonde matrix with distinct points are independent");
        let sources = from.iter().map(|&j| products.known(i, j)).collect();
        let targets = new.iter().map(|&j| products.place(i, j)).collect();
        products.ops.push(Op::Dot { from: sources, to: targets, coefficients: self.basis(&new).multiply(&inverse) });
    }

    /// The products of the shards `lost` with the direction `j` of a known shard, from the other known shards.
    fn crossed(&self, products: &mut Products, known: &[usize], lost: &[usize], j: usize) {
        let l = |index: usize| self.points[index].1;
        let others: Vec<usize> = known.iter().copied().filter(|&i| i != j).collect();
        let inverse =
            self.basis(&others).inverse().expect("rows of a Vandermonde matrix with distinct points are independent");
        let combinations = self.basis(lost).multiply(&inverse);
        let mut from = Vec::new();
        let mut columns: Vec<Vec<u8>> = Vec::new();
        for (column, &i) in others.iter().enumerate() {
            let quotient = |row: usize, l_of_other: u8| {
                let factor = gf::divide(l_of_other ^ l(lost[row]), l(i) ^ l(j)).unwrap_or(0);
                gf::mul(combinations.at(row, column), factor)
            };
            for (of, with, l_of_other) in [(i, j, l(j)), (j, i, l(i))] {
                // Unstored shards hold zeros.
                if of >= self.zero_count {
                    from.push(products.known(of, with));
                    columns.push((0..lost.len()).map(|row| quotient(row, l_of_other)).collect());
                }
            }
        }
        let to = lost.iter().map(|&i| products.place(i, j)).collect();
        let coefficients = Matrix::from_fn(lost.len(), from.len(), |row, column| columns[column][row]);
        products.ops.push(Op::Dot { from, to, coefficients });
    }
}

/// The symbols that hold `U_ij` (inputs, outputs and temporaries), and the operations that compute them.
struct Products {
    symbol: Vec<Vec<Option<SymbolId>>>,
    input_count: usize,
    output_count: usize,
    temporary_count: usize,
    ops: Vec<Op>,
}

impl Products {
    fn new(shard_count: usize, input_count: usize, output_count: usize) -> Products {
        let symbol = vec![vec![None; shard_count]; shard_count];
        Products { symbol, input_count, output_count, temporary_count: 0, ops: Vec::new() }
    }

    fn known(&self, i: usize, j: usize) -> SymbolId {
        self.symbol[i][j].expect("products are computed in the order of need")
    }

    /// The symbol that will hold the product; a temporary if it is not wanted.
    fn place(&mut self, i: usize, j: usize) -> SymbolId {
        let next = self.input_count + self.output_count + self.temporary_count;
        self.temporary_count += usize::from(self.symbol[i][j].is_none());
        *self.symbol[i][j].get_or_insert(next)
    }

    fn program(self) -> Program {
        let Products { input_count, output_count, temporary_count, ops, .. } = self;
        Program { input_count, output_count, temporary_count, ops }
    }
}

impl Regenerating for Msr {
    fn helper_count(&self) -> usize {
        self.d
    }

    fn generator(&self) -> &Matrix {
        self.generator.of(self)
    }

    fn contribution(&self, helper: usize, lost: usize) -> Vec<Vec<(usize, u8)>> {
        let directions = self.directions(helper + self.zero_count);
        let lost = lost + self.zero_count;
        if let Some(sub) = directions.iter().position(|&direction| direction == lost) {
            return vec![vec![(sub, 1)]];
        }
        let coefficients = in_basis(&self.phi(lost), &self.basis(&directions));
        vec![coefficients.into_iter().enumerate().filter(|term| term.1 != 0).collect()]
    }
}

impl ProductMatrix for Msr {
    fn decoding(&self, known: &[usize], wanted: &[usize]) -> Option<Program> {
        Some(self.computed(known, wanted))
    }
}

impl Code for Msr {
    fn spec(&self) -> &str {
        &self.spec
    }

    fn shape(&self) -> &Shape {
        &self.shape
    }

    fn encode(&self) -> &Program {
        &self.encode
    }

    fn plan(&self, wanted: &Wanted, have: &Offers) -> Result<Plan, PlanError> {
        product_matrix::plan(self, wanted, have)
    }
}

#[cfg(test)]
#[path = "msr_tests.rs"]
mod tests;
