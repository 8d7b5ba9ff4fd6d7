//! One stripe of random data, encoded.

use super::figures::SEED;
use anyhow::Result;
use rand::rngs::StdRng;
use rand::{RngCore, SeedableRng};
use weft_codes::{Code, Compiled, Content, Program, executor};

/// A symbol's length; the next multiple of the code's alignment where that is no divisor.
const SYMBOL_BYTES: usize = 64;

pub struct Stripe {
    pub natives: Vec<Vec<u8>>,
    /// All n * alpha stored symbols. Two of them are equal exactly where their rows of the generator matrix are: random
    /// bytes of this length agree by chance less than once in 2^500.
    pub stored: Vec<Vec<u8>>,
}

impl Stripe {
    pub fn encoded(code: &dyn Code) -> Result<Self> {
        let shape = code.shape();
        let symbol_bytes = SYMBOL_BYTES.next_multiple_of(shape.symbol_alignment_bytes.max(1));
        let mut random = StdRng::seed_from_u64(SEED);
        let mut symbol = || {
            let mut bytes = vec![0; symbol_bytes];
            random.fill_bytes(&mut bytes);
            bytes
        };
        let natives: Vec<Vec<u8>> = (0..shape.native_count).map(|_| symbol()).collect();
        let coded_count = shape.contents.iter().filter(|content| **content == Content::Coded).count();
        let mut coded = vec![vec![0; symbol_bytes]; coded_count];
        compute(code.encode().clone(), &natives.iter().collect::<Vec<_>>(), &mut coded)?;
        let mut coded = coded.into_iter();
        let symbol_of = |content: &Content| match content {
            Content::Native(native) => natives[*native].clone(),
            Content::Coded => coded.next().unwrap_or_default(),
        };
        let stored = shape.contents.iter().map(symbol_of).collect();
        Ok(Self { natives, stored })
    }
}

/// Runs a program on these symbols.
pub fn compute(program: Program, inputs: &[&Vec<u8>], outputs: &mut [Vec<u8>]) -> Result<()> {
    let inputs: Vec<&[u8]> = inputs.iter().map(|input| input.as_slice()).collect();
    let mut outputs: Vec<&mut [u8]> = outputs.iter_mut().map(Vec::as_mut_slice).collect();
    Ok(executor().run(&Compiled::new(program)?, &inputs, &mut outputs)?)
}
