//! Runs programs over bytes.
//!
//! [`Compiled`] lowers a program once: every operation becomes steps of at most eight targets that one kernel computes in
//! one pass over the sources, and equal steps over consecutive symbols become one run (`exec/lower.rs`). [`Executor`]
//! picks the kernels of this machine once and proves them against the portable ones before first use.
//!
//! Programs of many small steps are fast for three reasons. They run slice by slice, so the next step finds in cache
//! what one step leaves there. A run whose symbols lie one after the other in memory, as those of a cell do, is one
//! call of a kernel; [`Executor::run_pieces`] takes such pieces as they are. A program keeps its temporaries and calls
//! from run to run, so nothing is allocated or looked up twice. All unsafe code is in `exec/arch`.

mod arch;
mod bit_sliced;
mod butterflies;
mod cost;
mod error;
mod lower;
mod probes;
mod slots;

use crate::program::{Program, ProgramError};
use alloc::vec;
use alloc::vec::Vec;
pub(crate) use arch::MOST_TARGETS;
use arch::Stores;
#[cfg(not(feature = "std"))]
pub(crate) use arch::once::OnceLock;
pub(crate) use arch::{Wide, widely};
pub(crate) use cost::cost;
pub use error::RunError;
#[cfg(feature = "std")]
pub(crate) use std::sync::OnceLock;

/// Bytes of a symbol of a probe: sixteen, four and three of the widest vectors, which are what kernels take at a time, and a partial one.
const PROBE_BYTES: usize = (16 + 4 + 3) * 64 + 61;

/// A program ready to run; make it once, run it often, on any executor.
#[derive(Clone, Debug)]
pub struct Compiled {
    program: Program,
    steps: arch::Steps,
    /// The same program bit-sliced, where that is faster.
    bit_sliced: Option<arch::Steps>,
}

impl Compiled {
    /// Checks the program and prepares its tables.
    ///
    /// # Errors
    /// The program is invalid.
    pub fn new(program: Program) -> Result<Compiled, ProgramError> {
        program.verify()?;
        let steps = lower::lower(&program);
        let bit_sliced = bit_sliced::lower(&program);
        Ok(Compiled { program, steps, bit_sliced })
    }

    /// The program.
    #[must_use]
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// The fastest steps that these kernels can run.
    fn steps(&self, isa: &arch::Isa) -> &arch::Steps {
        self.bit_sliced.as_ref().filter(|_| isa.bit_slices()).unwrap_or(&self.steps)
    }
}

/// From this many bytes of inputs and outputs on, outputs are stored past the caches. No cache near a core is larger
/// (L2 has 1 to 4 MiB), so nothing would be left there for the next reader, and a store through the caches reads the
/// line first.
const STREAMING_BYTES: usize = 4 << 20;

/// How to store the outputs of a program that reads and writes this many bytes.
fn stores(given_bytes: usize) -> Stores {
    if given_bytes >= STREAMING_BYTES { Stores::Streaming } else { Stores::Cached }
}

/// Runs programs with one set of kernels.
#[derive(Clone, Copy, Debug)]
pub struct Executor {
    isa: &'static arch::Isa,
}

impl Executor {
    /// The fastest kernels that this machine has and that agree with the portable ones.
    #[must_use]
    pub fn new() -> Executor {
        let mut executors = Executor::all();
        let portable = executors.len() - 1;
        executors.swap_remove(executors[..portable].iter().position(Executor::is_right).unwrap_or(portable))
    }

    /// One executor for each set of kernels that this machine has, fastest first; the last is the portable one.
    #[must_use]
    pub fn all() -> Vec<Executor> {
        arch::available().map(|isa| Executor { isa }).collect()
    }

    /// Name of its kernels, e.g. `avx512-gfni`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.isa.name()
    }

    /// Runs the program over symbols of equal length, which may be 0. Alignment does not matter.
    ///
    /// # Errors
    /// [`RunError`]: counts or lengths do not fit; nothing was written.
    pub fn run(&self, program: &Compiled, inputs: &[&[u8]], outputs: &mut [&mut [u8]]) -> Result<(), RunError> {
        arch::run(self.isa, program.steps(self.isa), inputs, outputs, stores)
    }

    /// Runs the program over symbols of `symbol_bytes`, given in pieces. A piece is one or more symbols that lie one
    /// after the other, in the program's order. For codes with hundreds of symbols a cell this saves more time than the
    /// kernels take.
    ///
    /// # Errors
    /// [`RunError`]: counts or lengths do not fit; nothing was written.
    pub fn run_pieces(
        &self,
        program: &Compiled,
        symbol_bytes: usize,
        inputs: &[&[u8]],
        outputs: &mut [&mut [u8]],
    ) -> Result<(), RunError> {
        arch::run_pieces(self.isa, program.steps(self.isa), symbol_bytes, inputs, outputs, stores)
    }

    /// Compares every kernel with the portable one: all 256 coefficients, whole and partial vectors.
    fn is_right(&self) -> bool {
        let portable = Executor { isa: arch::portable() };
        let byte = |symbol: usize, at: usize| (symbol * 151 + at * 7 + (at >> 8)) as u8;
        // Made once: this check is part of the start of every process.
        let mut symbols: Vec<Vec<u8>> = Vec::new();
        probes::probes().filter_map(|probe| Compiled::new(probe).ok()).all(|probe| {
            let input_count = probe.program.input_count;
            let further =
                (symbols.len()..input_count).map(|symbol| (0..PROBE_BYTES).map(|at| byte(symbol, at)).collect());
            symbols.extend(further);
            let inputs: Vec<&[u8]> = symbols[..input_count].iter().map(Vec::as_slice).collect();
            let right = portable.probe(&probe, &inputs, |_| Stores::Cached);
            let same = |stores| right.is_some() && self.probe(&probe, &inputs, stores) == right;
            same(|_| Stores::Cached) && same(|_| Stores::Fetching) && same(|_| Stores::Streaming)
        })
    }

    fn probe(&self, program: &Compiled, inputs: &[&[u8]], stores: fn(usize) -> Stores) -> Option<Vec<Vec<u8>>> {
        // Aligned, because streaming stores need it.
        let mut outputs = vec![vec![0; PROBE_BYTES + 64]; program.program.output_count];
        let mut buffers: Vec<&mut [u8]> = outputs
            .iter_mut()
            .map(|output| {
                let start = output.as_ptr().align_offset(64).min(64);
                &mut output[start..start + PROBE_BYTES]
            })
            .collect();
        arch::run(self.isa, program.steps(self.isa), inputs, &mut buffers, stores).ok()?;
        Some(buffers.iter().map(|buffer| buffer.to_vec()).collect())
    }
}

impl Default for Executor {
    fn default() -> Executor {
        Executor::new()
    }
}

/// The executor of this process, made on first use.
pub fn executor() -> &'static Executor {
    static EXECUTOR: OnceLock<Executor> = OnceLock::new();
    EXECUTOR.get_or_init(Executor::new)
}

#[cfg(test)]
#[path = "exec_tests.rs"]
mod tests;
