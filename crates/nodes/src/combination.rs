//! A combination: what a node is to compute from parts of one of its shards, as data, and its bounds.

use std::ops::Range;
use weft_codes::{Op, Program, ProgramError};
use weft_format::geometry::MAX_PAYLOAD_BYTES;
use weft_format::shard::{FRAME_PAYLOAD_BYTES, frames_range};

/// Symbols of a program; the widest code there is has some thousands in a cell.
const SYMBOLS_MAX: usize = 1 << 14;

/// Coefficients of a program, zeros included.
const TERMS_MAX: usize = 1 << 20;

/// Bytes that are read, and that are sent: a segment's worth each.
const READ_BYTES_MAX: u64 = 64 << 20;
const SENT_BYTES_MAX: u64 = 64 << 20;

/// Multiplications of a byte: about a second with the slowest kernels.
const WORK_MAX: u64 = 4 << 30;

/// What a node is to compute from one of its shards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Combination {
    /// Payload of the shard, which says where its frames end.
    pub payload_bytes: u64,
    /// What to compute, the same for each part.
    pub program: Program,
    /// What to compute it from. What is sent are the outputs of the first part in order, then those of the next.
    pub parts: Vec<Part>,
}

/// Inputs of one run of the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// By input: the payload byte that it begins with.
    pub starts: Vec<u64>,
    /// How long each input, and so each output, is.
    pub bytes: u32,
}

/// What a combination comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    /// Bytes of whole frames that the node reads, checks included.
    pub read_bytes: u64,
    /// Bytes that it sends.
    pub sent_bytes: u64,
}

/// Why a combination is not computed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CombinationError {
    /// Too large in some respect.
    #[error("a combination of {found} {what} is more than {most}: ask in smaller pieces")]
    TooLarge {
        /// In which.
        what: &'static str,
        /// How many there are.
        found: u64,
        /// How many there may be.
        most: u64,
    },
    /// The program is none.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// A part has more or fewer starts than the program has inputs.
    #[error("a part has {given} inputs where the program has {expected}")]
    Inputs {
        /// Starts of the part.
        given: usize,
        /// Inputs of the program.
        expected: usize,
    },
    /// An input lies beyond the payload.
    #[error("payload bytes {start}..{end} were asked of a payload of {payload_bytes}")]
    Outside {
        /// First byte.
        start: u64,
        /// Behind the last byte.
        end: u64,
        /// What there is.
        payload_bytes: u64,
    },
}

impl Combination {
    /// Checks everything that can be checked without the shard, and says what it costs.
    ///
    /// # Errors
    /// The first thing that does not hold.
    pub fn cost(&self) -> Result<Cost, CombinationError> {
        let program = &self.program;
        let symbols = [program.input_count, program.output_count, program.temporary_count].into_iter();
        let symbol_count = symbols.fold(0usize, usize::saturating_add);
        at_most("symbols", symbol_count as u64, SYMBOLS_MAX as u64)?;
        let op_terms = |op: &Op| op.sources().len().saturating_mul(op.targets().len()).max(1);
        let terms = program.ops.iter().map(op_terms).fold(0usize, usize::saturating_add);
        at_most("coefficients", terms as u64, TERMS_MAX as u64)?;
        program.verify()?;
        at_most("bytes of payload", self.payload_bytes, MAX_PAYLOAD_BYTES)?;
        let (mut sent_bytes, mut work) = (0u64, 0u64);
        for part in &self.parts {
            if part.starts.len() != program.input_count {
                return Err(CombinationError::Inputs { given: part.starts.len(), expected: program.input_count });
            }
            for &start in &part.starts {
                let end = start.saturating_add(u64::from(part.bytes));
                if end > self.payload_bytes {
                    return Err(CombinationError::Outside { start, end, payload_bytes: self.payload_bytes });
                }
            }
            sent_bytes = sent_bytes.saturating_add((program.output_count as u64).saturating_mul(part.bytes.into()));
            work = work.saturating_add((terms as u64).saturating_mul(part.bytes.into()));
        }
        at_most("bytes to be sent", sent_bytes, SENT_BYTES_MAX)?;
        at_most("multiplications", work, WORK_MAX)?;
        let read_bytes = self.reads().iter().map(|object| object.end - object.start).sum();
        at_most("bytes to be read", read_bytes, READ_BYTES_MAX)?;
        Ok(Cost { read_bytes, sent_bytes })
    }

    /// The payload that the inputs lie in, in whole frames: ascending, apart from each other.
    pub(crate) fn payloads(&self) -> Vec<Range<u64>> {
        let frame = FRAME_PAYLOAD_BYTES as u64;
        let whole = |start: u64, bytes: u32| {
            let end = (start + u64::from(bytes)).next_multiple_of(frame).min(self.payload_bytes);
            start / frame * frame..end
        };
        let ranges = self.parts.iter().flat_map(|part| part.starts.iter().map(|&start| whole(start, part.bytes)));
        let mut ranges: Vec<Range<u64>> = ranges.filter(|range| !range.is_empty()).collect();
        ranges.sort_unstable_by_key(|range| range.start);
        let mut apart: Vec<Range<u64>> = Vec::new();
        for range in ranges {
            match apart.last_mut() {
                Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
                _ => apart.push(range),
            }
        }
        apart
    }

    /// The bytes of the shard object to read.
    fn reads(&self) -> Vec<Range<u64>> {
        self.payloads().into_iter().map(|payload| frames_range(payload, self.payload_bytes)).collect()
    }
}

fn at_most(what: &'static str, found: u64, most: u64) -> Result<(), CombinationError> {
    if found > most { Err(CombinationError::TooLarge { what, found, most }) } else { Ok(()) }
}

#[cfg(test)]
#[path = "combination_tests.rs"]
mod tests;
