//! `weft codes bench [CODE...]`: how fast codes encode, decode and repair here, beside what this machine can do at all.

use crate::arguments::Output;
use crate::compose;
use crate::render;
use anyhow::{Context, Result, bail};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use std::sync::{Barrier, Mutex};
use std::time::Instant;
use weft_codes::measure::{self, Effort, Memory, PLACES, Place, Speed, Speeds};
use weft_codes::{Code, Executor, executor};

/// Each core's share of the bytes gone round out of cache is at least this: more than a core has cache of its own.
const SPAN_BYTES_MIN: usize = 32 << 20;

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  weft codes bench rs:8+4")]
pub struct Arguments {
    /// Codes, as in rs:4+2 [default: an example of each family]
    #[arg(value_name = "CODE")]
    codes: Vec<String>,
    /// Set of kernels, as in avx2, or `all` that this machine runs (`weft codes list`) [default: the fastest]
    #[arg(long, value_name = "SET")]
    isa: Option<String>,
    #[command(flatten)]
    output: Output,
}

/// One code in one place on some cores: sums over the cores.
#[derive(Serialize)]
struct Row {
    code: String,
    /// Kernels in use.
    kernels: &'static str,
    /// Where cells lie.
    place: &'static str,
    cell_bytes: usize,
    cores: usize,
    /// Where anything is to be computed.
    encode: Option<Figure>,
    /// As many shards lost as the code tolerates, the first ones.
    decode: Option<Figure>,
    /// One shard, of its own bytes; what nodes compute before they send is not in it.
    repair: Option<Figure>,
    /// A copy of as many bytes as are encoded.
    copy_gigabytes_per_second: f64,
}

#[derive(Serialize)]
struct Figure {
    gigabytes_per_second: f64,
    /// What XORs that read and write the same bytes reach in the same run.
    limit_gigabytes_per_second: f64,
    /// Which part of the limit is reached if all bytes count that the program reads and writes on its way.
    moved_part_of_limit: f64,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let specs: Vec<String> = match arguments.codes.as_slice() {
        [] => weft_codes::families().iter().map(|family| family.example.to_owned()).collect(),
        named => named.to_vec(),
    };
    // Before the first is measured, all are known to be codes.
    let codes = specs.iter().map(|spec| compose::code(spec)).collect::<Result<Vec<_>>>()?;
    let executors = executors(arguments.isa.as_deref())?;
    let all_cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    let cores = if all_cores > 1 { vec![1, all_cores] } else { vec![1] };
    let style = ProgressStyle::with_template("{wide_bar} {pos} of {len}  {msg}");
    let bar = ProgressBar::new((codes.len() * executors.len() * PLACES.len() * cores.len()) as u64)
        .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    let mut memories: Vec<Memory> = (0..all_cores).map(|_| Memory::new()).collect();
    let mut rows = Vec::new();
    for (code, executor) in codes.iter().flat_map(|code| executors.iter().map(move |executor| (code, executor))) {
        for place in &PLACES {
            for &cores in &cores {
                bar.set_message(format!("{}, {}, {}", code.spec(), executor.name(), place.name));
                rows.push(measure(&**code, executor, place, &mut memories[..cores])?);
                bar.inc(1);
            }
        }
    }
    bar.finish_and_clear();
    if arguments.output.json {
        println!("{}", serde_json::to_string_pretty(&rows)?);
    } else {
        print!("{}", text(&rows));
    }
    Ok(())
}

/// Those of the set of this name, of all sets of this machine, or the fastest.
fn executors(isa: Option<&str>) -> Result<Vec<Executor>> {
    let all = Executor::all();
    match isa {
        None => Ok(vec![*executor()]),
        Some("all") => Ok(all),
        Some(isa) => match all.iter().find(|executor| executor.name() == isa) {
            Some(executor) => Ok(vec![*executor]),
            None => {
                let names: Vec<&str> = all.iter().map(Executor::name).collect();
                bail!("this machine has no kernels {isa:?}: choose one of {}, or all", names.join(", "))
            }
        },
    }
}

/// Measures on as many cores at once as there are memories.
fn measure(code: &dyn Code, executor: &Executor, place: &Place, memories: &mut [Memory]) -> Result<Row> {
    let cores = memories.len();
    let span_bytes = match place.span_bytes {
        0 => 0,
        bytes => (bytes / cores).max(SPAN_BYTES_MIN),
    };
    let place = Place { span_bytes, ..*place };
    let (start, together, speeds) = (Instant::now(), Barrier::new(cores), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for memory in memories {
            scope.spawn(|| {
                together.wait();
                let clock = || start.elapsed();
                let measured = measure::code(code, executor, &place, Effort::default(), memory, &clock);
                speeds.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(measured);
            });
        }
    });
    let speeds = speeds.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    let speeds: Vec<Speeds> =
        speeds.into_iter().collect::<Result<_, _>>().with_context(|| format!("{} was not measured", code.spec()))?;
    let figure = |speed: fn(&Speeds) -> Option<Speed>| {
        let of_cores: Vec<Speed> = speeds.iter().map(speed).collect::<Option<_>>()?;
        Some(Figure {
            gigabytes_per_second: of_cores.iter().map(Speed::gigabytes).sum(),
            limit_gigabytes_per_second: of_cores.iter().map(Speed::limit_gigabytes).sum(),
            moved_part_of_limit: of_cores.iter().map(Speed::of_moved).sum::<f64>() / of_cores.len() as f64,
        })
    };
    Ok(Row {
        code: code.spec().to_owned(),
        kernels: executor.name(),
        place: place.name,
        cell_bytes: place.cell_bytes,
        cores,
        encode: figure(|speeds| speeds.encode),
        decode: figure(|speeds| speeds.decode),
        repair: figure(|speeds| speeds.repair),
        copy_gigabytes_per_second: speeds.iter().map(|speeds| speeds.copy_gigabytes).sum(),
    })
}

fn text(rows: &[Row]) -> String {
    let figure = |figure: &Option<Figure>| match figure {
        Some(Figure { gigabytes_per_second: speed, limit_gigabytes_per_second: limit, moved_part_of_limit: moved }) => {
            format!("{speed:.1} ({:.0} %, {:.0} %)", 100.0 * speed / limit, 100.0 * moved)
        }
        None => "-".to_owned(),
    };
    let header =
        ["CODE", "KERNELS", "CELLS", "CORES", "ENCODE", "DECODE", "REPAIR", "COPY"].map(str::to_owned).to_vec();
    let row = |row: &Row| {
        let (kernels, place, cores) = (row.kernels.to_owned(), row.place.to_owned(), row.cores.to_string());
        let copy = format!("{:.1}", row.copy_gigabytes_per_second);
        vec![
            row.code.clone(),
            kernels,
            place,
            cores,
            figure(&row.encode),
            figure(&row.decode),
            figure(&row.repair),
            copy,
        ]
    };
    let table: Vec<_> = std::iter::once(header).chain(rows.iter().map(row)).collect();
    format!(
        "{}\nGB/s of data (repair: of rebuilt bytes); in brackets how much that is of what XORs reach that read and write the\n\
         same bytes, and of what they reach that read and write all that the program does on its way: the code's own cost\n\
         apart. The last of the cells lie out of cache.\n",
        render::table(&table, &[3, 4, 5, 6, 7])
    )
}
