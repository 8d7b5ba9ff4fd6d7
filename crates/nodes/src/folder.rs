//! A folder as a node.
//!
//! ```text
//! <folder>/weft-node.json              who the folder is
//! <folder>/<xx>/<segment>.<gen>.<idx>  one file per shard; xx: the last two digits of the segment id, which are random
//! <folder>/<xx>/unfinished-...         a put under way or cut off, on file systems without unnamed temporary files
//! ```
//!
//! What it never does: follow a symbolic link below the folder, open a name that is not a formatted shard key, touch a
//! file it does not know, or say `NotFound` because the folder is away.
//!
//! Each call: `place` makes sure that the folder at the path is still this node (one `stat`), `store` does the work with
//! plain system calls, relative to the folder's descriptor. Start reading at `place.rs`.
//!
//! Threads. A call runs on the caller's thread where it cannot wait for a device, and on a blocking thread otherwise:
//! handing over costs 20-35 us, a 4 KiB read 3 us. `system/medium.rs` tells which file systems wait.

mod files;
mod layout;
mod place;
mod scan;
mod store;

pub use layout::IDENTITY_FILE;
#[cfg(feature = "foreign")]
pub(crate) use layout::{TEMPORARY_PREFIX, is_subfolder, subfolder};

use crate::calls::Calls;
use crate::error::NodeError;
use crate::kind::{self, About, Kind, LOCAL, NodeAt};
use crate::node::{Capability, Node, NodeIdentity, Page, ShardStat, Space};
use crate::system::INLINE_READ_BYTES;
use crate::system::medium::Medium;
use crate::url::{FOLDER_KIND, NodeUrl, UrlError, path_of};
use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;
pub use place::Neighbours;
use place::Place;
use rustix::fd::OwnedFd;
use scan::Scan;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use weft_format::ShardKey;

/// Longest put into a memory-backed folder done on the caller's thread; longer ones gain by running side by side.
const INLINE_PUT_BYTES: usize = 64 << 10;

/// Shards as files of a folder.
pub struct FolderNode {
    inner: Arc<Inner>,
    calls: Calls,
    capability: Capability,
}

struct Inner {
    place: Place,
    /// What is left of the last directory scan, for the pages that follow.
    scan: Mutex<Option<Scan>>,
}

impl FolderNode {
    /// Makes an existing empty folder, or a new one in an existing parent, into the node `identity`, and opens it.
    ///
    /// # Errors
    /// `Exists`: the folder is not empty, is a node already, or lies inside one; `WrongNode`: it is a node of another
    /// volume; `Unavailable`: the parent does not exist; `Denied`, `Full`, `Io`: it cannot be written.
    pub fn create(path: &Path, name: &str, identity: NodeIdentity) -> Result<Self, NodeError> {
        let node = Self::open(path, name, identity);
        place::create(&node.inner.place)?;
        Ok(node)
    }

    /// Which node is at `path`; `None` if the folder is there and is none.
    ///
    /// # Errors
    /// `Unavailable`: it is not there; `WrongNode`: its identity file is none; `Denied`, `Io`: it cannot be read.
    pub fn probe(path: &Path) -> Result<Option<NodeIdentity>, NodeError> {
        place::probe(path)
    }

    /// The node `identity` at `path`. Does no I/O: while the folder is away every call is `Unavailable`, and once it is
    /// back they work.
    pub fn open(path: &Path, name: &str, identity: NodeIdentity) -> Self {
        Self::open_among(path, name, identity, Arc::default())
    }

    /// The same; while the folder is not at `path`, it is used where one of the `neighbours` should be and it is instead.
    pub fn open_among(path: &Path, name: &str, identity: NodeIdentity, neighbours: Arc<Neighbours>) -> Self {
        let place = Place::new(path, name, identity, neighbours);
        let inner = Arc::new(Inner { place, scan: Mutex::new(None) });
        Self { inner, calls: Calls::default(), capability: LOCAL }
    }

    /// Gives the folder of the node `identity`, from which all was deleted but some of its shards, its identity file back. False: what
    /// is there is not that.
    ///
    /// # Errors
    /// `Denied`, `Full`, `Io`: it cannot be listed or written.
    pub fn put_back(path: &Path, name: &str, identity: NodeIdentity) -> Result<bool, NodeError> {
        place::put_back(&Place::new(path, name, identity, Arc::default()))
    }

    /// Runs `work` here where it cannot wait for a device, otherwise on a blocking thread.
    async fn run<T: Send + 'static>(
        &self,
        inline: bool,
        work: impl FnOnce(&Inner) -> Result<T, NodeError> + Send + 'static,
    ) -> Result<T, NodeError> {
        if inline && self.inner.place.medium() == Some(Medium::Memory) {
            return work(&self.inner);
        }
        let inner = Arc::clone(&self.inner);
        self.calls.run(self.inner.place.name(), move || work(&inner)).await
    }
}

#[async_trait]
impl Node for FolderNode {
    fn capability(&self) -> &Capability {
        &self.capability
    }

    async fn put(&self, key: ShardKey, parts: &[Bytes]) -> Result<(), NodeError> {
        let parts = parts.to_vec();
        let inline = parts.iter().map(Bytes::len).sum::<usize>() <= INLINE_PUT_BYTES;
        self.run(inline, move |inner| store::put(&inner.place, key, &parts)).await
    }

    async fn get(&self, key: ShardKey, range: Range<u64>) -> Result<Bytes, NodeError> {
        let short = range.end.saturating_sub(range.start) <= INLINE_READ_BYTES;
        if short && self.inner.place.medium() == Some(Medium::Cached) {
            // None: not in the page cache; the device must be waited for.
            if let Some(result) = store::get_cached(&self.inner.place, key, &range) {
                return result;
            }
        }
        self.run(short, move |inner| store::get(&inner.place, key, &range)).await
    }

    async fn open_file(&self, key: ShardKey) -> Option<OwnedFd> {
        self.run(true, move |inner| store::open_for_reading(&inner.place, key)).await.ok()
    }

    async fn stat(&self, key: ShardKey) -> Result<ShardStat, NodeError> {
        self.run(true, move |inner| store::stat(&inner.place, key)).await
    }

    async fn list(&self, after: Option<ShardKey>, limit: usize) -> Result<Page, NodeError> {
        self.run(false, move |inner| scan::page(&inner.place, &inner.scan, after, limit)).await
    }

    async fn remove(&self, key: ShardKey) -> Result<(), NodeError> {
        self.run(true, move |inner| store::remove(&inner.place, key)).await
    }

    async fn space(&self) -> Result<Space, NodeError> {
        self.run(true, |inner| store::space(&inner.place)).await
    }

    async fn identity(&self) -> Result<NodeIdentity, NodeError> {
        self.run(true, |inner| inner.place.identity()).await
    }
}

/// What is known of folders.
pub static ABOUT: About = About {
    name: FOLDER_KIND,
    what: "a folder of this machine, best on a disk of its own; a NAS that is mounted",
    url: "/PATH or file:///PATH",
    schemes: &["file"],
    is_path: true,
    feature: None,
    is_built_in: true,
    is_lasting: true,
    capability: &LOCAL,
    prices_because: "one KiB from a local disk is the unit, and a request costs no more",
    durable: "the file and its name are on the disk (fsync)",
    tested_against: Some("ext4, tmpfs"),
};

/// Folders as nodes. Those that one registry opened know each other: while a folder is not at its path, it is used where another of
/// them should be and it is instead.
#[derive(Default)]
pub struct Folders {
    neighbours: Arc<Neighbours>,
}

#[async_trait]
impl Kind for Folders {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn parse(&self, scheme: &str, rest: &str) -> Result<NodeUrl, UrlError> {
        Ok(NodeUrl::folder(&path_of(scheme, rest)?))
    }

    fn open(&self, node: &NodeAt<'_>) -> Result<Arc<dyn Node>, NodeError> {
        let path = node.url.local_path()?;
        self.neighbours.add(path);
        Ok(Arc::new(FolderNode::open_among(path, node.name, node.identity, self.neighbours.clone())))
    }

    async fn create(&self, node: &NodeAt<'_>) -> Result<Arc<dyn Node>, NodeError> {
        let (path, name, identity) = (node.url.local_path()?.to_owned(), node.name.to_owned(), node.identity);
        let create = move || FolderNode::create(&path, &name, identity);
        Ok(Arc::new(kind::blocking(node.name, create).await?))
    }

    async fn put_back(&self, node: &NodeAt<'_>) -> Result<bool, NodeError> {
        let (path, name, identity) = (node.url.local_path()?.to_owned(), node.name.to_owned(), node.identity);
        kind::blocking(node.name, move || FolderNode::put_back(&path, &name, identity)).await
    }

    fn probe(&self, url: &NodeUrl) -> Result<Option<NodeIdentity>, NodeError> {
        FolderNode::probe(url.local_path()?)
    }
}

#[cfg(test)]
#[path = "folder_tests.rs"]
mod tests;
