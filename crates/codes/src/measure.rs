//! How fast programs run, compared with what the machine can do.
//!
//! Pure except for the time, which is an argument: a clock is a closure that returns the time since some moment.
//! Compared tasks take turns ([`race`]), and the best of many short rounds counts, because other work on a machine can
//! only slow a round down. Even so, only ratios within one race mean anything.
//!
//! Bytes lie as in a volume: the symbols of a cell side by side, in whole cache lines if cells are large enough, and
//! cells in one allocation, by default at irregular distances. At a power-of-two distance they would share the sets of
//! the caches; at any regular distance the 2-D prefetcher would fetch lines that nobody needs. Other layouts are in
//! [`Spacing`].
//!
//! The limit of a program is the XOR that reads and writes as many bytes, in whole cells ([`Stripe::of_limit`]). It
//! reads every byte once and stores every byte once. A code whose outputs each depend on many inputs cannot come near
//! it, however well it runs. [`Speed::of_moved`] therefore counts every byte that the program reads and writes on its
//! way.
//!
//! ```
//! use weft_codes::measure::{self, Effort, Memory, PLACES};
//!
//! let start = std::time::Instant::now();
//! let code = weft_codes::parse("rs:4+2")?;
//! let effort = Effort { rounds: 2, round: std::time::Duration::from_micros(20) };
//! let speeds = measure::code(&*code, weft_codes::executor(), &PLACES[0], effort, &mut Memory::new(), &|| start.elapsed())?;
//! let encode = speeds.encode.expect("it has parities to compute");
//! println!("{:.1} GB/s, {:.2} of the limit", encode.gigabytes(), encode.of_limit());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use crate::code::{Code, Content, Offer, Offers, PlanError, Read, Shape, Wanted};
use crate::exec::{Compiled, Executor};
use crate::program::{Op, Program, ProgramError};
use std::hint::black_box;
use std::time::Duration;

/// The result of `plan`, and the operations that planning spent on this thread: symbols named, elements of rows and
/// matrices visited (words of 64 if they are bits). Unlike a time this is the same on every machine, so tests can set
/// limits on planners. Running programs counts for nothing.
pub fn planned<T>(plan: impl FnOnce() -> T) -> (T, u64) {
    let before = crate::work::spent();
    let planned = plan();
    (planned, crate::work::spent().wrapping_sub(before))
}

/// Where cells lie during a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// E.g. `64 KiB`.
    pub name: &'static str,
    /// Length in bytes of a cell.
    pub cell_bytes: usize,
    /// Stripes are visited in turn until this many bytes have been touched; 0 for a single stripe, which stays in
    /// cache.
    pub span_bytes: usize,
    /// The space between cells.
    pub spacing: Spacing,
}

/// The space between one cell and the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spacing {
    /// Nothing.
    BackToBack,
    /// Some lines, less than a page, irregular: the best for most processors.
    Lines,
    /// Some whole pages, irregular. Cells begin at pages, as buffers of large allocations do.
    Pages,
}

impl Spacing {
    /// All of them.
    pub const ALL: [Spacing; 3] = [Spacing::BackToBack, Spacing::Lines, Spacing::Pages];

    /// Its name in tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Spacing::BackToBack => "back to back",
            Spacing::Lines => "lines apart",
            Spacing::Pages => "pages apart",
        }
    }

    /// Cells begin at multiples of this.
    fn alignment_bytes(self) -> usize {
        match self {
            Spacing::BackToBack | Spacing::Lines => LINE_BYTES,
            Spacing::Pages => PAGE_BYTES,
        }
    }

    /// From the start of cell `index`, of `cell_bytes`, to the start of the next. 37 is prime to the lines of a page
    /// and to [`MOST_GAP_PAGES`].
    fn pitch_bytes(self, index: usize, cell_bytes: usize) -> usize {
        let gap_bytes = match self {
            Spacing::BackToBack => 0,
            Spacing::Lines => index * 37 % (cell_bytes / LINE_BYTES).clamp(1, PAGE_BYTES / LINE_BYTES) * LINE_BYTES,
            Spacing::Pages => (1 + index * 37 % MOST_GAP_PAGES) * PAGE_BYTES,
        };
        (cell_bytes + gap_bytes).next_multiple_of(self.alignment_bytes())
    }
}

/// Three in cache, the last far out of any.
pub const PLACES: [Place; 4] = [
    place("4 KiB", 4 << 10, 0),
    place("16 KiB", 16 << 10, 0),
    place("64 KiB", 64 << 10, 0),
    place("1 MiB of 256", 1 << 20, 256 << 20),
];

const fn place(name: &'static str, cell_bytes: usize, span_bytes: usize) -> Place {
    Place { name, cell_bytes, span_bytes, spacing: Spacing::Lines }
}

/// How long to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort {
    /// Turns that each task gets.
    pub rounds: usize,
    /// The least time of a turn: far longer than the resolution of the clock, far shorter than what disturbs it.
    pub round: Duration,
}

impl Default for Effort {
    fn default() -> Effort {
        Effort { rounds: 25, round: Duration::from_millis(2) }
    }
}

/// Returns the time since a moment of its own.
pub type Clock<'a> = &'a dyn Fn() -> Duration;

/// Where a symbol lies in a stripe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Slot {
    /// Any number. Symbols of one cell lie in one piece of memory.
    pub cell: usize,
    /// Index of the symbol within the cell.
    pub sub: usize,
}

/// How the symbols of a stripe lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stripe {
    /// Length of every symbol.
    pub symbol_bytes: usize,
    /// Where the inputs lie.
    pub inputs: Vec<Slot>,
    /// Where the outputs lie; no slot is named twice.
    pub outputs: Vec<Slot>,
}

impl Stripe {
    /// A cell for each symbol.
    #[must_use]
    pub fn of_cells(input_count: usize, output_count: usize, cell_bytes: usize) -> Stripe {
        let mut slots = (0..input_count + output_count).map(|cell| Slot { cell, sub: 0 });
        let inputs = slots.by_ref().take(input_count).collect();
        Stripe { symbol_bytes: cell_bytes, inputs, outputs: slots.collect() }
    }

    /// Cells for the limit of this stripe, as many as come nearest to the bytes read and written. They have the length
    /// of a cell or, if all outputs are shorter, of the outputs.
    #[must_use]
    pub fn of_limit(&self, cell_bytes: usize) -> Stripe {
        let [read_bytes, written_bytes] = [&self.inputs, &self.outputs].map(|slots| slots.len() * self.symbol_bytes);
        let output_count = written_bytes.div_ceil(cell_bytes.max(1));
        let piece_bytes = written_bytes.div_ceil(output_count.max(1)).max(1);
        let input_count = (read_bytes + piece_bytes / 2) / piece_bytes;
        Stripe::of_cells(input_count.max(usize::from(read_bytes > 0)), output_count, piece_bytes)
    }

    fn bytes(&self) -> usize {
        (self.inputs.len() + self.outputs.len()) * self.symbol_bytes
    }
}

/// The work of a task on one stripe: pieces of inputs, pieces of outputs, each of consecutive symbols that lie side by
/// side.
pub type Work<'a> = Box<dyn FnMut(&[&[u8]], &mut [&mut [u8]]) + 'a>;

/// Something to time.
pub struct Task<'a> {
    /// The symbols it reads and writes.
    pub stripe: Stripe,
    /// Works on one stripe.
    pub work: Work<'a>,
}

impl<'a> Task<'a> {
    /// Runs a program over the symbols of this stripe.
    #[must_use]
    pub fn of_program(program: Compiled, stripe: Stripe, executor: &'a Executor) -> Task<'a> {
        let symbol_bytes = stripe.symbol_bytes;
        let work = move |inputs: &[&[u8]], outputs: &mut [&mut [u8]]| {
            let ran = executor.run_pieces(&program, symbol_bytes, inputs, outputs);
            ran.expect("a task is given what its program takes");
        };
        Task { stripe, work: Box::new(work) }
    }

    /// The limit of every program over such a stripe. Each output is the XOR of its share of the inputs, so each input
    /// is read, each output is written, and little is computed. With fewer inputs than outputs some inputs are copied
    /// more than once.
    #[must_use]
    pub fn xor(stripe: Stripe, executor: &'a Executor) -> Task<'a> {
        let (input_count, output_count) = (stripe.inputs.len(), stripe.outputs.len());
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
        Task { stripe, work: Box::new(work) }
    }

    /// The limit of everything that touches each byte: the standard library copies `cell_count` cells.
    #[must_use]
    pub fn copy(cell_count: usize, cell_bytes: usize) -> Task<'a> {
        let work = |inputs: &[&[u8]], outputs: &mut [&mut [u8]]| {
            inputs.iter().zip(outputs).for_each(|(input, output)| output.copy_from_slice(input));
        };
        Task { stripe: Stripe::of_cells(cell_count, cell_count, cell_bytes), work: Box::new(work) }
    }
}

/// Memory that tasks use in turn. It grows to the size of the largest task, and is touched once before any.
#[derive(Debug, Default)]
pub struct Memory {
    bytes: Vec<u8>,
}

/// The pieces of one stripe: inputs, outputs.
pub type View<'a> = (Vec<&'a [u8]>, Vec<&'a mut [u8]>);

/// Cells begin at cache lines or larger units.
const LINE_BYTES: usize = 64;

const PAGE_BYTES: usize = 4096;

/// The most pages between cells.
const MOST_GAP_PAGES: usize = 16;

impl Memory {
    /// No memory yet.
    #[must_use]
    pub fn new() -> Memory {
        Memory::default()
    }

    /// Stripes of this layout: one, or as many as span `span_bytes`.
    pub fn stripes(&mut self, stripe: &Stripe, span_bytes: usize, spacing: Spacing) -> Vec<View<'_>> {
        let Stripe { symbol_bytes, inputs, outputs } = stripe;
        let continues = |a: &Slot, b: &Slot| (a.cell, a.sub + 1) == (b.cell, b.sub);
        let given = inputs.chunk_by(continues);
        let given_count = given.clone().count();
        // By place in memory: the first slot of each piece, its number of symbols, and its index.
        let pieces = given.chain(outputs.chunk_by(continues)).enumerate();
        let mut pieces: Vec<(Slot, usize, usize)> =
            pieces.map(|(index, slots)| (slots[0], slots.len(), index)).collect();
        pieces.sort_unstable();
        let cells: Vec<&[(Slot, usize, usize)]> = pieces.chunk_by(|a, b| a.0.cell == b.0.cell).collect();
        let pitch = |index: usize, cell: &[(Slot, usize, usize)]| {
            let bytes = cell.last().map_or(0, |(first, count, _)| (first.sub + count) * symbol_bytes);
            spacing.pitch_bytes(index, bytes)
        };
        let stripe_count = span_bytes.div_ceil(stripe.bytes().max(1)).max(1);
        let all_cells = || (0..stripe_count).flat_map(|_| &cells).enumerate();
        let alignment_bytes = spacing.alignment_bytes();
        let wanted = alignment_bytes + all_cells().map(|(index, cell)| pitch(index, cell)).sum::<usize>();
        let touched = self.bytes.len();
        self.bytes.extend((touched..wanted).map(|at| (at * 7 + (at >> 8)) as u8));

        let to_first = self.bytes.as_ptr().align_offset(alignment_bytes).min(alignment_bytes);
        let mut left = &mut self.bytes[to_first..];
        let mut found: Vec<(usize, &mut [u8])> = Vec::with_capacity(stripe_count * pieces.len());
        for (index, cell) in all_cells() {
            let (mut of_cell, rest) = std::mem::take(&mut left).split_at_mut(pitch(index, cell));
            left = rest;
            let mut sub = 0;
            for (first, count, piece) in *cell {
                let from_here = std::mem::take(&mut of_cell).split_at_mut((first.sub - sub) * symbol_bytes).1;
                let (bytes, rest) = from_here.split_at_mut(count * symbol_bytes);
                of_cell = rest;
                sub = first.sub + count;
                found.push((piece + index / cells.len() * pieces.len(), bytes));
            }
        }
        found.sort_unstable_by_key(|(piece, _)| *piece);
        let mut found = found.into_iter().map(|(_, bytes)| bytes);
        let mut view = || {
            let inputs = found.by_ref().take(given_count).map(|input| &*input).collect();
            (inputs, found.by_ref().take(pieces.len() - given_count).collect())
        };
        (0..stripe_count).map(|_| view()).collect()
    }
}

/// Seconds per stripe for each task: its best round, with all tasks taking turns. Of the place only the span and the
/// spacing matter; tasks say the rest.
pub fn race(tasks: &mut [Task<'_>], place: &Place, effort: Effort, memory: &mut Memory, clock: Clock<'_>) -> Vec<f64> {
    let mut seconds = vec![f64::INFINITY; tasks.len()];
    let mut calls = vec![0; tasks.len()];
    for _ in 0..effort.rounds.max(1) {
        for ((task, calls), seconds) in tasks.iter_mut().zip(&mut calls).zip(&mut seconds) {
            let mut stripes = memory.stripes(&task.stripe, place.span_bytes, place.spacing);
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

/// A speed and its limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Speed {
    /// Bytes that count: of data for encode and decode, rebuilt ones for a repair.
    pub bytes: usize,
    /// Seconds for that.
    pub seconds: f64,
    /// Seconds for the XOR that reads and writes as many bytes ([`Stripe::of_limit`], [`Task::xor`]).
    pub xor_seconds: f64,
    /// Symbols that the program reads and writes on its way ([`Program::access_count`]), as a multiple of those it is
    /// given.
    pub passes: f64,
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

    /// The speed as a share of the limit.
    #[must_use]
    pub fn of_limit(&self) -> f64 {
        self.xor_seconds / self.seconds
    }

    /// The same for all bytes that the program reads and writes on its way: the quality of the executor, apart from
    /// what the code costs. More than 1 if the executor needs less, because it runs the program in another form.
    #[must_use]
    pub fn of_moved(&self) -> f64 {
        self.of_limit() * self.passes
    }
}

/// The speeds of a code at one place.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Speeds {
    /// All coded symbols from the native ones; `None` if nothing is coded.
    pub encode: Option<Speed>,
    /// The natives of the first `tolerance` shards, which are lost; `None` if nothing can be lost.
    pub decode: Option<Speed>,
    /// All symbols of shard 0, which is lost, from what its plan reads. The work of helpers is not included.
    pub repair: Option<Speed>,
    /// GB/s of a copy of the native symbols.
    pub copy_gigabytes: f64,
}

/// Why a code was not measured.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MeasureError {
    /// It does not decode the losses that it promises to survive.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// One of its programs is invalid.
    #[error(transparent)]
    Program(#[from] ProgramError),
}

/// Measures a code in one race: encode, decode of as many losses as it tolerates, repair of one shard, and their
/// limits.
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
    let symbol_bytes = symbol_bytes(shape, place.cell_bytes);
    let have = |lost: usize| {
        let offer = Offer { combines: true, request_price: 0, symbol_price: 1 };
        Offers((0..shape.n).map(|shard| (shard >= lost).then_some(offer)).collect())
    };
    let natives = natives_of(code, shape.tolerance);
    let decoded = code.plan(&Wanted::Natives(natives.clone()), &have(shape.tolerance))?;
    let repaired = code.plan(&Wanted::Shards(vec![0]), &have(1))?;
    let data_bytes = shape.native_count * symbol_bytes;
    let stripe = |inputs, outputs| Stripe { symbol_bytes, inputs, outputs };
    let homes = homes(shape);
    let encoded_slots = stripe(homes.clone(), coded_slots(shape));
    let decoded_slots =
        stripe(read_slots(&decoded.reads, shape), natives.iter().map(|&native| homes[native]).collect());
    let repaired_slots =
        stripe(read_slots(&repaired.reads, shape), (0..shape.alpha).map(|sub| Slot { cell: 0, sub }).collect());
    let timed = [
        (code.encode().clone(), encoded_slots, data_bytes),
        (decoded.program, decoded_slots, data_bytes),
        (repaired.program, repaired_slots, shape.alpha * symbol_bytes),
    ];

    let mut tasks = vec![Task::copy(data_bytes.div_ceil(place.cell_bytes), place.cell_bytes)];
    // The limit moves whole cells, so it moves a little more or less than the program.
    let mut limit_factors = Vec::new();
    for (program, stripe, _) in &timed {
        let limit = stripe.of_limit(place.cell_bytes);
        limit_factors.push(stripe.bytes() as f64 / limit.bytes().max(1) as f64);
        tasks.push(Task::xor(limit, executor));
        tasks.push(Task::of_program(Compiled::new(program.clone())?, stripe.clone(), executor));
    }
    let seconds = race(&mut tasks, place, effort, memory, clock);
    let speed = |index: usize| {
        let (program, _, bytes) = &timed[index];
        (!program.ops.is_empty()).then(|| Speed {
            bytes: *bytes,
            seconds: seconds[2 * index + 2],
            xor_seconds: seconds[2 * index + 1] * limit_factors[index],
            passes: program.access_count() as f64 / (program.input_count + program.output_count).max(1) as f64,
        })
    };
    let copied_bytes = data_bytes.div_ceil(place.cell_bytes) * place.cell_bytes;
    let copy_gigabytes = copied_bytes as f64 / seconds[0] / 1e9;
    Ok(Speeds { encode: speed(0), decode: speed(1), repair: speed(2), copy_gigabytes })
}

/// The length of a symbol in cells of about `cell_bytes`: whole cache lines if the cell is large enough, as in a
/// volume.
fn symbol_bytes(shape: &Shape, cell_bytes: usize) -> usize {
    let (share, alignment) = (cell_bytes / shape.alpha, shape.symbol_alignment_bytes.max(1));
    let unit = if LINE_BYTES.is_multiple_of(alignment) && share >= LINE_BYTES { LINE_BYTES } else { alignment };
    (share - share % unit).max(alignment)
}

/// Where native symbols lie: in the first shard that stores them, otherwise together in a cell of their own.
fn homes(shape: &Shape) -> Vec<Slot> {
    let homes = shape.homes().into_iter().enumerate();
    let slot = |(native, homes): (usize, Vec<usize>)| match homes.first() {
        Some(&stored) => stored_slot(shape, stored),
        None => Slot { cell: 2 * shape.n, sub: native },
    };
    homes.map(slot).collect()
}

fn coded_slots(shape: &Shape) -> Vec<Slot> {
    shape.coded_symbols().into_iter().map(|stored| stored_slot(shape, stored)).collect()
}

fn stored_slot(shape: &Shape, stored: usize) -> Slot {
    Slot { cell: stored / shape.alpha, sub: stored % shape.alpha }
}

/// Symbols that are read lie where they are stored; what a node combined lies in a cell of its own.
fn read_slots(reads: &[Read], shape: &Shape) -> Vec<Slot> {
    let mut sent_counts = vec![0; shape.n];
    let slot = |read: &Read| match read.terms[..] {
        [(sub, 1)] => Slot { cell: read.shard, sub },
        _ => {
            sent_counts[read.shard] += 1;
            Slot { cell: shape.n + read.shard, sub: sent_counts[read.shard] - 1 }
        }
    };
    reads.iter().map(slot).collect()
}

/// Native symbols that the first `shards` shards store plainly; all native symbols if they store none.
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
