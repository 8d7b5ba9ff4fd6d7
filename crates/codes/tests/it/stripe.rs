//! One encoded stripe in memory, for tests that lose shards of it.

use weft_codes::{Code, Compiled, Content, Executor, Plan, Program, reference};

/// The stored symbols of one stripe, from made-up data.
pub struct Stripe {
    pub natives: Vec<Vec<u8>>,
    /// By stored symbol.
    pub stored: Vec<Vec<u8>>,
}

impl Stripe {
    /// A stripe of made-up data; symbols have so many bytes.
    pub fn made_up(code: &dyn Code, symbol_bytes: usize) -> Stripe {
        let byte = |symbol: usize, at: usize| (symbol * 89 + at * 31 + symbol * at + (at >> 8) * 5 + 7) as u8;
        let symbol = |symbol| (0..symbol_bytes).map(|at| byte(symbol, at)).collect();
        Stripe::encode(code, (0..code.shape().native_count).map(symbol).collect())
    }

    /// The stripe of this data.
    pub fn encode(code: &dyn Code, natives: Vec<Vec<u8>>) -> Stripe {
        let mut coded = run(code.encode(), &natives).into_iter();
        let contents = code.shape().contents.iter();
        let stored = contents
            .map(|content| match content {
                Content::Native(native) => natives[*native].clone(),
                Content::Coded => coded.next().expect("encode has an output per coded symbol"),
            })
            .collect();
        Stripe { natives, stored }
    }

    /// What the plan's reads bring, combined by helpers where it asks for that.
    pub fn fetch(&self, alpha: usize, plan: &Plan) -> Vec<Vec<u8>> {
        plan.reads
            .iter()
            .map(|read| {
                if let [(sub, 1)] = read.terms[..] {
                    return self.stored[read.shard * alpha + sub].clone();
                }
                let mut sum = vec![0; self.stored[0].len()];
                for &(sub, coefficient) in &read.terms {
                    for (sum, &byte) in sum.iter_mut().zip(&self.stored[read.shard * alpha + sub]) {
                        *sum ^= reference::multiply(coefficient, byte);
                    }
                }
                sum
            })
            .collect()
    }
}

/// Runs a program on the fastest executor.
pub fn run(program: &Program, inputs: &[Vec<u8>]) -> Vec<Vec<u8>> {
    run_on(weft_codes::executor(), program, inputs)
}

/// Runs a program on this executor.
pub fn run_on(executor: &Executor, program: &Program, inputs: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let symbol_bytes = inputs.first().map_or(0, Vec::len);
    let mut outputs = vec![vec![0xaa; symbol_bytes]; program.output_count];
    let inputs: Vec<&[u8]> = inputs.iter().map(Vec::as_slice).collect();
    let mut buffers: Vec<&mut [u8]> = outputs.iter_mut().map(Vec::as_mut_slice).collect();
    let compiled = Compiled::new(program.clone()).expect("programs of codes are valid");
    executor.run(&compiled, &inputs, &mut buffers).expect("symbols are equally long");
    outputs
}
