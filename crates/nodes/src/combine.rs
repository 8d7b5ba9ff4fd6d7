//! Computing at the node: linear combinations of parts of one shard, sent instead of the parts.
//!
//! A regenerating code repairs a lost shard from one combination of each helper's symbols. Where the helper computes it, a
//! symbol travels instead of a shard (Hu et al., NCFS, 2011, section III-B). The node still knows no stripe and no code: it
//! is given a program over GF(2^8), and for each of its parts where in the shard's payload the program's inputs begin.
//!
//! What comes from elsewhere is checked before anything is done ([`Combination::cost`]): the program by its own verifier, and
//! its size, its reads, its outputs and its work by the bounds here. Nothing is computed from frames that fail their checks.
//! What is sent carries no checks; whoever asks compares what is made of it with a digest that it has from elsewhere.

use crate::error::{NodeError, NodeErrorKind};
use crate::node::Node;
use bytes::Bytes;
use std::ops::Range;
use weft_codes::{Compiled, Op, Program, ProgramError, executor};
use weft_format::shard::{FRAME_PAYLOAD_BYTES, ShardIdentity, frames_range, verify_frames};
use weft_format::{ShardKey, VolumeId, geometry::MAX_PAYLOAD_BYTES};

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
    fn payloads(&self) -> Vec<Range<u64>> {
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

/// Frames that passed their checks, as plain payload.
struct Payload {
    /// Ascending, apart from each other.
    runs: Vec<(Range<u64>, Vec<u8>)>,
}

impl Payload {
    fn slice(&self, start: u64, bytes: u32) -> &[u8] {
        let after = self.runs.partition_point(|(range, _)| range.start <= start);
        let (range, run) = &self.runs[after.saturating_sub(1)];
        let at = (start - range.start) as usize;
        &run[at..at + bytes as usize]
    }
}

/// Computes a combination from what `node` gives plainly. `name` is the node's in errors.
///
/// # Errors
/// `Unsupported`: the combination is none, or too large; `Corrupt`: a frame fails its check; and what a get meets with.
pub async fn combine_gets(
    node: &dyn Node,
    name: &str,
    volume: VolumeId,
    key: ShardKey,
    combination: &Combination,
) -> Result<Bytes, NodeError> {
    let unsupported = |error: &dyn std::fmt::Display| {
        NodeError::new(NodeErrorKind::Unsupported, name, format!("shard {key} is not combined: {error}"))
    };
    let cost = combination.cost().map_err(|error| unsupported(&error))?;
    let program = Compiled::new(combination.program.clone()).map_err(|error| unsupported(&error))?;
    let identity = ShardIdentity { volume, key };
    let mut runs = Vec::new();
    for payload in combination.payloads() {
        let raw = node.get(key, frames_range(payload.clone(), combination.payload_bytes)).await?;
        let checked = verify_frames(&identity, combination.payload_bytes, payload.clone(), &raw);
        let plain = checked.and_then(|frames| {
            let mut plain = vec![0; (payload.end - payload.start) as usize];
            frames.copy_into(payload.clone(), &mut plain).map(|()| plain)
        });
        let damaged = |error| NodeError::new(NodeErrorKind::Corrupt, name, format!("shard {key}: {error}"));
        runs.push((payload, plain.map_err(damaged)?));
    }
    // Reading needs a runtime and computing would hold it up.
    let (payload, parts) = (Payload { runs }, combination.parts.clone());
    let computed = tokio::task::spawn_blocking(move || run(&program, &parts, &payload, cost.sent_bytes as usize)).await;
    computed.map(Bytes::from).map_err(|stopped| {
        NodeError::new(NodeErrorKind::Io, name, format!("combining shard {key} was stopped: {stopped}"))
    })
}

/// Runs a program that was checked over parts that were checked.
fn run(program: &Compiled, parts: &[Part], payload: &Payload, sent_bytes: usize) -> Vec<u8> {
    let mut sent = vec![0; sent_bytes];
    let mut rest = sent.as_mut_slice();
    for part in parts.iter().filter(|part| part.bytes > 0) {
        let inputs: Vec<&[u8]> = part.starts.iter().map(|&start| payload.slice(start, part.bytes)).collect();
        let (these, others) = rest.split_at_mut(program.program().output_count * part.bytes as usize);
        let mut outputs: Vec<&mut [u8]> = these.chunks_exact_mut(part.bytes as usize).collect();
        executor().run(program, &inputs, &mut outputs).expect("as many inputs and outputs as it has, of one length");
        rest = others;
    }
    sent
}

#[cfg(test)]
#[path = "combine_tests.rs"]
mod tests;
