//! Segments as shard objects in memory, without nodes: for files and streams that are encoded without a volume (`shard_files.rs`).
//!
//! The same stages as on the way to and from nodes, but for those that ask somebody: split and encode, plan and decode. A frame
//! that fails its check is an erasure by itself; the rest of its shard is used.

pub use crate::survivors::{Survivors, TooFew};

use crate::algebra::{Algebra, LoadedCode};
use crate::error::WriteError;
use crate::write::encode::encode_here;
use crate::write::split::{Split, full_stripe_bytes, geometry};
use bytes::Bytes;
use std::collections::BTreeSet;
use std::sync::Arc;
use weft_codes::{Offer, Offers, Shape, Wanted};
use weft_format::geometry::{Geometry, MAX_SEGMENT_BYTES};
use weft_format::shard::Digest;
use weft_format::{Generation, SegmentId, VolumeId};

/// Segments of about this many bytes are long enough that their fixed costs vanish, and short enough that those of a stream, which are in
/// several hands at once, take little memory.
const SEGMENT_BYTES: u64 = 4 << 20;

/// A code, ready to encode and decode segments.
#[derive(Clone)]
pub struct Coder {
    code: Arc<LoadedCode>,
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

    /// How a segment of a good length lies in its shards: whole stripes, about 4 MiB, or one stripe of a code whose stripes are longer.
    ///
    /// # Errors
    /// [`WriteError::Size`]: the code's cells are too long for any segment.
    pub fn segment_geometry(&self, segment: SegmentId) -> Result<Geometry, WriteError> {
        let stripe_bytes = full_stripe_bytes(self.shape());
        let data_bytes = (SEGMENT_BYTES / stripe_bytes).max(1).saturating_mul(stripe_bytes).min(MAX_SEGMENT_BYTES);
        geometry(self.shape(), segment, data_bytes)
    }

    /// The shard objects of a segment, `data` cut as `geometry` says, with the digests of their payloads. They are of the first generation.
    ///
    /// # Errors
    /// [`WriteError`]: the geometry cannot be, or a header has no room for the code.
    pub fn encode(
        &self,
        volume: VolumeId,
        segment: SegmentId,
        geometry: Geometry,
        data: Bytes,
    ) -> Result<Vec<(Bytes, Digest)>, WriteError> {
        let n = self.shape().n;
        let (generation, code) = (Generation::FIRST, self.code.clone());
        let split =
            Split { segment, generation, code, geometry, quorum: n, least: n, has_margin: true, data: vec![data] };
        encode_here(volume, &split)
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

    /// Nothing of a segment is there yet.
    pub(crate) fn survivors(&self, geometry: Geometry) -> Survivors {
        Survivors::nothing(self.code.clone(), geometry)
    }
}

#[cfg(test)]
#[path = "objects_tests.rs"]
mod tests;
