//! Speed of encode, decode and repair on one core, beside the machine's limits in the same run.
//!
//! `cargo bench -p weft-codes [-- SPEC...]`. GB/s of data (of rebuilt bytes for repair); decode loses as many shards as
//! the code tolerates; in brackets the part of what XOR reaches that moves the same bytes, and the part of what it reaches
//! that moves all bytes that the program reads and writes on its way. See `weft_codes::measure`.

use std::time::Instant;
use weft_codes::Executor;
use weft_codes::measure::{self, Effort, Memory, PLACES, Speed};

fn main() {
    let named: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    let defaults = ["rs:4+2", "rs:8+4", "rs:10+4"].map(str::to_owned);
    let specs = if named.is_empty() { defaults.to_vec() } else { named };
    // The portable kernels are for comparison, not for speed.
    let executors: Vec<Executor> =
        Executor::all().into_iter().filter(|executor| executor.name() != "portable").collect();
    let start = Instant::now();
    let mut memory = Memory::new();
    let columns: String = ["encode", "decode", "repair", "copy"].map(|name| format!("{name:>22}")).concat();
    println!("{:<44}{columns}", "GB/s");
    for spec in specs {
        let code = match weft_codes::parse(&spec) {
            Ok(code) => code,
            Err(error) => {
                println!("{error}");
                continue;
            }
        };
        for (executor, place) in executors.iter().flat_map(|executor| PLACES.map(|place| (executor, place))) {
            let label = format!("{spec} {} {}", executor.name(), place.name);
            match measure::code(&*code, executor, &place, Effort::default(), &mut memory, &|| start.elapsed()) {
                Ok(speeds) => {
                    let figures = [speeds.encode, speeds.decode, speeds.repair].map(figure).concat();
                    println!("{label:<44}{figures}{:>22.1}", speeds.copy_gigabytes);
                }
                Err(error) => println!("{label:<44}{error}"),
            }
        }
    }
}

fn figure(speed: Option<Speed>) -> String {
    match speed {
        Some(speed) => format!("{:>9.1} ({:.2}, {:.2})", speed.gigabytes(), speed.of_limit(), speed.of_moved()),
        None => format!("{:>22}", "-"),
    }
}
