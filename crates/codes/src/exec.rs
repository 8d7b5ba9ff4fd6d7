//! Runs programs over bytes.
//!
//! [`Compiled`] lowers a program once: every operation becomes steps of at most eight targets that one kernel computes in
//! one pass over the sources, and equal steps over consecutive symbols become one run (`exec/lower.rs`). [`Executor`]
//! picks the kernels of this machine once and proves them against the portable ones before first use.
//!
//! What makes programs of many small steps fast: they run slice by slice, so that what one step leaves in cache the next
//! one finds there; a run whose symbols lie one after the other in memory, as those of a cell do, is one call of a
//! kernel ([`Executor::run_pieces`] says so at once); and nothing is allocated or looked up twice, because a program keeps
//! its temporaries and calls from run to run. All unsafe code is in `exec/arch`.

mod arch;
mod butterflies;
mod lower;
mod slots;
mod turned;

use crate::once::OnceLock;
use crate::program::{Program, ProgramError};
use alloc::vec;
use alloc::vec::Vec;
pub(crate) use arch::MOST_TARGETS;
use arch::Stores;
#[cfg(not(feature = "std"))]
pub(crate) use arch::once;
pub(crate) use arch::{Wide, widely};

/// A program ready to run; make it once, run it often, on any executor.
#[derive(Clone, Debug)]
pub struct Compiled {
    program: Program,
    steps: arch::Steps,
    /// The same in other steps, where these are worth it.
    turned: Option<arch::Steps>,
}

impl Compiled {
    /// Checks the program and prepares its tables.
    ///
    /// # Errors
    /// The program is invalid.
    pub fn new(program: Program) -> Result<Compiled, ProgramError> {
        program.verify()?;
        let steps = lower::lower(&program);
        let turned = turned::turned(&program);
        Ok(Compiled { program, steps, turned })
    }

    /// The program.
    #[must_use]
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// The fastest steps that there are kernels for.
    fn steps(&self, isa: &arch::Isa) -> &arch::Steps {
        self.turned.as_ref().filter(|_| isa.turns()).unwrap_or(&self.steps)
    }
}

/// From so many bytes of inputs and outputs on, outputs are stored past the caches: no cache near a core is larger (L2
/// has 1 to 4 MiB), so nothing would be left there for the next reader, and a store through the caches reads the line
/// first.
const STREAMING_BYTES: usize = 4 << 20;

/// How to store the outputs of a program that reads and writes so many bytes.
fn stores(given_bytes: usize) -> Stores {
    if given_bytes >= STREAMING_BYTES { Stores::Streaming } else { Stores::Cached }
}

/// Why a program was not run; nothing was written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// Not as many inputs as the program has.
    #[error("the program takes {expected} inputs but was given {given}; give it one per read of its plan")]
    InputCount {
        /// Inputs of the program.
        expected: usize,
        /// Inputs given.
        given: usize,
    },
    /// Not as many outputs as the program has.
    #[error("the program gives {expected} outputs but was offered {given} buffers; offer one per wanted symbol")]
    OutputCount {
        /// Outputs of the program.
        expected: usize,
        /// Outputs given.
        given: usize,
    },
    /// An input is longer or shorter than the first.
    #[error("input {input} has {given} bytes but the first has {expected}; treat a short symbol as lost")]
    InputLength {
        /// Index of the input.
        input: usize,
        /// Length in bytes of the first.
        expected: usize,
        /// Its length in bytes.
        given: usize,
    },
    /// A piece of inputs does not end where a symbol ends.
    #[error(
        "piece {input} of the inputs has {given} bytes, no multiple of a symbol's {symbol_bytes}; cut pieces between symbols"
    )]
    InputPiece {
        /// Index among the pieces.
        input: usize,
        /// Length in bytes of a symbol.
        symbol_bytes: usize,
        /// Its length in bytes.
        given: usize,
    },
    /// A piece of outputs does not end where a symbol ends.
    #[error(
        "piece {output} of the outputs has {given} bytes, no multiple of a symbol's {symbol_bytes}; cut pieces between symbols"
    )]
    OutputPiece {
        /// Index among the pieces.
        output: usize,
        /// Length in bytes of a symbol.
        symbol_bytes: usize,
        /// Its length in bytes.
        given: usize,
    },
    /// An output is longer or shorter than the inputs.
    #[error("output {output} has {given} bytes but the symbols have {expected}; make its buffer as long as a symbol")]
    OutputLength {
        /// Index of the output.
        output: usize,
        /// Length in bytes of the symbols.
        expected: usize,
        /// Its length in bytes.
        given: usize,
    },
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

    /// Runs the program over symbols of any one length, empty ones too; alignment does not matter.
    ///
    /// # Errors
    /// [`RunError`]: counts or lengths do not fit; nothing was written.
    pub fn run(&self, program: &Compiled, inputs: &[&[u8]], outputs: &mut [&mut [u8]]) -> Result<(), RunError> {
        arch::run(self.isa, program.steps(self.isa), inputs, outputs, stores)
    }

    /// Runs the program over symbols of so many bytes, given in pieces: each some symbols, in the program's order, that lie
    /// one after the other. To codes of hundreds of symbols a cell this saves more time than kernels take.
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

    /// Compares every kernel with the portable one, with all 256 coefficients, over whole and broken vectors.
    fn is_right(&self) -> bool {
        let portable = Executor { isa: arch::portable() };
        lower::probes().all(|probe| {
            let right = portable.probe(&probe, |_| Stores::Cached);
            let same = |stores| right.is_some() && self.probe(&probe, stores) == right;
            same(|_| Stores::Cached) && same(|_| Stores::Fetching) && same(|_| Stores::Streaming)
        })
    }

    fn probe(&self, program: &Compiled, stores: fn(usize) -> Stores) -> Option<Vec<Vec<u8>>> {
        // Of the widest vectors sixteen, four, and three that kernels take at a time, and a broken one.
        const PROBE_BYTES: usize = (16 + 4 + 3) * 64 + 61;
        let byte = |symbol: usize, at: usize| (symbol * 151 + at * 7 + (at >> 8)) as u8;
        let Program { input_count, output_count, .. } = program.program;
        let inputs: Vec<Vec<u8>> =
            (0..input_count).map(|symbol| (0..PROBE_BYTES).map(|at| byte(symbol, at)).collect()).collect();
        let inputs: Vec<&[u8]> = inputs.iter().map(Vec::as_slice).collect();
        // Aligned, as streaming stores want it.
        let mut outputs = vec![vec![0; PROBE_BYTES + 64]; output_count];
        let mut buffers: Vec<&mut [u8]> = outputs
            .iter_mut()
            .map(|output| {
                let start = output.as_ptr().align_offset(64).min(64);
                &mut output[start..start + PROBE_BYTES]
            })
            .collect();
        arch::run(self.isa, program.steps(self.isa), &inputs, &mut buffers, stores).ok()?;
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
