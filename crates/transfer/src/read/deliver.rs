//! Stage 5: pieces that lie plainly in their shards go to the output.

use super::held::Held;
use super::locate::Batch;
use super::plan::ReadPlan;

pub(super) fn deliver(held: &Held, plan: &ReadPlan, batch: &Batch, out: &mut [u8]) {
    for direct in &plan.directs {
        let piece = &batch.pieces[direct.piece];
        let at = (piece.data_offset - batch.range.start) as usize;
        held.copy(direct.shard, direct.payload_offset, &mut out[at..at + piece.within_symbol.len()]);
    }
}
