//! Plans of Reed-Solomon codes without elimination: every coefficient in closed form.
//!
//! The stored symbol of element `i` is `v_i f(i)` for a polynomial `f` of degree below k (a generalised Reed-Solomon
//! code). Let `L(z)` be the product of all `z ^ j` over data `j`, and `L'(j)` the same without the factor of `j`. Then
//! `v` is
//!
//! ```text
//! 1 / ((k ^ j) L'(j)) for datum j,      1 / L(y) for parity y
//! ```
//!
//! because Lagrange's formula then gives the parities of the coding matrix. By the same formula any shard `t` follows
//! from any k others `A`: the coefficient of shard `a` is `v_t L_A(t) / (v_a (t ^ a) L_A'(a))`.

use super::transform::{Cauchy, Point};
use crate::code::{Offers, Plan, Price, Read, Wanted};
use crate::gf;
use crate::program::{Op, Program, SymbolId};
use crate::work::spend;
use alloc::vec;
use alloc::vec::Vec;

/// The constants of a code that its plans need.
#[derive(Clone, Debug)]
pub(super) struct Planner {
    k: usize,
    /// Logarithms of `v`, by shard.
    logarithms: Vec<usize>,
    /// Logarithms of `L` at parities and of `L'` at data, by shard.
    products: Vec<usize>,
}

impl Planner {
    /// Needs `k + m <= 256`.
    pub(super) fn new(k: usize, m: usize) -> Planner {
        let data: Vec<usize> = (0..k).collect();
        let products: Vec<usize> = (0..k + m).map(|shard| log_product(shard, &data)).collect();
        let logarithm = |(shard, product): (usize, &usize)| {
            let scale = if shard < k { log(k ^ shard) } else { 0 };
            GROUP - (scale + product) % GROUP
        };
        Planner { k, logarithms: products.iter().enumerate().map(logarithm).collect(), products }
    }

    /// The program that encodes by transforms; `None` if the matrix is faster.
    pub(super) fn transform(&self) -> Option<Program> {
        let (data, parities): (Vec<usize>, Vec<usize>) = (0..self.logarithms.len()).partition(|&shard| shard < self.k);
        let sums = self.sums(&parities, &data);
        let bits = sums.fastest_bits()?;
        let mut program =
            Program { input_count: data.len(), output_count: parities.len(), temporary_count: 0, ops: Vec::new() };
        sums.transform(bits, &mut program, &data, &parities);
        Some(program)
    }

    /// The cheapest plan for wanted symbols and offers that fit the shape; `None` if there is none. Fewer than k shards
    /// determine nothing but themselves, so the cheapest plan reads either the wanted shards or the k cheapest ones.
    pub(super) fn plan(&self, wanted: &Wanted, have: &Offers) -> Option<Plan> {
        let (Wanted::Natives(wanted) | Wanted::Shards(wanted)) = wanted;
        let mut is_wanted = vec![false; have.0.len()];
        wanted.iter().for_each(|&shard| is_wanted[shard] = true);
        let mut offered: Vec<(Price, bool, usize)> = (0..have.0.len())
            .filter_map(|shard| {
                let offer = have.0[shard]?;
                Some((offer.request_price.saturating_add(offer.symbol_price), !is_wanted[shard], shard))
            })
            .collect();
        offered.sort_unstable();
        spend(wanted.len() + have.0.len());
        let price = |shards: &[(Price, bool, usize)]| shards.iter().fold(0, |sum: Price, of| sum.saturating_add(of.0));
        let direct: Vec<_> = offered.iter().copied().filter(|&(_, is_other, _)| !is_other).collect();
        let cheapest = offered.get(..self.k);
        let is_direct = direct.len() == is_wanted.iter().filter(|&&is_wanted| is_wanted).count();
        let chosen = match cheapest {
            Some(cheapest) if !is_direct || price(cheapest) < price(&direct) => cheapest,
            _ if is_direct => &direct,
            _ => return None,
        };
        let mut shards: Vec<usize> = chosen.iter().map(|&(_, _, shard)| shard).collect();
        shards.sort_unstable();
        let reads = shards.iter().map(|&shard| Read { shard, terms: vec![(0, 1)] }).collect();
        Some(Plan { reads, program: self.program(wanted, &shards), price: price(chosen) })
    }

    /// The wanted shards from those read: the same shards if they are among these; otherwise k shards are read.
    fn program(&self, wanted: &[usize], read: &[usize]) -> Program {
        let (input_count, output_count) = (read.len(), wanted.len());
        let mut ops = Vec::new();
        let (mut computed, mut to): (Vec<usize>, Vec<SymbolId>) = (Vec::new(), Vec::new());
        for (output, &shard) in wanted.iter().enumerate() {
            match read.binary_search(&shard) {
                Ok(from) => ops.push(Op::Copy { from, to: input_count + output }),
                Err(_) => {
                    computed.push(shard);
                    to.push(input_count + output);
                }
            }
        }
        let mut program = Program { input_count, output_count, temporary_count: 0, ops };
        if !computed.is_empty() {
            let from: Vec<SymbolId> = (0..input_count).collect();
            self.sums(&computed, read).append(&mut program, &from, &to);
        }
        program
    }

    /// The shards computed as sums over the k shards read; no shard is both.
    pub(super) fn sums(&self, computed: &[usize], read: &[usize]) -> Cauchy {
        // The shards read are all data but a few, and as many parities: only few factors differ from those of all data.
        let mut is_read = vec![false; self.logarithms.len()];
        read.iter().for_each(|&shard| is_read[shard] = true);
        let missing: Vec<usize> = (0..self.k).filter(|&datum| !is_read[datum]).collect();
        let parities: Vec<usize> = read.iter().copied().filter(|&shard| shard >= self.k).collect();
        spend(is_read.len() + (read.len() + computed.len()) * (missing.len() + parities.len() + 1));
        let product =
            |shard: usize| self.products[shard] + log_product(shard, &parities) + GROUP - log_product(shard, &missing);
        let logarithm = |shard: usize| (self.logarithms[shard] + product(shard)) % GROUP;
        let point = |shard: usize, logarithm: usize| Point { element: shard as u8, factor: gf::EXP[logarithm] };
        Cauchy {
            sources: read.iter().map(|&shard| point(shard, GROUP - logarithm(shard))).collect(),
            targets: computed.iter().map(|&shard| point(shard, logarithm(shard))).collect(),
        }
    }
}

/// Logarithms count modulo the number of nonzero elements.
const GROUP: usize = 255;

fn log(element: usize) -> usize {
    usize::from(gf::LOG[element])
}

/// The logarithm, below [`GROUP`], of the product of `element ^ other` over all others but itself.
fn log_product(element: usize, others: &[usize]) -> usize {
    // Differences of bytes have logarithms; the difference 0, which is the element's own, counts nothing.
    others.iter().filter(|&&other| other != element).map(|&other| log(element ^ other)).sum::<usize>() % GROUP
}
