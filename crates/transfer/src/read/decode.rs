//! Stage 4: symbols that could not be had are computed from those that could.
//!
//! Frames are computed on where they lie, between their checks, a part at a time that stays in the cache. Where symbols are no
//! whole frames (the last stripe of codes with several symbols a cell), the few that go on in the next frame are copied first.

use super::held::Held;
use super::locate::{Batch, Located};
use crate::read_plan::Computed;
use weft_codes::executor;
use weft_format::geometry::Geometry;
use weft_format::shard::FRAME_PAYLOAD_BYTES;

/// What a part's inputs and outputs take together: half of the smallest second-level cache in use.
const PART_BYTES: usize = 256 << 10;

/// Shorter parts cost more in calls than they gain in cache.
const PART_COLUMNS_MIN: usize = 256;

/// Runs a recipe over its columns: `slice(shard, at)` gives payload from `at` to the end of its frame, `take(output, column,
/// bytes)` gets the results, a part at a time.
pub(crate) fn run<'a>(
    geometry: &Geometry,
    slice: impl Fn(usize, u64) -> &'a [u8],
    computed: &Computed,
    mut take: impl FnMut(usize, u32, &[u8]),
) {
    let recipe = &computed.recipe;
    let program = recipe.program.program();
    let symbol_count = (program.input_count + program.output_count).max(1);
    let most_columns = (PART_BYTES / symbol_count).clamp(PART_COLUMNS_MIN, FRAME_PAYLOAD_BYTES);
    let mut results = vec![0; program.output_count * most_columns];
    let symbol_starts: Vec<(usize, u64)> = recipe
        .reads
        .iter()
        .map(|(shard, sub)| (*shard, geometry.symbol_range(&computed.stripe, *sub as u32).start))
        .collect();
    let mut column = computed.columns.start;
    while column < computed.columns.end {
        let slices: Vec<&[u8]> =
            symbol_starts.iter().map(|(shard, start)| slice(*shard, start + u64::from(column))).collect();
        let rest = (computed.columns.end - column) as usize;
        let length = slices.first().map_or(rest, |first| first.len()).min(rest).min(most_columns);
        let joined: Vec<Vec<u8>> = (slices.iter().zip(&symbol_starts))
            .filter(|(part, _)| part.len() < length)
            .map(|(part, (shard, start))| joined(part, length, |at| slice(*shard, start + u64::from(column) + at)))
            .collect();
        let mut joined = joined.iter();
        let inputs: Vec<&[u8]> = slices
            .iter()
            .map(|part| part.get(..length).or_else(|| joined.next().map(Vec::as_slice)).unwrap_or_default())
            .collect();
        let mut outputs: Vec<&mut [u8]> =
            results.chunks_exact_mut(most_columns).map(|output| &mut output[..length]).collect();
        executor()
            .run(&recipe.program, &inputs, &mut outputs)
            .expect("one slice per read, one per output, of one length");
        for (output, bytes) in outputs.iter().enumerate() {
            take(output, column, bytes);
        }
        column += length as u32;
    }
}

/// `length` bytes that begin with `first` and go on with what `more(offset)` gives.
fn joined<'a>(first: &[u8], length: usize, more: impl Fn(u64) -> &'a [u8]) -> Vec<u8> {
    let mut bytes = first.to_vec();
    while bytes.len() < length {
        let next = more(bytes.len() as u64);
        bytes.extend_from_slice(&next[..next.len().min(length - bytes.len())]);
    }
    bytes
}

/// Computes pieces of a batch that a read lacks, those of one stripe, into the batch's output.
pub(super) fn decode_into(
    located: &Located,
    held: &Held,
    computed: &Computed,
    pieces: &[usize],
    batch: &Batch,
    out: &mut [u8],
) {
    let slice = |shard, at| held.slice(shard, at);
    run(&located.geometry, slice, computed, |output, column, bytes| {
        // The columns are those that any of the pieces wants; this piece may want fewer.
        let piece = &batch.pieces[pieces[output]];
        let from = column.max(piece.within_symbol.start);
        let to = (column + bytes.len() as u32).min(piece.within_symbol.end);
        if from < to {
            let at = (piece.data_offset - batch.range.start) as usize + (from - piece.within_symbol.start) as usize;
            let (length, skipped) = ((to - from) as usize, (from - column) as usize);
            out[at..at + length].copy_from_slice(&bytes[skipped..skipped + length]);
        }
    });
}
