//! A node whose whole shards are looked at on their way in and out, for whoever moves shards without decoding them (the
//! daemon, a copy, a scrub). Readers of ranges verify the frames themselves, against the record they read by.

use crate::combine::Combination;
use crate::error::{NodeError, NodeErrorKind};
use crate::node::{Capability, Node, NodeIdentity, Page, ShardStat, Space};
use async_trait::async_trait;
use bytes::Bytes;
use std::ops::Range;
use std::sync::Arc;
use weft_format::shard::{HEADER_BYTES, ShardError, ShardHeader, ShardIdentity, object_bytes, verify_object};
use weft_format::{ShardKey, VolumeId};

/// A node that stores and brings only intact shards of one volume.
///
/// A put of anything else is `Corrupt` and stores nothing. A get from byte 0 is checked for header and identity, and, if
/// it asked for the whole object, for length and every frame; a get from elsewhere is checked only for not being longer
/// than asked.
pub struct VerifyNode {
    node: Arc<dyn Node>,
    name: String,
    volume: VolumeId,
}

impl VerifyNode {
    /// `node`, called `name` in errors, of volume `volume`.
    pub fn new(node: Arc<dyn Node>, name: impl Into<String>, volume: VolumeId) -> Self {
        Self { node, name: name.into(), volume }
    }

    fn corrupt(&self, what: &str, key: ShardKey, error: impl std::fmt::Display) -> NodeError {
        NodeError::new(NodeErrorKind::Corrupt, &self.name, format!("{what} shard {key}: {error}"))
    }
}

/// Checks the bytes that a get of `range` from byte 0 brought.
fn check(identity: &ShardIdentity, range: &Range<u64>, bytes: &[u8]) -> Result<(), ShardError> {
    if range.end < HEADER_BYTES as u64 {
        return Ok(());
    }
    let header = ShardHeader::decode(bytes)?;
    if header.identity != *identity {
        return Err(ShardError::WrongIdentity { expected: *identity, found: header.identity });
    }
    let expected_bytes = range.end.min(object_bytes(header.geometry.payload_bytes()));
    let found_bytes = bytes.len() as u64;
    if found_bytes < expected_bytes {
        return Err(ShardError::Short { expected_bytes, found_bytes });
    }
    if range.end < object_bytes(header.geometry.payload_bytes()) {
        return Ok(());
    }
    verify_object(identity, bytes).map(|_| ())
}

#[async_trait]
impl Node for VerifyNode {
    fn capability(&self) -> &Capability {
        self.node.capability()
    }

    async fn put(&self, key: ShardKey, parts: &[Bytes]) -> Result<(), NodeError> {
        let whole = match parts {
            [whole] => whole.clone(),
            parts => Bytes::from(parts.concat()),
        };
        let identity = ShardIdentity { volume: self.volume, key };
        verify_object(&identity, &whole).map_err(|error| self.corrupt("what was to be stored as", key, error))?;
        self.node.put(key, &[whole]).await
    }

    async fn get(&self, key: ShardKey, range: Range<u64>) -> Result<Bytes, NodeError> {
        let bytes = self.node.get(key, range.clone()).await?;
        let (expected_bytes, found_bytes) = (range.end.saturating_sub(range.start), bytes.len() as u64);
        if found_bytes > expected_bytes {
            return Err(self.corrupt("reading", key, ShardError::Long { expected_bytes, found_bytes }));
        }
        if range.start == 0 {
            let identity = ShardIdentity { volume: self.volume, key };
            check(&identity, &range, &bytes).map_err(|error| self.corrupt("reading", key, error))?;
        }
        Ok(bytes)
    }

    async fn combine(&self, key: ShardKey, combination: &Combination) -> Result<Bytes, NodeError> {
        self.node.combine(key, combination).await
    }

    async fn stat(&self, key: ShardKey) -> Result<ShardStat, NodeError> {
        self.node.stat(key).await
    }

    async fn list(&self, after: Option<ShardKey>, limit: usize) -> Result<Page, NodeError> {
        self.node.list(after, limit).await
    }

    async fn remove(&self, key: ShardKey) -> Result<(), NodeError> {
        self.node.remove(key).await
    }

    async fn space(&self) -> Result<Space, NodeError> {
        self.node.space().await
    }

    async fn identity(&self) -> Result<NodeIdentity, NodeError> {
        self.node.identity().await
    }
}
