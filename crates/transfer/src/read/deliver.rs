//! Stage 5: everything goes to the output, stripe by stripe: pieces that lie plainly in their shards are copied, the others
//! computed while what they are computed from is still in the cache.

use super::decode;
use super::held::Held;
use super::locate::{Batch, Located};
use crate::read_plan::{Direct, ReadPlan};

pub(super) fn deliver(located: &Located, held: &Held, plan: &ReadPlan, batch: &Batch, out: &mut [u8]) {
    let mut directs = plan.directs.as_slice();
    for (computed, pieces) in plan.computed.iter().zip(&plan.computed_pieces) {
        let up_to_stripe = |direct: &Direct| batch.pieces[direct.piece].stripe <= computed.stripe.index;
        let (before, after) = directs.split_at(directs.partition_point(up_to_stripe));
        copy(held, before, batch, out);
        decode::decode_into(located, held, computed, pieces, batch, out);
        directs = after;
    }
    copy(held, directs, batch, out);
}

fn copy(held: &Held, directs: &[Direct], batch: &Batch, out: &mut [u8]) {
    for direct in directs {
        let piece = &batch.pieces[direct.piece];
        let at = (piece.data_offset - batch.range.start) as usize;
        held.copy(direct.shard, direct.payload_offset, &mut out[at..at + piece.within_symbol.len()]);
    }
}
