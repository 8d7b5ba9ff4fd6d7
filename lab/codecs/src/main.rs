//! Our codec beside its peers, in one run, on one core: a Markdown table on standard output.
//!
//! ```sh
//! apt-get install libisal-dev          # and Go for klauspost/reedsolomon, which is left out where there is none
//! cargo run --release --manifest-path lab/codecs/Cargo.toml [-- 8+4 50+50 clay ...]
//! ```
//!
//! Figures are GB/s of data, the best of many short rounds in which all take turns; decode means that the first m of k
//! data shards are lost (all where m exceeds k). There is a row for each set of kernels that the machine can run, and for each
//! spacing of buffers: back to back, some lines apart, some pages apart. Peers take the best that the machine has, so that a
//! lesser set's ratio is fair only beside `ISA-L AVX2`. `xor` and `copy` are limits: the XOR that moves the same symbols, run
//! by our executor, and the standard library's copy of the data. The machine is what it is: only ratios within a row mean
//! anything.

mod clay;
mod klauspost;
mod peers;

use klauspost::Klauspost;
use peers::{Contender, Operation, Shape};
use std::time::{Duration, Instant};
use weft_codes::Executor;
use weft_codes::measure::{self, Effort, Memory, PLACES, Place, Spacing, Stripe, Task};

const SHAPES: [Shape; 11] = [
    shape(4, 2),
    shape(8, 4),
    shape(10, 4),
    shape(8, 6),
    shape(16, 4),
    shape(20, 4),
    shape(16, 16),
    shape(32, 32),
    shape(50, 50),
    shape(64, 64),
    shape(100, 100),
];

/// Short shards, where calls cost more than bytes.
const SHORT: Place = Place { name: "256 B", cell_bytes: 256, span_bytes: 0, spacing: Spacing::Lines };

const fn shape(k: usize, m: usize) -> Shape {
    Shape { k, m }
}

/// Rounds are spread over so many races, so that the Go process takes its turns between them.
const RACES: usize = 5;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let named: Vec<String> = std::env::args().skip(1).collect();
    let is_named = |name: &str| named.is_empty() || named.iter().any(|named| named == name);
    let mut klauspost = Klauspost::start();
    let mut memory = Memory::new();
    // The portable kernels are for comparison, not for speed.
    let executors: Vec<Executor> =
        Executor::all().into_iter().filter(|executor| executor.name() != "portable").collect();
    let names = peers::NAMES.join(" | ");
    println!("| code | what | cells | spacing | kernels | ours | of the fastest peer | {names} | xor | copy |");
    println!("|---|---|---|---|---|---|---|{}---|---|", "---|".repeat(peers::NAMES.len()));
    for shape in SHAPES.into_iter().filter(|shape| is_named(&shape.to_string())) {
        for operation in Operation::of(shape) {
            for place in [SHORT].into_iter().chain(PLACES) {
                for spacing in Spacing::ALL {
                    let place = Place { spacing, ..place };
                    rows(&executors, shape, operation, &place, &mut klauspost, &mut memory)?;
                }
            }
        }
    }
    if is_named("clay") {
        clay::table(&mut memory)?;
    }
    Ok(())
}

/// A row for each set of kernels.
fn rows(
    executors: &[Executor],
    shape: Shape,
    operation: Operation,
    place: &Place,
    klauspost: &mut Option<Klauspost>,
    memory: &mut Memory,
) -> Result<(), Box<dyn std::error::Error>> {
    let mut contenders = peers::contenders(executors, shape, operation, place.cell_bytes)?;
    let limit = Stripe::of_cells(shape.k, operation.outputs(shape), place.cell_bytes);
    contenders.push(Contender { name: "xor", task: Task::xor(limit, weft_codes::executor()) });
    contenders.push(Contender { name: "copy", task: Task::copy(shape.k, place.cell_bytes) });
    let (names, mut tasks): (Vec<_>, Vec<_>) = contenders.into_iter().map(|c| (c.name, c.task)).unzip();

    let effort = effort(place);
    let start = Instant::now();
    let mut best = vec![f64::INFINITY; tasks.len()];
    let mut best_of_go = f64::INFINITY;
    for _ in 0..RACES {
        let seconds = measure::race(&mut tasks, place, effort, memory, &|| start.elapsed());
        best.iter_mut().zip(seconds).for_each(|(best, seconds)| *best = best.min(seconds));
        if let Some(klauspost) = klauspost.as_mut().filter(|_| operation != Operation::PAndQ) {
            best_of_go = best_of_go.min(klauspost.seconds(shape, operation, place, effort)?);
        }
    }
    let gigabytes = |seconds: f64| (shape.k * place.cell_bytes) as f64 / seconds / 1e9;
    let speed_of = |name: &str| match names.iter().position(|other| *other == name) {
        Some(index) => gigabytes(best[index]),
        None if name == klauspost::NAME && best_of_go.is_finite() => gigabytes(best_of_go),
        None => 0.0,
    };
    let of_peers = peers::NAMES.map(speed_of);
    let fastest = of_peers.into_iter().fold(0.0, f64::max);
    let cells = of_peers.map(cell).join(" | ");
    let limits = [speed_of("xor"), speed_of("copy")].map(cell).join(" | ");
    for executor in executors {
        let (kernels, ours) = (executor.name(), speed_of(executor.name()));
        let (what, cells_of, spacing) = (operation.name(), place.name, place.spacing.name());
        println!(
            "| {shape} | {what} | {cells_of} | {spacing} | {kernels} | {ours:.1} | {:.2} | {cells} | {limits} |",
            ours / fastest,
        );
    }
    Ok(())
}

fn cell(speed: f64) -> String {
    if speed > 0.0 { format!("{speed:.1}") } else { "-".to_owned() }
}

/// A round out of cache goes over all of its memory, and so is long by itself.
fn effort(place: &Place) -> Effort {
    let rounds = if place.span_bytes > 0 { 1 } else { 5 };
    Effort { rounds, round: Duration::from_millis(2) }
}
