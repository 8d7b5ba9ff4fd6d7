//! Plans of reads and rebuilds: what to fetch of which shards, and what to compute from it. Pure: the state of the nodes comes in as
//! offers. `read/plan.rs` and `rebuild.rs` put them together.

use crate::algebra::{LoadedCode, Recipe};
use crate::arrived::Arrived;
use std::ops::Range;
use std::sync::Arc;
use weft_codes::{Offer, Offers, Wanted};
use weft_format::geometry::{Geometry, Stripe};
use weft_format::shard::FRAME_PAYLOAD_BYTES;

/// Added to the prices of a node that is avoided: more than any number of others, so that it is read only where nothing else
/// does.
pub(crate) const AVOIDED: u64 = 1 << 48;

/// What may be read from each shard.
pub(crate) struct ShardOffers {
    /// `None`: it failed, or has no place.
    pub(crate) shards: Vec<Option<ShardOffer>>,
    /// Is data to be read plainly wherever it is offered without reluctance? Otherwise prices alone decide.
    pub(crate) data_first: bool,
    /// Do they steer round nodes only because these are slow?
    pub(crate) goes_round_slow_ones: bool,
}

impl ShardOffers {
    /// What is offered without anything to be said against it.
    pub(crate) fn plain(shards: Vec<Option<ShardOffer>>) -> Self {
        Self { shards, data_first: true, goes_round_slow_ones: false }
    }
}

/// What reading one shard costs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ShardOffer {
    pub(crate) request_price: u64,
    pub(crate) kib_price: u64,
    /// Added to both prices; from [`AVOIDED`] on, only where nothing else does.
    pub(crate) reluctance: u64,
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

/// The computation of `wanted` in one stripe from the cheapest symbols offered. What has come costs nothing, even of shards
/// that are offered no longer.
pub(crate) fn compute(
    code: &LoadedCode,
    geometry: &Geometry,
    stripe: Stripe,
    columns: Range<u32>,
    wanted: &Wanted,
    offers: &ShardOffers,
    arrived: &Arrived,
) -> Option<Computed> {
    // Priced for a full symbol, so that all stripes of a segment share one recipe.
    let symbol_kib = u64::from(geometry.symbol_bytes).div_ceil(1024);
    let recipe = |symbols_of_a_request: u64, symbols_of_a_symbol: u64| {
        let price = |offer: ShardOffer| {
            let symbol_price = (offer.kib_price * symbol_kib).max(1);
            let request_price = offer.request_price + symbol_price * symbols_of_a_request;
            Offer { combines: false, request_price, symbol_price: symbol_price * symbols_of_a_symbol }
        };
        let recipe = code.recipe(wanted, &symbol_offers(geometry, &stripe, &columns, offers, arrived, price))?;
        Some(Computed { stripe: stripe.clone(), columns: columns.clone(), recipe })
    };
    let by_symbols = recipe(0, 1)?;
    if geometry.alpha == 1 || u64::from(stripe.symbol_bytes) >= FRAME_PAYLOAD_BYTES as u64 {
        return Some(by_symbols);
    }
    // Symbols of a short stripe come with others in their frames, wanted or not: then fewer shards may be fewer bytes.
    let by_shards = recipe(u64::from(geometry.alpha), 0)?;
    let bytes = |computed: &Computed| {
        let gets = merged(computed.reads(geometry).collect(), offers, arrived);
        gets.iter().map(|get| get.payload.end - get.payload.start).sum::<u64>()
    };
    Some(if bytes(&by_shards) < bytes(&by_symbols) { by_shards } else { by_symbols })
}

/// What the shards are offered for, `price` being that of one without anything to be said for or against it.
fn symbol_offers(
    geometry: &Geometry,
    stripe: &Stripe,
    columns: &Range<u32>,
    offers: &ShardOffers,
    arrived: &Arrived,
    price: impl Fn(ShardOffer) -> Offer,
) -> Offers {
    let parts = |sub| {
        let symbol = geometry.symbol_range(stripe, sub).start;
        symbol + u64::from(columns.start)..symbol + u64::from(columns.end)
    };
    let offer = |(shard, offer): (usize, &Option<ShardOffer>)| {
        let is_begun = (0..geometry.alpha).any(|sub| arrived.touches(shard, &parts(sub)));
        if is_begun && (0..geometry.alpha).all(|sub| arrived.covers(shard, &parts(sub))) {
            return Some(Offer { combines: false, request_price: 0, symbol_price: 0 });
        }
        offer.map(|offer| {
            let Offer { combines, request_price, symbol_price } = price(offer);
            // Of a shard that was begun, the rest is better than what was not; but for one that is avoided by now. Its symbols
            // cost what they cost: most of them may be none that the plan reads.
            let request_price = if is_begun && offer.reluctance < AVOIDED { 0 } else { request_price };
            let symbol_price = symbol_price + offer.reluctance;
            Offer { combines, request_price: request_price + offer.reluctance, symbol_price }
        })
    };
    Offers(offers.shards.iter().enumerate().map(offer).collect())
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
pub(crate) fn merged(gets: Vec<Get>, offers: &ShardOffers, arrived: &Arrived) -> Vec<Get> {
    let mut gets = gets;
    for get in &mut gets {
        get.payload = arrived.whole_frames(&get.payload);
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
