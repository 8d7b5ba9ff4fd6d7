//! The catalogue of segments as care sees it, kept in a volume's metadata.

use crate::nodes;
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::{Arc, Weak};
use tokio::runtime::{Handle, RuntimeFlavor};
use weft_care::{Catalogue, CatalogueError, Renewed, Summed, Surveyed};
use weft_env::Env;
use weft_format::records::{
    DamageRecord, DamagedShard, LeaseRecord, NodeRecord, Opening, OpeningsRecord, Reached, RetainedRecord,
    SegmentRecord, Succession, SumsRecord, Timestamp, Wanted,
};
use weft_format::removal::{Expired, Item, Queued, Removable};
use weft_format::{Ino, NodeId, SegmentId, ShardKey};
use weft_meta::{Access, Extent, Fence, MetaError, MetaUrl, Store, SurveyedSegment};
use weft_vfs::open::open_store;
use weft_vfs::{VfsError, Volume, merge};

/// A store opened for looking and caring.
pub struct StoreCatalogue {
    store: Arc<Store>,
    fence: Mutex<Option<Fence>>,
    files: Files,
}

/// The way in which this process may change extents of files.
enum Files {
    /// Not at all.
    Fixed,
    /// It is the owner.
    Owned(Weak<Volume>),
    /// As a short-lived owner of the metadata at this place, while the volume is not mounted.
    Free(MetaUrl),
}

/// Name of the lease for changing segments.
const LEASE: &str = "care";

impl StoreCatalogue {
    /// Of a volume whose extents do not change.
    #[must_use]
    pub fn new(store: Arc<Store>) -> Self {
        Self { store, fence: Mutex::default(), files: Files::Fixed }
    }

    /// Of a volume that this process owns.
    #[must_use]
    pub fn of_owner(volume: &Arc<Volume>) -> Self {
        Self { files: Files::Owned(Arc::downgrade(volume)), ..Self::new(volume.store().clone()) }
    }

    /// Of a volume, with the metadata at `meta`, which this process may own for a moment.
    #[must_use]
    pub fn short_lived(store: Arc<Store>, meta: &MetaUrl) -> Self {
        Self { files: Files::Free(meta.clone()), ..Self::new(store) }
    }

    /// A file's path, for people.
    fn path(&self, ino: Ino) -> Result<String, CatalogueError> {
        Ok(match self.ask(|store| store.path_of(ino))? {
            Some(path) => String::from_utf8_lossy(&path).into_owned(),
            None => format!("(inode {ino}, deleted, and open or kept)"),
        })
    }

    fn ask<T>(&self, ask: impl FnOnce(&Store) -> Result<T, MetaError>) -> Result<T, CatalogueError> {
        beside_tasks(|| ask(&self.store)).map_err(failed)
    }

    /// Makes a change durable: care may next remove all shards that the old record named.
    fn change<T>(&self, change: impl FnOnce(&Store) -> Result<T, MetaError>) -> Result<T, CatalogueError> {
        self.ask(|store| {
            let value = change(store)?;
            store.flush()?;
            Ok(value)
        })
    }

    /// A change under the lease.
    fn change_fenced<T>(
        &self,
        change: impl FnOnce(&Store, Option<&Fence>) -> Result<T, MetaError>,
    ) -> Result<T, CatalogueError> {
        let fence = self.fence.lock().clone();
        self.change(|store| change(store, fence.as_ref()))
    }
}

/// Does work that blocks. A thread that runs tasks passes the others to another thread first.
pub(crate) fn beside_tasks<T>(work: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|runtime| runtime.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
        _ => work(),
    }
}

/// Where these data bytes of an extent's segment are in its file, as far as it refers to them.
fn place(extent: &Extent, data: &Range<u64>) -> Option<Range<u64>> {
    let start = data.start.max(extent.segment_offset);
    let end = data.end.min(extent.segment_offset + extent.length);
    (start < end).then(|| {
        let first = extent.file_offset + (start - extent.segment_offset);
        first..first + (end - start)
    })
}

/// After commands that own the volume and end soon.
fn open_short_lived(meta: &MetaUrl, env: &Env) -> Result<Store, CatalogueError> {
    open_store(meta, Access::ShortLived, None, env).map_err(|error| match error {
        MetaError::InUse(by_whom) => {
            tracing::debug!(by_whom, "files stay where they are");
            CatalogueError::NotOwner
        }
        other => failed(other),
    })
}

pub(crate) fn failed(error: MetaError) -> CatalogueError {
    match error {
        MetaError::SegmentChanged(segment) => CatalogueError::Changed(segment),
        MetaError::Fenced { .. } => CatalogueError::Fenced,
        MetaError::Superseded(why) => CatalogueError::Superseded(why),
        other => CatalogueError::Failed(other.to_string()),
    }
}

fn failed_volume(error: VfsError) -> CatalogueError {
    match error {
        VfsError::Meta(error) => failed(error),
        other => CatalogueError::Failed(other.to_string()),
    }
}

fn surveyed(found: SurveyedSegment) -> Surveyed {
    let SurveyedSegment { segment, record, live_bytes, damage } = found;
    Surveyed { segment, record, live_bytes, damage: damage.unwrap_or_default() }
}

impl Catalogue for StoreCatalogue {
    fn nodes(&self) -> Result<Vec<(NodeId, NodeRecord)>, CatalogueError> {
        self.ask(|store| store.nodes())
    }

    fn forget_node(&self, node: NodeId) -> Result<(), CatalogueError> {
        // Nobody needs to own the volume to see that.
        if self.ask(|store| Ok(!store.segments_on_node(node, None, 1)?.is_empty()))? {
            return Ok(());
        }
        let forget = |store: &Store| match &self.files {
            Files::Free(meta) => nodes::forget(store, meta, node),
            Files::Fixed | Files::Owned(_) => store.remove_node(node, false),
        };
        self.change(forget).map(drop)
    }

    fn openings(&self) -> Result<OpeningsRecord, CatalogueError> {
        self.ask(|store| store.openings())
    }

    fn reached(&self) -> Result<Option<Reached>, CatalogueError> {
        self.ask(|store| store.reached())
    }

    fn renew_opening(&self) -> Result<Option<Opening>, CatalogueError> {
        self.ask(|store| store.renew_opening())
    }

    fn segment(&self, segment: SegmentId) -> Result<Option<SegmentRecord>, CatalogueError> {
        self.ask(|store| store.segment(segment))
    }

    fn survey(&self, after: Option<SegmentId>, limit: usize) -> Result<Vec<Surveyed>, CatalogueError> {
        Ok(self.ask(|store| store.survey_segments(after, limit))?.into_iter().map(surveyed).collect())
    }

    fn sums(&self) -> Result<SumsRecord, CatalogueError> {
        self.ask(Store::sums)
    }

    fn summed(
        &self,
        apart_on: &BTreeSet<NodeId>,
        listed: Option<(NodeId, usize)>,
    ) -> Result<Option<Summed>, CatalogueError> {
        let summed = self.ask(|store| store.summed(apart_on, listed))?;
        Ok(summed.map(|summed| Summed {
            sums: summed.sums,
            apart: summed.apart.into_iter().map(surveyed).collect(),
            listed: summed.listed,
        }))
    }

    fn live_bytes(&self, segment: SegmentId) -> Result<u64, CatalogueError> {
        self.ask(|store| store.live_bytes(segment))
    }

    fn replace_segment(
        &self,
        segment: SegmentId,
        expected: &SegmentRecord,
        new: &SegmentRecord,
        succession: &Succession,
    ) -> Result<(), CatalogueError> {
        self.change_fenced(|store, fence| store.replace_segment(segment, expected, new, succession, fence))
    }

    fn unreferenced(&self, after: Option<Item>, limit: usize) -> Result<Vec<Queued>, CatalogueError> {
        self.ask(|store| store.unreferenced(after, limit))
    }

    fn retained_of(&self, segment: SegmentId) -> Result<Vec<RetainedRecord>, CatalogueError> {
        self.ask(|store| store.retained_of(segment))
    }

    fn mark_going(&self, expired: Expired, expected: &RetainedRecord) -> Result<RetainedRecord, CatalogueError> {
        self.change_fenced(|store, fence| store.mark_going(expired, expected, fence))
    }

    fn drop_generation(&self, going: Removable, expected: &RetainedRecord) -> Result<(), CatalogueError> {
        self.change_fenced(|store, fence| store.drop_generation(going, expected, fence))
    }

    fn damaged(&self, after: Option<SegmentId>, limit: usize) -> Result<Vec<SegmentId>, CatalogueError> {
        self.ask(|store| store.damaged(after, limit))
    }

    fn note_damage(&self, segment: SegmentId, found: &[DamagedShard]) -> Result<(), CatalogueError> {
        self.change(|store| store.note_damage(segment, found))
    }

    fn replace_damage(
        &self,
        segment: SegmentId,
        before: Option<&DamageRecord>,
        after: Option<&DamageRecord>,
    ) -> Result<bool, CatalogueError> {
        let replace = |store: &Store| store.replace_damage(segment, before, after);
        // What is forgotten without a flush is there again after a crash, and is looked at once more.
        if after.is_some() { self.change(replace) } else { self.ask(replace) }
    }

    fn damage(&self, segment: SegmentId) -> Result<Option<DamageRecord>, CatalogueError> {
        self.ask(|store| store.damage(segment))
    }

    fn flush(&self) -> Result<(), CatalogueError> {
        self.ask(|store| store.flush())
    }

    fn drop_segment(&self, dead: Removable, expected: &SegmentRecord) -> Result<(), CatalogueError> {
        self.change_fenced(|store, fence| store.drop_segment(dead, expected, fence))
    }

    fn paths(&self, segment: SegmentId, limit: usize) -> Result<Vec<String>, CatalogueError> {
        if limit == 0 {
            return Ok(Vec::new());
        }
        let files = self.ask(|store| store.files_of_segment(segment))?;
        files.into_iter().take(limit).map(|ino| self.path(ino)).collect()
    }

    fn places(&self, segment: SegmentId, data: &[Range<u64>]) -> Result<Vec<(String, Range<u64>)>, CatalogueError> {
        let mut places = Vec::new();
        for ino in self.ask(|store| store.files_of_segment(segment))? {
            let extents = self.ask(|store| store.extents(ino, 0..u64::MAX))?;
            let of_segment = extents.iter().filter(|extent| extent.segment == segment);
            let of_file: Vec<Range<u64>> =
                of_segment.flat_map(|extent| data.iter().filter_map(|range| place(extent, range))).collect();
            if !of_file.is_empty() {
                let path = self.path(ino)?;
                places.extend(of_file.into_iter().map(|range| (path.clone(), range)));
            }
        }
        Ok(places)
    }

    fn wanted_code(&self, segment: SegmentId, now_ms: u64) -> Result<Wanted, CatalogueError> {
        let seconds = i64::try_from(now_ms / 1000).unwrap_or(i64::MAX);
        let nanoseconds = (now_ms % 1000) as u32 * 1_000_000;
        self.ask(|store| store.wanted_code(segment, Timestamp { seconds, nanoseconds }))
    }

    fn has_age_rules(&self) -> Result<bool, CatalogueError> {
        self.ask(|store| store.has_age_rules())
    }

    fn check_owner(&self) -> Result<(), CatalogueError> {
        match &self.files {
            Files::Owned(volume) if volume.strong_count() > 0 => Ok(()),
            Files::Fixed | Files::Owned(_) => Err(CatalogueError::NotOwner),
            Files::Free(meta) => beside_tasks(|| open_short_lived(meta, self.store.env())).map(drop),
        }
    }

    fn may_merge(&self, segment: SegmentId) -> Result<bool, CatalogueError> {
        self.ask(|store| merge::may_merge(store, segment))
    }

    fn new_segment(&self, created_ms: u64) -> SegmentId {
        // Metadata that cannot be read now cannot take the segment either.
        let opening = self.openings().map_or(0, |openings| openings.number());
        SegmentId::of_worker(created_ms, opening, self.store.env().rng.next_u64())
    }

    fn merge(
        &self,
        sources: &[(SegmentId, SegmentRecord)],
        merged: &(SegmentId, SegmentRecord),
    ) -> Result<(), CatalogueError> {
        let fence = self.fence.lock().clone();
        match &self.files {
            Files::Fixed => Err(CatalogueError::NotOwner),
            Files::Owned(volume) => {
                let volume = volume.upgrade().ok_or(CatalogueError::NotOwner)?;
                beside_tasks(|| volume.merge(sources, merged, fence.as_ref())).map_err(failed_volume)?;
                self.flush()
            }
            Files::Free(meta) => beside_tasks(|| {
                let store = open_short_lived(meta, self.store.env())?;
                let merged = merge::merge(&store, sources, merged, fence.as_ref());
                merged.and_then(|()| store.flush()).map_err(failed)
            }),
        }
    }

    fn aliases(&self, segment: SegmentId) -> Result<Vec<(ShardKey, SegmentId)>, CatalogueError> {
        self.ask(|store| store.aliases(segment))
    }

    fn job(&self, name: &str) -> Result<Option<Vec<u8>>, CatalogueError> {
        self.ask(|store| store.job(name))
    }

    fn set_job(&self, name: &str, record: Option<&[u8]>) -> Result<(), CatalogueError> {
        self.change(|store| store.set_job(name, record))
    }

    fn replace_job(&self, name: &str, expected: Option<&[u8]>, new: &[u8]) -> Result<bool, CatalogueError> {
        self.change(|store| store.replace_job(name, expected, new))
    }

    fn lease(&self) -> Result<Option<LeaseRecord>, CatalogueError> {
        self.ask(|store| store.lease(LEASE))
    }

    fn replace_lease(&self, expected: Option<&LeaseRecord>, new: &LeaseRecord) -> Result<bool, CatalogueError> {
        self.ask(|store| store.replace_lease(LEASE, expected, new))
    }

    fn set_fence(&self, term: Option<u64>) {
        *self.fence.lock() = term.map(|term| Fence { name: LEASE.into(), term });
    }

    fn renew_node(&self, node: NodeId) -> Result<Renewed, CatalogueError> {
        beside_tasks(|| nodes::renew(&self.store, node)).map_err(|error| CatalogueError::Failed(error.to_string()))
    }

    fn restore_node(&self, node: NodeId) -> Result<(), CatalogueError> {
        self.ask(|store| nodes::take_back(store, node)).map(drop)
    }
}

#[cfg(test)]
#[path = "catalogue_tests.rs"]
mod tests;
