//! Slow, obvious code that tests compare the fast parts with. It shares no tables or shortcuts with them.

use crate::code::{Offers, Price, Shape, Wanted};
use crate::gf::POLYNOMIAL;
use crate::matrix::Matrix;
use crate::program::Program;
use alloc::vec;
use alloc::vec::Vec;

/// The product in GF(2^8), by long multiplication.
#[must_use]
pub fn multiply(a: u8, b: u8) -> u8 {
    let mut product: u16 = 0;
    for bit in (0..8).rev() {
        product <<= 1;
        if product & 0x100 != 0 {
            product ^= POLYNOMIAL;
        }
        if b >> bit & 1 == 1 {
            product ^= u16::from(a);
        }
    }
    product as u8
}

/// Runs a valid program byte by byte; panics on an invalid one, and on inputs of unequal length.
#[must_use]
pub fn run(program: &Program, inputs: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let length = inputs.first().map_or(0, Vec::len);
    let mut symbols = inputs.to_vec();
    symbols.resize(program.symbol_count(), vec![0; length]);
    for op in &program.ops {
        let coefficients = op.coefficients();
        for (row, &target) in op.targets().iter().enumerate() {
            let mut value = vec![0; length];
            for (column, &source) in op.sources().iter().enumerate() {
                for at in 0..length {
                    value[at] ^= multiply(coefficients.at(row, column), symbols[source][at]);
                }
            }
            symbols[target] = value;
        }
    }
    symbols[program.outputs()].to_vec()
}

/// The price of the cheapest set of plain reads that determines what is wanted, found by trying every set; `None` if no
/// set does. Takes 2^(symbols offered) eliminations.
#[must_use]
pub fn cheapest_price(shape: &Shape, generator: &Matrix, wanted: &Wanted, have: &Offers) -> Option<Price> {
    let alpha = shape.alpha;
    let targets = match wanted {
        Wanted::Natives(natives) => Matrix::identity(shape.native_count).select_rows(natives),
        Wanted::Shards(shards) => {
            let symbols: Vec<usize> = shards.iter().flat_map(|s| s * alpha..(s + 1) * alpha).collect();
            generator.select_rows(&symbols)
        }
    };
    let offered: Vec<usize> = (0..generator.rows()).filter(|symbol| have.0[symbol / alpha].is_some()).collect();
    let mut cheapest = None;
    for set in 0u64..1 << offered.len() {
        let symbols: Vec<usize> = (0..offered.len()).filter(|i| set >> i & 1 == 1).map(|i| offered[i]).collect();
        let price = set_price(alpha, &symbols, have);
        if cheapest.is_none_or(|cheapest| price < cheapest) {
            let read = generator.select_rows(&symbols);
            if read.rank() == read.clone().stack(&targets).rank() {
                cheapest = Some(price);
            }
        }
    }
    cheapest
}

/// The price of the cheapest set of nodes that determine this native symbol by one symbol each, plain or combined,
/// found by trying every set; `None` if no set does. All nodes combine. Takes 2^(shards offered) eliminations.
#[must_use]
pub fn cheapest_sum_price(shape: &Shape, generator: &Matrix, native: usize, have: &Offers) -> Option<Price> {
    let alpha = shape.alpha;
    let target = Matrix::from_fn(1, shape.native_count, |_, column| u8::from(column == native));
    let offered: Vec<usize> = (0..shape.n).filter(|&shard| have.0[shard].is_some()).collect();
    let mut cheapest = None;
    for set in 0u64..1 << offered.len() {
        let shards: Vec<usize> = (0..offered.len()).filter(|i| set >> i & 1 == 1).map(|i| offered[i]).collect();
        let symbols: Vec<usize> = shards.iter().flat_map(|shard| shard * alpha..(shard + 1) * alpha).collect();
        let one_of_each: Vec<usize> = shards.iter().map(|shard| shard * alpha).collect();
        let price = set_price(alpha, &one_of_each, have);
        let stored = generator.select_rows(&symbols);
        if cheapest.is_none_or(|cheapest| price < cheapest) && stored.rank() == stored.clone().stack(&target).rank() {
            cheapest = Some(price);
        }
    }
    cheapest
}

fn set_price(alpha: usize, symbols: &[usize], have: &Offers) -> Price {
    let mut price = 0;
    for (shard, offer) in have.0.iter().enumerate() {
        let symbol_count = symbols.iter().filter(|&symbol| symbol / alpha == shard).count() as Price;
        if let Some(offer) = offer
            && symbol_count > 0
        {
            price += offer.request_price + offer.symbol_price * symbol_count;
        }
    }
    price
}
