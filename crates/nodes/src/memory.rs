//! A node in this process's memory: what the conformance suite means, in its shortest form. For tests and simulations; it
//! survives nothing.

use crate::combine::{Combination, combine_gets};
use crate::error::{NodeError, NodeErrorKind};
use crate::kind::{About, Kind, LOCAL, NodeAt};
use crate::node::{Capability, Node, NodeIdentity, Page, ShardStat, Space};
use crate::url::{NodeUrl, UrlError};
use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::{Mutex, RwLock};
use std::collections::BTreeMap;
use std::ops::{Bound, Range};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};
use weft_format::{NodeId, ShardKey, VolumeId};

/// Shards in a map.
pub struct MemoryNode {
    name: String,
    identity: NodeIdentity,
    capability: Capability,
    total_bytes: u64,
    now_ms: Box<dyn Fn() -> u64 + Send + Sync>,
    store: RwLock<Store>,
}

#[derive(Default)]
struct Store {
    shards: BTreeMap<ShardKey, Stored>,
    used_bytes: u64,
}

struct Stored {
    bytes: Bytes,
    modified_ms: u64,
}

impl MemoryNode {
    /// An empty node with room for `total_bytes`.
    pub fn new(name: impl Into<String>, identity: NodeIdentity, total_bytes: u64) -> Self {
        Self {
            name: name.into(),
            identity,
            capability: CAPABILITY,
            total_bytes,
            now_ms: Box::new(system_now_ms),
            store: RwLock::default(),
        }
    }

    /// The same node, able to combine. There is nothing to be saved by it; it shows what combining means.
    pub fn that_combines(mut self) -> Self {
        self.capability.combines = true;
        self
    }

    /// The same node, where a request costs so much, in the units of [`Capability`].
    pub fn with_request_price(mut self, request_price: u64) -> Self {
        self.capability.request_price = request_price;
        self
    }

    /// The same node with another clock, in milliseconds since the Unix epoch.
    pub fn with_clock(mut self, now_ms: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        self.now_ms = Box::new(now_ms);
        self
    }

    fn not_found(&self, key: ShardKey) -> NodeError {
        NodeError::new(NodeErrorKind::NotFound, &self.name, format!("there is no shard {key}"))
    }
}

fn system_now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_millis() as u64)
}

#[async_trait]
impl Node for MemoryNode {
    fn capability(&self) -> &Capability {
        &self.capability
    }

    async fn put(&self, key: ShardKey, parts: &[Bytes]) -> Result<(), NodeError> {
        let bytes = match parts {
            [whole] => whole.clone(),
            parts => Bytes::from(parts.concat()),
        };
        let mut store = self.store.write();
        if let Some(stored) = store.shards.get(&key) {
            let detail = || format!("shard {key} exists with other bytes; names are never used twice");
            let same = stored.bytes == bytes;
            return if same { Ok(()) } else { Err(NodeError::new(NodeErrorKind::Exists, &self.name, detail())) };
        }
        let used_bytes = store.used_bytes.saturating_add(bytes.len() as u64);
        if used_bytes > self.total_bytes {
            let detail = format!("no room for the {} bytes of shard {key}: free some space on it", bytes.len());
            return Err(NodeError::new(NodeErrorKind::Full, &self.name, detail));
        }
        store.used_bytes = used_bytes;
        store.shards.insert(key, Stored { bytes, modified_ms: (self.now_ms)() });
        Ok(())
    }

    async fn get(&self, key: ShardKey, range: Range<u64>) -> Result<Bytes, NodeError> {
        let store = self.store.read();
        let bytes = &store.shards.get(&key).ok_or_else(|| self.not_found(key))?.bytes;
        let end = range.end.min(bytes.len() as u64);
        Ok(bytes.slice(range.start.min(end) as usize..end as usize))
    }

    async fn combine(&self, key: ShardKey, combination: &Combination) -> Result<Bytes, NodeError> {
        if !self.capability.combines {
            let detail = format!("it was not made to combine, so nothing of shard {key} is");
            return Err(NodeError::new(NodeErrorKind::Unsupported, &self.name, detail));
        }
        combine_gets(self, &self.name, self.identity.volume, key, combination).await
    }

    async fn stat(&self, key: ShardKey) -> Result<ShardStat, NodeError> {
        let store = self.store.read();
        let stored = store.shards.get(&key).ok_or_else(|| self.not_found(key))?;
        Ok(ShardStat { bytes: stored.bytes.len() as u64, modified_ms: stored.modified_ms })
    }

    async fn list(&self, after: Option<ShardKey>, limit: usize) -> Result<Page, NodeError> {
        let store = self.store.read();
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let mut keys = store.shards.range((from, Bound::Unbounded)).map(|(key, _)| *key);
        let page = keys.by_ref().take(limit).collect();
        Ok(Page { keys: page, foreign: Vec::new(), more: keys.next().is_some() })
    }

    async fn remove(&self, key: ShardKey) -> Result<(), NodeError> {
        let mut store = self.store.write();
        let stored = store.shards.remove(&key).ok_or_else(|| self.not_found(key))?;
        store.used_bytes -= stored.bytes.len() as u64;
        Ok(())
    }

    async fn space(&self) -> Result<Space, NodeError> {
        let used_bytes = self.store.read().used_bytes;
        Ok(Space { total_bytes: self.total_bytes, free_bytes: self.total_bytes - used_bytes, disk: None })
    }

    async fn identity(&self) -> Result<NodeIdentity, NodeError> {
        Ok(self.identity)
    }
}

const CAPABILITY: Capability = Capability { lists_in_order: true, latency_us: 1, ..LOCAL };

/// What is known of memory.
pub static ABOUT: About = About {
    name: "memory",
    what: "this process's memory, for tests: forgotten when it ends, and no other process sees it",
    url: "memory://NAME",
    schemes: &["memory"],
    is_path: false,
    feature: None,
    is_built_in: true,
    is_lasting: false,
    capability: &CAPABILITY,
    prices_because: "as a folder, so that tests plan as they would with folders",
    durable: "nothing",
    tested_against: Some("itself"),
};

/// Room of a node in memory: enough for tests.
const MEMORY_BYTES: u64 = 256 << 20;

/// Memory as nodes.
pub struct Memories;

#[async_trait]
impl Kind for Memories {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    /// A name of letters, digits, `-` and `_`; what follows `#` is a mark that only tells addresses apart.
    fn parse(&self, scheme: &str, rest: &str) -> Result<NodeUrl, UrlError> {
        let name = rest.split_once('#').map_or(rest, |(name, _)| name);
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        if name.is_empty() || !name.bytes().all(allowed) {
            let text = "names no memory: write `memory://name`, with letters, digits, `-` and `_`";
            return Err(UrlError::Unfit(format!("`{scheme}://{rest}` {text}")));
        }
        Ok(NodeUrl::elsewhere(ABOUT.name, format!("{scheme}://{name}")))
    }

    /// The memory of this process by identity: opening a node again finds what was put.
    fn open(&self, node: &NodeAt<'_>) -> Result<Arc<dyn Node>, NodeError> {
        static NODES: Mutex<BTreeMap<(VolumeId, NodeId), Arc<MemoryNode>>> = Mutex::new(BTreeMap::new());
        let mut nodes = NODES.lock();
        let entry = nodes.entry((node.identity.volume, node.identity.node));
        let new = || Arc::new(MemoryNode::new(node.name, node.identity, MEMORY_BYTES));
        Ok(entry.or_insert_with(new).clone())
    }

    async fn create(&self, node: &NodeAt<'_>) -> Result<Arc<dyn Node>, NodeError> {
        self.open(node)
    }
}
