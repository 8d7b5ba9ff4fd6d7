//! The contract of a node.

use crate::combination::Combination;
use crate::error::{NodeError, NodeErrorKind};
use async_trait::async_trait;
use bytes::Bytes;
use rustix::fd::OwnedFd;
use std::any::Any;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use weft_format::ShardKey;

pub use weft_format::NodeIdentity;

/// What a node can do beyond the trait, and what it costs: data, read by planners and placement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capability {
    /// Can it compute linear combinations of its own symbols before sending?
    pub combines: bool,
    /// Reads are cheapest in multiples of this many bytes (1 where it does not matter).
    pub range_granularity_bytes: u64,
    /// Does its store list in ascending order, so that a page costs a page? Others are scanned as a whole first.
    pub lists_in_order: bool,
    /// Is a shard being put invisible until it is whole?
    pub puts_atomically: bool,
    /// Does the store itself refuse a second put of a name, also by another process?
    pub puts_conditionally: bool,
    /// Typical time to the first byte, in microseconds.
    pub latency_us: u32,
    /// Price of one request, in the units of `codes::Price`.
    pub request_price: u64,
    /// Price of one KiB sent by the node.
    pub kib_out_price: u64,
    /// Price of one KiB sent to the node.
    pub kib_in_price: u64,
}

/// Longest shard object: many times the longest that is made, and little enough to be held in memory.
pub const SHARD_BYTES_MAX: u64 = 256 << 20;

/// The slowest at which a shard moves: limits of daemons allow it, and what is slower does not move.
pub const SHARD_BYTES_PER_SECOND_MIN: u64 = 16 << 10;

/// What a node says of one shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShardStat {
    /// Length of the stored object in bytes, header and checksums included.
    pub bytes: u64,
    /// When it was stored, milliseconds since the Unix epoch, by the node's clock.
    pub modified_ms: u64,
}

/// One page of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// Keys after the one asked for, in ascending order.
    pub keys: Vec<ShardKey>,
    /// Objects in the node's store whose names are not shard names; never touched, only reported.
    pub foreign: Vec<String>,
    /// Is there more after the last key?
    pub more: bool,
}

/// Room on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// Bytes the node can hold in all.
    pub total_bytes: u64,
    /// Bytes still free for shards.
    pub free_bytes: u64,
    /// The disk they lie on, where known: nodes of one client that name the same disk share this room.
    pub disk: Option<u64>,
}

/// A request for a combination, made and signed beforehand, that another node can make in place of who asks. What it says is between
/// nodes of one kind.
#[derive(Clone)]
pub struct Link {
    shard: ShardKey,
    request: Arc<dyn Any + Send + Sync>,
}

impl Link {
    /// A request for a combination of `shard`.
    pub fn new(shard: ShardKey, request: impl Any + Send + Sync) -> Self {
        Self { shard, request: Arc::new(request) }
    }

    /// Of which shard.
    pub fn shard(&self) -> ShardKey {
        self.shard
    }

    /// What it was made of; `None`: it was made of another type.
    pub fn request<T: Any + Send + Sync>(&self) -> Option<&T> {
        self.request.downcast_ref()
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").field("shard", &self.shard).finish_non_exhaustive()
    }
}

/// Does a link of a node carry requests?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkState {
    /// The node answers over it.
    Up,
    /// It answers, at less than a quarter of the speed of its best link.
    Slow,
    /// It does not answer over it, or another one does.
    Down,
}

/// How one of the links of a node is: one of several addresses under which it is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkReport {
    /// Host and port.
    pub address: String,
    /// Does it carry requests?
    pub state: LinkState,
    /// Since when it does, or does not, milliseconds since the Unix epoch.
    pub since_ms: u64,
    /// What it carried of late; `None`: not measured yet.
    pub bytes_per_second: Option<u64>,
    /// How long a short request takes, in microseconds; `None`: not measured yet.
    pub latency_us: Option<u64>,
    /// Why it is down.
    pub why: Option<String>,
}

/// One place that stores shards.
///
/// Every method first makes sure that the node is the one it was opened as (identity), and answers [`NodeError`] with a
/// kind that tells *absent* from *unknown*. All methods may be called concurrently.
#[async_trait]
pub trait Node: Send + Sync {
    /// What it can do, and its prices.
    fn capability(&self) -> &Capability;

    /// A view of this node whose requests count as background traffic; `None`: the node does not distinguish.
    fn in_background(&self) -> Option<Arc<dyn Node>> {
        None
    }

    /// Does it see to it that the background takes no more than its share? Otherwise whoever asks does.
    fn shares_itself(&self) -> bool {
        false
    }

    /// How its links are, each asked now; nothing if it has only one way to be reached.
    async fn links(&self) -> Vec<LinkReport> {
        Vec::new()
    }

    /// How much longer a call that moves so many bytes may take because of limits on this side: the node is not at fault.
    fn held_back(&self, _bytes: u64) -> Duration {
        Duration::ZERO
    }

    /// Stores a shard durably: when it returns `Ok`, the bytes survive a power cut; when it returns an error, no shard of
    /// that name is visible. The parts are concatenated. Storing the same bytes again succeeds; other bytes are `Exists`.
    async fn put(&self, key: ShardKey, parts: &[Bytes]) -> Result<(), NodeError>;

    /// Bytes `range` of the shard object. A shard that ends earlier gives fewer bytes, not an error: the caller checks.
    async fn get(&self, key: ShardKey, range: Range<u64>) -> Result<Bytes, NodeError>;

    /// The shard's file, open for reading: short-circuit reads of a user on this machine. `None`: there is
    /// none, or [`Self::get`] can say what is wrong with it.
    async fn open_file(&self, _key: ShardKey) -> Option<OwnedFd> {
        None
    }

    /// Linear combinations of parts of the shard, computed at the node: the outputs of the first part in order, then those of
    /// the next. They carry no checks. Only where [`Capability::combines`] says so; elsewhere `Unsupported`.
    async fn combine(&self, key: ShardKey, _combination: &Combination) -> Result<Bytes, NodeError> {
        Err(NodeError::new(NodeErrorKind::Unsupported, "of this kind", format!("it combines nothing of shard {key}")))
    }

    /// A request for a combination of the shard, and for `onward` added to it, that others can make in this one's place: see
    /// [`Link`]. `None`: only who opened the node can ask it.
    fn link(
        &self,
        _key: ShardKey,
        _combination: &Combination,
        _onward: Option<&Link>,
        _timeout: Duration,
    ) -> Option<Link> {
        None
    }

    /// Makes the request of a [`Self::link`] of this node. `Unsupported` also where a node further on failed: this one is not at fault.
    async fn pull(&self, link: Link) -> Result<Bytes, NodeError> {
        let detail = format!("it passes nothing on, nor of shard {}", link.shard());
        Err(NodeError::new(NodeErrorKind::Unsupported, "of this kind", detail))
    }

    /// Length and age of a shard.
    async fn stat(&self, key: ShardKey) -> Result<ShardStat, NodeError>;

    /// Up to `limit` keys after `after`, ascending. Pages that follow one another may come from one scan made for the
    /// first of them: what was stored since may be missing. Any doubt about completeness is an error.
    async fn list(&self, after: Option<ShardKey>, limit: usize) -> Result<Page, NodeError>;

    /// Removes a shard durably. A shard that is not there is `NotFound`.
    async fn remove(&self, key: ShardKey) -> Result<(), NodeError>;

    /// Room left; doubles as the health probe: it touches the store, not only the node's process.
    async fn space(&self) -> Result<Space, NodeError>;

    /// Who the node says it is, read afresh.
    async fn identity(&self) -> Result<NodeIdentity, NodeError>;
}
