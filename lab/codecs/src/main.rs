//! Our codec beside its peers, in one run, on one core: a Markdown table on standard output.
//!
//! ```sh
//! apt-get install libisal-dev          # and Go for klauspost/reedsolomon, which is left out where there is none
//! cargo run --release --manifest-path lab/codecs/Cargo.toml [-- 8+4 50+50 ...]
//! ```
//!
//! Figures are GB/s of data, the best of many short rounds in which all take turns; decode means that the first m of k
//! data shards are lost (all where m exceeds k). `xor` and `copy` are limits: the XOR that moves the same symbols, run by
//! our executor, and the standard library's copy of the data. The machine is what it is: only ratios within a row mean
//! anything.

mod clay;
mod klauspost;
mod peers;

use klauspost::Klauspost;
use peers::{Contender, Operation, Shape};
use std::time::{Duration, Instant};
use weft_codes::measure::{self, Effort, Memory, PLACES, Place, Stripe, Task};

const SHAPES: [Shape; 7] =
    [shape(4, 2), shape(8, 4), shape(10, 4), shape(8, 6), shape(16, 4), shape(50, 50), shape(100, 100)];

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
    println!("| code | what | cells | ours | of the fastest peer | {} | xor | copy |", peers::NAMES.join(" | "));
    println!("|---|---|---|---|---|{}---|---|", "---|".repeat(peers::NAMES.len()));
    for shape in SHAPES.into_iter().filter(|shape| is_named(&shape.to_string())) {
        for operation in [Operation::Encode, Operation::Decode] {
            for place in PLACES {
                row(shape, operation, &place, &mut klauspost, &mut memory)?;
            }
        }
    }
    if is_named("clay") {
        clay::table(&mut memory)?;
    }
    Ok(())
}

fn row(
    shape: Shape,
    operation: Operation,
    place: &Place,
    klauspost: &mut Option<Klauspost>,
    memory: &mut Memory,
) -> Result<(), Box<dyn std::error::Error>> {
    let lost = operation.lost(shape);
    let outputs = if operation == Operation::Encode { shape.m } else { lost };
    let mut contenders = peers::contenders(shape, operation, place.cell_bytes)?;
    let executor = weft_codes::executor();
    contenders.push(Contender {
        name: "xor",
        task: Task::xor(Stripe::of_cells(shape.k, outputs, place.cell_bytes), executor),
    });
    contenders.push(Contender { name: "copy", task: Task::copy(shape.k, place.cell_bytes) });
    let (names, mut tasks): (Vec<_>, Vec<_>) = contenders.into_iter().map(|c| (c.name, c.task)).unzip();

    let effort = effort(place);
    let start = Instant::now();
    let mut best = vec![f64::INFINITY; tasks.len()];
    let mut best_of_go = f64::INFINITY;
    for _ in 0..RACES {
        let seconds = measure::race(&mut tasks, place.span_bytes, effort, memory, &|| start.elapsed());
        best.iter_mut().zip(seconds).for_each(|(best, seconds)| *best = best.min(seconds));
        if let Some(klauspost) = klauspost {
            best_of_go = best_of_go.min(klauspost.seconds(shape, operation, place, effort)?);
        }
    }
    let gigabytes = |seconds: f64| (shape.k * place.cell_bytes) as f64 / seconds / 1e9;
    let speed_of = |name: &str| match names.iter().position(|other| *other == name) {
        Some(index) => gigabytes(best[index]),
        None if name == klauspost::NAME => gigabytes(best_of_go),
        None => 0.0,
    };
    let ours = speed_of(peers::OURS);
    let of_peers = peers::NAMES.map(speed_of);
    let fastest = of_peers.into_iter().fold(0.0, f64::max);
    let cells: Vec<String> = of_peers.iter().map(|&speed| cell(speed)).collect();
    let limits = [speed_of("xor"), speed_of("copy")].map(cell).join(" | ");
    println!(
        "| {shape} | {} | {} | {ours:.1} | {:.2} | {} | {limits} |",
        operation.name(),
        place.name,
        ours / fastest,
        cells.join(" | "),
    );
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
