//! Stage 2: what to fetch, and what to compute from it. Pure: the state of the nodes comes in as offers.

use super::locate::{Batch, Located};
use crate::arrived::Arrived;
use crate::read_plan::{AVOIDED, Direct, Get, ReadPlan, ShardOffers, compute, merged};
use std::ops::Range;
use weft_codes::Wanted;
use weft_format::geometry::{Piece, Stripe};

/// Plans a batch of a read; `None` where the offers do not suffice.
pub(crate) fn plan_read(located: &Located, batch: &Batch, offers: &ShardOffers, arrived: &Arrived) -> Option<ReadPlan> {
    let mut plan = ReadPlan::default();
    let mut rest = 0..batch.pieces.len();
    while let Some(first) = batch.pieces.get(rest.start) {
        let count = batch.pieces[rest.clone()].iter().take_while(|piece| piece.stripe == first.stripe).count();
        let stripe = located.geometry.stripe(first.stripe);
        plan_stripe(located, batch, rest.start..rest.start + count, stripe, offers, arrived, &mut plan)?;
        rest.start += count;
    }
    plan.gets = merged(std::mem::take(&mut plan.gets), offers, arrived);
    Some(plan)
}

fn plan_stripe(
    located: &Located,
    batch: &Batch,
    pieces: Range<usize>,
    stripe: Stripe,
    offers: &ShardOffers,
    arrived: &Arrived,
    plan: &mut ReadPlan,
) -> Option<()> {
    let mut lost = Vec::new();
    for index in pieces {
        let piece = &batch.pieces[index];
        match home(located, &stripe, piece, offers, arrived) {
            Some(stored) => {
                let (shard, symbol_offset) = located.symbol(&stripe, stored);
                let payload_offset = symbol_offset + u64::from(piece.within_symbol.start);
                let length = piece.within_symbol.len() as u64;
                plan.directs.push(Direct { piece: index, shard, payload_offset });
                plan.gets.push(Get { shard, payload: payload_offset..payload_offset + length });
            }
            None => lost.push(index),
        }
    }
    if lost.is_empty() {
        return Some(());
    }
    for (columns, pieces) in by_columns(&batch.pieces, &lost) {
        let wanted = Wanted::Natives(pieces.iter().map(|index| batch.pieces[*index].native as usize).collect());
        let computed = compute(&located.code, &located.geometry, stripe.clone(), columns, &wanted, offers, arrived)?;
        plan.gets.extend(computed.reads(&located.geometry));
        plan.computed.push(computed);
        plan.computed_pieces.push(pieces);
    }
    Some(())
}

/// Pieces of one stripe to be computed together: the columns that any of them wants, and which pieces. The end of one symbol
/// and the beginning of the next are computed apart, so that what lies between is not read.
fn by_columns(pieces: &[Piece], lost: &[usize]) -> Vec<(Range<u32>, Vec<usize>)> {
    let mut groups: Vec<(Range<u32>, Vec<usize>)> = Vec::new();
    for &index in lost {
        let columns = pieces[index].within_symbol.clone();
        let overlaps = |group: &Range<u32>| group.start < columns.end && columns.start < group.end;
        match groups.iter_mut().find(|(group, _)| overlaps(group)) {
            Some((group, members)) => {
                *group = group.start.min(columns.start)..group.end.max(columns.end);
                members.push(index);
            }
            None => groups.push((columns, vec![index])),
        }
    }
    groups
}

/// The stored symbol to take a piece from as it is: what has come already, otherwise the cheapest that is offered gladly.
fn home(located: &Located, stripe: &Stripe, piece: &Piece, offers: &ShardOffers, arrived: &Arrived) -> Option<usize> {
    let alpha = located.geometry.alpha as usize;
    let price = |stored: &usize| {
        let (shard, start) = located.symbol(stripe, *stored);
        let columns = u64::from(piece.within_symbol.start)..u64::from(piece.within_symbol.end);
        if arrived.covers(shard, &(start + columns.start..start + columns.end)) {
            return Some((0, 0, *stored));
        }
        let offer = offers.shards[*stored / alpha].filter(|offer| offers.data_first && offer.reluctance < AVOIDED)?;
        Some((offer.request_price.max(1), offer.kib_price, *stored))
    };
    located.code.homes[piece.native as usize].iter().filter_map(price).min().map(|(_, _, stored)| stored)
}
