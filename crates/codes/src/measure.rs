//! How fast programs run, beside what the machine can do at all.
//!
//! Pure but for the time, which is an argument: a clock is a closure that says how long ago something was. What is
//! compared takes turns ([`race`]), and the best of many short rounds counts: other work on a machine can only slow a
//! round down. Even so, only ratios within one race mean anything.
//!
//! Symbols lie in one allocation, at irregular distances: at a power-of-two distance they would share the sets of the
//! caches, and at any regular one the 2-D prefetcher would fetch what nobody asked for.
//!
//! ```
//! use weft_codes::measure::{self, Effort, Memory, PLACES};
//!
//! let start = std::time::Instant::now();
//! let code = weft_codes::parse("rs:4+2")?;
//! let effort = Effort { rounds: 2, round: std::time::Duration::from_micros(20) };
//! let speeds = measure::code(&*code, weft_codes::executor(), &PLACES[0], effort, &mut Memory::new(), &|| start.elapsed())?;
//! println!("{:.1} GB/s, {:.2} of the limit", speeds.encode.gigabytes(), speeds.encode.of_limit());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use crate::code::{Code, Content, Offer, Offers, PlanError, Wanted};
use crate::exec::{Compiled, Executor};
use crate::program::{Op, Program, ProgramError};
use std::hint::black_box;
use std::time::Duration;

/// Where cells lie while they are worked on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// E.g. `64 KiB`.
    pub name: &'static str,
    /// Length in bytes of a cell.
    pub cell_bytes: usize,
    /// Stripes are gone round until so many bytes have been touched: 0 for a single stripe, which stays in cache.
    pub span_bytes: usize,
}

/// Three in cache, the last far out of any.
pub const PLACES: [Place; 4] = [
    Place { name: "4 KiB", cell_bytes: 4 << 10, span_bytes: 0 },
    Place { name: "16 KiB", cell_bytes: 16 << 10, span_bytes: 0 },
    Place { name: "64 KiB", cell_bytes: 64 << 10, span_bytes: 0 },
    Place { name: "1 MiB of 256", cell_bytes: 1 << 20, span_bytes: 256 << 20 },
];

/// How long to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort {
    /// Turns that each task gets.
    pub rounds: usize,
    /// How long a turn lasts at least; far longer than the clock is coarse, far shorter than what disturbs it.
    pub round: Duration,
}

impl Default for Effort {
    fn default() -> Effort {
        Effort { rounds: 25, round: Duration::from_millis(2) }
    }
}

/// Says how much time has passed since a moment of its own.
pub type Clock<'a> = &'a dyn Fn() -> Duration;

/// What a task does to one stripe: inputs, outputs.
pub type Work<'a> = Box<dyn FnMut(&[&[u8]], &mut [&mut [u8]]) + 'a>;

/// Something to be timed.
pub struct Task<'a> {
    /// Symbols read, each of the race's length.
    pub input_count: usize,
    /// Symbols written.
    pub output_count: usize,
    /// Does it for one stripe.
    pub work: Work<'a>,
}

impl<'a> Task<'a> {
    /// The task of running a program.
    #[must_use]
    pub fn of_program(program: Compiled, executor: &'a Executor) -> Task<'a> {
        let Program { input_count, output_count, .. } = *program.program();
        let work = move |inputs: &[&[u8]], outputs: &mut [&mut [u8]]| {
            executor.run(&program, inputs, outputs).expect("a task is given what its program takes");
        };
        Task { input_count, output_count, work: Box::new(work) }
    }

    /// The limit of every program of so many inputs and outputs: each output is the XOR of its share of the inputs,
    /// so that each input is read, each output written, and next to nothing computed. With fewer inputs than outputs
    /// some inputs are copied more than once.
    #[must_use]
    pub fn xor(input_count: usize, output_count: usize, executor: &'a Executor) -> Task<'a> {
        let share = |output: usize| match input_count {
            0 => 0..0,
            _ if input_count < output_count => output % input_count..output % input_count + 1,
            _ => output * input_count / output_count..(output + 1) * input_count / output_count,
        };
        let sum = |count: usize| {
            let op = Op::Xor { from: (0..count).collect(), to: count };
            Compiled::new(Program { input_count: count, output_count: 1, temporary_count: 0, ops: vec![op] })
                .expect("a sum is a valid program")
        };
        let sums: Vec<_> = (0..output_count).map(|output| (share(output), sum(share(output).len()))).collect();
        let work = move |inputs: &[&[u8]], outputs: &mut [&mut [u8]]| {
            for (output, (share, sum)) in outputs.chunks_mut(1).zip(&sums) {
                executor.run(sum, &inputs[share.clone()], output).expect("a sum takes its share");
            }
        };
        Task { input_count, output_count, work: Box::new(work) }
    }

    /// The limit of everything that touches each symbol: so many symbols copied by the standard library.
    #[must_use]
    pub fn copy(symbol_count: usize) -> Task<'a> {
        let work = |inputs: &[&[u8]], outputs: &mut [&mut [u8]]| {
            inputs.iter().zip(outputs).for_each(|(input, output)| output.copy_from_slice(input));
        };
        Task { input_count: symbol_count, output_count: symbol_count, work: Box::new(work) }
    }
}

/// Memory that tasks take turns in; it grows to what the largest asks for, and is touched once, ahead of time.
#[derive(Debug, Default)]
pub struct Memory {
    bytes: Vec<u8>,
}

/// Symbols of one stripe: inputs, outputs.
pub type View<'a> = (Vec<&'a [u8]>, Vec<&'a mut [u8]>);

/// Symbols begin at cache lines.
const LINE_BYTES: usize = 64;

impl Memory {
    /// No memory yet.
    #[must_use]
    pub fn new() -> Memory {
        Memory::default()
    }

    /// Stripes with so many symbols of so many bytes: one, or as many as span so many bytes.
    pub fn stripes(&mut self, inputs: usize, outputs: usize, symbol_bytes: usize, span_bytes: usize) -> Vec<View<'_>> {
        let symbol_count = inputs + outputs;
        let stripe_count = span_bytes.div_ceil((symbol_count * symbol_bytes).max(1)).max(1);
        let pitch = |index: usize| (symbol_bytes + gap_bytes(index, symbol_bytes)).next_multiple_of(LINE_BYTES);
        let wanted = LINE_BYTES + (0..stripe_count * symbol_count).map(pitch).sum::<usize>();
        let touched = self.bytes.len();
        self.bytes.extend((touched..wanted).map(|at| (at * 7 + (at >> 8)) as u8));

        let to_line = self.bytes.as_ptr().align_offset(LINE_BYTES).min(LINE_BYTES);
        let mut left = &mut self.bytes[to_line..];
        let mut next = 0;
        let mut symbol = || {
            let (symbol, rest) = std::mem::take(&mut left).split_at_mut(pitch(next));
            left = rest;
            next += 1;
            &mut symbol[..symbol_bytes]
        };
        (0..stripe_count)
            .map(|_| ((0..inputs).map(|_| &*symbol()).collect(), (0..outputs).map(|_| symbol()).collect()))
            .collect()
    }
}

/// Less than a page and than a symbol's length, in no regular order: 37 is prime to the lines of a page.
fn gap_bytes(index: usize, symbol_bytes: usize) -> usize {
    const PAGE_LINES: usize = 64;
    index * 37 % (symbol_bytes / LINE_BYTES).clamp(1, PAGE_LINES) * LINE_BYTES
}

/// Seconds that each task takes for a stripe of symbols of so many bytes: its best round, all taking turns.
pub fn race(
    tasks: &mut [Task<'_>],
    symbol_bytes: usize,
    span_bytes: usize,
    effort: Effort,
    memory: &mut Memory,
    clock: Clock<'_>,
) -> Vec<f64> {
    let mut seconds = vec![f64::INFINITY; tasks.len()];
    let mut calls = vec![0; tasks.len()];
    for _ in 0..effort.rounds.max(1) {
        for ((task, calls), seconds) in tasks.iter_mut().zip(&mut calls).zip(&mut seconds) {
            let mut stripes = memory.stripes(task.input_count, task.output_count, symbol_bytes, span_bytes);
            let stripe_count = stripes.len();
            let mut turn = |calls: usize| {
                let start = clock();
                for call in 0..calls {
                    let (inputs, outputs) = &mut stripes[call % stripe_count];
                    (task.work)(black_box(inputs), black_box(outputs));
                }
                (clock() - start).as_secs_f64()
            };
            if *calls == 0 {
                *calls = stripe_count;
                while turn(*calls) < effort.round.as_secs_f64() {
                    *calls *= 2;
                }
            }
            *seconds = seconds.min(turn(*calls) / *calls as f64);
        }
    }
    seconds
}

/// A speed, beside its limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Speed {
    /// Bytes that count: of data for encode and decode, rebuilt ones for a repair.
    pub bytes: usize,
    /// Seconds for that.
    pub seconds: f64,
    /// Seconds for the XOR that reads and writes as many symbols ([`Task::xor`]).
    pub xor_seconds: f64,
}

impl Speed {
    /// GB/s of the bytes that count.
    #[must_use]
    pub fn gigabytes(&self) -> f64 {
        self.bytes as f64 / self.seconds / 1e9
    }

    /// GB/s of the limit.
    #[must_use]
    pub fn limit_gigabytes(&self) -> f64 {
        self.bytes as f64 / self.xor_seconds / 1e9
    }

    /// Which part of the limit is reached.
    #[must_use]
    pub fn of_limit(&self) -> f64 {
        self.xor_seconds / self.seconds
    }
}

/// The speeds of a code in one place.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Speeds {
    /// All coded symbols from the native ones.
    pub encode: Speed,
    /// The natives of the first `tolerance` shards, which are lost.
    pub decode: Speed,
    /// All symbols of shard 0, which is lost, from what its plan reads. What helpers compute is not in it.
    pub repair: Speed,
    /// GB/s of a copy of the native symbols.
    pub copy_gigabytes: f64,
}

/// Why a code was not measured.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MeasureError {
    /// It does not decode what it promises to.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// One of its programs is invalid.
    #[error(transparent)]
    Program(#[from] ProgramError),
}

/// Measures a code: encode, decode of as many losses as it tolerates, repair of one, and their limits, in one race.
///
/// # Errors
/// [`MeasureError`]: the code breaks its promises.
pub fn code(
    code: &dyn Code,
    executor: &Executor,
    place: &Place,
    effort: Effort,
    memory: &mut Memory,
    clock: Clock<'_>,
) -> Result<Speeds, MeasureError> {
    let shape = code.shape();
    let symbol_bytes = (place.cell_bytes / shape.alpha).max(1).next_multiple_of(shape.symbol_alignment_bytes.max(1));
    let have = |lost: usize| {
        let offer = Offer { combines: true, request_price: 0, symbol_price: 1 };
        Offers((0..shape.n).map(|shard| (shard >= lost).then_some(offer)).collect())
    };
    let decoded = code.plan(&Wanted::Natives(natives_of(code, shape.tolerance)), &have(shape.tolerance))?.program;
    let repaired = code.plan(&Wanted::Shards(vec![0]), &have(1))?.program;
    let data_bytes = shape.native_count * symbol_bytes;
    let timed = [(code.encode().clone(), data_bytes), (decoded, data_bytes), (repaired, shape.alpha * symbol_bytes)];

    let mut tasks = vec![Task::copy(shape.native_count)];
    for (program, _) in &timed {
        tasks.push(Task::xor(program.input_count, program.output_count, executor));
        tasks.push(Task::of_program(Compiled::new(program.clone())?, executor));
    }
    let seconds = race(&mut tasks, symbol_bytes, place.span_bytes, effort, memory, clock);
    let speed = |index: usize| Speed {
        bytes: timed[index].1,
        seconds: seconds[2 * index + 2],
        xor_seconds: seconds[2 * index + 1],
    };
    let copy_gigabytes = data_bytes as f64 / seconds[0] / 1e9;
    Ok(Speeds { encode: speed(0), decode: speed(1), repair: speed(2), copy_gigabytes })
}

/// Native symbols that the first shards hold plainly; all where they hold none.
fn natives_of(code: &dyn Code, shards: usize) -> Vec<usize> {
    let shape = code.shape();
    let mut natives: Vec<usize> = shape.contents[..shards * shape.alpha]
        .iter()
        .filter_map(|content| match content {
            Content::Native(native) => Some(*native),
            Content::Coded => None,
        })
        .collect();
    natives.sort_unstable();
    natives.dedup();
    if natives.is_empty() { (0..shape.native_count).collect() } else { natives }
}

#[cfg(test)]
#[path = "measure_tests.rs"]
mod tests;
