//! Stage 2: what to fetch, and what to compute from it. Pure: the state of the nodes comes in as offers.

use super::held::Held;
use super::locate::{Batch, Located};
use crate::algebra::{LoadedCode, Recipe};
use std::ops::Range;
use std::sync::Arc;
use weft_codes::{Offer, Offers, Wanted};
use weft_format::geometry::{Geometry, Piece, Stripe};

/// Added to the prices of a node that failed lately or lags now: more than any number of others, so that it is read only
/// where nothing else does.
const AVOIDED_PRICE: u64 = 1 << 32;

/// What may be read from each shard.
pub(crate) struct ShardOffers {
    /// `None`: it failed, or has no place.
    pub(crate) shards: Vec<Option<ShardOffer>>,
}

/// What reading one shard costs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ShardOffer {
    pub(crate) request_price: u64,
    pub(crate) kib_price: u64,
    /// Only where nothing else does.
    pub(crate) avoided: bool,
}

/// A part of a shard's payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Get {
    pub(crate) shard: usize,
    pub(crate) payload: Range<u64>,
}

/// A piece of the range that lies plainly in a shard.
pub(crate) struct Direct {
    pub(crate) piece: usize,
    pub(crate) shard: usize,
    pub(crate) payload_offset: u64,
}

/// Symbols of one stripe to be computed.
pub(crate) struct Computed {
    pub(crate) stripe: Stripe,
    /// Which bytes of each symbol.
    pub(crate) columns: Range<u32>,
    pub(crate) recipe: Arc<Recipe>,
}

/// What to fetch and what to make of it.
#[derive(Default)]
pub(crate) struct ReadPlan {
    pub(crate) gets: Vec<Get>,
    pub(crate) directs: Vec<Direct>,
    pub(crate) computed: Vec<Computed>,
    /// For each of `computed`, in a read: the pieces of the batch that its outputs are.
    pub(crate) computed_pieces: Vec<Vec<usize>>,
}

/// Plans a batch of a read; `None` where the offers do not suffice.
pub(super) fn plan_read(located: &Located, batch: &Batch, offers: &ShardOffers, held: &Held) -> Option<ReadPlan> {
    let mut plan = ReadPlan::default();
    let mut rest = 0..batch.pieces.len();
    while let Some(first) = batch.pieces.get(rest.start) {
        let count = batch.pieces[rest.clone()].iter().take_while(|piece| piece.stripe == first.stripe).count();
        let stripe = located.geometry.stripe(first.stripe);
        plan_stripe(located, batch, rest.start..rest.start + count, stripe, offers, held, &mut plan)?;
        rest.start += count;
    }
    plan.gets = merged(std::mem::take(&mut plan.gets), offers, held);
    Some(plan)
}

fn plan_stripe(
    located: &Located,
    batch: &Batch,
    pieces: Range<usize>,
    stripe: Stripe,
    offers: &ShardOffers,
    held: &Held,
    plan: &mut ReadPlan,
) -> Option<()> {
    let mut lost = Vec::new();
    for index in pieces {
        let piece = &batch.pieces[index];
        match home(located, piece.native as usize, offers, held) {
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
        let computed = compute(&located.code, &located.geometry, stripe.clone(), columns, &wanted, offers, held)?;
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

/// The stored symbol to take a native one from: of a shard that need not be avoided, the cheapest, and held ones first.
fn home(located: &Located, native: usize, offers: &ShardOffers, held: &Held) -> Option<usize> {
    let alpha = located.geometry.alpha as usize;
    let price = |stored: &usize| {
        let offer = offers.shards[*stored / alpha].filter(|offer| !offer.avoided)?;
        Some((!held.has_some(*stored / alpha), offer.request_price, offer.kib_price, *stored))
    };
    located.code.homes[native].iter().filter_map(price).min().map(|(_, _, _, stored)| stored)
}

/// The computation of `wanted` in one stripe from the cheapest symbols offered.
pub(crate) fn compute(
    code: &LoadedCode,
    geometry: &Geometry,
    stripe: Stripe,
    columns: Range<u32>,
    wanted: &Wanted,
    offers: &ShardOffers,
    held: &Held,
) -> Option<Computed> {
    // Priced for a full symbol, so that all stripes of a segment share one recipe.
    let symbol_kib = u64::from(geometry.symbol_bytes).div_ceil(1024);
    let offer = |(shard, offer): (usize, &Option<ShardOffer>)| {
        offer.map(|offer| {
            let extra = if offer.avoided { AVOIDED_PRICE } else { 0 };
            let symbol_price = (offer.kib_price * symbol_kib).max(1);
            let (request_price, symbol_price) = match held.has_some(shard) {
                true => (0, 0),
                false => (offer.request_price + extra, symbol_price + extra),
            };
            Offer { combines: false, request_price, symbol_price }
        })
    };
    let recipe = code.recipe(wanted, &Offers(offers.shards.iter().enumerate().map(offer).collect()))?;
    Some(Computed { stripe, columns, recipe })
}

impl Computed {
    /// Where the columns of the recipe's inputs lie.
    pub(crate) fn reads<'a>(&'a self, geometry: &'a Geometry) -> impl Iterator<Item = Get> + 'a {
        self.recipe.reads.iter().map(|(shard, sub)| {
            let symbol = geometry.symbol_range(&self.stripe, *sub as u32).start;
            let payload = symbol + u64::from(self.columns.start)..symbol + u64::from(self.columns.end);
            Get { shard: *shard, payload }
        })
    }
}

/// The same gets, of whole frames, those of one shard merged where they touch or where the gap costs less than a request.
pub(crate) fn merged(gets: Vec<Get>, offers: &ShardOffers, held: &Held) -> Vec<Get> {
    let mut gets = gets;
    for get in &mut gets {
        get.payload = held.whole_frames(&get.payload);
    }
    gets.sort_by_key(|get| (get.shard, get.payload.start));
    let mut merged: Vec<Get> = Vec::new();
    for get in gets {
        match merged.last_mut() {
            Some(last)
                if last.shard == get.shard && gap_is_cheap(last.payload.end, get.payload.start, offers, get.shard) =>
            {
                last.payload.end = last.payload.end.max(get.payload.end);
            }
            _ => merged.push(get),
        }
    }
    merged
}

fn gap_is_cheap(end: u64, start: u64, offers: &ShardOffers, shard: usize) -> bool {
    let gap_kib = start.saturating_sub(end).div_ceil(1024);
    // Without prices, bytes are what counts.
    gap_kib == 0 || offers.shards[shard].is_some_and(|offer| gap_kib * offer.kib_price.max(1) < offer.request_price)
}
