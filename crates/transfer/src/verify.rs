//! Is every shard of a segment where it should be, and sound?

use crate::in_flight::{Call, InFlight};
use crate::salvage;
use crate::soundness::{check_frames, merged, unsound};
use crate::suspect::SuspectKind;
use crate::transfer::{Inner, Transfer};
use bytes::Bytes;
use std::ops::Range;
use std::sync::Arc;
use weft_format::records::{SegmentRecord, ShardLocation};
use weft_format::shard::{
    CHECK_BYTES, Digest, FRAME_PAYLOAD_BYTES, HEADER_BYTES, ShardHeader, ShardIdentity, frame_count, verify_object,
};
use weft_format::{NodeId, SegmentId, ShardKey};
use weft_nodes::{Node, NodeError, NodeErrorKind};

/// The state of one shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShardHealth {
    /// There, and as the record says: all of it after [`Transfer::verify`], its length after [`Transfer::census`].
    Sound,
    /// The record has no place for it, or its node is up and has no such shard.
    Missing,
    /// Its node could not be asked, so nothing is known of it.
    Unknown(NodeErrorKind),
    /// There, and not as the record says.
    Damaged(Damage),
}

/// How a shard is damaged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// For people: a clause.
    pub how: String,
    /// Frames that cannot be used, ascending; the others are sound. `None`: nothing of it can.
    pub frames: Option<Vec<Range<u64>>>,
}

impl Damage {
    /// Of a shard of which nothing can be used.
    pub fn whole(how: impl Into<String>) -> Self {
        Self { how: how.into(), frames: None }
    }
}

/// The state of a segment's shards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentHealth {
    /// By shard index.
    pub shards: Vec<ShardHealth>,
    /// Bytes read and checked; 0 after a census.
    pub bytes_verified: u64,
}

impl Transfer {
    /// The digest of the shard of this name and length at a node; `None`: it cannot be read there, or is damaged.
    pub async fn digest_at(&self, node: NodeId, key: ShardKey, bytes: u64) -> Option<Digest> {
        let node = self.inner.fleet.get(node)?;
        // One more, so that a longer one is found out.
        let object = node.get(key, 0..bytes + 1).await.ok()?;
        let identity = ShardIdentity { volume: self.inner.volume, key };
        verify_object(&identity, &object).ok().map(|verified| verified.digest)
    }

    /// Reads every shard whole and checks header, frames and digest.
    pub fn verify<'a>(&'a self, segment: SegmentId, record: &'a SegmentRecord) -> Call<'a, SegmentHealth> {
        self.each_shard(segment, record, Depth::Whole)
    }

    /// Asks every node for its shard's length; reads nothing.
    pub fn census<'a>(&'a self, segment: SegmentId, record: &'a SegmentRecord) -> Call<'a, SegmentHealth> {
        self.each_shard(segment, record, Depth::Length)
    }

    fn each_shard<'a>(
        &'a self,
        segment: SegmentId,
        record: &'a SegmentRecord,
        depth: Depth,
    ) -> Call<'a, SegmentHealth> {
        Box::pin(async move {
            let mut health =
                SegmentHealth { shards: vec![ShardHealth::Missing; record.shards.len()], bytes_verified: 0 };
            if let Err(error) = record.geometry.validate() {
                let damage = Damage::whole(format!("the record is not usable: {error}"));
                health.shards.fill(ShardHealth::Damaged(damage));
                return health;
            }
            let mut checks = InFlight::new();
            for (index, key, location) in record.located(segment) {
                checks.push(index.as_usize(), Box::pin(check_shard(&self.inner, record, location, key, depth)));
            }
            while let Some((index, (shard, bytes))) = checks.next().await {
                health.shards[index] = shard;
                health.bytes_verified += bytes;
            }
            health
        })
    }
}

/// How much of a shard is looked at.
#[derive(Clone, Copy)]
enum Depth {
    Whole,
    Length,
}

/// The shard's state, and how many of its bytes were read for it.
async fn check_shard(
    inner: &Inner,
    record: &SegmentRecord,
    location: &ShardLocation,
    key: ShardKey,
    depth: Depth,
) -> (ShardHealth, u64) {
    let expected_bytes = record.shard_bytes();
    if let Depth::Length = depth {
        let stat = inner.call_while_busy(location.node, 0, |node| async move { node.stat(key).await }).await;
        let health = match stat {
            Ok(stat) if stat.bytes == expected_bytes => ShardHealth::Sound,
            Ok(stat) => {
                // The frames that are there may be sound; whoever reads them will know.
                let payload_bytes = record.geometry.payload_bytes();
                let there = stat.bytes.saturating_sub(HEADER_BYTES as u64) / (FRAME_PAYLOAD_BYTES + CHECK_BYTES) as u64;
                let count = frame_count(payload_bytes);
                let how = format!("it has {} bytes where {expected_bytes} belong", stat.bytes);
                let cut: Vec<_> = (there < count).then_some(there..count).into_iter().collect();
                ShardHealth::Damaged(Damage { how, frames: (there > 0).then_some(cut) })
            }
            Err(error) => health_of(&error),
        };
        return (health, 0);
    }
    let _admitted = inner.admit([location.node].into_iter(), expected_bytes, expected_bytes).await;
    match get_whole(inner, record, location, key).await {
        Ok(object) => (check_object(inner, record, location, key, &object), object.len() as u64),
        Err(error) if error.kind == NodeErrorKind::Io => check_parts(inner, record, location, key, &error).await,
        Err(error) => (health_of(&error), 0),
    }
}

async fn get_whole(
    inner: &Inner,
    record: &SegmentRecord,
    location: &ShardLocation,
    key: ShardKey,
) -> Result<Bytes, NodeError> {
    let expected_bytes = record.shard_bytes();
    // One byte more than there should be, to see that there is not.
    let get = |node: Arc<dyn Node>| async move { node.get(key, 0..expected_bytes + 1).await };
    inner.call_while_busy(location.node, expected_bytes, get).await
}

/// A shard that could not be read in one piece: a bad place of a disk takes some frames of it.
async fn check_parts(
    inner: &Inner,
    record: &SegmentRecord,
    location: &ShardLocation,
    key: ShardKey,
    error: &NodeError,
) -> (ShardHealth, u64) {
    let payload_bytes = record.geometry.payload_bytes();
    let (identity, count) = (ShardIdentity { volume: inner.volume, key }, frame_count(payload_bytes));
    let came = salvage::fetch(inner, location.node, key, 0..count, payload_bytes).await;
    let bytes = came.parts.iter().map(|(_, raw)| raw.len() as u64).sum();
    let mut runs: Vec<_> = came.failed.into_iter().map(|run| (run, false)).collect();
    for (frames, raw) in came.parts {
        runs.extend(check_frames(&identity, payload_bytes, frames, &raw));
    }
    match unsound(runs) {
        // The error has passed, or it is the header that cannot be read.
        Some(frames) if frames.is_empty() => match get_whole(inner, record, location, key).await {
            Ok(object) => (check_object(inner, record, location, key, &object), bytes + object.len() as u64),
            Err(again) if again.kind == NodeErrorKind::Io => {
                (ShardHealth::Damaged(Damage { how: again.detail, frames: Some(frames) }), bytes)
            }
            Err(again) => (health_of(&again), bytes),
        },
        Some(frames) => {
            (ShardHealth::Damaged(Damage { how: error.detail.clone(), frames: Some(merged(frames)) }), bytes)
        }
        None => (health_of(error), bytes),
    }
}

pub(crate) fn check_object(
    inner: &Inner,
    record: &SegmentRecord,
    location: &ShardLocation,
    key: ShardKey,
    object: &[u8],
) -> ShardHealth {
    let identity = ShardIdentity { volume: inner.volume, key };
    match verify_object(&identity, object) {
        Err(error) => {
            let payload_bytes = record.geometry.payload_bytes();
            let raw = object.get(HEADER_BYTES..).unwrap_or_default();
            let runs = check_frames(&identity, payload_bytes, 0..frame_count(payload_bytes), raw);
            ShardHealth::Damaged(Damage { how: error.to_string(), frames: unsound(runs) })
        }
        Ok(found) if !is_alike(inner, record, location, &found.header) => {
            ShardHealth::Damaged(Damage::whole("its header names another code or length than the record"))
        }
        Ok(found) if found.digest != location.digest => {
            ShardHealth::Damaged(Damage::whole("it is intact and not the bytes that the record names"))
        }
        Ok(_) => ShardHealth::Sound,
    }
}

/// Is a shard with this header what the record means? Conversions keep shards, so it may have another code and layout, in which it is the
/// same; one of another segment that was merged into this one may have any code, and of it the length and the digest say enough.
fn is_alike(inner: &Inner, record: &SegmentRecord, location: &ShardLocation, header: &ShardHeader) -> bool {
    header.geometry.payload_bytes() == record.geometry.payload_bytes()
        && (location.origin.is_some() || inner.algebra.is_shard_of(&header.code, record, header.identity.key.index))
}

fn health_of(error: &NodeError) -> ShardHealth {
    match SuspectKind::of(error.kind) {
        SuspectKind::NotFound => ShardHealth::Missing,
        SuspectKind::Unknown(kind) => ShardHealth::Unknown(kind),
        _ => ShardHealth::Damaged(Damage::whole(error.detail.clone())),
    }
}
