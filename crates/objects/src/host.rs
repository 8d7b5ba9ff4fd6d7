//! A member's own place: its node, with a note of all that is stored there, and the answers to what others ask.

use crate::closest::closest;
use crate::index::Index;
use crate::question::{Answer, Question};
use crate::tree::{Leaf, branch};
use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::{Mutex, RwLock};
use rustix::fd::OwnedFd;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use weft_cluster::View;
use weft_format::records::{ObjectId, ObjectRecord, Stamp};
use weft_format::{NodeIdentity, ShardKey};
use weft_nodes::combine::Combination;
use weft_nodes::node::{Capability, Link, Node, Page, SHARD_BYTES_MAX, ShardStat, Space};
use weft_nodes::{NodeError, NodeErrorKind};
use weft_transfer::Rebuilt;

/// Names listed at once when a member begins.
const PAGE_KEYS: usize = 10_000;

/// Bytes that were read of versions.
pub(crate) type Reads = BTreeMap<(u64, Stamp), u64>;

/// One member's place.
pub struct Host {
    identity: NodeIdentity,
    name: String,
    node: Arc<dyn Node>,
    index: RwLock<Index>,
    /// The members as its keeper saw them last.
    view: RwLock<Option<Arc<View>>>,
    /// The place cannot be used: what was noted of it may not be there.
    is_away: AtomicBool,
    /// Since they were taken last.
    reads: Mutex<Reads>,
    /// Stores that were given up in the middle, as when a client is cut off, with the number of looks since: the place may have done them.
    unsure: Mutex<BTreeMap<ShardKey, u32>>,
    rebuilds: RebuildCounters,
}

/// What this member's keeper has rebuilt since it began, wherever the shards are.
#[derive(Debug, Default)]
struct RebuildCounters {
    shards: AtomicU64,
    bytes_read: AtomicU64,
    bytes_written: AtomicU64,
}

/// The same at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rebuilds {
    /// Shards.
    pub shards: u64,
    /// Bytes that members sent for them.
    pub bytes_read: u64,
    /// Bytes that were stored.
    pub bytes_written: u64,
}

/// A store that was given up is looked for so often, once in a round of the keeper: a place that is slow has done it by then.
const UNSURE_LOOKS: u32 = 20;

/// A store under way.
struct Storing<'h> {
    host: &'h Host,
    key: ShardKey,
    is_over: bool,
}

impl Drop for Storing<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            self.host.unsure.lock().insert(self.key, 0);
        }
    }
}

impl Host {
    /// Opens the place and reads all its records.
    ///
    /// # Errors
    /// It cannot be listed.
    pub async fn open(identity: NodeIdentity, name: &str, node: Arc<dyn Node>) -> Result<Arc<Self>, NodeError> {
        let index = RwLock::new(scan(identity, &*node).await?);
        let (name, is_away) = (name.to_owned(), AtomicBool::new(false));
        let (view, reads, unsure) = (RwLock::new(None), Mutex::default(), Mutex::default());
        let rebuilds = RebuildCounters::default();
        Ok(Arc::new(Self { identity, name, node, index, view, is_away, reads, unsure, rebuilds }))
    }

    /// Is the place there? While it is not, nothing is said of what was on it; when it is back, it is read again.
    pub(crate) async fn look_at_place(&self) -> Result<(), NodeError> {
        if let Err(error) = self.node.space().await {
            self.is_away.store(true, Ordering::Relaxed);
            return Err(error);
        }
        if self.is_away.load(Ordering::Relaxed) {
            // Until then nothing is stored, which the scan might miss.
            let found = scan(self.identity, &*self.node).await?;
            *self.index.write() = found;
            self.is_away.store(false, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Looks for what was to be stored by those who were cut off, and notes what is there.
    pub(crate) async fn look_for_unsure(&self) {
        let unsure: Vec<ShardKey> = self.unsure.lock().keys().copied().collect();
        for key in unsure {
            let is_known = match self.node.stat(key).await {
                Ok(_) if ObjectId::of(key.segment).is_data => {
                    self.index.write().add_shard(key);
                    true
                }
                Ok(_) => self.note_record(key).await,
                Err(_) => false,
            };
            let mut unsure = self.unsure.lock();
            if let Entry::Occupied(mut looks) = unsure.entry(key) {
                *looks.get_mut() += 1;
                if is_known || *looks.get() >= UNSURE_LOOKS {
                    looks.remove();
                }
            }
        }
    }

    /// Notes a record that is at the place; false: it cannot be read.
    async fn note_record(&self, key: ShardKey) -> bool {
        let Ok(object) = self.node.get(key, 0..SHARD_BYTES_MAX).await else { return false };
        match ObjectRecord::unseal(self.identity.volume, key, &object) {
            Ok(record) => self.index.write().add_record(key, record),
            Err(_) => self.index.write().add_damaged(key),
        }
        true
    }

    fn is_there(&self) -> Result<(), NodeError> {
        match self.is_away.load(Ordering::Relaxed) {
            true => {
                let why = "its place cannot be used: see its log";
                Err(NodeError::new(NodeErrorKind::Unavailable, &self.name, why))
            }
            false => Ok(()),
        }
    }

    /// Who it is.
    #[must_use]
    pub fn identity(&self) -> NodeIdentity {
        self.identity
    }

    /// The place for all who store there: what they do is noted.
    #[must_use]
    pub fn node(self: &Arc<Self>) -> Arc<dyn Node> {
        Arc::new(NotedNode { host: Arc::clone(self), counts_reads: true })
    }

    /// The place for the member's own keeper: what that reads is no reason for copies.
    #[must_use]
    pub fn node_of_keeper(self: &Arc<Self>) -> Arc<dyn Node> {
        Arc::new(NotedNode { host: Arc::clone(self), counts_reads: false })
    }

    /// How many records and shards it has.
    #[must_use]
    pub fn counts(&self) -> (usize, usize) {
        self.index.read().counts()
    }

    /// What its keeper has rebuilt since it began.
    #[must_use]
    pub fn rebuilds(&self) -> Rebuilds {
        let now = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let RebuildCounters { shards, bytes_read, bytes_written } = &self.rebuilds;
        Rebuilds { shards: now(shards), bytes_read: now(bytes_read), bytes_written: now(bytes_written) }
    }

    pub(crate) fn count_rebuilt(&self, rebuilt: &Rebuilt) {
        self.rebuilds.shards.fetch_add(rebuilt.placed.len() as u64, Ordering::Relaxed);
        self.rebuilds.bytes_read.fetch_add(rebuilt.bytes_read, Ordering::Relaxed);
        self.rebuilds.bytes_written.fetch_add(rebuilt.bytes_written, Ordering::Relaxed);
    }

    /// # Errors
    /// `Busy`: it does not know the members yet; `Unavailable`: its place is away.
    pub fn answer(&self, question: &Question) -> Result<Answer, NodeError> {
        self.is_there()?;
        Ok(match question {
            Question::Find { hash } => Answer::Found(self.index.read().find(*hash)),
            Question::List { prefix, after, limit } => {
                Answer::Listed(self.index.read().list(prefix, after, *limit as usize))
            }
            Question::Compare { asker, path } => {
                let Some(view) = self.view.read().clone() else {
                    let why = "it does not know the other members yet: ask later";
                    return Err(NodeError::new(NodeErrorKind::Busy, &self.name, why));
                };
                Answer::Compared(branch(self.shared_with(&view, weft_format::NodeId(*asker)), path))
            }
        })
    }

    /// The same for who may know of names that begin with `prefix` only.
    ///
    /// # Errors
    /// `Denied`: it is about other names, or for members; as [`Self::answer`].
    pub fn answer_within(&self, question: &Question, prefix: &str) -> Result<Answer, NodeError> {
        let is_within = match question {
            Question::Find { .. } => true,
            Question::List { prefix: wanted, .. } => wanted.starts_with(prefix),
            Question::Compare { .. } => false,
        };
        if !is_within {
            let why = format!("the grant is for names that begin with `{prefix}`");
            return Err(NodeError::new(NodeErrorKind::Denied, &self.name, why));
        }
        let mut answer = self.answer(question)?;
        if let (Question::Find { hash }, Answer::Found(found)) = (question, &mut answer) {
            let index = self.index.read();
            // Of what was given up, and of shards without a record, nobody knows a name.
            let may_tell = |stamp| {
                index
                    .record(*hash, stamp)
                    .is_none_or(|record| record.name.is_empty() || record.name.starts_with(prefix))
            };
            found.records.retain(|record| may_tell(record.stamp()));
            found.shards.retain(|shard| may_tell(ObjectId::of(shard.key().segment).stamp));
        }
        Ok(answer)
    }

    /// The name of the object that a shard or record is of; `None`: no record of its version is here.
    #[must_use]
    pub fn name_of(&self, key: ShardKey) -> Option<String> {
        let id = ObjectId::of(key.segment);
        self.read(|index| Some(index.record(id.hash, id.stamp)?.name.clone())).filter(|name| !name.is_empty())
    }

    /// The name that a record is of which is to be stored as `key`; `None`: it is none, or of no name.
    #[must_use]
    pub fn name_in(&self, key: ShardKey, object: &[u8]) -> Option<String> {
        let record = ObjectRecord::unseal(self.identity.volume, key, object).ok()?;
        Some(record.name).filter(|name| !name.is_empty())
    }

    /// From now on these are the members.
    pub(crate) fn set_view(&self, view: Arc<View>) {
        *self.view.write() = Some(view);
    }

    /// The newest versions of names that are to lie both here and at another member.
    pub(crate) fn shared_with(&self, view: &View, other: weft_format::NodeId) -> Vec<Leaf> {
        let index = self.index.read();
        let is_shared = |(leaf, width): &(Leaf, u16)| {
            let nodes = closest(view, leaf.hash, usize::from(*width)).nodes;
            nodes.contains(&other) && nodes.contains(&self.identity.node)
        };
        index.leaves().filter(is_shared).map(|(leaf, _)| leaf).collect()
    }

    /// What it has.
    pub(crate) fn read<T>(&self, look: impl FnOnce(&Index) -> T) -> T {
        look(&self.index.read())
    }

    /// What was read since this was asked last.
    pub(crate) fn take_reads(&self) -> Reads {
        std::mem::take(&mut *self.reads.lock())
    }

    /// A shard of which it had noted that it is here is not: it was lost behind the daemon's back.
    pub(crate) fn forget(&self, key: ShardKey) {
        self.index.write().forget(key);
    }

    fn refused(&self, why: impl Into<String>) -> NodeError {
        NodeError::new(NodeErrorKind::Corrupt, &self.name, why)
    }
}

/// All that is at a place.
async fn scan(identity: NodeIdentity, node: &dyn Node) -> Result<Index, NodeError> {
    let mut index = Index::default();
    let mut after = None;
    loop {
        let page = node.list(after, PAGE_KEYS).await?;
        for key in &page.keys {
            if ObjectId::of(key.segment).is_data {
                index.add_shard(*key);
                continue;
            }
            let object = node.get(*key, 0..SHARD_BYTES_MAX).await;
            let record = object.map_err(|error| error.to_string()).and_then(|object| {
                ObjectRecord::unseal(identity.volume, *key, &object).map_err(|error| error.to_string())
            });
            match record {
                Ok(record) => index.add_record(*key, record),
                // Other members have it, too.
                Err(why) => {
                    tracing::warn!(record = %key, "a record cannot be used: {why}");
                    index.add_damaged(*key);
                }
            }
        }
        after = page.keys.last().copied();
        if !page.more || after.is_none() {
            break;
        }
    }
    Ok(index)
}

/// The place, with a note of what is stored, removed and read.
struct NotedNode {
    host: Arc<Host>,
    counts_reads: bool,
}

#[async_trait]
impl Node for NotedNode {
    fn capability(&self) -> &Capability {
        self.host.node.capability()
    }

    fn shares_itself(&self) -> bool {
        self.host.node.shares_itself()
    }

    fn held_back(&self, bytes: u64) -> Duration {
        self.host.node.held_back(bytes)
    }

    async fn put(&self, key: ShardKey, parts: &[Bytes]) -> Result<(), NodeError> {
        let host = &*self.host;
        host.is_there()?;
        let record = match ObjectId::of(key.segment).is_data {
            true => None,
            false => {
                let record = ObjectRecord::unseal(host.identity.volume, key, &parts.concat());
                let none = |error| host.refused(format!("the bytes to store as record {key} are no record: {error}"));
                Some(record.map_err(none)?)
            }
        };
        let mut storing = Storing { host, key, is_over: false };
        let stored = host.node.put(key, parts).await;
        let is_unsure = |error: &NodeError| {
            matches!(error.kind, NodeErrorKind::TimedOut | NodeErrorKind::Unavailable | NodeErrorKind::Io)
        };
        storing.is_over = !stored.as_ref().is_err_and(is_unsure);
        stored?;
        match record {
            None => host.index.write().add_shard(key),
            Some(record) => host.index.write().add_record(key, record),
        }
        Ok(())
    }

    async fn get(&self, key: ShardKey, range: Range<u64>) -> Result<Bytes, NodeError> {
        let got = self.host.node.get(key, range).await?;
        let id = ObjectId::of(key.segment);
        if id.is_data && self.counts_reads {
            *self.host.reads.lock().entry((id.hash, id.stamp)).or_default() += got.len() as u64;
        }
        Ok(got)
    }

    async fn open_file(&self, key: ShardKey) -> Option<OwnedFd> {
        self.host.node.open_file(key).await
    }

    async fn combine(&self, key: ShardKey, combination: &Combination) -> Result<Bytes, NodeError> {
        self.host.node.combine(key, combination).await
    }

    fn link(&self, key: ShardKey, combination: &Combination, onward: Option<&Link>, timeout: Duration) -> Option<Link> {
        self.host.node.link(key, combination, onward, timeout)
    }

    async fn pull(&self, link: Link) -> Result<Bytes, NodeError> {
        self.host.node.pull(link).await
    }

    async fn stat(&self, key: ShardKey) -> Result<ShardStat, NodeError> {
        self.host.node.stat(key).await
    }

    async fn list(&self, after: Option<ShardKey>, limit: usize) -> Result<Page, NodeError> {
        self.host.node.list(after, limit).await
    }

    async fn remove(&self, key: ShardKey) -> Result<(), NodeError> {
        let removed = self.host.node.remove(key).await;
        if removed.is_ok() || removed.as_ref().is_err_and(|error| error.kind == NodeErrorKind::NotFound) {
            self.host.index.write().forget(key);
        }
        removed
    }

    async fn space(&self) -> Result<Space, NodeError> {
        self.host.node.space().await
    }

    async fn identity(&self) -> Result<NodeIdentity, NodeError> {
        self.host.node.identity().await
    }
}
