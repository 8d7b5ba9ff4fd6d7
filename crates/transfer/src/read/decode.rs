//! Stage 4: symbols that could not be had are computed from those that could.
//!
//! Frames are computed on where they lie, between their checks: the program runs over the longest slice that lies within one
//! frame of every input, a frame at a time, so that inputs and outputs stay in the cache and nothing is copied first.

use super::held::Held;
use super::locate::{Batch, Located};
use super::plan::Computed;
use weft_codes::executor;
use weft_format::geometry::Geometry;
use weft_format::shard::FRAME_PAYLOAD_BYTES;

/// Runs a recipe over its columns: `slice(shard, at)` gives payload from `at` to the end of its frame, `take(output, column,
/// bytes)` gets the results, a slice at a time.
pub(crate) fn run<'a>(
    geometry: &Geometry,
    slice: impl Fn(usize, u64) -> &'a [u8],
    computed: &Computed,
    mut take: impl FnMut(usize, u32, &[u8]),
) {
    let recipe = &computed.recipe;
    let output_count = recipe.program.program().output_count;
    let mut scratch = vec![0; output_count * FRAME_PAYLOAD_BYTES];
    let symbol_starts: Vec<(usize, u64)> = recipe
        .reads
        .iter()
        .map(|(shard, sub)| (*shard, geometry.symbol_range(&computed.stripe, *sub as u32).start))
        .collect();
    let mut column = computed.columns.start;
    let mut inputs: Vec<&[u8]> = Vec::with_capacity(symbol_starts.len());
    while column < computed.columns.end {
        let slices = symbol_starts.iter().map(|(shard, start)| slice(*shard, start + u64::from(column)));
        inputs.clear();
        inputs.extend(slices);
        let rest = (computed.columns.end - column) as usize;
        let length = inputs.iter().map(|slice| slice.len()).min().unwrap_or(rest).min(rest);
        for input in &mut inputs {
            *input = &input[..length];
        }
        let mut outputs: Vec<&mut [u8]> =
            scratch.chunks_exact_mut(FRAME_PAYLOAD_BYTES).map(|output| &mut output[..length]).collect();
        executor()
            .run(&recipe.program, &inputs, &mut outputs)
            .expect("one slice per read, one per output, of one length");
        for (output, bytes) in outputs.iter().enumerate() {
            take(output, column, bytes);
        }
        column += length as u32;
    }
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
