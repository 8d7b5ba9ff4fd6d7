//! Product-matrix MBR codes: repair of a lost shard transfers no more than the shard, from any `d` helpers.
//!
//! Construction (Rashmi, Shah, Kumar: Optimal exact-regenerating codes for distributed storage at the MSR and MBR
//! points via a product-matrix construction, 2011, section IV) over GF(2^8):
//!
//! ```text
//! M = [S T; T^T 0]                                symmetric, S is k x k, T is k x (d - k)
//! psi_i = (1, x_i, ..., x_i^(d-1))                x_i = i
//! shard i stores psi_i^T M                        d symbols
//! ```
//!
//! Shards store products `U_ij = psi_i^T M psi_j = U_ji`: each of the first `d + 1` shards for the other ones of these,
//! each later one for the first `d` shards. So each two of the first `d + 1` shards share a symbol, as in `embr`, and
//! repair from each other is plain copying. Native symbols are the `U_ij` of the first `k` shards,
//!
//! ```text
//! k (k - 1) / 2 + k (d - k + 1) = k (2d - k + 1) / 2       of them,
//! ```
//!
//! numbered by `i`, then `j`. The others follow: for `j > d`, `i < k` from the `d` products that shard `i` has. Between
//! parities, let `phi` be the first `k` elements of `psi`, and `phi_i = sum of b_t phi_t`, `phi_j = sum of c_s phi_s`
//! over the data shards. Then
//!
//! ```text
//! U_ij = sum of b_t U_tj + sum of c_s (U_is + sum of b_t U_ts)
//! ```
//!
//! because `psi_i` minus the sum of the `b_t psi_t` is zero in its first `k` elements, and `M` is zero beyond those. A
//! matrix is used instead where it costs no more than these steps.
//!
//! Cost: `2 n d / (k (2d - k + 1))` stored per native byte, more than any MDS code; a repair reads `d` symbols, exactly
//! one shard. Helpers beyond the first `d + 1` shards have to combine, and so do all helpers of such a lost shard. Two lost
//! shards share a product: together they take `2 d - 1` symbols if `d` helpers are left, and with one fewer `2 (d - 1) + k - 1`.
//!
//! ```
//! use weft_codes::{Offer, Offers, Wanted};
//!
//! let code = weft_codes::parse("mbr:4+4,d=5")?;
//! let offer = Offer { combines: true, request_price: 0, symbol_price: 1 };
//! let have = Offers((0..8).map(|shard| (shard != 1).then_some(offer)).collect());
//! assert_eq!(code.plan(&Wanted::Shards(vec![1]), &have)?.reads.len(), code.shape().alpha);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use super::parameters::{Problem, data_and_parity, named_count, require};
use super::product_matrix::{self, ProductMatrix, Regenerating, in_basis, powers};
use super::{Family, rs};
use crate::code::{Code, Content, Offers, Plan, PlanError, Shape, Wanted};
use crate::exec;
use crate::linear::LazyGenerator;
use crate::matrix::Matrix;
use crate::passes;
use crate::program::{Op, Program, SymbolId};
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

pub(super) const FAMILY: Family = Family {
    name: "mbr",
    syntax: "mbr:data+parity,d=helpers",
    example: "mbr:4+4,d=5",
    description: "product matrix: any `parity` shards may be lost, repair transfers one shard's worth from any d helpers",
    source: "Rashmi, Shah, Kumar: Optimal exact-regenerating codes via a product-matrix construction (2011)",
    build,
};

/// Dense matrices of this many native symbols are still quick to invert.
const MOST_NATIVES: usize = 512;

/// Outputs of which a program is also made from their matrix. With many thousands that takes minutes.
const MOST_AT_ONCE: usize = 2048;

fn build(parameters: &str) -> Result<Arc<dyn Code>, Problem> {
    let (counts, d) = parameters.split_once(',').ok_or(Problem::Syntax)?;
    let ((k, m), d) = (data_and_parity(counts)?, named_count(d, "d")?);
    rs::check_counts(k, m)?;
    let n = k + m;
    require((k..n).contains(&d), || format!("a lost shard has {k} to {} helpers, not {d}", n - 1))?;
    let native_count = k * (2 * d - k + 1) / 2;
    require(native_count <= MOST_NATIVES, || format!("{native_count} native symbols are more than {MOST_NATIVES}"))?;
    Ok(Arc::new(Mbr::new(k, m, d)))
}

struct Mbr {
    spec: String,
    shape: Shape,
    encode: Program,
    generator: LazyGenerator,
}

impl Mbr {
    fn new(k: usize, m: usize, d: usize) -> Mbr {
        let n = k + m;
        let stored = (0..n).flat_map(|i| directions(d, i).into_iter().map(move |j| (i, j)));
        let content = |(i, j)| native(k, d, i, j).map_or(Content::Coded, Content::Native);
        let shape = Shape {
            n,
            k,
            alpha: d,
            native_count: k * (2 * d - k + 1) / 2,
            symbol_alignment_bytes: 1,
            tolerance: m,
            contents: stored.map(content).collect(),
            groups: Vec::new(),
        };
        let encode = encoding(&shape);
        Mbr { spec: format!("mbr:{k}+{m},d={d}"), shape, encode, generator: LazyGenerator::new() }
    }

    fn d(&self) -> usize {
        self.shape.alpha
    }
}

/// The directions that shard `i` is stored with.
fn directions(d: usize, i: usize) -> Vec<usize> {
    (0..=d).filter(|&j| j != i.min(d)).collect()
}

/// The number of the native symbol `U_ij`; `None` if it is not native.
fn native(k: usize, d: usize, i: usize, j: usize) -> Option<usize> {
    let (i, j) = (i.min(j), i.max(j));
    // Shards 0 to i - 1 introduce d, d - 1, ... new ones.
    (i < k && j <= d).then(|| i * (2 * d - i + 1) / 2 + j - i - 1)
}

/// `psi` of a shard; the first `k` elements are `phi`.
fn psi(shard: usize, count: usize) -> Vec<u8> {
    powers(shard as u8, count)
}

fn basis(shards: &[usize], count: usize) -> Matrix {
    Matrix::from_fn(shards.len(), count, |row, column| psi(shards[row], count)[column])
}

/// Operations on products; each product is computed once.
struct Encoding {
    k: usize,
    d: usize,
    /// By pair (smaller first), as far as they are known.
    product: Vec<Vec<Option<SymbolId>>>,
    ops: Vec<Op>,
}

impl Encoding {
    fn product(&self, i: usize, j: usize) -> SymbolId {
        self.product[i.min(j)][i.max(j)].expect("products are computed in the order of need")
    }

    /// `targets` is a combination of `sources`: a row of coefficients per target.
    fn compute(&mut self, sources: Vec<SymbolId>, targets: Vec<SymbolId>, coefficients: Matrix) {
        if !targets.is_empty() {
            self.ops.push(Op::Dot { from: sources, to: targets, coefficients });
        }
    }
}

fn encoding(shape: &Shape) -> Program {
    let Shape { n, k, alpha: d, native_count, .. } = *shape;
    let mut encoding = Encoding { k, d, product: vec![vec![None; n]; n], ops: Vec::new() };
    let stored = |symbol: usize| (symbol / d, directions(d, symbol / d)[symbol % d]);
    let mut output_count = 0;
    let mut copies = Vec::new();
    for (symbol, content) in shape.contents.iter().enumerate() {
        let (i, j) = stored(symbol);
        let known = &mut encoding.product[i.min(j)][i.max(j)];
        if let Content::Native(native) = content {
            *known = Some(*native);
            continue;
        }
        let to = native_count + output_count;
        output_count += 1;
        match *known {
            Some(from) => copies.push(Op::Copy { from, to }),
            None => *known = Some(to),
        }
    }
    let first_temporary = native_count + output_count;
    let temporary_count = encoding.data_products(n, first_temporary);
    let temporary_count = encoding.parity_products(n, first_temporary, temporary_count);
    let Encoding { mut ops, .. } = encoding;
    ops.extend(copies);
    let in_steps = Program { input_count: native_count, output_count, temporary_count, ops };
    let in_steps = passes::simplify(passes::drop_dead(in_steps));
    // For small codes a matrix multiplies no more often, and needs no temporaries.
    if output_count > MOST_AT_ONCE {
        return in_steps;
    }
    let at_once = Program::from_matrix(&in_steps.to_matrix().expect("products are computed in the order of need"));
    if exec::cost(&at_once) < exec::cost(&in_steps) { at_once } else { in_steps }
}

impl Encoding {
    /// The products of each data shard with itself (a temporary) and with the shards beyond the first `d + 1`, from
    /// those it has. Returns the number of temporaries.
    fn data_products(&mut self, n: usize, first_temporary: usize) -> usize {
        let (k, d) = (self.k, self.d);
        for i in 0..k {
            self.product[i][i] = Some(first_temporary + i);
            let directions = directions(d, i);
            let others: Vec<usize> = core::iter::once(i).chain(d + 1..n).collect();
            let inverse = basis(&directions, d).inverse().expect("any d shards are independent");
            let sources = directions.iter().map(|&t| self.product(i, t)).collect();
            let targets = others.iter().map(|&j| self.product(i, j)).collect();
            self.compute(sources, targets, basis(&others, d).multiply(&inverse));
        }
        k
    }

    /// The products of parities with each other, as the module's text says. Returns the number of temporaries.
    fn parity_products(&mut self, n: usize, first_temporary: usize, mut temporary_count: usize) -> usize {
        let (k, d) = (self.k, self.d);
        let data: Vec<usize> = (0..k).collect();
        let phi = basis(&data, k);
        let parities: Vec<usize> = (k..=d).collect();
        let combinations: Vec<Vec<u8>> = (k..n).map(|parity| in_basis(&psi(parity, k), &phi)).collect();
        // U_is + sum of b_t U_ts, for all parities i at once: they share the U_ts.
        let sums: Vec<Vec<SymbolId>> = data
            .iter()
            .map(|&s| {
                let with_data = data.iter().map(|&t| self.product(t, s));
                let sources: Vec<SymbolId> = with_data.chain(parities.iter().map(|&i| self.product(i, s))).collect();
                let first = first_temporary + temporary_count;
                temporary_count += parities.len();
                let targets: Vec<SymbolId> = (first..first + parities.len()).collect();
                let coefficients = Matrix::from_fn(parities.len(), sources.len(), |row, column| match column {
                    t if t < k => combinations[row][t],
                    _ => u8::from(column - k == row),
                });
                self.compute(sources, targets.clone(), coefficients);
                targets
            })
            .collect();
        for (row, &i) in parities.iter().enumerate() {
            for j in i + 1..n {
                let sources = data.iter().map(|&t| self.product(t, j)).chain(sums.iter().map(|of_s| of_s[row]));
                let sources: Vec<SymbolId> = sources.collect();
                let coefficients = [&combinations[i - k][..], &combinations[j - k][..]].concat();
                let to = self.product[i][j];
                let coefficients = Matrix::from_fn(1, 2 * k, |_, column| coefficients[column]);
                self.compute(sources, to.into_iter().collect(), coefficients);
            }
        }
        temporary_count
    }
}

impl Regenerating for Mbr {
    fn helper_count(&self) -> usize {
        self.d()
    }

    fn generator(&self) -> &Matrix {
        self.generator.of(self)
    }

    fn contribution(&self, helper: usize, lost: usize) -> Vec<Vec<(usize, u8)>> {
        let directions = directions(self.d(), helper);
        if let Some(sub) = directions.iter().position(|&direction| direction == lost) {
            return vec![vec![(sub, 1)]];
        }
        let coefficients = in_basis(&psi(lost, self.d()), &basis(&directions, self.d()));
        vec![coefficients.into_iter().enumerate().filter(|term| term.1 != 0).collect()]
    }
}

impl ProductMatrix for Mbr {
    fn decoding(&self, _: &[usize], _: &[usize]) -> Option<Program> {
        None
    }
}

impl Code for Mbr {
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
