//! Why a program is not run.

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
