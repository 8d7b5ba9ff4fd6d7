//! The kernels, and the one place where symbols are raw pointers. The only unsafe code of the crate is here and below.
//!
//! A kernel computes one [`Step`]: up to [`MOST_TARGETS`] targets, each a combination of the same sources, in one pass.
//! Soundness is checked where steps are made ([`Step::new`], [`Steps::new`]) and where they run ([`run`]): ids are in
//! range, inputs are never written, no step writes what it reads, and all symbols have one length. A new instruction
//! set is a file with a [`kernels::Vector`] and a line in [`ISAS`]; the self-test and the tests then compare it.
//!
//! Unit tests have the portable set only: to compile the others once more takes twice as long as the rest of the crate. Those
//! of `tests/kernels/run.rs` compare every set with the reference.
#![allow(unsafe_code)]
#![cfg_attr(
    test,
    allow(dead_code, unused_imports, unused_macros, reason = "vector kernels, which unit tests lack, use the rest")
)]

/// Does this machine have the feature? Without the standard library: was the crate compiled for it?
#[cfg(any(all(target_arch = "x86_64", target_feature = "sse2"), target_arch = "aarch64"))]
macro_rules! has_feature {
    ($feature:tt) => {{
        #[cfg(all(feature = "std", target_arch = "x86_64"))]
        let has = std::arch::is_x86_feature_detected!($feature);
        #[cfg(all(feature = "std", target_arch = "aarch64"))]
        let has = std::arch::is_aarch64_feature_detected!($feature);
        #[cfg(not(feature = "std"))]
        let has = cfg!(target_feature = $feature);
        has
    }};
}

// x86 for bare metal may have no vector registers.
#[cfg(all(target_arch = "x86_64", target_feature = "sse2", not(test)))]
mod avx2;
#[cfg(all(target_arch = "x86_64", target_feature = "sse2", not(test)))]
mod avx512;
mod calls;
#[cfg(any(all(target_arch = "x86_64", target_feature = "sse2"), target_arch = "aarch64"))]
mod kernels;
#[cfg(all(target_arch = "aarch64", not(test)))]
mod neon;
#[cfg(any(test, not(feature = "std")))]
pub(crate) mod once;
mod portable;
mod scratch;
mod wide;

use super::butterflies::{Butterflies, MOST_POINTS};
use super::error::RunError;
use crate::gf;
use crate::matrix::Matrix;
use crate::program::SymbolId;
use alloc::vec;
use alloc::vec::Vec;
use calls::{Kind, Name, Places, Symbols};
use core::ptr;
use scratch::{Pool, Scratch};
pub(crate) use wide::{Wide, widely};

/// The most targets of one step: 32 registers hold eight accumulators of two vectors and the vectors that are added to
/// them.
pub(crate) const MOST_TARGETS: usize = 8;

/// Symbols of a block that is bit-sliced: one for each bit of a byte.
pub(super) const BLOCK_SYMBOLS: usize = 8;

/// Sums of up to this many sources have a kernel each, which keeps all pointers in registers.
pub(super) const MOST_SUMMANDS: usize = 16;

/// Programs without temporaries, with at most this many symbols and no step that names more, keep their pointers on the
/// stack.
const STACK_SYMBOLS: usize = 24;

/// How a step computes its targets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// Each target is a combination of all sources.
    Combination,
    /// Targets come in pairs; each pair is two combinations of the pair of sources in the same place.
    Pairs,
    /// A network computes all targets.
    Butterflies { is_inverse: bool, is_scaled: bool },
    /// A block of eight, some of them zero, is bit-sliced; or transposed back.
    BitSlice { is_inverse: bool },
}

/// How vector kernels compute the first target of a combination. The others take a product for each source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum First {
    /// As the others.
    Products,
    /// The first target is the plain sum of the sources, as coupled.
    Sum,
    /// The first target is the plain sum of some sources and of all other targets. Several lost data symbols are like
    /// that if a parity that is the sum of all data was read.
    Remainder,
}

impl First {
    const ALL: [First; 3] = [First::Products, First::Sum, First::Remainder];
}

/// Some targets as combinations of some sources, or a run of such steps.
#[derive(Clone, Debug)]
pub(super) struct Step {
    /// The combined sources, coupled ones first; then their partners; then the addends.
    sources: Vec<u32>,
    targets: Vec<u32>,
    form: Form,
    /// For each source a coefficient per target; then for each coupled source the multiple with which its partner is
    /// added to it. Empty for a sum. For pairs the four coefficients of each, target by target. For butterflies the
    /// factors, then the scales.
    coefficients: Vec<u8>,
    /// The same as bit matrices for `gf2p8affineqb`; for a first target that is a remainder, masks of its sources.
    #[cfg_attr(
        not(any(all(target_arch = "x86_64", target_feature = "sse2"), target_arch = "aarch64")),
        allow(dead_code)
    )]
    affine: Vec<u64>,
    /// The number of sources whose coefficients are the same multiple of another source's; vector kernels add these
    /// first.
    coupled_count: usize,
    first: First,
    /// Are the targets P and Q of RAID-6: the sum of the sources, and the sum of their multiples by powers of two, the
    /// highest power first?
    is_p_and_q: bool,
    /// The last `addend_count` sources are added to one target each, in order: none, or one per target.
    addend_count: usize,
    /// How often the step repeats, each time with all ids one higher.
    repeat_count: u32,
    /// Does no step read its targets?
    is_final: bool,
    /// Are all its symbols temporaries?
    is_internal: bool,
    /// Names of its symbols, in small programs, in which each symbol is a piece of memory of its own.
    names: Vec<Name>,
}

impl Step {
    /// `targets = coefficients * sources + addends`. The first `coupled_count` sources are coupled with as many last
    /// ones, in this order. Panics on more than [`MOST_TARGETS`] targets, on a target that is also a source or another
    /// target, on coefficients of another shape, on coupled sources that are not multiples, and unless there are no
    /// addends or one per target.
    pub(super) fn new(
        sources: &[SymbolId],
        coupled_count: usize,
        addends: &[SymbolId],
        targets: &[SymbolId],
        coefficients: &Matrix,
    ) -> Step {
        assert!((1..=MOST_TARGETS).contains(&targets.len()), "a step has 1 to {MOST_TARGETS} targets");
        assert_eq!((coefficients.rows(), coefficients.columns()), (targets.len(), sources.len()), "coefficients fit");
        assert!(2 * coupled_count <= sources.len(), "a partner for each");
        assert!(addends.is_empty() || addends.len() == targets.len(), "an addend per target, or none");
        let combined_count = sources.len() - coupled_count;
        // Last to first: descending streams do not trigger the 2-D prefetcher, which costs more than it gains.
        let coupled = (0..coupled_count).rev();
        let partners = coupled.clone().map(|column| combined_count + column);
        let columns = coupled.clone().chain((coupled_count..combined_count).rev()).chain(partners);
        let of_source = |column| (0..targets.len()).map(move |row| coefficients.at(row, column));
        let mut by_source: Vec<u8> = columns.clone().flat_map(of_source).collect();
        for column in coupled {
            let multiple = gf::ratio(of_source(column), of_source(combined_count + column));
            by_source.push(multiple.expect("coefficients of partners are multiples"));
        }
        let first_is_sum = (0..combined_count).all(|column| coefficients.at(0, column) == 1);
        let is_sum = first_is_sum && targets.len() == 1 && coupled_count == 0 && addends.is_empty();
        let by_source = if is_sum { Vec::new() } else { by_source };
        let all = columns.clone().map(|column| &sources[column]).chain(addends);
        let mut step = Step::of(all, targets, Form::Combination, by_source);
        if first_is_sum {
            step.first = First::Sum;
            let is_power = |column| coefficients.at(1, column) == gf::power_of_two(column);
            step.is_p_and_q = targets.len() == 2
                && combined_count == sources.len()
                && addends.is_empty()
                && combined_count > 0
                && (0..combined_count).all(is_power);
        } else if coupled_count == 0
            && addends.is_empty()
            && let Some(is_summed) = remainder(coefficients)
        {
            step.first = First::Remainder;
            for (affine, column) in step.affine.chunks_mut(targets.len()).zip(columns) {
                affine[0] = if is_summed[column] { u64::MAX } else { 0 };
            }
        }
        Step { coupled_count, addend_count: addends.len(), ..step }
    }

    /// `target` = the sum of `sources`: the step that [`Step::new`] makes of ones, without their matrix. Panics on a
    /// target that is also a source.
    pub(super) fn sum(sources: &[SymbolId], target: SymbolId) -> Step {
        Step { first: First::Sum, ..Step::of(sources.iter().rev(), &[target], Form::Combination, Vec::new()) }
    }

    /// Each pair of targets is two combinations of the pair of sources in the same place, by four coefficients, target
    /// by target. Panics on a target that is also a source or another target, and on counts that do not fit.
    pub(super) fn pairs(sources: &[SymbolId], targets: &[SymbolId], coefficients: Vec<u8>) -> Step {
        assert_eq!((sources.len(), targets.len() % 2), (targets.len(), 0), "two sources for each two targets");
        assert_eq!(coefficients.len(), 2 * targets.len(), "four coefficients for each two targets");
        Step::of(sources.iter(), targets, Form::Pairs, coefficients)
    }

    /// `targets = network(sources)`. Panics on a target that is also a source or another target, and unless there are
    /// as many of each as the network has values.
    pub(super) fn butterflies(sources: &[SymbolId], targets: &[SymbolId], network: &Butterflies) -> Step {
        let Butterflies { is_inverse, factors, scales } = network;
        let points = factors.len() + 1;
        assert!((4..=MOST_POINTS).contains(&points) && points.is_power_of_two(), "there is a kernel for the network");
        assert_eq!((sources.len(), targets.len()), (points, points), "a network has as many sources as targets");
        assert!(scales.is_empty() || scales.len() == points, "a scale per value, or none");
        let form = Form::Butterflies { is_inverse: *is_inverse, is_scaled: !scales.is_empty() };
        Step::of(sources.iter(), targets, form, [&factors[..], scales].concat())
    }

    /// Bit-slices a block of up to eight symbols into the eight temporaries that begin at this one.
    pub(super) fn bit_slice(block: &[SymbolId], bit_sliced: SymbolId) -> Step {
        Step::of(block.iter(), &bit_sliced_ids(bit_sliced), Form::BitSlice { is_inverse: false }, Vec::new())
    }

    /// Transposes the eight temporaries that begin at this one back into a block of up to eight symbols.
    pub(super) fn unslice(bit_sliced: SymbolId, block: &[SymbolId]) -> Step {
        Step::of(bit_sliced_ids(bit_sliced).iter(), block, Form::BitSlice { is_inverse: true }, Vec::new())
    }

    /// Bit-sliced blocks from bit-sliced blocks, by a matrix of 64 bits for each source and target, source by source.
    /// Panics as [`Step::new`].
    pub(super) fn blocks(sources: &[SymbolId], targets: &[SymbolId], matrices: Vec<u64>) -> Step {
        assert!((1..=MOST_TARGETS).contains(&targets.len()), "a step has 1 to {MOST_TARGETS} targets");
        assert_eq!(matrices.len(), sources.len() * targets.len(), "a matrix for each source and target");
        let step = Step::of(sources.iter(), targets, Form::Combination, Vec::new());
        let step = Step { affine: matrices, repeat_count: BLOCK_SYMBOLS as u32, ..step };
        assert!(step.is_sound(), "blocks are apart");
        step
    }

    fn of<'a>(
        sources: impl Iterator<Item = &'a SymbolId>,
        targets: &[SymbolId],
        form: Form,
        coefficients: Vec<u8>,
    ) -> Step {
        let id = |&symbol: &SymbolId| u32::try_from(symbol).expect("programs have fewer than 2^32 symbols");
        let step = Step {
            sources: sources.map(id).collect(),
            targets: targets.iter().map(id).collect(),
            form,
            affine: coefficients.iter().map(|&coefficient| AFFINE[coefficient as usize]).collect(),
            coefficients,
            coupled_count: 0,
            first: First::Products,
            is_p_and_q: false,
            addend_count: 0,
            repeat_count: 1,
            is_final: false,
            is_internal: false,
            names: Vec::new(),
        };
        assert!(step.is_sound(), "targets are their own symbols");
        step
    }

    /// Merges `next` into this run if it is this step with all ids as much higher as the run is long, and the result
    /// stays the same. Returns it otherwise.
    pub(super) fn extend(&mut self, next: Step) -> Option<Step> {
        let follows = |own: &[u32], others: &[u32]| {
            own.len() == others.len() && own.iter().zip(others).all(|(own, other)| own + self.repeat_count == *other)
        };
        let is_same = next.repeat_count == 1
            && follows(&self.targets, &next.targets)
            && follows(&self.sources, &next.sources)
            && self.form == next.form
            && self.coefficients == next.coefficients
            && self.coupled_count == next.coupled_count
            && self.first == next.first
            && self.addend_count == next.addend_count;
        self.repeat_count += u32::from(is_same);
        if is_same && self.is_sound() {
            return None;
        }
        self.repeat_count -= u32::from(is_same);
        Some(next)
    }

    /// Does no repetition write a symbol that this or another one reads or writes? Then the bytes of a run may be
    /// computed in any order. A target may be one of the sources: kernels read all sources at a place before they write
    /// there.
    fn is_sound(&self) -> bool {
        let apart = |a: u32, b: u32| a.abs_diff(b) >= self.repeat_count;
        self.targets.iter().enumerate().all(|(index, &target)| {
            self.targets[..index].iter().all(|&other| apart(target, other))
                && self.sources.iter().all(|&source| source == target || apart(target, source))
        })
    }

    /// Is it only a plain sum?
    fn is_sum(&self) -> bool {
        self.first == First::Sum && self.targets.len() == 1 && self.coupled_count == 0 && self.addend_count == 0
    }

    /// Ids it reads, over all repetitions.
    pub(super) fn reads(&self) -> impl Iterator<Item = usize> {
        self.repeated(&self.sources)
    }

    /// Ids it writes, over all repetitions.
    pub(super) fn writes(&self) -> impl Iterator<Item = usize> {
        self.repeated(&self.targets)
    }

    fn repeated(&self, ids: &[u32]) -> impl Iterator<Item = usize> {
        ids.iter().flat_map(|&id| (id..id + self.repeat_count).map(|id| id as usize))
    }

    /// The number of ids it reads and writes, over all repetitions.
    pub(super) fn access_count(&self) -> usize {
        (self.sources.len() + self.targets.len()) * self.repeat_count as usize
    }

    /// All its ids are smaller.
    pub(super) fn ids_end(&self) -> usize {
        self.ids().max().map_or(0, |last| last + self.repeat_count as usize)
    }

    /// Ids of its sources, then of its targets.
    fn ids(&self) -> impl Iterator<Item = usize> {
        self.sources.iter().chain(&self.targets).map(|&id| id as usize)
    }

    /// Is it a network?
    pub(super) fn is_network(&self) -> bool {
        matches!(self.form, Form::Butterflies { .. })
    }

    /// Renumbers every id. Returns false and changes nothing if a run would no longer be one.
    pub(super) fn renumber(&mut self, number: impl Fn(usize) -> usize) -> bool {
        let follows = |&id: &u32| {
            let first = number(id as usize);
            (1..self.repeat_count as usize).all(|repeat| number(id as usize + repeat) == first + repeat)
        };
        if self.repeat_count > 1 && !self.sources.iter().chain(&self.targets).all(follows) {
            return false;
        }
        for id in self.sources.iter_mut().chain(&mut self.targets) {
            *id = u32::try_from(number(*id as usize)).expect("new numbers are no larger");
        }
        assert!(self.is_sound(), "targets are their own symbols");
        true
    }

    /// The repetitions of the run, each as a step.
    pub(super) fn into_single(self) -> impl Iterator<Item = Step> {
        (0..self.repeat_count).map(move |repeat| {
            let shifted = |ids: &[u32]| ids.iter().map(|id| id + repeat).collect();
            Step { sources: shifted(&self.sources), targets: shifted(&self.targets), repeat_count: 1, ..self.clone() }
        })
    }

    /// The number of calls of its kernel per slice. A run over temporaries alone, which follow `given_count` symbols,
    /// is one call.
    pub(super) fn call_count(&self, given_count: usize) -> usize {
        if self.is_beyond(given_count) { 1 } else { self.repeat_count as usize }
    }

    /// Are all its ids at least `first`?
    fn is_beyond(&self, first: usize) -> bool {
        self.ids().all(|id| id >= first)
    }
}

/// By column: is it added, together with all other rows, to give the first row? `None` if a column would have to be
/// multiplied for that.
fn remainder(coefficients: &Matrix) -> Option<Vec<bool>> {
    let total = |column| (0..coefficients.rows()).fold(0, |sum, row| sum ^ coefficients.at(row, column));
    let is_summed = |column| match total(column) {
        0 => Some(false),
        1 => Some(true),
        _ => None,
    };
    (0..coefficients.columns()).map(is_summed).collect()
}

/// The symbols of a bit-sliced block.
fn bit_sliced_ids(first: SymbolId) -> Vec<SymbolId> {
    (first..first + BLOCK_SYMBOLS).collect()
}

/// The steps of a program.
#[derive(Clone, Debug)]
pub(super) struct Steps {
    input_count: usize,
    output_count: usize,
    temporary_count: usize,
    steps: Vec<Step>,
    slice_bytes: usize,
    /// Does any step repeat?
    has_runs: bool,
    /// Is any step a network?
    has_networks: bool,
    /// Does any step bit-slice blocks? Not all sets of kernels can.
    has_bit_slices: bool,
    /// Sources and targets of the step that has the most.
    most_named: usize,
    /// Do the names in its steps suffice, so that it needs no calls?
    is_small: bool,
    pool: Pool,
}

impl Steps {
    /// Steps over symbols numbered as in a program, run in slices of about `slice_bytes`. Panics if a step writes an
    /// input or names a symbol that does not exist, and if a slice is not whole cache lines.
    pub(super) fn new(
        input_count: usize,
        output_count: usize,
        temporary_count: usize,
        mut steps: Vec<Step>,
        slice_bytes: usize,
    ) -> Steps {
        let symbol_count = input_count + output_count + temporary_count;
        assert!(slice_bytes > 0 && slice_bytes.is_multiple_of(LINE_BYTES), "slices move on");
        for step in &steps {
            let last = |id: u32| id as usize + step.repeat_count as usize - 1;
            assert!(step.sources.iter().all(|&source| last(source) < symbol_count), "sources are in range");
            let own = |&target: &u32| target as usize >= input_count && last(target) < symbol_count;
            assert!(step.targets.iter().all(own), "targets are in range and no inputs");
            let bit_sliced = match step.form {
                Form::BitSlice { is_inverse: true } => &step.sources[..],
                Form::BitSlice { is_inverse: false } => &step.targets[..],
                _ => &[],
            };
            let is_temporary = |&id: &u32| id as usize >= input_count + output_count;
            assert!(bit_sliced.iter().all(is_temporary), "bit-sliced blocks are whole vectors");
        }
        let mut is_read = vec![false; symbol_count];
        steps.iter().flat_map(Step::reads).for_each(|id| is_read[id] = true);
        for step in &mut steps {
            let is_reread = step.writes().any(|id| is_read[id]);
            step.is_final = !is_reread;
            let is_internal = step.is_beyond(input_count + output_count);
            step.is_internal = is_internal;
        }
        let has_runs = steps.iter().any(|step| step.repeat_count > 1);
        let has_networks = steps.iter().any(Step::is_network);
        let has_bit_slices = steps.iter().any(|step| matches!(step.form, Form::BitSlice { .. }));
        let most_named = steps.iter().map(|step| step.sources.len() + step.targets.len()).max().unwrap_or(0);
        let is_small =
            temporary_count == 0 && !has_runs && !has_networks && symbol_count.max(most_named) <= STACK_SYMBOLS;
        for step in steps.iter_mut().filter(|_| is_small) {
            step.names = step.ids().map(|id| Name { piece: id as u32, offset_bytes: 0 }).collect();
        }
        let pool = Pool::default();
        Steps {
            input_count,
            output_count,
            temporary_count,
            steps,
            slice_bytes,
            has_runs,
            has_networks,
            has_bit_slices,
            most_named,
            is_small,
            pool,
        }
    }
}

/// Bytes of a cache line, and of the widest vector.
pub(super) const LINE_BYTES: usize = 64;

/// How targets are stored, and whether sources are near.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stores {
    /// Into the caches.
    Cached,
    /// Into the caches, while sources come from memory. Networks then prefetch their sources, because hardware
    /// prefetchers alone lag behind with dozens of streams in short slices.
    Fetching,
    /// Past the caches, where alignment allows it.
    Streaming,
}

/// Out of cache, shorter slices of symbols end before prefetchers have learned them (50+50: 6.0 GB/s at 256 bytes, 7.1
/// at 2 KiB).
const STREAM_SLICE_BYTES: usize = 2048;

/// Orders streaming stores before what follows.
#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
fn fence() {
    // SAFETY: all machines of this kind have it.
    unsafe { core::arch::x86_64::_mm_sfence() }
}

/// Computes one step once, over the first `bytes` bytes of its symbols.
///
/// # Safety
/// The machine has the kernel's instructions. The step is of the kernel's form ([`Kernels`]). There is a symbol for
/// each of its sources, then for each of its targets, and room for as many. Each is valid for `bytes` bytes, those of
/// bit-sliced blocks for whole vectors, targets also for writing. No target overlaps any other symbol, but it may be
/// one of the sources.
type Kernel = unsafe fn(step: &Step, symbols: Symbols<'_>, bytes: usize, stores: Stores);

/// A kernel for each form of a step.
#[derive(Debug)]
struct Kernels {
    /// Plain sums, by number of sources; a sum of more is a combination.
    sums: [Kernel; MOST_SUMMANDS + 1],
    /// By number of targets less one, then by how the first is computed.
    combinations: [[Kernel; First::ALL.len()]; MOST_TARGETS],
    pairs: Kernel,
    /// Networks, by their number of levels less two, then by whether they are inverse, then by whether they are scaled.
    butterflies: [[[Kernel; 2]; 2]; NETWORK_SIZES],
    /// P and Q of RAID-6; `None` where that is no faster than products.
    p_and_q: Option<Kernel>,
    /// Bit-slices blocks, and transposes them back; `None` where the machine has no product with any matrix of bits.
    bit_slices: Option<[Kernel; 2]>,
}

/// Networks have 4, 8 or 16 values.
const NETWORK_SIZES: usize = MOST_POINTS.ilog2() as usize - 1;

/// A set of kernels.
#[derive(Debug)]
pub(super) struct Isa {
    name: &'static str,
    is_available: fn() -> bool,
    kernels: Kernels,
    /// Is a vector a whole line? The processor gathers shorter streaming stores in buffers, and networks with up to 16
    /// targets at once would need more buffers than there are.
    stores_lines: bool,
    /// Orders streaming stores before what follows them.
    fence: fn(),
}

impl Isa {
    /// Its name.
    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    /// Can it bit-slice blocks and multiply them?
    pub(super) fn bit_slices(&self) -> bool {
        self.kernels.bit_slices.is_some()
    }

    fn kernel(&self, step: &Step) -> Kernel {
        if let (Form::BitSlice { is_inverse }, Some(bit_slices)) = (step.form, self.kernels.bit_slices) {
            return bit_slices[usize::from(is_inverse)];
        }
        if step.form == Form::Pairs {
            return self.kernels.pairs;
        }
        if let Form::Butterflies { is_inverse, is_scaled } = step.form {
            let size = step.targets.len().ilog2() as usize - 2;
            return self.kernels.butterflies[size][usize::from(is_inverse)][usize::from(is_scaled)];
        }
        if let (true, Some(p_and_q)) = (step.is_p_and_q, self.kernels.p_and_q) {
            return p_and_q;
        }
        match step.sources.len() {
            summands if summands <= MOST_SUMMANDS && step.is_sum() => self.kernels.sums[summands],
            _ => self.kernels.combinations[step.targets.len() - 1][step.first as usize],
        }
    }
}

/// Fastest first. The portable set, which every machine has, is last.
static ISAS: &[Isa] = &[
    #[cfg(all(target_arch = "x86_64", target_feature = "sse2", not(test)))]
    avx512::ISA,
    #[cfg(all(target_arch = "x86_64", target_feature = "sse2", not(test)))]
    avx2::GFNI_ISA,
    #[cfg(all(target_arch = "x86_64", target_feature = "sse2", not(test)))]
    avx2::ISA,
    #[cfg(all(target_arch = "aarch64", not(test)))]
    neon::ISA,
    portable::ISA,
];

/// A set that errs only in the last byte of partial vectors, for the test of the self-test.
#[cfg(test)]
pub(super) static ERRING: &Isa = &portable::ERRING_ISA;

/// The sets that this machine has, fastest first.
pub(super) fn available() -> impl Iterator<Item = &'static Isa> {
    ISAS.iter().filter(|isa| (isa.is_available)())
}

/// The portable kernels.
pub(super) fn portable() -> &'static Isa {
    &ISAS[ISAS.len() - 1]
}

/// Runs the steps over symbols of one length. Targets that no step reads are stored as `stores` says for the bytes of
/// all inputs and outputs. `isa` is one of [`available`].
///
/// # Errors
/// Counts or lengths do not fit; nothing was written.
pub(super) fn run(
    isa: &'static Isa,
    steps: &Steps,
    inputs: &[&[u8]],
    outputs: &mut [&mut [u8]],
    stores: fn(given_bytes: usize) -> Stores,
) -> Result<(), RunError> {
    let symbol_bytes = common_length(steps, inputs, outputs)?;
    if symbol_bytes == 0 {
        return Ok(());
    }
    // Short calls cost more than their bytes: a program of few symbols needs only the start of each.
    if steps.is_small {
        let mut starts = [0; STACK_SYMBOLS];
        let (of_inputs, others) = starts.split_at_mut(inputs.len());
        for (start, input) in of_inputs.iter_mut().zip(inputs) {
            *start = input.as_ptr().expose_provenance();
        }
        for (start, output) in others.iter_mut().zip(outputs.iter_mut()) {
            *start = output.as_mut_ptr().expose_provenance();
        }
        let count = inputs.len() + outputs.len();
        let stores = stores(symbol_bytes.saturating_mul(count));
        // SAFETY: all symbols are given, and have `symbol_bytes` bytes.
        unsafe { run_steps(isa, steps, &mut starts[..count], symbol_bytes, stores) };
        return Ok(());
    }
    run_all(isa, steps, symbol_bytes, inputs, outputs, stores);
    Ok(())
}

/// [`run`] over symbols of `symbol_bytes`; inputs and outputs are pieces of whole symbols.
///
/// # Errors
/// Counts or lengths do not fit; nothing was written.
pub(super) fn run_pieces(
    isa: &'static Isa,
    steps: &Steps,
    symbol_bytes: usize,
    inputs: &[&[u8]],
    outputs: &mut [&mut [u8]],
    stores: fn(given_bytes: usize) -> Stores,
) -> Result<(), RunError> {
    let given = count_symbols(inputs.iter().map(|input| input.len()), symbol_bytes)
        .map_err(|(input, given)| RunError::InputPiece { input, symbol_bytes, given })?;
    let offered = count_symbols(outputs.iter().map(|output| output.len()), symbol_bytes)
        .map_err(|(output, given)| RunError::OutputPiece { output, symbol_bytes, given })?;
    if symbol_bytes == 0 {
        return Ok(());
    }
    check_counts(steps, given, offered)?;
    run_all(isa, steps, symbol_bytes, inputs, outputs, stores);
    Ok(())
}

/// Runs the steps over symbols of `symbol_bytes`, at least 1. Panics unless inputs and outputs are pieces of whole
/// symbols, as many as the program has.
fn run_all(
    isa: &'static Isa,
    steps: &Steps,
    symbol_bytes: usize,
    inputs: &[&[u8]],
    outputs: &mut [&mut [u8]],
    stores: fn(given_bytes: usize) -> Stores,
) {
    assert!(isa.bit_slices() || !steps.has_bit_slices, "bit-sliced programs run where there are kernels for them");
    let given_count = steps.input_count + steps.output_count;
    let stores = match stores(symbol_bytes.saturating_mul(given_count)) {
        Stores::Streaming if steps.has_networks && !isa.stores_lines => Stores::Fetching,
        stores => stores,
    };
    // Exposed, because a run over contiguous symbols goes from one symbol into the next.
    let inputs = inputs.iter().map(|input| (input.as_ptr().expose_provenance(), input.len()));
    let outputs = outputs.iter_mut().map(|output| (output.as_mut_ptr().expose_provenance(), output.len()));
    let pieces = inputs.chain(outputs);

    if steps.is_small {
        let mut starts = [0; STACK_SYMBOLS];
        let mut count = 0;
        for (mut start, bytes) in pieces {
            let end = start + bytes;
            while start < end {
                starts[count] = start;
                count += 1;
                start += symbol_bytes;
            }
        }
        assert_eq!(count, given_count, "all symbols are given");
        // SAFETY: all symbols are given, and have `symbol_bytes` bytes.
        unsafe { run_steps(isa, steps, &mut starts[..count], symbol_bytes, stores) };
        return;
    }
    let slice_bytes = slice_bytes(steps, symbol_bytes, stores);
    let mut scratch = steps.pool.take();
    // Whole symbols lie as close as given ones, so that runs over both are one pass. Bit-sliced blocks take whole
    // vectors.
    let slice_bytes = if steps.has_runs && !steps.has_bit_slices { slice_bytes.min(symbol_bytes) } else { slice_bytes };
    scratch.place(pieces, symbol_bytes, steps.temporary_count, slice_bytes);
    scratch.calls.make(isa, steps, &scratch.extents);
    // SAFETY: inputs and outputs have `symbol_bytes` bytes, temporaries a slice; the calls are made for these pieces.
    unsafe { run_calls(steps, &mut scratch, slice_bytes, symbol_bytes, stores) }
    steps.pool.put(scratch);
}

/// Even slices, so that the last one is not a short remainder; a little longer rather than one more.
fn slice_bytes(steps: &Steps, symbol_bytes: usize, stores: Stores) -> usize {
    let most_bytes = match stores {
        Stores::Streaming if steps.temporary_count > 0 => steps.slice_bytes.max(STREAM_SLICE_BYTES),
        _ => steps.slice_bytes,
    };
    let slice_bytes = match symbol_bytes <= most_bytes {
        true => symbol_bytes,
        false => symbol_bytes.div_ceil((symbol_bytes + most_bytes / 2) / most_bytes),
    };
    slice_bytes.next_multiple_of(LINE_BYTES)
}

/// Checks that there are as many symbols as the program has.
fn check_counts(steps: &Steps, given: usize, offered: usize) -> Result<(), RunError> {
    if given != steps.input_count {
        return Err(RunError::InputCount { expected: steps.input_count, given });
    }
    if offered != steps.output_count {
        return Err(RunError::OutputCount { expected: steps.output_count, given: offered });
    }
    Ok(())
}

/// The common length of all symbols.
fn common_length(steps: &Steps, inputs: &[&[u8]], outputs: &[&mut [u8]]) -> Result<usize, RunError> {
    check_counts(steps, inputs.len(), outputs.len())?;
    let expected = match (inputs.first(), outputs.first()) {
        (Some(input), _) => input.len(),
        (None, Some(output)) => output.len(),
        (None, None) => 0,
    };
    if let Some(input) = inputs.iter().position(|input| input.len() != expected) {
        return Err(RunError::InputLength { input, expected, given: inputs[input].len() });
    }
    if let Some(output) = outputs.iter().position(|output| output.len() != expected) {
        return Err(RunError::OutputLength { output, expected, given: outputs[output].len() });
    }
    Ok(expected)
}

/// The number of symbols in pieces of these lengths; or the first piece that holds no whole symbols, and its length.
fn count_symbols(lengths: impl Iterator<Item = usize>, symbol_bytes: usize) -> Result<usize, (usize, usize)> {
    let mut count = 0;
    for (piece, bytes) in lengths.enumerate() {
        if bytes == symbol_bytes {
            count += 1;
        } else if symbol_bytes > 0 && bytes.is_multiple_of(symbol_bytes) {
            count += bytes / symbol_bytes;
        } else {
            return Err((piece, bytes));
        }
    }
    Ok(count)
}

/// Runs all steps, none of which repeats, slice by slice.
///
/// # Safety
/// `isa` is available. There is the exposed address of each symbol: inputs are valid for reading `symbol_bytes` bytes,
/// outputs for writing as many; outputs overlap nothing. There are no temporaries.
unsafe fn run_steps(isa: &Isa, steps: &Steps, starts: &mut [usize], symbol_bytes: usize, stores: Stores) {
    let slice_bytes = slice_bytes(steps, symbol_bytes, stores);
    let mut room = [ptr::null_mut(); STACK_SYMBOLS];
    let mut left_bytes = symbol_bytes;
    loop {
        let bytes = slice_bytes.min(left_bytes);
        let places = Places { starts: starts.as_ptr(), room: room.as_mut_ptr() };
        for step in &steps.steps {
            let symbols = Symbols { names: step.names.as_ptr(), places: &places };
            let stores = if step.is_final { stores } else { Stores::Cached };
            // SAFETY: `isa` is available, and the kernel is the step's. Symbols have `left_bytes` bytes left. Outputs overlap
            // nothing; steps write only these.
            unsafe { isa.kernel(step)(step, symbols, bytes, stores) };
        }
        left_bytes -= bytes;
        if left_bytes == 0 {
            break;
        }
        starts.iter_mut().for_each(|start| *start += bytes);
    }
    if stores == Stores::Streaming {
        (isa.fence)();
    }
}

/// Makes all calls, slice by slice.
///
/// # Safety
/// The calls are made for these steps and for the scratch's pieces. Inputs there are valid for reading `symbol_bytes`
/// bytes, outputs for writing as many, temporaries for writing `slice_bytes`. Outputs and temporaries overlap nothing.
unsafe fn run_calls(steps: &Steps, scratch: &mut Scratch, slice_bytes: usize, symbol_bytes: usize, stores: Stores) {
    let Scratch { starts, given_piece_count, calls, room, .. } = scratch;
    room.resize(steps.most_named, ptr::null_mut());
    let plain = if stores == Stores::Cached { Stores::Cached } else { Stores::Fetching };
    let mut left_bytes = symbol_bytes;
    while left_bytes > 0 {
        let bytes = slice_bytes.min(left_bytes);
        let places = Places { starts: starts.as_ptr(), room: room.as_mut_ptr() };
        let mut names = calls.names.as_ptr();
        for call in &calls.calls {
            // Temporaries always have `slice_bytes` bytes, and lie one after the other.
            let (bytes, stores) = match call.kind {
                Kind::Internal => (slice_bytes, Stores::Cached),
                Kind::Plain => (bytes, plain),
                Kind::Final => (bytes, stores),
            };
            let step = &steps.steps[call.step as usize];
            let symbols = Symbols { names, places: &places };
            // SAFETY: the kernel is the step's, of a set that is available; names are of the pieces that the calls are made
            // for. Inputs and outputs have `left_bytes` bytes left, temporaries `slice_bytes`; of contiguous ones
            // `repeat_count` follow, all exposed. Outputs and temporaries overlap nothing; steps write only these.
            unsafe { (call.kernel)(step, symbols, call.repeat_count as usize * bytes, stores) };
            // SAFETY: the call has this many names.
            names = unsafe { names.add(call.name_count as usize) };
        }
        left_bytes -= bytes;
        starts[..*given_piece_count].iter_mut().for_each(|start| *start += bytes);
    }
    if stores == Stores::Streaming {
        (calls.isa.fence)();
    }
}

/// The operand with which `gf2p8affineqb` mirrors eight bytes that are given as its matrix: byte `i` has only bit `7 -
/// i`.
#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
const MIRROR: i64 = 0x0102_0408_1020_4080;

/// Each element as the bit matrix by which `gf2p8affineqb` multiplies: byte 7 - i is row i, the bits of the factor that
/// make bit i of the product.
static AFFINE: [u64; 256] = affine_table();

const fn affine_table() -> [u64; 256] {
    let mut table = [0; 256];
    let mut coefficient = 0;
    while coefficient < 256 {
        let mut bit = 0;
        while bit < 8 {
            let image = gf::mul(coefficient as u8, 1 << bit);
            let mut row = 0;
            while row < 8 {
                if image >> row & 1 == 1 {
                    table[coefficient] |= 1 << (8 * (7 - row) + bit);
                }
                row += 1;
            }
            bit += 1;
        }
        coefficient += 1;
    }
    table
}

/// For each coefficient its products with 0..16, then with 0, 16, .. 240.
#[cfg(any(all(target_arch = "x86_64", target_feature = "sse2"), target_arch = "aarch64"))]
static NIBBLES: [[u8; 32]; 256] = nibble_table();

#[cfg(any(all(target_arch = "x86_64", target_feature = "sse2"), target_arch = "aarch64"))]
const fn nibble_table() -> [[u8; 32]; 256] {
    let mut table = [[0; 32]; 256];
    let mut coefficient = 0;
    while coefficient < 256 {
        let mut nibble = 0;
        while nibble < 16 {
            table[coefficient][nibble] = gf::mul(coefficient as u8, nibble as u8);
            table[coefficient][16 + nibble] = gf::mul(coefficient as u8, (nibble << 4) as u8);
            nibble += 1;
        }
        coefficient += 1;
    }
    table
}

#[cfg(test)]
#[path = "arch_tests.rs"]
mod tests;
