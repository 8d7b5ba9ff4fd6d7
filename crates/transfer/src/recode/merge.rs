//! Making one segment of several, under a wider code: their data shards stay where they are and as they are, and only the other
//! shards are computed and stored. As HDFS-RAID does with copies: one of each stays, the parities are over all of them.
//!
//! ```text
//! kept (which shards: pure) -> verify those -> compute the others from them, as a rebuild does -> verify what was written
//!   -> a record, for the caller to commit together with where the bytes of files are now
//! ```

use super::choose::{Kept, MergeCandidates, domain_of, fit, kept};
use super::{Recoded, plain_bytes};
use crate::error::RecodeError;
use crate::in_flight::Call;
use crate::transfer::Transfer;
use crate::write::split::recut;
use weft_format::geometry::Geometry;
use weft_format::records::{Origin, SegmentRecord, ShardLocation};
use weft_format::{SegmentId, ShardIndex};

impl Transfer {
    /// Finds segments to be merged, going by how the nodes are now.
    pub fn merge_candidates(&self) -> MergeCandidates {
        MergeCandidates::new(self.inner.algebra.clone(), self.inner.fleet.view(), self.inner.fleet.now_ms())
    }

    /// Stores what `sources` lack to be one segment of `code`, their data one after the other, in their order. `segment` is a new
    /// id. Overwrites nothing, removes nothing that another attempt stored.
    ///
    /// # Errors
    /// [`RecodeError`]; the segments are as they were, and what was stored is removed as far as nodes answer.
    pub fn merge<'a>(
        &'a self,
        segment: SegmentId,
        sources: &'a [(SegmentId, SegmentRecord)],
        code: &'a str,
    ) -> Call<'a, Result<Recoded, RecodeError>> {
        Box::pin(async move {
            let unfit = || RecodeError::Unfit { segment, source_count: sources.len(), code: code.into() };
            let (_, first) = sources.first().ok_or_else(unfit)?;
            let (view, now_ms) = (self.inner.fleet.view(), self.inner.fleet.now_ms());
            let fit = fit(&self.inner.algebra, &view, first, code).filter(|(fit, _)| fit.source_count == sources.len());
            let is_alike = |record: &SegmentRecord| (&record.code, record.geometry) == (&first.code, first.geometry);
            let records: Vec<&SegmentRecord> = sources.iter().map(|(_, record)| record).collect();
            let fit = fit.filter(|_| records.iter().all(|record| is_alike(record)));
            let (fit, domain_shards) = fit.ok_or_else(unfit)?;
            let kept = kept(&fit, &records, domain_shards, domain_of(&view, now_ms)).ok_or_else(unfit)?;
            let new = self.inner.algebra.load(code);
            let new = new.map_err(|detail| RecodeError::Code { code: code.into(), detail })?;
            let geometry = recut(&first.geometry, new.shape(), sources.len() as u32).ok_or_else(unfit)?;
            let mut begun = begun(sources, &kept, code, geometry);
            let bytes_verified = self.keep_sound(segment, &mut begun).await;
            if let Some(index) = (0..kept.len()).find(|index| kept[*index].is_some() && begun.shards[*index].is_none())
            {
                return Err(RecodeError::Unsound { segment, index: ShardIndex(index as u16) });
            }
            let missing_count = kept.iter().filter(|kept| kept.is_none()).count();
            let recoded = self.complete(segment, &begun).await;
            let recoded = recoded.ok_or(RecodeError::Short { segment, missing_count })?;
            let mut recoded = self.proven(segment, recoded, &begun).await?;
            recoded.bytes_verified += bytes_verified;
            let of_one = plain_bytes(&self.inner.algebra, segment, code, first.geometry.data_bytes)?;
            recoded.count_saved(of_one * sources.len() as u64);
            Ok(recoded)
        })
    }
}

/// The place of a shard as that of another segment: it keeps its name.
fn aliased(segment: SegmentId, index: usize, location: &ShardLocation) -> ShardLocation {
    let own = Origin { segment, index: ShardIndex(index as u16) };
    ShardLocation { origin: Some(location.origin.unwrap_or(own)), ..location.clone() }
}

/// The record of the merged segment, with the shards that are kept.
fn begun(sources: &[(SegmentId, SegmentRecord)], kept: &Kept, code: &str, geometry: Geometry) -> SegmentRecord {
    let newest = sources.iter().map(|(_, record)| record.generation).max().expect("there are sources");
    let location = |(source, index): (usize, usize)| {
        let (source, record) = &sources[source];
        aliased(*source, index, record.shards[index].as_ref().expect("what is kept is there"))
    };
    SegmentRecord {
        code: code.into(),
        geometry,
        generation: newest,
        shards: kept.iter().map(|kept| kept.map(location)).collect(),
    }
}
