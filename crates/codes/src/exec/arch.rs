//! The kernels, and the one place where symbols are raw pointers. The only unsafe code of the crate is here and below.
//!
//! A kernel computes one [`Step`]: up to [`MOST_TARGETS`] targets, each a combination of the same sources, in one pass.
//! What makes it sound is checked where steps are made ([`Step::new`], [`Steps::new`]) and where they are run
//! ([`run`]): ids are in range, inputs are never written, no step writes what it reads, and all symbols are equally
//! long. A new instruction set is a file with one kernel and a line in [`ISAS`]; the self-test and the tests then
//! compare it.
#![allow(unsafe_code)]

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod portable;

use crate::matrix::Matrix;
use crate::program::SymbolId;
use std::ptr;

/// Targets of one step: six accumulators of several vectors are what 32 registers hold.
pub(super) const MOST_TARGETS: usize = 6;

/// Programs with up to so many symbols find their pointers on the stack.
const STACK_SYMBOLS: usize = 48;

/// Some targets as combinations of some sources.
#[derive(Clone, Debug)]
pub(super) struct Step {
    sources: Vec<u32>,
    targets: Vec<u32>,
    /// For each source, a coefficient per target.
    coefficients: Vec<u8>,
    /// The same as bit matrices for `gf2p8affineqb`.
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
    affine: Vec<u64>,
    /// Is the first target the plain sum of the sources? Vector kernels then skip its products.
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
    first_is_sum: bool,
}

impl Step {
    /// `targets = coefficients * sources`. Panics on more than [`MOST_TARGETS`] targets, on a target that is also a
    /// source or another target, and on coefficients of another shape.
    pub(super) fn new(sources: &[SymbolId], targets: &[SymbolId], coefficients: &Matrix) -> Step {
        assert!((1..=MOST_TARGETS).contains(&targets.len()), "a step has 1 to {MOST_TARGETS} targets");
        assert_eq!((coefficients.rows(), coefficients.columns()), (targets.len(), sources.len()), "coefficients fit");
        for (index, target) in targets.iter().enumerate() {
            assert!(!sources.contains(target) && !targets[..index].contains(target), "targets are their own symbols");
        }
        let id = |&symbol: &SymbolId| u32::try_from(symbol).expect("programs have fewer than 2^32 symbols");
        // Last to first: descending streams do not set off the 2-D prefetcher, which costs more than it brings.
        let columns = (0..sources.len()).rev();
        let by_source: Vec<u8> =
            columns.flat_map(|column| (0..targets.len()).map(move |row| coefficients.at(row, column))).collect();
        Step {
            sources: sources.iter().rev().map(id).collect(),
            targets: targets.iter().map(id).collect(),
            affine: by_source.iter().map(|&coefficient| AFFINE[coefficient as usize]).collect(),
            coefficients: by_source,
            first_is_sum: coefficients.row(0).iter().all(|&coefficient| coefficient == 1),
        }
    }
}

/// The steps of a program.
#[derive(Clone, Debug)]
pub(super) struct Steps {
    input_count: usize,
    output_count: usize,
    temporary_count: usize,
    steps: Vec<Step>,
    slice_bytes: usize,
}

impl Steps {
    /// Steps over symbols numbered as in a program, to be run in slices of so many bytes. Panics where a step writes an
    /// input or names a symbol that is not there.
    pub(super) fn new(
        input_count: usize,
        output_count: usize,
        temporary_count: usize,
        steps: Vec<Step>,
        slice_bytes: usize,
    ) -> Steps {
        let symbol_count = input_count + output_count + temporary_count;
        assert!(slice_bytes > 0, "slices move on");
        for step in &steps {
            assert!(step.sources.iter().all(|&source| (source as usize) < symbol_count), "sources are in range");
            let own = |&target: &u32| (input_count..symbol_count).contains(&(target as usize));
            assert!(step.targets.iter().all(own), "targets are in range and no inputs");
        }
        Steps { input_count, output_count, temporary_count, steps, slice_bytes }
    }
}

/// Computes one step: so many bytes from where the pointers (by symbol id) point to.
///
/// # Safety
/// The machine has the kernel's instructions. Each pointer that the step names is valid for so many bytes, of targets
/// also for writing, and no target overlaps any other symbol.
type Kernel = unsafe fn(step: &Step, symbols: &[*mut u8], bytes: usize);

/// A set of kernels.
#[derive(Debug)]
pub(super) struct Isa {
    name: &'static str,
    is_available: fn() -> bool,
    kernel: Kernel,
}

impl Isa {
    /// Its name.
    pub(super) fn name(&self) -> &'static str {
        self.name
    }
}

/// Fastest first; the portable one, which every machine has, is last.
static ISAS: &[Isa] = &[
    #[cfg(target_arch = "x86_64")]
    avx512::ISA,
    #[cfg(target_arch = "x86_64")]
    avx2::ISA,
    portable::ISA,
];

/// A set that errs in the last byte of broken vectors only, for the test of the self-test.
#[cfg(test)]
pub(super) static ERRING: &Isa = &Isa { name: "erring", is_available: || true, kernel: portable::erring_kernel };

/// What this machine has, fastest first.
pub(super) fn available() -> impl Iterator<Item = &'static Isa> {
    ISAS.iter().filter(|isa| (isa.is_available)())
}

/// The portable kernels.
pub(super) fn portable() -> &'static Isa {
    &ISAS[ISAS.len() - 1]
}

/// Runs the steps. `isa` is one of [`available`]. Panics unless counts fit and all symbols have `symbol_bytes` bytes.
pub(super) fn run(isa: &Isa, steps: &Steps, inputs: &[&[u8]], outputs: &mut [&mut [u8]], symbol_bytes: usize) {
    assert_eq!((inputs.len(), outputs.len()), (steps.input_count, steps.output_count), "counts fit");
    assert!(inputs.iter().all(|input| input.len() == symbol_bytes), "inputs are equally long");
    assert!(outputs.iter().all(|output| output.len() == symbol_bytes), "outputs are equally long");

    let symbol_count = steps.input_count + steps.output_count + steps.temporary_count;
    let mut on_stack = [ptr::null_mut(); STACK_SYMBOLS];
    let mut on_heap = Vec::new();
    let symbols: &mut [*mut u8] = if symbol_count <= STACK_SYMBOLS {
        &mut on_stack[..symbol_count]
    } else {
        on_heap.resize(symbol_count, ptr::null_mut());
        &mut on_heap
    };
    let slice_bytes = steps.slice_bytes.min(symbol_bytes);
    let mut temporaries = vec![0; steps.temporary_count * slice_bytes];
    let (moving, scratch) = symbols.split_at_mut(steps.input_count + steps.output_count);
    let inputs = inputs.iter().map(|input| input.as_ptr().cast_mut());
    let outputs = outputs.iter_mut().map(|output| output.as_mut_ptr());
    for (symbol, start) in moving.iter_mut().zip(inputs.chain(outputs)) {
        *symbol = start;
    }
    if slice_bytes > 0 {
        for (symbol, temporary) in scratch.iter_mut().zip(temporaries.chunks_exact_mut(slice_bytes)) {
            *symbol = temporary.as_mut_ptr();
        }
    }

    let mut left_bytes = symbol_bytes;
    while left_bytes > 0 {
        let bytes = slice_bytes.min(left_bytes);
        for step in &steps.steps {
            // SAFETY: `isa` is available. Inputs and outputs have `left_bytes` bytes left, temporaries `slice_bytes`;
            // outputs and temporaries are borrowed mutably, so overlap nothing; steps write only these, and name
            // symbols in range.
            unsafe { (isa.kernel)(step, symbols, bytes) };
        }
        left_bytes -= bytes;
        for symbol in &mut symbols[..steps.input_count + steps.output_count] {
            // SAFETY: at most one past the end, since `bytes` were left.
            *symbol = unsafe { symbol.add(bytes) };
        }
    }
}

/// Multiplication by each element as the bit matrix that `gf2p8affineqb` takes: byte 7 - i is row i, which says
/// what bits of the factor make bit i of the product.
static AFFINE: [u64; 256] = affine_table();

const fn affine_table() -> [u64; 256] {
    let mut table = [0; 256];
    let mut coefficient = 0;
    while coefficient < 256 {
        let mut bit = 0;
        while bit < 8 {
            let image = crate::gf::mul(coefficient as u8, 1 << bit);
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
