//! A node of your own, and the suite that says whether it is one: `cargo run -p weft-nodes --example conformance --features conformance`.

use async_trait::async_trait;
use bytes::Bytes;
use std::collections::BTreeMap;
use std::ops::{Bound, Range};
use std::sync::{Arc, Mutex, MutexGuard};
use weft_format::{NodeId, NodeIdentity, ShardKey, VolumeId};
use weft_nodes::kinds::LOCAL;
use weft_nodes::{Capability, Node, NodeError, NodeErrorKind, Page, ShardStat, Space, conformance};

const IDENTITY: NodeIdentity = NodeIdentity { volume: VolumeId(1), node: NodeId(2) };
const TOTAL_BYTES: u64 = 1 << 30;

/// Shards in a map. It survives nothing, which the suite cannot see.
#[derive(Default)]
struct MyNode(Mutex<BTreeMap<ShardKey, Bytes>>);

impl MyNode {
    fn shards(&self) -> MutexGuard<'_, BTreeMap<ShardKey, Bytes>> {
        self.0.lock().expect("nobody panics with it")
    }

    fn shard(&self, key: ShardKey) -> Result<Bytes, NodeError> {
        self.shards().get(&key).cloned().ok_or_else(|| absent(key))
    }
}

fn absent(key: ShardKey) -> NodeError {
    NodeError::new(NodeErrorKind::NotFound, "mine", format!("it has no shard {key}"))
}

#[async_trait]
impl Node for MyNode {
    fn capability(&self) -> &Capability {
        &LOCAL
    }

    async fn put(&self, key: ShardKey, parts: &[Bytes]) -> Result<(), NodeError> {
        let bytes = Bytes::from(parts.concat());
        let stored = self.shards().entry(key).or_insert_with(|| bytes.clone()).clone();
        let detail = format!("shard {key} is there with other bytes: store it under another name");
        if stored == bytes { Ok(()) } else { Err(NodeError::new(NodeErrorKind::Exists, "mine", detail)) }
    }

    async fn get(&self, key: ShardKey, range: Range<u64>) -> Result<Bytes, NodeError> {
        let bytes = self.shard(key)?;
        let end = range.end.min(bytes.len() as u64);
        Ok(bytes.slice(range.start.min(end) as usize..end as usize))
    }

    async fn stat(&self, key: ShardKey) -> Result<ShardStat, NodeError> {
        Ok(ShardStat { bytes: self.shard(key)?.len() as u64, modified_ms: 0 })
    }

    async fn list(&self, after: Option<ShardKey>, limit: usize) -> Result<Page, NodeError> {
        let shards = self.shards();
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let mut keys: Vec<ShardKey> = shards.range((from, Bound::Unbounded)).map(|(key, _)| *key).collect();
        let more = keys.len() > limit;
        keys.truncate(limit);
        Ok(Page { keys, foreign: Vec::new(), more })
    }

    async fn remove(&self, key: ShardKey) -> Result<(), NodeError> {
        self.shards().remove(&key).map(drop).ok_or_else(|| absent(key))
    }

    async fn space(&self) -> Result<Space, NodeError> {
        let used: u64 = self.shards().values().map(|bytes| bytes.len() as u64).sum();
        Ok(Space { total_bytes: TOTAL_BYTES, free_bytes: TOTAL_BYTES - used.min(TOTAL_BYTES), disk: None })
    }

    async fn identity(&self) -> Result<NodeIdentity, NodeError> {
        Ok(IDENTITY)
    }
}

#[tokio::main]
async fn main() {
    conformance::check_all(|| async { Arc::new(MyNode::default()) as Arc<dyn Node> }).await;
    println!("it is a node");
}
