//! Computing at the node: linear combinations of parts of one shard, sent instead of the parts.
//!
//! A regenerating code repairs a lost shard from one combination of each helper's symbols. Where the helper computes it, a
//! symbol travels instead of a shard (Hu et al., NCFS, 2011, section III-B). The node still knows no stripe and no code: it
//! is given a program over GF(2^8), and for each of its parts where in the shard's payload the program's inputs begin.
//!
//! What comes from elsewhere is checked before anything is done ([`Combination::cost`]): the program by its own verifier, and
//! its size, its reads, its outputs and its work by the bounds in `combination.rs`. Nothing is computed from frames that fail their checks.
//! What is sent carries no checks; whoever asks compares what is made of it with a digest that it has from elsewhere.

use crate::error::{NodeError, NodeErrorKind};
use crate::node::Node;
use bytes::Bytes;
use std::ops::Range;
use weft_codes::{Compiled, executor};
use weft_format::shard::{ShardIdentity, frames_range, verify_frames};
use weft_format::{ShardKey, VolumeId};

pub use crate::combination::{Combination, CombinationError, Cost, Part};

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
