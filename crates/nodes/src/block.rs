//! A block device, or an image file, as a node: fixed slots, found by (node, offset) as in NCFS.
//!
//! Any block device will do, so also those that the kernel brings from elsewhere (iSCSI, ATA over Ethernet, NBD). The device
//! has a superblock that says who it is, a table with an entry for each slot, and the slots (`layout.rs`). The table is kept
//! in memory (`index.rs`); a shard takes as many slots as it needs, neighbours where it can.
//!
//! What it never does: say `NotFound` because the device is away, use a slot whose entry it does not understand, or leave a
//! shard half there after a crash.
//!
//! Several processes of one machine may use a device at once; several machines may not: they would not see each other's
//! changes. Start reading at `store.rs`, then `layout.rs`.

mod device;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
mod index;
mod layout;
mod store;

use crate::calls::Calls;
use crate::error::NodeError;
use crate::kind::{self, About, Kind, LOCAL, NodeAt};
use crate::node::{Capability, Node, NodeIdentity, Page, ShardStat, Space};
use crate::url::{NodeUrl, Place as Where, UrlError, path_of};
use async_trait::async_trait;
use bytes::Bytes;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use store::Place;
use weft_format::ShardKey;

/// Longest read tried on the caller's thread, as for folders.
const INLINE_GET_BYTES: u64 = 320 << 10;

/// Shards in the slots of a device.
pub struct BlockNode {
    place: Arc<Place>,
    calls: Calls,
    capability: Capability,
}

impl BlockNode {
    /// Makes a blank device or image file into the node `identity`, and opens it.
    ///
    /// # Errors
    /// `Exists`: it is not blank, or a node already; `WrongNode`: it is a node of another volume, or no device;
    /// `Unavailable`: it does not exist; `Full`: it is too small; `Denied`, `Io`: it cannot be written.
    pub fn create(path: &Path, name: &str, identity: NodeIdentity) -> Result<Self, NodeError> {
        let node = Self::open(path, name, identity);
        store::create(&node.place)?;
        Ok(node)
    }

    /// The node `identity` on the device at `path`. Does no I/O: while the device is away every call is `Unavailable`, and
    /// once it is back they work.
    pub fn open(path: &Path, name: &str, identity: NodeIdentity) -> Self {
        Self { place: Arc::new(Place::new(path, name, identity)), calls: Calls::default(), capability: CAPABILITY }
    }

    /// Which node is on the device; `None` if it is there and is none.
    ///
    /// # Errors
    /// `Unavailable`: it is not there; `WrongNode`: it is no device, or its superblocks are damaged; `Denied`, `Io`.
    pub fn probe(path: &Path) -> Result<Option<NodeIdentity>, NodeError> {
        store::probe(path)
    }

    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Place) -> Result<T, NodeError> + Send + 'static,
    ) -> Result<T, NodeError> {
        let place = Arc::clone(&self.place);
        self.calls.run(self.place.name(), move || work(&place)).await
    }
}

#[async_trait]
impl Node for BlockNode {
    fn capability(&self) -> &Capability {
        &self.capability
    }

    async fn put(&self, key: ShardKey, parts: &[Bytes]) -> Result<(), NodeError> {
        let parts = parts.to_vec();
        self.run(move |place| store::put(place, key, &parts)).await
    }

    async fn get(&self, key: ShardKey, range: Range<u64>) -> Result<Bytes, NodeError> {
        if range.end.saturating_sub(range.start) <= INLINE_GET_BYTES
            && let Some(bytes) = store::get_cached(&self.place, key, &range)
        {
            return Ok(bytes);
        }
        self.run(move |place| store::get(place, key, &range)).await
    }

    async fn stat(&self, key: ShardKey) -> Result<ShardStat, NodeError> {
        self.run(move |place| store::stat(place, key)).await
    }

    async fn list(&self, after: Option<ShardKey>, limit: usize) -> Result<Page, NodeError> {
        self.run(move |place| store::list(place, after, limit)).await
    }

    async fn remove(&self, key: ShardKey) -> Result<(), NodeError> {
        self.run(move |place| store::remove(place, key)).await
    }

    async fn space(&self) -> Result<Space, NodeError> {
        self.run(store::space).await
    }

    async fn identity(&self) -> Result<NodeIdentity, NodeError> {
        self.run(store::identity).await
    }
}

const CAPABILITY: Capability = Capability { lists_in_order: true, ..LOCAL };

/// What is known of devices.
pub static ABOUT: About = About {
    name: "block",
    what: "a block device or an image file of this machine",
    url: "block:///PATH",
    schemes: &["block"],
    is_path: true,
    feature: None,
    is_built_in: true,
    is_lasting: true,
    capability: &CAPABILITY,
    prices_because: "one KiB from a local disk is the unit, and a request costs no more",
    durable: "slot and table are on the device (fdatasync)",
    tested_against: Some("image files"),
};

/// Devices as nodes.
pub struct Blocks;

#[async_trait]
impl Kind for Blocks {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn parse(&self, scheme: &str, rest: &str) -> Result<NodeUrl, UrlError> {
        Ok(NodeUrl::local(ABOUT.name, scheme, Where::Device(path_of(scheme, rest)?)))
    }

    fn open(&self, node: &NodeAt<'_>) -> Result<Arc<dyn Node>, NodeError> {
        Ok(Arc::new(BlockNode::open(node.url.local_path()?, node.name, node.identity)))
    }

    async fn create(&self, node: &NodeAt<'_>) -> Result<Arc<dyn Node>, NodeError> {
        let (path, name, identity) = (node.url.local_path()?.to_owned(), node.name.to_owned(), node.identity);
        let create = move || BlockNode::create(&path, &name, identity);
        Ok(Arc::new(kind::blocking(node.name, create).await?))
    }

    fn probe(&self, url: &NodeUrl) -> Result<Option<NodeIdentity>, NodeError> {
        BlockNode::probe(url.local_path()?)
    }
}

#[cfg(test)]
#[path = "block_tests.rs"]
mod tests;
