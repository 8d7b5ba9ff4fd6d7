//! Making one segment of several, under a wider code: their data shards stay where they are and as they are, and only the other
//! shards are computed and stored. As HDFS-RAID does with copies: one of each stays, the parities are over all of them. And the way
//! back, while what the parts were is still there.
//!
//! ```text
//! stays (which shards: pure) -> verify those -> compute the others from them, as a rebuild does -> verify what was written
//!   -> a record, for the caller to commit together with where the bytes of files are now
//! ```

use super::choose::{Joiner, Stays, domain_of, fit, stays};
use super::{Recoded, plain_bytes};
use crate::error::RecodeError;
use crate::transfer::Transfer;
use weft_format::records::{Origin, SegmentRecord, ShardLocation};
use weft_format::{SegmentId, ShardIndex};

impl Transfer {
    /// Finds segments to be joined, going by how the nodes are now.
    pub fn joiner(&self) -> Joiner {
        Joiner::new(self.inner.algebra.clone(), self.inner.fleet.view(), self.inner.fleet.now_ms())
    }

    /// Stores what `parts` lack to be one segment of `code`, their data one after the other, in their order. `segment` is a new id.
    /// Overwrites nothing, removes nothing that another attempt stored.
    ///
    /// # Errors
    /// [`RecodeError`]; the segments are as they were, and what was stored is removed as far as nodes answer.
    pub async fn join(
        &self,
        segment: SegmentId,
        parts: &[(SegmentId, SegmentRecord)],
        code: &str,
    ) -> Result<Recoded, RecodeError> {
        let unfit = || RecodeError::Unfit { segment, part_count: parts.len(), code: code.into() };
        let (_, first) = parts.first().ok_or_else(unfit)?;
        let (view, now_ms) = (self.inner.fleet.view(), self.inner.fleet.now_ms());
        let fit = fit(&self.inner.algebra, &view, first, code).filter(|fit| fit.part_count == parts.len());
        let is_alike = |record: &SegmentRecord| (&record.code, record.geometry) == (&first.code, first.geometry);
        let records: Vec<&SegmentRecord> = parts.iter().map(|(_, record)| record).collect();
        let fit = fit.filter(|_| records.iter().all(|record| is_alike(record))).ok_or_else(unfit)?;
        let stays = stays(&fit, &records, domain_of(&view, now_ms)).ok_or_else(unfit)?;
        let mut begun = begun(parts, &stays, code);
        let bytes_verified = self.keep_sound(segment, &mut begun).await;
        if let Some(index) = (0..stays.len()).find(|index| stays[*index].is_some() && begun.shards[*index].is_none()) {
            return Err(RecodeError::Unsound { segment, index: ShardIndex(index as u16) });
        }
        let missing_count = stays.iter().filter(|stays| stays.is_none()).count();
        let recoded = self.complete(segment, &begun).await;
        let recoded = recoded.ok_or(RecodeError::Short { segment, missing_count })?;
        let mut recoded = self.proven(segment, recoded, &begun).await?;
        recoded.bytes_verified += bytes_verified;
        let of_one = plain_bytes(&self.inner.algebra, segment, code, first.geometry.data_bytes)?;
        recoded.count_saved(of_one * parts.len() as u64);
        Ok(recoded)
    }

    /// Stores what `former`, which was joined with others and has this record, lacks to be a segment by itself again, under the new id
    /// `segment`: nothing, where its shards are sound. Overwrites nothing, removes nothing that another attempt stored.
    ///
    /// # Errors
    /// [`RecodeError`]; what was stored is removed as far as nodes answer.
    pub async fn unjoin(
        &self,
        segment: SegmentId,
        former: SegmentId,
        record: &SegmentRecord,
    ) -> Result<Recoded, RecodeError> {
        let unfit = || RecodeError::Former { former };
        let mut begun = record.clone();
        for (index, shard) in begun.shards.iter_mut().enumerate() {
            *shard = shard.take().map(|location| lent(former, index, &location));
        }
        let bytes_verified = self.keep_sound(segment, &mut begun).await;
        let recoded = self.complete(segment, &begun).await.ok_or_else(unfit)?;
        let mut recoded = self.proven(segment, recoded, &begun).await?;
        recoded.bytes_verified += bytes_verified;
        let of_one = plain_bytes(&self.inner.algebra, segment, &record.code, record.geometry.data_bytes)?;
        recoded.count_saved(of_one);
        Ok(recoded)
    }
}

/// The place of a shard as that of another segment, which keeps its name.
fn lent(segment: SegmentId, index: usize, location: &ShardLocation) -> ShardLocation {
    let own = Origin { segment, index: ShardIndex(index as u16) };
    ShardLocation { origin: Some(location.origin.unwrap_or(own)), ..location.clone() }
}

/// The record of the whole, with the shards that stay.
fn begun(parts: &[(SegmentId, SegmentRecord)], stays: &Stays, code: &str) -> SegmentRecord {
    let newest = parts.iter().map(|(_, record)| record.generation).max().expect("there are parts");
    let location = |(part, index): (usize, usize)| {
        let (segment, record) = &parts[part];
        lent(*segment, index, record.shards[index].as_ref().expect("what stays is there"))
    };
    SegmentRecord {
        code: code.into(),
        geometry: parts[0].1.geometry.joined(parts.len() as u32),
        generation: newest,
        shards: stays.iter().map(|stays| stays.map(location)).collect(),
    }
}
