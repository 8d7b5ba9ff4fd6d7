//! What is left of a segment, frame by frame: a frame that fails its check is an erasure by itself, and the rest of its shard is used.

use crate::algebra::LoadedCode;
use crate::arrived::Arrived;
use crate::read::decode;
use crate::read::held::Held;
use crate::read_plan::{Computed, ShardOffer, ShardOffers, compute};
use crate::soundness::{Soundness, Usable, check_frames, payload_of, raw_of};
use bytes::Bytes;
use std::ops::Range;
use std::sync::Arc;
use weft_codes::Wanted;
use weft_format::ShardIndex;
use weft_format::geometry::{Geometry, Stripe};
use weft_format::shard::{Digest, ShardBuilder, ShardHeader, ShardIdentity, frame_count};

/// Too little of a segment is left.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("bytes {} to {} of the segment cannot be had without shards {unusable:?}: bring one of them back", .data.start, .data.end)]
pub struct TooFew {
    /// Data bytes of the segment that are affected.
    pub data: Range<u64>,
    /// Shards that are missing or damaged there.
    pub unusable: Vec<usize>,
}

/// What is left of a segment, checked.
pub struct Survivors {
    code: Arc<LoadedCode>,
    held: Held,
    soundness: Soundness,
    headers: Vec<bool>,
}

impl Survivors {
    /// Nothing is left yet.
    pub(crate) fn nothing(code: Arc<LoadedCode>, geometry: Geometry) -> Self {
        let count = code.shape().n;
        Self {
            held: Held::new(count),
            soundness: Soundness::new(geometry, vec![Usable::Nothing; count]),
            headers: vec![false; count],
            code,
        }
    }

    /// Takes in what was found of a shard's object: its header, and what follows it.
    pub(crate) fn take_in_object(&mut self, shard: usize, identity: &ShardIdentity, header: &[u8], raw: &Bytes) {
        let geometry = self.soundness.geometry();
        let header = ShardHeader::decode(header);
        let is_right = header.is_ok_and(|header| header.identity == *identity && header.geometry == *geometry);
        let frames = 0..frame_count(geometry.payload_bytes());
        self.headers[shard] = is_right;
        self.take_in(shard, identity, frames, raw);
    }

    /// Takes in frames of a shard as they lie. Those that cannot be used, in runs.
    pub(crate) fn take_in(
        &mut self,
        shard: usize,
        identity: &ShardIdentity,
        frames: Range<u64>,
        raw: &Bytes,
    ) -> Vec<Range<u64>> {
        let payload_bytes = self.soundness.geometry().payload_bytes();
        let mut unsound = Vec::new();
        for (run, is_sound) in check_frames(identity, payload_bytes, frames.clone(), raw) {
            self.soundness.set(shard, run.clone(), is_sound);
            match is_sound {
                true => {
                    let bytes = raw.slice(raw_of(&run, &frames, payload_bytes));
                    self.held.insert(shard, payload_of(run, payload_bytes), bytes);
                }
                false => unsound.push(run),
            }
        }
        unsound
    }

    /// Is there nothing that can be used?
    pub(crate) fn is_empty(&self) -> bool {
        self.soundness.is_empty()
    }

    /// Is the shard there, and every byte of it right?
    pub fn is_sound(&self, shard: usize) -> bool {
        self.headers[shard] && self.soundness.has_all(shard)
    }

    /// The segment's data, into `out`, which is as long.
    ///
    /// # Errors
    /// [`TooFew`]; what `out` holds then means nothing.
    pub fn read(&self, out: &mut [u8]) -> Result<(), TooFew> {
        let geometry = *self.soundness.geometry();
        self.read_range(0..geometry.stripe_count(), 0..geometry.data_bytes, out)
    }

    /// Data bytes `range` of the segment, into `out`, which is as long; they lie in these stripes, which were taken in.
    ///
    /// # Errors
    /// [`TooFew`]; what `out` holds then means nothing.
    pub(crate) fn read_range(&self, stripes: Range<u32>, range: Range<u64>, out: &mut [u8]) -> Result<(), TooFew> {
        let Self { code, held, soundness, .. } = self;
        let geometry = soundness.geometry();
        let alpha = geometry.alpha as usize;
        // Which bytes of a native symbol's columns are wanted.
        let wanted = |stripe: &Stripe, native: usize, columns: &Range<u32>| {
            let data = geometry.native_range(stripe, native as u32);
            let from = (data.start + u64::from(columns.start)).max(range.start);
            let to = (data.start + u64::from(columns.end)).min(data.end).min(range.end);
            (from < to).then_some((data.start, from..to))
        };
        for stripe in stripes.map(|index| geometry.stripe(index)) {
            for (columns, usable) in soundness.parts(&stripe) {
                let mut lost = Vec::new();
                for (native, homes) in code.homes.iter().enumerate() {
                    let Some((start, data)) = wanted(&stripe, native, &columns) else { continue };
                    match homes.iter().find(|stored| usable[*stored / alpha]) {
                        Some(stored) => {
                            let symbol = geometry.symbol_range(&stripe, (stored % alpha) as u32).start;
                            let place = (data.start - range.start) as usize..(data.end - range.start) as usize;
                            held.copy(stored / alpha, symbol + data.start - start, &mut out[place]);
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
                        let columns = column..column + bytes.len() as u32;
                        let Some((start, data)) = wanted(&stripe, lost[output], &columns) else { return };
                        let first = (data.start - start - u64::from(column)) as usize;
                        let place = (data.start - range.start) as usize..(data.end - range.start) as usize;
                        let length = place.len();
                        out[place].copy_from_slice(&bytes[first..first + length]);
                    },
                );
            }
        }
        Ok(())
    }

    /// These shards' objects, whole again: byte for byte what was encoded, with the digests of their payloads.
    ///
    /// # Errors
    /// [`TooFew`].
    pub fn rebuild(
        &self,
        identity: impl Fn(ShardIndex) -> ShardIdentity,
        shards: &[usize],
    ) -> Result<Vec<(Bytes, Digest)>, TooFew> {
        let geometry = *self.soundness.geometry();
        let builder = |shard: &usize| {
            let identity = identity(ShardIndex(*shard as u16));
            ShardBuilder::new(&ShardHeader { identity, code: self.code.code.spec().into(), geometry })
                .expect("the others have this header, but for the index")
        };
        let mut builders: Vec<ShardBuilder> = shards.iter().map(builder).collect();
        self.rebuild_into(0..geometry.stripe_count(), shards, &mut builders)?;
        Ok(builders.into_iter().map(ShardBuilder::finish).collect())
    }

    /// Writes these stripes' cells of `shards`: what is sound of them as it is, the rest computed.
    ///
    /// # Errors
    /// [`TooFew`].
    pub(crate) fn rebuild_into(
        &self,
        stripes: Range<u32>,
        shards: &[usize],
        builders: &mut [ShardBuilder],
    ) -> Result<(), TooFew> {
        let Self { held, soundness, .. } = self;
        let geometry = soundness.geometry();
        let alpha = geometry.alpha as usize;
        let within = "a symbol lies within its shard";
        for stripe in stripes.map(|index| geometry.stripe(index)) {
            for (columns, usable) in soundness.parts(&stripe) {
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
        Ok(())
    }

    fn compute(
        &self,
        stripe: &Stripe,
        columns: Range<u32>,
        wanted: Wanted,
        usable: &[bool],
    ) -> Result<Computed, TooFew> {
        let geometry = self.soundness.geometry();
        let offer = ShardOffer { request_price: 1, kib_price: 1, reluctance: 0 };
        let offers = ShardOffers::plain(usable.iter().map(|usable| usable.then_some(offer)).collect());
        // All is at hand, so the fewest symbols are the cheapest.
        let nothing = Arrived::nothing(usable.len(), geometry.payload_bytes());
        compute(&self.code, geometry, stripe.clone(), columns, &wanted, &offers, &nothing).ok_or_else(|| {
            let unusable = (0..usable.len()).filter(|shard| !usable[*shard]).collect();
            TooFew { data: stripe.data.clone(), unusable }
        })
    }
}
