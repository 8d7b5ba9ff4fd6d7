//! Bringing a sound shard elsewhere: it is read whole and stored under a new name, a byte read for a byte written, where a
//! rebuild reads what the code's repair reads.

use super::attempt::Attempt;
use super::job::{Job, compare, job, new_shards};
use super::{Rebuilt, finish, put_all};
use crate::error::RebuildError;
use crate::in_flight::Call;
use crate::transfer::{Inner, Transfer};
use crate::verify::{ShardHealth, check_object};
use crate::write::encode::Object;
use std::collections::BTreeSet;
use std::sync::Arc;
use weft_format::records::{SegmentRecord, ShardLocation};
use weft_format::shard::{FRAME_PAYLOAD_BYTES, frames_range, object_bytes};
use weft_format::{NodeId, SegmentId, ShardIndex};
use weft_nodes::Node;

impl Transfer {
    /// Stores a shard on another node, which is `to` where that is said, under a new name: of a domain that has less of the
    /// segment than domains need to have. One that cannot be
    /// read as it should be is rebuilt from the others, on any other node. Overwrites nothing, removes nothing, as [`Self::rebuild`].
    ///
    /// # Errors
    /// [`RebuildError`]; the segment is as it was.
    pub fn relocate<'a>(
        &'a self,
        segment: SegmentId,
        record: &'a SegmentRecord,
        shard: ShardIndex,
        to: Option<NodeId>,
    ) -> Call<'a, Result<Rebuilt, RebuildError>> {
        Box::pin(async move {
            let job = job(&self.inner, segment, record, &[shard])?;
            let Some(location) = &record.shards[shard.as_usize()] else {
                return self.rebuild(segment, record, &[shard]).await;
            };
            let avoided = match to {
                None => [location.node].into(),
                Some(to) => self.all_but(to),
            };
            match self.copied(&job, shard, location, avoided).await? {
                Some(copied) => Ok(copied),
                None => self.rebuild_elsewhere(segment, record, &[shard], [location.node].into()).await,
            }
        })
    }

    /// Stores a shard on `to`, too, under an earlier name than it has: of copies the earliest is the one that stays. `None`: there is no
    /// such name, or it cannot be read as it should be.
    ///
    /// # Errors
    /// As [`Self::relocate`].
    pub fn copy_before<'a>(
        &'a self,
        segment: SegmentId,
        record: &'a SegmentRecord,
        shard: ShardIndex,
        to: NodeId,
    ) -> Call<'a, Result<Option<Rebuilt>, RebuildError>> {
        Box::pin(async move {
            let mut job = job(&self.inner, segment, record, &[shard])?;
            let Some(location) = &record.shards[shard.as_usize()] else { return Ok(None) };
            let Some(attempt) = self.inner.attempt_before(location) else { return Ok(None) };
            job.attempt = attempt;
            self.copied(&job, shard, location, self.all_but(to)).await
        })
    }

    fn all_but(&self, to: NodeId) -> BTreeSet<NodeId> {
        self.inner.fleet.view().members.keys().copied().filter(|node| *node != to).collect()
    }

    /// `None`: the shard cannot be had as it should be.
    async fn copied(
        &self,
        job: &Job<'_>,
        shard: ShardIndex,
        location: &ShardLocation,
        avoided: BTreeSet<NodeId>,
    ) -> Result<Option<Rebuilt>, RebuildError> {
        let stored_bytes = object_bytes(job.geometry.payload_bytes());
        let _admitted = self.inner.admit([location.node].into_iter(), 2 * stored_bytes, stored_bytes).await;
        let Some(object) = copy(&self.inner, job, shard, location).await? else { return Ok(None) };
        let effort = Attempt {
            bytes_read: stored_bytes,
            bytes_read_by_nodes: stored_bytes,
            bytes_received: stored_bytes,
            ..Attempt::default()
        };
        self.inner.charge(effort.bytes_received);
        let objects = [object];
        let stored = put_all(&self.inner, job, &objects, avoided, true).await?;
        Ok(Some(finish(job, effort, &objects, stored)))
    }
}

/// The shard under its new name; `None`: it cannot be had as it should be.
async fn copy(
    inner: &Inner,
    job: &Job<'_>,
    shard: ShardIndex,
    location: &ShardLocation,
) -> Result<Option<Object>, RebuildError> {
    let key = location.key(job.segment, shard);
    let payload_bytes = job.geometry.payload_bytes();
    // One byte more than there should be, to see that there is not.
    let asked_bytes = object_bytes(payload_bytes) + 1;
    let get = |node: Arc<dyn Node>| async move { node.get(key, 0..asked_bytes).await };
    let got = inner.call_while_busy(location.node, asked_bytes, get).await;
    let Ok(object) = got else { return Ok(None) };
    if check_object(inner, job.record, location, key, &object) != ShardHealth::Sound {
        return Ok(None);
    }
    let mut builder = new_shards(inner, job)?.remove(0);
    for start in (0..payload_bytes).step_by(FRAME_PAYLOAD_BYTES) {
        let end = payload_bytes.min(start + FRAME_PAYLOAD_BYTES as u64);
        let frame = frames_range(start..end, payload_bytes);
        let payload = &object[frame.start as usize..][..(end - start) as usize];
        builder.write(start, payload).expect("a frame lies within its shard");
    }
    let object = builder.finish();
    compare(job, std::slice::from_ref(&object))?;
    Ok(Some(object))
}
