//! Speed of encoding and decoding on one core, beside the speed of copying the same data in the same run.
//!
//! `cargo bench -p weft-codes [-- SPEC...]`. GB/s of data (k symbols); decode loses the first m data shards. The last
//! column's 1 MiB symbols come from stripes that together exceed any cache. Best of several rounds: other work on the
//! machine can only slow a round down, so compare ratios within one run.

use std::hint::black_box;
use std::time::Instant;
use weft_codes::{Code, Compiled, Executor, Offer, Offers, Program, Wanted};

/// Symbol length, and how many stripes to go round.
const SIZES: [(usize, usize); 4] = [(4 << 10, 1), (16 << 10, 1), (64 << 10, 1), (1 << 20, 12)];

/// Rounds per figure, and how long each lasts at least: far longer than the clock is coarse.
const ROUNDS: usize = 9;
const ROUND_SECONDS: f64 = 0.004;

fn main() {
    let named: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    let defaults = ["rs:4+2", "rs:8+4", "rs:10+4"].map(str::to_owned);
    let specs = if named.is_empty() { defaults.to_vec() } else { named };
    println!("{:<28}{:>10}{:>10}{:>10}{:>10}", "GB/s of data", "4 KiB", "16 KiB", "64 KiB", "1 MiB");
    for spec in specs {
        match weft_codes::parse(&spec) {
            Ok(code) => measure(&*code),
            Err(error) => println!("{error}"),
        }
    }
}

fn measure(code: &dyn Code) {
    let (n, k) = (code.shape().n, code.shape().k);
    let lost = (n - k).min(k);
    let offer = Offer { combines: false, request_price: 0, symbol_price: 1 };
    let have = Offers((0..n).map(|shard| (shard >= lost).then_some(offer)).collect());
    let decode = match code.plan(&Wanted::Natives((0..lost).collect()), &have) {
        Ok(plan) => plan.program,
        Err(error) => return println!("{error}"),
    };
    for executor in Executor::all() {
        let label = |what: &str| format!("{} {what} {}", code.spec(), executor.name());
        row(&label("encode"), k, code.encode(), &executor);
        row(&label("decode"), k, &decode, &executor);
    }
    let copies = SIZES.map(|(symbol_bytes, stripe_count)| {
        let mut stripes: Vec<Stripe> = (0..stripe_count).map(|_| Stripe::new(k, k, symbol_bytes)).collect();
        best(k * symbol_bytes, &mut stripes, |inputs, outputs| {
            inputs.iter().zip(outputs).for_each(|(input, output)| output.copy_from_slice(input));
        })
    });
    print_row(&format!("{} copy", code.spec()), &copies);
}

fn row(label: &str, k: usize, program: &Program, executor: &Executor) {
    let compiled = match Compiled::new(program.clone()) {
        Ok(compiled) => compiled,
        Err(error) => return println!("{label}: {error}"),
    };
    let speeds = SIZES.map(|(symbol_bytes, stripe_count)| {
        let stripe = || Stripe::new(program.input_count, program.output_count, symbol_bytes);
        let mut stripes: Vec<Stripe> = (0..stripe_count).map(|_| stripe()).collect();
        best(k * symbol_bytes, &mut stripes, |inputs, outputs| {
            if let Err(error) = executor.run(&compiled, inputs, outputs) {
                println!("{label}: {error}");
            }
        })
    });
    print_row(label, &speeds);
}

fn print_row(label: &str, speeds: &[f64]) {
    let figures: String = speeds.iter().map(|speed| format!("{speed:>10.1}")).collect();
    println!("{label:<28}{figures}");
}

/// The best round's GB/s of data.
fn best(stripe_bytes: usize, stripes: &mut [Stripe], mut work: impl FnMut(&[&[u8]], &mut [&mut [u8]])) -> f64 {
    let stripe_count = stripes.len();
    let mut views: Vec<_> = stripes.iter_mut().map(Stripe::view).collect();
    let mut round = |calls: usize| {
        let start = Instant::now();
        for call in 0..calls {
            let (inputs, outputs) = &mut views[call % stripe_count];
            work(black_box(inputs), black_box(outputs));
        }
        start.elapsed().as_secs_f64()
    };
    let mut calls = stripe_count;
    while round(calls) < ROUND_SECONDS {
        calls *= 2;
    }
    let shortest_seconds = (0..ROUNDS).map(|_| round(calls)).fold(f64::INFINITY, f64::min);
    (calls * stripe_bytes) as f64 / shortest_seconds / 1e9
}

/// Symbols in one allocation, a few cache lines apart from a power-of-two stride, which would make them share sets.
struct Stripe {
    memory: Vec<u8>,
    input_count: usize,
    symbol_bytes: usize,
}

/// Five cache lines: an odd number of them.
const GAP_BYTES: usize = 5 * 64;

impl Stripe {
    fn new(input_count: usize, output_count: usize, symbol_bytes: usize) -> Stripe {
        let bytes = (input_count + output_count) * (symbol_bytes + GAP_BYTES) + 64;
        Stripe { memory: (0..bytes).map(|at| (at * 7 + (at >> 8)) as u8).collect(), input_count, symbol_bytes }
    }

    fn view(&mut self) -> (Vec<&[u8]>, Vec<&mut [u8]>) {
        let to_line = self.memory.as_ptr().align_offset(64);
        let mut symbols = self.memory[to_line..].chunks_exact_mut(self.symbol_bytes + GAP_BYTES);
        let inputs = symbols.by_ref().take(self.input_count).map(|symbol| &symbol[..self.symbol_bytes]).collect();
        let outputs = symbols.map(|symbol| &mut symbol[..self.symbol_bytes]).collect();
        (inputs, outputs)
    }
}
