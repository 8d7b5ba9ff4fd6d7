//! A process that dies at a step of the test's choice.

use super::World;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use tokio::sync::Notify;
use weft_care::catalogue::memory::MemoryCatalogue;
use weft_care::{Catalogue, CatalogueError, Renewed, Trashed};
use weft_format::records::{
    Borrowers, DamageRecord, DamagedShard, LeaseRecord, NodeRecord, OpeningsRecord, RetiredRecord, SegmentRecord,
    Succession, Unjoined, Wanted,
};
use weft_format::{Generation, NodeId, SegmentId};
use weft_nodes::wrappers::{Fault, FaultNode};
use weft_nodes::{Node, NodeErrorKind};
use weft_transfer::Transfer;

/// Counts steps, calls of nodes and changes of the catalogue alike; after the last one allowed the process is as good as
/// dead.
struct Fuse {
    left: AtomicI64,
    dead: Notify,
}

impl Fuse {
    /// Is this step still made?
    fn burn(&self) -> bool {
        let alive = self.left.fetch_sub(1, Ordering::SeqCst) > 0;
        if !alive {
            self.dead.notify_one();
        }
        alive
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
        let fuse = Arc::new(Fuse { left: AtomicI64::new(steps), dead: Notify::new() });
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
            ended = work => ended.is_err(),
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
    fn change(&self, change: impl Fn() -> Result<(), CatalogueError>) -> Result<(), CatalogueError> {
        let alive = self.fuse.burn();
        if alive || self.after {
            change()?;
        }
        if alive { Ok(()) } else { Err(CatalogueError::Failed("dead".into())) }
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
        self.inner.openings()
    }
    fn segment(&self, segment: SegmentId) -> Result<Option<SegmentRecord>, CatalogueError> {
        self.inner.segment(segment)
    }
    fn segments(
        &self,
        after: Option<SegmentId>,
        limit: usize,
    ) -> Result<Vec<(SegmentId, SegmentRecord)>, CatalogueError> {
        self.inner.segments(after, limit)
    }
    fn live_bytes(&self, segment: SegmentId) -> Result<u64, CatalogueError> {
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
    fn retired(
        &self,
        after: Option<(SegmentId, Generation)>,
        limit: usize,
    ) -> Result<Vec<(SegmentId, RetiredRecord)>, CatalogueError> {
        self.inner.retired(after, limit)
    }
    fn retired_of(&self, segment: SegmentId) -> Result<Vec<RetiredRecord>, CatalogueError> {
        self.inner.retired_of(segment)
    }
    fn replace_retired(
        &self,
        segment: SegmentId,
        expected: &RetiredRecord,
        new: Option<&RetiredRecord>,
    ) -> Result<(), CatalogueError> {
        self.change(|| self.inner.replace_retired(segment, expected, new))
    }
    fn damaged(&self, after: Option<SegmentId>, limit: usize) -> Result<Vec<SegmentId>, CatalogueError> {
        self.inner.damaged(after, limit)
    }
    fn mark_damaged(&self, segment: SegmentId) -> Result<(), CatalogueError> {
        self.change(|| self.inner.mark_damaged(segment))
    }
    fn note_damage(&self, segment: SegmentId, found: &[DamagedShard]) -> Result<(), CatalogueError> {
        self.change(|| self.inner.note_damage(segment, found))
    }
    fn set_damage(&self, segment: SegmentId, damage: &DamageRecord) -> Result<(), CatalogueError> {
        self.change(|| self.inner.set_damage(segment, damage))
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
    fn clear_damaged(&self, segment: SegmentId) -> Result<(), CatalogueError> {
        self.change(|| self.inner.clear_damaged(segment))
    }
    fn flush(&self) -> Result<(), CatalogueError> {
        self.change(|| self.inner.flush())
    }
    fn trash(&self, before_ms: u64, after: Option<&Trashed>, limit: usize) -> Result<Vec<Trashed>, CatalogueError> {
        self.inner.trash(before_ms, after, limit)
    }
    fn drop_segment(&self, segment: SegmentId, expected: &SegmentRecord) -> Result<(), CatalogueError> {
        self.change(|| self.inner.drop_segment(segment, expected))
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
    fn may_join(&self, segment: SegmentId) -> Result<bool, CatalogueError> {
        self.inner.may_join(segment)
    }
    fn new_segment(&self, created_ms: u64) -> SegmentId {
        self.inner.new_segment(created_ms)
    }
    fn join(
        &self,
        parts: &[(SegmentId, RetiredRecord)],
        whole: &(SegmentId, SegmentRecord),
    ) -> Result<(), CatalogueError> {
        self.change(|| self.inner.join(parts, whole))
    }
    fn unjoin(&self, whole: &(SegmentId, SegmentRecord), parts: &[Unjoined]) -> Result<(), CatalogueError> {
        self.change(|| self.inner.unjoin(whole, parts))
    }
    fn borrowers(&self, part: SegmentId) -> Result<Option<Borrowers>, CatalogueError> {
        self.inner.borrowers(part)
    }
    fn parts_of(&self, whole: SegmentId) -> Result<Vec<(SegmentId, Option<u64>)>, CatalogueError> {
        self.inner.parts_of(whole)
    }
    fn job(&self, name: &str) -> Result<Option<Vec<u8>>, CatalogueError> {
        self.inner.job(name)
    }
    fn set_job(&self, name: &str, record: Option<&[u8]>) -> Result<(), CatalogueError> {
        self.change(|| self.inner.set_job(name, record))
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
