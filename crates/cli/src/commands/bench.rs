//! `weft bench DIR`: what a directory gives, through the system calls that programs make.

use crate::arguments::Output;
use crate::render;
use anyhow::Result;
use std::path::PathBuf;
use weft_engine::bench::{Measurement, measure};

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  weft bench /mnt/drive
  weft bench /mnt/drive --size-mib 64 --files 500")]
pub struct Arguments {
    /// Directory to measure; a folder is made in it and removed again
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Size of the large file in MiB
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    size_mib: u64,
    /// Number of small files, of random reads and of synced writes
    #[arg(long, default_value_t = 2000, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    files: u64,
    #[command(flatten)]
    output: Output,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let rows = measure(&arguments.directory, arguments.files, arguments.size_mib << 20)?;
    if arguments.output.json {
        println!("{}", serde_json::to_string_pretty(&rows)?);
        return Ok(());
    }
    let header = ["TEST", "OPERATIONS", "TIME", "RATE", ""].map(str::to_owned).to_vec();
    let row = |row: &Measurement| {
        let per_second = row.operations as f64 / row.seconds;
        let bandwidth = match row.bytes {
            0 => String::new(),
            bytes => format!("{}/s", render::bytes((bytes as f64 / row.seconds) as u64)),
        };
        let (count, seconds) = (row.operations.to_string(), format!("{:.3} s", row.seconds));
        vec![row.what.clone(), count, seconds, format!("{per_second:.0} /s"), bandwidth]
    };
    let table: Vec<_> = std::iter::once(header).chain(rows.iter().map(row)).collect();
    print!("{}", render::table(&table, &[1, 2, 3, 4]));
    Ok(())
}
