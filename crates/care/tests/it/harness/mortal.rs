//! A process that dies at a step of the test's choice.

use super::World;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use tokio::sync::Notify;
use weft_care::catalogue::memory::MemoryCatalogue;
use weft_care::{Catalogue, CatalogueError, Renewed, Summed, Surveyed};
use weft_format::records::{
    DamageRecord, DamagedShard, LeaseRecord, NodeRecord, OpeningsRecord, RetainedRecord, SegmentRecord, Succession,
    SumsRecord, Wanted,
};
use weft_format::removal::{Expired, Item, Queued, Removable};
use weft_format::{NodeId, SegmentId, ShardKey};
use weft_nodes::wrappers::{Fault, FaultNode};
use weft_nodes::{Node, NodeErrorKind};
use weft_transfer::Transfer;

/// Counts steps, calls of nodes and changes of the catalogue alike; after the last one allowed the process is as good as
/// dead.
struct Fuse {
    left: AtomicI64,
    dead: Notify,
    /// What others do before each step.
    others: Option<Others>,
}

/// Does something that others do meanwhile.
pub type Others = Arc<dyn Fn() + Send + Sync>;

impl Fuse {
    /// Is this step still made?
    fn burn(&self) -> bool {
        self.let_others();
        let alive = self.left.fetch_sub(1, Ordering::SeqCst) > 0;
        if !alive {
            self.dead.notify_one();
        }
        alive
    }
}

impl Fuse {
    fn let_others(&self) {
        if let Some(others) = &self.others {
            others();
        }
    }
}

/// A process that is killed after so many steps: what it has the volume by.
pub struct Mortal {
    /// To nodes that answer no more, or do what they are told and do not say so, once it is dead.
    pub transfer: Transfer,
    catalogue: Arc<MortalCatalogue>,
}

impl Mortal {
    /// `after`: the last step is done, and nobody hears of it.
    pub fn new(world: &World, steps: i64, after: bool) -> Self {
        Self::among(world, steps, after, None)
    }

    /// The same, while others do something before each step, and before each look at what decides on a removal.
    pub fn among(world: &World, steps: i64, after: bool, others: Option<Others>) -> Self {
        let fuse = Arc::new(Fuse { left: AtomicI64::new(steps), dead: Notify::new(), others });
        let transfer = world.transfer_through(|_, node: Arc<dyn Node>| {
            let fuse = fuse.clone();
            let script = move |_: &_| match (fuse.burn(), after) {
                (true, _) => Fault::None,
                (false, false) => Fault::Silence,
                (false, true) => Fault::FailAfter(NodeErrorKind::Unavailable),
            };
            Arc::new(FaultNode::new(node, "mortal", Box::new(script)))
        });
        Self { transfer, catalogue: Arc::new(MortalCatalogue { inner: world.catalogue.clone(), fuse, after }) }
    }

    /// Its catalogue.
    pub fn catalogue(&self) -> Arc<dyn Catalogue> {
        self.catalogue.clone()
    }

    /// Does it die before `work` is done well?
    pub async fn kills<T, E>(&self, work: impl Future<Output = Result<T, E>>) -> bool {
        tokio::select! {
            biased;
            () = self.dead() => true,
            // What could do without the step that it did not make is done, in the same moment.
            ended = work => ended.is_err() || self.catalogue.fuse.left.load(Ordering::SeqCst) < 0,
        }
    }

    /// Returns when it has made its last step.
    pub async fn dead(&self) {
        self.catalogue.fuse.dead.notified().await;
    }
}

/// A catalogue of which the fuse cuts the changes off: before they are made, or after.
struct MortalCatalogue {
    inner: Arc<MemoryCatalogue>,
    fuse: Arc<Fuse>,
    after: bool,
}

impl MortalCatalogue {
    fn change<T>(&self, change: impl Fn() -> Result<T, CatalogueError>) -> Result<T, CatalogueError> {
        let alive = self.fuse.burn();
        let changed = if alive || self.after { Some(change()?) } else { None };
        changed.filter(|_| alive).ok_or_else(|| CatalogueError::Failed("dead".into()))
    }
}

impl Catalogue for MortalCatalogue {
    fn nodes(&self) -> Result<Vec<(NodeId, NodeRecord)>, CatalogueError> {
        self.inner.nodes()
    }
    fn forget_node(&self, node: NodeId) -> Result<(), CatalogueError> {
        self.change(|| self.inner.forget_node(node))
    }
    fn openings(&self) -> Result<OpeningsRecord, CatalogueError> {
        self.fuse.let_others();
        self.inner.openings()
    }
    fn segment(&self, segment: SegmentId) -> Result<Option<SegmentRecord>, CatalogueError> {
        self.fuse.let_others();
        self.inner.segment(segment)
    }
    fn survey(&self, after: Option<SegmentId>, limit: usize) -> Result<Vec<Surveyed>, CatalogueError> {
        self.inner.survey(after, limit)
    }
    fn sums(&self) -> Result<SumsRecord, CatalogueError> {
        self.inner.sums()
    }
    fn summed(
        &self,
        apart_on: &BTreeSet<NodeId>,
        listed: Option<(NodeId, usize)>,
    ) -> Result<Option<Summed>, CatalogueError> {
        self.inner.summed(apart_on, listed)
    }
    fn live_bytes(&self, segment: SegmentId) -> Result<u64, CatalogueError> {
        self.fuse.let_others();
        self.inner.live_bytes(segment)
    }
    fn replace_segment(
        &self,
        segment: SegmentId,
        expected: &SegmentRecord,
        new: &SegmentRecord,
        succession: &Succession,
    ) -> Result<(), CatalogueError> {
        self.change(|| self.inner.replace_segment(segment, expected, new, succession))
    }
    fn unreferenced(&self, after: Option<Item>, limit: usize) -> Result<Vec<Queued>, CatalogueError> {
        self.fuse.let_others();
        self.inner.unreferenced(after, limit)
    }
    fn retained_of(&self, segment: SegmentId) -> Result<Vec<RetainedRecord>, CatalogueError> {
        self.fuse.let_others();
        self.inner.retained_of(segment)
    }
    fn mark_going(&self, expired: Expired, expected: &RetainedRecord) -> Result<RetainedRecord, CatalogueError> {
        self.change(|| self.inner.mark_going(expired, expected))
    }
    fn drop_generation(&self, going: Removable, expected: &RetainedRecord) -> Result<(), CatalogueError> {
        self.change(|| self.inner.drop_generation(going, expected))
    }
    fn damaged(&self, after: Option<SegmentId>, limit: usize) -> Result<Vec<SegmentId>, CatalogueError> {
        self.inner.damaged(after, limit)
    }
    fn note_damage(&self, segment: SegmentId, found: &[DamagedShard]) -> Result<(), CatalogueError> {
        self.change(|| self.inner.note_damage(segment, found))
    }
    fn replace_damage(
        &self,
        segment: SegmentId,
        before: Option<&DamageRecord>,
        after: Option<&DamageRecord>,
    ) -> Result<bool, CatalogueError> {
        self.change(|| self.inner.replace_damage(segment, before, after))
    }
    fn damage(&self, segment: SegmentId) -> Result<Option<DamageRecord>, CatalogueError> {
        self.inner.damage(segment)
    }
    fn places(
        &self,
        segment: SegmentId,
        data: &[std::ops::Range<u64>],
    ) -> Result<Vec<(String, std::ops::Range<u64>)>, CatalogueError> {
        self.inner.places(segment, data)
    }
    fn flush(&self) -> Result<(), CatalogueError> {
        self.change(|| self.inner.flush())
    }
    fn drop_segment(&self, dead: Removable, expected: &SegmentRecord) -> Result<(), CatalogueError> {
        self.change(|| self.inner.drop_segment(dead, expected))
    }
    fn paths(&self, segment: SegmentId, limit: usize) -> Result<Vec<String>, CatalogueError> {
        self.inner.paths(segment, limit)
    }
    fn wanted_code(&self, segment: SegmentId, now_ms: u64) -> Result<Wanted, CatalogueError> {
        self.inner.wanted_code(segment, now_ms)
    }
    fn has_age_rules(&self) -> Result<bool, CatalogueError> {
        self.inner.has_age_rules()
    }
    fn check_owner(&self) -> Result<(), CatalogueError> {
        self.inner.check_owner()
    }
    fn may_merge(&self, segment: SegmentId) -> Result<bool, CatalogueError> {
        self.inner.may_merge(segment)
    }
    fn new_segment(&self, created_ms: u64) -> SegmentId {
        self.inner.new_segment(created_ms)
    }
    fn merge(
        &self,
        sources: &[(SegmentId, SegmentRecord)],
        merged: &(SegmentId, SegmentRecord),
    ) -> Result<(), CatalogueError> {
        self.change(|| self.inner.merge(sources, merged))
    }
    fn aliases(&self, segment: SegmentId) -> Result<Vec<(ShardKey, SegmentId)>, CatalogueError> {
        self.fuse.let_others();
        self.inner.aliases(segment)
    }
    fn job(&self, name: &str) -> Result<Option<Vec<u8>>, CatalogueError> {
        self.inner.job(name)
    }
    fn set_job(&self, name: &str, record: Option<&[u8]>) -> Result<(), CatalogueError> {
        self.change(|| self.inner.set_job(name, record))
    }
    fn replace_job(&self, name: &str, expected: Option<&[u8]>, new: &[u8]) -> Result<bool, CatalogueError> {
        self.change(|| self.inner.replace_job(name, expected, new))
    }
    fn lease(&self) -> Result<Option<LeaseRecord>, CatalogueError> {
        self.inner.lease()
    }
    fn replace_lease(&self, expected: Option<&LeaseRecord>, new: &LeaseRecord) -> Result<bool, CatalogueError> {
        self.inner.replace_lease(expected, new)
    }
    fn set_fence(&self, term: Option<u64>) {
        self.inner.set_fence(term);
    }
    fn renew_node(&self, node: NodeId) -> Result<Renewed, CatalogueError> {
        self.inner.renew_node(node)
    }
    fn restore_node(&self, node: NodeId) -> Result<(), CatalogueError> {
        self.inner.restore_node(node)
    }
}
