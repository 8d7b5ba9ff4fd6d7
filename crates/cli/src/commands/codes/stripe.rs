//! One stripe of random data, encoded.

use super::figures::SEED;
use anyhow::Result;
use rand::rngs::StdRng;
use rand::{RngCore, SeedableRng};
use std::sync::Arc;
use weft_codes::{Code, Codec, Compiled, Program, executor};

/// A symbol's length; the next multiple of the code's alignment where that is no divisor.
const SYMBOL_BYTES: usize = 64;

pub struct Stripe {
    pub natives: Vec<Vec<u8>>,
    /// All n * alpha stored symbols. Two of them are equal exactly where their rows of the generator matrix are: random
    /// bytes of this length agree by chance less than once in 2^500.
    pub stored: Vec<Vec<u8>>,
}

impl Stripe {
    pub fn encoded(code: &Arc<dyn Code>) -> Result<Self> {
        let shape = code.shape();
        let symbol_bytes = SYMBOL_BYTES.next_multiple_of(shape.symbol_alignment_bytes.max(1));
        let mut data = vec![0; shape.native_count * symbol_bytes];
        StdRng::seed_from_u64(SEED).fill_bytes(&mut data);
        let shards = Codec::of(code.clone())?.encode(&data);
        let natives = data.chunks(symbol_bytes).map(<[u8]>::to_vec).collect();
        let stored = shards.iter().flat_map(|shard| shard.chunks(symbol_bytes)).map(<[u8]>::to_vec).collect();
        Ok(Self { natives, stored })
    }
}

/// Runs a program on these symbols.
pub fn compute(program: Program, inputs: &[&Vec<u8>], outputs: &mut [Vec<u8>]) -> Result<()> {
    let inputs: Vec<&[u8]> = inputs.iter().map(|input| input.as_slice()).collect();
    let mut outputs: Vec<&mut [u8]> = outputs.iter_mut().map(Vec::as_mut_slice).collect();
    Ok(executor().run(&Compiled::new(program)?, &inputs, &mut outputs)?)
}
