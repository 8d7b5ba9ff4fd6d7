//! Segments as shard objects in memory, without nodes: for files that are encoded without a volume.
//!
//! The same stages as on the way to and from nodes, but for those that ask somebody: split and encode, plan and decode. A frame
//! that fails its check is an erasure by itself; the rest of its shard is used.

use crate::algebra::{Algebra, LoadedCode};
use crate::error::WriteError;
use crate::read::decode;
use crate::read::held::Held;
use crate::read::plan::{Computed, ShardOffer, ShardOffers, compute};
use crate::scheduler::Arrived;
use crate::write::encode::encode_here;
use crate::write::split::{Split, full_stripe_bytes, geometry};
use bytes::Bytes;
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;
use weft_codes::{Offer, Offers, Shape, Wanted};
use weft_format::geometry::{Geometry, MAX_SEGMENT_BYTES, Stripe};
use weft_format::shard::{
    CHECK_BYTES, FRAME_PAYLOAD_BYTES, HEADER_BYTES, ShardBuilder, ShardHeader, ShardIdentity, frame_count,
    verify_frames,
};
use weft_format::{Generation, SegmentId, ShardIndex, VolumeId};

/// Segments of about this many bytes are long enough that their fixed costs vanish, and short enough to be held.
const SEGMENT_BYTES: u64 = 16 << 20;

/// A code, ready to encode and decode segments.
#[derive(Clone)]
pub struct Coder {
    code: Arc<LoadedCode>,
}

/// Too little of a segment is left.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("bytes {} to {} of the segment cannot be had without shards {unusable:?}: bring one of them back", .data.start, .data.end)]
pub struct TooFew {
    /// Data bytes of the segment that are affected.
    pub data: Range<u64>,
    /// Shards that are missing or damaged there.
    pub unusable: Vec<usize>,
}

impl Coder {
    /// # Errors
    /// [`WriteError::Code`].
    pub fn new(spec: &str) -> Result<Self, WriteError> {
        let code =
            Algebra::default().load(spec).map_err(|detail| WriteError::Code { code: spec.to_owned(), detail })?;
        Ok(Self { code })
    }

    /// The code's shape.
    pub fn shape(&self) -> &Shape {
        self.code.shape()
    }

    /// Its canonical spec.
    pub fn spec(&self) -> &str {
        self.code.code.spec()
    }

    /// How a segment of a good length lies in its shards: whole stripes, about 16 MiB.
    ///
    /// # Errors
    /// [`WriteError::Size`]: the code's cells are too long for any segment.
    pub fn segment_geometry(&self, segment: SegmentId) -> Result<Geometry, WriteError> {
        let stripe_bytes = full_stripe_bytes(self.shape());
        let data_bytes = (SEGMENT_BYTES / stripe_bytes).max(1).saturating_mul(stripe_bytes).min(MAX_SEGMENT_BYTES);
        geometry(self.shape(), segment, data_bytes)
    }

    /// The shard objects of a segment, `data` cut as `geometry` says. They are of the first generation.
    ///
    /// # Errors
    /// [`WriteError`]: the geometry cannot be, or a header has no room for the code.
    pub fn encode(
        &self,
        volume: VolumeId,
        segment: SegmentId,
        geometry: Geometry,
        data: Bytes,
    ) -> Result<Vec<Bytes>, WriteError> {
        let n = self.shape().n;
        let (generation, code) = (Generation::FIRST, self.code.clone());
        let split = Split { segment, generation, code, geometry, quorum: n, least: n, data: vec![data] };
        Ok(encode_here(volume, &split)?.into_iter().map(|(object, _)| object).collect())
    }

    /// The shards that must be read to have all data, given which can be; `None` where these do not suffice.
    pub fn needed(&self, there: &[bool]) -> Option<Vec<usize>> {
        let alpha = self.shape().alpha;
        let home = |native: &usize| {
            let stored = self.code.homes[*native].iter().find(|stored| there[*stored / alpha])?;
            Some(stored / alpha)
        };
        let natives = 0..self.shape().native_count;
        let mut needed: BTreeSet<usize> = natives.clone().filter_map(|native| home(&native)).collect();
        let lost: Vec<usize> = natives.filter(|native| home(native).is_none()).collect();
        if !lost.is_empty() {
            let offer = |(shard, there): (usize, &bool)| {
                let price = u64::from(!needed.contains(&shard));
                there.then_some(Offer { combines: false, request_price: price, symbol_price: price })
            };
            let offers = Offers(there.iter().enumerate().map(offer).collect());
            let recipe = self.code.recipe(&Wanted::Natives(lost), &offers)?;
            needed.extend(recipe.reads.iter().map(|(shard, _)| *shard));
        }
        Some(needed.into_iter().collect())
    }

    /// What is left of a segment: `objects`, by shard index, as they were found; `None`: not there.
    pub fn survivors(
        &self,
        geometry: Geometry,
        identity: impl Fn(ShardIndex) -> ShardIdentity,
        objects: &[Option<Bytes>],
    ) -> Survivors {
        let mut survivors = Survivors {
            code: self.code.clone(),
            geometry,
            held: Held::new(objects.len()),
            sound: vec![Vec::new(); objects.len()],
            headers: vec![false; objects.len()],
        };
        for (shard, object) in objects.iter().enumerate() {
            if let Some(object) = object {
                survivors.take_in(shard, identity(ShardIndex(shard as u16)), object);
            }
        }
        survivors
    }
}

/// What is left of a segment, checked.
pub struct Survivors {
    code: Arc<LoadedCode>,
    geometry: Geometry,
    held: Held,
    /// By shard and frame; empty for a shard that is not there.
    sound: Vec<Vec<bool>>,
    headers: Vec<bool>,
}

const FRAME: u64 = FRAME_PAYLOAD_BYTES as u64;

impl Survivors {
    fn take_in(&mut self, shard: usize, identity: ShardIdentity, object: &Bytes) {
        let payload_bytes = self.geometry.payload_bytes();
        let header = ShardHeader::decode(object);
        self.headers[shard] =
            header.is_ok_and(|header| header.identity == identity && header.geometry == self.geometry);
        let raw_of = |frames: Range<u64>| {
            let end = (frames.end * FRAME).min(payload_bytes);
            let start = HEADER_BYTES + frames.start as usize * (FRAME_PAYLOAD_BYTES + CHECK_BYTES);
            let bytes = (end - frames.start * FRAME) as usize + (frames.end - frames.start) as usize * CHECK_BYTES;
            (frames.start * FRAME..end, object.get(start..start + bytes).map(|_| object.slice(start..start + bytes)))
        };
        let is_sound = |frames: Range<u64>| {
            let (payload, raw) = raw_of(frames);
            raw.is_some_and(|raw| verify_frames(&identity, payload_bytes, payload, &raw).is_ok())
        };
        let count = frame_count(payload_bytes);
        self.sound[shard] = match is_sound(0..count) {
            true => vec![true; count as usize],
            false => (0..count).map(|frame| is_sound(frame..frame + 1)).collect(),
        };
        let mut frame = 0;
        for run in self.sound[shard].chunk_by(|a, b| a == b) {
            let frames = frame..frame + run.len() as u64;
            frame = frames.end;
            if let (true, (payload, Some(raw))) = (run[0], raw_of(frames)) {
                self.held.insert(shard, payload, raw);
            }
        }
    }

    /// Is the shard there, and every byte of it right?
    pub fn is_sound(&self, shard: usize) -> bool {
        self.headers[shard] && self.has_all_frames(shard)
    }

    fn has_all_frames(&self, shard: usize) -> bool {
        !self.sound[shard].is_empty() && self.sound[shard].iter().all(|sound| *sound)
    }

    /// The segment's data, into `out`, which is as long.
    ///
    /// # Errors
    /// [`TooFew`]; what `out` holds then means nothing.
    pub fn read(&self, out: &mut [u8]) -> Result<(), TooFew> {
        let Self { code, geometry, held, .. } = self;
        let alpha = geometry.alpha as usize;
        for stripe in geometry.stripes() {
            for (columns, usable) in self.parts(&stripe) {
                let mut lost = Vec::new();
                for (native, homes) in code.homes.iter().enumerate() {
                    let range = geometry.native_range(&stripe, native as u32);
                    let from = range.start + u64::from(columns.start);
                    let to = (range.start + u64::from(columns.end)).min(range.end);
                    if from >= to {
                        continue;
                    }
                    match homes.iter().find(|stored| usable[*stored / alpha]) {
                        Some(stored) => {
                            let symbol = geometry.symbol_range(&stripe, (stored % alpha) as u32);
                            let at = symbol.start + u64::from(columns.start);
                            held.copy(stored / alpha, at, &mut out[from as usize..to as usize]);
                        }
                        None => lost.push(native),
                    }
                }
                if lost.is_empty() {
                    continue;
                }
                let computed = self.compute(&stripe, columns, Wanted::Natives(lost.clone()), &usable)?;
                decode::run(
                    geometry,
                    |shard, at| held.slice(shard, at),
                    &computed,
                    |output, column, bytes| {
                        let range = geometry.native_range(&stripe, lost[output] as u32);
                        let from = range.start + u64::from(column);
                        let to = (from + bytes.len() as u64).min(range.end);
                        if from < to {
                            out[from as usize..to as usize].copy_from_slice(&bytes[..(to - from) as usize]);
                        }
                    },
                );
            }
        }
        Ok(())
    }

    /// These shards' objects, whole again: byte for byte what was encoded.
    ///
    /// # Errors
    /// [`TooFew`].
    pub fn rebuild(
        &self,
        identity: impl Fn(ShardIndex) -> ShardIdentity,
        shards: &[usize],
    ) -> Result<Vec<Bytes>, TooFew> {
        let Self { code, geometry, held, .. } = self;
        let alpha = geometry.alpha as usize;
        let builder = |shard: &usize| {
            let identity = identity(ShardIndex(*shard as u16));
            ShardBuilder::new(&ShardHeader { identity, code: code.code.spec().into(), geometry: *geometry })
                .expect("the others have this header, but for the index")
        };
        let mut builders: Vec<ShardBuilder> = shards.iter().map(builder).collect();
        let within = "a symbol lies within its shard";
        for stripe in geometry.stripes() {
            for (columns, usable) in self.parts(&stripe) {
                let mut bytes = vec![0; columns.len()];
                for (position, shard) in shards.iter().enumerate().filter(|(_, shard)| usable[**shard]) {
                    for sub in 0..geometry.alpha {
                        let at = geometry.symbol_range(&stripe, sub).start + u64::from(columns.start);
                        held.copy(*shard, at, &mut bytes);
                        builders[position].write(at, &bytes).expect(within);
                    }
                }
                let lost: Vec<usize> = (0..shards.len()).filter(|position| !usable[shards[*position]]).collect();
                if lost.is_empty() {
                    continue;
                }
                let wanted = Wanted::Shards(lost.iter().map(|position| shards[*position]).collect());
                let computed = self.compute(&stripe, columns, wanted, &usable)?;
                decode::run(
                    geometry,
                    |shard, at| held.slice(shard, at),
                    &computed,
                    |output, column, bytes| {
                        let symbol = geometry.symbol_range(&stripe, (output % alpha) as u32);
                        let builder = &mut builders[lost[output / alpha]];
                        builder.write(symbol.start + u64::from(column), bytes).expect(within);
                    },
                );
            }
        }
        Ok(builders.into_iter().map(|builder| builder.finish().0).collect())
    }

    /// The stripe's columns, and which shards are sound there: in rows of frames where symbols are whole frames.
    fn parts(&self, stripe: &Stripe) -> Vec<(Range<u32>, Vec<bool>)> {
        let shards = 0..self.sound.len();
        let symbol_bytes = stripe.symbol_bytes;
        if shards.clone().all(|shard| self.has_all_frames(shard) || self.sound[shard].is_empty()) {
            let usable = shards.map(|shard| self.has_all_frames(shard)).collect();
            return vec![(0..symbol_bytes, usable)];
        }
        let begins_with_frame = stripe.cell.start.is_multiple_of(FRAME);
        let in_rows = begins_with_frame && (self.geometry.alpha == 1 || u64::from(symbol_bytes).is_multiple_of(FRAME));
        let step = if in_rows { FRAME_PAYLOAD_BYTES } else { symbol_bytes as usize };
        let mut parts: Vec<(Range<u32>, Vec<bool>)> = Vec::new();
        for start in (0..symbol_bytes).step_by(step) {
            let columns = start..symbol_bytes.min(start + step as u32);
            let usable: Vec<bool> = shards.clone().map(|shard| self.is_usable(shard, stripe, &columns)).collect();
            match parts.last_mut() {
                Some((last, same)) if *same == usable => last.end = columns.end,
                _ => parts.push((columns, usable)),
            }
        }
        parts
    }

    fn is_usable(&self, shard: usize, stripe: &Stripe, columns: &Range<u32>) -> bool {
        let is_sound = |sub| {
            let symbol = self.geometry.symbol_range(stripe, sub).start;
            let (start, end) = (symbol + u64::from(columns.start), symbol + u64::from(columns.end));
            let frames = (start / FRAME) as usize..end.div_ceil(FRAME) as usize;
            self.sound[shard].get(frames).is_some_and(|sound| sound.iter().all(|sound| *sound))
        };
        (0..self.geometry.alpha).all(is_sound)
    }

    fn compute(
        &self,
        stripe: &Stripe,
        columns: Range<u32>,
        wanted: Wanted,
        usable: &[bool],
    ) -> Result<Computed, TooFew> {
        let offer = ShardOffer { request_price: 1, kib_price: 1, reluctance: 0 };
        let offers = ShardOffers::plain(usable.iter().map(|usable| usable.then_some(offer)).collect());
        // All is at hand, so the fewest symbols are the cheapest.
        let nothing = Arrived::nothing(usable.len(), self.geometry.payload_bytes());
        compute(&self.code, &self.geometry, stripe.clone(), columns, &wanted, &offers, &nothing).ok_or_else(|| {
            let unusable = (0..usable.len()).filter(|shard| !usable[*shard]).collect();
            TooFew { data: stripe.data.clone(), unusable }
        })
    }
}

#[cfg(test)]
#[path = "objects_tests.rs"]
mod tests;
