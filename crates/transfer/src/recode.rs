//! Giving a segment another code: the same bytes, under new names, while the old shards stay where they are.
//!
//! ```text
//! begin (which shards there are that the new code would hold too: pure) -> verify those
//!   -> rebuild the others from them, or, where they do not suffice, read the data and write every shard
//!   -> verify what was written -> a record, for the caller to commit
//! ```
//!
//! Which shards serve both codes is in `shared_shards.rs`: the data shards of all systematic codes with as many of them, some parities,
//! and copies. A shard of `replica` has all data and one of `rs:4+2` a quarter: of one segment nothing can be kept between these. Of
//! several it can (`recode/merge.rs`).

mod choose;
mod merge;

pub use choose::MergeCandidates;

use crate::algebra::Algebra;
use crate::error::RecodeError;
use crate::in_flight::Call;
use crate::remove::withdraw;
use crate::transfer::Transfer;
use crate::verify::ShardHealth;
use crate::write::encode::encode;
use crate::write::place::place_now;
use crate::write::put::put;
use crate::write::receipt::receipt;
use crate::write::split::{geometry, recut, split_as};
use std::sync::Arc;
use weft_env::planted::{Planted, has_planted};
use weft_format::records::SegmentRecord;
use weft_format::shard::object_bytes;
use weft_format::{Generation, NodeId, SegmentId, ShardIndex, ShardKey};

/// What a conversion leaves behind: commit `record`, and only then retain what it replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recoded {
    /// The segment under its new code; every shard of it is stored and was read back.
    pub record: SegmentRecord,
    /// Shards that were there before and are named again.
    pub reused_count: u64,
    /// Shards written.
    pub written_count: u64,
    /// Bytes that nodes sent to compute from.
    pub bytes_read: u64,
    /// Bytes stored, headers and checksums included.
    pub bytes_written: u64,
    /// Bytes read back and checked against the record.
    pub bytes_verified: u64,
    /// What it would have read and written more without reuse: the data once, and every shard.
    pub bytes_saved: u64,
}

impl Recoded {
    /// What was saved of `plain_bytes`, those of reading the data once and writing every shard.
    fn count_saved(&mut self, plain_bytes: u64) {
        self.bytes_saved = plain_bytes.saturating_sub(self.bytes_read + self.bytes_written);
    }
}

/// Bytes read and written to store `data_bytes` under a code anew.
fn plain_bytes(algebra: &Algebra, segment: SegmentId, code: &str, data_bytes: u64) -> Result<u64, RecodeError> {
    let code = algebra.load(code).map_err(|detail| RecodeError::Code { code: code.into(), detail })?;
    let shard_bytes = object_bytes(geometry(code.shape(), segment, data_bytes)?.payload_bytes());
    Ok(data_bytes + shard_bytes * code.shape().n as u64)
}

impl Transfer {
    /// Stores a segment under another code. `previous`: a record of it with that very code whose shards may still be there.
    /// Overwrites nothing, removes nothing that another attempt stored: several may be under way, as of [`Self::rebuild`].
    ///
    /// # Errors
    /// [`RecodeError`]; the segment is as it was, and what was stored is removed as far as nodes answer.
    pub fn recode<'a>(
        &'a self,
        segment: SegmentId,
        record: &'a SegmentRecord,
        code: &'a str,
        previous: Option<&'a SegmentRecord>,
    ) -> Call<'a, Result<Recoded, RecodeError>> {
        Box::pin(async move {
            let mut begun = begun(&self.inner.algebra, segment, record, code, previous)?;
            if has_planted(Planted::GenerationsMixed) {
                begun.shards.iter_mut().zip(&record.shards).for_each(|(new, old)| *new = old.clone());
            }
            let bytes_verified = match has_planted(Planted::GenerationsMixed) {
                true => 0,
                false => self.keep_sound(segment, &mut begun).await,
            };
            let recoded = match self.complete(segment, &begun).await {
                Some(recoded) => recoded,
                None => self.rewrite(segment, record, code).await?,
            };
            let mut recoded = self.proven(segment, recoded, &begun).await?;
            recoded.bytes_verified += bytes_verified;
            if recoded.reused_count > 0 {
                let shard_bytes = recoded.record.shard_bytes();
                recoded.count_saved(record.geometry.data_bytes + shard_bytes * recoded.record.shards.len() as u64);
            }
            Ok(recoded)
        })
    }

    /// Takes what is not as it should be out of a record; how many bytes were read to find out.
    async fn keep_sound(&self, segment: SegmentId, begun: &mut SegmentRecord) -> u64 {
        let health = self.verify(segment, begun).await;
        for (shard, health) in begun.shards.iter_mut().zip(&health.shards) {
            shard.take_if(|_| *health != ShardHealth::Sound);
        }
        health.bytes_verified
    }

    /// Reads back what was written, beyond what was there when it was `begun`.
    async fn proven(
        &self,
        segment: SegmentId,
        mut recoded: Recoded,
        begun: &SegmentRecord,
    ) -> Result<Recoded, RecodeError> {
        let written = recoded.record.beyond(begun);
        let written_health = self.verify(segment, &written).await;
        recoded.bytes_verified = written_health.bytes_verified;
        let is_wrong = |(index, _): &(usize, _)| written_health.shards[*index] != ShardHealth::Sound;
        let stored = |record: &SegmentRecord| record.shards.clone().into_iter().enumerate();
        let wrong = stored(&written).filter(|(_, shard)| shard.is_some()).find(is_wrong);
        if let Some((index, _)) = wrong {
            let detail = format!("{:?}", written_health.shards[index]);
            self.forget(segment, &written).await;
            return Err(RecodeError::Unverified { segment, index: ShardIndex(index as u16), detail });
        }
        Ok(recoded)
    }

    /// The record with the shards that `begun` lacks, computed from those that it has; `None`: they do not suffice, or not all
    /// could be stored.
    async fn complete(&self, segment: SegmentId, begun: &SegmentRecord) -> Option<Recoded> {
        let missing: Vec<ShardIndex> = (0u16..)
            .map(ShardIndex)
            .take(begun.shards.len())
            .filter(|i| begun.shards[i.as_usize()].is_none())
            .collect();
        let reused_count = (begun.shards.len() - missing.len()) as u64;
        let mut recoded = Recoded {
            record: SegmentRecord { generation: next_generation(begun)?, ..begun.clone() },
            reused_count,
            written_count: missing.len() as u64,
            bytes_read: 0,
            bytes_written: 0,
            bytes_verified: 0,
            bytes_saved: 0,
        };
        if reused_count == 0 {
            return None;
        }
        if !missing.is_empty() {
            let rebuilt = match self.rebuild(segment, begun, &missing).await {
                Ok(rebuilt) => rebuilt,
                Err(error) => {
                    tracing::debug!(%segment, %error, "the shards at hand do not suffice for the other code");
                    return None;
                }
            };
            (recoded.bytes_read, recoded.bytes_written) = (rebuilt.bytes_read, rebuilt.bytes_written);
            if rebuilt.placed.len() < missing.len() {
                self.forget(segment, &rebuilt.record.beyond(begun)).await;
                return None;
            }
            recoded.record = rebuilt.record;
        }
        Some(recoded)
    }

    /// Reads the data and writes every shard anew.
    async fn rewrite(&self, segment: SegmentId, record: &SegmentRecord, code: &str) -> Result<Recoded, RecodeError> {
        let used_up = || RecodeError::Record { segment, detail: USED_UP.into() };
        let generation = next_generation(record).ok_or_else(used_up)?;
        let record = Arc::new(record.clone());
        let (data, report) = self.read_bytes(segment, &record, 0..record.geometry.data_bytes).await?;
        let inner = &self.inner;
        let split = Arc::new(split_as(&inner.algebra, segment, inner.new_attempt(&record), code, vec![data])?);
        let bytes = split.object_bytes() * split.code.shape().n as u64;
        let nodes = inner.fleet.handles(inner.class);
        let _admitted = inner.admit(nodes.keys().copied(), bytes, bytes).await;
        let encoded = encode(inner, &split).await?;
        let stored = put(inner, &split, &encoded, place_now(inner, &split).await?).await?;
        let receipt = receipt(&split, &encoded, stored);
        if !receipt.missing.is_empty() {
            self.forget(segment, &receipt.record).await;
            return Err(RecodeError::Short { segment, missing_count: receipt.missing.len() });
        }
        Ok(Recoded {
            written_count: receipt.record.shards.len() as u64,
            record: SegmentRecord { generation, ..receipt.record },
            reused_count: 0,
            bytes_read: report.bytes_fetched,
            bytes_written: receipt.bytes_written,
            bytes_verified: 0,
            bytes_saved: 0,
        })
    }

    /// Removes what this attempt stored in vain, as far as nodes answer. No other attempt, and no record, has its names.
    async fn forget(&self, segment: SegmentId, stored: &SegmentRecord) {
        let place = |index: u16| {
            let index = ShardIndex(index);
            Some((stored.shard_key(segment, index)?, stored.shards[index.as_usize()].as_ref()?.node))
        };
        let written: Vec<(ShardKey, NodeId)> = (0..stored.shards.len() as u16).filter_map(place).collect();
        withdraw(&self.inner, written).await;
    }
}

/// Says of a record that it cannot be followed by another.
const USED_UP: &str = "its generations are used up";

/// Of the record that comes after this one.
fn next_generation(record: &SegmentRecord) -> Option<Generation> {
    record.generation.0.checked_add(1).map(Generation)
}

/// A segment's next record, as far as it is there already: under the new code, with the shards that may be there, and the
/// generation of the present one.
fn begun(
    algebra: &Algebra,
    segment: SegmentId,
    record: &SegmentRecord,
    code: &str,
    previous: Option<&SegmentRecord>,
) -> Result<SegmentRecord, RecodeError> {
    let refused = |detail| RecodeError::Record { segment, detail };
    let old = algebra.load_for(record).map_err(refused)?;
    let new = algebra.load(code).map_err(|detail| RecodeError::Code { code: code.into(), detail })?;
    let alike = algebra.alike(&old, &new);
    let fits = |previous: &&SegmentRecord| previous.code == code && algebra.load_for(previous).is_ok();
    let previous = previous.filter(fits);
    let recut = recut(&record.geometry, new.shape(), 1).filter(|_| alike.contains(&true));
    let geometry = match (previous, recut) {
        (Some(previous), _) => previous.geometry,
        (None, Some(recut)) => recut,
        (None, None) => geometry(new.shape(), segment, record.geometry.data_bytes)?,
    };
    let shared =
        |index: usize| (recut == Some(geometry) && alike[index]).then(|| record.shards[index].clone()).flatten();
    let taken: Vec<NodeId> = (0..new.shape().n).filter_map(shared).map(|location| location.node).collect();
    let shard = |index: usize| {
        // Since then a shared shard may have been moved to where a previous one lies: then that one is made again elsewhere.
        let kept = previous.and_then(|previous| previous.shards[index].clone());
        shared(index).or(kept.filter(|kept| !taken.contains(&kept.node)))
    };
    let shards = (0..new.shape().n).map(shard).collect();
    Ok(SegmentRecord { code: new.code.spec().into(), geometry, generation: record.generation, shards })
}
