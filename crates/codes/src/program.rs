//! Straight-line programs over symbols.

use crate::gf;
use crate::matrix::Matrix;
use crate::row::{Bits, Bytes, Row};
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;

/// Number of a symbol within a program: `0..input_count` inputs, then outputs, then temporaries.
pub type SymbolId = usize;

/// One operation: symbols read, symbols written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// `to = from`.
    Copy {
        /// Symbol read.
        from: SymbolId,
        /// Symbol written.
        to: SymbolId,
    },
    /// `to` = the XOR of all of `from`; zeros where `from` is empty.
    Xor {
        /// Symbols read.
        from: Vec<SymbolId>,
        /// Symbol written.
        to: SymbolId,
    },
    /// `to = coefficients * from`: one row per symbol written, one column per symbol read.
    Dot {
        /// Symbols read.
        from: Vec<SymbolId>,
        /// Symbols written.
        to: Vec<SymbolId>,
        /// `to.len()` rows, `from.len()` columns.
        coefficients: Matrix,
    },
}

impl Op {
    /// Symbols read.
    #[must_use]
    pub fn sources(&self) -> &[SymbolId] {
        match self {
            Op::Copy { from, .. } => core::slice::from_ref(from),
            Op::Xor { from, .. } | Op::Dot { from, .. } => from,
        }
    }

    /// Symbols written.
    #[must_use]
    pub fn targets(&self) -> &[SymbolId] {
        match self {
            Op::Copy { to, .. } | Op::Xor { to, .. } => core::slice::from_ref(to),
            Op::Dot { to, .. } => to,
        }
    }

    /// The operation as a matrix: a row per target, a column per source.
    #[must_use]
    pub fn coefficients(&self) -> Matrix {
        match self {
            Op::Copy { .. } => Matrix::identity(1),
            Op::Xor { from, .. } => Matrix::from_fn(1, from.len(), |_, _| 1),
            Op::Dot { coefficients, .. } => coefficients.clone(),
        }
    }
}

/// A straight-line program over symbols.
///
/// A program is plain data: the numbers of inputs, outputs and temporaries, and operations in order. Symbols are numbered:
/// inputs first, then outputs, then temporaries. A valid program writes every output and temporary exactly once, and before
/// it reads it ([`Program::verify`]). This makes programs easy to prove, to print and to rearrange.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// Symbols given.
    pub input_count: usize,
    /// Symbols to be computed.
    pub output_count: usize,
    /// Symbols needed only on the way.
    pub temporary_count: usize,
    /// Operations in order.
    pub ops: Vec<Op>,
}

/// Programs of more symbols are refused before memory is allocated for them. Those of the widest codes have some ten
/// thousand.
const MOST_SYMBOLS: usize = 1 << 24;

/// What makes a program invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProgramError {
    /// The counts add up to more symbols than any program has.
    #[error(
        "{input_count} inputs, {output_count} outputs and {temporary_count} temporaries are more than {MOST_SYMBOLS} symbols; count only those that operations name"
    )]
    TooManySymbols {
        /// Inputs of the program.
        input_count: usize,
        /// Outputs of the program.
        output_count: usize,
        /// Temporaries of the program.
        temporary_count: usize,
    },
    /// A symbol id is past the last symbol.
    #[error(
        "operation {op} names symbol {symbol}, but the program has only {symbol_count}; number inputs, outputs, temporaries in turn"
    )]
    NoSuchSymbol {
        /// Index of the operation.
        op: usize,
        /// The symbol it names.
        symbol: SymbolId,
        /// Symbols of the program.
        symbol_count: usize,
    },
    /// A symbol is read that nothing has written yet.
    #[error("operation {op} reads symbol {symbol} before it is written; put the operation that writes it first")]
    ReadBeforeWritten {
        /// Index of the operation.
        op: usize,
        /// The symbol it reads.
        symbol: SymbolId,
    },
    /// An input is written, or any symbol a second time.
    #[error("operation {op} writes symbol {symbol}, which already holds something; write to a symbol of its own")]
    WrittenTwice {
        /// Index of the operation.
        op: usize,
        /// The symbol it writes.
        symbol: SymbolId,
    },
    /// The matrix of a dot product does not fit its symbols.
    #[error(
        "operation {op} has {rows} x {columns} coefficients for {targets} targets and {sources} sources; make them equal"
    )]
    WrongCoefficients {
        /// Index of the operation.
        op: usize,
        /// Rows of its matrix.
        rows: usize,
        /// Columns of its matrix.
        columns: usize,
        /// Symbols it writes.
        targets: usize,
        /// Symbols it reads.
        sources: usize,
    },
    /// An output that no operation writes.
    #[error("output {output} is never written; add the operation that computes it")]
    OutputNotWritten {
        /// Index among the outputs.
        output: usize,
    },
}

impl Program {
    /// Inputs, outputs and temporaries together.
    #[must_use]
    pub fn symbol_count(&self) -> usize {
        self.input_count.saturating_add(self.output_count).saturating_add(self.temporary_count)
    }

    /// Ids of the outputs.
    #[must_use]
    pub fn outputs(&self) -> core::ops::Range<SymbolId> {
        self.input_count..self.input_count.saturating_add(self.output_count)
    }

    /// Symbols added to others: the operations on two symbols that the program amounts to, as the literature counts
    /// XORs. In dot products each coefficient that is not zero counts as a summand.
    #[must_use]
    pub fn xor_count(&self) -> usize {
        let of_op = |op: &Op| match op {
            Op::Copy { .. } => 0,
            Op::Xor { from, .. } => from.len().saturating_sub(1),
            Op::Dot { coefficients, .. } => (0..coefficients.rows())
                .map(|row| coefficients.row(row).iter().filter(|&&c| c != 0).count().saturating_sub(1))
                .sum(),
        };
        self.ops.iter().map(of_op).sum()
    }

    /// Symbols read and written from memory, where every operation reads each of its sources and writes each of its
    /// targets once.
    #[must_use]
    pub fn access_count(&self) -> usize {
        self.ops.iter().map(|op| op.sources().len() + op.targets().len()).sum()
    }

    /// Checks that the program is valid.
    ///
    /// # Errors
    /// The first mistake, in the order of the operations.
    pub fn verify(&self) -> Result<(), ProgramError> {
        let symbol_count = self.symbol_count();
        if symbol_count > MOST_SYMBOLS {
            let Program { input_count, output_count, temporary_count, .. } = *self;
            return Err(ProgramError::TooManySymbols { input_count, output_count, temporary_count });
        }
        let mut written = vec![false; symbol_count];
        written[..self.input_count].fill(true);
        for (index, op) in self.ops.iter().enumerate() {
            let (sources, targets) = (op.sources(), op.targets());
            for &symbol in sources.iter().chain(targets) {
                if symbol >= symbol_count {
                    return Err(ProgramError::NoSuchSymbol { op: index, symbol, symbol_count });
                }
            }
            if let Op::Dot { coefficients, .. } = op
                && (coefficients.rows(), coefficients.columns()) != (targets.len(), sources.len())
            {
                let (rows, columns) = (coefficients.rows(), coefficients.columns());
                let (targets, sources) = (targets.len(), sources.len());
                return Err(ProgramError::WrongCoefficients { op: index, rows, columns, targets, sources });
            }
            if let Some(&symbol) = sources.iter().find(|&&symbol| !written[symbol]) {
                return Err(ProgramError::ReadBeforeWritten { op: index, symbol });
            }
            for &symbol in targets {
                if core::mem::replace(&mut written[symbol], true) {
                    return Err(ProgramError::WrittenTwice { op: index, symbol });
                }
            }
        }
        match self.outputs().find(|&symbol| !written[symbol]) {
            Some(symbol) => Err(ProgramError::OutputNotWritten { output: symbol - self.input_count }),
            None => Ok(()),
        }
    }

    /// What the program computes, as a matrix: `outputs = matrix * inputs`.
    ///
    /// # Errors
    /// The program is invalid.
    pub fn to_matrix(&self) -> Result<Matrix, ProgramError> {
        self.verify()?;
        let is_binary = |op: &Op| !matches!(op, Op::Dot { coefficients, .. } if !coefficients.is_binary());
        Ok(if self.ops.iter().all(is_binary) { self.rows::<Bits>() } else { self.rows::<Bytes>() })
    }

    /// The rows of these outputs in the program's matrix. Takes memory for these rows only.
    ///
    /// # Errors
    /// The program is invalid.
    ///
    /// # Panics
    /// An output does not exist.
    pub fn rows_of(&self, outputs: &[usize]) -> Result<Matrix, ProgramError> {
        self.verify()?;
        // By symbol: how often each of these outputs takes it, according to the operations seen so far. Operations are
        // seen in reverse, so everything that reads a symbol is known before the operation that writes it.
        let mut taken = Matrix::zero(self.symbol_count(), outputs.len());
        for (column, &output) in outputs.iter().enumerate() {
            assert!(output < self.output_count, "output {output} of {} does not exist", self.output_count);
            taken.row_mut(self.input_count + output)[column] = 1;
        }
        for op in self.ops.iter().rev() {
            let coefficients = op.coefficients();
            for (row, &target) in op.targets().iter().enumerate() {
                let of_target = taken.row(target).to_vec();
                for (column, &source) in op.sources().iter().enumerate() {
                    gf::add_multiple(taken.row_mut(source), &of_target, coefficients.at(row, column));
                }
            }
        }
        Ok(Matrix::from_fn(outputs.len(), self.input_count, |row, input| taken.at(input, row)))
    }

    /// The matrix of a valid program.
    fn rows<R: Row>(&self) -> Matrix {
        let mut values = vec![R::zeros(self.input_count); self.symbol_count()];
        values.iter_mut().take(self.input_count).enumerate().for_each(|(input, value)| value.set(input));
        for op in &self.ops {
            let coefficients = op.coefficients();
            for (row, &target) in op.targets().iter().enumerate() {
                let mut value = R::zeros(self.input_count);
                for (column, &source) in op.sources().iter().enumerate() {
                    value.add_multiple(&values[source], coefficients.at(row, column));
                }
                values[target] = value;
            }
        }
        let mut matrix = Matrix::zero(self.output_count, self.input_count);
        for (row, value) in values[self.outputs()].iter().enumerate() {
            matrix.row_mut(row).copy_from_slice(&value.elements(self.input_count));
        }
        matrix
    }

    fn name(&self, symbol: SymbolId) -> String {
        let outputs = self.outputs();
        match symbol {
            _ if symbol < outputs.start => format!("i{symbol}"),
            _ if symbol < outputs.end => format!("o{}", symbol - outputs.start),
            _ => format!("t{}", symbol - outputs.end),
        }
    }

    fn names(&self, symbols: &[SymbolId], separator: &str) -> String {
        symbols.iter().map(|&symbol| self.name(symbol)).collect::<Vec<_>>().join(separator)
    }
}

/// One line per operation, e.g. `o0, o1 = [1 1; 1 2] * (i0, i1)`.
impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} inputs, {} outputs, {} temporaries",
            self.input_count, self.output_count, self.temporary_count
        )?;
        for op in &self.ops {
            match op {
                Op::Copy { from, to } => writeln!(f, "{} = {}", self.name(*to), self.name(*from))?,
                Op::Xor { from, to } if from.is_empty() => writeln!(f, "{} = 0", self.name(*to))?,
                Op::Xor { from, to } => writeln!(f, "{} = {}", self.name(*to), self.names(from, " + "))?,
                Op::Dot { from, to, coefficients } => {
                    writeln!(f, "{} = {coefficients} * ({})", self.names(to, ", "), self.names(from, ", "))?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "program_tests.rs"]
mod tests;
